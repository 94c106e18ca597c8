// SPDX-License-Identifier: Apache-2.0
// The producer warpgroups, which split K and V for the consumers, every second piece each: from global memory to registers, a piece ahead,
// then to shared memory as wgmma wants it, contiguous along the depth. K's depth is its columns. V's depth is the keys, so V is transposed
// on the way. The order of keys within eight is that of P's fragments: 0, 2, 4, 6, 1, 3, 5, 7. The order of V's columns is that of
// store_row_by_fours(): row 8 e + n of a piece's 32 is column 4 n + e.
//
// racecheck reports writes to one stage by different threads, one round apart. They are in order, by way of the consumers: see
// docs/kernels/attention-sm90.md, "Float32 by tf32x3".
#pragma once

#include "attention/sm90/tf32x3_shared.cuh"
#include "mma/tf32x3.cuh"

namespace attile::gpu::sm90 {

template <class Config>
class AttentionTf32x3Producer {
  public:
    __device__ __forceinline__ AttentionTf32x3Producer(const AttentionParams &p, const AttentionWorkTile &work,
                                                       const AttentionTf32x3Shared<Config> &shared, int producer)
        : shared_(shared),
          producer_(producer),
          head_dim_(p.head_dim),
          head_dim_v_(p.head_dim_v),
          read_first_(work.read_first),
          read_end_(work.read_end) {
        const int head = static_cast<int>(quotient(static_cast<uint32_t>(work.head) * p.pack.divisor, p.group));
        const auto begin = [&](const AttentionOperand &x) {
            return static_cast<const float *>(x.data) + work.batch * x.stride[0] + head * x.stride[1] + work.first_k * x.stride[2];
        };
        k_ = begin(p.k) + 4 * (lane() & 7);
        v_ = begin(p.v) + 4 * (4 * warp() + (lane() >> 3));
        k_stride_ = p.k.stride[2];
        v_stride_ = p.v.stride[2];
    }

    __device__ __forceinline__ void run(int first_tile, int end_tile) {
        // The pieces of a tile: those of K, then those of V, key by key.
        const int of_k = (head_dim_ + 31) / 32, parts = (head_dim_v_ + 63) / 64, of_tile = of_k + kKeys / 32 * parts;
        float4 x[4];
        int tile = end_tile - 1, piece = producer_;
        if (producer_ != 0) ring_.advance();
        const auto load_next = [&] {
            const int of_v = piece - of_k;
            const bool is_second = parts > 1 && (of_v & 1) != 0;
            if (piece < of_k)
                load_k(x, tile, piece);
            else
                load_v(x, tile, parts > 1 ? of_v >> 1 : of_v, is_second);
        };
        load_next();
#pragma unroll 1
        while (tile >= first_tile) {
            barrier_wait(shared_.empty(ring_.stage), ring_.parity ^ 1);
            if (piece < of_k)
                store_k(shared_.piece(ring_.stage), x);
            else
                store_v(shared_.piece(ring_.stage), x);
            async_proxy_fence();
            __syncwarp();
            if (lane() == 0) barrier_arrive(shared_.full(ring_.stage));
            ring_.advance();
            ring_.advance();
            piece += kProducers;
            if (piece >= of_tile) {
                piece -= of_tile;
                --tile;
            }
            if (tile >= first_tile) load_next();
        }
    }

  private:
    static constexpr int kKeys = Config::kShape.keys, kProducers = Config::kShape.producers;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpThreads % 4; }
    // Loads 16 bytes of each row of the operand. What nobody may read becomes zeros.
    __device__ __forceinline__ void load_k(float4 (&x)[4], int tile, int piece) const {
        load<16>(x, k_ + 32 * piece, k_stride_, kKeys * tile + 4 * warp() + (lane() >> 3), 32 * piece + 4 * (lane() & 7) < head_dim_);
    }
    __device__ __forceinline__ void load_v(float4 (&x)[4], int tile, int part, bool is_second) const {
        const int column = is_second ? 64 : 0;
        load<2>(x, v_ + column, v_stride_, kKeys * tile + 32 * part + 8 * (lane() >> 1 & 3) + (lane() & 1),
                column + 4 * (4 * warp() + (lane() >> 3)) < head_dim_v_);
    }
    template <int kStep>
    __device__ __forceinline__ void load(float4 (&x)[4], const float *from, int64_t stride, int key, bool has_columns) const {
        from += key * stride;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int at = key + j * kStep;
            x[j] = make_float4(0, 0, 0, 0);
            if (has_columns && at >= read_first_ && at < read_end_)
                x[j] = __ldg(reinterpret_cast<const float4 *>(from + j * kStep * stride));
        }
    }
    static __device__ __forceinline__ void store_parts(uint32_t to, float a, float b, float c, float d) {
        const uint32_t x[4] = {__float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(d)};
        uint32_t high[4], low[4];
        tf32x3_parts(x, high, low);
        store_shared(to, high);
        store_shared(to + Config::kShape.kPieceBytes / 2, low);
    }
    static __device__ __forceinline__ void store_k(uint32_t piece, const float4 (&x)[4]) {
        const int key = 4 * warp() + (lane() >> 3), chunk = lane() & 7;
#pragma unroll
        for (int j = 0; j < 4; ++j)  // Sixteen keys apart, so that the swizzle is the same for all.
            store_parts(piece + (key + 16 * j) * 128 + ((chunk ^ (key & 7)) << 4), x[j].x, x[j].y, x[j].z, x[j].w);
    }
    static __device__ __forceinline__ void store_v(uint32_t piece, const float4 (&x)[4]) {
        const int four = 4 * warp() + (lane() >> 3), chunk = lane() & 7, row = 32 * (four >> 3) + (four & 7);
        const uint32_t to = piece + row * 128 + ((chunk ^ (row & 7)) << 4);
        store_parts(to, x[0].x, x[1].x, x[2].x, x[3].x);
        store_parts(to + 8 * 128, x[0].y, x[1].y, x[2].y, x[3].y);
        store_parts(to + 16 * 128, x[0].z, x[1].z, x[2].z, x[3].z);
        store_parts(to + 24 * 128, x[0].w, x[1].w, x[2].w, x[3].w);
    }

    const AttentionTf32x3Shared<Config> &shared_;
    const int producer_;
    const float *k_, *v_;
    int64_t k_stride_, v_stride_;
    const int head_dim_, head_dim_v_, read_first_, read_end_;
    Ring<Config::kShape.pieces> ring_;
};

}  // namespace attile::gpu::sm90

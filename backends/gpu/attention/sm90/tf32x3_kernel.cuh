// SPDX-License-Identifier: Apache-2.0
// Attention forward in float32 by tf32x3 (mma/tf32x3.cuh) with wgmma: o = softmax(scale q k^T) v for a tile of 128 rows a block. Two
// producer warpgroups split K and V, once for all rows, into pieces: 32 columns of K or 32 keys of V. Two consumer warpgroups of 64 rows
// each make twelve products of 64x64x8 of a piece, and add their sums to the running ones by ordinary arithmetic. Q is split in registers,
// again for every tile, since both its parts would not fit shared memory beside K's and V's.
//
// A row that meets an infinity, a NaN or a number too large to be split comes out as NaN; it is computed again after the last key
// (attention/sm90/tf32x3_repair.cuh). Tiles, budget and bound: attention/sm90/instances.cmake.
#pragma once

#include "attention/mma/output.cuh"
#include "attention/mma/queries.cuh"
#include "attention/mma/softmax.cuh"
#include "attention/sm90/arguments.h"
#include "attention/sm90/tf32x3_producer.cuh"
#include "attention/sm90/tf32x3_product.cuh"
#include "attention/sm90/tf32x3_repair.cuh"

namespace attile::gpu::sm90 {

template <class Config>
class AttentionTf32x3Warpgroup {
  public:
    __device__ __forceinline__ AttentionTf32x3Warpgroup(const AttentionParams &p, const AttentionWorkTile &work,
                                                        const AttentionTf32x3Shared<Config> &shared, int group)
        : p_(p), work_(work), shared_(shared), group_(group) {
        first_tile_ = warp_uniform(work.first_tile);
        end_tile_ = warp_uniform(work.end_tile);
        group_end_ = warp_uniform(work.group_end[group]);
        full_first_ = warp_uniform(work.full_first[group]);
        full_end_ = warp_uniform(work.full_end[group]);
    }

    __device__ __forceinline__ void run() {
        rows_.begin();
#pragma unroll
        for (float &x : o_) x = 0;
        const int hidden = (end_tile_ - group_end_) * pieces_there();
#pragma unroll 1
        for (int i = 0; i < hidden; ++i) {
            wait_piece();
            release_piece();
        }
#pragma unroll 1
        for (int tile = group_end_ - 1; tile >= first_tile_; --tile) {
            multiply_scores();
            softmax(tile);
            multiply_values();
        }
        store();
    }

  private:
    static constexpr int kKeys = Config::kShape.keys, kDepth = Config::kShape.depth, kColumns = Config::kShape.columns;
    static constexpr int kSteps = 4;  // Of a product's depth, eight each.
    static constexpr int kPart = Config::kShape.kPieceRows, kParts = kColumns / kPart, kPanels = kKeys / (8 * kSteps);
    using Rows = SharedRows<2 * kDepth>;
    using Softmax = RowSoftmax<float, kKeys / 2, ExactSoftmaxRange<float>>;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
    static __device__ __forceinline__ int warp_row() { return static_cast<int>(threadIdx.x) / kWarpThreads * 16; }  // Of the block.
    // The thread has this row and the one eight below.
    __device__ __forceinline__ int row() const { return work_.first_row + warp_row() + lane() / 4; }

    __device__ __forceinline__ int pieces_there() const { return (p_.head_dim + 31) / 32 + (p_.head_dim_v + kPart - 1) / kPart * kPanels; }
    __device__ __forceinline__ void wait_piece() const {
        barrier_wait(shared_.full(ring_.stage), ring_.parity);
        __syncwarp();
    }
    __device__ __forceinline__ void release_piece() {
        __syncwarp();
        if (lane() == 0) barrier_arrive(shared_.empty(ring_.stage));
        ring_.advance();
    }
    __device__ __forceinline__ void issue(Tf32x3Rows<kSteps> &a) {
        wait_piece();
        multiply_piece(part_, a, shared_.piece(ring_.stage), Config::kShape.kPieceBytes / 2);
    }
    __device__ __forceinline__ void await() {
        product_wait<0>();
        keep_in_registers(part_);
        release_piece();
    }

    // Splits 32 columns of the warp's rows of Q.
    __device__ __forceinline__ void query_parts(Tf32x3Rows<kSteps> &a, int panel) const {
        const uint32_t q = shared_.q + Rows::at(warp_row() + (lane() & 15), lane() >> 4);
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            uint32_t x[4];
            load_matrices(x, Rows::step(q, 2 * (kSteps * panel + s)));
            tf32x3_parts(x, a.high[s], a.low[s]);
        }
        keep_in_registers(a);
    }
    // Splits 32 keys of P.
    __device__ __forceinline__ void probability_parts(Tf32x3Rows<kSteps> &a, int panel) const {
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            const float *const x = s_ + 4 * (kSteps * panel + s);
            const uint32_t fragment[4] = {__float_as_uint(x[0]), __float_as_uint(x[2]), __float_as_uint(x[1]), __float_as_uint(x[3])};
            tf32x3_parts(fragment, a.high[s], a.low[s]);
        }
        keep_in_registers(a);
    }
    // Scaled here and not in the exponent: if reference and score were rounded separately, huge scores would show it.
    __device__ __forceinline__ void multiply_scores() {
        Tf32x3Rows<kSteps> a;
        query_parts(a, 0);
#pragma unroll
        for (int i = 0; i < kDepth / 32; ++i) {
            if (32 * i >= p_.head_dim) break;
            issue(a);
            Tf32x3Rows<kSteps> next;
            if (i + 1 < kDepth / 32) query_parts(next, i + 1);
            await();
#pragma unroll
            for (int j = 0; j < kKeys / 2; ++j) s_[j] = i == 0 ? part_[j] * p_.scale_log2 : __builtin_fmaf(part_[j], p_.scale_log2, s_[j]);
            a = next;
        }
    }
    __device__ __forceinline__ void multiply_values() {
        Tf32x3Rows<kSteps> a;
        probability_parts(a, 0);
#pragma unroll
        for (int panel = 0; panel < kPanels; ++panel) {
            Tf32x3Rows<kSteps> next;
#pragma unroll
            for (int i = 0; i < kParts; ++i) {
                if (kPart * i >= p_.head_dim_v) break;
                issue(a);
                if (i == 0 && panel + 1 < kPanels) probability_parts(next, panel + 1);
                await();
#pragma unroll
                for (int j = 0; j < kPart / 2; ++j) o_[kPart / 2 * i + j] += part_[j];
            }
            a = next;
        }
    }

    __device__ __forceinline__ KeyRange range(int packed) const {
        return KeyRange(p_, query_row(p_, min(packed, work_.rows - 1)), work_.shift, work_.first_key, work_.len_k);
    }
    // Hides scores of keys that the thread's rows do not see.
    __device__ __forceinline__ void mask(int tile) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const KeyRange seen = range(row() + 8 * r);
            const int first = tile * kKeys + (lane() & 3) * 2, below = seen.low - first, from = seen.high - first;
#pragma unroll
            for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (8 * j + e >= from || 8 * j + e < below) s_[4 * j + 2 * r + e] = -INFINITY;
            }
        }
    }
    __device__ __forceinline__ void softmax(int tile) {
        // A NaN score makes its row_sum NaN. An infinite one would not, though the true score may be finite: tensor cores can overflow in a
        // partial sum. So infinite scores are turned into NaN by a product with zero.
        float zero[4] = {};
#pragma unroll
        for (int j = 0; j < kKeys / 2; ++j) zero[j & 3] = __builtin_fmaf(s_[j], 0.0f, zero[j & 3]);
        rows_.row_sum[0] += zero[0] + zero[1];
        rows_.row_sum[1] += zero[2] + zero[3];
        if (tile < full_first_ || tile >= full_end_) mask(tile);
        float row_max[2];
        Softmax::find_row_max(s_, row_max);
        if (__any_sync(~0u, rows_.is_passed(row_max, 1, false))) {
            rows_.move_reference(row_max, 1, false);
#pragma unroll
            for (int j = 0; j < kColumns / 2; ++j) o_[j] *= rows_.factor[j >> 1 & 1];
        }
        rows_.exact_exponentials(s_, 1);
    }

    __device__ __forceinline__ void store() {
        float total[2];
        rows_.total(total);
        unsigned faulty = 0;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            // NaN, or zero: zero where all probabilities are below float32's range, which they are not once Q is scaled first.
            const bool is_faulty =
                row() + 8 * r < work_.rows && (!(total[r] > 0) || has_faults<kColumns>(o_ + 2 * r, reciprocal_fast(total[r])));
            faulty |= rows_of_lanes(__ballot_sync(~0u, is_faulty)) << 8 * r;
            const bool is_left = (faulty >> (8 * r + lane() / 4) & 1) != 0;
            rows_.reference[r] = is_left ? 0 : rows_.reference[r];
            total[r] = is_left ? 1 : total[r];
#pragma unroll
            for (int j = 0; j < kColumns / 2; j += 4) {
                o_[j + 2 * r] = is_left ? 0 : o_[j + 2 * r];
                o_[j + 2 * r + 1] = is_left ? 0 : o_[j + 2 * r + 1];
            }
        }
        store_rows<float, kColumns, kKeys, false, false>(p_, work_, row(), o_, rows_.reference, total, rows_.rounding);
        if (warp_uniform(faulty) == 0) return;
        __syncwarp();  // The stores above come before those below.
        Tf32x3Repair<Config>(p_, work_, warp_uniform(work_.first_row + warp_row()), shared_.q + Rows::at(warp_row(), 0))
            .run(warp_uniform(faulty));
    }
    // Four lanes share a row. One bit a row: does any of its lanes have one set?
    static __device__ __forceinline__ unsigned rows_of_lanes(unsigned x) {
        x |= x >> 2;
        x = (x | x >> 1) & 0x11111111;
        x = (x | x >> 3) & 0x03030303;
        x = (x | x >> 6) & 0x000f000f;
        return (x | x >> 12) & 0xff;
    }

    const AttentionParams &p_;
    const AttentionWorkTile &work_;
    const AttentionTf32x3Shared<Config> &shared_;
    const int group_;
    int first_tile_, end_tile_, group_end_, full_first_, full_end_;
    Ring<Config::kShape.pieces> ring_;
    Softmax rows_;
    float s_[kKeys / 2], part_[kPart / 2], o_[kColumns / 2];
};

template <class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(Config::kShape.threads(), 1) attention_tf32x3_forward(const __grid_constant__ AttentionTask a) {
    static_assert(Config::kShape.shared_bytes() <= kAttentionSharedLimit, "shared memory of a block");
    extern __shared__ __align__(1024) unsigned char memory[];
    const AttentionTf32x3Shared<Config> shared(memory);
    if (threadIdx.x == 0) {
        *shared.work = work_tile_of<Config::kShape.rows(), Config::kShape.keys>(a, static_cast<int>(blockIdx.x));
        shared.init();
    }
    __syncthreads();
    const AttentionWorkTile &work = *shared.work;
    if (work.first_row >= work.rows) return;  // Of a sequence shorter than the longest.
    load_queries<Config>(a.p, work, shared.q);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    const int group = warp_uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);
    if (group >= Config::kShape.warpgroups) {
        registers_shrink<Config::kShape.producer_registers>();
        AttentionTf32x3Producer<Config>(a.p, work, shared, group - Config::kShape.warpgroups)
            .run(warp_uniform(work.first_tile), warp_uniform(work.end_tile));
    } else {
        registers_grow<Config::kShape.consumer_registers>();
        AttentionTf32x3Warpgroup<Config>(a.p, work, shared, group).run();
    }
}

}  // namespace attile::gpu::sm90

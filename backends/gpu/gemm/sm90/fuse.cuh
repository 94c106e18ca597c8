// SPDX-License-Identifier: Apache-2.0
// What is done to a warpgroup's sums while they are still in registers: activation(alpha sum + beta C + bias), in this order and with these
// roundings, as GemmEpilogue does it. Bias is one value a column (or a row) of the tile, asked for at the tile's start and shared through
// shared memory; C of 16 bits is read in whole lines where it can be, and passes through the warp's strip; else in pairs, or, where rows of
// 16 bits are not made of aligned pairs, in aligned words. It was asked for into the L2 cache at the tile's start.
#pragma once

#include "gemm/sm90/activate.cuh"
#include "gemm/sm90/arguments.h"
#include "gemm/sm90/ask_c.cuh"
#include "gemm/sm90/scales.cuh"
#include "mma/ptx.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// Four words of shared memory, on their way to D.
struct GemmFour {
    uint32_t x, y, z, w;
};
__device__ __forceinline__ GemmFour load_four(uint32_t from) {
    GemmFour v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
    return v;
}
__device__ __forceinline__ void store_four(void *to, const GemmFour &v) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// An element of the bias as it is stored. The load is issued here and waited for where it is used.
__device__ __forceinline__ uint32_t ask_bias(const GemmOutput &bias, int64_t at) {
    const char *const data = static_cast<const char *>(bias.data);
    uint32_t bits;
    if (bias.dtype == ATTILE_F32) {
        asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(bits) : "l"(__cvta_generic_to_global(data + at * 4)));
    } else {
        asm volatile("{.reg .u16 half; ld.global.nc.u16 half, [%1]; cvt.u32.u16 %0, half;}"
                     : "=r"(bits)
                     : "l"(__cvta_generic_to_global(data + at * 2)));
    }
    return bits;
}
__device__ __forceinline__ float bias_value(const GemmOutput &bias, uint32_t bits) {
    if (bias.dtype == ATTILE_F32) return __uint_as_float(bits);
    return bias.dtype == ATTILE_F16 ? widen_pair<F16>(bits).x : widen_pair<BF16>(bits).x;
}

template <class Config>
class GemmFusion {
    static constexpr int kColumns = Config::kColumns, kPairs = kColumns / 8;  // A thread has pairs of columns 8 i + 2 (lane % 4).
    static constexpr int kBarrier = 2, kThreads = Config::kRows * 2;
    static constexpr int kMostInLines = 128;  // Columns of a tile: of 256, 180 bytes spilled.

  public:
    __device__ __forceinline__ GemmFusion(const GemmArguments &p, uint32_t strips) : p_(p), strips_(strips) {}

    // At a tile's start, before its first product: asks for C and the bias. row and col: the tile's first.
    __device__ __forceinline__ void begin(uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        // Where scales change along the depth begin() comes after the products, and C was asked for before them.
        if constexpr (!Config::kGroups) gemm_ask_c<Config, Config::kRows, kColumns>(p_, batch_x, batch_y, row, col);
        if ((p_.fused & (kFusedBiasColumns | kFusedBiasRows)) == 0) return;
        const int thread = static_cast<int>(threadIdx.x) - kWarpgroupThreads;
        const int64_t first = batch_x * p_.bias.batch_x + batch_y * p_.bias.batch_y;
        if ((p_.fused & kFusedBiasColumns) != 0) {
            if (thread < kColumns && col + thread < p_.n) {
                bias_[0] = ask_bias(p_.bias, first + (col + thread) * p_.bias.col);
            }
        } else {
            const int64_t mine = row + thread / kWarpThreads * 16 + thread % kWarpThreads / 4;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                if (mine + 8 * half < p_.m) bias_[half] = ask_bias(p_.bias, first + (mine + 8 * half) * p_.bias.row);
            }
        }
    }

    // Sums, scaled; exact ones become float32. All consumer threads call it.
    template <class Sum>
    __device__ __forceinline__ void scale(const Sum (&whole)[kColumns / 2], float (&sums)[kColumns / 2], int64_t row, int64_t col) const {
        const int thread = static_cast<int>(threadIdx.x) - kWarpgroupThreads, lane = thread % kWarpThreads;
        // Asked for here, and not at the tile's start as a bias is: there are no registers for them beside the products.
        float of_column = 1, of_row[2] = {1, 1};
        if (p_.column_scale.data != nullptr && thread < kColumns && col + thread < p_.n)
            of_column = gemm_scale(p_.column_scale, col + thread);
        if (p_.row_scale.data != nullptr) {
            const int64_t mine = row + thread / kWarpThreads * 16 + lane / 4;
#pragma unroll
            for (int half = 0; half < 2; ++half)
                if (mine + 8 * half < p_.m) of_row[half] = gemm_scale(p_.row_scale, mine + 8 * half);
        }
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) sums[i] = static_cast<float>(whole[i]);
        const auto scale_rows = [&] {
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) sums[i] *= of_row[i / 2 % 2];
        };
        // A's scale first, whichever way the tile lies.
        if (p_.row_scale.data != nullptr && p_.columns_first == 0) scale_rows();
        if (p_.column_scale.data != nullptr) {
            named_sync(kBarrier, kThreads);  // The last tile's have been read.
            if (thread < kColumns) asm volatile("st.shared.f32 [%0], %1;" ::"r"(columns() + thread * 4), "f"(of_column) : "memory");
            named_sync(kBarrier, kThreads);
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                float first, second;
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(first), "=f"(second) : "r"(columns() + (8 * i + lane % 4 * 2) * 4));
                sums[4 * i] *= first, sums[4 * i + 2] *= first;
                sums[4 * i + 1] *= second, sums[4 * i + 3] *= second;
            }
        }
        if (p_.row_scale.data != nullptr && p_.columns_first != 0) scale_rows();
    }

    // After the last product; all consumer threads call it. kNarrow: D is of 16 bits. True if the sums are final: alpha is in them.
    template <bool kNarrow>
    __device__ __forceinline__ bool finish(float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row,
                                           int64_t col) const {
        if (p_.fused == 0) return false;
        // Each pass is code that a block's first tile fetches from memory, at some 100 clocks for eight instructions: what changes nothing
        // is passed over.
        const float alpha = p_.alpha;
        if (alpha != 1) {
#pragma unroll
            for (float &sum : sums) sum *= alpha;
        }
        const int thread = static_cast<int>(threadIdx.x) - kWarpgroupThreads, lane = thread % kWarpThreads;
        if ((p_.fused & kFusedC) != 0) add_c(sums, batch_x * p_.c.batch_x + batch_y * p_.c.batch_y, row, col);
        if ((p_.fused & kFusedBiasColumns) != 0) {
            named_sync(kBarrier, kThreads);  // The last tile's have been read.
            if (thread < kColumns) asm volatile("st.shared.f32 [%0], %1;" ::"r"(columns() + thread * 4), "f"(bias(0)) : "memory");
            named_sync(kBarrier, kThreads);
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                float first, second;
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(first), "=f"(second) : "r"(columns() + (8 * i + lane % 4 * 2) * 4));
                sums[4 * i] += first, sums[4 * i + 2] += first;
                sums[4 * i + 1] += second, sums[4 * i + 3] += second;
            }
        } else if ((p_.fused & kFusedBiasRows) != 0) {
            const float of_row[2] = {bias(0), bias(1)};
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) sums[i] += of_row[i / 2 % 2];
        }
        if constexpr (kNarrow) {
            with_activation(p_.activation, [&](auto kind) {
#pragma unroll
                for (float &sum : sums) sum = fast_activate<decltype(kind)::value>(sum);
            });
        } else if (p_.activation == ATTILE_ACTIVATION_RELU) {
#pragma unroll
            for (float &sum : sums) sum = fast_activate<ATTILE_ACTIVATION_RELU>(sum);
        }
        return true;
    }

  private:
    __device__ __forceinline__ uint32_t columns() const { return strips_ + Config::kStripsBytes; }
    __device__ __forceinline__ float bias(int which) const { return bias_value(p_.bias, bias_[which]); }
    // A lane's two rows of C, eight apart, from its first column on.
    struct Lines {
        const char *of[2];
        int columns;      // There are to the row's end, at most two tiles'.
        bool begins_row;  // Is the first column C's first?
    };
    // first: of the batch entry, in elements. row and col: the tile's first.
    __device__ __forceinline__ void add_c(float (&sums)[kColumns / 2], int64_t first, int64_t row, int64_t col) const {
        const int thread = static_cast<int>(threadIdx.x) - kWarpgroupThreads, lane = thread % kWarpThreads;
        const int bytes = gemm_storage_bytes(p_.c.dtype);
        // Rows beyond the last are not stored, and read as if they were others.
        const int64_t mine = min(row + thread / kWarpThreads * 16 + lane / 4, p_.m - 1), left = col + lane % 4 * 2;
        Lines c;
        c.of[0] = static_cast<const char *>(p_.c.data) + (first + mine * p_.c.row + left) * bytes;
        c.of[1] = c.of[0] + (mine + 8 < p_.m ? 8 * p_.c.row * bytes : 0);
        c.columns = static_cast<int>(min(p_.n - left, int64_t{2 * kColumns}));
        c.begins_row = left == 0;
        const bool is_followed = p_.n - col > kColumns;  // Does a row of C go on after the tile?
        if constexpr (kColumns <= kMostInLines) {
            if (c_lies_in_lines()) {
                if (p_.c.dtype == ATTILE_F16) return add_lines<F16>(sums, first, row, col);
                return add_lines<BF16>(sums, first, row, col);
            }
        }
        if (p_.c.dtype == ATTILE_F16) {
            add_narrow<F16>(sums, c, is_followed);
        } else if (p_.c.dtype == ATTILE_BF16) {
            add_narrow<BF16>(sums, c, is_followed);
        } else if ((p_.fused & kFusedUnpairedC) != 0) {
            add_single<float>(sums, c, [](float x, float y) { return make_float2(x, y); });
        } else {
            add_pairs<float2>(sums, c, [](float2 pair) { return pair; });
        }
    }
    // Do rows of C, of 16 bits, begin and end at multiples of 16 bytes?
    __device__ __forceinline__ bool c_lies_in_lines() const {
        return p_.c.dtype != ATTILE_F32 && reinterpret_cast<uintptr_t>(p_.c.data) % 16 == 0 &&
               (p_.c.row | p_.c.batch_x | p_.c.batch_y | p_.n) % 8 == 0;
    }
    // Sixteen bytes a lane, a line eight lanes: pairs of a row each would ask the L1 cache for sixteen times the lines. A warp's 16 rows
    // pass through its strip, 64 columns at a time, to where ldmatrix finds each lane's pairs.
    template <class Element>
    __device__ __forceinline__ void add_lines(float (&sums)[kColumns / 2], int64_t first, int64_t row, int64_t col) const {
        constexpr int kPieces = kColumns / 64, kRounds = 4, kRoundRows = 16 / kRounds;
        const int thread = static_cast<int>(fresh_thread()) - kWarpgroupThreads, lane = thread % kWarpThreads, r = lane / 8;
        const uint32_t strip = strips_ + thread / kWarpThreads * kGemmStripBytes;
        const int64_t mine = row + thread / kWarpThreads * 16 + r;
        const int columns = static_cast<int>(min(p_.n - col, int64_t{kColumns})) - lane % 8 * 8;
        const uint16_t *const c = static_cast<const uint16_t *>(p_.c.data) + first + col + lane % 8 * 8;
        uint4 part[2][kRounds] = {};
        const auto load = [&](int piece) {
#pragma unroll
            for (int round = 0; round < kRounds; ++round) {
                // Rows beyond the last are not stored, and read as if they were others.
                const int64_t from = min(mine + round * kRoundRows, p_.m - 1);
                if (piece * 64 < columns) part[piece % 2][round] = *reinterpret_cast<const uint4 *>(c + from * p_.c.row + piece * 64);
            }
        };
        load(0);
        __syncwarp();  // The strip has been read.
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
            if (piece + 1 < kPieces) load(piece + 1);
            const uint32_t place = strip + piece % 2 * (16 * 128);
#pragma unroll
            for (int round = 0; round < kRounds; ++round) {
                const int to = round * kRoundRows + r;
                const uint4 x = part[piece % 2][round];
                const uint32_t words[4] = {x.x, x.y, x.z, x.w};
                mma::store_shared(place + to * 128 + ((lane % 8 ^ (to & 7)) << 4), words);
            }
            __syncwarp();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                uint32_t pairs[4];
                mma::load_matrices(pairs, place + (lane & 15) * 128 + (((2 * i + (lane >> 4)) ^ (lane & 7)) << 4));
#pragma unroll
                for (int h = 0; h < 4; ++h) add_two(sums, h % 2, piece * 8 + 2 * i + h / 2, widen_pair<Element>(pairs[h]));
            }
        }
    }
    template <class Element>
    __device__ __forceinline__ void add_narrow(float (&sums)[kColumns / 2], const Lines &c, bool is_followed) const {
        const auto widen = [](uint32_t pair) { return widen_pair<Element>(pair); };
        if ((p_.fused & kFusedUnpairedC) == 0) {
            add_pairs<uint32_t>(sums, c, widen);
        } else if (is_followed) {
            add_words(sums, c, widen);
        } else {
            add_single<uint16_t>(sums, c, [&](uint32_t x, uint32_t y) { return widen(y << 16 | x); });
        }
    }
    __device__ __forceinline__ void add_two(float (&sums)[kColumns / 2], int half, int pair, float2 c) const {
        float *const two = sums + 4 * pair + 2 * half;
        two[0] = fused_multiply_add(p_.beta, c.x, two[0]);
        two[1] = fused_multiply_add(p_.beta, c.y, two[1]);
    }
    static constexpr int kAtOnce = kPairs < 8 ? kPairs : 8;  // Pairs of C that are on their way together.
    template <class Pair, class Widen>
    __device__ __forceinline__ void add_pairs(float (&sums)[kColumns / 2], const Lines &c, const Widen &widen) const {
        if (c.columns > kColumns - 8) {
            add_pairs<Pair, false>(sums, c, widen);
        } else {
            add_pairs<Pair, true>(sums, c, widen);
        }
    }
    template <class Pair, bool kCuts, class Widen>
    __device__ __forceinline__ void add_pairs(float (&sums)[kColumns / 2], const Lines &c, const Widen &widen) const {
#pragma unroll
        for (int group = 0; group < 2 * kPairs; group += kAtOnce) {
            const int half = group / kPairs, first = group % kPairs;
            Pair pairs[kAtOnce] = {};
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const int col = 8 * (first + i);
                if (kCuts && col >= c.columns) continue;
                pairs[i] = *reinterpret_cast<const Pair *>(c.of[half] + col / 2 * sizeof(Pair));
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) add_two(sums, half, first + i, widen(pairs[i]));
        }
    }
    // An element at a time. Two are made a pair after all loads of a group are issued: the compiler would wait for each at the end of its
    // branch.
    template <class Stored, class Widen>
    __device__ __forceinline__ void add_single(float (&sums)[kColumns / 2], const Lines &c, const Widen &widen) const {
#pragma unroll
        for (int group = 0; group < 2 * kPairs; group += kAtOnce) {
            const int half = group / kPairs, first = group % kPairs;
            Stored x[kAtOnce] = {}, y[kAtOnce] = {};
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const int col = 8 * (first + i);
                const Stored *const two = reinterpret_cast<const Stored *>(c.of[half]) + col;
                if (col < c.columns) x[i] = two[0];
                if (col + 1 < c.columns) y[i] = two[1];
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) add_two(sums, half, first + i, widen(x[i], y[i]));
        }
    }
    // Of 16 bits, in aligned words, where rows of C go on after the tile. In a row that begins between two words they begin an element
    // before the pairs, and the lane to the right has a pair's second element; the first of four lanes reads a word more. Nothing outside
    // of the rows is read. All lanes of a warp call it.
    template <class Widen>
    __device__ __forceinline__ void add_words(float (&sums)[kColumns / 2], const Lines &c, const Widen &widen) const {
        const int place = static_cast<int>(threadIdx.x) % 4;
        const bool is_odd = (reinterpret_cast<uintptr_t>(c.of[0]) & 2) != 0;  // Eight rows further it is the same.
        const int before = is_odd ? 2 : 0;
        const bool begins = is_odd && c.begins_row;  // Then the first word begins before the row.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const char *const from = c.of[half] - before;
            uint32_t words[kPairs + 1] = {};
#pragma unroll
            for (int i = 0; i <= kPairs; ++i) {
                if (i == 0 && begins) {
                    words[i] = *reinterpret_cast<const uint16_t *>(from + 2);
                } else if (i < kPairs || (is_odd && place == 0)) {
                    words[i] = *reinterpret_cast<const uint32_t *>(from + 16 * i);
                }
            }
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                const uint32_t mine = words[i] << (i == 0 && begins ? 16 : 0);
                const uint32_t next = __shfl_sync(~0u, place == 0 ? words[i + 1] : words[i], (place + 1) % 4, 4);
                add_two(sums, half, i, widen(__funnelshift_r(mine, next, before * 8)));
            }
        }
    }

    const GemmArguments &p_;
    const uint32_t strips_;      // Of the consumer warps; behind them a float for each column of the tile.
    uint32_t bias_[2] = {0, 0};  // Of column `thread`, or of the thread's two rows.
};

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
// Few rows of A times weights of 8 or 4 bits that lie in rows along the depth: B is read once, 16 numbers a lane at a time, and becomes
// float in registers. A warp has four columns of D, and warps of a block share their depth; A passes through
// shared memory as float, in the order in which lanes read it. Sums of a block's warps meet in shared memory, in a fixed order.
//
// Tile: 1, 2, 4, 8 or 16 rows, 512 of depth a step; 256 threads; 32768 bytes of shared memory at most. Bound: memory, or from some four
// rows on arithmetic: a number costs two instructions for its conversion and one for each row.
#include "eight_bits_word.h"
#include "gemm/block_scale_at.h"
#include "gemm/epilogue.h"
#include "gemm/narrow/kernels.h"

namespace attile::gpu::narrow {
namespace {

struct I4 {};
struct U4 {};
ATTILE_LANE_FN float word_unit(I4) { return 1; }
ATTILE_LANE_FN float word_unit(U4) { return 1; }
template <class Number>
inline constexpr int kBits = 8;
template <>
inline constexpr int kBits<I4> = 4;
template <>
inline constexpr int kBits<U4> = 4;

// Four numbers of 4 bits, from number 4 * part of a word on: as bytes first, which i4 has 8 more of.
ATTILE_LANE_FN void widen_nibbles(uint32_t word, int part, float (&to)[4], float zero) {
    const uint32_t four = word >> (part * 16);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        // As the lowest bits of 2^23.
        to[e] = __uint_as_float(0x4b000000u | (four >> (4 * e) & 15u)) - (0x1p23f + zero);
    }
}
template <class Number>
ATTILE_LANE_FN void widen_four(const uint32_t *words, int quad, float (&to)[4]) {
    if constexpr (std::is_same<Number, I4>::value)
        widen_nibbles(words[quad / 2] ^ 0x88888888u, quad % 2, to, 8);
    else if constexpr (std::is_same<Number, U4>::value)
        widen_nibbles(words[quad / 2], quad % 2, to, 0);
    else
        widen_word(Number{}, words[quad], to);
}

template <class Number_, int kRows_>
struct Config {
    using Number = Number_;
    static constexpr int kRows = kRows_, kColumns = 4;  // Of a warp.
    static constexpr int kWords = kBits<Number> / 2;    // Of a lane's 16 numbers.
    static constexpr int kSums = kRows * kColumns;
    static constexpr int kTileSteps = kRows == 1 ? 8 : 16 / kRows;  // Of 512, that fit shared memory.
    static constexpr int kShared = kTileSteps * kRows * kFewStep > kFewWarps *kSums ? kTileSteps *kRows *kFewStep : kFewWarps *kSums;
};

// Sums over a lane group by halves: each exchange halves what a lane is left with. Lane l then has sum number l / (32 / kCount), or, of
// more than 32, kCount / 32 of them from l * kCount / 32 on.
template <int kCount>
ATTILE_LANE_FN void fold_sums(float (&sum)[kCount]) {
    int left = kCount;
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        if (left > 1) {
            left /= 2;
            const bool upper = (lane_index() & step) != 0;
#pragma unroll
            for (int s = 0; s < kCount / 2; ++s) {
                if (s >= left) continue;
                sum[s] = pick(upper, sum[s + left], sum[s]) + shuffle_xor(pick(upper, sum[s], sum[s + left]), step);
            }
        } else {
            sum[0] += shuffle_xor(sum[0], step);
        }
    }
}

template <class C>
__global__ void ATTILE_LAUNCH_BOUNDS(kFewThreads, C::kRows <= 4 ? 2 : 1) multiply_few_rows(const FewRowsParams p) {
    using Number = typename C::Number;
    __shared__ __align__(16) float shared[C::kShared];
    const uint32_t entry = quotient(blockIdx.x, p.blocks_n), block_n = blockIdx.x - entry * p.blocks_n.divisor;
    const int64_t batch_x = quotient(entry, p.batch_y), batch_y = entry - batch_x * p.batch_y.divisor;
    const int lane = lane_index(), warp = lane_group_index();
    const int share = warp % p.warps_k, group = warp / p.warps_k, groups = kFewWarps / p.warps_k;
    const int64_t first_col = (static_cast<int64_t>(block_n) * groups + group) * C::kColumns;
    const int steps = static_cast<int>((p.k + kFewStep - 1) / kFewStep);
    const char *const b = static_cast<const char *>(p.b) + batch_x * p.b_batch_x + batch_y * p.b_batch_y + lane * C::kWords * 4;
    const int64_t a = batch_x * p.a_batch_x + batch_y * p.a_batch_y;
    const float *const scale = scales_of_entry(p.scale, batch_x, batch_y), *const zero = scales_of_entry(p.zero, batch_x, batch_y);
    const bool by_group = scale != nullptr && p.by_group != 0;

    float sum[C::kSums] = {};
    Vec<uint32_t, C::kWords> next[C::kColumns];
    const auto load = [&](int step) {
        const bool is_there = static_cast<int64_t>(step) * kFewStep + lane * 16 < p.k;
#pragma unroll
        for (int c = 0; c < C::kColumns; ++c) {
            next[c] = Vec<uint32_t, C::kWords>{};
            if (is_there)
                next[c] = load_vec_last<C::kWords>(reinterpret_cast<const uint32_t *>(
                    b + min(first_col + c, p.n - 1) * p.b_row + static_cast<int64_t>(step) * (kFewStep * kBits<Number> / 8)));
        }
    };
    if (share < steps) load(share);
#pragma unroll 1
    for (int tile = 0; tile < steps; tile += C::kTileSteps) {
        __syncthreads();  // The last tile has been read.
        const int tile_steps = min(C::kTileSteps, steps - tile);
        // Four of a row at a time: quad k % 16 / 4 of lane k / 16, lanes side by side.
        for (int i = static_cast<int>(threadIdx.x); i < tile_steps * C::kRows * (kFewStep / 4); i += kFewThreads) {
            const int quad = i % (kFewStep / 4), row = i / (kFewStep / 4) % C::kRows, step = i / (kFewStep / 4 * C::kRows);
            const int64_t depth = static_cast<int64_t>(tile + step) * kFewStep + quad * 4, at = a + row * p.a_row + depth * p.a_depth;
            float value[4] = {};
            if (row < p.m && depth < p.k) {  // The depth is a multiple of 16.
                if (p.a_quads != 0) {
                    gemm_read_vector(value, static_cast<const char *>(p.a), at, p.a_dtype);
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e) value[e] = gemm_read<float>(static_cast<const char *>(p.a), at + e * p.a_depth, p.a_dtype);
                }
            }
            store_vec(shared + ((step * C::kRows + row) * 4 + quad % 4) * (kLanes * 4) + quad / 4 * 4,
                      Vec<float, 4>{{value[0], value[1], value[2], value[3]}});
        }
        __syncthreads();
#pragma unroll 1
        for (int step = share; step < tile_steps; step += p.warps_k) {
            Vec<uint32_t, C::kWords> words[C::kColumns];
#pragma unroll
            for (int c = 0; c < C::kColumns; ++c) words[c] = next[c];
            const int64_t depth = min(static_cast<int64_t>(tile + step) * kFewStep + lane * 16, p.k - 16);
            float of_group[C::kColumns], from_zero[C::kColumns];
#pragma unroll
            for (int c = 0; c < C::kColumns; ++c) {
                const int64_t col = min(first_col + c, p.n - 1);
                of_group[c] = by_group ? scale_at(p.scale, scale, col, depth) : 1.0f;
                from_zero[c] = 0;
                if (std::is_same<Number, U4>::value && zero != nullptr) from_zero[c] = scale_at(p.zero, zero, col, depth);
            }
            if (tile + step + p.warps_k < steps) load(tile + step + p.warps_k);
            const float *const own = shared + step * C::kRows * kFewStep + lane * 4;
#pragma unroll
            for (int quad = 0; quad < 4; ++quad) {
                float weight[C::kColumns][4];
#pragma unroll
                for (int c = 0; c < C::kColumns; ++c) {
                    widen_four<Number>(words[c].at, quad, weight[c]);
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        if (std::is_same<Number, U4>::value) weight[c][e] -= from_zero[c];
                        weight[c][e] *= of_group[c];
                    }
                }
#pragma unroll
                for (int row = 0; row < C::kRows; ++row) {
                    const auto x = load_vec<4>(own + (row * 4 + quad) * (kLanes * 4));
#pragma unroll
                    for (int c = 0; c < C::kColumns; ++c)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            sum[row * C::kColumns + c] = fused_multiply_add(x[e], weight[c][e], sum[row * C::kColumns + c]);
                }
            }
        }
    }

    fold_sums(sum);
    __syncthreads();  // The last tile has been read.
    constexpr int kOwn = C::kSums > kLanes ? C::kSums / kLanes : 1, kCopies = C::kSums > kLanes ? 1 : kLanes / C::kSums;
#pragma unroll
    for (int s = 0; s < kOwn; ++s)
        if (lane % kCopies == 0) shared[warp * C::kSums + lane / kCopies * kOwn + s] = sum[s];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < groups * C::kSums; i += kFewThreads) {
        const int of = i / C::kSums, row = i % C::kSums / C::kColumns;
        const int64_t col = (static_cast<int64_t>(block_n) * groups + of) * C::kColumns + i % C::kColumns;
        if (row >= p.m || col >= p.n) continue;
        float value = 0;
        for (int w = 0; w < p.warps_k; ++w) value += shared[(of * p.warps_k + w) * C::kSums + i % C::kSums];
        value *= word_unit(Number{});
        if (scale != nullptr && p.by_group == 0) value *= scale_at(p.scale, scale, col, 0);
        GemmOrigin origin;
        origin.set(p, batch_x, batch_y, row, col, 0);
        const GemmEpilogue<float, FewRowsParams> epilogue(p, origin);
        epilogue.store(0, 0, p.alpha * value);
    }
}

template <class Number>
const void *kernel_for(int rows) {
    const void *const all[] = {reinterpret_cast<const void *>(&multiply_few_rows<Config<Number, 1>>),
                               reinterpret_cast<const void *>(&multiply_few_rows<Config<Number, 2>>),
                               reinterpret_cast<const void *>(&multiply_few_rows<Config<Number, 4>>),
                               reinterpret_cast<const void *>(&multiply_few_rows<Config<Number, 8>>),
                               reinterpret_cast<const void *>(&multiply_few_rows<Config<Number, 16>>)};
    return all[rows == 1 ? 0 : rows == 2 ? 1 : rows <= 4 ? 2 : rows <= 8 ? 3 : 4];
}

}  // namespace

FewRowsKernel few_rows_kernel(int32_t dtype, int64_t m) {
    FewRowsKernel kernel = {};
    const int rows = static_cast<int>(m);
    kernel.rows = rows <= 2 ? rows : rows <= 4 ? 4 : rows <= 8 ? 8 : 16;
    kernel.columns = 4;
    kernel.most_warps_k = kernel.rows == 1 ? 8 : 16 / kernel.rows;
    kernel.kernel = dtype == ATTILE_I8        ? kernel_for<I8>(rows)
                    : dtype == ATTILE_F8_E4M3 ? kernel_for<E4M3>(rows)
                    : dtype == ATTILE_F8_E5M2 ? kernel_for<E5M2>(rows)
                    : dtype == ATTILE_I4      ? kernel_for<I4>(rows)
                                              : kernel_for<U4>(rows);
    return kernel;
}

}  // namespace attile::gpu::narrow

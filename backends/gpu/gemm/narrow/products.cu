// SPDX-License-Identifier: Apache-2.0
// Products of int8 with exact sums in int32, four at a time (DP4A, v_dot4, or single multiplications where a device has neither), on every
// device. Tiles of 128 x 128 by 32 of depth, or of 16 x 128 for few rows; each of 256 threads has 8 x 8 or 2 x 4 sums. Chunks pass through
// shared memory, words of four along the depth outermost, the next one on its way in registers; rows are padded so that neither stores
// nor loads meet in a bank. The depth may be cut into parts, whose sums the finishing kernel adds.
//
// Shared bytes: 2 stages * 8 words * (rows + 4 + columns + 4) * 4 = 16896 with 128 x 128. Bound: arithmetic, 128 operations a byte of L2.
#include "eight_bits.h"
#include "gemm/block_scale_at.h"
#include "gemm/narrow/kernels.h"
#include "vec.h"

namespace attile::gpu::narrow {
namespace {

template <int kLaneRows_, int kLaneCols_, int kDown_, int kAcross_>
struct Tile {
    static constexpr int kLaneRows = kLaneRows_, kLaneCols = kLaneCols_, kDown = kDown_, kAcross = kAcross_;
    static constexpr int kRows = kLaneRows * kDown, kColumns = kLaneCols * kAcross;
    static_assert(kDown * kAcross == kProductThreads, "a thread for each part of the tile");
};
constexpr int kWords = kProductChunk / 4;

// A panel of kExtent rows or columns on its way to shared memory; a thread has kOwn of them, those of a group side by side.
template <int kExtent, int kOwn, int kThreadsAlong>
struct Panel {
    static constexpr int kLine = kExtent + 4, kLoads = (2 * kExtent + kProductThreads - 1) / kProductThreads;
    static constexpr int kSide = kOwn < 4 ? kOwn : 4;
    Vec<uint32_t, 4> held[kLoads];

    // Half a chunk of a row; beyond the last row that row again, beyond the depth zeros.
    ATTILE_LANE_FN void load(const int8_t *base, bool is_aligned, int64_t row_bytes, int64_t rows_left, int64_t first_depth,
                             int64_t depth) {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kProductThreads;
            const int64_t row = min(static_cast<int64_t>(at / 2), rows_left - 1), from = first_depth + at % 2 * 16;
            held[i] = Vec<uint32_t, 4>{};
            if (at >= 2 * kExtent || from >= depth) continue;
            const int8_t *const address = base + row * row_bytes + from;
            if (is_aligned) {
                held[i] = load_vec_const<4>(reinterpret_cast<const uint32_t *>(address));
            } else {
#pragma unroll
                for (int byte = 0; byte < 16; ++byte)
                    held[i][byte / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(address[byte])) << byte % 4 * 8;
            }
        }
    }
    ATTILE_LANE_FN void store(uint32_t *shared) const {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kProductThreads;
            if (at >= 2 * kExtent) continue;
#pragma unroll
            for (int w = 0; w < 4; ++w) shared[(at % 2 * 4 + w) * kLine + at / 2] = held[i][w];
        }
    }
    // Number `own` of a thread at place `along`, and all of its words.
    static ATTILE_LANE_FN int index(int own, int along) { return own / kSide * (kThreadsAlong * kSide) + along * kSide + own % kSide; }
    static ATTILE_LANE_FN void take(uint32_t (&to)[kOwn], const uint32_t *shared, int word, int along) {
#pragma unroll
        for (int i = 0; i < kOwn; i += kSide) {
            const auto side = load_vec<kSide>(shared + word * kLine + index(i, along));
#pragma unroll
            for (int e = 0; e < kSide; ++e) to[i + e] = side[e];
        }
    }
};

template <class C, bool kGrouped>
__global__ void ATTILE_LAUNCH_BOUNDS(kProductThreads, kGrouped ? 1 : 2) multiply_int8(const ProductParams p) {
    using PanelA = Panel<C::kRows, C::kLaneRows, C::kDown>;
    using PanelB = Panel<C::kColumns, C::kLaneCols, C::kAcross>;
    __shared__ __align__(16) uint32_t shared[2][kWords * (PanelA::kLine + PanelB::kLine)];
    uint32_t block = blockIdx.x;
    const uint32_t of_tile = quotient(block, p.parts), part = block - of_tile * p.parts.divisor;
    const uint32_t entry = quotient(of_tile, p.tiles), tile = of_tile - entry * p.tiles.divisor;
    const uint32_t tile_m = quotient(tile, p.tiles_n), tile_n = tile - tile_m * p.tiles_n.divisor;
    const int64_t batch_x = quotient(entry, p.batch_y), batch_y = entry - batch_x * p.batch_y.divisor;
    const int64_t first_row = static_cast<int64_t>(tile_m) * C::kRows, first_col = static_cast<int64_t>(tile_n) * C::kColumns;
    const int8_t *const a = p.a + batch_x * p.a_batch_x + batch_y * p.a_batch_y + first_row * p.a_row;
    const int8_t *const b = p.b + batch_x * p.b_batch_x + batch_y * p.b_batch_y + first_col * p.b_row;
    const int down = static_cast<int>(threadIdx.x) / C::kAcross, across = static_cast<int>(threadIdx.x) % C::kAcross;
    const int64_t chunks = (p.k + kProductChunk - 1) / kProductChunk, first = static_cast<int64_t>(part) * p.chunks_each;
    const int64_t end = min(chunks, first + p.chunks_each);

    int32_t sum[C::kLaneRows][C::kLaneCols] = {};
    float total[kGrouped ? C::kLaneRows : 1][C::kLaneCols] = {};
    PanelA next_a;
    PanelB next_b;
    const auto load = [&](int64_t chunk) {
        next_a.load(a, p.a_aligned != 0, p.a_row, p.m - first_row, chunk * kProductChunk, p.k);
        next_b.load(b, p.b_aligned != 0, p.b_row, p.n - first_col, chunk * kProductChunk, p.k);
    };
    const auto store = [&](int stage) {
        next_a.store(shared[stage]);
        next_b.store(shared[stage] + kWords * PanelA::kLine);
    };
    // A group's sums, scaled, join the others.
    const float *const a_scale = scales_of_entry(p.a_scale, batch_x, batch_y), *const b_scale =
                                                                                   scales_of_entry(p.b_scale, batch_x, batch_y);
    const auto add_group = [&](int64_t chunk) {
        if constexpr (kGrouped) {
            float of_col[C::kLaneCols];
#pragma unroll
            for (int c = 0; c < C::kLaneCols; ++c) {
                const int64_t col = min(first_col + PanelB::index(c, across), p.n - 1);
                of_col[c] = b_scale != nullptr ? scale_at(p.b_scale, b_scale, col, chunk * kProductChunk) : 1.0f;
            }
#pragma unroll
            for (int r = 0; r < C::kLaneRows; ++r) {
                const int64_t row = min(first_row + PanelA::index(r, down), p.m - 1);
                const float of_row = a_scale != nullptr ? scale_at(p.a_scale, a_scale, row, chunk * kProductChunk) : 1.0f;
#pragma unroll
                for (int c = 0; c < C::kLaneCols; ++c) {
                    const bool swaps = p.is_swapped != 0;
                    total[r][c] = fused_multiply_add(static_cast<float>(sum[r][c]) * (swaps ? of_col[c] : of_row),
                                                     swaps ? of_row : of_col[c], total[r][c]);
                    sum[r][c] = 0;
                }
            }
        }
    };

    if (first < end) {
        load(first);
        store(0);
    }
    __syncthreads();
    int left = p.group_chunks;
    int stage = 0;
#pragma unroll 1
    for (int64_t chunk = first; chunk < end; ++chunk, stage ^= 1) {
        if (chunk + 1 < end) load(chunk + 1);
#pragma unroll
        for (int word = 0; word < kWords; ++word) {
            uint32_t own_a[C::kLaneRows], own_b[C::kLaneCols];
            PanelA::take(own_a, shared[stage], word, down);
            PanelB::take(own_b, shared[stage] + kWords * PanelA::kLine, word, across);
#pragma unroll
            for (int r = 0; r < C::kLaneRows; ++r)
#pragma unroll
                for (int c = 0; c < C::kLaneCols; ++c) sum[r][c] = dot_of_four(own_a[r], own_b[c], sum[r][c]);
        }
        if (kGrouped && (--left == 0 || chunk + 1 == end)) {
            add_group(chunk);
            left = p.group_chunks;
        }
        if (chunk + 1 < end) store(stage ^ 1);
        __syncthreads();
    }

    const int64_t to = part * p.sum_part + entry * p.sum_batch;
#pragma unroll
    for (int r = 0; r < C::kLaneRows; ++r) {
        const int64_t row = first_row + PanelA::index(r, down);
        if (row >= p.m) continue;
#pragma unroll
        for (int c = 0; c < C::kLaneCols; c += 4) {
            const int64_t col = first_col + PanelB::index(c, across);
            if (col >= p.sum_row) continue;
            Vec<int32_t, 4> four;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if constexpr (kGrouped)
                    four[e] = static_cast<int32_t>(__float_as_uint(total[r][c + e]));
                else
                    four[e] = sum[r][c + e];
            }
            store_vec(static_cast<int32_t *>(p.sums) + to + row * p.sum_row + col, four);
        }
    }
}

template <class C>
ProductTile instance(const char *name) {
    return {reinterpret_cast<const void *>(&multiply_int8<C, false>), reinterpret_cast<const void *>(&multiply_int8<C, true>), name,
            C::kRows, C::kColumns};
}

}  // namespace

const ProductTile *product_tiles() {
    static const ProductTile all[kProductTiles] = {instance<Tile<2, 4, 8, 32>>("gemm_i8_16x128x32"),
                                                   instance<Tile<8, 8, 16, 16>>("gemm_i8_128x128x32")};
    return all;
}

}  // namespace attile::gpu::narrow

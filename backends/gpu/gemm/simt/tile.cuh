// SPDX-License-Identifier: Apache-2.0
// GEMM by tiles: D = activation(alpha A B + beta C + bias), for one tile, one split of the depth and one batch entry a block.
//
// Tile sizes, threads, blocks a multiprocessor (registers allow): 128x128x8, 256, 2; 64x128x8, 128, 4; 64x64x8, 64, 6; 32x32x8, 32, 16
// (gemm/simt/configs.h). A thread makes 8x8 outputs (32x32: 8x4; float64: 8x4 and 4x4). Shared bytes: two stages of 8 * (row of A + row of
// B) * 4, a row being 128, 64 or 32 with a pad of 4 where it is stored transposed and of 8 where any strides are read: 128x128x8 both
// padded 2 * 8 * (132 + 132) * 4 = 16896. The general epilogue's strips want, of a 128x128x8 block, 8 lane groups * 8 rows * (64 + 8) * 4 =
// 18432, in the same place. Registers (sm_61): at most 128 for the two large tiles and 32x32x8, 168 for 64x64x8 and float64, 255 for its
// strided forms; no spills. Bound: arithmetic; 128x128x8 does 32 FLOP a byte from L2, and 4 loads of 16 bytes from shared memory for 64
// multiply-adds a thread. Record: docs/kernels/gemm-simt.md.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/simt/load_unaligned.h"
#include "gemm/simt/micro.h"

namespace attile::gpu::simt {

// The order of fragment loads and multiplications: whichever of the four gives ptxas the allocation with the fewest three-register fetches
// and bank conflicts in the loop, counted in sm_90 code made from compute_61 PTX.
template <class Config, GemmAccess kAccessA, GemmAccess kAccessB>
struct GemmOrder {
    static constexpr bool kBothOuter = kAccessA == GemmAccess::kOuter && kAccessB == GemmAccess::kOuter;
    static constexpr bool kVectors = kAccessA == GemmAccess::kVector && Config::kMicroN == 8;
    static constexpr bool kUnaligned = kAccessA == GemmAccess::kUnaligned;
    static constexpr bool kByColumns = kBothOuter || kUnaligned ? Config::kM == 128 : kVectors ? Config::kN == 64 : Config::kM < Config::kN;
    static constexpr bool kBFirst = !kVectors && !kBothOuter;
};

// Which tile, split and batch entry a block makes.
template <class Config>
struct GemmPlace {
    int64_t row_first, col_first, split, batch_x, batch_y, depth_first, depth;

    ATTILE_LANE_FN explicit GemmPlace(const GemmParams &p) {
        const uint32_t tiles = p.tiles_m * p.tiles_n;
        const uint32_t entry = blockIdx.x / tiles;
        const uint32_t tile = blockIdx.x % tiles;
        const uint32_t band = tile / (p.raster * p.tiles_n);
        const uint32_t in_band = tile - band * p.raster * p.tiles_n;
        const uint32_t band_rows = min(p.raster, p.tiles_m - band * p.raster);
        row_first = static_cast<int64_t>(band * p.raster + in_band % band_rows) * Config::kM;
        col_first = static_cast<int64_t>(in_band / band_rows) * Config::kN;
        split = entry % p.splits;
        const int64_t batch = p.first_batch + entry / p.splits;
        batch_x = batch / p.batch_y;
        batch_y = batch % p.batch_y;
        depth_first = split * p.split_depth;
        depth = min(p.k - depth_first, p.split_depth);
    }
    static constexpr bool kMayHaveNoDepth = false;  // Other kernels make such products.
    ATTILE_LANE_FN int64_t row_end(const GemmParams &p) const { return p.m; }
};

// Sums of a tile's depth. Panels pass through two stages of shared memory.
template <class Config, class T, class Order, class PanelA, class PanelB>
ATTILE_LANE_FN void multiply_tile(PanelA &panel_a, PanelB &panel_b, int64_t depth, T *shared, T (&sum)[Config::kMicroM][Config::kMicroN]) {
    using Micro = GemmMicro<Config, T>;
    constexpr int kPanelA = kGemmChunk * PanelA::kRow;
    constexpr int kStage = kPanelA + kGemmChunk * PanelB::kRow;
    T *const to_a = shared;
    T *const to_b = shared + kPanelA;
    const T *const from_a = shared + Micro::first_row();
    const T *const from_b = shared + kPanelA + Micro::first_col();
    T a[2][Config::kMicroM], b[2][Config::kMicroN];

    // The first chunk takes what is left over when whole ones are cut from the depth.
    int chunks = static_cast<int>((depth + kGemmChunk - 1) / kGemmChunk);
    const int remainder = static_cast<int>(depth - static_cast<int64_t>(chunks - 1) * kGemmChunk);
    panel_a.load_first(depth, remainder);
    panel_b.load_first(depth, remainder);
    panel_a.store_first(to_a, to_a + kStage);
    panel_b.store_first(to_b, to_b + kStage);
    panel_a.advance_first(remainder);
    panel_b.advance_first(remainder);
    __syncthreads();
    Micro::load_a(a[0], from_a);
    Micro::load_b(b[0], from_b);

    // One chunk: multiply what stage `now` holds; meanwhile fetch the next chunk and, before the last depth, store it into the other stage.
    // Fragments are always read one depth ahead.
    const auto step = [&](int now, bool more) {
        const int next = kStage - now;
        if (more) {
            panel_a.template load<false>(0);
            panel_b.template load<false>(0);
            panel_a.advance(kGemmChunk);
            panel_b.advance(kGemmChunk);
        }
#pragma unroll
        for (int k = 0; k < kGemmChunk; ++k) {
            const bool last = k == kGemmChunk - 1;
            if (last) {
                if (more) {
                    panel_a.store(to_a + next);
                    panel_b.store(to_b + next);
                }
                __syncthreads();
            }
            const int stage = last ? next : now;
            const int ahead = last ? 0 : k + 1;
            if (Order::kBFirst) Micro::load_b(b[(k + 1) % 2], from_b + stage + ahead * PanelB::kRow);
            Micro::load_a(a[(k + 1) % 2], from_a + stage + ahead * PanelA::kRow);
            if (!Order::kBFirst) Micro::load_b(b[(k + 1) % 2], from_b + stage + ahead * PanelB::kRow);
            if (last && more) {
                panel_a.store_ahead(to_a + now);
                panel_b.store_ahead(to_b + now);
            }
            Micro::template multiply<Order::kByColumns>(sum, a[k % 2], b[k % 2]);
            schedule_fence(sum);
        }
    };
    // Two chunks a round, so that the addresses of both stages are constants.
#pragma unroll 1
    for (; chunks > 2; chunks -= 2) {
        step(0, true);
        step(kStage, true);
    }
    step(0, chunks > 1);
    if (chunks > 1) step(kStage, false);
}

// Plain sums, from the registers where they are to rows of whole vectors.
template <class Config, class T, bool kMayReadC>
ATTILE_LANE_FN void store_directly(const GemmParams &p, const GemmPlace<Config> &at, const T (&sum)[Config::kMicroM][Config::kMicroN]) {
    using Micro = GemmMicro<Config, T>;
    const int64_t row_mine = at.row_first + Micro::first_row(), col_mine = at.col_first + Micro::first_col();
    const int rows = static_cast<int>(min(p.m - row_mine, int64_t{Config::kM}));
    const int cols = static_cast<int>(min(p.columns - col_mine, int64_t{Config::kN}));
    T *const d = static_cast<T *>(p.d.data) + at.batch_x * p.d.batch_x + at.batch_y * p.d.batch_y + at.split * p.d_split +
                 row_mine * p.d.row + col_mine;
    const T alpha = static_cast<T>(p.alpha), beta = static_cast<T>(p.beta);
    // `plus` makes what is stored of four scaled sums.
    const auto store = [&](auto plus) {
#pragma unroll
        for (int i = 0; i < Config::kMicroM; ++i) {
#pragma unroll
            for (int j = 0; j < Config::kMicroN; j += Micro::kVec) {
                const int row = Micro::row(i), col = Micro::col(j);
                if (row >= rows || col >= cols) continue;
                Vec<T, Micro::kVec> part;
#pragma unroll
                for (int v = 0; v < Micro::kVec; ++v) part[v] = alpha * sum[i][j + v];
                plus(part, row, col);
                store_vec(d + row * p.d.row + col, part);
            }
        }
    };
    if constexpr (kMayReadC) {
        if (p.c.data != nullptr) {
            const T *const c =
                static_cast<const T *>(p.c.data) + at.batch_x * p.c.batch_x + at.batch_y * p.c.batch_y + row_mine * p.c.row + col_mine;
            store([&](Vec<T, Micro::kVec> &part, int row, int col) {
                const auto old = load_vec<Micro::kVec>(c + row * p.c.row + col);
#pragma unroll
                for (int v = 0; v < Micro::kVec; ++v) part[v] = fused_multiply_add(beta, old[v], part[v]);
            });
            return;
        }
    }
    store([](Vec<T, Micro::kVec> &, int, int) {});
}

// The strip of shared memory of a lane group in the general epilogue; the pad keeps its rows in different banks.
template <class Micro>
struct GemmStrip {
    static constexpr int kPassRows = 2;
    static constexpr int kRow = Micro::kGroupN + 2 * Micro::kVec;
    static constexpr int kFloats = kPassRows * Micro::kLaneRows * kRow;
};

// By the general epilogue through shared memory, two of each lane's rows at a time: the lanes then hold neighbours of one row, so any
// alignment is stored in whole lines, and the code of the epilogue exists once instead of once an output.
template <class Config, class T, class Place>
ATTILE_LANE_FN void store_by_strips(const GemmParams &p, const Place &at, T *shared, GemmOrigin &origin,
                                    const T (&sum)[Config::kMicroM][Config::kMicroN]) {
    using Micro = GemmMicro<Config, T>;
    using Strip = GemmStrip<Micro>;
    if (threadIdx.x == 0) origin.set(p, at.batch_x, at.batch_y, at.row_first, at.col_first, at.split * p.d_split);
    const GemmEpilogue<T, GemmParams> epilogue(p, origin);
    const int rows = static_cast<int>(min(at.row_end(p) - at.row_first, int64_t{Config::kM}));
    const int cols = static_cast<int>(min(p.columns - at.col_first, int64_t{Config::kN}));
    T *const strip = shared + lane_group_index() * Strip::kFloats;
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < Config::kMicroM; pass += Strip::kPassRows) {
#pragma unroll
        for (int i = 0; i < Config::kMicroM; ++i) {
            if (i / Strip::kPassRows * Strip::kPassRows != pass) continue;  // Registers cannot be indexed; this is a jump.
#pragma unroll
            for (int j = 0; j < Config::kMicroN; j += Micro::kVec) {
                Vec<T, Micro::kVec> part;
#pragma unroll
                for (int v = 0; v < Micro::kVec; ++v) part[v] = static_cast<T>(p.alpha) * sum[i][j + v];
                const int row = i % Strip::kPassRows * Micro::kLaneRows + Micro::lane_row();
                store_vec(strip + row * Strip::kRow + Micro::lane_col() * Micro::kVec + Micro::col(j), part);
            }
        }
        lane_sync();
        // Row r of the strip is this row of the tile.
        const int first = Micro::group_row() + pass / Micro::kVec * Micro::kLaneRows * Micro::kVec + pass % Micro::kVec;
        const auto row_of = [&](int r) { return first + r / Micro::kLaneRows + r % Micro::kLaneRows * Micro::kVec; };
        if (p.vectorised != 0) {
            constexpr int kVec = kGemmVector<T>;
            constexpr int kAcross = Micro::kGroupN / kVec;
#pragma unroll 1
            for (int index = lane_index(); index < Strip::kPassRows * Micro::kLaneRows * kAcross; index += kLanes) {
                const int row = row_of(index / kAcross);
                const int col = index % kAcross * kVec;
                if (row >= rows || Micro::group_col() + col >= cols) continue;
                Vec<T, kVec> part = load_vec<kVec>(strip + index / kAcross * Strip::kRow + col);
                epilogue.store_vector(row, Micro::group_col() + col, part.at);
            }
        } else {
#pragma unroll 1
            for (int index = lane_index(); index < Strip::kPassRows * Micro::kLaneRows * Micro::kGroupN; index += kLanes) {
                const int row = row_of(index / Micro::kGroupN);
                const int col = index % Micro::kGroupN;
                if (row >= rows || Micro::group_col() + col >= cols) continue;
                epilogue.store(row, Micro::group_col() + col, strip[index / Micro::kGroupN * Strip::kRow + col]);
            }
        }
        lane_sync();
    }
}

template <class Config, class Element, GemmAccess kAccessA, GemmAccess kAccessB, bool kDirect, class Place>
ATTILE_LANE_FN void gemm_make_tile(const GemmParams &p, const Place &at) {
    using T = Compute<Element>;
    using Micro = GemmMicro<Config, T>;
    using PanelA = GemmPanel<Element, Config::kM, Micro::kThreads, kAccessA>;
    using PanelB = GemmPanel<Element, Config::kN, Micro::kThreads, kAccessB>;
    constexpr int kStages = 2 * kGemmChunk * (PanelA::kRow + PanelB::kRow);
    constexpr int kStrips = kDirect ? 0 : Micro::kThreads / kLanes * GemmStrip<Micro>::kFloats;
    constexpr int kShared = kStrips > kStages ? kStrips : kStages;
    static_assert(kShared * sizeof(T) <= 49152 - sizeof(GemmOrigin), "48 KB");
    alignas(16) __shared__ T shared[kShared];

    PanelA panel_a(p.a, at.batch_x, at.batch_y, at.row_first, at.row_end(p), at.depth_first);
    PanelB panel_b(p.b, at.batch_x, at.batch_y, at.col_first, p.n, at.depth_first);
    T sum[Config::kMicroM][Config::kMicroN] = {};
    if (!Place::kMayHaveNoDepth || at.depth > 0)
        multiply_tile<Config, T, GemmOrder<Config, kAccessA, kAccessB>>(panel_a, panel_b, at.depth, shared, sum);

    if constexpr (kDirect) {
        // With both panels along depth reading C would cost a spill on sm_61: the host sends C elsewhere.
        constexpr bool kMayReadC = Config::kReadsC && (kAccessA == GemmAccess::kOuter || kAccessB == GemmAccess::kOuter);
        store_directly<Config, T, kMayReadC>(p, at, sum);
    } else {
        __shared__ GemmOrigin origin;
        store_by_strips<Config>(p, at, shared, origin, sum);
    }
}

template <class Config, class Element, GemmAccess kAccessA, GemmAccess kAccessB, bool kDirect>
__global__ void ATTILE_LAUNCH_BOUNDS((GemmMicro<Config, Compute<Element>>::kThreads), Config::kBlocksPerUnit)
    gemm_tile_kernel(const GemmParams p) {
    gemm_make_tile<Config, Element, kAccessA, kAccessB, kDirect>(p, GemmPlace<Config>(p));
}

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
// GEMM by tiles: D = activation(alpha A B + beta C + bias), for one tile, one split of the depth and one batch entry a block.
//
// Tile sizes, threads, blocks an SM (registers allow): 128x128x8, 256, 2; 64x128x8, 128, 4; 64x64x8, 64, 6; 32x32x8, 32, 16
// (gemm/simt/configs.h). A thread makes 8x8 outputs (32x32: 8x4; float64: 8x4 and 4x4). Shared bytes: two stages of 8 * (row of A + row of
// B) * 4, a row being 128, 64 or 32 with a pad of 4 where it is stored transposed and of 8 where any strides are read: 128x128x8 both
// padded 2 * 8 * (132 + 132) * 4 = 16896. The general epilogue's strips want, of a 128x128x8 block, 8 lane groups * 8 rows * (64 + 8) * 4 =
// 18432, in the same place. float64 64x64x8: 2 * 8 * (66 + 66) * 8 = 16896. Registers (sm_61): at most 128 for the two large tiles and
// 32x32x8, 168 for 64x64x8 and float64, 255 for its strided forms; no spills. Arithmetic intensity: 128x128x8 does 2 * 128 * 128 / ((128 +
// 128) * 4) = 32 FLOP per byte read from L2, 64x128x8 21, 64x64x8 16. In shared memory a depth costs a thread 4 loads of 16 bytes for 64
// multiply-adds: 0.5 to 1 clock of loads per clock of arithmetic.
//
// Best measured (H200, compute_61 PTX, float32, cuBLAS beside it): 8192^3 51.7 NN, 52.9 TN, 49.7 NT TFLOP/s (cuBLAS 51.3, 53.5, 51.2);
// 4096^3 51.1 NN, 51.8 TN, 49.3 NT, 51.2 TT (51.4, 51.9, 50.5, 49.3); 4096x4096x64 36.1 (30.4); 512 times 128^3 39.1 (32.5); 4096 times
// 32^3 13.1 (11.7); unaligned 4000x4001x4003 46.4 (45.0); 16-bit storage 4096^3 50.0; float64 4096^3 22.8 (a third of the tensor cores'
// 63). To measure again: attile bench --filter gemm, or tools/compare_peers.py for the peers.
//
// What mattered: walking the 8x8 product to and fro, and which of the walks (GemmOrder), 47.9 -> 51.2 at 4096^3: in the loop FFMAs that
// fetch three registers fell from 145 to 91 of 1024, and bank conflicts among them from 36 to none. Scaling the sums before they go through
// shared memory, since storing them as they are forces them into aligned quadruples of registers. Keeping the general epilogue out of the
// kernels for the plain one: its registers cost the loop 3 %, wherever it stands. The first chunk taking the remainder of the depth: no
// tests in the loop. What lost: 16x8 and 8x16 a thread (48 to 50); 8x4 (43); a barrier every 16 depths (50.7); loops not unrolled by two
// (41); reading A and B by any strides in the large tiles (45, with spills);
// unaligned panels one by one by lanes along depth, each line once (44.0 to 43.1 at 4000x4001x4003), or 64x128 tiles of them (43.2);
// copying unaligned A and B to aligned rows first (1000x1001x1003 65 to 76 us); asking for a block's share of the panels in L2 at its start
// (2048^3 349 to 358 us), or for all, shared out over the blocks that read them (64 times 256^3 52.7 to 58.1, 1024^3 58.9 to 60.0); the
// last chunks in the loop's own code, a third less of it (no gain: code that is not in the L2 cache yet costs 0.3 us at most); loads or
// stores that ask for no place in the L2 cache (1024^3 56.4 to 57.6 and 60.3); the plain epilogue for partial results whose rows begin at
// odd multiples of 16 bytes (1000x1001x1003 60.4 to 67.7); the scalar epilogue straight from registers.
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

template <class Config, class Element, GemmAccess kAccessA, GemmAccess kAccessB, bool kDirect>
__global__ void ATTILE_LAUNCH_BOUNDS((GemmMicro<Config, Compute<Element>>::kThreads), Config::kBlocksPerUnit)
    gemm_tile_kernel(const GemmParams p) {
    using T = Compute<Element>;
    using Micro = GemmMicro<Config, T>;
    using PanelA = GemmPanel<Element, Config::kM, Micro::kThreads, kAccessA>;
    using PanelB = GemmPanel<Element, Config::kN, Micro::kThreads, kAccessB>;
    using Order = GemmOrder<Config, kAccessA, kAccessB>;
    constexpr int kPanelA = kGemmChunk * PanelA::kRow;
    constexpr int kStage = kPanelA + kGemmChunk * PanelB::kRow;
    // The strip of a lane group in the epilogue; the pad keeps its rows in different banks.
    constexpr int kPassRows = 2;
    constexpr int kStripRow = Micro::kGroupN + 2 * Micro::kVec;
    constexpr int kStrip = kPassRows * Micro::kLaneRows * kStripRow;
    constexpr int kStrips = kDirect ? 0 : Micro::kThreads / kLanes * kStrip;
    constexpr int kShared = kStrips > 2 * kStage ? kStrips : 2 * kStage;
    static_assert(kShared * sizeof(T) <= 49152 - sizeof(GemmOrigin), "48 KB");
    alignas(16) __shared__ T shared[kShared];

    // Which tile, split and batch entry.
    const uint32_t tiles = p.tiles_m * p.tiles_n;
    const uint32_t entry = blockIdx.x / tiles;
    const uint32_t tile = blockIdx.x % tiles;
    const uint32_t band = tile / (p.raster * p.tiles_n);
    const uint32_t in_band = tile - band * p.raster * p.tiles_n;
    const uint32_t band_rows = min(p.raster, p.tiles_m - band * p.raster);
    const int64_t row_first = static_cast<int64_t>(band * p.raster + in_band % band_rows) * Config::kM;
    const int64_t col_first = static_cast<int64_t>(in_band / band_rows) * Config::kN;
    const int64_t split = entry % p.splits;
    const int64_t batch = p.first_batch + entry / p.splits;
    const int64_t batch_x = batch / p.batch_y;
    const int64_t batch_y = batch % p.batch_y;
    const int64_t depth_first = split * p.split_depth;
    const int64_t depth = min(p.k - depth_first, p.split_depth);

    PanelA panel_a(p.a, batch_x, batch_y, row_first, p.m, depth_first);
    PanelB panel_b(p.b, batch_x, batch_y, col_first, p.n, depth_first);
    T *const to_a = shared;
    T *const to_b = shared + kPanelA;
    const T *const from_a = shared + Micro::first_row();
    const T *const from_b = shared + kPanelA + Micro::first_col();

    T sum[Config::kMicroM][Config::kMicroN] = {};
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
    // Two chunks a turn, so that the addresses of both stages are constants.
#pragma unroll 1
    for (; chunks > 2; chunks -= 2) {
        step(0, true);
        step(kStage, true);
    }
    step(0, chunks > 1);
    if (chunks > 1) step(kStage, false);

    if constexpr (kDirect) {
        const int64_t row_mine = row_first + Micro::first_row(), col_mine = col_first + Micro::first_col();
        const int rows = static_cast<int>(min(p.m - row_mine, int64_t{Config::kM}));
        const int cols = static_cast<int>(min(p.columns - col_mine, int64_t{Config::kN}));
        T *const d =
            static_cast<T *>(p.d.data) + batch_x * p.d.batch_x + batch_y * p.d.batch_y + split * p.d_split + row_mine * p.d.row + col_mine;
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
        // With both panels along depth this would cost a spill on sm_61: the host sends C elsewhere.
        constexpr bool kReadsC = Config::kReadsC && (kAccessA == GemmAccess::kOuter || kAccessB == GemmAccess::kOuter);
        if constexpr (kReadsC) {
            if (p.c.data != nullptr) {
                const T *const c =
                    static_cast<const T *>(p.c.data) + batch_x * p.c.batch_x + batch_y * p.c.batch_y + row_mine * p.c.row + col_mine;
                store([&](Vec<T, Micro::kVec> &part, int row, int col) {
                    const auto old = load_vec<Micro::kVec>(c + row * p.c.row + col);
#pragma unroll
                    for (int v = 0; v < Micro::kVec; ++v) part[v] = fused_multiply_add(beta, old[v], part[v]);
                });
                return;
            }
        }
        store([](Vec<T, Micro::kVec> &, int, int) {});
        return;
    }

    // Through shared memory, two of each lane's rows at a time: the lanes then hold neighbours of one row, so any alignment is stored in
    // whole lines, and the code of the epilogue exists once instead of once an output.
    __shared__ GemmOrigin origin;
    if (threadIdx.x == 0) origin.set(p, batch_x, batch_y, row_first, col_first, split * p.d_split);
    const GemmEpilogue<T, GemmParams> epilogue(p, origin);
    const int rows = static_cast<int>(min(p.m - row_first, int64_t{Config::kM}));
    const int cols = static_cast<int>(min(p.columns - col_first, int64_t{Config::kN}));
    T *const strip = shared + lane_group_index() * kStrip;
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < Config::kMicroM; pass += kPassRows) {
#pragma unroll
        for (int i = 0; i < Config::kMicroM; ++i) {
            if (i / kPassRows * kPassRows != pass) continue;  // Registers cannot be indexed; this is a jump.
#pragma unroll
            for (int j = 0; j < Config::kMicroN; j += Micro::kVec) {
                Vec<T, Micro::kVec> part;
#pragma unroll
                for (int v = 0; v < Micro::kVec; ++v) part[v] = static_cast<T>(p.alpha) * sum[i][j + v];
                const int row = i % kPassRows * Micro::kLaneRows + Micro::lane_row();
                store_vec(strip + row * kStripRow + Micro::lane_col() * Micro::kVec + Micro::col(j), part);
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
            for (int index = lane_index(); index < kPassRows * Micro::kLaneRows * kAcross; index += kLanes) {
                const int row = row_of(index / kAcross);
                const int col = index % kAcross * kVec;
                if (row >= rows || Micro::group_col() + col >= cols) continue;
                Vec<T, kVec> part = load_vec<kVec>(strip + index / kAcross * kStripRow + col);
                epilogue.store_vector(row, Micro::group_col() + col, part.at);
            }
        } else {
#pragma unroll 1
            for (int index = lane_index(); index < kPassRows * Micro::kLaneRows * Micro::kGroupN; index += kLanes) {
                const int row = row_of(index / Micro::kGroupN);
                const int col = index % Micro::kGroupN;
                if (row >= rows || Micro::group_col() + col >= cols) continue;
                epilogue.store(row, Micro::group_col() + col, strip[index / Micro::kGroupN * kStripRow + col]);
            }
        }
        lane_sync();
    }
}

}  // namespace attile::gpu::simt

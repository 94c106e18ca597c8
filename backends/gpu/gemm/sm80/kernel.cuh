// SPDX-License-Identifier: Apache-2.0
// GEMM by mma.sync, for capability 8.0 and later: D = activation(alpha A B + beta C + bias) of 16-bit A and B, sums in float32, for one
// tile, one split of the depth and one batch entry a block. Four warps have a quarter of the tile each. Stages of 64 bytes of the depth
// come by asynchronous copies, one barrier a stage; edges read as zeros. float32 A and B are split as mma/tf32x3.cuh describes when they
// are multiplied, and each step's product is added to the sums by ordinary additions; sums that are no numbers are computed again.
// float64 is multiplied and summed in float64, by fused multiply-adds.
//
// Tile sizes, shared memory, registers and bound stand in gemm/sm80/instances.cmake.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/params.h"
#include "gemm/sm80/product_f64.cuh"
#include "gemm/sm80/tiles.h"
#include "mma/shared_rows.cuh"
#include "mma/store_row.cuh"
#include "mma/tf32x3.cuh"

namespace attile::gpu::sm80 {

using namespace mma;

// A or B of a tile: kOuter of its rows or columns, contiguous along them or along the depth.
template <class Element, int kOuter, bool kOuterFirst>
class GemmPanelOfTile {
    static constexpr int kDepth = gemm_depth(sizeof(Element)), kUnits = sizeof(Element) / 2;  // Rows are laid out by 16-bit elements.
    static constexpr int kChunk = 16 / sizeof(Element);
    static constexpr bool kIsTurned = kOuterFirst && sizeof(Element) == 4;  // Read word by word: matrices of words cannot be turned.
    using Rows = SharedRows<(kOuterFirst ? kOuter : kDepth) * kUnits, kIsTurned>;

  public:
    static constexpr int kBytes = kOuter * kDepth * static_cast<int>(sizeof(Element));

    __device__ __forceinline__ GemmPanelOfTile(const GemmInput &input, int64_t batch_x, int64_t batch_y, int64_t first, int64_t extent,
                                               int64_t depth_first)
        : from_(static_cast<const char *>(input.data) +
                (batch_x * input.batch_x + batch_y * input.batch_y + first * input.outer + depth_first * input.depth) *
                    static_cast<int>(sizeof(Element))),
          stride_((kOuterFirst ? input.depth : input.outer) * static_cast<int>(sizeof(Element))),
          outer_(static_cast<int>(min(extent - first, int64_t{kOuter}))) {}

    // The next stage, of whose depth so much is there at most.
    __device__ __forceinline__ void load(uint32_t to, int depth) {
        if constexpr (kOuterFirst) {
            load_rows<kOuter * kUnits, kDepth, gemm_threads(sizeof(Element)), false, Rows>(to, from_, stride_, outer_ * kUnits, 0, depth);
            from_ += kDepth * stride_;
        } else {
            load_rows<kDepth * kUnits, kOuter, gemm_threads(sizeof(Element)), false, Rows>(to, from_, stride_, depth * kUnits, 0, outer_);
            from_ += kGemmStageBytes;
        }
    }

    // Of float64, a stage's whole depth of eight outer elements, as multiply_f64() takes them: two of lane / 4's, neighbours along the
    // depth.
    static __device__ __forceinline__ void fragment_f64(double (&to)[2], uint32_t stage, int outer) {
        const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, depth = lane % 4 * 2;
        outer += lane / 4;
        if constexpr (kOuterFirst) {
#pragma unroll
            for (int i = 0; i < 2; ++i) to[i] = load_shared_f64(stage + Rows::at(depth + i, outer / 2) + outer % 2 * 8);
        } else {
            load_shared_pair_f64(to, stage + Rows::at(outer, depth / 2));
        }
    }

    // Fragments of 16 rows of A, from `outer` and `depth` on: as mma::multiply or multiply_tf32 takes them.
    static __device__ __forceinline__ void fragment_a(uint32_t (&to)[4], uint32_t stage, int outer, int depth) {
        if constexpr (kIsTurned)
            load_turned<1, 2>(to, stage, outer, depth);
        else
            load_operand_a<Rows, kOuterFirst, kChunk>(to, stage, outer, depth);
    }
    // Of 16 columns of B: two for the first eight, two for the others.
    static __device__ __forceinline__ void fragment_b(uint32_t (&to)[4], uint32_t stage, int outer, int depth) {
        if constexpr (kIsTurned)
            load_turned<2, 1>(to, stage, outer, depth);
        else
            load_operand_b<Rows, kOuterFirst, kChunk>(to, stage, outer, depth);
    }

  private:
    // to[kOuterStep] is eight outer elements further than to[0], to[kDepthStep] four of the depth. `outer` is a multiple of 16.
    template <int kOuterStep, int kDepthStep>
    static __device__ __forceinline__ void load_turned(uint32_t (&to)[4], uint32_t stage, int outer, int depth) {
        const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, of_depth = lane & 3, of_outer = lane >> 2;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j)
                asm volatile("ld.shared.b32 %0, [%1];"
                             : "=r"(to[i * kOuterStep + j * kDepthStep])
                             : "r"(stage + Rows::at(depth + 4 * j + of_depth, (outer + 8 * i) / 4 + (of_outer >> 2)) + (of_outer & 3) * 4)
                             : "memory");
        }
    }

    const char *from_;
    const int64_t stride_;
    const int outer_;
};

template <class Element_, int kRows_, int kColumns_, int kStages_, bool kOuterA_, bool kOuterB_>
struct GemmConfig {
    using Element = Element_;
    using PanelA = GemmPanelOfTile<Element_, kRows_, kOuterA_>;
    using PanelB = GemmPanelOfTile<Element_, kColumns_, kOuterB_>;
    static constexpr int kDepth = gemm_depth(sizeof(Element_));  // Of a stage.
    static constexpr bool kIsTf32x3 = std::is_same_v<Element_, float>, kIsF64 = std::is_same_v<Element_, double>;
    using Sum = std::conditional_t<kIsF64, double, float>;
    // Are fragments read one product ahead? float32's are split on the way, and of 128 rows of float64 there are no registers left.
    static constexpr bool kReadsAhead = !kIsTf32x3 && !(kIsF64 && kRows_ > 64);
    static constexpr int kRows = kRows_, kColumns = kColumns_, kStages = kStages_;
    static constexpr int kThreads = gemm_threads(sizeof(Element_));
    static constexpr int kWarpRows = kRows / (kThreads / 64), kWarpColumns = kColumns / 2;
    static constexpr int kStageBytes = PanelA::kBytes + PanelB::kBytes;
};

// An element of A B by ordinary arithmetic, over a split's depth.
__device__ inline float exact_sum(const GemmParams &p, int64_t batch_x, int64_t batch_y, int64_t row, int64_t col, int64_t depth_first,
                                  int64_t depth) {
    const auto from = [&](const GemmInput &x, int64_t outer) {
        return static_cast<const float *>(x.data) + batch_x * x.batch_x + batch_y * x.batch_y + outer * x.outer + depth_first * x.depth;
    };
    const float *a = from(p.a, row), *b = from(p.b, col);
    float sum = 0;
#pragma unroll 1
    for (int64_t i = 0; i < depth; ++i) {
        sum = __builtin_fmaf(*a, *b, sum);
        a += p.a.depth;
        b += p.b.depth;
    }
    return sum;
}

// A warp's sums to D, 16 rows at a time through a strip of shared memory of its own, so that neighbouring lanes hold neighbours of a row.
template <class Config, class Repair>
__device__ __forceinline__ void store_tile(const GemmParams &p, const GemmOrigin &origin, uint32_t strip,
                                           typename Config::Sum (&sums)[Config::kWarpRows / 16][Config::kWarpColumns / 2], int row, int col,
                                           int rows, int cols, const Repair &repair) {
    using Sum = typename Config::Sum;
    constexpr int kColumns = Config::kWarpColumns, kVector = 16 / sizeof(Sum);
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    const GemmEpilogue<Sum, GemmParams> epilogue(p, origin);
    const Sum alpha = static_cast<Sum>(p.alpha);
    // Groups of eight columns are exchanged, so that rows that are written at once lie in different banks.
    const auto strip_at = [&](int r, int c) {
        return strip + static_cast<uint32_t>(r * kColumns + (((c >> 3) ^ (r & (kColumns / 8 - 1))) << 3 | (c & 7))) * sizeof(Sum);
    };
#pragma unroll
    for (int i = 0; i < Config::kWarpRows / 16; ++i) {
        __syncwarp();  // The strip has been read.
#pragma unroll
        for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
            for (int half = 0; half < 2; ++half)
                store_shared_pair(strip_at(lane / 4 + 8 * half, 8 * j + lane % 4 * 2), sums[i][4 * j + 2 * half],
                                  sums[i][4 * j + 2 * half + 1]);
        }
        __syncwarp();
        const int vector = p.vectorised != 0 ? kVector : 1, across = kColumns / vector;
#pragma unroll 1
        for (int index = lane; index < 16 * across; index += kWarpThreads) {
            const int r = index / across, c = index % across * vector, d_row = row + 16 * i + r, d_col = col + c;
            if (d_row >= rows || d_col >= cols) continue;
            if (p.vectorised == 0) {
                Sum value[1];
                load_shared_sums(value, strip_at(r, c));
                epilogue.store(d_row, d_col, alpha * repair(value[0], d_row, d_col));
                continue;
            }
            Sum value[kVector];
            load_shared_sums(value, strip_at(r, c));
#pragma unroll
            for (int i = 0; i < kVector; ++i) value[i] = alpha * repair(value[i], d_row, d_col + i);
            epilogue.store_vector(d_row, d_col, value);
        }
    }
}

// Does nothing but scaling and narrowing lie between the sums and D, whose rows are whole pieces of eight, 16 bytes aligned?
template <class Element>
__device__ __forceinline__ bool is_in_whole_rows(const GemmParams &p) {
    constexpr int32_t kType = std::is_same_v<Element, float> ? ATTILE_F32 : std::is_same_v<Element, F16> ? ATTILE_F16 : ATTILE_BF16;
    return p.c.data == nullptr && p.bias.data == nullptr && p.activation == ATTILE_ACTIVATION_NONE &&
           (p.d.dtype == kType || p.d.dtype == ATTILE_F32) && p.d.col == 1 &&
           ((p.columns | p.d.row | p.d.batch_x | p.d.batch_y) & 7) == 0 && (reinterpret_cast<uintptr_t>(p.d.data) & 15) == 0;
}

// The same then: straight from the registers.
template <class Config, class Element>
__device__ __forceinline__ void store_sums(const GemmParams &p, Element *d,
                                           const float (&sums)[Config::kWarpRows / 16][Config::kWarpColumns / 2], int row, int col,
                                           int rows, int cols) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
#pragma unroll
    for (int i = 0; i < Config::kWarpRows / 16; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int d_row = row + 16 * i + 8 * half + lane / 4;
            Element *const to = d + d_row * p.d.row + col;
            if constexpr (std::is_same_v<Element, float>)
                store_row_f32<Config::kWarpColumns>(to, cols - col, d_row < rows, sums[i] + 2 * half, static_cast<float>(p.alpha));
            else
                store_row<Element, Config::kWarpColumns>(to, cols - col, d_row < rows, sums[i] + 2 * half, static_cast<float>(p.alpha));
        }
    }
}

// Sums that nothing but scaling is done to go straight to D where it allows that; all threads of the block call it. False: they are left.
template <class Config>
__device__ __forceinline__ bool store_plain(const GemmParams &p, const GemmOrigin &origin,
                                            const typename Config::Sum (&sums)[Config::kWarpRows / 16][Config::kWarpColumns / 2], int row,
                                            int col, int rows, int cols) {
    using Element = typename Config::Element;
    if constexpr (Config::kIsF64) {
        const bool is_plain = is_in_whole_pairs(p);
        if (is_plain) store_pairs<Config>(p, reinterpret_cast<double *>(origin.d), sums, row, col, rows, cols);
        return is_plain;
    } else {
        bool is_plain = is_in_whole_rows<Element>(p);
        if constexpr (Config::kIsTf32x3) {
            bool is_whole = true;
#pragma unroll
            for (int i = 0; i < Config::kWarpRows / 16; ++i) is_whole = is_whole && !has_no_numbers(sums[i]);
            is_plain = __syncthreads_and(is_whole) && is_plain;
        }
        if (!is_plain) return false;
        if (Config::kIsTf32x3 || p.d.dtype == ATTILE_F32)
            store_sums<Config>(p, reinterpret_cast<float *>(origin.d), sums, row, col, rows, cols);
        else if constexpr (!Config::kIsTf32x3)
            store_sums<Config>(p, reinterpret_cast<Element *>(origin.d), sums, row, col, rows, cols);
        return true;
    }
}

// A step's product.
template <class Config>
__device__ __forceinline__ void multiply_step(float (&sums)[Config::kWarpRows / 16][Config::kWarpColumns / 2],
                                              const uint32_t (&a)[Config::kWarpRows / 16][4],
                                              const uint32_t (&b)[Config::kWarpColumns / 16][4]) {
#pragma unroll
    for (int j = 0; j < Config::kWarpColumns / 16; ++j) {
#pragma unroll
        for (int i = 0; i < Config::kWarpRows / 16; ++i) {
            multiply<typename Config::Element>(sums[i] + 8 * j, a[i], b[j][0], b[j][1]);
            multiply<typename Config::Element>(sums[i] + 8 * j + 4, a[i], b[j][2], b[j][3]);
        }
    }
}

// A stage's product of float32, by tf32x3.
template <class Config>
__device__ __forceinline__ void multiply_tf32x3_stage(float (&sums)[Config::kWarpRows / 16][Config::kWarpColumns / 2], uint32_t stage,
                                                      int row, int col) {
    constexpr int kRowTiles = Config::kWarpRows / 16, kSteps = Config::kDepth / 8;
    Tf32x3Rows<kSteps> a[kRowTiles];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
            uint32_t x[4];
            Config::PanelA::fragment_a(x, stage, row + 16 * i, 8 * s);
            tf32x3_parts(x, a[i].high[s], a[i].low[s]);
        }
    }
#pragma unroll
    for (int j = 0; j < Config::kWarpColumns / 16; ++j) {
        uint32_t x[kSteps][4];
#pragma unroll
        for (int s = 0; s < kSteps; ++s) Config::PanelB::fragment_b(x[s], stage + Config::PanelA::kBytes, col + 16 * j, 8 * s);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            Tf32x3Columns<kSteps> b;
#pragma unroll
            for (int s = 0; s < kSteps; ++s) {
#pragma unroll
                for (int r = 0; r < 2; ++r) tf32x3_parts(x[s][2 * n + r], b.high[s][r], b.low[s][r]);
            }
            float *to[kRowTiles];
#pragma unroll
            for (int i = 0; i < kRowTiles; ++i) to[i] = sums[i] + 8 * j + 4 * n;
            multiply_tf32x3<kRowTiles, kSteps>(to, a, b);
        }
    }
}

template <class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(Config::kThreads, 2) gemm_kernel(const __grid_constant__ GemmParams p) {
    using Element = typename Config::Element;
    constexpr int kStages = Config::kStages, kDepth = Config::kDepth, kRowTiles = Config::kWarpRows / 16,
                  kColumnPairs = Config::kWarpColumns / 16;
    extern __shared__ __align__(1024) unsigned char memory[];
    const uint32_t stages = shared_address(memory);

    // Which tile, split and batch entry.
    const uint32_t tiles = p.tiles_m * p.tiles_n, entry = blockIdx.x / tiles, tile = blockIdx.x - entry * tiles;
    const uint32_t band = tile / (p.raster * p.tiles_n), in_band = tile - band * p.raster * p.tiles_n;
    const uint32_t band_rows = min(p.raster, p.tiles_m - band * p.raster);
    const int64_t row_first = static_cast<int64_t>(band * p.raster + in_band % band_rows) * Config::kRows;
    const int64_t col_first = static_cast<int64_t>(in_band / band_rows) * Config::kColumns;
    const int64_t split = entry % p.splits, batch = p.first_batch + entry / p.splits;
    const int64_t batch_x = batch / p.batch_y, batch_y = batch - batch_x * p.batch_y;
    const int64_t depth_first = split * p.split_depth, depth = min(p.k - depth_first, p.split_depth);
    const int steps = static_cast<int>((depth + kDepth - 1) / kDepth);
    typename Config::PanelA panel_a(p.a, batch_x, batch_y, row_first, p.m, depth_first);
    typename Config::PanelB panel_b(p.b, batch_x, batch_y, col_first, p.n, depth_first);
    int left = static_cast<int>(depth);  // That is not yet loaded; past it come stages of zeros, which nobody multiplies.
    uint32_t empty = stages;
    const auto load = [&] {
        panel_a.load(empty, left);
        panel_b.load(empty + Config::PanelA::kBytes, left);
        left -= kDepth;
        empty += Config::kStageBytes;
        if (empty == stages + kStages * Config::kStageBytes) empty = stages;
        copy_commit();
    };
#pragma unroll
    for (int i = 0; i < kStages - (Config::kReadsAhead ? 0 : 1); ++i) load();

    const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
    const int row = warp / 2 * Config::kWarpRows, col = warp % 2 * Config::kWarpColumns;
    typename Config::Sum sums[kRowTiles][Config::kWarpColumns / 2] = {};
    uint32_t stage = stages;
    const auto advance = [&] {
        stage += Config::kStageBytes;
        if (stage == stages + kStages * Config::kStageBytes) stage = stages;
    };
    if constexpr (!Config::kReadsAhead) {
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            copy_wait<kStages - 2>();
            __syncthreads();  // The stage has come for all, and the one before has been read: it is filled anew.
            load();
            if constexpr (Config::kIsF64) {
                F64Fragments<Config> fragments;
                fragments.fetch(stage, row, col);
                fragments.multiply(sums);
            } else {
                multiply_tf32x3_stage<Config>(sums, stage, row, col);
            }
            advance();
        }
    } else if constexpr (Config::kIsF64) {
        multiply_f64_ahead<Config>(sums, stage, row, col, steps, advance, load);
    } else {
        // Fragments are read one product ahead, across stages too.
        uint32_t a[2][kRowTiles][4], b[2][kColumnPairs][4];
        const auto fetch = [&](int to, int k) {
#pragma unroll
            for (int i = 0; i < kRowTiles; ++i) Config::PanelA::fragment_a(a[to][i], stage, row + 16 * i, k);
#pragma unroll
            for (int j = 0; j < kColumnPairs; ++j) Config::PanelB::fragment_b(b[to][j], stage + Config::PanelA::kBytes, col + 16 * j, k);
        };
        copy_wait<kStages - 1>();
        __syncthreads();
        fetch(0, 0);
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
#pragma unroll
            for (int k = 0; k < kDepth / 16; ++k) {
                if (k < kDepth / 16 - 1) {
                    fetch((k + 1) % 2, 16 * (k + 1));
                } else {
                    advance();
                    copy_wait<kStages - 2>();
                    __syncthreads();  // The next stage has come for all, and this one has been read: it is filled anew.
                    fetch(0, 0);
                    load();
                }
                multiply_step<Config>(sums, a[k % 2], b[k % 2]);
            }
        }
    }

    GemmOrigin origin;
    origin.set(p, batch_x, batch_y, row_first, col_first, split * p.d_split);
    const int rows = static_cast<int>(min(p.m - row_first, int64_t{Config::kRows}));
    const int cols = static_cast<int>(min(p.columns - col_first, int64_t{Config::kColumns}));
    if (store_plain<Config>(p, origin, sums, row, col, rows, cols)) return;
    copy_wait<0>();
    __syncthreads();  // The stages are free for the strips.
    constexpr uint32_t kStripBytes = 16 * Config::kWarpColumns * sizeof(typename Config::Sum);
    static_assert(Config::kThreads / kWarpThreads * kStripBytes <= kStages * Config::kStageBytes, "strips take the stages' place");
    const auto repair = [&](auto sum, int tile_row, int tile_col) {
        if constexpr (Config::kIsTf32x3) {
            if (!is_number(sum) && col_first + tile_col < p.n)
                return exact_sum(p, batch_x, batch_y, row_first + tile_row, col_first + tile_col, depth_first, depth);
        }
        return sum;
    };
    store_tile<Config>(p, origin, stages + static_cast<uint32_t>(warp) * kStripBytes, sums, row, col, rows, cols, repair);
}

}  // namespace attile::gpu::sm80

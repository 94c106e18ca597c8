// SPDX-License-Identifier: Apache-2.0
// D = alpha A B for each of many products of at most 32 rows and columns, 16-bit, sums in float32. A warp makes one: cp.async
// brings 32 of depth of A and B into 2 KB each of the warp's own, mma.sync multiplies, and the narrowed sums pass through the same 2 KB on
// their way to D, 16 bytes a lane. No warp waits for another. A block of eight warps has 8 x 2 x 2 KB = 32 KB of shared memory, so that a
// multiprocessor has some fifty products in flight. Bound: memory.
#include "early.h"
#include "gemm/mma/small.h"
#include "mma/shared_rows.cuh"
#include "numeric.h"

namespace attile::gpu::mma {
namespace {

using Rows = SharedRows<kSmallExtent>;
constexpr int kPanelBytes = kSmallExtent * Rows::kBytes;
constexpr int kRowsAtOnce = kWarpThreads / Rows::kChunks;
static_assert(kSmallDepth == kSmallExtent, "a panel has the same rows whichever axis they lie along");

// A panel of 32 rows; what lies outside the matrix becomes zero.
__device__ __forceinline__ void load_panel(uint32_t to, const char *from, int64_t stride, int rows, int columns, int lane) {
    const int chunk = lane % Rows::kChunks, row = lane / Rows::kChunks, bytes = chunk_bytes(columns, chunk);
    from += row * stride + 16 * chunk;
#pragma unroll
    for (int i = 0; i < kSmallExtent; i += kRowsAtOnce) {
        copy_async(to + Rows::at(row + i, chunk), from, row + i < rows ? bytes : 0);
        from += kRowsAtOnce * stride;
    }
}

template <class Element, int kOuterA, int kOuterB>
__global__ void __launch_bounds__(kSmallWarps *kWarpThreads) gemm_small(const __grid_constant__ SmallGemmArguments p) {
    constexpr int kTilesM = kSmallExtent / 16, kTilesN = kSmallExtent / 8;
    __shared__ __align__(128) unsigned char panels[kSmallWarps][2][kPanelBytes];
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, warp = static_cast<int>(threadIdx.x) / kWarpThreads;
    const uint32_t entry = blockIdx.x * (blockDim.x / kWarpThreads) + static_cast<uint32_t>(warp);
    await_kernel_ahead();
    if (entry >= p.batches) return;
    const uint32_t x = quotient(entry, p.batch_y), y = entry - x * p.batch_y.divisor;
    const auto start = [&](const SmallMatrix &matrix) { return matrix.data + x * matrix.batch_x + y * matrix.batch_y; };
    const uint32_t panel_a = shared_address(panels[warp][0]), panel_b = panel_a + kPanelBytes;
    const char *a = start(p.a), *b = start(p.b);
    float sums[kTilesM][kTilesN * 4] = {};
#pragma unroll 1
    for (int depth = 0; depth < p.k; depth += kSmallDepth) {
        const int left = p.k - depth;
        load_panel(panel_a, a, p.a.row, kOuterA != 0 ? left : p.m, kOuterA != 0 ? p.m : left, lane);
        load_panel(panel_b, b, p.b.row, kOuterB != 0 ? left : p.n, kOuterB != 0 ? p.n : left, lane);
        copy_commit();
        a += kOuterA != 0 ? kSmallDepth * p.a.row : kSmallDepth * 2;
        b += kOuterB != 0 ? kSmallDepth * p.b.row : kSmallDepth * 2;
        copy_wait<0>();
        __syncwarp();
#pragma unroll
        for (int k = 0; k < kSmallDepth; k += 16) {
            uint32_t of_a[kTilesM][4], of_b[kTilesN / 2][4];
#pragma unroll
            for (int i = 0; i < kTilesM; ++i) load_operand_a<Rows, kOuterA != 0>(of_a[i], panel_a, 16 * i, k);
#pragma unroll
            for (int j = 0; j < kTilesN / 2; ++j) load_operand_b<Rows, kOuterB != 0>(of_b[j], panel_b, 16 * j, k);
#pragma unroll
            for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
                for (int j = 0; j < kTilesN; ++j)
                    multiply<Element>(sums[i] + 4 * j, of_a[i], of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1]);
            }
        }
        __syncwarp();  // The panels have been read.
    }
    const float alpha = p.alpha;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
            const float *const s = sums[i] + 4 * j;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t to = panel_a + Rows::at(16 * i + 8 * half + lane / 4, j) + static_cast<uint32_t>(lane % 4 * 4);
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(narrow_pair<Element>(alpha * s[2 * half], alpha * s[2 * half + 1]))
                             : "memory");
            }
        }
    }
    __syncwarp();
    const int chunk = lane % Rows::kChunks, row = lane / Rows::kChunks;
    char *d = start(p.d) + row * p.d.row + 16 * chunk;
#pragma unroll
    for (int i = 0; i < kSmallExtent; i += kRowsAtOnce) {
        uint32_t four[4];
        load_shared(four, panel_a + Rows::at(row + i, chunk));
        if (row + i < p.m && 8 * chunk < p.n) *reinterpret_cast<uint4 *>(d) = make_uint4(four[0], four[1], four[2], four[3]);
        d += kRowsAtOnce * p.d.row;
    }
}

template <class Element>
const void *kernel_of(int outer_a, int outer_b) {
    static const void *const kernels[2][2] = {
        {reinterpret_cast<const void *>(gemm_small<Element, 0, 0>), reinterpret_cast<const void *>(gemm_small<Element, 0, 1>)},
        {reinterpret_cast<const void *>(gemm_small<Element, 1, 0>), reinterpret_cast<const void *>(gemm_small<Element, 1, 1>)},
    };
    return kernels[outer_a][outer_b];
}

}  // namespace

const void *small_gemm_kernel(bool is_f16, int outer_a, int outer_b) {
    return is_f16 ? kernel_of<F16>(outer_a, outer_b) : kernel_of<BF16>(outer_a, outer_b);
}

}  // namespace attile::gpu::mma

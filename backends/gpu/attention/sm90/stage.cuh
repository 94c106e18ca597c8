// SPDX-License-Identifier: Apache-2.0
// Stores O through shared memory and TMA: a warp's 16 rows, 64 columns at a time. Unlike storing from registers (attention/mma/output.cuh)
// that needs no exchange between lanes, no addresses and, where registers are few, no spills.
#pragma once

#include "attention/mma/softmax.cuh"
#include "attention/sm90/shared.cuh"
#include "mma/store_row.cuh"

namespace attile::gpu::sm90 {

// By a whole warp. staged: shared memory for O of all the tile's rows; the other arguments are those of store_rows(). Stores only if all 16
// rows belong to the tile and all of O is finite; returns whether it did, the same in all of the warp.
template <class Element, int kColumns, bool kModifies>
__device__ __forceinline__ bool stage_rows(const AttentionArguments &a, uint32_t staged, const AttentionWorkTile &work, const float *o,
                                           const float (&reference)[2], const float (&total)[2],
                                           [[maybe_unused]] const float (&rounding)[2], [[maybe_unused]] float unit) {
    constexpr int kRows = kAttentionStagedRows, kPanels = AttentionShape::panels(kColumns), kPanelRow = kAttentionPanel * 2,
                  kPanelBytes = kRows * kPanelRow;
    const int lane = lane_index(), warp = warp_uniform(static_cast<int>(threadIdx.x) / kWarpThreads) - kWarpsOfGroup,
              first_row = warp_uniform(work.first_row) + kRows * warp;
    if (a.has_map_o == 0 || first_row + kRows > warp_uniform(work.rows)) return false;
    const uint32_t panels = staged + warp * (kPanels * kPanelBytes);
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        factor[r] = total[r] != 0 ? reciprocal_fast(total[r]) : 0.0f;
        if constexpr (SoftmaxRange<Element>::kCorrects) factor[r] *= reciprocal_fast(1 + rounding[r] * factor[r]);
    }
    if (lane == 0) tensor_store_wait_read<0>();  // Of the tile before.
    __syncwarp();
    const uint32_t row = panels + (lane & 15) * kPanelRow;
    uint32_t zeros = 0;
#pragma unroll
    for (int j = 0; j < kColumns / 8; j += 2) {
        uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float *const pair = o + 4 * (j + i / 2) + 2 * (i % 2);
            x[i] = narrow_pair<Element>(pair[0] * factor[i % 2], pair[1] * factor[i % 2]);
            zeros = add_product_with_zero<Element>(x[i], zeros);
        }
        store_matrices(row + j / 8 * kPanelBytes + (((j % 8 + (lane >> 4)) ^ (lane & 7)) << 4), x[0], x[1], x[2], x[3]);
    }
    if (__any_sync(~0u, (zeros & 0x7fff7fffu) != 0)) return false;
    async_proxy_fence();
    __syncwarp();
    if (lane == 0) {
#pragma unroll
        for (int j = 0; j < kPanels; ++j)
            tensor_store_4d(&a.map_o, panels + j * kPanelBytes, kAttentionPanel * j, work.first_q + first_row, work.head,
                            work.batch * a.o_batch);
        tensor_store_commit();
    }
    if (a.p.lse.data != nullptr && (lane & 3) == 0) {
        float *const lse = static_cast<float *>(const_cast<void *>(a.p.lse.data)) + work.batch * a.p.lse.stride[0] +
                           work.head * a.p.lse.stride[1] + (static_cast<int64_t>(work.first_q) + first_row + lane / 4) * a.p.lse.stride[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float sum = add_log2_of(reference[r], total[r]);
            lse[r * 8 * a.p.lse.stride[2]] = total[r] != 0 ? kModifies ? from_score(sum, unit) : sum * static_cast<float>(kLn2) : -INFINITY;
        }
    }
    return true;
}

}  // namespace attile::gpu::sm90

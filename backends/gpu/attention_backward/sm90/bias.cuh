// SPDX-License-Identifier: Apache-2.0
// Products of a bias's gradient on Hopper: wgmma, of 64 rows by all 128 keys a warpgroup, from the stages of
// attention_backward/mma/bias.cuh, whose swizzle is wgmma's own. dP is under way while probabilities are made.
#pragma once

#include "attention/sm90/product.cuh"
#include "attention_backward/mma/bias.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

template <class Of>
struct GroupBiasProducts {
    using Element = Of;
    static constexpr int kBlocks = mma::kGroupBiasBlocks, kFound = mma::kGroupBiasFound;
    static constexpr bool kAreLater = true, kCaps = false;

    static __device__ __forceinline__ void begin(float (&to)[mma::kBiasOfThread], uint32_t from, bool is_first, int) {
        constexpr int kGroupRows = 64, kRowBytes = mma::kBiasColumns * 2;
        const int group = warp_uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);
        const uint64_t rows = product_operand(from + group * (kGroupRows * kRowBytes), 16),
                       keys = product_operand(from + mma::kBiasOperandBytes, 16);
        keep_in_registers(to);
        product_fence();
#pragma unroll
        for (int i = 0; i < mma::kBiasColumns / 16; ++i)
            score_product<Element, mma::kBiasTile>(to, rows + 2 * i, keys + 2 * i, i != 0 || !is_first ? 1 : 0);
        product_commit();
    }
    static __device__ __forceinline__ void end(float (&to)[mma::kBiasOfThread]) {
        product_wait<0>();
        keep_in_registers(to);
    }
    static __device__ __forceinline__ void publish() { async_proxy_fence(); }
};

template <class Element>
__global__ void ATTILE_LAUNCH_BOUNDS(mma::kBiasThreads, 1) attention_backward_bias(const __grid_constant__ mma::BackwardBiasTask a) {
    extern __shared__ __align__(1024) unsigned char memory[];
    mma::BiasSums<GroupBiasProducts<Element>>(a, memory).run();
}

}  // namespace attile::gpu::sm90

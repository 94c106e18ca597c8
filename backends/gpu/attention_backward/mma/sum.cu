// SPDX-License-Identifier: Apache-2.0
#include <attile/attile.h>

#include "attention_backward/mma/sum.cuh"

namespace attile::gpu::mma {
namespace {

template <class Element, class Config>
BackwardSumKernel sum_of() {
    return {reinterpret_cast<const void *>(&attention_backward_sum<Element, Config>), &Config::kShape};
}
template <class Element>
BackwardSumKernel sum_of(int64_t columns) {
    if (columns <= 64) return sum_of<Element, BackwardSum64>();
    if (columns <= 128) return sum_of<Element, BackwardSum128>();
    return sum_of<Element, BackwardSum256>();
}

}  // namespace

BackwardSumKernel backward_sum(int32_t dtype, int64_t columns) {
    return dtype == ATTILE_F16 ? sum_of<F16>(columns) : sum_of<BF16>(columns);
}

}  // namespace attile::gpu::mma

// SPDX-License-Identifier: Apache-2.0
#include <attile/attile.h>

#include "attention_backward/mma/prepare.cuh"
#include "attention_backward/mma/prepare.h"

namespace attile::gpu::mma {
namespace {

template <class Element, bool kChecks>
const void *prepare_of(int64_t columns) {
    if (columns <= 64) return reinterpret_cast<const void *>(&attention_backward_prepare<Element, 8, kChecks>);
    if (columns <= 128) return reinterpret_cast<const void *>(&attention_backward_prepare<Element, 16, kChecks>);
    return reinterpret_cast<const void *>(&attention_backward_prepare<Element, 32, kChecks>);
}

}  // namespace

const void *backward_prepare(int32_t dtype, int64_t columns, bool checks) {
    if (checks) return dtype == ATTILE_F16 ? prepare_of<F16, true>(columns) : prepare_of<BF16, true>(columns);
    return dtype == ATTILE_F16 ? prepare_of<F16, false>(columns) : prepare_of<BF16, false>(columns);
}

}  // namespace attile::gpu::mma

// SPDX-License-Identifier: Apache-2.0
#include "quantize/families.h"

#include "quantize/simt/plan.h"

namespace attile::gpu {
namespace {

constexpr Family<attile_quantize_problem> kQuantize[] = {{nullptr, nullptr, simt::plan_quantize}};

}  // namespace

const Families<attile_quantize_problem> kQuantizeFamilies(kQuantize);

}  // namespace attile::gpu

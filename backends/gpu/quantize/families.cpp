// SPDX-License-Identifier: Apache-2.0
#include "quantize/families.h"

#include "quantize/simt/plan.h"

namespace attile::gpu {
namespace {

constexpr Family<attile_quantize_problem> kQuantize[] = {{nullptr, nullptr, simt::plan_quantize}};
constexpr Family<attile_repack_problem> kRepack[] = {{nullptr, nullptr, simt::plan_repack}};

}  // namespace

const Families<attile_quantize_problem> kQuantizeFamilies(kQuantize);
const Families<attile_repack_problem> kRepackFamilies(kRepack);

}  // namespace attile::gpu

// SPDX-License-Identifier: Apache-2.0
#include "rows/families.h"

#include "rows/exact/plan.h"
#include "rows/simt/plan.h"

namespace attile::gpu {
namespace {

constexpr Family<attile_attention_merge_problem> kMerge[] = {{nullptr, nullptr, exact::plan_merge}, {nullptr, nullptr, simt::plan_merge}};
constexpr Family<attile_attention_merge_backward_problem> kMergeBackward[] = {{nullptr, nullptr, simt::plan_merge_backward}};
constexpr Family<attile_reduce_problem> kReduce[] = {{nullptr, nullptr, exact::plan_reduce}, {nullptr, nullptr, simt::plan_reduce}};
constexpr Family<attile_softmax_problem> kSoftmax[] = {{nullptr, nullptr, exact::plan_softmax}, {nullptr, nullptr, simt::plan_softmax}};

}  // namespace

const Families<attile_attention_merge_problem> kMergeFamilies(kMerge);
const Families<attile_attention_merge_backward_problem> kMergeBackwardFamilies(kMergeBackward);
const Families<attile_reduce_problem> kReduceFamilies(kReduce);
const Families<attile_softmax_problem> kSoftmaxFamilies(kSoftmax);

}  // namespace attile::gpu

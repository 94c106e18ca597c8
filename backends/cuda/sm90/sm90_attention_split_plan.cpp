// SPDX-License-Identifier: Apache-2.0
#include "sm90_attention_split_plan.h"

#include <iterator>

#include "plan/attention_run.h"
#include "simt_status.h"
#include "sm90_attention_split_table.h"

namespace attile::sm90 {
namespace {

using KernelFn = AttentionSplitKernel (*)();
constexpr KernelFn kKernels[] = {attention_f32_cols64, attention_f32_cols128};
constexpr int64_t kLoaded = 4;  // Columns that are loaded at once.

// A choice that is not taken says nothing: sm80 is asked next, and says why.
AttentionChoice choose(simt::Device &device, const attile_attention_problem &p) {
    if (attention_split_refused(device, p).text[0] != '\0') return {};
    const AttentionChoice choice = attention_examine(p, true);
    if (!choice.taken || attention_modifies(p) || p.head_dim % kLoaded != 0) return {};
    const AttentionTile tile = narrowest_tile(kKernels, std::size(kKernels), p);
    return tile.kernel != nullptr ? attention_cut(device, p, tile) : AttentionChoice();
}

}  // namespace

int32_t attention_split_query(simt::Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                              simt::Declined &declined) {
    const AttentionChoice choice = choose(device, problem);
    taken = choice.taken;
    declined = choice.declined;
    if (taken) simt::attention_report(device, problem, choice.plan, support);
    return ATTILE_OK;
}

int32_t attention_split_run(simt::Device &device, const attile_attention_problem &p, simt::Workspace &workspace, simt::Stream stream) {
    const AttentionChoice choice = choose(device, p);
    return attention_run_tiles(device, p, choice, workspace, stream);
}

}  // namespace attile::sm90

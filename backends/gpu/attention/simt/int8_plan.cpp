// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/int8_plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "attention/run.h"
#include "attention/simt/run_plan.h"
#include "attention/tile_plan.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::simt {
namespace {

// Those of which eight_bits.h knows no instruction compute one product after the other.
bool multiplies_four(const DeviceProperties &device) {
    if (std::strncmp(device.arch, "sm_", 3) == 0) return device.capability >= 61;
    if (std::strncmp(device.arch, "gfx", 3) != 0) return true;
    for (const char *name : {"906", "908", "90a", "1011", "1012", "1030", "1031", "1032", "1034", "1100", "1101", "1102"})
        if (std::strcmp(device.arch + 3, name) == 0) return true;
    return false;
}

// Has each row one scale?
bool is_one_a_row(const attile_operand &scale, int64_t group, int64_t cols) {
    return !is_present(scale) || scale.stride[3] == 0 || group >= cols;
}

// Why the problem is not for these kernels; null: it may be.
const char *why_not(const DeviceProperties &device, const attile_attention_problem &p, const AttentionPlan &usual) {
    if (!multiplies_four(device)) return "the device does not multiply four int8 at a time";
    if (p.head_dim != p.head_dim_v || (p.head_dim != 64 && p.head_dim != 128)) return "head_dim and head_dim_v are not both 64 or both 128";
    if (usual.path == AttentionPath::kDecode) return "for so few rows keys are streamed";
    if (usual.path != AttentionPath::kTile) return "the scale is too large";
    if (attention_changes_scores(p) || attention_has_sparse_mask(p)) return "scores are changed or hidden by more than lengths and windows";
    if (is_present(p.block_table)) return "k and v lie in pages";
    if (is_present(p.key_starts)) return "keys are padded on the left";
    if (!is_one_a_row(p.q_scale, p.q_group, p.head_dim) || !is_one_a_row(p.k_scale, p.k_group, p.head_dim) ||
        !is_one_a_row(p.v_scale, p.v_group, p.head_dim_v))
        return "a scale differs within a row";
    if (!lies_in_pieces(p.q) || !lies_in_pieces(p.k) || !lies_in_pieces(p.v))
        return "rows of q, k or v do not begin at multiples of 16 bytes";
    for (const attile_operand *x : {&p.k, &p.v, &p.k_scale, &p.v_scale})
        if (is_present(*x) && !has_short_stride(*x)) return "rows of k or v, or their scales, lie far apart";
    return nullptr;
}

struct Int8Attention {
    const attile_attention_problem *problem;
    AttentionPlan plan;
    Declined floats;  // Why weights are not rounded, though they may be.

    int32_t describe(Device &device, attile_support &support) const {
        attention_report(device, *problem, plan, support);
        if (floats.text[0] != '\0') {
            const std::size_t length = std::strlen(support.text);
            std::snprintf(support.text + length, sizeof support.text - length, "; weights stay float32: %s", floats.text);
        }
        return ATTILE_OK;
    }
    void move_to(const attile_attention_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return run_plan(device, *problem, plan, workspace, stream);
    }
};

}  // namespace

Planned<attile_attention_problem> plan_attention_int8(Device &device, const attile_attention_problem &p, const AttentionPlan &usual,
                                                      int64_t usual_workspace) {
    // Others are not declined in its name.
    if (p.q.dtype != ATTILE_I8 || p.k.dtype != ATTILE_I8 || p.v.dtype != ATTILE_I8 || usual.path == AttentionPath::kNothing) return {};
    const auto declined = [](const char *why) {
        Declined reason;
        std::snprintf(reason.text, sizeof reason.text, "%s", why);
        return reason;
    };
    if (const char *const why = why_not(device.properties(), p, usual)) return Planned<attile_attention_problem>(declined(why));
    Int8Attention attention = {&p, {}, {}};
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    AttentionTileKernels kernels = attention_int8(Int8Product::kFloats);
    if ((p.launch.flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0) {
        const bool by_key = attention_scales_by_key(p, p.v_scale);
        const AttentionTileKernels rounding = attention_int8(by_key ? Int8Product::kScaledSteps : Int8Product::kSteps);
        if (invariant)
            attention.floats = declined("BATCH_INVARIANT is asked for");
        else if (rounding.count == 0)
            attention.floats = declined("v_scale differs from key to key");
        else
            kernels = rounding;
    }
    for (int32_t i = 0; i < kernels.count; ++i)
        if (kernels.all[i].cols == p.head_dim) plan_tile(device, p, kernels.all[i], invariant, AttentionPlan(), attention.plan);
    if (attention.plan.path != AttentionPath::kTile)
        return Planned<attile_attention_problem>(declined("heads of a group are rows of one problem, under a window"));
    attention_cut_launches(device, p, attention.plan);
    // Where the operands will lie is not known yet: others take them where no piece begins.
    const bool knows_addresses = p.q.data != nullptr && p.k.data != nullptr && p.v.data != nullptr;
    const int64_t workspace = attention.plan.workspace;
    return Planned<attile_attention_problem>(attention, knows_addresses ? workspace : std::max(workspace, usual_workspace));
}

}  // namespace attile::gpu::simt

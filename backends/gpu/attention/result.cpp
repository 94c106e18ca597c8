// SPDX-License-Identifier: Apache-2.0
#include "attention/result.h"

#include <algorithm>

#include "attention/families.h"
#include "attention/run.h"
#include "host/rounded.h"
#include "host/sizes.h"
#include "host/status.h"
#include "quantize/attention_result.h"

namespace attile::gpu {
namespace {

int64_t floats(const attile_attention_problem &p) {
    return std::max<int64_t>(attention_result_head(p) * p.heads_q * (is_present(p.cu_len_q) ? 1 : p.batch), 1);
}

// Attention that other families are given. The axes of its o are dense.
attile_attention_problem wide_of(const attile_attention_problem &p, void *result) {
    attile_attention_problem wide = p;
    wide.o_scale = {};
    wide.o_group = 0;
    wide.o.data = result;
    wide.o.dtype = ATTILE_F32;
    const int64_t head = attention_result_head(p), entry = is_present(p.cu_len_q) || p.batch == 1 ? 0 : head * p.heads_q;
    const int64_t stride[] = {entry, head, attention_result_row(p), 1};
    std::copy(stride, stride + 4, wide.o.stride);
    return wide;
}

struct RoundedAttention {
    const attile_attention_problem *problem;

    int32_t describe(Device &device, attile_support &support) const {
        const attile_attention_problem wide = wide_of(*problem, nullptr);
        const int32_t status = plan_step(device, wide, kAttentionFamilies).describe(device, support);
        const double bytes = support.bytes;
        support.bytes += attention_bytes(*problem) - attention_bytes(wide);
        name_rounded(support, "o", bytes);
        return status;
    }
    void move_to(const attile_attention_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        float *const result = workspace.take<float>(floats(*problem));
        if (result == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        const attile_attention_problem wide = wide_of(*problem, result);
        const Planned<attile_attention_problem> planned = plan_step(device, wide, kAttentionFamilies);
        if (planned.refusal() != ATTILE_OK) return fail(planned.refusal(), "%s", planned.sentence());
        const int32_t status = planned.launch(device, workspace, stream);
        return status == ATTILE_OK ? round_attention_result(device, *problem, result, stream) : status;
    }
};

}  // namespace

Planned<attile_attention_problem> plan_attention_result(Device &device, const attile_attention_problem &p) {
    if (dtype_bits(p.o.dtype) != 8) return {};
    const attile_attention_problem wide = wide_of(p, nullptr);
    const Planned<attile_attention_problem> planned = plan_step(device, wide, kAttentionFamilies);
    if (planned.refusal() != ATTILE_OK) return Planned<attile_attention_problem>::refused(planned.refusal(), "%s", planned.sentence());
    attile_attention_problem elsewhere = wide;
    place_oddly({&elsewhere.q, &elsewhere.k, &elsewhere.v});
    const int64_t step = std::max(step_workspace(device, wide, kAttentionFamilies), step_workspace(device, elsewhere, kAttentionFamilies));
    return Planned<attile_attention_problem>(RoundedAttention{&p}, workspace_piece(4 * floats(p)) + step);
}

}  // namespace attile::gpu

// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/bytes_plan.h"

#include <algorithm>
#include <iterator>

#include "attention/mma/copies.h"
#include "attention/run.h"
#include "attention/sm90/instances.h"
#include "attention/sm90/launch.h"
#include "attention/sm90/transpose.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kFewRows = 64;         // Of a key head: up to so many keys are streamed, not multiplied.
constexpr int64_t kTransposedStep = 16;  // Bytes that are read at once.
constexpr int64_t kMostGridZ = 65535;
constexpr double kShare = 0.5;  // Of the peak, as measured on an H200.

// All numbers of a head have one scale.
bool is_one_a_head(const attile_operand &scale) { return !is_present(scale) || (scale.stride[2] == 0 && scale.stride[3] == 0); }

// Why the problem is not for these kernels; empty: it may be. What is said has to do with them alone.
Declined refused(const attile_attention_problem &p) {
    const auto why = [](const char *text) { return attention_declined("%s", text).declined; };
    if ((p.launch.flags & ATTILE_FLAG_FAST_ACCUMULATION) == 0) return why("8-bit floats are multiplied as they are with FAST_ACCUMULATION");
    // Few rows, or many heads, have other kernels.
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return why("BATCH_INVARIANT is asked for");
    if (attention_changes_scores(p) || attention_has_sparse_mask(p)) return why("e4m3 has no kernel that changes scores");
    if (is_present(p.block_table) || is_present(p.cu_len_k)) return why("e4m3 has no kernel for keys in pages or packed");
    if (!(p.scale > 0)) return why("scale is not positive");
    if (!is_one_a_head(p.q_scale) || !is_one_a_head(p.k_scale) || !is_one_a_head(p.v_scale)) return why("a scale differs within a head");
    if (p.heads_kv < 1 || p.len_q * (p.heads_q / p.heads_kv) <= kFewRows) return why("so few rows are streamed faster");
    if (p.head_dim % 2 != 0) return why("head_dim is odd");
    if (p.batch * p.heads_kv > kMostGridZ) return why("more heads than are transposed at once");
    for (const Declined &declined : {attention_unreached("q", p.q, p.head_dim), attention_unreached("k", p.k, p.head_dim),
                                     attention_unreached("v", p.v, p.head_dim_v)})
        if (declined.text[0] != '\0') return declined;
    if (p.head_dim_v % kTransposedStep != 0) return why("head_dim_v is not a multiple of 16");
    return {};
}

int64_t padded_keys(const attile_attention_problem &p) { return ceil_div(p.len_k, kTransposedKeys) * kTransposedKeys; }
int64_t transposed_bytes(const attile_attention_problem &p) { return p.batch * p.heads_kv * p.head_dim_v * padded_keys(p); }

// Two numbers an element of 16 bits, which is what TMA and the plan know; V is the transposed one at `values`, its axes batch, head,
// column, pair of keys.
attile_attention_problem of_pairs(const attile_attention_problem &p, void *values) {
    attile_attention_problem pairs = p;
    for (attile_operand *x : {&pairs.q, &pairs.k}) {
        x->dtype = p.o.dtype == ATTILE_F16 ? ATTILE_F16 : ATTILE_BF16;
        for (int axis = 0; axis < 3; ++axis) x->stride[axis] /= 2;
    }
    pairs.head_dim = p.head_dim / 2;
    pairs.v.dtype = pairs.q.dtype;
    pairs.v.data = values;
    const int64_t row = padded_keys(p) / 2, head = row * p.head_dim_v;
    const int64_t stride[] = {head * p.heads_kv, head, row, 1};
    std::copy(stride, stride + 4, pairs.v.stride);
    return pairs;
}

Sm90AttentionChoice choose_bytes(Device &device, const attile_attention_problem &p) {
    if (const Declined why = refused(p); why.text[0] != '\0') return {attention_declined("%s", why.text)};
    const attile_attention_problem pairs = of_pairs(p, nullptr);
    Sm90AttentionChoice choice = {attention_examine(pairs)};
    if (!choice.taken) return choice;
    for (const attile_operand *x : {&pairs.q, &pairs.k}) {
        const bool is_q = x == &pairs.q;
        if (const char *why = unreachable(*x, is_q ? p.heads_q : 1, is_q ? p.total_q : p.total_k, 2))
            return {attention_declined("%s %s", is_q ? "q" : "k", why)};
    }
    const bool is_f16 = pairs.q.dtype == ATTILE_F16;
    const AttentionTile tile = narrowest_tile(is_f16 ? kAttentionBytesF16 : kAttentionBytesBF16, std::size(kAttentionBytesBF16), pairs);
    const bool packs = !is_present(p.q_scale) || p.q_scale.stride[1] == 0;
    static_cast<AttentionChoice &>(choice) = attention_cut(device, pairs, tile, packs ? Packing::kThatDivides : Packing::kNone);
    if (!choice.taken) return choice;
    const int64_t bytes = transposed_bytes(p);
    if (!attention_copies_fit(device, bytes)) return {attention_declined("a copy of v would take too much memory")};
    choice.plan.share = kShare;
    choice.plan.workspace += workspace_piece(bytes);
    choose_grid(device, false, choice);
    return choice;
}

int32_t transpose_values(Device &device, const attile_attention_problem &p, const AttentionParams &params, uint8_t *to, Stream stream) {
    TransposeArguments a = {};
    a.p = params;
    a.to = to;
    a.row = padded_keys(p);
    a.columns = static_cast<int32_t>(p.head_dim_v);
    a.heads = Divider(p.heads_kv);
    Dim3 grid, block;
    grid.x = static_cast<uint32_t>(a.row / kTransposedKeys);
    grid.y = static_cast<uint32_t>(ceil_div(p.head_dim_v, kTransposedColumns));
    grid.z = static_cast<uint32_t>(p.batch * p.heads_kv);
    block.x = kTransposeThreads;
    void *arguments[] = {&a};
    return device.launch(transpose_values_kernel(), grid, block, 0, arguments, stream);
}

struct BytesAttention {
    const attile_attention_problem *problem;
    Sm90AttentionChoice choice;

    int32_t describe(Device &device, attile_support &support) const {
        attention_report(device, *problem, choice.plan, support);
        support.tile_k = 2 * choice.plan.depth;
        return ATTILE_OK;
    }
    void move_to(const attile_attention_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        const attile_attention_problem &p = *problem;
        const AttentionPlan &plan = choice.plan;
        AttentionArguments a = {};
        int32_t status = attention_task(p, choice, kL2Bytes, workspace, a);
        if (status != ATTILE_OK) return status;
        uint8_t *const values = workspace.take<uint8_t>(transposed_bytes(p));
        if (values == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        status = transpose_values(device, p, a.p, values, stream);
        const attile_attention_problem pairs = of_pairs(p, values);
        if (status == ATTILE_OK) status = map_queries(device, pairs, plan, a);
        const KeyBox keys = {pairs.head_dim, p.total_k, p.k.stride[1] == 0 ? 1 : p.heads_kv, p.k.stride[0] == 0 ? 1 : p.batch, plan.keys};
        if (status == ATTILE_OK) status = map_key_boxes(device, pairs.k, keys, a.k_head, a.k_batch, &a.map_k);
        // A box is all of a head's columns: rows past them are zeros.
        const KeyBox columns = {padded_keys(p) / 2, p.head_dim_v, p.heads_kv, p.batch, columns_of(plan)};
        if (status == ATTILE_OK) status = map_key_boxes(device, pairs.v, columns, a.v_head, a.v_batch, &a.map_v);
        if (status == ATTILE_OK && p.o.dtype == pairs.q.dtype) status = map_output(device, p, plan, a);
        return status != ATTILE_OK ? status : launch_tiles(device, p, choice, a, workspace, stream);
    }

  private:
    // Of V, in a tile: as many as of Q and K, of which an element is two.
    static int32_t columns_of(const AttentionPlan &plan) { return 2 * plan.depth; }
};

}  // namespace

Planned<attile_attention_problem> plan_attention_bytes(Device &device, const attile_attention_problem &p) {
    // Others are not declined in its name.
    if (p.q.dtype != ATTILE_F8_E4M3 || p.k.dtype != ATTILE_F8_E4M3 || p.v.dtype != ATTILE_F8_E4M3)
        return Planned<attile_attention_problem>();
    const Sm90AttentionChoice choice = choose_bytes(device, p);
    if (!choice.taken) return Planned<attile_attention_problem>(choice.declined);
    return Planned<attile_attention_problem>(BytesAttention{&p, choice}, choice.plan.workspace);
}

}  // namespace attile::gpu::sm90

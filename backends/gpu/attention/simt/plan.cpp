// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "attention/run.h"
#include "attention/simt/dense_rows.h"
#include "attention/simt/int8_plan.h"
#include "attention/simt/products_plan.h"
#include "attention/simt/run_plan.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::simt {
namespace {

// What a few rows by the decode kernel take: its launches, and this share of the memory's rate.
constexpr double kDecodeSeconds = 1e-5, kDecodeShare = 0.7;

int64_t bytes_of(const attile_operand &x) { return (x.dtype & 0xff) / 8; }

// Rows that are whole blocks but for a few, cut in two. A block of few rows takes most of the time of a full one, and often a wave of its
// own; the decode kernel takes what reading K and V does.
struct CutRows {
    attile_attention_problem problem[2];
    AttentionPlan plan[2];
    bool is_cut = false;
    int64_t workspace = 0;  // Of the parts, or of the rows uncut.

    CutRows(Device &device, const attile_attention_problem &p, const AttentionPlan &uncut) : workspace(uncut.workspace) {
        const int64_t few = uncut.rows > 0 ? p.len_q % uncut.rows : 0;
        const bool sees_all =
            p.window_left < 0 && p.window_right < 0 && !is_present(p.alibi_slopes);  // Nothing counts rows from the first.
        if (uncut.path != AttentionPath::kTile || uncut.pack != 1 || uncut.convert || few == 0 || few == p.len_q || !sees_all ||
            is_present(p.cu_len_q) || (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0)
            return;
        set_problems(p, few);
        for (int i = 0; i < 2; ++i) plan[i] = gpu::plan_attention(device, problem[i]);
        if (plan[0].path != AttentionPath::kTile || plan[1].path != AttentionPath::kDecode) return;
        const double rows = static_cast<double>(p.batch * p.heads_kv * p.len_k), bandwidth = device.properties().peak_bandwidth;
        const double bytes = rows * static_cast<double>(p.head_dim * bytes_of(p.k) + p.head_dim_v * bytes_of(p.v));
        const double decode = kDecodeSeconds + bytes / (kDecodeShare * (bandwidth > 0 ? bandwidth : 5e11));
        is_cut = plan[0].cost + std::max(decode, plan[1].cost) < uncut.cost;
        if (is_cut) workspace = std::max(plan[0].workspace, plan[1].workspace);
    }
    // The parts of a problem whose last `few` rows are cut off.
    void set_problems(const attile_attention_problem &p, int64_t few) {
        for (attile_attention_problem &part : problem) part = p;
        problem[0].len_q = problem[0].total_q = p.len_q - few;
        problem[1].len_q = problem[1].total_q = few;
        for (attile_operand *x : {&problem[1].q, &problem[1].o, &problem[1].lse, &problem[1].bias, &problem[1].allowed})
            if (is_present(*x))
                x->data = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(x->data) +
                                                   static_cast<uintptr_t>((p.len_q - few) * x->stride[2] * bytes_of(*x)));
    }
};

struct SimtAttention {
    const attile_attention_problem *problem;
    AttentionPlan plan;
    CutRows cut;
    Declined products;  // Why it is not composed of products.

    int32_t describe(Device &device, attile_support &support) const {
        attention_report(device, *problem, cut.is_cut ? cut.plan[0] : plan, support);
        if (cut.is_cut) {
            const std::size_t length = std::strlen(support.text);
            std::snprintf(support.text + length, sizeof support.text - length, "; the last %lld rows by %s",
                          static_cast<long long>(cut.problem[1].len_q), cut.plan[1].name);
        }
        say_why_no_products(products, support);
        count_matrix_units(device.properties(), problem->q.dtype, support);
        return ATTILE_OK;
    }
    void move_to(const attile_attention_problem &to) {
        problem = &to;
        if (cut.is_cut) cut.set_problems(to, cut.problem[1].len_q);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        if (!cut.is_cut) return run_plan(device, *problem, plan, workspace, stream);
        const int32_t status = run_plan(device, cut.problem[0], cut.plan[0], workspace, stream);
        return status == ATTILE_OK ? run_plan(device, cut.problem[1], cut.plan[1], workspace, stream) : status;
    }
};

// Queries of 8 bits times their scales, as float32 in dense rows of whole vectors.
int64_t dense_columns(const attile_attention_problem &p) { return ceil_div(std::max<int64_t>(p.head_dim, 1), 4) * 4; }
int64_t dense_floats(const attile_attention_problem &p) {
    return (is_present(p.cu_len_q) ? 1 : p.batch) * p.heads_q * p.total_q * dense_columns(p);
}
attile_attention_problem with_dense_queries(const attile_attention_problem &p, float *queries) {
    attile_attention_problem dense = p;
    dense.q_scale = {};
    dense.q.dtype = ATTILE_F32;
    dense.q.data = queries;
    const int64_t row = dense_columns(p), head = p.total_q * row, entry = is_present(p.cu_len_q) ? 0 : p.heads_q * head;
    const int64_t stride[] = {entry, head, row, 1};
    std::copy(stride, stride + 4, dense.q.stride);
    return dense;
}

struct DenseQueries {
    const attile_attention_problem *problem;
    SimtAttention plan;  // Of the problem with such queries.
    Declined int8;       // Why they are not multiplied as they are.

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = plan.describe(device, support);
        support.level = ATTILE_SUPPORT_EMULATED;
        const std::size_t length = std::strlen(support.text);
        std::snprintf(support.text + length, sizeof support.text - length, "; q is rewritten as float32 first%s%s",
                      int8.text[0] != '\0' ? "; no int8 products: " : "", int8.text);
        return status;
    }
    void move_to(const attile_attention_problem &to) {
        problem = &to;
        plan.move_to(to);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        const attile_attention_problem &p = *problem;
        float *const queries = workspace.take<float>(dense_floats(p));
        if (queries == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        const bool packed = is_present(p.cu_len_q);
        DenseCut cut = {p.heads_q, p.total_q, p.head_dim, dense_columns(p), 0, p.batch * p.heads_q, packed, nullptr};
        cut.scales = attention_scales(p, p.q_scale, p.q_group);
        AttentionOperand rewritten;
        const int32_t status = attention_densify(device, p.q, cut, queries, rewritten, stream);
        if (status != ATTILE_OK) return status;
        const attile_attention_problem dense = with_dense_queries(p, queries);
        SimtAttention moved = plan;
        moved.move_to(dense);
        return moved.launch(device, workspace, stream);
    }
};

}  // namespace

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem) {
    const bool narrow = attention_has_narrow_queries(problem);
    const attile_attention_problem dense = narrow ? with_dense_queries(problem, nullptr) : attile_attention_problem();
    const attile_attention_problem &p = narrow ? dense : problem;
    const AttentionPlan plan = gpu::plan_attention(device, p);
    if (plan.status != ATTILE_OK) return Planned<attile_attention_problem>::refused(plan.status, "%s", plan.text);
    // A plan of products would look at the rewritten queries' problem after this call.
    const Planned<attile_attention_problem> products =
        narrow ? Planned<attile_attention_problem>() : plan_attention_products(device, p, plan);
    if (products.has_plan()) return products;
    const CutRows cut(device, p, plan);
    int64_t workspace = cut.workspace;
    if (p.k.data == nullptr || p.v.data == nullptr || attention_has_narrow_keys(p)) {
        // Where K and V will lie is not known yet. Other kernels, of other splits, take them where no vector begins: workspace for those,
        // too. Of 8 and 4 bits also where the query knows an address, which the call need not have.
        for (const bool oddly : {true, false}) {  // A null pointer counts as aligned.
            attile_attention_problem elsewhere = p;
            for (attile_operand *const x : {&elsewhere.k, &elsewhere.v}) x->data = oddly ? odd_address(x->dtype) : nullptr;
            workspace = std::max(workspace, CutRows(device, elsewhere, gpu::plan_attention(device, elsewhere)).workspace);
        }
    }
    const SimtAttention simt = {&problem, plan, cut, products.declined()};
    if (!narrow) return Planned<attile_attention_problem>(simt, workspace);
    workspace += workspace_piece(4 * dense_floats(problem));
    const Planned<attile_attention_problem> int8 = plan_attention_int8(device, problem, plan, workspace);
    if (int8.has_plan()) return int8;
    return Planned<attile_attention_problem>(DenseQueries{&problem, simt, int8.declined()}, workspace);
}

}  // namespace attile::gpu::simt

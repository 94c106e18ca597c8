// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/mma/copies.h"

#include <algorithm>
#include <initializer_list>

#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kPairedColumns = 128;  // Up to which there are kernels for a bias or mask alone.

// Calls take(copy, operand, is a result) for each.
template <class Copies, class Take>
void for_copies(Copies &copies, BackwardProblems &p, const Take &take) {
    take(copies.q, p.forward.q, false);
    take(copies.k, p.forward.k, false);
    take(copies.v, p.forward.v, false);
    take(copies.o, p.forward.o, false);
    take(copies.dout, p.backward.dout, false);
    take(copies.bias, p.forward.bias, false);
    take(copies.allowed, p.forward.allowed, false);
    take(copies.dq, p.backward.dq, true);
    take(copies.dk, p.backward.dk, true);
    take(copies.dv, p.backward.dv, true);
}

void start(const BackwardCopies &copies, const attile_attention_backward_problem &problem, BackwardProblems &to) {
    to.copy(problem);
    to.forward.head_dim = copies.columns;
    to.forward.head_dim_v = copies.columns_v;
}

void share_row(const BackwardCopies &copies, BackwardProblems &to) {
    if (!copies.shares_row) return;
    if (copies.bias.is_made()) to.forward.bias.stride[2] = 0;
    if (copies.allowed.is_made()) to.forward.allowed.stride[2] = 0;
}

void plan_for_masks(const AttentionMaskBytes &mask_bytes, const attile_attention_backward_problem &problem, BackwardProblems &to) {
    to.copy(problem);
    to.forward = mask_bytes.plan_for(*problem.forward);
}

}  // namespace

BackwardCopies backward_copies(const attile_attention_backward_problem &problem, bool scores, bool padded) {
    const attile_attention_problem &p = *problem.forward;
    BackwardCopies none;
    none.columns = p.head_dim;
    none.columns_v = p.head_dim_v;
    if ((p.q.dtype != ATTILE_F16 && p.q.dtype != ATTILE_BF16) || is_present(p.block_table) || p.head_dim < 1 || p.head_dim_v < 1)
        return none;
    BackwardCopies copies;
    const int64_t entries_q = is_present(p.cu_len_q) ? 1 : p.batch, entries_k = is_present(p.cu_len_k) ? 1 : p.batch;
    copies.columns = ceil_div(p.head_dim, kCopiedColumns) * kCopiedColumns;
    copies.columns_v = ceil_div(p.head_dim_v, kCopiedColumns) * kCopiedColumns;
    const auto copy = [&](const attile_operand &x, bool of_keys, int64_t columns, int64_t whole) {
        if (columns == whole && !attention_strides_unreached(x, columns)) return AlignedCopy();
        return aligned_copy(x, of_keys ? entries_k : entries_q, of_keys ? p.heads_kv : p.heads_q, of_keys ? p.total_k : p.total_q, columns);
    };
    copies.q = copy(p.q, false, p.head_dim, copies.columns);
    copies.k = copy(p.k, true, p.head_dim, copies.columns);
    copies.v = copy(p.v, true, p.head_dim_v, copies.columns_v);
    copies.o = copy(p.o, false, p.head_dim_v, copies.columns_v);
    copies.dout = copy(problem.dout, false, p.head_dim_v, copies.columns_v);
    const auto copy_scores = [&](const attile_operand &x, bool is_padded) {
        const bool has_kernel = backward_has_one_option(p) && std::max(p.head_dim, p.head_dim_v) <= kPairedColumns && x.stride[3] != 0;
        if (!scores || !is_present(x) || !has_kernel || backward_reads_pairs(p, x, is_padded)) return AlignedCopy();
        copies.shares_row = x.stride[2] == 0;
        return aligned_copy(x, p.batch, p.heads_q, copies.shares_row ? 1 : p.len_q, p.len_k);
    };
    if (p.bias.dtype == p.q.dtype) copies.bias = copy_scores(p.bias, false);
    copies.allowed = copy_scores(p.allowed, padded);
    copies.dq = copy(problem.dq, false, p.head_dim, copies.columns);
    copies.dk = copy(problem.dk, true, p.head_dim, copies.columns);
    copies.dv = copy(problem.dv, true, p.head_dim_v, copies.columns_v);
    return copies;
}

void SlicedBackwardCopies::plan_for(const attile_attention_backward_problem &slice, BackwardProblems &to) const {
    BackwardProblems masked;
    plan_for_masks(mask_bytes, slice, masked);
    copies.plan_for(masked.backward, to);
}

SlicedBackwardCopies sliced_backward_copies(const Device &device, const attile_attention_backward_problem &problem, MaskKernels kernels) {
    const attile_attention_problem &p = *problem.forward;
    // What an entry gets must not depend on how many there are.
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    if (invariant || !attention_copies_pay(p)) return {};
    // Sums over batch entries or heads keep them together.
    const bool has_bias = is_present(problem.dbias);
    AttentionSlices smallest = smallest_slices(p);
    if (is_present(problem.dsinks) || (has_bias && problem.bias_extent[0] == 1)) smallest.entries = 1;
    if (has_bias && problem.bias_extent[1] == 1) smallest.heads = 1;
    for (const bool scores : {true, false}) {
        SlicedBackwardCopies made;
        const auto rewrite = [&](const attile_attention_backward_problem &slice) {
            BackwardProblems masked;
            made.mask_bytes = attention_mask_bytes(*slice.forward, kernels);
            plan_for_masks(made.mask_bytes, slice, masked);
            made.copies = backward_copies(masked.backward, scores, made.mask_bytes.any());
            return std::max(made.mask_bytes.workspace(), made.copies.workspace());
        };
        const int64_t bytes = rewrite(problem);
        if (attention_copies_fit(device, bytes)) return made;
        const auto fits = [&](const AttentionSlices &slices) {
            BackwardProblems slice;
            slice.part(problem, slices.part(p, 0));
            return attention_copies_fit(device, rewrite(slice.backward)) && attention_copies_pay(slice.forward);
        };
        if (find_slices(smallest, most_slices(device, bytes), fits, made.slices)) return made;
    }
    return {};
}

int64_t BackwardCopies::workspace() const {
    int64_t bytes = 0;
    for (const AlignedCopy *copy : {&q, &k, &v, &o, &dout, &bias, &allowed, &dq, &dk, &dv})
        bytes += copy->is_made() ? workspace_piece(copy->bytes()) : 0;
    return bytes;
}

void BackwardCopies::plan_for(const attile_attention_backward_problem &problem, BackwardProblems &to) const {
    start(*this, problem, to);
    for_copies(*this, to, [](const AlignedCopy &copy, attile_operand &operand, bool) {
        if (!copy.is_made()) return;
        operand.data = nullptr;
        std::copy(copy.stride, copy.stride + 4, operand.stride);
    });
    share_row(*this, to);
}

bool BackwardCopies::place(const attile_attention_backward_problem &problem, BackwardProblems &to, Workspace &workspace,
                           AlignedCopies &copies) const {
    start(*this, problem, to);
    bool is_placed = true;
    for_copies(*this, to, [&](const AlignedCopy &copy, attile_operand &operand, bool is_result) {
        is_placed = is_placed && copies.place(copy, operand, workspace, is_result);
    });
    share_row(*this, to);
    return is_placed;
}

}  // namespace attile::gpu::mma

// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/mma/plan.h"

#include <algorithm>
#include <cstdio>

#include "attention_backward/mma/prepare.h"
#include "attention_backward/run.h"
#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

// Blocks of a step for each multiprocessor: of one that has work, and of one that mostly finds none.
constexpr int64_t kStepBlocks = 16, kIdleBlocks = 8;

// All allotted rows get their numbers, those past the last too.
int64_t prepare_row_blocks(const attile_attention_problem &p) {
    return p.batch * p.heads_q * ceil_div(p.len_q, kBackwardAllottedRows) * (kBackwardAllottedRows / kBackwardPrepareRows);
}

}  // namespace

void BackwardProblems::part(const attile_attention_backward_problem &problem, const AttentionPart &part) {
    copy(problem);
    const int64_t head_q = part.head * (forward.heads_q / forward.heads_kv);
    forward = attention_part(*problem.forward, part);
    for (attile_operand *x : {&backward.dout, &backward.dlse, &backward.dq, &backward.dbias, &backward.dsinks})
        move_operand(*x, part.entry, head_q);
    for (attile_operand *x : {&backward.dk, &backward.dv}) move_operand(*x, part.entry, part.head);
    if (backward.bias_extent[0] != 1) backward.bias_extent[0] = forward.batch;
    if (backward.bias_extent[1] != 1) backward.bias_extent[1] = forward.heads_q;
}

BackwardChoice backward_declined(const Declined &why) {
    BackwardChoice choice;
    choice.declined = why;
    return choice;
}
BackwardChoice backward_declined(const char *why) {
    BackwardChoice choice;
    std::snprintf(choice.declined.text, sizeof choice.declined.text, "%s", why);
    return choice;
}

BackwardChoice backward_examine(const attile_attention_backward_problem &problem, MaskKernels kernels) {
    const attile_attention_problem &p = *problem.forward;
    const AttentionChoice forward = attention_examine(p);
    if (!forward.taken) return backward_declined(forward.declined);
    if (p.head_dim % 8 != 0) return backward_declined("head_dim is not a multiple of 8");
    if (is_present(p.block_table)) return {};
    const bool passes_over = kernels != MaskKernels::kNone && !is_present(p.tree_mask) && !attention_changes_scores(p);
    const Declined refused = attention_sparse_refused(p);
    if (refused.text[0] != '\0' && !passes_over) return backward_declined(refused);
    if (is_present(p.key_starts)) return backward_declined("keys before an entry's first are hidden one by one");
    if (problem.dout.dtype != p.q.dtype) return backward_declined("dout is not of q's type");
    if (p.lse.dtype != ATTILE_F32) return {};
    struct Named {
        const char *name;
        const attile_operand &operand;
        int64_t columns;
    };
    for (const Named &x : {Named{"dout", problem.dout, p.head_dim_v}, Named{"dq", problem.dq, p.head_dim},
                           Named{"dk", problem.dk, p.head_dim}, Named{"dv", problem.dv, p.head_dim_v}}) {
        const Declined unreached = attention_unreached(x.name, x.operand, x.columns);
        if (unreached.text[0] != '\0') return backward_declined(unreached);
    }
    if (prepare_row_blocks(p) + p.batch * p.heads_kv * ceil_div(p.len_k, kBackwardPrepareRows) > kMostBackwardBlocks)
        return backward_declined("there are more blocks of rows than a grid holds");
    BackwardChoice choice;
    choice.taken = true;
    return choice;
}

bool backward_has_one_option(const attile_attention_problem &problem) {
    return is_present(problem.bias) + is_present(problem.allowed) + is_present(problem.alibi_slopes) + (attention_softcap(problem) != 0) ==
           1;
}

bool backward_reads_pairs(const attile_attention_problem &problem, const attile_operand &x, bool padded) {
    return x.stride[3] == 1 && ((x.stride[0] | x.stride[1] | x.stride[2]) & 1) == 0 && (padded || problem.len_k % 2 == 0);
}

BackwardOption backward_option(const attile_attention_problem &problem, bool padded) {
    if (!backward_has_one_option(problem)) return BackwardOption::kSeveral;
    if (is_present(problem.alibi_slopes)) return BackwardOption::kAlibi;
    if (attention_softcap(problem) != 0) return BackwardOption::kSoftcap;
    const bool bias = is_present(problem.bias);
    const attile_operand &x = bias ? problem.bias : problem.allowed;
    const std::uintptr_t bytes = bias ? 2 : 1;
    const bool in_pairs = backward_reads_pairs(problem, x, padded) && reinterpret_cast<std::uintptr_t>(x.data) % (2 * bytes) == 0 &&
                          (!bias || x.dtype == problem.q.dtype);
    return !in_pairs ? BackwardOption::kSeveral : bias ? BackwardOption::kBias : BackwardOption::kAllowed;
}

void backward_cut(const attile_attention_backward_problem &problem, AttentionBackwardPlan &plan) {
    const attile_attention_problem &p = *problem.forward;
    plan.rows = kBackwardAllottedRows;
    plan.sinks = is_present(problem.dsinks);
    plan.pairs = plan.slice = p.batch * p.heads_kv;
    plan.row_tiles = ceil_div(p.len_q, plan.rows);
    plan.units = plan.chunk = plan.split_units = p.heads_q / p.heads_kv * plan.row_tiles;
    plan.key_blocks = ceil_div(p.len_k, plan.keys);
    plan.row_numbers = p.batch * p.heads_q * plan.row_tiles * plan.rows;
    plan.irregular = plan.pairs + 1;
}

int64_t backward_workspace(const AttentionBackwardPlan &plan, int64_t words) {
    return workspace_piece(8 * plan.row_numbers) + workspace_piece(4 * (plan.irregular + words));
}

void backward_report(Device &device, const attile_attention_backward_problem &problem, const AttentionBackwardPlan &plan,
                     const void *kernel, int32_t shared, attile_support &support) {
    support.level = ATTILE_SUPPORT_NATIVE;
    support.status = ATTILE_OK;
    std::snprintf(support.kernel, sizeof support.kernel, "%s", plan.name);
    attention_backward_count(problem, support);
    support.tile_n = plan.keys;
    support.tile_k = plan.depth;
    support.threads = plan.threads;
    support.splits = static_cast<int32_t>(plan.group_parts);
    support.blocks = plan.key_blocks * plan.pairs;
    support.blocks_per_unit = plan.blocks_per_unit;
    support.predicted_share = plan.share;
    KernelResources resources;
    if (device.resources(kernel, &resources) == ATTILE_OK) {
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static + shared;
    }
}

BackwardSteps::BackwardSteps(Device &device, const attile_attention_backward_problem &problem, const AttentionBackwardPlan &plan,
                             Stream stream, BackwardTask &task)
    : device_(device), p_(*problem.forward), plan_(plan), stream_(stream), task_(task) {
    task_.p = attention_backward_params(problem, plan);
    task_.p.end_unit = static_cast<int32_t>(plan.units);
    task_.p.irregular_only = 1;
    task_.exact_only = (p_.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0 ? 1 : 0;
}

uint32_t *BackwardSteps::take(Workspace &workspace, int64_t words) {
    words_ = words;
    task_.p.rows = workspace.take<char>(8 * plan_.row_numbers);
    task_.p.irregular = workspace.take<uint32_t>(plan_.irregular + words);
    return task_.p.rows != nullptr && task_.p.irregular != nullptr ? task_.p.irregular + plan_.irregular : nullptr;
}

void BackwardSteps::zero(void *memory, int64_t bytes) {
    if (status_ == ATTILE_OK) status_ = device_.fill_zero(memory, bytes, stream_);
}

void BackwardSteps::prepare(bool checks) {
    if (checks)
        zero(task_.p.irregular, 4 * (plan_.irregular + words_));
    else
        task_.words = static_cast<int32_t>(plan_.irregular + words_);
    ++task_.p.irregular;  // One for all comes before the pairs'.
    if (is_present(p_.cu_len_q) || is_present(p_.cu_len_k)) {
        const int64_t keys = plan_.group_parts > 1 ? 0 : p_.total_k;  // Those of parts are cleared already.
        task_.p.forward.total_k = keys;
        step(simt::attention_backward_clear_kernel(), p_.heads_q * p_.total_q * p_.head_dim + p_.heads_kv * keys * p_.head_dim_v);
        task_.p.forward.total_k = p_.total_k;
    }
    const int64_t key_blocks = checks ? plan_.pairs * ceil_div(p_.len_k, kBackwardPrepareRows) : 0;
    launch_early(backward_prepare(p_.q.dtype, std::max(p_.head_dim, p_.head_dim_v), checks), &task_, prepare_row_blocks(p_) + key_blocks,
                 kBackwardPrepareThreads);
}

void BackwardSteps::deal(int64_t heads, int64_t length, int64_t kept, int64_t streamed, int64_t sharers) {
    const int64_t in_cache = device_.properties().l2_bytes / 2 / std::max<int64_t>(streamed, 1) * sharers;
    task_.heads = static_cast<int32_t>(heads);
    task_.blocks = static_cast<int32_t>(ceil_div(length, kept));
    task_.chunk = static_cast<int32_t>(std::clamp<int64_t>(in_cache, 1, heads));
}

void BackwardSteps::launch(const void *kernel, void *arguments, int64_t blocks, int32_t threads, int32_t shared) {
    if (status_ != ATTILE_OK) return;
    Dim3 grid, block;
    grid.x = static_cast<uint32_t>(blocks);
    block.x = static_cast<uint32_t>(threads);
    void *pointers[] = {arguments};
    status_ = device_.launch(kernel, grid, block, static_cast<std::size_t>(shared), pointers, stream_);
}

void BackwardSteps::launch_early(const void *kernel, void *arguments, int64_t blocks, int32_t threads) {
    launch_by([&] {
        void *pointers[] = {arguments, nullptr};
        return device_.launch_early(kernel, Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{static_cast<uint32_t>(threads), 1, 1}, 0,
                                    pointers, stream_);
    });
}

void BackwardSteps::one_by_one(int64_t first, int64_t count) {
    task_.p.first_pair = static_cast<uint32_t>(first);
    task_.p.pairs = Divider(count);
    task_.p.block_rows = plan_.rows;
    launch_early(reinterpret_cast<const void *>(simt::attention_backward_irregular_kernel()), &task_.p,
                 step_blocks(32 * count * std::max(plan_.units * plan_.rows, p_.len_k), kIdleBlocks), simt::kBackwardThreads);
}

int64_t BackwardSteps::step_blocks(int64_t tasks, int64_t of_unit) const {
    const int64_t most = of_unit * std::max<int64_t>(device_.properties().compute_units, 1);
    return std::clamp<int64_t>(ceil_div(tasks, simt::kBackwardThreads), 1, most);
}
void BackwardSteps::step(simt::AttentionBackwardKernel kernel, int64_t tasks) { launch_step(kernel, step_blocks(tasks, kStepBlocks)); }

void BackwardSteps::launch_step(simt::AttentionBackwardKernel kernel, int64_t blocks) {
    if (status_ != ATTILE_OK) return;
    Dim3 grid, block;
    grid.x = static_cast<uint32_t>(blocks);
    block.x = simt::kBackwardThreads;
    status_ = gpu::launch(device_, kernel, grid, block, 0, stream_, task_.p);
}

void BackwardSteps::sinks() {
    if (plan_.sinks) launch_step(steps.sinks, p_.heads_q);
}

}  // namespace attile::gpu::mma

// SPDX-License-Identifier: Apache-2.0
#include "sm80_attention_backward_plan.h"

#include <algorithm>
#include <cstdio>

#include "plan/attention_backward_run.h"
#include "sm80_attention_backward_table.h"
#include "tensor_backward_task.h"
#include "tensor_attention_plan.h"

namespace attile::sm80 {
namespace {

using namespace tensor_core;

using KernelsFn = BackwardKernels (*)();
constexpr KernelsFn kKernelsBF16[] = {attention_backward_bf16_cols64, attention_backward_bf16_cols128, attention_backward_bf16_cols256};
constexpr KernelsFn kKernelsF16[] = {attention_backward_f16_cols64, attention_backward_f16_cols128, attention_backward_f16_cols256};

constexpr int64_t kMostBlocks = int64_t{1} << 30;
// Gradients of scores that one kernel leaves for the next: at most this share of the device's memory, and this much, as in simt's plan.
constexpr int64_t kGradientsShare = 64, kMostGradients = 512ll << 20;
constexpr int64_t kFragmentRows = 16, kFragmentBytes = 512;
constexpr int64_t kStepBlocks = 16;  // Of a step that mostly finds nothing to do, for each multiprocessor.

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A plan in simt's terms, or the reason why there is none.
struct BackwardChoice {
    bool taken = false;
    simt::Declined declined;
    simt::AttentionBackwardPlan plan;
    BackwardKernels kernels;
    BackwardKernel keys, rows;
    BackwardSumKernel sum;                         // Null: `rows` makes dq.
    int64_t row_fragments = 0, key_fragments = 0;  // Of a head.
    int64_t gradients = 0;                         // Bytes of a launch.
};

BackwardChoice declined(const simt::Declined &why) {
    BackwardChoice choice;
    choice.declined = why;
    return choice;
}
BackwardChoice declined(const char *why) {
    BackwardChoice choice;
    std::snprintf(choice.declined.text, sizeof choice.declined.text, "%s", why);
    return choice;
}

template <class Kernel>
int32_t blocks_per_unit(simt::Device &device, const Kernel &kernel) {
    int32_t blocks = 0;
    if (kernel.kernel == nullptr || device.properties().shared_opt_in < kernel.shape->shared_bytes()) return 0;
    const auto shared = static_cast<std::size_t>(kernel.shape->shared_bytes());
    return device.occupancy(kernel.kernel, kernel.shape->threads(), shared, &blocks) == ATTILE_OK ? blocks : 0;
}

// Gradients of scores are kept for as many pairs as there is room for, if those fill the device; for dbias, in float, there is no other
// way: false if not even a pair's find room.
bool choose_gradients(simt::Device &device, const attile_attention_backward_problem &problem, BackwardChoice &choice) {
    const attile_attention_problem &p = *problem.forward;
    simt::AttentionBackwardPlan &plan = choice.plan;
    const int64_t group = p.heads_q / p.heads_kv, budget = std::min(kMostGradients, device.properties().memory_total / kGradientsShare);
    plan.bias = is_present(problem.dbias);
    choice.row_fragments = plan.row_tiles * plan.rows / kFragmentRows;
    choice.key_fragments = plan.key_blocks * plan.keys / kFragmentRows;
    const int64_t pair_bytes = group * choice.row_fragments * choice.key_fragments * kFragmentBytes;
    const int64_t pair_bias = plan.bias ? group * plan.row_tiles * plan.rows * p.len_k : 0;
    const auto cut = [&](int64_t bytes_of_pair) {
        const int64_t slice = std::min(plan.pairs, budget / bytes_of_pair);
        if (slice > 0) plan.slice = ceil_div(plan.pairs, ceil_div(plan.pairs, slice));
        return slice > 0;
    };
    // Under a mask blocks differ in length, and one wave of them would last as long as its longest.
    const int64_t wave = static_cast<int64_t>(device.properties().compute_units) * plan.blocks_per_unit;
    const int64_t enough = p.window_left >= 0 || p.window_right >= 0 ? wave * 3 / 2 : wave * 7 / 8;
    // With BATCH_INVARIANT what a batch entry gets must not depend on how many there are.
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    if (cut(pair_bytes + 4 * pair_bias) && (plan.bias || invariant || plan.slice == plan.pairs || plan.slice * plan.key_blocks >= enough) &&
        blocks_per_unit(device, choice.kernels.sum) > 0) {
        choice.sum = choice.kernels.sum;
        choice.gradients = plan.slice * pair_bytes;
    } else if (!plan.bias) {
        plan.slice = plan.pairs;
    } else if (!cut(4 * pair_bias)) {
        return false;
    }
    if (plan.bias) {
        plan.part_bias = plan.slice * pair_bias;
        plan.sum_bias = 1;
        for (const int64_t extent : problem.bias_extent) plan.sum_bias *= extent;
    }
    return true;
}

BackwardChoice choose(simt::Device &device, const attile_attention_backward_problem &problem) {
    const attile_attention_problem &p = *problem.forward;
    const AttentionChoice forward = attention_examine(p);
    if (!forward.taken) return declined(forward.declined);
    if (p.head_dim % 8 != 0) return declined("head_dim is no multiple of 8");
    if (is_present(p.block_table)) return {};
    if (problem.dout.dtype != p.q.dtype) return declined("dout is not of q's type");
    if (p.lse.dtype != ATTILE_F32) return {};
    struct Named {
        const char *name;
        const attile_operand &operand;
        int64_t columns;
    };
    for (const Named &x : {Named{"dout", problem.dout, p.head_dim_v}, Named{"dq", problem.dq, p.head_dim},
                           Named{"dk", problem.dk, p.head_dim}, Named{"dv", problem.dv, p.head_dim_v}}) {
        const simt::Declined unreached = attention_unreached(x.name, x.operand, x.columns);
        if (unreached.text[0] != '\0') return declined(unreached);
    }
    BackwardChoice choice;
    for (const KernelsFn kernels : p.q.dtype == ATTILE_F16 ? kKernelsF16 : kKernelsBF16) {
        choice.kernels = kernels();
        if (choice.kernels.keys.shape->depth >= std::max(p.head_dim, p.head_dim_v)) break;
        choice.kernels = {};
    }
    if (choice.kernels.name == nullptr) return declined("head_dim or head_dim_v is above 256");
    simt::AttentionBackwardPlan &plan = choice.plan;
    plan.modified = p.softcap != 0 || is_present(p.bias) || is_present(p.allowed) || is_present(p.alibi_slopes);
    choice.keys = plan.modified ? choice.kernels.modified_keys : choice.kernels.keys;
    choice.rows = plan.modified ? choice.kernels.modified_rows : choice.kernels.rows;
    plan.blocks_per_unit = blocks_per_unit(device, choice.keys);
    if (plan.blocks_per_unit < choice.keys.shape->blocks && !plan.modified) {
        const int32_t blocks = blocks_per_unit(device, choice.kernels.small_keys);
        if (blocks > 0) {
            choice.keys = choice.kernels.small_keys;
            plan.blocks_per_unit = blocks;
        }
    }
    if (plan.blocks_per_unit < 1 || blocks_per_unit(device, choice.rows) < 1)
        return declined("the device has less shared memory than the kernels take");
    plan.name = choice.kernels.name;
    plan.rows = kBackwardPrepareRows;
    plan.keys = choice.keys.shape->rows();
    plan.depth = choice.keys.shape->depth;
    plan.threads = choice.keys.shape->threads();
    plan.sinks = is_present(problem.dsinks);
    plan.pairs = plan.slice = p.batch * p.heads_kv;
    plan.row_tiles = ceil_div(p.len_q, plan.rows);
    plan.units = plan.chunk = plan.split_units = p.heads_q / p.heads_kv * plan.row_tiles;
    plan.key_blocks = ceil_div(p.len_k, plan.keys);
    plan.row_numbers = p.batch * p.heads_q * plan.row_tiles * plan.rows;
    plan.irregular = plan.pairs + 1;
    if (!choose_gradients(device, problem, choice)) return declined("the gradients of one head's bias find no room");
    plan.workspace = simt::workspace_piece(4 * plan.part_bias) + simt::workspace_piece(4 * plan.sum_bias) +
                     simt::workspace_piece(choice.gradients) + simt::workspace_piece(8 * plan.row_numbers) +
                     simt::workspace_piece(4 * plan.irregular);
    const int64_t rows = choice.rows.shape->rows();
    if (plan.pairs * plan.key_blocks > kMostBlocks ||
        p.batch * p.heads_q * ceil_div(p.len_q, rows) + plan.pairs * plan.key_blocks > kMostBlocks)
        return {};
    choice.taken = true;
    return choice;
}

// One call on its way through its launches. Everything after a failure is left undone.
class BackwardCall {
  public:
    BackwardCall(simt::Device &device, const attile_attention_backward_problem &problem, const BackwardChoice &choice, simt::Stream stream)
        : device_(device), p_(*problem.forward), choice_(choice), stream_(stream), bias_sums_keys_(problem.bias_extent[3] == 1) {
        task_.p = simt::attention_backward_params(problem, choice.plan);
        task_.row_fragments = static_cast<int32_t>(choice.row_fragments);
        task_.key_fragments = static_cast<int32_t>(choice.key_fragments);
        task_.p.end_unit = static_cast<int32_t>(choice.plan.units);
        task_.p.irregular_only = 1;
    }

    int32_t run(simt::Workspace &workspace) {
        const simt::AttentionBackwardPlan &plan = choice_.plan;
        task_.p.rows = workspace.take<char>(8 * plan.row_numbers);
        task_.p.irregular = workspace.take<uint32_t>(plan.irregular);
        if (choice_.gradients > 0) task_.gradients = workspace.take<char>(choice_.gradients);
        if (plan.bias) {
            task_.p.part_bias = workspace.take<float>(plan.part_bias);
            task_.p.sum_bias = workspace.take<float>(plan.sum_bias);
        }
        if (plan.bias && (task_.p.part_bias == nullptr || task_.p.sum_bias == nullptr)) task_.p.rows = nullptr;
        if (task_.p.rows == nullptr || task_.p.irregular == nullptr || (choice_.gradients > 0) != (task_.gradients != nullptr))
            return simt::fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        status_ = device_.fill_zero(task_.p.irregular++, 4 * plan.irregular, stream_);  // One for all comes before the pairs'.
        if (plan.bias && status_ == ATTILE_OK) status_ = device_.fill_zero(task_.p.sum_bias, 4 * plan.sum_bias, stream_);
        if (is_present(p_.cu_len_q) || is_present(p_.cu_len_k))
            step(simt::attention_backward_clear_kernel(), p_.heads_q * p_.total_q * p_.head_dim + p_.heads_kv * p_.total_k * p_.head_dim_v);
        launch(choice_.kernels.prepare, p_.batch * p_.heads_q * plan.row_tiles + plan.pairs * ceil_div(p_.len_k, kBackwardPrepareRows),
               kBackwardPrepareThreads, 0);
        for (int64_t first = 0; first < plan.pairs; first += plan.slice) slice(first, std::min(plan.slice, plan.pairs - first));
        if (!plan.bias) one_by_one(0, plan.pairs);
        if (plan.bias) step(steps_.store_bias, plan.sum_bias);
        if (plan.sinks) launch_step(steps_.sinks, p_.heads_q);
        return status_;
    }

  private:
    void launch(const void *kernel, int64_t blocks, int32_t threads, int32_t shared) {
        if (status_ != ATTILE_OK) return;
        simt::Dim3 grid, block;
        grid.x = static_cast<uint32_t>(blocks);
        block.x = static_cast<uint32_t>(threads);
        void *arguments[] = {&task_};
        status_ = device_.launch(kernel, grid, block, static_cast<std::size_t>(shared), arguments, stream_);
    }
    // The pairs from `first` on.
    void slice(int64_t first, int64_t count) {
        const int64_t group = p_.heads_q / p_.heads_kv;
        task_.p.first_pair = static_cast<uint32_t>(first);
        task_.p.pairs = simt::Divider(count);
        const BackwardShape &keys = *choice_.keys.shape, &rows = *choice_.rows.shape;
        task_.p.block_keys = keys.rows();
        task_.p.block_rows = keys.tile();
        deal(choice_.keys.kernel, count, p_.len_k, keys.rows(), group * p_.len_q, 1, keys.threads(), keys.shared_bytes());
        if (choice_.sum.kernel != nullptr) {
            const BackwardSumShape &sum = *choice_.sum.shape;
            task_.p.block_keys = sum.keys;
            task_.p.block_rows = sum.rows();
            deal(choice_.sum.kernel, count * group, p_.len_q, sum.rows(), p_.len_k, group, sum.threads(), sum.shared_bytes());
        } else {
            task_.p.block_keys = rows.tile();
            task_.p.block_rows = rows.rows();
            deal(choice_.rows.kernel, count * group, p_.len_q, rows.rows(), p_.len_k, group, rows.threads(), rows.shared_bytes());
        }
        if (choice_.plan.bias) {
            one_by_one(first, count);
            step(steps_.add_bias, choice_.plan.sum_bias * (bias_sums_keys_ ? 32 : 1));
        }
    }
    // Pairs that hold NaN or infinity.
    void one_by_one(int64_t first, int64_t count) {
        const simt::AttentionBackwardPlan &plan = choice_.plan;
        task_.p.first_pair = static_cast<uint32_t>(first);
        task_.p.pairs = simt::Divider(count);
        task_.p.block_rows = plan.rows;
        step(steps_.rows, 32 * count * plan.units * plan.rows);
        step(steps_.keys, 32 * count * p_.len_k);
    }
    // Blocks of `kept` of the `length` rows or keys of so many heads, while `streamed` ones, which `sharers` heads have in common, stream
    // by.
    void deal(const void *kernel, int64_t heads, int64_t length, int64_t kept, int64_t streamed, int64_t sharers, int32_t threads,
              int32_t shared) {
        const int64_t streamed_bytes = std::max<int64_t>(2 * streamed * (p_.head_dim + p_.head_dim_v), 1);
        const int64_t in_cache = device_.properties().l2_bytes / 2 / streamed_bytes * sharers;
        task_.heads = static_cast<int32_t>(heads);
        task_.blocks = static_cast<int32_t>(ceil_div(length, kept));
        task_.chunk = static_cast<int32_t>(std::clamp<int64_t>(in_cache, 1, heads));
        launch(kernel, heads * task_.blocks, threads, shared);
    }
    void launch_step(simt::AttentionBackwardKernel kernel, int64_t blocks) {
        if (status_ != ATTILE_OK) return;
        simt::Dim3 grid, block;
        grid.x = static_cast<uint32_t>(blocks);
        block.x = simt::kBackwardThreads;
        status_ = simt::launch(device_, kernel, grid, block, 0, stream_, task_.p);
    }
    // A kernel of simt's whose threads share out `tasks` among themselves.
    void step(simt::AttentionBackwardKernel kernel, int64_t tasks) {
        const int64_t most = kStepBlocks * std::max<int64_t>(device_.properties().compute_units, 1);
        launch_step(kernel, std::clamp<int64_t>(ceil_div(tasks, simt::kBackwardThreads), 1, most));
    }

    simt::Device &device_;
    const attile_attention_problem &p_;
    const BackwardChoice &choice_;
    simt::Stream stream_;
    const simt::AttentionBackwardSteps steps_ = simt::attention_backward_steps_f32();
    const bool bias_sums_keys_;
    BackwardTask task_ = {};
    int32_t status_ = ATTILE_OK;
};

}  // namespace

int32_t attention_backward_query(simt::Device &device, const attile_attention_backward_problem &problem, attile_support &support,
                                 bool &taken, simt::Declined &declined) {
    const BackwardChoice choice = choose(device, problem);
    taken = choice.taken;
    declined = choice.declined;
    if (!taken) return ATTILE_OK;
    const simt::AttentionBackwardPlan &plan = choice.plan;
    const BackwardShape &keys = *choice.keys.shape;
    support.level = ATTILE_SUPPORT_NATIVE;
    support.status = ATTILE_OK;
    support.workspace_bytes = plan.workspace;
    std::snprintf(support.kernel, sizeof support.kernel, "%s", plan.name);
    std::snprintf(support.text, sizeof support.text, "%s%s: dk and dv of %d keys from tiles of %d rows, dq %s, %lld launches", plan.name,
                  plan.modified ? ", modified scores" : "", keys.rows(), keys.tile(),
                  choice.sum.kernel != nullptr ? "from gradients of scores kept between them" : "from scores computed again",
                  static_cast<long long>(ceil_div(plan.pairs, plan.slice)));
    simt::attention_backward_count(problem, support);
    support.tile_m = keys.tile();
    support.tile_n = keys.rows();
    support.tile_k = keys.depth;
    support.threads = keys.threads();
    support.splits = 1;
    support.blocks = plan.key_blocks * plan.pairs;
    support.blocks_per_unit = plan.blocks_per_unit;
    simt::KernelResources resources;
    if (device.resources(choice.keys.kernel, &resources) == ATTILE_OK) {
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static + keys.shared_bytes();
    }
    return ATTILE_OK;
}

int32_t attention_backward_run(simt::Device &device, const attile_attention_backward_problem &problem, simt::Workspace &workspace,
                               simt::Stream stream) {
    const BackwardChoice choice = choose(device, problem);
    if (!choice.taken) return simt::fail(ATTILE_ERROR_INTERNAL, "attention_backward: %s", choice.declined.text);
    return BackwardCall(device, problem, choice, stream).run(workspace);
}

}  // namespace attile::sm80

// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm80/plan.h"

#include <algorithm>
#include <cstdio>

#include "attention_backward/mma/bias_gradient.h"
#include "attention_backward/mma/copies.h"
#include "attention_backward/mma/dq_parts.h"
#include "attention_backward/mma/group_parts.h"
#include "attention_backward/mma/sum.h"
#include "attention_backward/sm80/instances.h"
#include "host/sizes.h"

namespace attile::gpu::sm80 {
namespace {

using namespace mma;

// Gradients of scores that one kernel leaves for the next: at most this share of the device's memory, and this much, as in the operation's
// plan.
constexpr int64_t kGradientsShare = 64, kMostGradients = 512ll << 20;
constexpr int64_t kFragmentRows = 16, kFragmentBytes = 512;

struct Sm80BackwardChoice : BackwardChoice {
    BackwardKernels kernels = {};
    BackwardKernel keys = {}, rows = {};
    BackwardSumKernel sum = {};                    // Null: `rows` makes dq.
    BackwardDqParts dq_parts = {};                 // Of `sum`.
    int64_t row_fragments = 0, key_fragments = 0;  // Of a head.
    int64_t gradients = 0;                         // Bytes of a launch.
};

Sm80BackwardChoice declined(const char *why) { return {backward_declined(why)}; }

template <class Kernel>
int32_t blocks_per_unit(Device &device, const Kernel &kernel) {
    int32_t blocks = 0;
    if (kernel.kernel == nullptr || device.properties().shared_opt_in < kernel.shape->shared_bytes()) return 0;
    const auto shared = static_cast<std::size_t>(kernel.shape->shared_bytes());
    return device.occupancy(kernel.kernel, kernel.shape->threads(), shared, &blocks) == ATTILE_OK ? blocks : 0;
}

// Gradients of scores are kept for as many pairs as there is room for, if those fill the device; for dbias of a bias that is shared
// along rows or keys, or where bias_gradient() finds too little shared memory, there is no other way, in float: false if not even a pair's
// find room.
bool choose_gradients(Device &device, const attile_attention_backward_problem &problem, Sm80BackwardChoice &choice) {
    const attile_attention_problem &p = *problem.forward;
    AttentionBackwardPlan &plan = choice.plan;
    const BackwardSumKernel sum = backward_sum(p.q.dtype, std::max(p.head_dim, p.head_dim_v));
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
        blocks_per_unit(device, sum) > 0) {
        choice.sum = sum;
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

const BackwardKernelSet &kernels_for(const attile_attention_problem &p, bool modified, bool padded, const BackwardKernels &kernels) {
    if (!modified) return kernels.plain;
    if (attention_softcap(p) != 0 && (is_present(p.bias) || is_present(p.alibi_slopes))) return kernels.by_element;
    const auto or_modified = [&](const BackwardKernelSet &set) -> const BackwardKernelSet & {
        return set.keys.kernel != nullptr ? set : kernels.modified;
    };
    switch (backward_option(p, padded)) {
        case BackwardOption::kBias:
            return or_modified(kernels.bias);
        case BackwardOption::kAllowed:
            return or_modified(kernels.allowed);
        case BackwardOption::kAlibi:
            return or_modified(kernels.alibi);
        case BackwardOption::kSoftcap:
            return or_modified(kernels.softcap);
        default:
            return kernels.modified;
    }
}

// Sets how many blocks a multiprocessor holds.
BackwardKernel keys_that_fit(Device &device, const BackwardKernelSet &kernels, int32_t &blocks) {
    blocks = blocks_per_unit(device, kernels.keys);
    const int32_t small = blocks < kernels.keys.shape->blocks ? blocks_per_unit(device, kernels.small_keys) : 0;
    if (small < 1) return kernels.keys;
    blocks = small;
    return kernels.small_keys;
}

Sm80BackwardChoice choose(Device &device, const attile_attention_backward_problem &problem, bool padded) {
    const attile_attention_problem &p = *problem.forward;
    Sm80BackwardChoice choice = {backward_examine(problem, MaskKernels::kNone)};
    if (!choice.taken) return choice;
    choice.taken = false;
    if (const Declined refused = attention_scale_refused(p); refused.text[0] != '\0') return declined(refused.text);
    for (const BackwardFn kernels : p.q.dtype == ATTILE_F16 ? kBackwardPlainF16 : kBackwardPlainBF16) {
        choice.kernels = kernels();
        if (choice.kernels.plain.keys.shape->depth >= std::max(p.head_dim, p.head_dim_v)) break;
        choice.kernels = {};
    }
    if (choice.kernels.name == nullptr) return declined("head_dim or head_dim_v is above 256");
    AttentionBackwardPlan &plan = choice.plan;
    plan.modified = attention_modifies_scores(p);
    const BackwardKernelSet &kernels = kernels_for(p, plan.modified, padded, choice.kernels);
    choice.keys = keys_that_fit(device, kernels, plan.blocks_per_unit);
    choice.rows = kernels.rows;
    keys_that_fit(device, choice.kernels.plain, choice.usual_blocks);
    if (plan.blocks_per_unit < 1 || blocks_per_unit(device, choice.rows) < 1)
        return declined("the device has less shared memory than the kernels take");
    plan.name = choice.kernels.name;
    plan.keys = choice.keys.shape->rows();
    plan.depth = choice.keys.shape->depth;
    plan.threads = choice.keys.shape->threads();
    backward_cut(problem, plan);
    if (!choose_gradients(device, problem, choice)) return declined("the gradients of one head's bias find no room");
    if (choice.sum.kernel != nullptr) choice.dq_parts = backward_dq_parts(device.properties(), p, plan, *choice.sum.shape);
    plan.workspace = workspace_piece(4 * plan.part_bias) + workspace_piece(4 * plan.sum_bias) + workspace_piece(choice.gradients) +
                     backward_workspace(plan) + choice.dq_parts.workspace(p);
    const int64_t rows = choice.rows.shape->rows();
    if (plan.pairs * plan.key_blocks > kMostBackwardBlocks ||
        p.batch * p.heads_q * ceil_div(p.len_q, rows) + plan.pairs * plan.key_blocks > kMostBackwardBlocks)
        return {};
    choice.taken = true;
    return choice;
}

// One call on its way through its launches.
class BackwardCall {
  public:
    BackwardCall(Device &device, const attile_attention_backward_problem &problem, const Sm80BackwardChoice &choice, Stream stream)
        : device_(device),
          problem_(problem),
          stream_(stream),
          p_(*problem.forward),
          choice_(choice),
          bias_sums_keys_(problem.bias_extent[3] == 1),
          steps_(device, problem, choice.plan, stream, task_) {
        task_.row_fragments = static_cast<int32_t>(choice.row_fragments);
        task_.key_fragments = static_cast<int32_t>(choice.key_fragments);
    }

    int32_t run(Workspace &workspace) {
        const AttentionBackwardPlan &plan = choice_.plan;
        bool is_enough = steps_.take(workspace) != nullptr;
        if (choice_.gradients > 0) task_.gradients = workspace.take<char>(choice_.gradients);
        if (plan.bias) {
            task_.p.part_bias = workspace.take<float>(plan.part_bias);
            task_.p.sum_bias = workspace.take<float>(plan.sum_bias);
            is_enough = is_enough && task_.p.part_bias != nullptr && task_.p.sum_bias != nullptr;
        }
        is_enough = is_enough && choice_.dq_parts.place(p_, task_, workspace, sum_);
        if (!is_enough || (choice_.gradients > 0) != (task_.gradients != nullptr))
            return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        if (plan.bias) steps_.zero(task_.p.sum_bias, 4 * plan.sum_bias);
        steps_.prepare(true);
        for (int64_t first = 0; first < plan.pairs; first += plan.slice) slice(first, std::min(plan.slice, plan.pairs - first));
        if (!plan.bias) steps_.one_by_one(0, plan.pairs);
        if (plan.bias) steps_.step(steps_.steps.store_bias, plan.sum_bias);
        steps_.sinks();
        return steps_.status();
    }

  private:
    // The pairs from `first` on.
    void slice(int64_t first, int64_t count) {
        const int64_t group = p_.heads_q / p_.heads_kv;
        task_.p.first_pair = static_cast<uint32_t>(first);
        task_.p.pairs = Divider(count);
        const BackwardShape &keys = *choice_.keys.shape, &rows = *choice_.rows.shape;
        task_.p.block_keys = keys.rows();
        task_.p.block_rows = keys.tile();
        deal(choice_.keys.kernel, count, p_.len_k, keys.rows(), group * p_.len_q, 1, keys.threads(), keys.shared_bytes());
        if (choice_.sum.kernel != nullptr) {
            const BackwardSumShape &sum = *choice_.sum.shape;
            task_.p.block_keys = sum.keys;
            task_.p.block_rows = sum.rows();
            const BackwardDqParts &parts = choice_.dq_parts;
            steps_.deal(count * group, p_.len_q, sum.rows(), 2 * p_.len_k * (p_.head_dim + p_.head_dim_v), group);
            static_cast<BackwardTask &>(sum_) = task_;
            steps_.launch(choice_.sum.kernel, &sum_, parts.count * count * group * task_.blocks, sum.threads(), sum.shared_bytes());
            steps_.launch_by([&] { return parts.add(device_, problem_, sum_, stream_); });
        } else {
            task_.p.block_keys = rows.tile();
            task_.p.block_rows = rows.rows();
            deal(choice_.rows.kernel, count * group, p_.len_q, rows.rows(), p_.len_k, group, rows.threads(), rows.shared_bytes());
        }
        if (choice_.plan.bias) {
            steps_.one_by_one(first, count);
            steps_.step(steps_.steps.add_bias, choice_.plan.sum_bias * (bias_sums_keys_ ? 32 : 1));
        }
    }
    void deal(const void *kernel, int64_t heads, int64_t length, int64_t kept, int64_t streamed, int64_t sharers, int32_t threads,
              int32_t shared) {
        steps_.deal(heads, length, kept, 2 * streamed * (p_.head_dim + p_.head_dim_v), sharers);
        steps_.launch(kernel, &task_, heads * task_.blocks, threads, shared);
    }

    Device &device_;
    const attile_attention_backward_problem &problem_;
    const Stream stream_;
    const attile_attention_problem &p_;
    const Sm80BackwardChoice &choice_;
    const bool bias_sums_keys_;
    BackwardTask task_ = {};
    BackwardSumTask sum_ = {};
    BackwardSteps steps_;
};

struct TiledAttentionBackward {
    using Choice = Sm80BackwardChoice;
    const attile_attention_backward_problem *problem;
    Sm80BackwardChoice choice;

    int32_t describe(Device &device, attile_support &support) const {
        const AttentionBackwardPlan &plan = choice.plan;
        const BackwardShape &keys = *choice.keys.shape;
        backward_report(device, *problem, plan, choice.keys.kernel, keys.shared_bytes(), support);
        std::snprintf(support.text, sizeof support.text, "%s%s: dk and dv of %d keys from tiles of %d rows, dq %s, %lld launches",
                      plan.name, plan.modified ? ", modified scores" : "", keys.rows(), keys.tile(),
                      choice.sum.kernel != nullptr ? "from gradients of scores kept between them" : "from scores computed again",
                      static_cast<long long>(ceil_div(plan.pairs, plan.slice)));
        support.tile_m = keys.tile();
        return ATTILE_OK;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return BackwardCall(device, *problem, choice, stream).run(workspace);
    }
};

}  // namespace

Planned<attile_attention_backward_problem> plan_attention_backward(Device &device, const attile_attention_backward_problem &problem) {
    return backward_with_copies<BiasedBackward<PartedBackward<TiledAttentionBackward>>>(
        device, problem, MaskKernels::kNone, [](Device &of, const attile_attention_backward_problem &p, bool padded) {
            const auto whole = [padded](Device &on, const attile_attention_backward_problem &x) { return choose(on, x, padded); };
            return backward_with_bias(of, p, mma::backward_bias_kernels, [&](Device &on, const attile_attention_backward_problem &x) {
                return backward_with_parts(on, x, whole);
            });
        });
}

}  // namespace attile::gpu::sm80

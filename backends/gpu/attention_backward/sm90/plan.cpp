// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm90/plan.h"

#include <algorithm>
#include <cstdio>

#include "attention_backward/mma/bias_gradient.h"
#include "attention_backward/mma/copies.h"
#include "attention_backward/mma/dq_parts.h"
#include "attention_backward/mma/group_parts.h"
#include "attention_backward/mma/sum.h"
#include "attention_backward/sm90/bias.h"
#include "attention_backward/sm90/crew.h"
#include "attention_backward/sm90/instances.h"
#include "host/sizes.h"
#include "mma/reach.h"

namespace attile::gpu::sm90 {
namespace {

// Sums of dq in float, or gradients of scores: at most this share of the device's memory, and this much, as in the operation's plan.
constexpr int64_t kKeptShare = 64, kMostKept = 512ll << 20;

struct Sm90BackwardChoice : BackwardChoice {
    BackwardKernels kernels = {};
    BackwardSumKernel sum = {};     // Makes dq of gradients of scores; null: dq is summed at once.
    BackwardDqParts dq_parts = {};  // By which it does.
    // Words of a launch: sums or gradients of scores; a counter of tiles and the semaphores of the sums. As many as any instance for such
    // columns takes, since where a bias or mask lies decides between two of them.
    int64_t kept = 0, counters = 0;
    int64_t chains = 1;      // Sums of dq of each tile of rows.
    BackwardCrew crew = {};  // Of a slice.
    int32_t shared_bytes() const { return sum.kernel != nullptr ? kernels.shape->wide_shared_bytes() : kernels.shape->shared_bytes(); }
};

Sm90BackwardChoice declined(const char *why) { return {backward_declined(why)}; }

// Has the kernel what scores pass through?
bool serves(const BackwardShape &shape, BackwardOption option) {
    switch (option) {
        case BackwardOption::kBias:
            return shape.bias;
        case BackwardOption::kAllowed:
            return shape.allowed;
        case BackwardOption::kAlibi:
            return shape.alibi;
        case BackwardOption::kSoftcap:
            return shape.softcap;
        default:
            return shape.options() > 1;
    }
}

// What a kernel keeps of some pairs at once, as many as find room.
struct Kept {
    int64_t chains = 1, slice = 0, words = 0, counters = 0;
    double pairs_at_once = 0;  // In one chain each.
};
Kept kept_of(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan,
             const BackwardShape &shape, bool is_summed) {
    const int64_t rows = p.heads_q / p.heads_kv * plan.row_tiles * plan.rows,
                  most = std::min(kMostKept, device.memory_total / kKeptShare) / 4;
    int64_t words = is_summed ? rows * shape.depth : rows * plan.key_blocks * plan.keys / 2;
    Kept kept;
    kept.pairs_at_once = static_cast<double>(most) / static_cast<double>(words);
    if (is_summed) kept.chains = backward_chains(device, p, plan, shape, words, most);
    words *= kept.chains;
    kept.slice = std::min(plan.pairs, most / words);
    if (kept.slice < 1) return kept;
    kept.slice = ceil_div(plan.pairs, ceil_div(plan.pairs, kept.slice));
    kept.words = kept.slice * words;
    kept.counters = 1 + (is_summed ? kept.slice * kept.chains * rows / shape.rows : 0);
    return kept;
}

Sm90BackwardChoice choose(Device &device, const attile_attention_backward_problem &problem, bool padded) {
    const attile_attention_problem &p = *problem.forward;
    Sm90BackwardChoice choice = {backward_examine(problem, MaskKernels::kOfBlocks)};
    if (!choice.taken) return choice;
    if (!(p.scale > 0)) return declined("the scale is not positive");
    const bool modifies = attention_changes_scores(p), sparse = is_present(p.block_mask);
    if (is_present(problem.dbias)) return declined("the gradient of a bias that is shared along rows or keys is asked for");
    if (attention_softcap(p) != 0 && (is_present(p.bias) || is_present(p.alibi_slopes)))
        return declined("scores pass through softcap and bias or ALiBi");
    struct Named {
        const attile_operand &operand;
        int64_t rows;
    };
    for (const Named &x : {Named{p.q, p.total_q}, Named{problem.dout, p.total_q}, Named{p.k, p.total_k}, Named{p.v, p.total_k}}) {
        if (!is_reachable(x.operand.data, x.operand.stride, 3, 2) || (x.operand.stride[2] == 0 && x.rows > 1))
            return declined("TMA does not reach an operand's rows");
    }
    const bool is_f16 = p.q.dtype == ATTILE_F16;
    const BackwardOption option = backward_option(p, padded);
    const auto first_that_holds = [&](const auto &table) {
        for (const BackwardFn kernels : table) {
            const BackwardShape &shape = *kernels().shape;
            if (shape.depth >= std::max(p.head_dim, p.head_dim_v) && (!modifies || serves(shape, option))) return kernels();
        }
        return BackwardKernels();
    };
    if (sparse) {
        choice.kernels = is_f16 ? first_that_holds(kBackwardSparseF16) : first_that_holds(kBackwardSparseBF16);
    } else if (modifies) {
        choice.kernels = is_f16 ? first_that_holds(kBackwardModifiedF16) : first_that_holds(kBackwardModifiedBF16);
    } else {
        choice.kernels = is_f16 ? first_that_holds(kBackwardPlainF16) : first_that_holds(kBackwardPlainBF16);
    }
    if (choice.kernels.name == nullptr) return declined("head_dim or head_dim_v is above 256");
    if (choice.kernels.finish == nullptr) choice.sum = backward_sum(p.q.dtype, std::max(p.head_dim, p.head_dim_v));
    const BackwardShape &shape = *choice.kernels.shape;
    const int32_t shared = choice.shared_bytes();
    AttentionBackwardPlan &plan = choice.plan;
    plan.name = choice.kernels.name;
    plan.modified = modifies;
    plan.keys = shape.keys;
    plan.depth = shape.depth;
    plan.threads = BackwardShape::threads();
    plan.share = 0.48;  // Of the tensor cores' peak, on an H200.
    backward_cut(problem, plan);
    if (device.properties().shared_opt_in < shared ||
        device.occupancy(choice.kernels.kernel, plan.threads, static_cast<std::size_t>(shared), &plan.blocks_per_unit) != ATTILE_OK ||
        plan.blocks_per_unit < 1)
        return declined("the device has less shared memory than the kernels take");
    const bool is_summed = choice.sum.kernel == nullptr;
    const Kept kept = kept_of(device.properties(), p, plan, shape, is_summed);
    choice.pairs_at_once = kept.pairs_at_once;
    if (kept.slice < 1) {
        choice.taken = false;
        choice.declined = backward_declined("what is kept of one head between kernels finds no room").declined;
        return choice;
    }
    plan.slice = kept.slice;
    choice.chains = kept.chains;
    choice.kept = kept.words;
    choice.counters = kept.counters;
    for (const BackwardFn kernels : is_f16 ? kBackwardModifiedF16 : kBackwardModifiedBF16) {
        const BackwardShape &other = *kernels().shape;
        if (!modifies || other.depth != shape.depth || other.rows == shape.rows) continue;  // What is kept goes by these.
        const Kept of_other = kept_of(device.properties(), p, plan, other, is_summed);
        choice.kept = std::max(choice.kept, of_other.words);
        choice.counters = std::max(choice.counters, of_other.counters);
    }
    choice.crew = backward_crew(device.properties(), p, plan, shape, plan.slice, is_summed);
    plan.workspace = workspace_piece(4 * choice.kept) + backward_workspace(plan, choice.counters);
    if (!is_summed) choice.dq_parts = backward_dq_parts(device.properties(), p, plan, *choice.sum.shape);
    plan.workspace += choice.dq_parts.workspace(p);
    if (plan.pairs * plan.key_blocks > kMostBackwardBlocks / 2 || choice.counters > kMostBackwardBlocks)
        return declined("there are more blocks of keys than a grid holds");
    return choice;
}

// One call on its way through its launches.
class BackwardCall {
  public:
    BackwardCall(Device &device, const attile_attention_backward_problem &problem, const Sm90BackwardChoice &choice, Stream stream)
        : device_(device),
          problem_(problem),
          p_(*problem.forward),
          choice_(choice),
          shape_(*choice.kernels.shape),
          stream_(stream),
          is_summed_(choice.sum.kernel == nullptr),
          steps_(device, problem, choice.plan, stream, a_) {}

    int32_t run(Workspace &workspace) {
        const AttentionBackwardPlan &plan = choice_.plan;
        a_.counter = steps_.take(workspace, choice_.counters);
        float *const kept = workspace.take<float>(choice_.kept);
        if (kept == nullptr || a_.counter == nullptr)
            return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        if (is_summed_) {
            a_.sums = kept;
            a_.dq_semaphores = a_.counter + 1;
        } else {
            a_.gradients = kept;
            a_.row_fragments = static_cast<int32_t>(plan.row_tiles * plan.rows / 16);
            a_.key_fragments = static_cast<int32_t>(plan.key_blocks * plan.keys / 16);
        }
        if (!choice_.dq_parts.place(p_, a_, workspace, sum_))
            return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        const int32_t status = make_maps();
        if (status != ATTILE_OK) return status;
        steps_.prepare(!is_summed_);
        for (int64_t first = 0; first < plan.pairs; first += plan.slice) slice(first, std::min(plan.slice, plan.pairs - first));
        steps_.one_by_one(0, plan.pairs);
        steps_.sinks();
        return steps_.status();
    }

  private:
    int32_t make_maps() {
        int32_t status = ATTILE_OK;
        const auto make = [&](const attile_operand &x, bool of_keys, int64_t columns, int32_t &head_moves, int32_t &batch_moves,
                              TensorMap *map) {
            if (status != ATTILE_OK) return;
            TensorMapShape shape;
            shape.axes = 4;
            const int64_t heads = of_keys ? p_.heads_kv / choice_.plan.group_parts : p_.heads_q;
            const int64_t extent[] = {columns, of_keys ? p_.total_k : p_.total_q, x.stride[1] == 0 ? 1 : heads,
                                      is_present(of_keys ? p_.cu_len_k : p_.cu_len_q) || x.stride[0] == 0 ? 1 : p_.batch};
            const int64_t stride[] = {1, x.stride[2], x.stride[1], x.stride[0]};
            const int32_t box[] = {kBackwardPanel, of_keys ? shape_.keys : shape_.rows, 1, 1};
            std::copy(extent, extent + 4, shape.extent);
            std::copy(stride, stride + 4, shape.stride);
            std::copy(box, box + 4, shape.box);
            head_moves = extent[2] > 1;
            batch_moves = extent[3] > 1;
            status = device_.make_tensor_map(x.data, x.dtype, shape, map);
        };
        make(p_.q, false, p_.head_dim, a_.q_head, a_.q_batch, &a_.map_q);
        make(problem_.dout, false, p_.head_dim_v, a_.dout_head, a_.dout_batch, &a_.map_dout);
        make(p_.k, true, p_.head_dim, a_.k_head, a_.k_batch, &a_.map_k);
        make(p_.v, true, p_.head_dim_v, a_.v_head, a_.v_batch, &a_.map_v);
        return status;
    }
    // The pairs from `first` on.
    void slice(int64_t first, int64_t count) {
        const int64_t group = p_.heads_q / p_.heads_kv;
        a_.p.first_pair = static_cast<uint32_t>(first);
        a_.p.pairs = Divider(count);
        a_.p.block_keys = shape_.keys;
        a_.p.block_rows = shape_.rows;
        const BackwardCrew crew =
            count == choice_.plan.slice ? choice_.crew : backward_crew(device_.properties(), p_, choice_.plan, shape_, count, is_summed_);
        const int64_t tiles = count * group * choice_.plan.row_tiles * choice_.plan.rows / shape_.rows;
        a_.heads = static_cast<int32_t>(count);
        a_.blocks = static_cast<int32_t>(crew.levels);
        a_.chunk = static_cast<int32_t>(crew.chunk);
        a_.tiles = static_cast<int32_t>(count * crew.levels);
        a_.gang = static_cast<int32_t>(crew.gang);
        a_.apart = static_cast<int32_t>(crew.apart);
        a_.chains = static_cast<int32_t>(choice_.chains);
        a_.places = static_cast<int32_t>(tiles);
        if (first > 0) steps_.zero(a_.counter, 4 * choice_.counters);
        LaunchExtras extras;
        extras.together = a_.gang > 1;
        extras.overlaps = true;
        steps_.launch_by([&] {
            void *arguments[] = {&a_, nullptr};
            return device_.launch_with(extras, choice_.kernels.kernel, Dim3{static_cast<uint32_t>(crew.blocks), 1, 1},
                                       Dim3{BackwardShape::threads(), 1, 1}, static_cast<std::size_t>(choice_.shared_bytes()), arguments,
                                       stream_);
        });
        if (is_summed_) {
            steps_.launch_early(choice_.kernels.finish, &a_, tiles, BackwardShape::finish_threads());
            return;
        }
        const BackwardSumShape &sum = *choice_.sum.shape;
        a_.p.block_keys = sum.keys;
        a_.p.block_rows = sum.rows();
        steps_.deal(count * group, p_.len_q, sum.rows(), 2 * p_.len_k * (p_.head_dim + p_.head_dim_v), group);
        static_cast<BackwardTask &>(sum_) = a_;
        const BackwardDqParts &parts = choice_.dq_parts;
        steps_.launch(choice_.sum.kernel, &sum_, parts.count * count * group * a_.blocks, sum.threads(), sum.shared_bytes());
        steps_.launch_by([&] { return parts.add(device_, problem_, sum_, stream_); });
    }

    Device &device_;
    const attile_attention_backward_problem &problem_;
    const attile_attention_problem &p_;
    const Sm90BackwardChoice &choice_;
    const BackwardShape &shape_;
    const Stream stream_;
    const bool is_summed_;  // dq, by the first kernel; else a second one makes it.
    BackwardArguments a_ = {};
    BackwardSumTask sum_ = {};
    BackwardSteps steps_;
};

struct HopperAttentionBackward {
    using Choice = Sm90BackwardChoice;
    const attile_attention_backward_problem *problem;
    Sm90BackwardChoice choice;

    int32_t describe(Device &device, attile_support &support) const {
        const AttentionBackwardPlan &plan = choice.plan;
        backward_report(device, *problem, plan, choice.kernels.kernel, choice.shared_bytes(), support);
        char sums[96];
        std::snprintf(sums, sizeof sums, choice.chains > 1 ? "in %lld sums, each in a fixed order" : "summed in memory in a fixed order",
                      static_cast<long long>(choice.chains));
        std::snprintf(support.text, sizeof support.text,
                      "%s: %d keys a block, %lld blocks of a pair together%s, tiles of %d rows, dq %s, %lld launches", plan.name, plan.keys,
                      static_cast<long long>(choice.crew.together),
                      choice.crew.gang == 1 ? ""
                      : choice.crew.is_near ? " and near each other"
                                            : " from different rows on",
                      choice.kernels.shape->rows, choice.sum.kernel != nullptr ? "from gradients of scores kept between them" : sums,
                      static_cast<long long>(ceil_div(plan.pairs, plan.slice)));
        support.tile_m = choice.kernels.shape->rows;
        return ATTILE_OK;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return BackwardCall(device, *problem, choice, stream).run(workspace);
    }
};

}  // namespace

Planned<attile_attention_backward_problem> plan_attention_backward(Device &device, const attile_attention_backward_problem &problem) {
    return backward_with_copies<BiasedBackward<PartedBackward<HopperAttentionBackward>>>(
        device, problem, MaskKernels::kOfBlocks, [](Device &of, const attile_attention_backward_problem &p, bool padded) {
            const auto whole = [padded](Device &on, const attile_attention_backward_problem &x) { return choose(on, x, padded); };
            return backward_with_bias(of, p, hopper_bias_kernels, [&](Device &on, const attile_attention_backward_problem &x) {
                return backward_with_parts(on, x, whole);
            });
        });
}

}  // namespace attile::gpu::sm90

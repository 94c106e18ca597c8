// SPDX-License-Identifier: Apache-2.0
// The tables of the operations. Each operation is its list of families (host/family.h) and stage_*() (host/staged_problems.h), which says
// where its operands are and how they may be cut. Everything else is common to all.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "attention/families.h"
#include "attention_backward/families.h"
#include "gemm/families.h"
#include "host/context.h"
#include "host/family.h"
#include "host/operands.h"
#include "host/plan_cache.h"
#include "host/sizes.h"
#include "host/staged_problems.h"
#include "quantize/families.h"
#include "rows/families.h"

namespace attile::gpu {
namespace {

// The operands whose alignment may decide between the families. Rows' plans know what they need by themselves.
template <class Problem, class Take>
void for_aligned_operands([[maybe_unused]] Problem &p, [[maybe_unused]] const Take &take) {
    using Kind = std::remove_const_t<Problem>;
    if constexpr (std::is_same_v<Kind, attile_gemm_problem>) {
        for (auto *x : {&p.a, &p.b, &p.c, &p.d, &p.bias}) take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_attention_problem>) {
        for (auto *x : {&p.q, &p.k, &p.v, &p.o}) take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_attention_backward_problem>) {
        for (auto *x : {&p.dout, &p.dq, &p.dk, &p.dv}) take(*x);
    }
}
// Does a query not say where they are?
template <class Problem>
bool has_unknown_addresses(const Problem &problem) {
    bool is_unknown = false;
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) is_unknown = has_unknown_addresses(*problem.forward);
    for_aligned_operands(problem, [&](const attile_operand &x) { is_unknown = is_unknown || (x.dtype != 0 && x.data == nullptr); });
    return is_unknown;
}
template <class Problem>
void place_oddly(Problem &problem) {
    for_aligned_operands(problem, [](attile_operand &x) {
        if (x.dtype != 0 && x.data == nullptr) x.data = odd_address(x.dtype);
    });
}
// The workspace that a family wants if what has no address lies at odd ones; 0 if it cannot take that.
template <class Problem>
int64_t workspace_at_odd_addresses(const Family<Problem> &family, Device &device, Problem problem) {
    place_oddly(problem);
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) {
        attile_attention_problem forward = *problem.forward;
        place_oddly(forward);
        problem.forward = &forward;
        return family.plan(device, problem).workspace_bytes();
    } else {
        return family.plan(device, problem).workspace_bytes();
    }
}

// Where a call runs and what it may use.
template <class Problem>
const attile_launch &launch_of(const Problem &problem) {
    return problem.launch;
}
[[maybe_unused]] const attile_launch &launch_of(const attile_attention_backward_problem &problem) { return problem.forward->launch; }
[[maybe_unused]] const attile_launch &launch_of(const attile_gemm_grouped_problem &problem) { return problem.product->launch; }

// A call's plan, and what comes with it.
template <class Problem>
struct Choice {
    Planned<Problem> planned;
    int64_t workspace_bytes = 0;
    const KernelSet *set = nullptr;       // The kernels of the plan's family; null: every device's.
    const KernelSet *decliner = nullptr;  // The kernels of the last family before it that gave a reason to decline; null: none did.
    Declined declined;                    // That reason.
};

// Makes the plan of the first family that takes the problem. Where addresses are not known, less aligned ones than assumed may later lead
// to another family: the workspace is enough for all. The device's failures are left to the caller's FailureWatch: a family declines after
// one.
template <class Problem>
void choose(Device &device, const Problem &problem, const Families<Problem> &families, Choice<Problem> &choice) {
    const bool is_unknown = has_unknown_addresses(problem);
    bool is_chosen = false;
    for (const Family<Problem> &family : families) {
        if (family.set != nullptr && !device.runs(*family.set)) continue;
        if (family.unless != nullptr && device.runs(*family.unless)) continue;
        const Planned<Problem> planned = family.plan(device, problem);
        choice.workspace_bytes = std::max(choice.workspace_bytes, planned.workspace_bytes());
        if (is_chosen) continue;
        if (!planned.is_declined()) {
            is_chosen = true;
            choice.planned = planned;
            choice.set = family.set;
            if (!is_unknown || !planned.has_plan()) return;
        } else if (planned.declined().text[0] != '\0') {
            choice.declined = planned.declined();
            choice.decliner = family.set;
        }
    }
    if (is_unknown && choice.planned.has_plan())
        choice.workspace_bytes = std::max(choice.workspace_bytes, workspace_at_odd_addresses(families.last(), device, problem));
}

// What comes before a plan's text, of which as much follows as there is room for.
void say_first(attile_support &support, const char *format, const char *name, const char *reason) {
    char plan[sizeof support.text], first[sizeof support.text];
    std::memcpy(plan, support.text, sizeof plan);
    std::snprintf(first, sizeof first, format, name, reason);
    const int length = std::snprintf(support.text, sizeof support.text, "%.180s; ", first);
    const int room = static_cast<int>(sizeof support.text) - 1 - length;
    std::snprintf(support.text + length, sizeof support.text - static_cast<size_t>(length), "%.*s", room, plan);
}

template <class Problem>
int32_t describe(Device &device, const Choice<Problem> &choice, attile_support &support) {
    const Planned<Problem> &planned = choice.planned;
    if (planned.refusal() != ATTILE_OK) return unsupported(&support, planned.refusal(), "%s", planned.sentence());
    const int32_t status = planned.describe(device, support);
    support.workspace_bytes = choice.workspace_bytes;
    if (status != ATTILE_OK || choice.decliner == nullptr) return status;
    if (choice.set != nullptr)
        say_first(support, "not for %s: %.140s", choice.decliner->name, choice.declined.text);
    else
        say_first(support, "no %s: %.150s", choice.decliner->units, choice.declined.text);
    return ATTILE_OK;
}

// The plan and the workspace of a call, of the plans that are kept or a new one, which is then kept. Where an operand has no address, which
// one without elements may, more than one plan counts, and none is kept.
template <class Problem>
int32_t plan_call(Context &context, const Problem &problem, const Families<Problem> &families, Choice<Problem> &choice) {
    const auto plan = [&](const Problem &asked) {
        const FailureWatch watch;
        choose(*context.device, asked, families, choice);
        return watch.status_of(ATTILE_OK);
    };
    if constexpr (!kKeepsPlans<Problem>) {
        return plan(problem);
    } else {
        PlanCache<Problem> &cache = plan_cache<Problem>(context.plans);
        if (has_unknown_addresses(problem)) return plan(problem);
        PlanKey<Problem> key(problem);
        const uint64_t hash = hash_of_key(key);
        if (!cache.find(key, hash, choice.planned)) {
            const int32_t status = plan(key.asked());
            if (status != ATTILE_OK) return status;
            if (choice.planned.has_plan()) cache.keep(key, hash, choice.planned);
        }
        choice.workspace_bytes = choice.planned.workspace_bytes();
        choice.planned.move_to(problem);
        return ATTILE_OK;
    }
}

// Of what the context keeps for the stream; the call's while this lives.
class TakenWorkspace {
  public:
    TakenWorkspace(Context &context, int64_t bytes, Stream stream, int32_t *status) : context_(context), stream_(stream) {
        *status = context.kept->take(bytes, context.device->stream_number(stream), stream, &place_);
    }
    ~TakenWorkspace() {
        if (place_ != nullptr) context_.kept->give(place_, stream_);
    }
    TakenWorkspace(const TakenWorkspace &) = delete;
    TakenWorkspace &operator=(const TakenWorkspace &) = delete;
    void *memory() const { return place_ != nullptr ? place_->memory() : nullptr; }  // Null: there is none to take.

  private:
    Context &context_;
    const Stream stream_;
    KeptWorkspaces::Place *place_ = nullptr;
};

// All operands are the device's: plan, find workspace, launch.
template <class Problem>
int32_t run_on_device(Context &context, const Problem &problem, const Families<Problem> &families, Stream stream,
                      bool with_callers_workspace) {
    Device &device = *context.device;
    const attile_launch &launch = launch_of(problem);
    Choice<Problem> choice;
    const int32_t planned = plan_call(context, problem, families, choice);
    if (planned != ATTILE_OK) return planned;
    if (choice.planned.refusal() != ATTILE_OK) return fail(choice.planned.refusal(), "%s", choice.planned.sentence());
    const auto launch_with = [&](Workspace workspace) {
        const FailureWatch watch;
        return watch.status_of(choice.planned.launch(device, workspace, stream));
    };
    if (with_callers_workspace && launch.workspace != nullptr) return launch_with(Workspace(launch.workspace, launch.workspace_bytes));
    if (choice.workspace_bytes == 0) return launch_with(Workspace());
    if (with_callers_workspace && (launch.flags & ATTILE_FLAG_NO_ALLOC) != 0) {
        return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "workspace of %lld bytes needed, and NO_ALLOC is set",
                    static_cast<long long>(choice.workspace_bytes));
    }
    int32_t status = ATTILE_OK;
    if (with_callers_workspace) {  // Pieces of staged calls run for longer than a pool takes.
        const TakenWorkspace kept(context, choice.workspace_bytes, stream, &status);
        if (status != ATTILE_OK) return status;
        if (kept.memory() != nullptr) return launch_with(Workspace(kept.memory(), choice.workspace_bytes));
    }
    void *memory = nullptr;
    status = device.pool_alloc(choice.workspace_bytes, stream, &memory);
    if (status != ATTILE_OK) return status;
    status = launch_with(Workspace(memory, choice.workspace_bytes));
    const int32_t freed = device.pool_free(memory, stream);
    return status != ATTILE_OK ? status : freed;
}

template <class Problem, const Families<Problem> &families>
int32_t table_query(void *state, const Problem *problem, attile_support *support) {
    return on_device(state, [&](Context &context) {
        const FailureWatch watch;
        Choice<Problem> choice;
        choose(*context.device, *problem, families, choice);
        return watch.status_of(describe(*context.device, choice, *support));
    });
}

// Whether an operand is the host's, and the call is for the stager.
template <class Problem>
int32_t find_host_operand(Device &device, const Problem &problem, bool *is_found) {
    int32_t status = ATTILE_OK;
    *is_found = false;
    const auto ask = [&](const attile_operand &operand) {
        if (status == ATTILE_OK && !*is_found && is_present(operand)) status = needs_staging(device, operand, is_found);
    };
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) for_operands(*problem.forward, ask);
    if constexpr (std::is_same_v<Problem, attile_gemm_grouped_problem>) for_operands(*problem.product, ask);
    for_operands(problem, ask);
    return status;
}

template <class Problem, const Families<Problem> &families>
int32_t table_run(void *state, const Problem *problem) {
    return on_device(state, [&](Context &context) {
        const Stream stream = launch_of(*problem).stream;
        bool is_staged = false;
        int32_t status = context.device->check_stream(stream);
        if (status == ATTILE_OK) status = find_host_operand(*context.device, *problem, &is_staged);
        if (status != ATTILE_OK) return status;
        if (!is_staged) return run_on_device(context, *problem, families, stream, true);
        if constexpr (std::is_same_v<Problem, attile_gemm_problem> || std::is_same_v<Problem, attile_gemm_grouped_problem>) {
            // Types that no kernel has are refused by the first of the list, here before anything is copied.
            const Planned<Problem> first = families.begin()->plan(*context.device, *problem);
            if (first.refusal() != ATTILE_OK) return fail(first.refusal(), "%s", first.sentence());
        }
        StagedProblem<Problem> staged(*problem);
        if (staged.call.operands.empty()) return run_on_device(context, *problem, families, stream, true);
        staged.call.run = [&](const int64_t count[kStagedDims], Stream chunk_stream) {
            staged.resize(count);
            return run_on_device(context, staged.problem, families, chunk_stream, false);
        };
        return context.stager->run(staged.call, stream);
    });
}

}  // namespace

const attile_reduce_interface kReduceInterface = {sizeof(attile_reduce_interface), 2, table_query<attile_reduce_problem, kReduceFamilies>,
                                                  table_run<attile_reduce_problem, kReduceFamilies>};
const attile_softmax_interface kSoftmaxInterface = {sizeof(attile_softmax_interface), 2,
                                                    table_query<attile_softmax_problem, kSoftmaxFamilies>,
                                                    table_run<attile_softmax_problem, kSoftmaxFamilies>};
const attile_attention_merge_interface kMergeInterface = {sizeof(attile_attention_merge_interface), 2,
                                                          table_query<attile_attention_merge_problem, kMergeFamilies>,
                                                          table_run<attile_attention_merge_problem, kMergeFamilies>};
const attile_attention_merge_backward_interface kMergeBackwardInterface = {
    sizeof(attile_attention_merge_backward_interface), 1, table_query<attile_attention_merge_backward_problem, kMergeBackwardFamilies>,
    table_run<attile_attention_merge_backward_problem, kMergeBackwardFamilies>};
const attile_quantize_interface kQuantizeInterface = {sizeof(attile_quantize_interface), 1,
                                                      table_query<attile_quantize_problem, kQuantizeFamilies>,
                                                      table_run<attile_quantize_problem, kQuantizeFamilies>};
const attile_repack_interface kRepackInterface = {sizeof(attile_repack_interface), 1, table_query<attile_repack_problem, kRepackFamilies>,
                                                  table_run<attile_repack_problem, kRepackFamilies>};
#if defined(ATTILE_GPU_HAS_GEMM)
const attile_gemm_interface kGemmInterface = {sizeof(attile_gemm_interface), 3, table_query<attile_gemm_problem, kGemmFamilies>,
                                              table_run<attile_gemm_problem, kGemmFamilies>};
const attile_gemm_grouped_interface kGemmGroupedInterface = {sizeof(attile_gemm_grouped_interface), 1,
                                                             table_query<attile_gemm_grouped_problem, kGemmGroupedFamilies>,
                                                             table_run<attile_gemm_grouped_problem, kGemmGroupedFamilies>};
#endif
#if defined(ATTILE_GPU_HAS_ATTENTION)
const attile_attention_interface kAttentionInterface = {sizeof(attile_attention_interface), 3,
                                                        table_query<attile_attention_problem, kAttentionFamilies>,
                                                        table_run<attile_attention_problem, kAttentionFamilies>};
const attile_attention_backward_interface kAttentionBackwardInterface = {
    sizeof(attile_attention_backward_interface), 2, table_query<attile_attention_backward_problem, kAttentionBackwardFamilies>,
    table_run<attile_attention_backward_problem, kAttentionBackwardFamilies>};
#endif

}  // namespace attile::gpu

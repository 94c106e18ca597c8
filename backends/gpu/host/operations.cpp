// SPDX-License-Identifier: Apache-2.0
// The tables of the operations. Each operation is three functions: query and run of its kernel family, and stage_*()
// (host/staged_problems.h), which says where its operands are and how they may be cut. Everything else is common to all. Where the device
// has accelerators that know the operation, they are asked before the kernel family; query and run go through the same function, so they
// cannot disagree.
#include "host/context.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "attention/attention.h"
#include "attention_backward/attention_backward.h"
#include "gemm/gemm.h"
#include "host/accelerator.h"
#include "host/staged_problems.h"
#include "rows/merge.h"
#include "rows/reduce.h"
#include "rows/softmax.h"

namespace attile::gpu {
namespace {

template <class Problem>
using QueryFn = int32_t (*)(Device &, const Problem &, attile_support &);
template <class Problem>
using RunFn = int32_t (*)(Device &, const Problem &, Workspace &, Stream);

template <class Problem>
inline constexpr bool kCanAccelerate = std::is_same_v<Problem, attile_gemm_problem> || std::is_same_v<Problem, attile_attention_problem> ||
                                       std::is_same_v<Problem, attile_attention_backward_problem>;

// The operands whose alignment may decide between the paths.
template <class Problem, class Take>
void for_operands(Problem &p, const Take &take) {
    using Kind = std::remove_const_t<Problem>;
    if constexpr (std::is_same_v<Kind, attile_gemm_problem>) {
        for (auto *x : {&p.a, &p.b, &p.c, &p.d, &p.bias}) take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_attention_problem>) {
        for (auto *x : {&p.q, &p.k, &p.v, &p.o}) take(*x);
    } else {
        for (auto *x : {&p.dout, &p.dq, &p.dk, &p.dv}) take(*x);
    }
}
// Does a query not say where they are?
template <class Problem>
bool has_unknown_addresses(const Problem &problem) {
    bool is_unknown = false;
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) is_unknown = has_unknown_addresses(*problem.forward);
    for_operands(problem, [&](const attile_operand &x) { is_unknown = is_unknown || (x.dtype != 0 && x.data == nullptr); });
    return is_unknown;
}
template <class Problem>
void place_oddly(Problem &problem) {
    for_operands(problem, [](attile_operand &x) {
        if (x.dtype != 0 && x.data == nullptr) x.data = reinterpret_cast<void *>(sizeof(double));  // Of whole elements, and of no vectors.
    });
}
// The workspace that the kernel family wants if what has no address lies at odd ones; 0 if it cannot take that.
template <class Problem, QueryFn<Problem> query>
int64_t workspace_at_odd_addresses(Device &device, Problem problem) {
    attile_support support = {};
    support.struct_size = sizeof support;
    place_oddly(problem);
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) {
        attile_attention_problem forward = *problem.forward;
        place_oddly(forward);
        problem.forward = &forward;
        return query(device, problem, support) == ATTILE_OK ? support.workspace_bytes : 0;
    } else {
        return query(device, problem, support) == ATTILE_OK ? support.workspace_bytes : 0;
    }
}

// Where a call runs and what it may use.
template <class Problem>
const attile_launch &launch_of(const Problem &problem) {
    return problem.launch;
}
[[maybe_unused]] const attile_launch &launch_of(const attile_attention_backward_problem &problem) { return problem.forward->launch; }

// The SIMT kernels reckon with the peak of float32 arithmetic; where the device has matrix units for the type, theirs is the roof.
template <class Problem>
void reckon_with_matrix_units(const DeviceProperties &device, const Problem &problem, attile_support &support) {
    int32_t dtype = 0;
    if constexpr (std::is_same_v<Problem, attile_gemm_problem>) dtype = problem.a.dtype;
    if constexpr (std::is_same_v<Problem, attile_attention_problem>) dtype = problem.q.dtype;
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) dtype = problem.forward->q.dtype;
    if ((dtype != ATTILE_F16 && dtype != ATTILE_BF16) || !(device.peak_flops_f16 > 0) || !(device.peak_bandwidth > 0)) return;
    const double memory = support.bytes / device.peak_bandwidth, plain = std::max(support.flops / device.peak_flops_f32, memory);
    if (plain > 0) support.predicted_share *= std::max(support.flops / device.peak_flops_f16, memory) / plain;
}

// What comes before a plan's text; whatever does not fit of the plan is worth less.
[[maybe_unused]] void say_first(attile_support &support, const char *format, const char *name, const char *reason) {
    char plan[sizeof support.text], first[sizeof support.text];
    std::memcpy(plan, support.text, sizeof plan);
    std::snprintf(first, sizeof first, format, name, reason);
    std::snprintf(support.text, sizeof support.text, "%.180s; %.70s", first, plan);
}

// The support that both query and run go by, and whose it is: an accelerator's, or with null the kernel family's.
template <class Problem, QueryFn<Problem> query>
int32_t ask(Device &device, const Problem &problem, attile_support &support, Accelerator *&taker) {
    taker = nullptr;
    if constexpr (kCanAccelerate<Problem>) {
        Declined declined;  // By the one asked last that had a reason.
        const char *decliner = nullptr;
        int64_t workspace = 0;
        attile_support other = {};
        for (int i = 0; Accelerator *const accelerator = device.accelerator(i); ++i) {
            other.struct_size = sizeof other;
            Declined reason;
            bool is_taken = false;
            const int32_t status = accelerator->query(device, problem, taker != nullptr ? other : support, is_taken, reason);
            if (status != ATTILE_OK) return status;
            if (is_taken && taker == nullptr) {
                taker = accelerator;
                if (decliner != nullptr) say_first(support, "not for %s: %.140s", decliner, declined.text);
                if (!has_unknown_addresses(problem)) return ATTILE_OK;
            } else if (is_taken) {
                workspace = std::max(workspace, other.workspace_bytes);
            } else if (taker == nullptr && reason.text[0] != '\0') {
                declined = reason;
                decliner = accelerator->name();
            }
        }
        if (taker != nullptr) {
            // Addresses less aligned than was assumed will take another path: the workspace has to do for all.
            other = {};
            other.struct_size = sizeof other;
            const int32_t status = query(device, problem, other);
            support.workspace_bytes = std::max(
                {support.workspace_bytes, workspace, other.workspace_bytes, workspace_at_odd_addresses<Problem, query>(device, problem)});
            return status;
        }
        const int32_t status = query(device, problem, support);
        if (status == ATTILE_OK && support.level != ATTILE_SUPPORT_NONE && has_unknown_addresses(problem))
            support.workspace_bytes = std::max(support.workspace_bytes, workspace_at_odd_addresses<Problem, query>(device, problem));
        if (status == ATTILE_OK) reckon_with_matrix_units(device.properties(), problem, support);
        if (status == ATTILE_OK && support.level != ATTILE_SUPPORT_NONE && decliner != nullptr)
            say_first(support, "no %s: %.150s", "tensor cores", declined.text);
        return status;
    }
    return query(device, problem, support);
}

template <class Problem, QueryFn<Problem> query>
int32_t ask_and_watch(Device &device, const Problem &problem, attile_support &support, Accelerator *&taker) {
    const FailureWatch watch;
    return watch.status_of(ask<Problem, query>(device, problem, support, taker));
}

template <class Problem, RunFn<Problem> run>
int32_t run_with(Device &device, const Problem &problem, Workspace &workspace, Stream stream, Accelerator *taker) {
    const FailureWatch watch;
    if constexpr (kCanAccelerate<Problem>) {
        if (taker != nullptr) return watch.status_of(taker->run(device, problem, workspace, stream));
    }
    return watch.status_of(run(device, problem, workspace, stream));
}

// All operands are the device's: plan, find workspace, launch.
template <class Problem, QueryFn<Problem> query, RunFn<Problem> run>
int32_t run_on_device(Device &device, const Problem &problem, Stream stream, bool with_callers_workspace) {
    const attile_launch &launch = launch_of(problem);
    attile_support support = {};
    support.struct_size = sizeof support;
    Accelerator *taker = nullptr;
    int32_t status = ask_and_watch<Problem, query>(device, problem, support, taker);
    if (status != ATTILE_OK) return status;
    if (support.level == ATTILE_SUPPORT_NONE) return fail(support.status, "%s", support.text);
    if (with_callers_workspace && launch.workspace != nullptr) {
        Workspace workspace(launch.workspace, launch.workspace_bytes);
        return run_with<Problem, run>(device, problem, workspace, stream, taker);
    }
    if (support.workspace_bytes == 0) {
        Workspace workspace;
        return run_with<Problem, run>(device, problem, workspace, stream, taker);
    }
    if (with_callers_workspace && (launch.flags & ATTILE_FLAG_NO_ALLOC) != 0) {
        return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "workspace of %lld bytes needed, and NO_ALLOC is set",
                    static_cast<long long>(support.workspace_bytes));
    }
    void *memory = nullptr;
    status = device.pool_alloc(support.workspace_bytes, stream, &memory);
    if (status != ATTILE_OK) return status;
    Workspace workspace(memory, support.workspace_bytes);
    status = run_with<Problem, run>(device, problem, workspace, stream, taker);
    const int32_t freed = device.pool_free(memory, stream);
    return status != ATTILE_OK ? status : freed;
}

template <class Problem, QueryFn<Problem> query>
int32_t table_query(void *state, const Problem *problem, attile_support *support) {
    return on_device(state, [&](Context &context) {
        Accelerator *taker = nullptr;
        return ask_and_watch<Problem, query>(*context.device, *problem, *support, taker);
    });
}

template <class Problem, QueryFn<Problem> query, RunFn<Problem> run>
int32_t table_run(void *state, const Problem *problem) {
    return on_device(state, [&](Context &context) {
        Device &device = *context.device;
        const Stream stream = launch_of(*problem).stream;
        StagedProblem<Problem> staged(*problem);
        bool is_staged = false;
        for (const StagedOperand &operand : staged.call.operands) {
            const int32_t status = needs_staging(device, *operand.operand, &is_staged);
            if (status != ATTILE_OK) return status;
            if (is_staged) break;
        }
        if (!is_staged) return run_on_device<Problem, query, run>(device, *problem, stream, true);
        staged.call.run = [&](const int64_t count[kStagedDims], Stream chunk_stream) {
            staged.resize(count);
            return run_on_device<Problem, query, run>(device, staged.problem, chunk_stream, false);
        };
        return context.stager->run(staged.call, stream);
    });
}

}  // namespace

const attile_reduce_interface kReduceInterface = {sizeof(attile_reduce_interface), 1, table_query<attile_reduce_problem, reduce_query>,
                                                  table_run<attile_reduce_problem, reduce_query, reduce_run>};
const attile_softmax_interface kSoftmaxInterface = {sizeof(attile_softmax_interface), 1, table_query<attile_softmax_problem, softmax_query>,
                                                    table_run<attile_softmax_problem, softmax_query, softmax_run>};
const attile_attention_merge_interface kMergeInterface = {sizeof(attile_attention_merge_interface), 1,
                                                          table_query<attile_attention_merge_problem, merge_query>,
                                                          table_run<attile_attention_merge_problem, merge_query, merge_run>};
#if defined(ATTILE_GPU_HAS_GEMM)
const attile_gemm_interface kGemmInterface = {sizeof(attile_gemm_interface), 1, table_query<attile_gemm_problem, gemm_query>,
                                              table_run<attile_gemm_problem, gemm_query, gemm_run>};
#endif
#if defined(ATTILE_GPU_HAS_ATTENTION)
const attile_attention_interface kAttentionInterface = {sizeof(attile_attention_interface), 1,
                                                        table_query<attile_attention_problem, attention_query>,
                                                        table_run<attile_attention_problem, attention_query, attention_run>};
const attile_attention_backward_interface kAttentionBackwardInterface = {
    sizeof(attile_attention_backward_interface), 1, table_query<attile_attention_backward_problem, attention_backward_query>,
    table_run<attile_attention_backward_problem, attention_backward_query, attention_backward_run>};
#endif

}  // namespace attile::gpu

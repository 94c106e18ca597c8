// SPDX-License-Identifier: Apache-2.0
// The tables of the operations. Each operation is three functions: query and run of its kernel family, and stage_*() (staged_problems.h),
// which says where its operands are and how they may be cut. Everything else is common to all. Where the device has an accelerator that
// knows the operation, it is asked before the kernel family; query and run go through the same function, so they cannot disagree.
#include "simt_context.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "accelerator.h"
#include "kernel/attention.h"
#include "kernel/gemm.h"
#include "kernel/merge.h"
#include "kernel/reduce.h"
#include "kernel/softmax.h"
#include "staged_problems.h"

namespace attile::simt {
namespace {

template <class Problem>
using QueryFn = int32_t (*)(Device &, const Problem &, attile_support &);
template <class Problem>
using RunFn = int32_t (*)(Device &, const Problem &, Workspace &, Stream);

template <class Problem>
inline constexpr bool kCanAccelerate = std::is_same_v<Problem, attile_gemm_problem> || std::is_same_v<Problem, attile_attention_problem>;

bool has_unknown_address(const attile_operand &x) { return x.dtype != 0 && x.data == nullptr; }
// Of the operands whose alignment may decide between the paths: does a query not say where they are?
[[maybe_unused]] bool has_unknown_addresses(const attile_gemm_problem &p) {
    return has_unknown_address(p.a) || has_unknown_address(p.b) || has_unknown_address(p.c) || has_unknown_address(p.d) ||
           has_unknown_address(p.bias);
}
[[maybe_unused]] bool has_unknown_addresses(const attile_attention_problem &p) {
    return has_unknown_address(p.q) || has_unknown_address(p.k) || has_unknown_address(p.v) || has_unknown_address(p.o);
}

// The support that both query and run go by, and whose it is.
template <class Problem, QueryFn<Problem> query>
int32_t ask(Device &device, const Problem &problem, attile_support &support, bool &is_accelerated) {
    is_accelerated = false;
    if constexpr (kCanAccelerate<Problem>) {
        if (Accelerator *const accelerator = device.accelerator()) {
            Declined declined;
            int32_t status = accelerator->query(device, problem, support, is_accelerated, declined);
            if (status != ATTILE_OK) return status;
            if (is_accelerated && has_unknown_addresses(problem)) {
                // Addresses less aligned than was assumed will take the other path: the workspace has to do for both.
                attile_support other = {};
                other.struct_size = sizeof other;
                status = query(device, problem, other);
                if (status != ATTILE_OK) return status;
                support.workspace_bytes = std::max(support.workspace_bytes, other.workspace_bytes);
            }
            if (is_accelerated) return ATTILE_OK;
            status = query(device, problem, support);
            if (status == ATTILE_OK && support.level != ATTILE_SUPPORT_NONE && declined.text[0] != '\0') {
                // Whatever does not fit of the plan is worth less than the reason.
                char plan[sizeof support.text];
                std::memcpy(plan, support.text, sizeof plan);
                std::snprintf(support.text, sizeof support.text, "no tensor cores: %.159s; %.70s", declined.text, plan);
            }
            return status;
        }
    }
    return query(device, problem, support);
}

template <class Problem, RunFn<Problem> run>
int32_t run_with(Device &device, const Problem &problem, Workspace &workspace, Stream stream, bool is_accelerated) {
    if constexpr (kCanAccelerate<Problem>) {
        if (is_accelerated) return device.accelerator()->run(device, problem, workspace, stream);
    }
    return run(device, problem, workspace, stream);
}

// All operands are the device's: plan, find workspace, launch.
template <class Problem, QueryFn<Problem> query, RunFn<Problem> run>
int32_t run_on_device(Device &device, const Problem &problem, Stream stream, bool with_callers_workspace) {
    attile_support support = {};
    support.struct_size = sizeof support;
    bool is_accelerated = false;
    int32_t status = ask<Problem, query>(device, problem, support, is_accelerated);
    if (status != ATTILE_OK) return status;
    if (support.level == ATTILE_SUPPORT_NONE) return fail(support.status, "%s", support.text);
    if (with_callers_workspace && problem.launch.workspace != nullptr) {
        Workspace workspace(problem.launch.workspace, problem.launch.workspace_bytes);
        return run_with<Problem, run>(device, problem, workspace, stream, is_accelerated);
    }
    if (support.workspace_bytes == 0) {
        Workspace workspace;
        return run_with<Problem, run>(device, problem, workspace, stream, is_accelerated);
    }
    if (with_callers_workspace && (problem.launch.flags & ATTILE_FLAG_NO_ALLOC) != 0) {
        return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "workspace of %lld bytes needed, and NO_ALLOC is set",
                    static_cast<long long>(support.workspace_bytes));
    }
    void *memory = nullptr;
    status = device.pool_alloc(support.workspace_bytes, stream, &memory);
    if (status != ATTILE_OK) return status;
    Workspace workspace(memory, support.workspace_bytes);
    status = run_with<Problem, run>(device, problem, workspace, stream, is_accelerated);
    const int32_t freed = device.pool_free(memory, stream);
    return status != ATTILE_OK ? status : freed;
}

template <class Problem, QueryFn<Problem> query>
int32_t table_query(void *state, const Problem *problem, attile_support *support) {
    return on_device(state, [&](Context &context) {
        bool is_accelerated = false;
        return ask<Problem, query>(*context.device, *problem, *support, is_accelerated);
    });
}

template <class Problem, QueryFn<Problem> query, RunFn<Problem> run>
int32_t table_run(void *state, const Problem *problem) {
    return on_device(state, [&](Context &context) {
        Device &device = *context.device;
        const Stream stream = problem->launch.stream;
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
#if defined(ATTILE_SIMT_HAS_GEMM)
const attile_gemm_interface kGemmInterface = {sizeof(attile_gemm_interface), 1, table_query<attile_gemm_problem, gemm_query>,
                                              table_run<attile_gemm_problem, gemm_query, gemm_run>};
#endif
#if defined(ATTILE_SIMT_HAS_ATTENTION)
const attile_attention_interface kAttentionInterface = {sizeof(attile_attention_interface), 1,
                                                        table_query<attile_attention_problem, attention_query>,
                                                        table_run<attile_attention_problem, attention_query, attention_run>};
#endif

}  // namespace attile::simt

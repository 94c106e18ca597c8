// SPDX-License-Identifier: Apache-2.0
// attile_gemm_distributed: validate, agree with the other ranks, run a method, agree on how it went.
#include <algorithm>
#include <cstdio>

#include "distributed/grid_gemm.h"
#include "log.h"
#include "message.h"
#include "operation.h"

namespace attile::core {
namespace {

// The call where one rank has all.
attile_gemm_args local_call(const GridGemm &p) {
    attile_gemm_args args = p.local;
    args.a = p.a.part;
    args.b = p.b.part;
    args.d = p.d.part;
    return args;
}

int32_t run_alone(const GridGemm &p) {
    const attile_gemm_args args = local_call(p);
    ATTILE_TRY(attile_gemm(p.context, &args));
    return p.settle();
}

// Where messages and sums lie: on the device if the transport reaches that, and all that the call touches is there.
int32_t choose_memory(const CommState &comm, GridGemm *p, std::string *why) {
    if (p->host_memory || p->ranks == 1) return ATTILE_OK;
    bool reached = comm.device_blocks != nullptr;
    if (reached) ATTILE_TRY(lie_on_device(p->context, {&p->a.part, &p->b.part, &p->d.part, &p->local.c, &p->local.bias}, &reached));
    if (reached) p->device_blocks = comm.device_blocks.get();
    why->append(where_messages_lie(reached));
    return ATTILE_OK;
}

int32_t run(const char *operation, CommState &comm, const GridArguments &arguments, Fallout *fallout) {
    GridGemm problem, turned;  // which the method looks at
    Announcement matters;
    return run_over_ranks(
        comm, operation,
        [&]() -> int32_t {
            const attile_gemm_distributed_args *args = nullptr;
            ATTILE_TRY(arguments(&args));
            return read_grid_gemm(comm, operation, args, false, &problem, &matters);
        },
        [&] { return run_alone(problem); },
        [&](Announcement *announcement) -> int32_t {
            announcement->matters = std::move(matters.matters);
            announcement->fast_axes = matters.fast_axes;
            return problem.settle();
        },
        [](std::unique_ptr<Method> *) -> int32_t { return ATTILE_OK; },  // how messages lie depends on the matrices of all ranks
        [&](std::unique_ptr<Method> *method) -> int32_t {
            spread_fast_axes(comm.agreement, &problem);
            GridPlan plan = plan_grid_gemm(problem);
            ATTILE_TRY(choose_memory(comm, &problem, &plan.why));
            log(ATTILE_LOG_DEBUG, "%s: rank %d of %d, %s", operation, problem.rank, problem.ranks, plan.why.c_str());
            if (plan.method == ATTILE_METHOD_STATIONARY_C) {
                *method = make_stationary_c(problem, plan.panel);
            } else if (plan.method == ATTILE_METHOD_STATIONARY_A) {
                *method = make_stationary_a(problem, plan.panel);
            } else {
                turned = transposed(problem);
                *method = make_stationary_a(turned, plan.panel);
            }
            return ATTILE_OK;
        },
        fallout);
}

// How the backend runs the local call that a method makes most of.
int32_t ask_local(const GridGemm &given, const GridPlan &plan, attile_support *support) {
    if (plan.method == ATTILE_METHOD_LOCAL) {
        const attile_gemm_args args = local_call(given);
        return attile_gemm_query(given.context, &args, support);
    }
    const GridGemm p = plan.method == ATTILE_METHOD_STATIONARY_B ? transposed(given) : given;
    const GridLayout own = unshared(plan.method == ATTILE_METHOD_STATIONARY_C ? p.d.layout : p.a.layout);
    const int64_t rows = own.axis[0].count(p.rank), columns = own.axis[1].count(p.rank);
    const bool stays_c = plan.method == ATTILE_METHOD_STATIONARY_C;
    const int64_t a_shape[2] = {rows, stays_c ? plan.panel : columns}, b_shape[2] = {a_shape[1], stays_c ? columns : plan.panel};
    const int64_t d_shape[2] = {rows, b_shape[1]};
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    args.flags = p.local.flags;
    args.stream = p.local.stream;
    args.alpha = p.local.alpha;
    ATTILE_TRY(attile_tensor_init(&args.a, nullptr, p.a.part.dtype, 2, a_shape));
    ATTILE_TRY(attile_tensor_init(&args.b, nullptr, p.a.part.dtype, 2, b_shape));
    ATTILE_TRY(attile_tensor_init(&args.d, nullptr, p.wide(), 2, d_shape));
    return attile_gemm_query(p.context, &args, support);
}

int32_t query(const CommState &comm, const attile_gemm_distributed_args *args, attile_distributed_support *support) {
    GridGemm p;
    Announcement matters;
    ATTILE_TRY(read_grid_gemm(comm, kGemmDistributed, args, true, &p, &matters));
    ATTILE_TRY(check_output(kGemmDistributed, "support", kDistributedSupportFirstSize, support));
    GridPlan plan = plan_grid_gemm(p);
    ATTILE_TRY(choose_memory(comm, &p, &plan.why));
    attile_support local{};
    local.struct_size = sizeof local;
    ATTILE_TRY(ask_local(p, plan, &local));
    attile_distributed_support full{};
    full.struct_size = sizeof full;
    full.level = local.level;
    full.status = local.status;
    full.method = plan.method;
    std::snprintf(full.kernel, sizeof full.kernel, "%s", local.kernel);
    std::snprintf(full.text, sizeof full.text, "%s", local.level == ATTILE_SUPPORT_NONE ? local.text : plan.why.c_str());
    constexpr double kMost = 9e18;  // what the answer can hold
    full.bytes_sent = static_cast<int64_t>(std::min(plan.bytes_sent / p.ranks, kMost));
    full.flops = p.has_product() ? 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) : 0.0;
    write_output(full, support);
    return ATTILE_OK;
}

int32_t find_extents(const attile_distributed_matrix *matrix, int32_t rank, int32_t ranks, int64_t *rows, int64_t *columns) {
    constexpr const char *kName = "distributed_extents";
    if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) {
        return fail(ATTILE_ERROR_INVALID_VALUE,
                    "%s: rank is %d and ranks is %d; expected 1 to %d ranks, and a rank from 0 below their number", kName, rank, ranks,
                    kMostRanks);
    }
    attile_distributed_matrix full;
    attile_grid grid;
    GridLayout layout;
    ATTILE_TRY(read_grid_matrix(kName, "matrix", matrix, ranks, &full, &grid, &layout));
    if (rows != nullptr) *rows = layout.axis[0].whole_below(rank, full.rows);
    if (columns != nullptr) *columns = layout.axis[1].whole_below(rank, full.columns);
    return ATTILE_OK;
}

}  // namespace

int32_t gemm_over_ranks(const char *operation, attile_comm *comm, const GridArguments &arguments) {
    return on_comm(operation, comm, [&](CommState &state, Fallout *fallout) { return run(operation, state, arguments, fallout); });
}

}  // namespace attile::core

using namespace attile::core;

extern "C" {

void attile_grid_init(attile_grid *grid, uint64_t size) { init_struct(grid, size); }

void attile_distributed_matrix_init(attile_distributed_matrix *matrix, uint64_t size) { init_struct(matrix, size); }

void attile_gemm_distributed_init(attile_gemm_distributed_args *args, uint64_t size) {
    if (init_struct(args, size) && size >= ATTILE_SIZE_UP_TO(attile_gemm_distributed_args, alpha)) args->alpha = 1.0;
}

int32_t attile_distributed_extents(const attile_distributed_matrix *matrix, int32_t rank, int32_t ranks, int64_t *rows, int64_t *columns) {
    return guarded([&] { return find_extents(matrix, rank, ranks, rows, columns); });
}

int32_t attile_gemm_distributed(attile_comm *comm, const attile_gemm_distributed_args *args) {
    return gemm_over_ranks(kGemmDistributed, comm, [&](const attile_gemm_distributed_args **given) {
        *given = args;
        return ATTILE_OK;
    });
}

int32_t attile_gemm_distributed_query(attile_comm *comm, const attile_gemm_distributed_args *args, attile_distributed_support *support) {
    return guarded([&]() -> int32_t {
        std::shared_ptr<CommState> state;
        ATTILE_TRY(find_comm(kGemmDistributed, comm, &state));
        return query(*state, args, support);
    });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows, each by the plan of a product of about as many rows: the large ones one after the other, each by all threads,
// then the small ones, each by one thread.
#include <algorithm>
#include <cstdio>

#include "gemm/gemm.h"
#include "size.h"

namespace attile::cpu {
namespace {

// Rows that a group's plan is made for, at least those it has: a query, which cannot know the groups, has few plans to look at, and a run
// makes no other. An odd number: a plan for whole tiles would leave no room for the last columns of groups that are swapped and have a part
// of one.
int64_t planned_rows(int64_t rows) {
    constexpr int64_t kExact = 32, kSteps = 4;  // Steps from one power of two to the next.
    if (rows <= kExact) return rows;
    int64_t power = kExact;
    while (power * 2 < rows) power *= 2;
    return (power + round_up(rows - power, power / kSteps)) | 1;
}

attile_gemm_problem product_of(const attile_gemm_problem &all, int64_t rows) {
    attile_gemm_problem product = all;
    product.batch[1] = 1;
    product.m = rows;
    return product;
}

GemmPlan plan_of(const State &state, const attile_gemm_problem &all, int64_t rows) {
    GemmPlan plan = gemm_plan(state, product_of(all, planned_rows(rows)));
    (plan.swapped ? plan.n : plan.m) = rows;
    if (plan.path == GemmPath::kFewRows) plan.grid_n = static_cast<int>(ceil_div(plan.n, plan.block_n));
    return plan;
}

// Where a group's rows begin.
void move_to_row(attile_operand *operand, int64_t row) {
    if (operand->data == nullptr) return;
    operand->data = static_cast<char *>(operand->data) + row * operand->stride[2] * dtype_bytes(operand->dtype);
}
void move_to_group(attile_operand *operand, int64_t group) {
    if (operand->data == nullptr) return;
    const int64_t bits = group * operand->stride[1] * dtype_bits(operand->dtype);
    operand->data = static_cast<char *>(operand->data) + bits / 8;
}
attile_gemm_problem product_at(const attile_gemm_problem &all, int64_t group, int64_t row, int64_t rows) {
    attile_gemm_problem product = product_of(all, rows);
    for (attile_operand *of_rows : {&product.a, &product.c, &product.d}) move_to_row(of_rows, row);
    for (attile_operand *of_group : {&product.b, &product.bias, &product.b_scale, &product.b_zero}) move_to_group(of_group, group);
    return product;
}

void run_product(const State &state, const GemmPlan &plan, const attile_gemm_problem &product, char *workspace) {
    if (product.compute == ATTILE_F64) {
        gemm_run<double>(state, plan, product, workspace);
    } else {
        gemm_run<float>(state, plan, product, workspace);
    }
}

// What groups of so many rows may want.
struct Wanted {
    int64_t team = 0, one = 0;  // Bytes of a product by several threads, and of one by one thread.
    void add(const GemmPlan &plan) {
        int64_t &bytes = plan.threads > 1 ? team : one;
        bytes = most(bytes, plan.workspace_bytes);
    }
    // The offsets' bytes come first.
    int64_t bytes(const State &state, int64_t offsets) const {
        return (Size(offsets) + most(team, (Size(state.threads) * one).value())).value();
    }
};

int64_t offset_bytes(const attile_gemm_problem &all) { return bytes_for<int32_t>((Size(all.batch[1]) + 1).value()).value(); }

int64_t most_bytes(const State &state, const attile_gemm_problem &all) {
    Wanted wanted;
    for (int64_t rows = 1; rows <= all.m; rows = planned_rows(rows + 1)) {
        wanted.add(gemm_plan(state, product_of(all, rows)));
    }
    wanted.add(gemm_plan(state, product_of(all, planned_rows(all.m))));
    return wanted.bytes(state, offset_bytes(all));
}

// Calls take(group, row) with where each group's rows begin and the last one's end: never before the group ahead of it.
template <class Take>
void read_offsets(const attile_gemm_grouped_problem &problem, const Take &take) {
    const attile_gemm_problem &all = *problem.product;
    const auto *from = static_cast<const int32_t *>(problem.row_offsets.data);
    int64_t row = 0;
    for (int64_t group = 0; group <= all.batch[1]; ++group) {
        row = std::clamp<int64_t>(from[group * problem.row_offsets.stride[1]], row, all.m);
        take(group, row);
    }
}

// What these groups want, which is less to find out than what any might.
int64_t bytes_of_groups(const State &state, const attile_gemm_grouped_problem &problem) {
    const attile_gemm_problem &all = *problem.product;
    Wanted wanted;
    int64_t before = 0;
    read_offsets(problem, [&](int64_t group, int64_t row) {
        if (group > 0 && row > before) wanted.add(gemm_plan(state, product_of(all, planned_rows(row - before))));
        before = row;
    });
    return wanted.bytes(state, offset_bytes(all));
}

int32_t query(void *opaque, const attile_gemm_grouped_problem *problem, attile_support *support) {
    const attile_gemm_problem &all = *problem->product;
    const State &state = *static_cast<State *>(opaque);
    const int64_t groups = all.batch[1];
    // As of groups that all have as many rows.
    attile_gemm_problem some = product_of(all, planned_rows(ceil_div(all.m, groups)));
    const int32_t status = gemm_query(opaque, &some, support);
    if (status != ATTILE_OK) return status;
    char kernel[sizeof support->kernel];
    std::snprintf(kernel, sizeof kernel, "%s", support->kernel);
    constexpr int kBefore = sizeof "cpu_gemm" - 1;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_gemm_grouped%.70s", kernel + kBefore);
    std::snprintf(support->text, sizeof support->text, "the kernel of groups of %lld rows", static_cast<long long>(some.m));
    support->workspace_bytes = most_bytes(state, all);
    const double m = static_cast<double>(all.m), of_some = static_cast<double>(some.m), count = static_cast<double>(groups);
    const auto bytes_of = [](const attile_operand &x, double elements) { return elements * dtype_bits(x.dtype) / 8; };
    const double n = static_cast<double>(all.n), k = static_cast<double>(all.k);
    const double of_rows = (k > 0 ? bytes_of(all.a, k) : 0) + bytes_of(all.d, n) + (all.beta != 0 ? bytes_of(all.c, n) : 0);
    const double of_group = support->bytes - of_some * of_rows;
    support->flops = 2 * m * n * k;
    support->bytes = m * of_rows + count * of_group + (count + 1) * bytes_of(problem->row_offsets, 1);
    return ATTILE_OK;
}

int32_t run(void *opaque, const attile_gemm_grouped_problem *problem) {
    State &state = *static_cast<State *>(opaque);
    const attile_gemm_problem &all = *problem->product;
    const int64_t groups = all.batch[1], of_offsets = offset_bytes(all), bytes = bytes_of_groups(state, *problem);
    const Workspace workspace(state, all.launch, bytes);
    if (workspace.failed()) return out_of_workspace(bytes);
    auto *const first = reinterpret_cast<int32_t *>(workspace.data());
    char *const rest = workspace.data() + of_offsets;
    read_offsets(*problem, [&](int64_t group, int64_t row) { first[group] = static_cast<int32_t>(row); });
    double work = 0;  // Of groups that one thread multiplies.
    int64_t small = 0, bytes_each = 0;
    for (int64_t group = 0; group < groups; ++group) {
        const int64_t rows = first[group + 1] - first[group];
        if (rows == 0) continue;
        const GemmPlan plan = plan_of(state, all, rows);
        if (plan.threads > 1) {
            run_product(state, plan, product_at(all, group, first[group], rows), rest);
            continue;
        }
        ++small;
        bytes_each = most(bytes_each, plan.workspace_bytes);
        // What reading its b takes is work of few rows, too.
        work += 2.0 * static_cast<double>(most(rows, 4)) * static_cast<double>(all.n) * static_cast<double>(all.k);
    }
    if (small == 0) return ATTILE_OK;
    const double shares = work / kWorkForThread;
    const int threads = shares >= state.threads ? state.threads : shares < 2 ? 1 : static_cast<int>(shares);
    parallel_for(threads, groups, [&](int64_t group, int rank) {
        const int64_t rows = first[group + 1] - first[group];
        if (rows == 0) return;
        const GemmPlan plan = plan_of(state, all, rows);
        if (plan.threads == 1) run_product(state, plan, product_at(all, group, first[group], rows), rest + rank * bytes_each);
    });
    return ATTILE_OK;
}

}  // namespace

const attile_gemm_grouped_interface g_gemm_grouped_interface = {sizeof(attile_gemm_grouped_interface), 1, query, run};

}  // namespace attile::cpu

// SPDX-License-Identifier: Apache-2.0
// Merging of attention results over disjoint ranges of keys.
#include <cmath>
#include <limits>

#include "element.h"
#include "rows/exact.h"
#include "rows/merge_rows.h"

namespace attile::cpu {
namespace {

using Problem = attile_attention_merge_problem;

MergePlan plan_of(const State &state, const Problem &p) {
    // Strips, weights and marks of a row's parts.
    return merge_plan(state, p, bytes_for<char>(p.parts, static_cast<int64_t>(sizeof(Strip) + sizeof(double) + sizeof(bool))).value());
}

template <class T>
void merge_row(const RowKernels<T> &kernels, const Problem &p, const MergeRow &row, char *memory) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    Strip *const strips = reinterpret_cast<Strip *>(memory);
    T *const weights = reinterpret_cast<T *>(strips + p.parts);
    bool *const used = reinterpret_cast<bool *>(weights + p.parts);
    T top = kHidden;
    for (int64_t part = 0; part < p.parts; ++part) {
        const attile_operand &lse = p.lse_parts[part];
        weights[part] = load_element<T>(lse.data, lse.dtype, row.offset_in(lse));
        used[part] = weights[part] != kHidden;
        if (weights[part] > top || weights[part] != weights[part]) top = weights[part];
        strips[part] = row.strip_of(p.o_parts[part], p.head_dim_v);
    }
    T lse = kHidden;
    if (top != kHidden) {
        double weight = 0;  // of all parts, of which there may be very many
        for (int64_t part = 0; part < p.parts; ++part) {
            weights[part] = used[part] ? std::exp(weights[part] - top) : T{0};
            weight += static_cast<double>(weights[part]);
        }
        const T sum = static_cast<T>(weight);
        for (int64_t part = 0; part < p.parts; ++part) weights[part] /= sum;
        lse = top + std::log(sum);
    }
    kernels.weighted_sum(strips, weights, used, p.parts, row.strip_of(p.o, p.head_dim_v));
    if (p.lse.data != nullptr) store_element<T>(p.lse.data, p.lse.dtype, row.offset_in(p.lse), lse);
}

int32_t query(void *opaque, const Problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    if (is_exact(problem->launch)) return exact_merge_query(state, *problem, support);
    const Problem &p = *problem;
    const MergePlan plan = plan_of(state, p);
    const double parts = static_cast<double>(p.parts), dv = static_cast<double>(p.head_dim_v);
    const double lse = p.lse.dtype == 0 ? 0 : dtype_bytes(p.lse.dtype);
    const double each = dv * dtype_bytes(p.o_parts[0].dtype) + dtype_bytes(p.lse_parts[0].dtype);
    fill_support(state, plan, p, "attention_merge", parts * each + dv * dtype_bytes(p.o.dtype) + lse, support);
    support->flops = 2 * static_cast<double>(plan.rows) * parts * dv;
    return ATTILE_OK;
}

int32_t run(void *opaque, const Problem *problem) {
    State &state = *static_cast<State *>(opaque);
    if (is_exact(problem->launch)) return exact_merge_run(state, *problem);
    return run_rows(state, plan_of(state, *problem), *problem,
                    [problem](const auto &kernels, const MergeRow &row, char *memory) { merge_row(kernels, *problem, row, memory); });
}

}  // namespace

const attile_attention_merge_interface g_attention_merge_interface = {sizeof(attile_attention_merge_interface), 2, query, run};

}  // namespace attile::cpu

// SPDX-License-Identifier: Apache-2.0
// Gradients of merging attention results: of every part's o, and of its lse.
#include <cmath>
#include <limits>

#include "element.h"
#include "rows/merge_rows.h"

namespace attile::cpu {
namespace {

using Problem = attile_attention_merge_backward_problem;

MergePlan plan_of(const State &state, const Problem &p) {
    // dout and o of a row, which all parts read.
    return merge_plan(state, p, bytes_for<char>(p.head_dim_v, 2 * static_cast<int64_t>(sizeof(double))).value());
}

template <class T>
void gradient_row(const RowKernels<T> &kernels, const Problem &p, const MergeRow &row, char *memory) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const auto element = [&row](const attile_operand &x) { return load_element<T>(x.data, x.dtype, row.offset_in(x)); };
    T *const dout = reinterpret_cast<T *>(memory), *const o = dout + p.head_dim_v;
    kernels.widen(row.strip_of(p.dout, p.head_dim_v), dout);
    kernels.widen(row.strip_of(p.o, p.head_dim_v), o);
    const T lse = element(p.lse);
    const T dlse = p.dlse.data != nullptr ? element(p.dlse) : T{0};
    for (int64_t part = 0; part < p.parts; ++part) {
        const attile_operand &dlse_part = p.dlse_parts[part];
        const Strip x = row.strip_of(p.o_parts[part], p.head_dim_v), y = row.strip_of(p.do_parts[part], p.head_dim_v);
        const T part_lse = element(p.lse_parts[part]);
        const bool used = lse != kHidden && part_lse != kHidden;
        const T weight = used ? std::exp(part_lse - lse) : T{0};
        const T sum = kernels.merge_gradient(dout, o, x, weight, used, y);
        store_element<T>(dlse_part.data, dlse_part.dtype, row.offset_in(dlse_part), used ? weight * (sum + dlse) : T{0});
    }
}

int32_t query(void *opaque, const Problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const Problem &p = *problem;
    const MergePlan plan = plan_of(state, p);
    const double parts = static_cast<double>(p.parts), dv = static_cast<double>(p.head_dim_v);
    const int lse = dtype_bytes(p.lse.dtype);
    const double once = dv * (dtype_bytes(p.o.dtype) + dtype_bytes(p.dout.dtype)) + lse + (p.dlse.dtype == 0 ? 0 : lse);
    const double each = dv * (dtype_bytes(p.o_parts[0].dtype) + dtype_bytes(p.do_parts[0].dtype)) + 2 * lse;
    fill_support(state, plan, p, "attention_merge_backward", parts * each + once, support);
    support->flops = 4 * static_cast<double>(plan.rows) * parts * dv;
    return ATTILE_OK;
}

int32_t run(void *opaque, const Problem *problem) {
    State &state = *static_cast<State *>(opaque);
    return run_rows(state, plan_of(state, *problem), *problem,
                    [problem](const auto &kernels, const MergeRow &row, char *memory) { gradient_row(kernels, *problem, row, memory); });
}

}  // namespace

const attile_attention_merge_backward_interface g_attention_merge_backward_interface = {sizeof(attile_attention_merge_backward_interface),
                                                                                        1, query, run};

}  // namespace attile::cpu

// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/head_product.h"

#include <algorithm>
#include <cstdio>

#include "gemm/families.h"

namespace attile::gpu::simt {
namespace {

// Heads along one axis: how many, and the strides of A, B and D.
struct Axis {
    int64_t count, stride[3];
};

// Members that share B, and whose rows follow one another in A and D, make one product of all their rows: B is then read once for the
// group.
HeadProduct with_rows_of_members(HeadProduct product) {
    // What a row gets must not depend on the rows beside it.
    if (product.members == 1 || product.b.member != 0 || (product.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return product;
    for (HeadMatrix *const x : {&product.a, &product.d}) {
        if (product.m == 1) x->row = x->member;
        if (x->member != product.m * x->row) return product;
    }
    product.m *= product.members;
    product.members = 1;
    return product;
}

// GEMM has two batch axes. Those of one matrix are left out, neighbours made one where all matrices allow it, and the shortest of three is
// gone through one by one.
struct GemmSteps {
    attile_gemm_problem problem;
    int64_t count = 1, stride[3] = {};

    explicit GemmSteps(const HeadProduct &of_heads) : problem() {
        const HeadProduct product = with_rows_of_members(of_heads);
        const HeadMatrix *const matrices[3] = {&product.a, &product.b, &product.d};
        Axis axes[3] = {{product.entries, {}}, {product.heads, {}}, {product.members, {}}};
        for (int i = 0; i < 3; ++i) {
            axes[0].stride[i] = matrices[i]->entry;
            axes[1].stride[i] = matrices[i]->head;
            axes[2].stride[i] = matrices[i]->member;
        }
        Axis left[3];
        int lefts = 0;
        for (const Axis &axis : axes) {
            if (axis.count == 1) continue;
            if (lefts > 0 && follows(left[lefts - 1], axis)) {
                const int64_t outer = left[lefts - 1].count;
                left[lefts - 1] = axis;
                left[lefts - 1].count *= outer;
            } else {
                left[lefts++] = axis;
            }
        }
        if (lefts == 3) {
            int shortest = 0;
            for (int i = 1; i < 3; ++i)
                if (left[i].count < left[shortest].count) shortest = i;
            count = left[shortest].count;
            std::copy(left[shortest].stride, left[shortest].stride + 3, stride);
            std::copy(left + shortest + 1, left + 3, left + shortest);
            lefts = 2;
        }
        for (; lefts < 2; ++lefts) {
            std::copy_backward(left, left + lefts, left + lefts + 1);
            left[0] = {1, {}};
        }
        set_problem(product, left);
    }
    // Moves on to the next of the axis that is gone through.
    void step() {
        const int64_t bytes = (problem.d.dtype & 0xff) / 8;
        attile_operand *const operands[3] = {&problem.a, &problem.b, &problem.d};
        for (int i = 0; i < 3; ++i)
            operands[i]->data =
                reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(operands[i]->data) + static_cast<uintptr_t>(bytes * stride[i]));
        if (problem.c.dtype != 0) problem.c.data = problem.d.data;
    }

  private:
    static bool follows(const Axis &outer, const Axis &inner) {
        for (int i = 0; i < 3; ++i)
            if (outer.stride[i] != inner.count * inner.stride[i]) return false;
        return true;
    }
    void set_problem(const HeadProduct &product, const Axis (&batch)[3]) {
        problem.struct_size = sizeof problem;
        problem.compute = product.dtype;
        problem.launch.flags = product.flags;
        for (int i = 0; i < 2; ++i) problem.batch[i] = batch[i].count;
        problem.m = product.m;
        problem.n = product.n;
        problem.k = product.k;
        problem.alpha = product.k > 0 ? product.alpha : 0;
        problem.beta = product.is_added ? 1 : 0;
        const auto operand = [&](const HeadMatrix &x, int number) {
            attile_operand to = {};
            to.data = const_cast<void *>(x.data);
            to.dtype = product.dtype;
            to.stride[0] = batch[0].count > 1 ? batch[0].stride[number] : 0;
            to.stride[1] = batch[1].count > 1 ? batch[1].stride[number] : 0;
            to.stride[2] = x.row;
            to.stride[3] = x.col;
            return to;
        };
        problem.a = operand(product.a, 0);
        problem.b = operand(product.b, 1);
        problem.d = operand(product.d, 2);
        if (product.is_added) problem.c = problem.d;
    }
};

}  // namespace

int32_t launch_product(Device &device, const HeadProduct &product, LastProduct &last, Workspace workspace, Stream stream) {
    GemmSteps steps(product);
    for (int64_t i = 0; i < steps.count; ++i, steps.step()) {
        PlanKey<attile_gemm_problem> key(steps.problem);
        if (!is_same_key(key, last.key)) {
            last.planned = plan_step(device, key.asked(), kGemmFamilies);
            last.key = key;
        }
        if (last.planned.refusal() != ATTILE_OK) return fail(last.planned.refusal(), "%s", last.planned.sentence());
        Planned<attile_gemm_problem> planned = last.planned;  // A plan is moved once.
        planned.move_to(steps.problem);
        Workspace own = workspace;
        const int32_t status = planned.launch(device, own, stream);
        if (status != ATTILE_OK) return status;
    }
    return ATTILE_OK;
}

int64_t product_workspace(Device &device, const HeadProduct &product) {
    attile_gemm_problem problem = GemmSteps(product).problem;
    problem.a.data = problem.b.data = problem.c.data = problem.d.data = nullptr;  // Those of other slices may be rounder.
    return step_workspace(device, problem, kGemmFamilies);
}

int32_t name_product(Device &device, const HeadProduct &product, char *name, std::size_t capacity) {
    const GemmSteps steps(product);
    const Planned<attile_gemm_problem> planned = plan_step(device, steps.problem, kGemmFamilies);
    attile_support support = {};
    support.struct_size = sizeof support;
    const int32_t status = planned.describe(device, support);
    if (status == ATTILE_OK) std::snprintf(name, capacity, "%s", support.kernel);
    return status;
}

}  // namespace attile::gpu::simt

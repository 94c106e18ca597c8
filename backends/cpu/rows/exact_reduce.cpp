// SPDX-License-Identifier: Apache-2.0
// Exact reductions: a row by one thread, or its pieces by several, whose sums in fixed point are then added.
#include <bit>
#include <cstdio>
#include <new>

#include "rows/exact.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

using Problem = attile_reduce_problem;

constexpr int64_t kElementsForThreads = 1 << 13;
constexpr int64_t kLongRow = 1 << 16;

// What is known of some of a row's elements.
struct Reduced {
    ExactSum sum;
    double largest = kNoNumber, smallest = -kNoNumber;

    void add(int32_t op, const double *x, int64_t count) {
        if (op == ATTILE_REDUCE_MAX) {
            for (int64_t i = 0; i < count; ++i) largest = larger(largest, x[i]);
        } else if (op == ATTILE_REDUCE_MIN) {
            for (int64_t i = 0; i < count; ++i) smallest = smaller(smallest, x[i]);
        } else {
            for (int64_t i = 0; i < count; ++i) sum.add(x[i]);
        }
    }
    void add(int32_t op, Reduced &part) {
        if (op == ATTILE_REDUCE_MAX) {
            largest = larger(largest, part.largest);
        } else if (op == ATTILE_REDUCE_MIN) {
            smallest = smaller(smallest, part.smallest);
        } else {
            sum.add(part.sum);
        }
    }
    double take(int32_t op, int64_t count) {
        if (op == ATTILE_REDUCE_MAX) return largest;
        if (op == ATTILE_REDUCE_MIN) return smallest;
        return op == ATTILE_REDUCE_SUM ? sum.take() : sum.take() / static_cast<double>(count);
    }

  private:
    // -0 of zeros of both signs; NaN if either is.
    static double smaller(double a, double b) { return a != a || a < b || (a == b && std::bit_cast<int64_t>(a) < 0) ? a : b; }
};

struct Plan {
    int64_t rows = 0, pieces = 1;  // of a row, if there are fewer rows than threads
    int64_t piece = 0;             // elements of each
    int64_t workspace_bytes = 0;
    int threads = 1;
};

Plan plan_of(const State &state, const Problem &p) {
    Plan plan;
    plan.rows = (Size(p.shape[0]) * p.shape[1] * p.shape[2]).value();
    plan.threads = (Size(plan.rows) * p.shape[3]).value() < kElementsForThreads ? 1 : state.threads;
    if (plan.rows < plan.threads && p.shape[3] >= 2 * kLongRow) plan.pieces = least(plan.threads, p.shape[3] / kLongRow);
    plan.piece = ceil_div(p.shape[3], plan.pieces);
    if (plan.pieces > 1) plan.workspace_bytes = bytes_for<Reduced>(plan.rows, plan.pieces).value();
    return plan;
}

int64_t offset_in(const attile_operand &x, const Problem &p, int64_t row) {
    return row % p.shape[2] * x.stride[2] + row / p.shape[2] % p.shape[1] * x.stride[1] + row / p.shape[2] / p.shape[1] * x.stride[0];
}

void reduce_piece(const Problem &p, int64_t row, int64_t begin, int64_t end, Reduced *to) {
    double numbers[kExactPiece];
    const int64_t offset = offset_in(p.x, p, row), stride = p.x.stride[3];
    for (int64_t i = begin; i < end; i += kExactPiece) {
        const int64_t count = least(kExactPiece, end - i);
        widen_exactly(p.x, offset + i * stride, stride, count, numbers);
        to->add(p.op, numbers, count);
    }
}

}  // namespace

int32_t exact_reduce_query(const State &state, const Problem &p, attile_support *support) {
    const Plan plan = plan_of(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_reduce_exact");
    const double rows = static_cast<double>(plan.rows), count = static_cast<double>(p.shape[3]);
    support->flops = rows * count;
    support->bytes = rows * (count * dtype_bytes(p.x.dtype) + dtype_bytes(p.y.dtype));
    support->tile_m = 1;
    support->tile_n = reported(plan.piece);
    support->threads = 1;
    support->blocks = (Size(plan.rows) * plan.pieces).value();
    support->splits = reported(plan.pieces);
    return ATTILE_OK;
}

int32_t exact_reduce_run(State &state, const Problem &p) {
    const Plan plan = plan_of(state, p);
    const Workspace workspace(state, p.launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    Reduced *const parts = reinterpret_cast<Reduced *>(workspace.data());
    const auto finish = [&](int64_t row, Reduced &whole) { store_exact(p.y, offset_in(p.y, p, row), whole.take(p.op, p.shape[3])); };
    const auto reduce = [&](int64_t index, int) {
        if (plan.pieces > 1) {
            const int64_t begin = index % plan.pieces * plan.piece;
            reduce_piece(p, index / plan.pieces, begin, least(p.shape[3], begin + plan.piece), new (parts + index) Reduced);
        } else {
            Reduced whole;
            reduce_piece(p, index, 0, p.shape[3], &whole);
            finish(index, whole);
        }
    };
    const auto join = [&](int64_t row, int) {
        Reduced *const whole = parts + row * plan.pieces;
        for (int64_t i = 1; i < plan.pieces; ++i) whole->add(p.op, whole[i]);
        finish(row, *whole);
    };
    parallel_in_turn(plan.threads, Loop{plan.rows * plan.pieces, reduce}, Loop{plan.pieces > 1 ? plan.rows : 0, join});
    return ATTILE_OK;
}

}  // namespace attile::cpu

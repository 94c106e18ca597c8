// SPDX-License-Identifier: Apache-2.0
#include "gemm/problem.h"

#include <utility>

#include "host/operands.h"

namespace attile::gpu {
namespace {

int storage_bytes(int32_t dtype) { return (dtype & 0xff) / 8; }

bool aligned(const void *data, int64_t bytes) { return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0; }

GemmInput input(const attile_operand &operand, int outer, int depth) {
    return {operand.data, operand.stride[0], operand.stride[1], operand.stride[outer], operand.stride[depth], 0, 0};
}

GemmOutput output(const attile_operand &operand) {
    return {operand.data, operand.stride[0], operand.stride[1], operand.stride[2], operand.stride[3], operand.dtype, 0};
}

// Makes the two batch axes one where every operand allows it, as the inner one.
void merge_batches(GemmParams &p, int64_t outer_extent) {
    bool mergeable = true;
    const auto check = [&](int64_t x, int64_t y) { mergeable = mergeable && (p.batch_y == 1 || x == y * p.batch_y); };
    for (const GemmInput *i : {&p.a, &p.b}) check(i->batch_x, i->batch_y);
    for (const GemmOutput *o : {&p.c, &p.d, &p.bias}) check(o->batch_x, o->batch_y);
    if (!mergeable && outer_extent != 1) return;
    if (outer_extent != 1 && p.batch_y == 1) {
        for (GemmInput *i : {&p.a, &p.b}) i->batch_y = i->batch_x;
        for (GemmOutput *o : {&p.c, &p.d, &p.bias}) o->batch_y = o->batch_x;
    }
    p.batch_y *= outer_extent;
    for (GemmInput *i : {&p.a, &p.b}) i->batch_x = 0;
    for (GemmOutput *o : {&p.c, &p.d, &p.bias}) o->batch_x = 0;
}

// One B for all batch entries, whose rows follow each other at one distance: a single problem with more rows.
bool batch_into_rows(GemmParams &p) {
    if (p.b.batch_y != 0) return false;
    const auto collapses = [&](int64_t batch, int64_t row) { return p.m == 1 || batch == row * p.m; };
    if (!collapses(p.a.batch_y, p.a.outer)) return false;
    for (const GemmOutput *o : {&p.c, &p.d, &p.bias}) {
        if (!collapses(o->batch_y, o->row)) return false;
    }
    if (p.m == 1) {
        p.a.outer = p.a.batch_y;
        for (GemmOutput *o : {&p.c, &p.d, &p.bias}) o->row = o->batch_y;
    }
    p.m *= p.batch_y;
    p.batch_y = 1;
    p.a.batch_y = 0;
    for (GemmOutput *o : {&p.c, &p.d, &p.bias}) o->batch_y = 0;
    return true;
}

// Says along which axis an input is contiguous, if it is. An axis of extent 1 may have any stride.
bool find_unit_stride(GemmInput &in, int64_t outer_extent, int64_t depth_extent) {
    if (in.depth != 1 && in.outer != 1) {
        if (depth_extent == 1) {
            in.depth = 1;
        } else if (outer_extent == 1) {
            in.outer = 1;
        }
    }
    in.along_depth = in.depth == 1 && (in.outer != 1 || depth_extent > 1) ? 1 : 0;
    return in.depth == 1 || in.outer == 1;
}

bool strides_in_vectors(const GemmInput &in, int64_t outer_extent, int64_t depth_extent, int count) {
    const int64_t contiguous = in.along_depth != 0 ? depth_extent : outer_extent;
    const int64_t other = in.along_depth != 0 ? in.outer : in.depth;
    return contiguous % count == 0 && other % count == 0 && in.batch_x % count == 0 && in.batch_y % count == 0;
}

bool strides_in_vectors(const GemmOutput &out, int count) {
    return out.col == 1 && out.row % count == 0 && out.batch_x % count == 0 && out.batch_y % count == 0;
}

// As far as strides say.
bool outputs_in_vectors(const GemmParams &p, int count) {
    return p.n % count == 0 && strides_in_vectors(p.d, count) && (p.c.dtype == 0 || strides_in_vectors(p.c, count));
}

int vector_elements(int32_t dtype) { return storage_bytes(dtype) == 8 ? 2 : 4; }

}  // namespace

const void *gemm_address(const attile_gemm_problem &problem, const void *standing_in) {
    if (standing_in == nullptr) return nullptr;
    const attile_operand *const operands[] = {&problem.a, &problem.b, &problem.c, &problem.d, &problem.bias};  // As for_operands().
    return operands[operand_of(standing_in)]->data;
}

void gemm_move(GemmParams &params, const attile_gemm_problem &problem) {
    for (GemmInput *x : {&params.a, &params.b}) x->data = gemm_address(problem, x->data);
    for (GemmOutput *x : {&params.c, &params.d, &params.bias}) x->data = const_cast<void *>(gemm_address(problem, x->data));
}

bool gemm_has_epilogue(const GemmParams &p) { return p.bias.dtype != 0 || p.activation != ATTILE_ACTIVATION_NONE; }

bool gemm_vectorised(const GemmParams &p) {
    const int count = vector_elements(p.d.dtype);
    const auto is_aligned = [&](const GemmOutput &out) { return aligned(out.data, int64_t{count} * storage_bytes(out.dtype)); };
    return outputs_in_vectors(p, count) && is_aligned(p.d) && (p.c.dtype == 0 || is_aligned(p.c));
}

namespace {

// As the problem has it.
GemmShape plain_shape(const attile_gemm_problem &problem) {
    GemmShape shape;
    GemmParams &p = shape.params;
    p.a = input(problem.a, 2, 3);
    p.b = input(problem.b, 3, 2);
    p.c = output(problem.c);
    p.d = output(problem.d);
    p.bias = output(problem.bias);
    const bool has_c = problem.c.dtype != 0 && problem.beta != 0;
    const bool has_bias = problem.bias.dtype != 0;
    if (!has_c) p.c = {};
    if (!has_bias) p.bias = {};
    p.m = problem.m;
    p.n = problem.n;
    p.k = problem.k;
    p.batch_y = problem.batch[1];
    p.alpha = problem.alpha;
    p.beta = problem.beta;
    p.activation = problem.activation;
    shape.dtype = problem.a.dtype;
    shape.batches = problem.batch[0] * problem.batch[1];
    return shape;
}

// What strides and addresses allow.
void look_at_operands(const attile_gemm_problem &problem, GemmShape &shape) {
    GemmParams &p = shape.params;
    const int bytes = storage_bytes(shape.dtype);
    const int count = vector_elements(shape.dtype);
    const bool a_unit = find_unit_stride(p.a, p.m, p.k), b_unit = find_unit_stride(p.b, p.n, p.k);  // Each sets its operand's axes.
    shape.unit_strides = a_unit && b_unit;
    const bool a_strides = shape.unit_strides && strides_in_vectors(p.a, p.m, p.k, count);
    const bool b_strides = shape.unit_strides && strides_in_vectors(p.b, p.n, p.k, count);
    const int64_t access = int64_t{count} * bytes;  // 16 bytes, or 8 of 16-bit storage.
    shape.vector_strides = a_strides && b_strides;
    shape.a_vectors = a_strides && aligned(p.a.data, access);
    shape.b_vectors = b_strides && aligned(p.b.data, access);
    shape.b_quads = shape.b_vectors && strides_in_vectors(p.b, p.n, p.k, 4);

    if (p.n == 1) p.d.col = p.c.col = 1;
    shape.direct_strides = outputs_in_vectors(p, count) && !gemm_has_epilogue(p) && p.d.dtype == problem.compute;
    shape.direct = shape.direct_strides && gemm_vectorised(p);
}

}  // namespace

GemmShape gemm_shape_of_groups(const attile_gemm_problem &problem) {
    GemmShape shape = plain_shape(problem);
    look_at_operands(problem, shape);
    shape.a_vectors = shape.a_vectors && shape.params.a.along_depth != 0;
    return shape;
}

GemmShape gemm_shape(const attile_gemm_problem &problem) {
    GemmShape shape = plain_shape(problem);
    GemmParams &p = shape.params;
    // D's contiguous axis becomes its columns; of a matrix with few rows or columns, these become the rows.
    const bool invariant = (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    shape.transposed = p.d.col != 1 && (p.d.row == 1 || p.n == 1);
    if (!invariant && p.n <= 16 && p.m > 16) shape.transposed = true;
    if (!invariant && p.m <= 16 && p.n > 16) shape.transposed = false;
    if (shape.transposed) {
        std::swap(p.a, p.b);
        std::swap(p.m, p.n);
        for (GemmOutput *o : {&p.c, &p.d, &p.bias}) std::swap(o->row, o->col);
    }
    merge_batches(p, problem.batch[0]);
    if (shape.batches == p.batch_y && shape.batches > 1 && batch_into_rows(p)) shape.batches = 1;
    look_at_operands(problem, shape);
    return shape;
}

void gemm_work(const attile_gemm_problem &problem, attile_support &support) {
    const auto distinct = [](const attile_operand &operand, const int64_t(&extent)[4]) {
        double count = static_cast<double>(operand.dtype & 0xff) / 8;  // Bytes, of 4 bits half of one; 0 without a type.
        for (int axis = 0; axis < 4; ++axis) count *= operand.stride[axis] != 0 ? static_cast<double>(extent[axis]) : 1;
        return count;
    };
    const int64_t x = problem.batch[0], y = problem.batch[1];
    const double reads_k = problem.k > 0 ? 1 : 0;
    support.flops =
        2.0 * static_cast<double>(x * y) * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k);
    support.bytes = reads_k * (distinct(problem.a, {x, y, problem.m, problem.k}) + distinct(problem.b, {x, y, problem.k, problem.n})) +
                    distinct(problem.c, {x, y, problem.m, problem.n}) + distinct(problem.d, {x, y, problem.m, problem.n}) +
                    distinct(problem.bias, {x, y, problem.m, problem.n});
}

}  // namespace attile::gpu

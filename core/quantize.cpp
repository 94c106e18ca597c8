// SPDX-License-Identifier: Apache-2.0
// attile_quantize and attile_dequantize: validate, normalise, forward.
#include <algorithm>

#include "alias.h"
#include "operation.h"
#include "scales.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstQuantizeSize = ATTILE_SIZE_UP_TO(attile_quantize_args, zero);
constexpr uint32_t kFirstDequantizeSize = ATTILE_SIZE_UP_TO(attile_dequantize_args, zero);
constexpr uint32_t kQuantizeFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC;
constexpr DtypeSet kUnquantized = kF32 | kF16 | kBf16, kQuantized = kNarrow | kFourBits;
constexpr int32_t kMostRotated = 512;

// The blocks' extents along the problem's four axes.
int32_t check_groups(const Call &call, const View &scale, const View &x, int64_t group[4]) {
    std::fill(group, group + 4, int64_t{1});
    if (!scale.present()) return ATTILE_OK;
    for (int32_t axis = 0; axis < x.rank(); ++axis) {
        const int32_t at = axis - x.rank() + scale.rank();
        const bool may_be_cut = axis >= x.rank() - 2;
        int64_t *const found = &group[4 - x.rank() + axis];
        *found = scale_group(at < 0 ? 1 : scale.shape(at), x.shape(axis), may_be_cut);
        if (*found != 0) continue;
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: scale.shape[%d] is %lld; expected 1 or x.shape[%d] = %lld%s", call.operation, at,
                    static_cast<long long>(scale.shape(at)), axis, static_cast<long long>(x.shape(axis)),
                    may_be_cut ? ", or that over 32, 64 or 128" : "");
    }
    return ATTILE_OK;
}

bool has_no_scale(const View &q) { return (dtype_bit(q.dtype()) & kUnquantized) != 0; }

int32_t check_hadamard(const Call &call, int32_t count, const View &x) {
    if (count == 0) return ATTILE_OK;
    const int64_t extent = x.shape(x.rank() - 1);
    if (count >= 2 && count <= kMostRotated && (count & (count - 1)) == 0 && extent % count == 0) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE,
                "%s: hadamard is %d; expected 0, or a power of two from 2 to %d that divides the last extent, %lld", call.operation, count,
                kMostRotated, static_cast<long long>(extent));
}

// What both directions have: x and q by themselves, and to which of them scales belong; and of the way there alone: angles and a cache.
struct Operands {
    View x, q, scale, zero;
    View rope_cos, rope_sin, positions, key_lengths, block_table;

    int64_t batch() const { return x.rank() == 4 ? x.shape(0) : 1; }
    int64_t rows() const { return x.rank() > 1 ? x.shape(x.rank() - 2) : 1; }
};

// Zero points, of u4 alone: where they are written they must be there.
int32_t check_zero(const Call &call, const attile_tensor &tensor, bool given, Operands *all) {
    if (all->q.dtype() != ATTILE_U4) {
        if (is_absent(tensor)) return ATTILE_OK;
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: zero is given, but q.dtype is %s; expected %s", call.operation,
                    DtypeText(all->q.dtype()).text, DtypeText(ATTILE_U4).text);
    }
    if (given && is_absent(tensor)) return ATTILE_OK;
    if (!all->scale.present()) return fail(ATTILE_ERROR_INVALID_VALUE, "%s: zero is given, but scale is absent", call.operation);
    const int32_t rank = all->scale.rank();
    ATTILE_TRY(check_tensor(call, "zero", tensor, {kF32, rank, rank, !given}, &all->zero));
    for (int32_t i = 0; i < rank; ++i) {
        ATTILE_TRY(check_extent(call, all->zero, i, "a number for each scale", all->scale.shape(i), "the same of scale"));
    }
    return ATTILE_OK;
}

int32_t check_rope(const Call &call, const attile_quantize_args &args, Operands *all) {
    if (args.rope_layout != ATTILE_ROPE_HALVES && args.rope_layout != ATTILE_ROPE_INTERLEAVED) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: rope_layout is %d; expected an ATTILE_ROPE_ constant", call.operation,
                    args.rope_layout);
    }
    ATTILE_TRY(check_optional(call, "rope_cos", args.rope_cos, {kF32, 2, 2}, &all->rope_cos));
    ATTILE_TRY(check_optional(call, "rope_sin", args.rope_sin, {kF32, 2, 2}, &all->rope_sin));
    ATTILE_TRY(check_optional(call, "positions", args.positions, {kI32 | kI64, 1, 2}, &all->positions));
    const View &cosines = all->rope_cos, &sines = all->rope_sin, &positions = all->positions;
    if (cosines.present() != sines.present()) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is given, but %s is absent", call.operation,
                    cosines.present() ? "rope_cos" : "rope_sin", cosines.present() ? "rope_sin" : "rope_cos");
    }
    if (!cosines.present()) {
        if (!positions.present()) return ATTILE_OK;
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: positions is given, but rope_cos is absent", call.operation);
    }
    const int64_t extent = all->x.shape(all->x.rank() - 1);
    if (cosines.shape(0) < 1 || cosines.shape(1) < 1) {
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: rope_cos has shape [%lld, %lld]; expected a position and a pair at least",
                    call.operation, static_cast<long long>(cosines.shape(0)), static_cast<long long>(cosines.shape(1)));
    }
    if (cosines.shape(1) > extent / 2) {
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: rope_cos.shape[1] is %lld; expected at most %lld, the pairs of x's last extent, %lld",
                    call.operation, static_cast<long long>(cosines.shape(1)), static_cast<long long>(extent / 2),
                    static_cast<long long>(extent));
    }
    for (int32_t i = 0; i < 2; ++i) {
        ATTILE_TRY(check_extent(call, sines, i, i == 0 ? "positions" : "pairs", cosines.shape(i), "the same of rope_cos"));
    }
    const int64_t of_rows[2] = {all->batch(), all->rows()};
    return positions.present() ? check_broadcast(call, positions, of_rows, 2, "[batch, rows of x]") : ATTILE_OK;
}

// A cache that rows are appended to, as attention takes k and v. The tensors have been checked by themselves.
int32_t check_cache(const Call &call, const Operands &all, attile_quantize_problem *problem) {
    const View &x = all.x, &q = all.q, &table = all.block_table;
    if (!all.key_lengths.present()) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: append is 1, so key_lengths must be given", call.operation);
    }
    problem->len_k = q.shape(2);
    if (table.present()) {
        ATTILE_TRY(check_extent(call, table, 0, "batch", all.batch(), "x.shape[0] (batch)"));
        if (__builtin_mul_overflow(table.shape(1), q.shape(2), &problem->len_k)) {
            return fail(ATTILE_ERROR_OVERFLOW, "%s: block_table.shape[1] times q.shape[2] (page_size) exceeds 63 bits", call.operation);
        }
        problem->page_size = q.shape(2);
        problem->pages = q.shape(0);
    } else {
        ATTILE_TRY(check_extent(call, q, 0, "batch", x.shape(0), "x.shape[0] (batch)"));
    }
    ATTILE_TRY(check_extent(call, q, 1, "heads_kv", x.shape(1), "x.shape[1] (heads_kv)"));
    return check_extent(call, q, 3, "head_dim", x.shape(3), "x.shape[3] (head_dim)");
}

int32_t check_lengths(const Call &call, const attile_quantize_args &args, Operands *all, attile_quantize_problem *problem) {
    if (args.append != 0 && args.append != 1) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: append is %d; expected 0 or 1", call.operation, args.append);
    }
    problem->append = args.append;
    ATTILE_TRY(check_optional(call, "key_lengths", args.key_lengths, {kI32, 1, 1}, &all->key_lengths));
    ATTILE_TRY(check_optional(call, "block_table", args.block_table, {kI32, 2, 2}, &all->block_table));
    if (all->block_table.present() && args.append == 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: block_table is given, but append is 0", call.operation);
    }
    if (all->key_lengths.present()) {
        if (args.append == 0 && (!all->rope_cos.present() || all->positions.present())) {
            return fail(ATTILE_ERROR_INVALID_VALUE,
                        "%s: key_lengths is given; expected append to be 1, or rope_cos to be given without positions", call.operation);
        }
        ATTILE_TRY(check_extent(call, all->key_lengths, 0, "batch", all->batch(), "the batch of x"));
        if (all->rows() > INT32_MAX) {
            return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: x.shape[%d] is %lld; expected at most %d rows, since key_lengths are i32",
                        call.operation, all->x.rank() - 2, static_cast<long long>(all->rows()), INT32_MAX);
        }
    }
    return args.append == 1 ? check_cache(call, *all, problem) : ATTILE_OK;
}

// Scales that lie beside a cache: a block is part of a row, or all of it.
int32_t check_cache_scales(const Call &call, const Operands &all, bool given, int64_t group[4]) {
    const View &q = all.q, &scale = all.scale;
    std::fill(group, group + 4, int64_t{1});
    if (!scale.present()) return ATTILE_OK;
    if (!given && scale.rank() < 4) {  // Rows of several heads or entries would write the same one.
        return fail(ATTILE_ERROR_INVALID_RANK, "%s: scale.rank is %d; expected 4, as scales are made for a cache", call.operation,
                    scale.rank());
    }
    constexpr const char *kLabels[3] = {"pages or batch", "heads_kv", "page_size or len_k"};
    for (int32_t i = 0; i < scale.rank(); ++i) {
        const int32_t axis = i + 4 - scale.rank();
        if (axis == 3) {
            group[3] = scale_group(scale.shape(i), q.shape(3), true);
            if (group[3] != 0) continue;
            return fail(ATTILE_ERROR_SHAPE_MISMATCH,
                        "%s: scale.shape[%d] is %lld; expected 1 or q.shape[3] = %lld, or that over 32, 64 or "
                        "128",
                        call.operation, i, static_cast<long long>(scale.shape(i)), static_cast<long long>(q.shape(3)));
        }
        if (given && scale.shape(i) == 1) continue;
        ATTILE_TRY(check_extent(call, scale, i, kLabels[axis], q.shape(axis), "the same of q"));
    }
    return ATTILE_OK;
}

// What is left once the tensors have been checked by themselves.
int32_t normalise(const Call &call, const Operands &operands, int32_t hadamard, attile_quantize_problem *problem, bool *nothing_to_do) {
    const View &x = operands.x, &q = operands.q, &scale = operands.scale, &zero = operands.zero;
    ATTILE_TRY(check_last_axis(call, q));
    ATTILE_TRY(check_hadamard(call, hadamard, x));
    if (problem->append != 0) {
        ATTILE_TRY(check_cache_scales(call, operands, problem->scale_given != 0, problem->group));
    } else {
        for (int32_t i = 0; i < x.rank(); ++i) ATTILE_TRY(check_extent(call, q, i, "of the numbers", x.shape(i), "the same of x"));
        ATTILE_TRY(check_groups(call, scale, x, problem->group));
    }
    const bool back = problem->back != 0;
    const View &output = back ? x : q;
    ATTILE_TRY(refuse_overlap(call, output, back ? q : x));
    ATTILE_TRY(refuse_overlap(call, output, scale));
    ATTILE_TRY(refuse_overlap(call, output, zero));
    if (problem->scale_given == 0) {
        ATTILE_TRY(refuse_overlap(call, scale, x));
        ATTILE_TRY(refuse_overlap(call, zero, x));
        ATTILE_TRY(refuse_overlap(call, zero, scale));
    }
    for (const View *input : {&operands.rope_cos, &operands.rope_sin, &operands.positions, &operands.key_lengths, &operands.block_table}) {
        ATTILE_TRY(refuse_overlap(call, output, *input));
        if (problem->scale_given != 0) continue;
        ATTILE_TRY(refuse_overlap(call, scale, *input));
        ATTILE_TRY(refuse_overlap(call, zero, *input));
    }
    const View *all[] = {
        &x, &q, &scale, &zero, &operands.rope_cos, &operands.rope_sin, &operands.positions, &operands.key_lengths, &operands.block_table};
    ATTILE_TRY(check_workspace_apart(call, problem->launch, all, 9));
    for (int32_t i = 0; i < 4; ++i) problem->shape[i] = i < 4 - x.rank() ? 1 : x.shape(i - 4 + x.rank());
    problem->x = make_aligned_operand(x);
    problem->q = make_aligned_operand(q);
    problem->scale = make_aligned_operand(scale);
    problem->zero = make_aligned_operand(zero);
    problem->hadamard = hadamard;
    *nothing_to_do = x.empty || output.empty || (problem->append != 0 && problem->len_k == 0);
    return ATTILE_OK;
}

int32_t prepare(const Call &call, const attile_quantize_args *args, attile_quantize_problem *problem, bool *nothing_to_do) {
    attile_quantize_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstQuantizeSize, kQuantizeFlags, args, &full));
    *problem = {};
    problem->struct_size = sizeof *problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem->launch));
    if (full.scale_mode != ATTILE_SCALE_FROM_MAXIMUM && full.scale_mode != ATTILE_SCALE_GIVEN) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: scale_mode is %d; expected an ATTILE_SCALE_ constant", call.operation,
                    full.scale_mode);
    }
    problem->scale_given = full.scale_mode == ATTILE_SCALE_GIVEN ? 1 : 0;
    Operands all;
    ATTILE_TRY(check_tensor(call, "x", full.x, {kUnquantized, full.append != 0 ? 4 : 1, 4}, &all.x));
    ATTILE_TRY(check_tensor(call, "q", full.q, {kQuantized | kUnquantized, all.x.rank(), all.x.rank(), true}, &all.q));
    ATTILE_TRY(check_rope(call, full, &all));
    ATTILE_TRY(check_lengths(call, full, &all, problem));
    if (has_no_scale(all.q)) {
        if (!is_absent(full.scale)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: scale is given, but q.dtype is %s, which has none", call.operation,
                        DtypeText(all.q.dtype()).text);
        }
        problem->scale_given = 1;
    } else if (problem->scale_given != 0) {
        ATTILE_TRY(check_optional(call, "scale", full.scale, {kF32, 1, all.x.rank()}, &all.scale));
    } else {
        ATTILE_TRY(check_tensor(call, "scale", full.scale, {kF32, 1, all.x.rank(), true}, &all.scale));
    }
    ATTILE_TRY(check_zero(call, full.zero, problem->scale_given != 0, &all));
    ATTILE_TRY(normalise(call, all, full.hadamard, problem, nothing_to_do));
    if (all.rope_cos.present()) {
        problem->rope_positions = all.rope_cos.shape(0);
        problem->rope_pairs = all.rope_cos.shape(1);
        problem->rope_layout = full.rope_layout;
    }
    problem->rope_cos = make_operand(all.rope_cos, 0, 1);
    problem->rope_sin = make_operand(all.rope_sin, 0, 1);
    problem->positions = make_aligned_operand(all.positions, 1);
    problem->key_lengths = make_operand(all.key_lengths, 0);
    problem->block_table = make_operand(all.block_table, 0, 1);
    return ATTILE_OK;
}

int32_t prepare(const Call &call, const attile_dequantize_args *args, attile_quantize_problem *problem, bool *nothing_to_do) {
    attile_dequantize_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstDequantizeSize, kQuantizeFlags, args, &full));
    *problem = {};
    problem->struct_size = sizeof *problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem->launch));
    if (full.reserved != 0) {
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: reserved is %d; expected 0", call.operation, full.reserved);
    }
    problem->back = problem->scale_given = 1;
    Operands all;
    ATTILE_TRY(check_tensor(call, "q", full.q, {kQuantized, 1, 4}, &all.q));
    ATTILE_TRY(check_optional(call, "scale", full.scale, {kF32, 1, all.q.rank()}, &all.scale));
    ATTILE_TRY(check_zero(call, full.zero, true, &all));
    ATTILE_TRY(check_tensor(call, "x", full.x, {kUnquantized, all.q.rank(), all.q.rank(), true}, &all.x));
    return normalise(call, all, full.hadamard, problem, nothing_to_do);
}

template <typename Args>
int32_t run_either(const Call &call, attile_context *handle, const Args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        attile_quantize_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        return run_problem(call, context, context->interfaces.quantize, problem, problem.launch, nothing_to_do);
    });
}

template <typename Args>
int32_t query_either(const Call &call, attile_context *handle, const Args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        attile_quantize_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        return query_problem(call, context, context->interfaces.quantize, problem, nothing_to_do, support);
    });
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_quantize(attile_context *handle, const attile_quantize_args *args) { return run_either({"quantize"}, handle, args); }

int32_t attile_quantize_query(attile_context *handle, const attile_quantize_args *args, attile_support *support) {
    return query_either({"quantize", true}, handle, args, support);
}

int32_t attile_dequantize(attile_context *handle, const attile_dequantize_args *args) { return run_either({"dequantize"}, handle, args); }

int32_t attile_dequantize_query(attile_context *handle, const attile_dequantize_args *args, attile_support *support) {
    return query_either({"dequantize", true}, handle, args, support);
}

}  // extern "C"

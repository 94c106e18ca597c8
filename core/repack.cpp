// SPDX-License-Identifier: Apache-2.0
// attile_repack: validate, normalise, forward.
#include "alias.h"
#include "operation.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstRepackSize = ATTILE_SIZE_UP_TO(attile_repack_args, reserved);
constexpr uint32_t kRepackFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC;
constexpr int64_t kGroup = 32;  // Numbers that share a scale.

struct Format {
    int32_t number;
    const char *name;
    int64_t numbers, bytes;  // of a block
    DtypeSet type;           // of q
    bool has_zero;
};
constexpr Format kFormats[] = {{ATTILE_GGML_Q4_0, "Q4_0", 32, 18, kI4, false},
                               {ATTILE_GGML_Q8_0, "Q8_0", 32, 34, kI8, false},
                               {ATTILE_GGML_Q4_K, "Q4_K", 256, 144, kU4, true},
                               {ATTILE_GGML_Q6_K, "Q6_K", 256, 210, kI8, false}};

struct RepackViews {
    View blocks, q, scale, zero;
};

int32_t find_format(const Call &call, int32_t number, const Format **format) {
    for (const Format &known : kFormats) {
        if (known.number != number) continue;
        *format = &known;
        return ATTILE_OK;
    }
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: format is %d; expected an ATTILE_GGML_ constant", call.operation, number);
}

int32_t check_operands(const Call &call, const attile_repack_args &args, const Format &format, RepackViews *views) {
    ATTILE_TRY(check_tensor(call, "blocks", args.blocks, {kU8, 1, 4}, &views->blocks));
    const int32_t rank = views->blocks.rank();
    ATTILE_TRY(check_tensor(call, "q", args.q, {format.type, rank, rank, true}, &views->q));
    ATTILE_TRY(check_tensor(call, "scale", args.scale, {kF32, rank, rank, true}, &views->scale));
    if (format.has_zero) return check_tensor(call, "zero", args.zero, {kF32, rank, rank, true}, &views->zero);
    if (is_absent(args.zero)) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: zero is given, but the format is %s, which has none", call.operation, format.name);
}

// Elements along the last axis are neighbours.
int32_t check_neighbours(const Call &call, const char *name, const View &view) {
    const int32_t last = view.rank() - 1;
    if (view.empty || view.shape(last) == 1 || view.tensor->stride[last] == 1) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_STRIDE, "%s: %s.stride[%d] is %lld; expected 1 along the last axis", call.operation, name, last,
                static_cast<long long>(view.tensor->stride[last]));
}

int32_t check_shapes(const Call &call, const RepackViews &views, const Format &format) {
    const int32_t last = views.q.rank() - 1;
    for (int32_t i = 0; i < last; ++i) {
        for (const View *view : {&views.q, &views.scale, &views.zero}) {
            if (view->present()) ATTILE_TRY(check_extent(call, *view, i, "of rows", views.blocks.shape(i), "the same of blocks"));
        }
    }
    const int64_t k = views.q.shape(last);
    if (k % format.numbers != 0) {
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: q.shape[%d] is %lld; expected a multiple of %lld, the numbers of a block of %s",
                    call.operation, last, static_cast<long long>(k), static_cast<long long>(format.numbers), format.name);
    }
    int64_t bytes = 0;
    if (__builtin_mul_overflow(k / format.numbers, format.bytes, &bytes)) {
        return fail(ATTILE_ERROR_OVERFLOW, "%s: the bytes of the blocks of q.shape[%d] exceed 63 bits", call.operation, last);
    }
    ATTILE_TRY(check_extent(call, views.blocks, last, "bytes", bytes, "those of the blocks of a row of q"));
    ATTILE_TRY(check_extent(call, views.scale, last, "groups", k / kGroup, "the last extent of q over 32"));
    if (views.zero.present()) ATTILE_TRY(check_extent(call, views.zero, last, "groups", k / kGroup, "the last extent of q over 32"));
    ATTILE_TRY(check_neighbours(call, "blocks", views.blocks));
    return is_four_bits(views.q.dtype()) ? check_neighbours(call, "q", views.q) : ATTILE_OK;
}

int32_t prepare(const Call &call, const attile_repack_args *args, attile_repack_problem *problem, bool *nothing_to_do) {
    attile_repack_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstRepackSize, kRepackFlags, args, &full));
    *problem = {};
    problem->struct_size = sizeof *problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem->launch));
    if (full.reserved != 0) {
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: reserved is %d; expected 0", call.operation, full.reserved);
    }
    const Format *format = nullptr;
    ATTILE_TRY(find_format(call, full.format, &format));
    RepackViews views;
    ATTILE_TRY(check_operands(call, full, *format, &views));
    ATTILE_TRY(check_shapes(call, views, *format));
    const View *all[] = {&views.blocks, &views.q, &views.scale, &views.zero};
    for (int32_t i = 1; i < 4; ++i) {
        for (int32_t j = 0; j < i; ++j) ATTILE_TRY(refuse_overlap(call, *all[i], *all[j]));
    }
    ATTILE_TRY(check_workspace_apart(call, problem->launch, all, 4));
    const int32_t rank = views.q.rank();
    for (int32_t i = 0; i < 4; ++i) problem->shape[i] = i < 4 - rank ? 1 : views.q.shape(i - 4 + rank);
    problem->format = format->number;
    problem->row_bytes = views.blocks.shape(rank - 1);
    problem->blocks = make_aligned_operand(views.blocks);
    problem->q = make_aligned_operand(views.q);
    problem->scale = make_aligned_operand(views.scale);
    problem->zero = make_aligned_operand(views.zero);
    *nothing_to_do = views.q.empty;
    return ATTILE_OK;
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_repack(attile_context *handle, const attile_repack_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"repack"};
        attile_repack_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        return run_problem(call, context, context->interfaces.repack, problem, problem.launch, nothing_to_do);
    });
}

int32_t attile_repack_query(attile_context *handle, const attile_repack_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"repack", true};
        attile_repack_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        return query_problem(call, context, context->interfaces.repack, problem, nothing_to_do, support);
    });
}

}  // extern "C"

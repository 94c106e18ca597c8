// SPDX-License-Identifier: Apache-2.0
// Validation of attention's arguments and their reduction to the few forms that backends know.
#include "attention_problem.h"

#include <algorithm>
#include <cmath>

#include "scales.h"

namespace attile::core {
namespace {

// What the shapes say.
struct Lengths {
    int64_t batch = 0;
    int64_t len_q = 0, len_k = 0;            // of one entry, or the longest sequence
    int64_t mask_len_q = 0, mask_len_k = 0;  // extents that bias and allowed broadcast to
    int64_t total_q = 0, total_k = 0;
};

int32_t check_options(const Call &call, const attile_attention_args &args) {
    if (!is_finite_in(args.q.dtype, args.scale)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %sscale is %g; expected %s", call.operation, call.prefix, args.scale,
                    finite_in_text(args.q.dtype));
    }
    if (!(args.softcap >= 0.0) || !std::isfinite(args.softcap)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %ssoftcap is %g; expected 0 or a positive finite number", call.operation, call.prefix,
                    args.softcap);
    }
    if (args.mask < ATTILE_MASK_NONE || args.mask > ATTILE_MASK_WINDOW_BOTTOM_RIGHT) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %smask is %d; expected an ATTILE_MASK_ constant", call.operation, call.prefix,
                    args.mask);
    }
    if (args.reserved != 0) {
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: %sreserved is %d; expected 0", call.operation, call.prefix, args.reserved);
    }
    const bool windowed = args.mask == ATTILE_MASK_WINDOW_TOP_LEFT || args.mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    const struct {
        const char *name;
        int64_t value;
    } windows[] = {{"window_left", args.window_left}, {"window_right", args.window_right}};
    for (const auto &window : windows) {
        if (windowed ? window.value >= -1 : window.value == 0) continue;
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s%s is %lld; expected %s", call.operation, call.prefix, window.name,
                    static_cast<long long>(window.value), windowed ? "-1 or more" : "0, because mask is not a window");
    }
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"max_len_q", args.max_len_q}, {"max_len_k", args.max_len_k}};
    for (const auto &size : sizes) {
        if (size.value >= 0) continue;
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s%s is %lld; expected 0 or more", call.operation, call.prefix, size.name,
                    static_cast<long long>(size.value));
    }
    return ATTILE_OK;
}

// Which of the packed and paged tensors may be given together.
int32_t check_layout(const Call &call, const attile_attention_args &args) {
    const bool packed_q = !is_absent(args.cu_len_q), packed_k = !is_absent(args.cu_len_k), paged = !is_absent(args.block_table);
    if (paged && packed_k) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %sblock_table is given, so %scu_len_k must be absent: paged keys are not packed",
                    call.operation, call.prefix, call.prefix);
    }
    if (paged && is_absent(args.key_lengths)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %sblock_table is given, so %skey_lengths must be too", call.operation, call.prefix,
                    call.prefix);
    }
    if (packed_k && !packed_q) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %scu_len_k is given, so %scu_len_q must be too", call.operation, call.prefix,
                    call.prefix);
    }
    if (!is_absent(args.causal_offset) && args.mask == ATTILE_MASK_NONE && is_absent(args.alibi_slopes)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %scausal_offset is given, so %smask must be one, or %salibi_slopes be given",
                    call.operation, call.prefix, call.prefix, call.prefix);
    }
    return ATTILE_OK;
}

// The scales of q, k, v or o by themselves.
int32_t check_number_scale(const Call &call, const char *name, const attile_tensor &tensor, const View &numbers, DtypeSet scaled,
                           AttentionPass pass, View *view) {
    if (is_absent(tensor)) return ATTILE_OK;
    if (pass == AttentionPass::kBackward) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s%s is given; expected it absent, since gradients are of one type without scales",
                    call.operation, call.prefix, name);
    }
    if ((dtype_bit(numbers.dtype()) & scaled) == 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s%s is given, but %s.dtype is %s; expected %s", call.operation, call.prefix, name,
                    numbers.name.text, DtypeText(numbers.dtype()).text, DtypeSetText(scaled).text);
    }
    return check_tensor(call, name, tensor, {kF32, 1, 4}, view);
}

// Each tensor by itself.
int32_t check_operands(const Call &call, const attile_attention_args &args, AttentionPass pass, AttentionViews *views) {
    const bool writes = pass == AttentionPass::kForward;
    ATTILE_TRY(check_tensor(call, "q", args.q, {writes ? kFloats | kNarrow : kFloats, 4, 4}, &views->q));
    const DtypeSet type = dtype_bit(args.q.dtype);
    const DtypeSet wide = (type & kNarrow) != 0 ? kF32 | kF16 | kBf16 : type | kF32;  // Of f64 inputs f64 or f32.
    const DtypeSet statistic = type == kF64 ? kF64 : kF32;                            // of lse
    const DtypeSet parameter = type == kF64 ? wide : kF32;                            // of slopes and sinks
    const bool of_several_types = type != kF64 && writes;                             // Gradients are of one type.
    const DtypeSet cached = of_several_types ? kF32 | kF16 | kBf16 | kNarrow | kFourBits : type;
    ATTILE_TRY(check_tensor(call, "k", args.k, {cached, 4, 4}, &views->k));
    ATTILE_TRY(check_tensor(call, "v", args.v, {cached, 4, 4}, &views->v));
    ATTILE_TRY(check_last_axis(call, views->k));
    ATTILE_TRY(check_last_axis(call, views->v));
    ATTILE_TRY(check_tensor(call, "o", args.o, {of_several_types ? wide | kNarrow : wide, 4, 4, writes}, &views->o));
    if (writes) {
        ATTILE_TRY(check_optional(call, "lse", args.lse, {statistic, 3, 3, true}, &views->lse));
    } else {
        ATTILE_TRY(check_tensor(call, "lse", args.lse, {statistic, 3, 3}, &views->lse));
    }
    ATTILE_TRY(check_optional(call, "bias", args.bias, {of_several_types ? kF32 | kF16 | kBf16 : wide, 1, 4}, &views->bias));
    ATTILE_TRY(check_optional(call, "allowed", args.allowed, {kU8 | kBool, 1, 4}, &views->allowed));
    ATTILE_TRY(check_optional(call, "alibi_slopes", args.alibi_slopes, {parameter, 1, 2}, &views->alibi_slopes));
    ATTILE_TRY(check_optional(call, "sinks", args.sinks, {parameter, 1, 1}, &views->sinks));
    ATTILE_TRY(check_optional(call, "key_lengths", args.key_lengths, {kI32, 1, 1}, &views->key_lengths));
    ATTILE_TRY(check_optional(call, "cu_len_q", args.cu_len_q, {kI32, 1, 1}, &views->cu_len_q));
    ATTILE_TRY(check_optional(call, "cu_len_k", args.cu_len_k, {kI32, 1, 1}, &views->cu_len_k));
    ATTILE_TRY(check_optional(call, "block_table", args.block_table, {kI32, 2, 2}, &views->block_table));
    ATTILE_TRY(check_optional(call, "key_starts", args.key_starts, {kI32, 1, 1}, &views->key_starts));
    ATTILE_TRY(check_optional(call, "causal_offset", args.causal_offset, {kI32, 1, 1}, &views->causal_offset));
    ATTILE_TRY(check_optional(call, "block_mask", args.block_mask, {kU8 | kBool, 1, 4}, &views->block_mask));
    ATTILE_TRY(check_optional(call, "tree_mask", args.tree_mask, {kU8 | kBool, 1, 4}, &views->tree_mask));
    ATTILE_TRY(check_number_scale(call, "q_scale", args.q_scale, views->q, kNarrow, pass, &views->q_scale));
    ATTILE_TRY(check_number_scale(call, "k_scale", args.k_scale, views->k, kNarrow | kFourBits, pass, &views->k_scale));
    ATTILE_TRY(check_number_scale(call, "v_scale", args.v_scale, views->v, kNarrow | kFourBits, pass, &views->v_scale));
    return check_number_scale(call, "o_scale", args.o_scale, views->o, kNarrow, pass, &views->o_scale);
}

// Batch and lengths from the shapes that define them.
int32_t measure(const Call &call, const attile_attention_args &args, const AttentionViews &views, Lengths *lengths) {
    lengths->total_q = views.q.shape(2);
    lengths->batch = views.q.shape(0);
    lengths->len_q = lengths->mask_len_q = lengths->total_q;
    if (views.cu_len_q.present()) {
        ATTILE_TRY(check_extent(call, views.q, 0, "batch", 1, "that of packed sequences"));
        if (views.cu_len_q.shape(0) < 1) {
            return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: %scu_len_q.shape[0] is 0; expected the number of sequences + 1", call.operation,
                        call.prefix);
        }
        lengths->batch = views.cu_len_q.shape(0) - 1;
        if (args.max_len_q != 0) lengths->mask_len_q = args.max_len_q;
        lengths->len_q = std::min(lengths->mask_len_q, lengths->total_q);
    }
    if (views.block_table.present()) {
        if (__builtin_mul_overflow(views.block_table.shape(1), views.k.shape(2), &lengths->len_k)) {
            return fail(ATTILE_ERROR_OVERFLOW, "%s: %sblock_table.shape[1] times %sk.shape[2] (page_size) exceeds 63 bits", call.operation,
                        call.prefix, call.prefix);
        }
        lengths->total_k = lengths->mask_len_k = lengths->len_k;
        return ATTILE_OK;
    }
    lengths->total_k = lengths->len_k = lengths->mask_len_k = views.k.shape(2);
    if (views.cu_len_k.present()) {
        if (args.max_len_k != 0) lengths->mask_len_k = args.max_len_k;
        lengths->len_k = std::min(lengths->mask_len_k, lengths->total_k);
    }
    return ATTILE_OK;
}

// q, k, v, o and lse beside each other.
int32_t check_main_shapes(const Call &call, const AttentionViews &views, const Lengths &lengths) {
    const View &q = views.q, &k = views.k, &v = views.v, &o = views.o, &lse = views.lse;
    const bool paged = views.block_table.present();
    const int64_t heads_q = q.shape(1), heads_kv = k.shape(1);
    if (heads_kv == 0 ? heads_q != 0 : heads_q % heads_kv != 0) {
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %sk.shape[1] (heads_kv) is %lld; expected a divisor of %sq.shape[1] (heads_q) = %lld",
                    call.operation, call.prefix, static_cast<long long>(heads_kv), call.prefix, static_cast<long long>(heads_q));
    }
    if (!paged) {
        const bool packed = views.cu_len_k.present();
        const char *const origin = packed                     ? "that of packed sequences"
                                   : views.cu_len_q.present() ? "cu_len_q.shape[0] - 1 (sequences)"
                                                              : "q.shape[0] (batch)";
        ATTILE_TRY(check_extent(call, k, 0, "batch", packed ? 1 : lengths.batch, origin));
    }
    ATTILE_TRY(check_extent(call, k, 3, "head_dim", q.shape(3), "q.shape[3] (head_dim)"));
    ATTILE_TRY(check_extent(call, v, 0, paged ? "pages" : "batch", k.shape(0), paged ? "k.shape[0] (pages)" : "k.shape[0] (batch)"));
    ATTILE_TRY(check_extent(call, v, 1, "heads_kv", heads_kv, "k.shape[1] (heads_kv)"));
    ATTILE_TRY(
        check_extent(call, v, 2, paged ? "page_size" : "len_k", k.shape(2), paged ? "k.shape[2] (page_size)" : "k.shape[2] (len_k)"));
    ATTILE_TRY(check_extent(call, o, 0, "batch", q.shape(0), "q.shape[0] (batch)"));
    ATTILE_TRY(check_extent(call, o, 1, "heads_q", heads_q, "q.shape[1] (heads_q)"));
    ATTILE_TRY(check_extent(call, o, 2, "len_q", q.shape(2), "q.shape[2] (len_q)"));
    ATTILE_TRY(check_extent(call, o, 3, "head_dim_v", v.shape(3), "v.shape[3] (head_dim_v)"));
    if (!lse.present()) return ATTILE_OK;
    ATTILE_TRY(check_extent(call, lse, 0, "batch", q.shape(0), "q.shape[0] (batch)"));
    ATTILE_TRY(check_extent(call, lse, 1, "heads_q", heads_q, "q.shape[1] (heads_q)"));
    return check_extent(call, lse, 2, "len_q", q.shape(2), "q.shape[2] (len_q)");
}

// The scales of q, k, v or o beside it.
int32_t check_scale_shape(const Call &call, const View &scale, const View &numbers, int64_t *group) {
    if (!scale.present()) return ATTILE_OK;
    const int32_t last = scale.rank() - 1;
    *group = scale_group(scale.shape(last), numbers.shape(3), true);
    if (*group == 0) {
        return fail(ATTILE_ERROR_SHAPE_MISMATCH,
                    "%s: %s.shape[%d] is %lld; expected 1, or %s.shape[3] = %lld, or that over 32, 64 or 128 without rest", call.operation,
                    scale.name.text, last, static_cast<long long>(scale.shape(last)), numbers.name.text,
                    static_cast<long long>(numbers.shape(3)));
    }
    const int64_t of_numbers[4] = {numbers.shape(0), numbers.shape(1), numbers.shape(2), scale.shape(last)};
    return check_broadcast(call, scale, of_numbers, 4, "the axes of the numbers it scales");
}

// Everything that varies the plain formula.
int32_t check_extra_shapes(const Call &call, const AttentionViews &views, const Lengths &lengths) {
    const int64_t heads_q = views.q.shape(1);
    const int64_t scores[4] = {lengths.batch, heads_q, lengths.mask_len_q, lengths.mask_len_k};
    for (const View *view : {&views.bias, &views.allowed}) {
        if (view->present()) ATTILE_TRY(check_broadcast(call, *view, scores, 4, "[batch, heads_q, len_q, len_k]"));
    }
    if (views.block_mask.present()) {
        const auto blocks = [](int64_t length) { return length / ATTILE_MASK_BLOCK + (length % ATTILE_MASK_BLOCK != 0); };
        const int64_t of_blocks[4] = {lengths.batch, heads_q, blocks(lengths.mask_len_q), blocks(lengths.mask_len_k)};
        ATTILE_TRY(check_broadcast(call, views.block_mask, of_blocks, 4, "[batch, heads_q, ceil(len_q / 128), ceil(len_k / 128)]"));
    }
    if (const View &tree = views.tree_mask; tree.present()) {
        const int64_t columns = tree.shape(tree.rank() - 1);
        if (columns > lengths.mask_len_k) {
            return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %stree_mask.shape[%d] is %lld; expected at most len_k = %lld, the keys there are",
                        call.operation, call.prefix, tree.rank() - 1, static_cast<long long>(columns),
                        static_cast<long long>(lengths.mask_len_k));
        }
        const int64_t of_tree[4] = {lengths.batch, heads_q, lengths.mask_len_q, columns};
        ATTILE_TRY(check_broadcast(call, tree, of_tree, 4, "[batch, heads_q, len_q, keys of the tree]"));
    }
    const View &slopes = views.alibi_slopes;
    if (slopes.present()) {
        if (slopes.rank() == 2) ATTILE_TRY(check_extent(call, slopes, 0, "batch", lengths.batch, "the batch"));
        ATTILE_TRY(check_extent(call, slopes, slopes.rank() - 1, "heads_q", heads_q, "q.shape[1] (heads_q)"));
    }
    if (views.sinks.present()) ATTILE_TRY(check_extent(call, views.sinks, 0, "heads_q", heads_q, "q.shape[1] (heads_q)"));
    for (const View *view : {&views.key_lengths, &views.key_starts, &views.causal_offset}) {
        if (view->present()) ATTILE_TRY(check_extent(call, *view, 0, "batch", lengths.batch, "the batch"));
    }
    if (views.cu_len_k.present()) {
        ATTILE_TRY(check_extent(call, views.cu_len_k, 0, "sequences + 1", lengths.batch + 1, "cu_len_q.shape[0] (sequences + 1)"));
    }
    if (views.block_table.present()) ATTILE_TRY(check_extent(call, views.block_table, 0, "batch", lengths.batch, "the batch"));
    return ATTILE_OK;
}

// The five masks as one window about one of two corners.
void normalise_mask(const attile_attention_args &args, const Lengths &lengths, attile_attention_problem *problem) {
    const bool bottom_right = args.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT || args.mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    problem->bottom_right = bottom_right ? 1 : 0;
    problem->alibi_bottom_right = bottom_right || args.mask == ATTILE_MASK_NONE ? 1 : 0;
    problem->window_left = -1;
    problem->window_right = -1;
    if (args.mask == ATTILE_MASK_CAUSAL_TOP_LEFT || args.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT) {
        problem->window_right = 0;
    } else if (args.mask != ATTILE_MASK_NONE) {
        // A side that reaches past every key is open. This also keeps the backend's i + shift +- window within 64 bits. An offset may lie
        // beyond the keys.
        const int64_t offset = is_absent(args.causal_offset) ? 0 : ATTILE_CAUSAL_OFFSET_LIMIT;
        const bool is_far = lengths.total_q / 2 + lengths.total_k / 2 >= INT64_MAX / 2 - offset;
        const int64_t enough = is_far ? INT64_MAX : lengths.total_q + lengths.total_k + offset;
        problem->window_left = args.window_left >= enough ? -1 : args.window_left;
        problem->window_right = args.window_right >= enough ? -1 : args.window_right;
    }
}

// Pages without slots, or a table without pages, hold no key: the problem is then an ordinary one with len_k = 0, which spares backends
// a page size of 0.
void normalise_paging(const AttentionViews &views, const Lengths &lengths, attile_attention_problem *problem) {
    if (lengths.len_k == 0) {
        for (attile_operand *operand : {&problem->k, &problem->v, &problem->k_scale, &problem->v_scale})
            std::fill_n(operand->stride, 4, int64_t{0});
        problem->key_lengths = problem->key_starts = {};
        return;
    }
    problem->block_table = make_operand(views.block_table, 0, 1);
    problem->page_size = views.k.shape(2);
    problem->pages = views.k.shape(0);
}

}  // namespace

int32_t check_exact(const Call &call, const attile_attention_problem &problem) {
    const struct {
        const char *name;
        int32_t dtype;
    } operands[] = {{"q", problem.q.dtype}, {"k", problem.k.dtype}, {"v", problem.v.dtype}};
    for (const auto &operand : operands) {
        if (operand.dtype == ATTILE_F64 || operand.dtype == ATTILE_F32) continue;
        return fail(ATTILE_ERROR_UNSUPPORTED_DTYPE, "%s: EXACT_PRODUCTS is set and %s has the type %s; expected f64 or f32", call.operation,
                    operand.name, DtypeText(operand.dtype).text);
    }
    if ((dtype_bit(problem.o.dtype) & kNarrow) != 0) {
        return fail(ATTILE_ERROR_UNSUPPORTED_DTYPE, "%s: EXACT_PRODUCTS is set and o has the type %s; expected %s", call.operation,
                    DtypeText(problem.o.dtype).text, DtypeText(problem.q.dtype).text);
    }
    if (problem.softcap == 0) return ATTILE_OK;
    return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, "%s: EXACT_PRODUCTS is set and softcap is %g; expected 0, since tanh has no exact steps",
                call.operation, problem.softcap);
}

int32_t normalise_attention(const Call &call, const attile_attention_args &args, AttentionPass pass, AttentionViews *views,
                            attile_attention_problem *problem) {
    *problem = {};
    problem->struct_size = sizeof *problem;
    Lengths lengths;
    ATTILE_TRY(check_options(call, args));
    ATTILE_TRY(check_operands(call, args, pass, views));
    ATTILE_TRY(check_layout(call, args));
    ATTILE_TRY(measure(call, args, *views, &lengths));
    ATTILE_TRY(check_main_shapes(call, *views, lengths));
    ATTILE_TRY(check_extra_shapes(call, *views, lengths));
    ATTILE_TRY(check_scale_shape(call, views->q_scale, views->q, &problem->q_group));
    ATTILE_TRY(check_scale_shape(call, views->k_scale, views->k, &problem->k_group));
    ATTILE_TRY(check_scale_shape(call, views->v_scale, views->v, &problem->v_group));
    ATTILE_TRY(check_scale_shape(call, views->o_scale, views->o, &problem->o_group));

    problem->compute = args.q.dtype == ATTILE_F64 || is_exact(args.flags) ? ATTILE_F64 : ATTILE_F32;
    problem->batch = lengths.batch;
    problem->heads_q = views->q.shape(1);
    problem->heads_kv = views->k.shape(1);
    problem->len_q = lengths.len_q;
    problem->len_k = lengths.len_k;
    problem->head_dim = views->q.shape(3);
    problem->head_dim_v = views->v.shape(3);
    problem->q = make_aligned_operand(views->q);
    problem->k = make_aligned_operand(views->k);
    problem->v = make_aligned_operand(views->v);
    problem->o = make_aligned_operand(views->o);
    problem->lse = make_operand(views->lse, 0, 1, 2);
    problem->q_scale = make_aligned_operand(views->q_scale);
    problem->k_scale = make_aligned_operand(views->k_scale);
    problem->v_scale = make_aligned_operand(views->v_scale);
    problem->o_scale = make_aligned_operand(views->o_scale);
    // Without a dimension every score is 0 whatever the scale.
    const double dimension = static_cast<double>(std::max<int64_t>(problem->head_dim, 1));
    problem->scale = args.scale != 0.0 ? args.scale : 1.0 / std::sqrt(dimension);
    problem->softcap = args.softcap;
    normalise_mask(args, lengths, problem);
    problem->bias = make_aligned_operand(views->bias);
    problem->allowed = make_aligned_operand(views->allowed);
    problem->alibi_slopes = make_aligned_operand(views->alibi_slopes, 1);
    problem->sinks = make_operand(views->sinks, -1, 0);
    problem->key_lengths = make_operand(views->key_lengths, 0);
    problem->key_starts = make_operand(views->key_starts, 0);
    problem->causal_offset = make_operand(views->causal_offset, 0);
    problem->block_mask = make_aligned_operand(views->block_mask);
    if (const View &tree = views->tree_mask; tree.present() && tree.shape(tree.rank() - 1) > 0) {
        problem->tree_mask = make_aligned_operand(tree);
        problem->tree_keys = tree.shape(tree.rank() - 1);
    }
    problem->cu_len_q = make_operand(views->cu_len_q, 0);
    problem->cu_len_k = make_operand(views->cu_len_k, 0);
    problem->total_q = lengths.total_q;
    problem->total_k = lengths.total_k;
    if (views->block_table.present()) normalise_paging(*views, lengths, problem);
    if (problem->heads_kv == 0) {
        // No heads at all. One key head without keys is the same, and spares backends the division of heads_q by 0.
        problem->heads_kv = 1;
        problem->len_k = problem->total_k = 0;
    }
    return ATTILE_OK;
}

}  // namespace attile::core

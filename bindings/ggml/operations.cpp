// SPDX-License-Identifier: Apache-2.0
// ggml's first dimension is the one whose elements lie closest; Attile's axes are named from the other end. A matrix product of ggml is
// node[n, m] = sum_k x[n, k] w[m, k], with w the weights: Attile's A is x, and its B is w, transposed by strides.
#include "operations.h"

#include <cmath>
#include <cstring>

namespace attile::ggml {
namespace {

float float_param(const ggml_tensor &node, int index) {
    float value = 0;
    std::memcpy(&value, node.op_params + index, sizeof value);
    return value;
}

// The status of a query: what the call would return.
template <typename Args>
int32_t ask(int32_t (*query)(attile_context *, const Args *, attile_support *), attile_context *context, const Args &args) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    const int32_t status = query(context, &args, &support);
    return status != ATTILE_OK ? status : support.status;
}

int32_t call(const Target &target, const attile_gemm_args &args) {
    return target.copies != nullptr ? attile_gemm(target.context, &args) : ask(attile_gemm_query, target.context, args);
}

int32_t call(const Target &target, const attile_attention_args &args) {
    return target.copies != nullptr ? attile_attention(target.context, &args) : ask(attile_attention_query, target.context, args);
}

int32_t call(const Target &target, const attile_softmax_args &args) {
    return target.copies != nullptr ? attile_softmax(target.context, &args) : ask(attile_softmax_query, target.context, args);
}

// One batch entry alone, whose heads become two axes: head i stands at (i / count, i % count).
void split_heads(attile_tensor *tensor, int64_t count) {
    tensor->shape[0] = tensor->shape[1] / count;
    tensor->shape[1] = count;
    tensor->stride[0] = tensor->stride[1] * count;
}

// Heads that share weights and have one row each are the rows of one product.
void heads_as_rows(attile_tensor *tensor) {
    const int64_t shape = tensor->shape[1], stride = tensor->stride[1];
    tensor->shape[1] = tensor->shape[2];
    tensor->stride[1] = tensor->stride[2];
    tensor->shape[2] = shape;
    tensor->stride[2] = stride;
}

int32_t mul_mat(const ggml_tensor &node, const Target &target) {
    const ggml_tensor &w = *node.src[0], &x = *node.src[1];
    // ggml's own backend has a fast transform for it.
    if (node.op_params[1] == GGML_HINT_SRC0_IS_HADAMARD) return ATTILE_ERROR_UNSUPPORTED_FEATURE;
    if (ggml_is_empty(&w) || ggml_is_empty(&node)) return ATTILE_ERROR_UNSUPPORTED_SHAPE;
    const bool run = target.copies != nullptr;
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    if (!view(w, {3, 2, 0, 1}, run, &args.b) || !view(node, {3, 2, 1, 0}, run, &args.d)) return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    const int32_t status = as_type(x, w.type, {3, 2, 1, 0}, run ? &target.copies->operand : nullptr, &args.a);
    if (status != ATTILE_OK) return status;

    // Every `heads` neighbouring matrices of x share one of w, and every `entries` neighbouring batch entries.
    const int64_t heads = x.ne[2] / w.ne[2], entries = x.ne[3] / w.ne[3];
    const bool broadcast = (heads == 1 || w.ne[2] == 1) && (entries == 1 || w.ne[3] == 1);
    if (broadcast) return call(target, args);
    for (int64_t i = 0; i < x.ne[3]; ++i) {
        attile_gemm_args part = args;
        advance(&part.a, i * args.a.stride[0]);
        advance(&part.b, i / entries * args.b.stride[0]);
        advance(&part.d, i * args.d.stride[0]);
        split_heads(&part.a, heads);
        split_heads(&part.b, 1);
        split_heads(&part.d, heads);
        if (x.ne[1] == 1) {
            heads_as_rows(&part.a);
            heads_as_rows(&part.d);
        }
        const int32_t failure = call(target, part);
        if (failure != ATTILE_OK) return failure;
    }
    return ATTILE_OK;
}

// The factor of a head's mask by which ggml makes ALiBi of a mask of distances; 1 if max_bias is 0. It falls from head to head.
float mask_factor(float max_bias, int64_t head, int64_t heads) {
    if (!(max_bias > 0)) return 1;
    int64_t whole = 1;
    while (whole * 2 <= heads) whole *= 2;
    const float exponent = -max_bias / static_cast<float>(whole);
    if (head < whole) return std::exp2(exponent * static_cast<float>(head + 1));
    return std::exp2(exponent / 2 * static_cast<float>(2 * (head - whole) + 1));
}

// The rows of a mask that the node's rows see: ggml lets it have more.
ggml_tensor first_rows(const ggml_tensor &mask, int64_t rows) {
    ggml_tensor cut = mask;
    cut.ne[1] = rows;
    return cut;
}

// Only heads first to first + count - 1 of a tensor whose axis `axis` is the heads.
void keep_heads(attile_tensor *tensor, int axis, int64_t first, int64_t count) {
    if (tensor->dtype == 0) return;
    advance(tensor, first * tensor->stride[axis]);
    tensor->shape[axis] = count;
}

// Attention whose mask has a factor for each head, which Attile's bias has not. So each head of keys is a call of its own, with a bias in
// f32 of the mask times the factors of its query heads. ggml repeats the heads of a mask one after the other.
int32_t attention_by_heads(const attile_attention_args &all, const ggml_tensor &mask, float max_bias, const Target &target) {
    const int64_t heads = all.q.shape[1], heads_kv = all.k.shape[1];
    if (heads_kv == 0 || heads % heads_kv != 0 || all.v.shape[1] != heads_kv || mask.nb[0] != ggml_type_size(mask.type))
        return ATTILE_ERROR_UNSUPPORTED_SHAPE;
    const int64_t group = heads / heads_kv, rows = mask.ne[1], keys = mask.ne[0];
    const int64_t shape[] = {mask.ne[3], group, rows, keys};
    float *bias = nullptr;
    if (target.copies != nullptr) {
        bias = static_cast<float *>(target.copies->mask.reserve(static_cast<size_t>(shape[0] * group * rows * keys) * sizeof(float)));
        if (bias == nullptr) return ATTILE_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (int64_t h = 0; h < heads_kv; ++h) {
        attile_attention_args part = all;
        keep_heads(&part.q, 1, h * group, group);
        keep_heads(&part.k, 1, h, 1);
        keep_heads(&part.v, 1, h, 1);
        keep_heads(&part.o, 1, h * group, group);
        keep_heads(&part.sinks, 0, h * group, group);
        const int32_t described = attile_tensor_init(&part.bias, bias, ATTILE_F32, 4, shape);
        if (described != ATTILE_OK) return described;
        float *row = bias;
        for (int64_t i = 0; row != nullptr && i < shape[0] * group * rows; ++i, row += keys) {
            const int64_t head = h * group + i / rows % group;
            const char *from = static_cast<const char *>(mask.data) + static_cast<size_t>(i / (group * rows)) * mask.nb[3] +
                               static_cast<size_t>(head % mask.ne[2]) * mask.nb[2] + static_cast<size_t>(i % rows) * mask.nb[1];
            ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t *>(from), row, keys);
            const float factor = mask_factor(max_bias, head, heads);
            for (int64_t j = 0; j < keys; ++j) row[j] *= factor;
        }
        const int32_t status = call(target, part);
        if (status != ATTILE_OK || target.copies == nullptr) return status;  // Queries of all heads are alike.
    }
    return ATTILE_OK;
}

int32_t flash_attention(const ggml_tensor &node, const Target &target) {
    const ggml_tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const ggml_tensor *mask = node.src[3], *sinks = node.src[4];
    const bool run = target.copies != nullptr;
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.scale = static_cast<double>(float_param(node, 0));
    const float max_bias = float_param(node, 1);
    args.softcap = static_cast<double>(float_param(node, 2));
    if (args.scale == 0) return ATTILE_ERROR_UNSUPPORTED_FEATURE;  // Which is the default for Attile, not a factor.
    if (k.type != v.type) return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    if (!view(k, {3, 2, 1, 0}, run, &args.k) || !view(v, {3, 2, 1, 0}, run, &args.v) || !view(node, {3, 1, 2, 0}, run, &args.o)) {
        return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    }
    if (sinks != nullptr && !view(*sinks, {0}, run, &args.sinks)) return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    const int32_t status = as_type(q, k.type, {3, 2, 1, 0}, run ? &target.copies->operand : nullptr, &args.q);
    if (status != ATTILE_OK) return status;
    if (mask == nullptr) return call(target, args);

    if (mask->type != GGML_TYPE_F16) return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    const ggml_tensor seen = first_rows(*mask, q.ne[1]);
    if (max_bias > 0) return attention_by_heads(args, seen, max_bias, target);
    const ggml_type type = k.type == GGML_TYPE_F16 ? GGML_TYPE_F16 : GGML_TYPE_F32;
    const int32_t converted = as_type(seen, type, {3, 2, 1, 0}, run ? &target.copies->mask : nullptr, &args.bias);
    return converted != ATTILE_OK ? converted : call(target, args);
}

// scale x + factor mask, of which the softmax is then made in place: rows of `to` lie `pitch` elements apart, and what is left there is
// filled with the head's sink. `mask` is dense f32, or absent.
void scaled_and_masked(const ggml_tensor &node, const attile_tensor &mask, float *to, int64_t pitch) {
    const float scale = float_param(node, 0), max_bias = float_param(node, 1);
    const auto *from = static_cast<const float *>(node.src[0]->data);
    const auto *sinks = node.src[2] != nullptr ? static_cast<const float *>(node.src[2]->data) : nullptr;
    const int64_t columns = node.ne[0], rows = node.ne[1], heads = node.ne[2];
    for (int64_t i = 0; i < ggml_nrows(&node); ++i, from += columns, to += pitch) {
        const int64_t head = i / rows % heads, entry = i / (rows * heads);
        for (int64_t j = 0; j < columns; ++j) to[j] = from[j] * scale;
        if (sinks != nullptr) to[columns] = sinks[head];
        if (mask.dtype == 0) continue;
        const float factor = mask_factor(max_bias, head, heads);
        const float *added = static_cast<const float *>(mask.data) + entry % mask.shape[0] * mask.stride[0] +
                             head % mask.shape[1] * mask.stride[1] + i % rows * mask.stride[2];
        for (int64_t j = 0; j < columns; ++j) to[j] += factor * added[j];
    }
}

// With sinks the rows have one column more, so they are made in a copy.
int32_t soft_max_with_sinks(const ggml_tensor &node, const attile_tensor &mask, const Target &target) {
    const ggml_tensor &sinks = *node.src[2];
    if (sinks.type != GGML_TYPE_F32 || !ggml_is_contiguous(&sinks)) return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    const int64_t columns = node.ne[0], shape[] = {ggml_nrows(&node), columns + 1};
    float *rows = nullptr;
    if (target.copies != nullptr) {
        rows = static_cast<float *>(target.copies->operand.reserve(static_cast<size_t>(shape[0] * shape[1]) * sizeof(float)));
        if (rows == nullptr) return ATTILE_ERROR_OUT_OF_HOST_MEMORY;
        scaled_and_masked(node, mask, rows, shape[1]);
    }
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    args.axis = -1;
    int32_t status = attile_tensor_init(&args.x, rows, ATTILE_F32, 2, shape);
    args.y = args.x;
    if (status == ATTILE_OK) status = call(target, args);
    if (status != ATTILE_OK || rows == nullptr) return status;
    auto *to = static_cast<float *>(node.data);
    for (int64_t i = 0; i < shape[0]; ++i) std::memcpy(to + i * columns, rows + i * shape[1], static_cast<size_t>(columns) * sizeof(float));
    return ATTILE_OK;
}

int32_t soft_max(const ggml_tensor &node, const Target &target) {
    const ggml_tensor &x = *node.src[0];
    const ggml_tensor *mask = node.src[1], *sinks = node.src[2];
    const bool run = target.copies != nullptr;
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    if (!ggml_is_contiguous(&x) || !ggml_is_contiguous(&node)) return ATTILE_ERROR_UNSUPPORTED_SHAPE;
    attile_tensor added = {};
    if (mask != nullptr) {
        if (mask->nb[0] != ggml_type_size(mask->type)) return ATTILE_ERROR_UNSUPPORTED_SHAPE;
        const int32_t status =
            as_type(first_rows(*mask, x.ne[1]), GGML_TYPE_F32, {3, 2, 1, 0}, run ? &target.copies->mask : nullptr, &added);
        if (status != ATTILE_OK) return status;
    }
    if (sinks != nullptr) return soft_max_with_sinks(node, added, target);
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    args.axis = -1;
    const bool plain = mask == nullptr && float_param(node, 0) == 1;
    if (!view(plain ? x : node, {3, 2, 1, 0}, run, &args.x) || !view(node, {3, 2, 1, 0}, run, &args.y))
        return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    if (run && !plain) scaled_and_masked(node, added, static_cast<float *>(node.data), node.ne[0]);
    return call(target, args);
}

}  // namespace

bool is_view(const ggml_tensor &node) {
    switch (node.op) {
        case GGML_OP_NONE:
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE:
            return true;
        default:
            return false;
    }
}

int32_t serve(const ggml_tensor &node, const Target &target) {
    switch (node.op) {
        case GGML_OP_MUL_MAT:
            return mul_mat(node, target);
        case GGML_OP_FLASH_ATTN_EXT:
            return flash_attention(node, target);
        case GGML_OP_SOFT_MAX:
            return soft_max(node, target);
        default:
            return ATTILE_ERROR_UNSUPPORTED_OPERATION;
    }
}

}  // namespace attile::ggml

// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

namespace attile::ggml {
namespace {

using Convert = void (*)(const void *from, void *to, int64_t count);

void f32_to_f16(const void *from, void *to, int64_t count) {
    ggml_fp32_to_fp16_row(static_cast<const float *>(from), static_cast<ggml_fp16_t *>(to), count);
}

void f32_to_bf16(const void *from, void *to, int64_t count) {
    ggml_fp32_to_bf16_row(static_cast<const float *>(from), static_cast<ggml_bf16_t *>(to), count);
}

void f16_to_f32(const void *from, void *to, int64_t count) {
    ggml_fp16_to_fp32_row(static_cast<const ggml_fp16_t *>(from), static_cast<float *>(to), count);
}

void bf16_to_f32(const void *from, void *to, int64_t count) {
    ggml_bf16_to_fp32_row(static_cast<const ggml_bf16_t *>(from), static_cast<float *>(to), count);
}

// NULL: there is none.
Convert conversion(ggml_type from, ggml_type to) {
    if (from == GGML_TYPE_F32 && to == GGML_TYPE_F16) return f32_to_f16;
    if (from == GGML_TYPE_F32 && to == GGML_TYPE_BF16) return f32_to_bf16;
    if (from == GGML_TYPE_F16 && to == GGML_TYPE_F32) return f16_to_f32;
    if (from == GGML_TYPE_BF16 && to == GGML_TYPE_F32) return bf16_to_f32;
    return nullptr;
}

// Into dense memory in ggml's order; rows are contiguous.
void convert_rows(const ggml_tensor &from, Convert convert, size_t element, char *to) {
    const auto *data = static_cast<const char *>(from.data);
    if (ggml_is_contiguous(&from)) {
        convert(data, to, ggml_nelements(&from));
        return;
    }
    for (int64_t i = 0; i < from.ne[3]; ++i) {
        for (int64_t j = 0; j < from.ne[2]; ++j) {
            for (int64_t l = 0; l < from.ne[1]; ++l) {
                convert(data + i * static_cast<int64_t>(from.nb[3]) + j * static_cast<int64_t>(from.nb[2]) +
                            l * static_cast<int64_t>(from.nb[1]),
                        to, from.ne[0]);
                to += from.ne[0] * static_cast<int64_t>(element);
            }
        }
    }
}

}  // namespace

int32_t dtype_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:
            return ATTILE_F32;
        case GGML_TYPE_F16:
            return ATTILE_F16;
        case GGML_TYPE_BF16:
            return ATTILE_BF16;
        default:
            return 0;
    }
}

void advance(attile_tensor *tensor, int64_t count) {
    if (tensor->data == nullptr) return;
    const int64_t element = (tensor->dtype & 0xff) / 8;
    tensor->data = static_cast<char *>(tensor->data) + count * element;
}

bool view(const ggml_tensor &from, std::initializer_list<int> axes, bool with_data, attile_tensor *to) {
    *to = {};
    to->dtype = dtype_of(from.type);
    if (to->dtype == 0) return false;
    to->data = with_data ? from.data : nullptr;
    const size_t element = ggml_type_size(from.type);
    for (const int axis : axes) {
        if (from.ne[axis] > 1 && from.nb[axis] % element != 0) return false;
        to->shape[to->rank] = from.ne[axis];
        to->stride[to->rank] = static_cast<int64_t>(from.nb[axis] / element);
        ++to->rank;
    }
    return true;
}

int32_t as_type(const ggml_tensor &from, ggml_type type, std::initializer_list<int> axes, Scratch *scratch, attile_tensor *to) {
    if (from.type == type) return view(from, axes, scratch != nullptr, to) ? ATTILE_OK : ATTILE_ERROR_UNSUPPORTED_DTYPE;
    const Convert convert = conversion(from.type, type);
    if (convert == nullptr || from.nb[0] != ggml_type_size(from.type)) return ATTILE_ERROR_UNSUPPORTED_DTYPE;
    ggml_tensor copy = from;
    copy.type = type;
    copy.nb[0] = ggml_type_size(type);
    for (int axis = 1; axis < GGML_MAX_DIMS; ++axis) copy.nb[axis] = copy.nb[axis - 1] * static_cast<size_t>(copy.ne[axis - 1]);
    copy.data = nullptr;
    if (scratch != nullptr) {
        copy.data = scratch->reserve(static_cast<size_t>(ggml_nelements(&from)) * copy.nb[0]);
        if (copy.data == nullptr) return ATTILE_ERROR_OUT_OF_HOST_MEMORY;
        convert_rows(from, convert, copy.nb[0], static_cast<char *>(copy.data));
    }
    return view(copy, axes, scratch != nullptr, to) ? ATTILE_OK : ATTILE_ERROR_UNSUPPORTED_DTYPE;
}

}  // namespace attile::ggml

// SPDX-License-Identifier: Apache-2.0
#include "distributed/sums.h"

#include <algorithm>
#include <cstring>

#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

template <typename From, typename To>
void add_typed(const attile_tensor &from, const attile_tensor &to) {
    const auto step = [&](int32_t axis) { return to.shape[axis] == 1 ? 0 : to.stride[axis]; };
    const From *const source = static_cast<const From *>(from.data);
    To *const target = static_cast<To *>(to.data);
    const int64_t width = from.shape[3], from_step = from.stride[3], to_step = step(3);
    for (int64_t b = 0; b < from.shape[0]; ++b) {
        for (int64_t h = 0; h < from.shape[1]; ++h) {
            for (int64_t i = 0; i < from.shape[2]; ++i) {
                const From *in = source + b * from.stride[0] + h * from.stride[1] + i * from.stride[2];
                To *out = target + b * step(0) + h * step(1) + i * step(2);
                for (int64_t d = 0; d < width; ++d) out[d * to_step] += static_cast<To>(in[d * from_step]);
            }
        }
    }
}

}  // namespace

void store_number(void *to, int32_t dtype, int64_t index, double value) {
    if (dtype == ATTILE_F64) {
        static_cast<double *>(to)[index] = value;
    } else {
        static_cast<float *>(to)[index] = static_cast<float>(value);
    }
}

attile_tensor dense_view(void *data, int32_t dtype, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
    attile_tensor view{};
    const int64_t shape[4] = {n0, n1, n2, n3};
    (void)attile_tensor_init(&view, data, dtype, 4, shape);
    return view;
}

void add_up(const attile_tensor &from, const attile_tensor &to) {
    if (is_empty(from)) return;
    if (to.dtype != ATTILE_F64) {
        add_typed<float, float>(from, to);
    } else if (from.dtype == ATTILE_F64) {
        add_typed<double, double>(from, to);
    } else {
        add_typed<float, double>(from, to);
    }
}

void clear(const attile_tensor &tensor) {
    if (is_empty(tensor)) return;
    const size_t bytes = static_cast<size_t>(tensor.shape[3]) * static_cast<size_t>(element_bytes(tensor.dtype));
    for (int64_t b = 0; b < tensor.shape[0]; ++b) {
        for (int64_t h = 0; h < tensor.shape[1]; ++h) {
            for (int64_t i = 0; i < tensor.shape[2]; ++i) {
                const int64_t line = b * tensor.stride[0] + h * tensor.stride[1] + i * tensor.stride[2];
                std::memset(static_cast<unsigned char *>(tensor.data) + line * element_bytes(tensor.dtype), 0, bytes);
            }
        }
    }
}

int32_t merge_parts(const DeviceWork &work, const attile_tensor *o_parts, const attile_tensor *lse_parts, int64_t parts,
                    const attile_tensor &o, const attile_tensor &lse) {
    attile_attention_merge_args merge;
    attile_attention_merge_init(&merge, sizeof merge);
    merge.flags = work.flags & ATTILE_FLAG_BATCH_INVARIANT;
    merge.stream = work.stream;
    merge.o_parts = o_parts;
    merge.lse_parts = lse_parts;
    merge.parts = parts;
    merge.o = o;
    merge.lse = lse;
    return attile_attention_merge(work.context, &merge);
}

int32_t merge_parts(const DistributedAttention &p, const attile_tensor *o_parts, const attile_tensor *lse_parts, int64_t parts,
                    const attile_tensor &o, const attile_tensor &lse) {
    return merge_parts(p.device_work(), o_parts, lse_parts, parts, o, lse);
}

// A merge of one part is a copy.
int32_t write_out(attile_context *context, bool host_memory, void *stream, const attile_tensor &from, const attile_tensor &to) {
    if (is_empty(from)) return ATTILE_OK;
    const attile_tensor part = with_four_axes(from);
    double zero = 0;  // the bytes of a float's, too
    attile_tensor lse{};
    ATTILE_TRY(attile_tensor_init(&lse, &zero, from.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, 3, part.shape));
    std::fill_n(lse.stride, 3, 0);
    attile_attention_merge_args merge;
    attile_attention_merge_init(&merge, sizeof merge);
    merge.stream = stream;
    merge.o_parts = &part;
    merge.lse_parts = &lse;
    merge.parts = 1;
    merge.o = with_four_axes(to);
    ATTILE_TRY(attile_attention_merge(context, &merge));
    return host_memory ? ATTILE_OK : attile_synchronize(context, stream);  // `zero` is in use until then
}

int32_t write_out(const DistributedAttention &p, const attile_tensor &from, const attile_tensor &to) {
    return write_out(p.context, p.host_memory, p.local.stream, from, to);
}

}  // namespace attile::core

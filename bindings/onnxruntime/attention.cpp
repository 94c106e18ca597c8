// SPDX-License-Identifier: Apache-2.0
// Attention of ONNX's operator sets 23 and 24.
#include "attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace attile::onnxruntime {
namespace {

// ONNX's numbers of types, in the attribute softmax_precision.
constexpr int64_t kOnnxFloat = 1, kOnnxFloat16 = 10, kOnnxDouble = 11, kOnnxBfloat16 = 16;

// A mask may have fewer keys than there are; the others are then hidden. Returns a copy with all keys.
Value pad_mask(const Value &mask, int64_t keys, Scratch *scratch) {
    const int64_t given = mask.shape.back(), rows = elements(mask.shape, 0, mask.rank() - 1);
    const int64_t size = bytes_of(mask.dtype);
    char hidden[8] = {};  // false, or -inf
    switch (mask.dtype) {
        case ATTILE_F32: {
            const float value = -INFINITY;
            std::memcpy(hidden, &value, sizeof value);
            break;
        }
        case ATTILE_F64: {
            const double value = -INFINITY;
            std::memcpy(hidden, &value, sizeof value);
            break;
        }
        case ATTILE_F16:
        case ATTILE_BF16: {
            const uint16_t value = mask.dtype == ATTILE_F16 ? 0xfc00 : 0xff80;
            std::memcpy(hidden, &value, sizeof value);
            break;
        }
        default:
            break;
    }
    Value padded = mask;
    padded.shape.back() = keys;
    auto *to = static_cast<char *>(scratch->reserve(rows * keys * size));
    const auto *from = static_cast<const char *>(mask.data);
    padded.data = to;
    for (int64_t row = 0; row < rows; ++row, from += given * size) {
        std::memcpy(to, from, static_cast<size_t>(given * size));
        to += given * size;
        for (int64_t key = given; key < keys; ++key, to += size) std::memcpy(to, hidden, static_cast<size_t>(size));
    }
    return padded;
}

// nonpad_kv_seqlen, which is int64, as Attile's key lengths.
attile_tensor key_lengths(const Value &lengths, int64_t batch, int64_t keys, Scratch *scratch) {
    if (lengths.rank() != 1 || lengths.shape[0] != batch) {
        throw Failure{ORT_INVALID_ARGUMENT, "Attention: nonpad_kv_seqlen has " + std::to_string(elements(lengths.shape)) +
                                                " elements, expected [batch_size], " + std::to_string(batch)};
    }
    auto *to = static_cast<int32_t *>(scratch->reserve(batch * static_cast<int64_t>(sizeof(int32_t))));
    const auto *from = static_cast<const int64_t *>(lengths.data);
    for (int64_t i = 0; i < batch; ++i) {
        if (from[i] < 0 || from[i] > keys) {
            throw Failure{ORT_INVALID_ARGUMENT, "Attention: nonpad_kv_seqlen[" + std::to_string(i) + "] is " + std::to_string(from[i]) +
                                                    ", expected 0 to " + std::to_string(keys)};
        }
        to[i] = static_cast<int32_t>(from[i]);
    }
    return dense(to, ATTILE_I32, {batch});
}

class Attention : public Kernel {
  public:
    Attention(const Node &node, attile_context *context)
        : context_(context),
          heads_q_(node.integer("q_num_heads", 0)),
          heads_kv_(node.integer("kv_num_heads", 0)),
          scale_(read_scale(node, false)),
          softcap_(read_softcap(node)),
          causal_(node.integer("is_causal", 0) != 0),
          pads_mask_(node.since() >= 24) {}

    void compute(const Call &call) const override {
        Scratch scratch;
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        const Value q = call.input(0), past_k = call.input(4), past_v = call.input(5), lengths = call.input(6);
        Value mask = call.input(3);
        if (past_k.present != past_v.present) {
            throw Failure{ORT_INVALID_ARGUMENT, "Attention: one of past_key and past_value is absent, expected both or none"};
        }
        args.q = view_heads("Q", q, heads_q_);
        args.k = join_past(call, 1, past_k, view_heads("K", call.input(1), heads_kv_), &scratch);
        args.v = join_past(call, 2, past_v, view_heads("V", call.input(2), heads_kv_), &scratch);
        if (!call.wants(0)) return;
        const int64_t batch = args.q.shape[0], heads = args.q.shape[1], rows = args.q.shape[2], dim = args.v.shape[3];
        Value o = q;
        o.shape = q.rank() == 3 ? Shape{batch, rows, heads * dim} : Shape{batch, heads, rows, dim};
        o.data = call.output(0, o.shape);
        args.o = view_heads("Y", o, heads);

        args.scale = scale_;
        args.softcap = softcap_;
        if (lengths.present) args.key_lengths = key_lengths(lengths, batch, args.k.shape[2], &scratch);
        if (causal_ && lengths.present) {
            args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;  // Of the keys that the lengths leave.
        } else if (causal_) {
            mask_causal(&args, past_k.present ? past_k.shape[2] : 0);
        }
        if (pads_mask_ && mask.rank() > 0 && mask.shape.back() < args.k.shape[2]) mask = pad_mask(mask, args.k.shape[2], &scratch);
        set_mask(&args, mask);
        check_attile(attile_attention(context_, &args));
    }

  private:
    attile_context *context_;
    int64_t heads_q_, heads_kv_;
    double scale_, softcap_;
    bool causal_, pads_mask_;
};

}  // namespace

void require_attention(attile_context *context, int32_t dtype, double softcap) {
    constexpr int64_t kAnyExtent = 16;  // Extents are not known yet.
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = args.k = args.v = args.o = dense(nullptr, dtype, {1, 1, kAnyExtent, kAnyExtent});
    args.bias = dense(nullptr, dtype, {kAnyExtent, kAnyExtent});
    args.key_lengths = dense(nullptr, ATTILE_I32, {1});
    args.softcap = softcap;
    args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    require_backend(attile_attention_query, context, args);
}

double read_scale(const Node &node, bool zero_is_default) {
    if (!node.has("scale")) return 0;
    const double scale = node.real("scale", 0);
    if (scale == 0 && zero_is_default) return 0;
    require(std::isfinite(scale) && scale > 0, "its scale is not a finite number above 0");
    return scale;
}

double read_softcap(const Node &node) {
    const double softcap = node.real("softcap", 0);
    require(std::isfinite(softcap) && softcap >= 0, "its softcap is negative or not finite");
    return softcap;
}

attile_tensor view_heads(const char *what, const Value &value, int64_t heads) {
    if (value.rank() == 4) return dense(value.data, value.dtype, {value.shape[0], value.shape[1], value.shape[2], value.shape[3]});
    if (value.rank() != 3 || heads < 1 || value.shape[2] % heads != 0) {
        std::string extents;
        for (const int64_t extent : value.shape) extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
        throw Failure{ORT_INVALID_ARGUMENT, std::string("attention: ") + what + " has the shape [" + extents + "] and there are " +
                                                std::to_string(heads) + " heads, expected rank 4, or rank 3 and a multiple of the heads"};
    }
    return view_rows(value, value.shape[2], 0, heads, value.shape[2] / heads);
}

attile_tensor view_rows(const Value &value, int64_t hidden, int64_t first, int64_t count, int64_t head_dim) {
    attile_tensor tensor = dense(value.data, value.dtype, {value.shape[0], count, value.shape[1], head_dim});
    if (tensor.data != nullptr) tensor.data = static_cast<char *>(tensor.data) + first * head_dim * bytes_of(value.dtype);
    tensor.stride[0] = value.shape[1] * hidden;
    tensor.stride[1] = head_dim;
    tensor.stride[2] = hidden;
    return tensor;
}

void copy_rows(const attile_tensor &from, int64_t entry, const attile_tensor &cache, int64_t row) {
    const int64_t size = bytes_of(from.dtype), rows = from.shape[2];
    const auto bytes = static_cast<size_t>(from.shape[3] * size);
    if (bytes == 0) return;
    for (int64_t head = 0; head < from.shape[1]; ++head) {
        const char *x = static_cast<const char *>(from.data) + (entry * from.stride[0] + head * from.stride[1]) * size;
        char *y = static_cast<char *>(cache.data) + (entry * cache.stride[0] + head * cache.stride[1] + row * cache.stride[2]) * size;
        if (from.stride[2] == from.shape[3]) {  // The rows follow each other, as they do in a cache.
            std::memcpy(y, x, bytes * static_cast<size_t>(rows));
            continue;
        }
        for (int64_t i = 0; i < rows; ++i, x += from.stride[2] * size, y += bytes) std::memcpy(y, x, bytes);
    }
}

attile_tensor first_rows(attile_tensor tensor, int64_t count) {
    tensor.shape[2] = count;
    return tensor;
}

attile_tensor join_past(const Call &call, size_t present, const Value &past, const attile_tensor &now, Scratch *scratch) {
    if (!past.present && !call.wants(present)) return now;
    attile_tensor before = now;
    before.shape[2] = 0;
    if (past.present) {
        if (past.rank() != 4 || past.shape[0] != now.shape[0] || past.shape[1] != now.shape[1] || past.shape[3] != now.shape[3]) {
            throw Failure{ORT_INVALID_ARGUMENT, "attention: a past has other extents than its K or V, expected [" +
                                                    std::to_string(now.shape[0]) + ", " + std::to_string(now.shape[1]) + ", any, " +
                                                    std::to_string(now.shape[3]) + "]"};
        }
        before = view_heads("past", past, 0);
    }
    const int64_t rows = before.shape[2] + now.shape[2];
    const Shape shape = {now.shape[0], now.shape[1], rows, now.shape[3]};
    void *data = call.wants(present) ? call.output(present, shape) : scratch->reserve(elements(shape) * bytes_of(now.dtype));
    const attile_tensor all = dense(data, now.dtype, {shape[0], shape[1], shape[2], shape[3]});
    for (int64_t entry = 0; entry < shape[0]; ++entry) {
        copy_rows(before, entry, all, 0);
        copy_rows(now, entry, all, before.shape[2]);
    }
    return all;
}

void mask_causal(attile_attention_args *args, int64_t past) {
    if (past == 0) {
        args->mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    } else if (args->k.shape[2] - args->q.shape[2] == past) {
        args->mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    } else {
        args->mask = ATTILE_MASK_WINDOW_TOP_LEFT;
        args->window_left = -1;
        args->window_right = past;
    }
}

void set_mask(attile_attention_args *args, const Value &mask) {
    if (!mask.present) return;
    if (mask.rank() > 4) {
        throw Failure{ORT_INVALID_ARGUMENT, "attention: the mask has rank " + std::to_string(mask.rank()) + ", expected 0 to 4"};
    }
    attile_tensor &tensor = mask.dtype == ATTILE_BOOL ? args->allowed : args->bias;
    const Shape shape = mask.rank() == 0 ? Shape{1} : mask.shape;
    check_attile(attile_tensor_init(&tensor, mask.data, mask.dtype, static_cast<int32_t>(shape.size()), shape.data()));
}

std::unique_ptr<Kernel> make_attention(const Node &node, attile_context *context) {
    require(node.since() == 23 || node.since() == 24, "it is not of operator set 23 or 24");
    const int32_t dtype = require_type(node, {1, 2, 4, 5});
    const Declared &mask = node.input(3);
    require(!mask.present() || mask.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL || mask.type == node.input(0).type,
            "its mask is neither bool nor of the type of Q");
    require(!node.output(3).present(), "its output qk_matmul_output is used");
    require(!node.input(4).present() || !node.input(6).present(), "it has a past and nonpad_kv_seqlen");
    const int64_t precision = node.integer("softmax_precision", 0);
    require(precision == 0 || precision == kOnnxFloat || precision == kOnnxFloat16 || precision == kOnnxBfloat16 ||
                (precision == kOnnxDouble && dtype == ATTILE_F64),
            "its softmax_precision is above that of Attile");
    require_attention(context, dtype, read_softcap(node));
    return std::make_unique<Attention>(node, context);
}

}  // namespace attile::onnxruntime

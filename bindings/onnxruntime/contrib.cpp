// SPDX-License-Identifier: Apache-2.0
// MultiHeadAttention and GroupQueryAttention of ONNX Runtime's own domain, com.microsoft.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "attention.h"
#include "numbers.h"

namespace attile::onnxruntime {
namespace {

// A copy of [B, L, hidden] with `bias`, which has `hidden` elements from `first` on, added to each row.
Value add_bias(const Value &x, const Value &bias, int64_t first, Scratch *scratch) {
    if (x.rank() != 3) return x;  // Its shape is refused later.
    const int64_t hidden = x.shape[2];
    if (bias.rank() != 1 || bias.shape[0] < first + hidden) {
        throw Failure{ORT_INVALID_ARGUMENT, "MultiHeadAttention: bias has " + std::to_string(elements(bias.shape)) +
                                                " elements, expected those of query, key and value, at least " +
                                                std::to_string(first + hidden)};
    }
    Value sum = x;
    sum.data = scratch->reserve(elements(x.shape) * bytes_of(x.dtype));
    with_type(x.dtype, [&](auto type) {
        using Type = decltype(type);
        using Stored = typename Type::Stored;
        const auto *from = static_cast<const Stored *>(x.data), *added = static_cast<const Stored *>(bias.data) + first;
        auto *to = static_cast<Stored *>(sum.data);
        for (int64_t row = 0; row < x.shape[0] * x.shape[1]; ++row, from += hidden, to += hidden) {
            for (int64_t i = 0; i < hidden; ++i) to[i] = Type::store(Type::load(from[i]) + Type::load(added[i]));
        }
    });
    return sum;
}

void check_padding(const Value &mask, const Value &bias, int64_t batch, int64_t heads, int64_t rows, int64_t keys) {
    if (mask.shape != (mask.rank() == 3 ? Shape{batch, rows, keys} : Shape{batch, keys})) {
        throw Failure{ORT_INVALID_ARGUMENT, "MultiHeadAttention: key_padding_mask has " + std::to_string(elements(mask.shape)) +
                                                " elements, expected [" + std::to_string(batch) + ", " + std::to_string(keys) +
                                                "] or one such row for each of the query's"};
    }
    if (!bias.present) return;
    const bool fits = bias.rank() == 4 && (bias.shape[0] == 1 || bias.shape[0] == batch) &&
                      (bias.shape[1] == 1 || bias.shape[1] == heads) && bias.shape[2] == rows && bias.shape[3] == keys;
    if (!fits) {
        throw Failure{ORT_INVALID_ARGUMENT, "MultiHeadAttention: attention_bias has " + std::to_string(elements(bias.shape)) +
                                                " elements, expected [1 or " + std::to_string(batch) + ", 1 or " + std::to_string(heads) +
                                                ", " + std::to_string(rows) + ", " + std::to_string(keys) + "]"};
    }
}

// key_padding_mask, [B, T] or [B, L, T] of int32, as a bias: `filter` for keys with 0, wherever they are. ONNX Runtime adds this value, it
// does not hide them; so it does to attention_bias, if there is one.
attile_tensor padding_bias(const Value &mask, const Value &bias, const attile_attention_args &args, double filter, Scratch *scratch) {
    const int64_t batch = args.q.shape[0], heads = args.q.shape[1], length = args.q.shape[2], keys = args.k.shape[2];
    check_padding(mask, bias, batch, heads, length, keys);
    const int64_t rows = bias.present || mask.rank() == 3 ? length : 1, copies = bias.present ? bias.shape[1] : 1;
    const int32_t dtype = args.q.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    const attile_tensor sum = dense(scratch->reserve(batch * copies * rows * keys * bytes_of(dtype)), dtype, {batch, copies, rows, keys});
    const auto *hidden = static_cast<const int32_t *>(mask.data);
    with_type(args.q.dtype, [&](auto type) {
        using Type = decltype(type);
        using Computed = typename Type::Computed;
        auto *to = static_cast<Computed *>(sum.data);
        for (int64_t row = 0; row < batch * copies * rows; ++row, to += keys) {
            const int64_t entry = row / (copies * rows), copy = row / rows % copies, i = row % rows;
            const int32_t *seen = hidden + (mask.rank() == 3 ? entry * length + i : entry) * keys;
            for (int64_t key = 0; key < keys; ++key) to[key] = seen[key] > 0 ? Computed{0} : static_cast<Computed>(filter);
            if (!bias.present) continue;
            const int64_t from = (((bias.shape[0] == 1 ? 0 : entry) * copies + copy) * rows + i) * keys;
            const auto *added = static_cast<const typename Type::Stored *>(bias.data) + from;
            for (int64_t key = 0; key < keys; ++key) to[key] += Type::load(added[key]);
        }
    });
    return sum;
}

class MultiHeadAttention : public Kernel {
  public:
    MultiHeadAttention(const Node &node, attile_context *context)
        : context_(context),
          heads_(node.integer("num_heads", 0)),
          scale_(read_scale(node, true)),
          filter_(node.real("mask_filter_value", -10000)),
          causal_(node.integer("unidirectional", 0) != 0) {}

    void compute(const Call &call) const override {
        Scratch scratch;
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        Value q = call.input(0), k = call.input(1), v = call.input(2);
        const Value bias = call.input(3), padding = call.input(4), past_k = call.input(6), past_v = call.input(7);
        if (past_k.present != past_v.present) {
            throw Failure{ORT_INVALID_ARGUMENT, "MultiHeadAttention: one of past_key and past_value is absent, expected both or none"};
        }
        if (bias.present) {
            for (const Value *one : {&q, &k, &v}) {
                if (one->rank() != 3)
                    throw Failure{ORT_INVALID_ARGUMENT,
                                  "MultiHeadAttention: query, key or value has rank " + std::to_string(one->rank()) + ", expected 3"};
            }
            q = add_bias(q, bias, 0, &scratch);
            k = add_bias(k, bias, q.shape.back(), &scratch);
            v = add_bias(v, bias, q.shape.back() + k.shape.back(), &scratch);
        }
        args.q = view_heads("query", q, heads_);
        args.k = join_past(call, 1, past_k, view_heads("key", k, heads_), &scratch);
        args.v = join_past(call, 2, past_v, view_heads("value", v, heads_), &scratch);
        if (!call.wants(0)) return;
        Value o = q;
        o.shape = {args.q.shape[0], args.q.shape[2], heads_ * args.v.shape[3]};
        o.data = call.output(0, o.shape);
        args.o = view_heads("output", o, heads_);
        args.scale = scale_;
        if (causal_) mask_causal(&args, past_k.present ? past_k.shape[2] : 0);
        if (padding.present) {
            args.bias = padding_bias(padding, call.input(5), args, filter_, &scratch);
        } else {
            set_mask(&args, call.input(5));
        }
        check_attile(attile_attention(context_, &args));
    }

  private:
    attile_context *context_;
    int64_t heads_;
    double scale_, filter_;
    bool causal_;
};

// The lengths of one call of GroupQueryAttention.
struct Lengths {
    const int32_t *seqlens = nullptr;  // The keys of each batch entry, less 1.
    int64_t batch = 0, rows = 0;
    int64_t total = 0;    // The keys of the longest entry.
    bool prompt = false;  // No entry has keys before the rows of this call.

    int64_t keys(int64_t entry) const { return int64_t{seqlens[entry]} + 1; }
    int64_t past(int64_t entry) const { return prompt ? 0 : keys(entry) - rows; }
};

// Rotary position embedding of one head's row: pairs of elements are turned, and rounded once.
template <typename Type>
void rotate_row(typename Type::Stored *row, const typename Type::Stored *cosine, const typename Type::Stored *sine, int64_t pairs,
                bool interleaved) {
    for (int64_t i = 0; i < pairs; ++i) {
        typename Type::Stored &x = row[interleaved ? 2 * i : i], &y = row[interleaved ? 2 * i + 1 : i + pairs];
        const auto a = Type::load(x), b = Type::load(y), c = Type::load(cosine[i]), s = Type::load(sine[i]);
        x = Type::store(a * c - b * s);
        y = Type::store(b * c + a * s);
    }
}

class GroupQueryAttention : public Kernel {
  public:
    GroupQueryAttention(const Node &node, attile_context *context)
        : context_(context),
          heads_q_(node.integer("num_heads", 0)),
          heads_kv_(node.integer("kv_num_heads", 0)),
          window_(node.integer("local_window_size", -1)),
          scale_(read_scale(node, true)),
          softcap_(read_softcap(node)),
          causal_(node.integer("causal", 1) != 0),
          smooth_(node.integer("smooth_softmax", 0) == 1),
          rotates_(node.integer("do_rotary", 0) != 0),
          interleaved_(node.integer("rotary_interleaved", 0) != 0) {
        require(heads_q_ > 0 && heads_kv_ > 0, "its num_heads or kv_num_heads is not above 0");
    }

    void compute(const Call &call) const override {
        Scratch scratch;
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        const Value q = call.input(0);
        if (q.rank() != 3)
            throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: query has rank " + std::to_string(q.rank()) + ", expected 3"};
        const Value k = call.input(1), v = call.input(2);
        attile_tensor new_k, new_v;
        if (k.present) {
            args.q = view_heads("query", q, heads_q_);
            new_k = view_heads("key", k, heads_kv_);
            new_v = view_heads("value", v, heads_kv_);
        } else {  // Each row of query holds the heads of q, then those of k and v.
            const int64_t all = heads_q_ + 2 * heads_kv_, dim = view_heads("query", q, all).shape[3];
            args.q = view_rows(q, q.shape[2], 0, heads_q_, dim);
            new_k = view_rows(q, q.shape[2], heads_q_, heads_kv_, dim);
            new_v = view_rows(q, q.shape[2], heads_q_ + heads_kv_, heads_kv_, dim);
        }
        const Lengths lengths = read_lengths(call, args.q, new_k, new_v);
        if (rotates_) {
            args.q = rotate(call, args.q, lengths, &scratch);
            new_k = rotate(call, new_k, lengths, &scratch);
        }
        args.k = first_rows(append(call, 1, call.input(3), new_k, lengths, &scratch), lengths.total);
        args.v = first_rows(append(call, 2, call.input(4), new_v, lengths, &scratch), lengths.total);
        if (!call.wants(0)) return;
        Value o = q;
        o.shape = {lengths.batch, lengths.rows, heads_q_ * args.v.shape[3]};
        o.data = call.output(0, o.shape);
        args.o = view_heads("output", o, heads_q_);

        args.scale = scale_;
        args.softcap = softcap_;
        auto *keys = static_cast<int32_t *>(scratch.reserve(lengths.batch * static_cast<int64_t>(sizeof(int32_t))));
        for (int64_t i = 0; i < lengths.batch; ++i) keys[i] = static_cast<int32_t>(lengths.keys(i));
        args.key_lengths = dense(keys, ATTILE_I32, {lengths.batch});
        // A prompt that is shorter than the rows is padded at its end, so the first row is the first key's.
        if (causal_) args.mask = lengths.prompt ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        if (causal_ && window_ > 0) {
            args.mask = lengths.prompt ? ATTILE_MASK_WINDOW_TOP_LEFT : ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
            args.window_left = window_ - 1;
        }
        set_mask(&args, call.input(10));
        set_sinks(&args, call.input(11), &scratch);
        check_attile(attile_attention(context_, &args));
    }

  private:
    static Lengths read_lengths(const Call &call, const attile_tensor &q, const attile_tensor &k, const attile_tensor &v) {
        const Value seqlens = call.input(5), total = call.input(6);
        Lengths lengths;
        lengths.batch = q.shape[0];
        lengths.rows = q.shape[2];
        for (const attile_tensor &now : {k, v}) {
            if (now.shape[0] == q.shape[0] && now.shape[2] == q.shape[2]) continue;
            throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: key or value has batch " + std::to_string(now.shape[0]) +
                                                    " and length " + std::to_string(now.shape[2]) + ", expected those of query, " +
                                                    std::to_string(q.shape[0]) + " and " + std::to_string(q.shape[2])};
        }
        if (elements(seqlens.shape) != lengths.batch || elements(total.shape) != 1) {
            throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: seqlens_k has " + std::to_string(elements(seqlens.shape)) +
                                                    " elements and total_sequence_length " + std::to_string(elements(total.shape)) +
                                                    ", expected the batch, " + std::to_string(lengths.batch) + ", and 1"};
        }
        lengths.seqlens = static_cast<const int32_t *>(seqlens.data);
        lengths.total = *static_cast<const int32_t *>(total.data);
        lengths.prompt = lengths.rows == lengths.total;
        if (lengths.total < lengths.rows) {
            throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: total_sequence_length is " + std::to_string(lengths.total) +
                                                    ", expected at least the length of query, " + std::to_string(lengths.rows)};
        }
        for (int64_t i = 0; i < lengths.batch; ++i) {
            if (lengths.keys(i) < 0 || lengths.keys(i) > lengths.total || lengths.past(i) < 0) {
                throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: seqlens_k[" + std::to_string(i) + "] is " +
                                                        std::to_string(lengths.seqlens[i]) + ", expected " +
                                                        std::to_string(lengths.prompt ? -1 : lengths.rows - 1) + " to " +
                                                        std::to_string(lengths.total - 1)};
            }
        }
        return lengths;
    }

    // A dense copy whose rows are turned by their positions.
    attile_tensor rotate(const Call &call, const attile_tensor &x, const Lengths &lengths, Scratch *scratch) const {
        const Value cosine = call.input(7), sine = call.input(8);
        if (cosine.rank() != 2 || sine.shape != cosine.shape || 2 * cosine.shape[1] > x.shape[3] || cosine.shape[0] < lengths.total) {
            throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: cos_cache and sin_cache do not fit, expected both [at least " +
                                                    std::to_string(lengths.total) + ", at most " + std::to_string(x.shape[3] / 2) + "]"};
        }
        const int64_t size = bytes_of(x.dtype), pairs = cosine.shape[1];
        void *data = scratch->reserve(x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3] * size);
        const attile_tensor turned = dense(data, x.dtype, {x.shape[0], x.shape[1], x.shape[2], x.shape[3]});
        with_type(x.dtype, [&](auto type) {
            using Type = decltype(type);
            using Stored = typename Type::Stored;
            auto *row = static_cast<Stored *>(data);
            for (int64_t entry = 0; entry < x.shape[0]; ++entry) {
                copy_rows(x, entry, turned, 0);
                for (int64_t head = 0; head < x.shape[1]; ++head) {
                    for (int64_t i = 0; i < x.shape[2]; ++i, row += x.shape[3]) {
                        const int64_t at = (lengths.past(entry) + i) * pairs;
                        rotate_row<Type>(row, static_cast<const Stored *>(cosine.data) + at, static_cast<const Stored *>(sine.data) + at,
                                         pairs, interleaved_);
                    }
                }
            }
        });
        return turned;
    }

    // Zeros the rows of a cache from `row` on, which hold nothing.
    static void clear_rows(int64_t entry, const attile_tensor &cache, int64_t row) {
        const int64_t size = bytes_of(cache.dtype), bytes = (cache.shape[2] - row) * cache.shape[3] * size;
        for (int64_t head = 0; bytes > 0 && head < cache.shape[1]; ++head) {
            const int64_t first = entry * cache.stride[0] + head * cache.stride[1] + row * cache.stride[2];
            std::memset(static_cast<char *>(cache.data) + first * size, 0, static_cast<size_t>(bytes));
        }
    }

    // The cache with this call's rows in it: [B, H, rows, D], as the output `present`, which may lie on `past`.
    static attile_tensor append(const Call &call, size_t present, const Value &past, const attile_tensor &now, const Lengths &lengths,
                                Scratch *scratch) {
        attile_tensor before = now;
        before.shape[2] = 0;
        if (past.present) {
            before = view_heads("past", past, 0);
            if (before.shape[0] != now.shape[0] || before.shape[1] != now.shape[1] || before.shape[3] != now.shape[3]) {
                throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: a past has other extents than its key or value, expected [" +
                                                        std::to_string(now.shape[0]) + ", " + std::to_string(now.shape[1]) + ", any, " +
                                                        std::to_string(now.shape[3]) + "]"};
            }
        }
        for (int64_t entry = 0; entry < lengths.batch; ++entry) {
            if (lengths.past(entry) > before.shape[2]) {
                throw Failure{ORT_INVALID_ARGUMENT, "GroupQueryAttention: entry " + std::to_string(entry) + " has " +
                                                        std::to_string(lengths.past(entry)) +
                                                        " keys before this call by seqlens_k, expected no more than the past has, " +
                                                        std::to_string(before.shape[2])};
            }
        }
        const Shape shape = {now.shape[0], now.shape[1], std::max(before.shape[2], lengths.total), now.shape[3]};
        void *data = call.wants(present) ? call.output(present, shape) : scratch->reserve(elements(shape) * bytes_of(now.dtype));
        const attile_tensor cache = dense(data, now.dtype, {shape[0], shape[1], shape[2], shape[3]});
        const bool in_place = past.present && past.data == data;
        for (int64_t entry = 0; entry < lengths.batch; ++entry) {
            if (!in_place) copy_rows(first_rows(before, lengths.past(entry)), entry, cache, 0);
            copy_rows(now, entry, cache, lengths.past(entry));
            if (!in_place) clear_rows(entry, cache, lengths.past(entry) + lengths.rows);
        }
        return cache;
    }

    void set_sinks(attile_attention_args *args, const Value &given, Scratch *scratch) const {
        if (given.present && (given.dtype == ATTILE_F16 || given.dtype == ATTILE_BF16)) {
            const int64_t count = elements(given.shape);
            auto *sinks = static_cast<float *>(scratch->reserve(count * static_cast<int64_t>(sizeof(float))));
            const auto *from = static_cast<const uint16_t *>(given.data);
            for (int64_t i = 0; i < count; ++i) sinks[i] = given.dtype == ATTILE_F16 ? Half::load(from[i]) : Brain::load(from[i]);
            args->sinks = dense(sinks, ATTILE_F32, {count});
        } else if (given.present) {
            args->sinks = dense(given.data, given.dtype, {elements(given.shape)});
        } else if (smooth_) {
            auto *zeros = static_cast<float *>(scratch->reserve(heads_q_ * static_cast<int64_t>(sizeof(float))));
            std::fill_n(zeros, heads_q_, 0.0f);
            args->sinks = dense(zeros, ATTILE_F32, {heads_q_});
        }
    }

    attile_context *context_;
    int64_t heads_q_, heads_kv_, window_;
    double scale_, softcap_;
    bool causal_, smooth_, rotates_, interleaved_;
};

}  // namespace

std::unique_ptr<Kernel> make_multi_head_attention(const Node &node, attile_context *context) {
    const int32_t dtype = require_type(node, {1, 2, 3, 5, 6, 7});
    const Declared &padding = node.input(4);
    require(node.integer("num_heads", 0) > 0, "its num_heads is not above 0");
    require(node.input(1).present() && node.input(2).present(), "its query, key and value are packed");
    if (node.input(3).present()) {
        require(node.input(0).shape.size() == 3 && node.input(1).shape.size() == 3 && node.input(2).shape.size() == 3,
                "it has a bias, and query, key or value is not known to have rank 3");
    }
    require(!padding.present() || padding.shape.size() == 2 || padding.shape.size() == 3,
            "its key_padding_mask is not known to have rank 2 or 3");
    require(!node.input(8).present() && !node.input(9).present(), "its K and V are in shared buffers or in beams");
    require(!node.output(3).present(), "its output qk is used");
    require_attention(context, dtype, 0);
    return std::make_unique<MultiHeadAttention>(node, context);
}

std::unique_ptr<Kernel> make_group_query_attention(const Node &node, attile_context *context) {
    const int32_t dtype = require_type(node, {1, 2, 3, 4, 7, 8, 10, 11});
    require(node.input(1).present() == node.input(2).present(), "one of key and value is absent");
    require(node.input(3).present() == node.input(4).present(), "one of past_key and past_value is absent");
    for (const size_t added : {1, 2}) {  // The model's way to say that the past is that of another layer and has all rows.
        const std::vector<int64_t> &shape = node.input(added).shape;
        require(shape.size() != 3 || shape[1] != 0, "it takes K and V of another layer");
    }
    require(node.input(5).present() && node.input(6).present(), "seqlens_k or total_sequence_length is absent");
    require(node.integer("sliding_window_cache", 0) == 0, "its cache holds a window alone");
    const int64_t window = node.integer("local_window_size", -1);
    require(window == -1 || (window > 0 && node.integer("causal", 1) != 0), "its local_window_size is 0, or it is not causal and has one");
    require(node.integer("kv_cache_bit_width", 0) == 0 && node.text("k_quant_type", "NONE") == "NONE" &&
                node.text("v_quant_type", "NONE") == "NONE" && !node.input(12).present() && !node.input(13).present(),
            "its cache is quantized");
    require(!node.input(14).present() && !node.input(15).present(), "it normalizes Q and K");
    require(!node.input(16).present(), "it has query_seqlens");
    require(!node.output(3).present(), "its output output_qk is used");
    const bool rotates = node.integer("do_rotary", 0) != 0;
    require(!rotates || (node.input(7).present() && node.input(8).present()), "its cos_cache or sin_cache is absent");
    require(!rotates || !node.input(9).present(), "it rotates by position_ids");
    require_attention(context, dtype, read_softcap(node));
    return std::make_unique<GroupQueryAttention>(node, context);
}

}  // namespace attile::onnxruntime

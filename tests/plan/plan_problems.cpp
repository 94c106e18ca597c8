// SPDX-License-Identifier: Apache-2.0
#include "plan_problems.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace attile::test {
namespace {

using Extents = std::vector<int64_t>;

const std::map<std::string, int32_t> kTypes = {{"f32", ATTILE_F32},   {"f64", ATTILE_F64}, {"f16", ATTILE_F16},
                                               {"bf16", ATTILE_BF16}, {"i8", ATTILE_I8},   {"i4", ATTILE_I4},
                                               {"u4", ATTILE_U4},     {"i32", ATTILE_I32}, {"e4m3", ATTILE_F8_E4M3}};
const std::map<std::string, int32_t> kActivations = {
    {"relu", ATTILE_ACTIVATION_RELU}, {"gelu", ATTILE_ACTIVATION_GELU}, {"silu", ATTILE_ACTIVATION_SILU}};
const std::map<std::string, int32_t> kReductions = {{"max", ATTILE_REDUCE_MAX}, {"min", ATTILE_REDUCE_MIN}, {"mean", ATTILE_REDUCE_MEAN}};
const std::map<std::string, int32_t> kMasks = {{"causal", ATTILE_MASK_CAUSAL_TOP_LEFT}, {"bottom", ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}};
const std::map<std::string, uint32_t> kFlags = {{"invariant", ATTILE_FLAG_BATCH_INVARIANT},
                                                {"tf32", ATTILE_FLAG_ALLOW_SPLIT_TF32},
                                                {"exact", ATTILE_FLAG_EXACT_PRODUCTS},
                                                {"fast", ATTILE_FLAG_FAST_ACCUMULATION}};

// A line taken apart. What nobody asked for at the end is a mistake.
class Line {
  public:
    explicit Line(const std::string &text) : text_(text) {
        std::istringstream words(text);
        std::string extents, word;
        words >> operation >> type_ >> extents;
        while (words >> word) options_.insert(word);
        std::replace(extents.begin(), extents.end(), 'x', ' ');
        std::istringstream numbers(extents);
        while (numbers >> word) {
            const std::size_t slash = word.find('/');
            extent.push_back(std::atoll(word.c_str()));
            second.push_back(slash == std::string::npos ? extent.back() : std::atoll(word.c_str() + slash + 1));
        }
        is_odd_ = has("odd");
        has_addresses_ = has("aligned") || is_odd_;
        for (const auto &[name, flag] : kFlags) flags |= has(name) ? flag : 0u;
    }

    int32_t dtype() const { return type_of(type_); }
    static int32_t type_of(const std::string &name) {
        const auto found = kTypes.find(name);
        if (found == kTypes.end()) throw std::invalid_argument("no data type: " + name);
        return found->second;
    }
    bool has(const std::string &option) {
        used_.insert(option);
        return options_.count(option) != 0;
    }
    // Of an option name=value; empty: absent.
    std::string value(const std::string &name) {
        for (const std::string &option : options_) {
            if (option.compare(0, name.size() + 1, name + "=") != 0) continue;
            used_.insert(option);
            return option.substr(name.size() + 1);
        }
        return {};
    }
    int64_t number(const std::string &name) { return std::atoll(value(name).c_str()); }
    void need(std::size_t extents) const {
        if (extent.size() != extents) throw std::invalid_argument(text_ + ": " + std::to_string(extents) + " extents are wanted");
    }
    void done() const {
        for (const std::string &option : options_) {
            if (used_.count(option) == 0) throw std::invalid_argument(text_ + ": no option " + option);
        }
    }

    // The type of results: that of operands, or the option out=type.
    int32_t out_dtype() {
        const std::string name = value("out");
        return name.empty() ? dtype() : type_of(name);
    }

    // A dense tensor, far from all others.
    attile_tensor tensor(int32_t type, const Extents &shape) {
        constexpr uintptr_t kFirst = uintptr_t{1} << 40;
        attile_tensor made = {};
        const uintptr_t element = std::max<uintptr_t>((type & 0xff) / 8, 1), address = kFirst * ++tensors_ + (is_odd_ ? element : 0);
        if (attile_tensor_init(&made, has_addresses_ ? reinterpret_cast<void *>(address) : nullptr, type,
                               static_cast<int32_t>(shape.size()), shape.data()) != ATTILE_OK)
            throw std::invalid_argument(text_ + ": no tensor");
        return made;
    }

    std::string operation;
    Extents extent, second;  // The second is what follows a slash.
    uint32_t flags = 0;

  private:
    std::string text_, type_;
    std::set<std::string> options_, used_;
    bool is_odd_ = false, has_addresses_ = false;
    uintptr_t tensors_ = 0;
};

// As if the last two axes had been stored the other way round.
void transpose(attile_tensor &x) {
    const int32_t row = x.rank - 2, col = x.rank - 1;
    x.stride[row] = 1;
    x.stride[col] = x.shape[row];
}
// As if heads had been stored within rows.
void interleave(attile_tensor &x) {
    x.stride[1] = x.shape[3];
    x.stride[2] = x.shape[1] * x.shape[3];
}

// As if a row had one element more.
void space_out(attile_tensor &x) {
    for (int32_t axis = x.rank - 2, rows = 1; axis >= 0; --axis) {
        x.stride[axis] = (x.shape[x.rank - 1] + 1) * rows;
        rows *= static_cast<int32_t>(x.shape[axis]);
    }
}

int32_t query_gemm(attile_context *context, Line &line, attile_support *support) {
    Extents e = line.extent;
    if (e.size() == 3) e.insert(e.begin(), 1);
    if (e.size() != 4) line.need(4);
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    const int32_t type = line.dtype();
    const int32_t out = line.out_dtype();
    args.flags = line.flags;
    args.a = line.tensor(type, {e[0], e[1], e[3]});
    const std::string of_b = line.value("b");
    args.b = line.tensor(of_b.empty() ? type : Line::type_of(of_b), {e[0], e[3], e[2]});
    if (line.has("scales")) args.b_scale = line.tensor(ATTILE_F32, {e[0], 1, e[2]});  // One for each column,
    if (const int64_t group = line.number("groups"); group > 0)                       // or so much of its depth.
        args.b_scale = line.tensor(ATTILE_F32, {e[0], (e[3] + group - 1) / group, e[2]});
    if (line.has("zeros")) args.b_zero = args.b_scale;
    args.d = line.tensor(out, {e[0], e[1], e[2]});
    if (line.has("ta")) transpose(args.a);
    if (line.has("tb")) transpose(args.b);
    if (line.has("td")) transpose(args.d);
    if (line.has("shared")) args.b.stride[0] = 0;
    if (line.has("strided")) {
        for (int64_t &stride : args.a.stride) stride *= 2;
    }
    if (line.has("blocks")) {  // Scales of 128 numbers of a row of a, and of 128 x 128 of b.
        args.a_scale = line.tensor(ATTILE_F32, {1, e[1], e[3] / 128});
        args.b_scale = line.tensor(ATTILE_F32, {1, e[3] / 128, e[2] / 128});
    }
    const int32_t beside = (out & 0xff) == 8 ? ATTILE_F32 : out;           // C and the bias.
    if (line.has("over")) args.d_scale = line.tensor(ATTILE_F32, {e[2]});  // One for each column.
    if (line.has("c")) {
        args.c = line.tensor(beside, {e[0], e[1], e[2]});
        args.beta = 1;
    }
    if (line.has("bias")) {
        args.bias = line.tensor(beside, {e[2]});
        args.bias_axis = ATTILE_BIAS_COLUMNS;
    }
    if (line.has("row_bias")) {
        args.bias = line.tensor(beside, {e[1]});
        args.bias_axis = ATTILE_BIAS_ROWS;
    }
    for (const auto &[name, activation] : kActivations) {
        if (line.has(name)) args.activation = activation;
    }
    line.done();
    return attile_gemm_query(context, &args, support);
}

int32_t query_gemm_grouped(attile_context *context, Line &line, attile_support *support) {
    line.need(4);
    const Extents &e = line.extent;
    attile_gemm_grouped_args args;
    attile_gemm_grouped_init(&args, sizeof args);
    const int32_t type = line.dtype(), out = line.out_dtype();
    args.flags = line.flags;
    args.a = line.tensor(type, {e[1], e[3]});
    const std::string of_b = line.value("b");
    args.b = line.tensor(of_b.empty() ? type : Line::type_of(of_b), {e[0], e[3], e[2]});
    if (line.has("scales")) args.b_scale = line.tensor(ATTILE_F32, {e[0], 1, e[2]});
    if (const int64_t group = line.number("groups"); group > 0) args.b_scale = line.tensor(ATTILE_F32, {e[0], e[3] / group, e[2]});
    if (line.has("zeros")) args.b_zero = args.b_scale;
    args.d = line.tensor(out, {e[1], e[2]});
    args.row_offsets = line.tensor(ATTILE_I32, {e[0] + 1});
    if (line.has("ta")) transpose(args.a);
    if (line.has("tb")) transpose(args.b);
    if (line.has("td")) transpose(args.d);
    if (line.has("c")) {
        args.c = line.tensor(out, {e[1], e[2]});
        args.beta = 1;
    }
    if (line.has("bias")) args.bias = line.tensor(out, {e[0], e[2]});
    for (const auto &[name, activation] : kActivations) {
        if (line.has(name)) args.activation = activation;
    }
    line.done();
    return attile_gemm_grouped_query(context, &args, support);
}

attile_attention_args attention_args(Line &line) {
    line.need(5);
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    const int32_t type = line.dtype(), number = type == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    const int64_t batch = line.extent[0], heads = line.extent[1], heads_kv = line.second[1], rows = line.extent[2], keys = line.extent[3],
                  dim = line.extent[4], dim_v = line.second[4], page = line.number("paged");
    const bool packed = line.has("packed");
    args.flags = line.flags;
    const int64_t entries = packed ? 1 : batch, all_rows = packed ? batch * rows : rows, all_keys = packed ? batch * keys : keys;
    args.q = line.tensor(type, {entries, heads, all_rows, dim});
    const int64_t runs = page > 0 ? (keys + page - 1) / page : 0;
    const std::string cached = line.value("kv");  // Their type, where it is another.
    const int32_t kv_type = cached.empty() ? type : Line::type_of(cached);
    const auto keys_of = [&](int32_t of, int64_t columns) {
        return line.tensor(of, page > 0 ? Extents{batch * runs, heads_kv, page, columns} : Extents{entries, heads_kv, all_keys, columns});
    };
    args.k = keys_of(kv_type, dim);
    args.v = keys_of(kv_type, dim_v);
    if (const int64_t group = line.has("scales") ? dim : line.number("groups");
        group > 0) {  // One for each token, or so many numbers of it.
        args.k_scale = keys_of(ATTILE_F32, dim / group);
        args.v_scale = keys_of(ATTILE_F32, std::max<int64_t>(dim_v / group, 1));
    }
    // Of queries of 8 bits: one for each head, or for each token, as are then those of keys and values.
    if (line.has("head_scales")) {
        args.q_scale = line.tensor(ATTILE_F32, {heads, 1, 1});
        args.k_scale = line.tensor(ATTILE_F32, {heads_kv, 1, 1});
        args.v_scale = line.tensor(ATTILE_F32, {heads_kv, 1, 1});
    }
    if (line.has("q_scales")) args.q_scale = line.tensor(ATTILE_F32, {entries, heads, all_rows, 1});
    args.o = line.tensor(line.out_dtype(), {entries, heads, all_rows, dim_v});
    if (line.has("over")) args.o_scale = line.tensor(ATTILE_F32, {heads, 1, 1});
    if (line.has("blhd")) {
        for (attile_tensor *x : {&args.q, &args.k, &args.v, &args.o}) interleave(*x);
    }
    if (line.has("shared")) args.k.stride[0] = args.v.stride[0] = 0;
    if (line.has("strided")) {
        for (attile_tensor *x : {&args.q, &args.k, &args.v, &args.o}) space_out(*x);
    }
    if (line.has("lse")) args.lse = line.tensor(number, {entries, heads, all_rows});
    if (page > 0) args.block_table = line.tensor(ATTILE_I32, {batch, runs});
    if (packed) {
        args.cu_len_q = line.tensor(ATTILE_I32, {batch + 1});
        args.cu_len_k = line.tensor(ATTILE_I32, {batch + 1});
        args.max_len_q = rows;
        args.max_len_k = keys;
    }
    for (const auto &[name, mask] : kMasks) {
        if (line.has(name)) args.mask = mask;
    }
    if (const int64_t window = line.number("window"); window > 0) {
        args.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        args.window_left = window;
    }
    if (line.has("bias")) args.bias = line.tensor(number, {batch, heads, rows, keys});
    if (line.has("allowed")) args.allowed = line.tensor(ATTILE_BOOL, {batch, 1, rows, keys});
    if (line.has("sinks")) args.sinks = line.tensor(number, {heads});
    if (line.has("blocks"))
        args.block_mask = line.tensor(
            ATTILE_BOOL, {1, 1, (rows + ATTILE_MASK_BLOCK - 1) / ATTILE_MASK_BLOCK, (keys + ATTILE_MASK_BLOCK - 1) / ATTILE_MASK_BLOCK});
    if (const int64_t drafts = line.number("tree"); drafts > 0) args.tree_mask = line.tensor(ATTILE_BOOL, {rows, drafts});
    if (line.has("lengths") || page > 0) args.key_lengths = line.tensor(ATTILE_I32, {batch});
    if (line.has("alibi")) args.alibi_slopes = line.tensor(number, {heads});
    if (line.has("softcap")) args.softcap = 30;
    if (const std::string scale = line.value("scale"); !scale.empty()) args.scale = std::atof(scale.c_str());
    return args;
}

int32_t query_attention(attile_context *context, Line &line, attile_support *support) {
    const attile_attention_args args = attention_args(line);
    line.done();
    return attile_attention_query(context, &args, support);
}

int32_t query_backward(attile_context *context, Line &line, attile_support *support) {
    attile_attention_args forward = attention_args(line);
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    const auto alike = [&](const attile_tensor &x) { return line.tensor(x.dtype, Extents(x.shape, x.shape + x.rank)); };
    forward.lse =
        line.tensor(forward.q.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, {forward.o.shape[0], forward.o.shape[1], forward.o.shape[2]});
    args.flags = line.flags;
    args.forward = &forward;
    args.dout = alike(forward.o);
    args.dq = alike(forward.q);
    args.dk = alike(forward.k);
    args.dv = alike(forward.v);
    if (line.has("dbias")) args.dbias = alike(forward.bias);
    if (line.has("dsinks")) args.dsinks = alike(forward.sinks);
    line.done();
    return attile_attention_backward_query(context, &args, support);
}

// Extents: parts, then those of o.
int32_t query_merge(attile_context *context, Line &line, attile_support *support) {
    line.need(5);
    attile_attention_merge_args args;
    attile_attention_merge_init(&args, sizeof args);
    const int32_t number = line.dtype() == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    const Extents o(line.extent.begin() + 1, line.extent.end());
    std::vector<attile_tensor> o_parts, lse_parts;
    for (int64_t i = 0; i < line.extent[0]; ++i) {
        o_parts.push_back(line.tensor(line.dtype(), o));
        lse_parts.push_back(line.tensor(number, Extents(o.begin(), o.end() - 1)));
    }
    args.flags = line.flags;
    args.o_parts = o_parts.data();
    args.lse_parts = lse_parts.data();
    args.parts = line.extent[0];
    args.o = line.tensor(line.out_dtype(), o);
    line.done();
    return attile_attention_merge_query(context, &args, support);
}

// Extents: parts, then those of o. The output type is that of the parts' gradients.
int32_t query_merge_backward(attile_context *context, Line &line, attile_support *support) {
    line.need(5);
    attile_attention_merge_args forward;
    attile_attention_merge_init(&forward, sizeof forward);
    attile_attention_merge_backward_args args;
    attile_attention_merge_backward_init(&args, sizeof args);
    const int32_t number = line.dtype() == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    const Extents o(line.extent.begin() + 1, line.extent.end()), lse(o.begin(), o.end() - 1);
    std::vector<attile_tensor> o_parts, lse_parts, do_parts, dlse_parts;
    for (int64_t i = 0; i < line.extent[0]; ++i) {
        o_parts.push_back(line.tensor(line.dtype(), o));
        lse_parts.push_back(line.tensor(number, lse));
        do_parts.push_back(line.tensor(line.out_dtype(), o));
        dlse_parts.push_back(line.tensor(number, lse));
    }
    forward.o_parts = o_parts.data();
    forward.lse_parts = lse_parts.data();
    forward.parts = line.extent[0];
    forward.o = line.tensor(line.dtype(), o);
    forward.lse = line.tensor(number, lse);
    args.flags = line.flags;
    args.forward = &forward;
    args.dout = line.tensor(line.dtype(), o);
    args.do_parts = do_parts.data();
    args.dlse_parts = dlse_parts.data();
    line.done();
    return attile_attention_merge_backward_query(context, &args, support);
}

int32_t query_reduce(attile_context *context, Line &line, attile_support *support) {
    attile_reduce_args args;
    attile_reduce_init(&args, sizeof args);
    const std::string axis = line.value("axis");
    args.flags = line.flags;
    args.op = ATTILE_REDUCE_SUM;
    for (const auto &[name, op] : kReductions) {
        if (line.has(name)) args.op = op;
    }
    args.axis = axis.empty() ? static_cast<int32_t>(line.extent.size()) - 1 : std::atoi(axis.c_str());
    args.x = line.tensor(line.dtype(), line.extent);
    Extents reduced = line.extent;
    reduced.at(static_cast<std::size_t>(args.axis)) = 1;
    args.y = line.tensor(line.out_dtype(), reduced);
    line.done();
    return attile_reduce_query(context, &args, support);
}

int32_t query_softmax(attile_context *context, Line &line, attile_support *support) {
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    const std::string axis = line.value("axis");
    args.flags = line.flags;
    args.axis = axis.empty() ? -1 : std::atoi(axis.c_str());
    args.x = line.tensor(line.dtype(), line.extent);
    args.y = line.tensor(line.out_dtype(), line.extent);
    line.done();
    return attile_softmax_query(context, &args, support);
}

}  // namespace

int32_t query_problem(attile_context *context, const std::string &text, attile_support *support) {
    static const std::map<std::string, int32_t (*)(attile_context *, Line &, attile_support *)> kQueries = {
        {"gemm", query_gemm},
        {"attention", query_attention},
        {"attention_backward", query_backward},
        {"attention_merge", query_merge},
        {"attention_merge_backward", query_merge_backward},
        {"gemm_grouped", query_gemm_grouped},
        {"reduce", query_reduce},
        {"softmax", query_softmax}};
    Line line(text);
    const auto found = kQueries.find(line.operation);
    if (found == kQueries.end()) throw std::invalid_argument("no operation: " + text);
    return found->second(context, line, support);
}

}  // namespace attile::test

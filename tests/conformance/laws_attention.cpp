// SPDX-License-Identifier: Apache-2.0
#include "laws_attention.h"

#include <algorithm>

#include "case_text.h"

namespace attile::test {
namespace {

attile_attention_args arguments(const Attention &call) {
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.flags = call.flags;
    args.scale = call.scale;
    args.softcap = call.softcap;
    args.mask = call.mask;
    args.window_left = call.window_left;
    args.window_right = call.window_right;
    args.max_len_q = call.max_len_q;
    args.max_len_k = call.max_len_k;
    return args;
}

// The inputs of a call in memory, and the arguments that point to them.
struct Inputs {
    Inputs(Draw &draw, const Attention &call) : args(arguments(call)) {
        const std::int32_t statistic = wide(call.dtype);
        const struct {
            attile_tensor *argument;
            std::int32_t dtype;
            const Values &values;
        } operands[] = {{&args.q, call.dtype, call.q},
                        {&args.k, call.dtype, call.k},
                        {&args.v, call.dtype, call.v},
                        {&args.bias, call.bias_dtype, call.bias},
                        {&args.allowed, draw.random.pick({ATTILE_BOOL, ATTILE_U8}), call.allowed},
                        {&args.alibi_slopes, statistic, call.slopes},
                        {&args.sinks, statistic, call.sinks},
                        {&args.key_lengths, ATTILE_I32, call.key_lengths},
                        {&args.cu_len_q, ATTILE_I32, call.cu_len_q},
                        {&args.cu_len_k, ATTILE_I32, call.cu_len_k},
                        {&args.block_table, ATTILE_I32, call.block_table}};
        tensors.reserve(std::size(operands));
        for (const auto &operand : operands) {
            tensors.push_back(draw.input(operand.dtype, operand.values));
            *operand.argument = tensors.back().view();
        }
    }
    std::vector<TestTensor *> pointers() {
        std::vector<TestTensor *> list;
        for (TestTensor &tensor : tensors) list.push_back(&tensor);
        return list;
    }

    std::vector<TestTensor> tensors;
    attile_attention_args args;
};

std::string words(const Attention &call) {
    Words text;
    text.add("types", pair_name({call.dtype, call.out_dtype})).add("q", shape_text(call.q.shape)).add("k", shape_text(call.k.shape));
    text.add("v", shape_text(call.v.shape)).add_unless("scale", call.scale, 0.0).add_unless("softcap", call.softcap, 0.0);
    text.add_unless("mask", call.mask, 0).add_unless("left", call.window_left, std::int64_t{0});
    text.add_unless("right", call.window_right, std::int64_t{0});
    const struct {
        const char *name;
        const Values &values;
    } extras[] = {{"bias", call.bias},           {"allowed", call.allowed},   {"slopes", call.slopes},     {"sinks", call.sinks},
                  {"lengths", call.key_lengths}, {"packed_q", call.cu_len_q}, {"packed_k", call.cu_len_k}, {"table", call.block_table}};
    for (const auto &extra : extras)
        if (!extra.values.shape.empty()) text.add(extra.name, shape_text(extra.values.shape));
    return text.text();
}

// Axes that bias or a mask has in full.
std::vector<std::int64_t> score_shape(Draw &draw, const Attention &call) {
    std::vector<std::int64_t> shape = {call.batch(), call.heads_q(), call.len_q(), call.len_k()};
    for (std::int64_t &extent : shape)
        if (draw.random.chance(0.3)) extent = 1;
    return shape;
}

void draw_extras(Draw &draw, const AttentionExtras &extras, Attention *call) {
    Random &random = draw.random;
    call->bias_dtype = random.chance(0.5) ? call->dtype : wide(call->dtype);
    if (extras.bias && random.chance(0.4)) {
        call->bias = draw.normal(call->bias_dtype, score_shape(draw, *call));
        if (random.chance(0.3))
            for (double &x : call->bias.at)
                if (random.chance(0.2)) x = -std::numeric_limits<double>::infinity();
    }
    if (extras.allowed && random.chance(0.3)) {
        call->allowed = Values(score_shape(draw, *call));
        for (double &x : call->allowed.at) x = random.chance(0.7) ? 1 : 0;
    }
    if (extras.alibi && random.chance(0.3)) {
        const bool each = random.chance(0.5);
        call->slopes = draw.uniform(wide(call->dtype), {call->batch(), call->heads_q()}, 0.01, 0.5);
        if (!each) call->slopes = Values({call->heads_q()}, round_to(wide(call->dtype), 0.01 + 0.5 * random.uniform()));
    }
    if (extras.sinks && random.chance(0.3)) call->sinks = draw.normal(wide(call->dtype), {call->heads_q()});
    if (extras.lengths && random.chance(0.4)) {
        call->key_lengths = Values({call->batch()});
        for (double &x : call->key_lengths.at) x = static_cast<double>(random.between(-1, call->len_k() + 1));
    }
    if (extras.mask) call->mask = static_cast<std::int32_t>(random.between(0, 4));
    if (call->mask >= ATTILE_MASK_WINDOW_TOP_LEFT) {
        call->window_left = random.pick<std::int64_t>({-1, 0, 1, 7, 40});
        call->window_right = random.pick<std::int64_t>({-1, 0, 0, 3, 40});
    }
}

}  // namespace

double Attention::factor() const { return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(head_dim(), 1))); }

Attention draw_attention(Draw &draw, const AttentionExtras &extras) {
    Random &random = draw.random;
    Attention call;
    if (extras.types) {
        const TypePair types = random_types(random);
        call.dtype = types.in;
        call.out_dtype = types.out;
    }
    const auto dim = [&] { return random.pick<std::int64_t>({1, 2, 7, 8, 16, 33, 40, 64, 64, 80, 128, 128, 256, 257, 300}); };
    std::int64_t batch = random.pick<std::int64_t>({1, 1, 2, 3}), heads_kv = random.pick<std::int64_t>({1, 2, 3});
    std::int64_t group = random.pick<std::int64_t>({1, 1, 2, 4}), len_q = random.chance(0.3) ? random.between(1, 4) : draw.extent(600);
    std::int64_t len_k = draw.extent(2100), d = dim(), dv = random.chance(0.6) ? d : dim();
    const auto cost = [&] { return batch * heads_kv * group * len_q * len_k * (d + dv); };
    if (cost() > draw.work) batch = 1, heads_kv = random.between(1, 2);
    while (cost() > draw.work && (len_q > 4 || len_k > 8))
        (len_q * 8 > len_k ? len_q : len_k) = std::max<std::int64_t>(1, (len_q * 8 > len_k ? len_q : len_k) * 2 / 3);
    while (cost() > draw.work && d + dv > 16) d = std::max<std::int64_t>(1, d / 2), dv = std::max<std::int64_t>(1, dv / 2);
    call.q = draw.normal(call.dtype, {batch, heads_kv * group, len_q, d}, random.pick({1.0, 1.0, 6.0}));
    call.k = draw.normal(call.dtype, {batch, heads_kv, len_k, d});
    call.v = draw.normal(call.dtype, {batch, heads_kv, len_k, dv});
    call.scale = random.pick({0.0, 0.0, 0.125, -0.25});
    if (extras.softcap) call.softcap = random.pick({0.0, 0.0, 0.0, 2.0, 20.0});
    call.flags = random.chance(0.2) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    draw_extras(draw, extras, &call);
    return call;
}

AttentionResult run_attention(Draw &draw, const Attention &call) {
    Inputs inputs(draw, call);
    const std::vector<std::int64_t> &s = call.q.shape;
    TestTensor o = draw.output(call.out_dtype, {s[0], s[1], s[2], call.v.shape[3]});
    TestTensor lse = draw.output(wide(call.dtype), {s[0], s[1], s[2]});
    inputs.args.o = o.view();
    inputs.args.lse = lse.view();
    std::vector<TestTensor *> tensors = inputs.pointers();
    tensors.insert(tensors.end(), {&o, &lse});
    perform(draw, ("attention " + words(call)).c_str(), inputs.args, attile_attention_query, attile_attention, tensors);
    return {o.values(), lse.values()};
}

Attention take_batch(const Attention &from, const std::vector<std::int64_t> &entries) {
    Attention to = from;
    for (Values *values : {&to.q, &to.k, &to.v}) *values = take(*values, 0, entries);
    for (Values *values : {&to.bias, &to.allowed}) *values = take(*values, 0, entries, true);
    if (to.slopes.shape.size() == 2) to.slopes = take(to.slopes, 0, entries);
    to.key_lengths = take(to.key_lengths, 0, entries);
    return to;
}

Attention take_heads(const Attention &from, const std::vector<std::int64_t> &heads_kv) {
    Attention to = from;
    std::vector<std::int64_t> heads_q;
    const std::int64_t group = from.heads_q() / from.heads_kv();
    for (const std::int64_t g : heads_kv)
        for (std::int64_t h = 0; h < group; ++h) heads_q.push_back(g * group + h);
    to.q = take(to.q, 1, heads_q);
    for (Values *values : {&to.k, &to.v}) *values = take(*values, 1, heads_kv);
    for (Values *values : {&to.bias, &to.allowed}) *values = take(*values, 1, heads_q, true);
    if (!to.slopes.shape.empty()) to.slopes = take(to.slopes, to.slopes.shape.size() - 1, heads_q);
    to.sinks = take(to.sinks, 0, heads_q);
    return to;
}

Attention take_rows(const Attention &from, const std::vector<std::int64_t> &rows) {
    Attention to = from;
    to.q = take(to.q, 2, rows);
    for (Values *values : {&to.bias, &to.allowed}) *values = take(*values, 2, rows, true);
    return to;
}

Attention take_keys(const Attention &from, const std::vector<std::int64_t> &keys) {
    Attention to = from;
    for (Values *values : {&to.k, &to.v}) *values = take(*values, 2, keys);
    for (Values *values : {&to.bias, &to.allowed}) *values = take(*values, 3, keys, true);
    return to;
}

Values spread(const Values &values, const Attention &over) {
    const std::int64_t full[4] = {over.batch(), over.heads_q(), over.len_q(), over.len_k()};
    Values result = values;
    for (std::size_t axis = 0; axis < 4; ++axis)
        if (result.shape[axis] == 1) result = take(result, axis, std::vector<std::int64_t>(static_cast<std::size_t>(full[axis]), 0));
    return result;
}

AttentionBound bound_of(const Attention &call) {
    // A matrix unit cuts sums off where a plain one rounds them.
    const bool short_type = call.dtype == ATTILE_F16 || call.dtype == ATTILE_BF16;
    const double u = precision_of(wide(call.dtype)).unit * (short_type ? 4 : 1);
    const auto keys = static_cast<double>(call.block_table.shape.empty() ? call.len_k() : call.block_table.shape[1] * call.len_k());
    const double size = std::fabs(call.factor()) * max_norm(call.q) * max_norm(call.k) + call.softcap + max_abs(call.bias) +
                        max_abs(call.sinks) + max_abs(call.slopes) * (static_cast<double>(call.len_q()) + keys);
    const double score = u * (2 * std::sqrt(static_cast<double>(call.head_dim())) + 12) * size;
    const double sum = u * (4 * std::sqrt(keys) + 8);
    const double weight = 2 * score + 8 * u + sum;
    const double operand = short_type ? 2 * precision_of(call.dtype).unit : 0;
    const Precision stored = precision_of(call.out_dtype);
    const double v = max_abs(call.v);
    return {2 * (v * (weight + operand + stored.unit) + stored.tiny), 2 * (score + sum + 4 * u * (size + std::log(keys + 2) + 2)),
            2 * weight};
}

testing::AssertionResult same_attention(const AttentionResult &got, const AttentionResult &want, const AttentionBound &bound) {
    if (testing::AssertionResult lse = close(got.lse, want.lse, bound.lse); !lse) return lse << " (lse)";
    return close(got.o, want.o, bound.o) << " (o)";
}

Gradients run_backward(Draw &draw, const Attention &call, const AttentionResult &forward, const Values &dout) {
    Inputs inputs(draw, call);
    const std::int32_t type = wide(call.dtype);
    TestTensor o = draw.input(call.out_dtype, forward.o), lse = draw.input(type, forward.lse), grad = draw.input(call.out_dtype, dout);
    inputs.args.o = o.view();
    inputs.args.lse = lse.view();
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    args.flags = call.flags;
    args.forward = &inputs.args;
    args.dout = grad.view();
    TestTensor dq = draw.output(type, call.q.shape), dk = draw.output(type, call.k.shape), dv = draw.output(type, call.v.shape);
    args.dq = dq.view();
    args.dk = dk.view();
    args.dv = dv.view();
    std::vector<TestTensor *> tensors = inputs.pointers();
    tensors.insert(tensors.end(), {&o, &lse, &grad, &dq, &dk, &dv});
    TestTensor dbias, dsinks;
    if (!call.bias.shape.empty()) {
        dbias = draw.output(type, call.bias.shape);
        args.dbias = dbias.view();
        tensors.push_back(&dbias);
    }
    if (!call.sinks.shape.empty()) {
        dsinks = draw.output(type, call.sinks.shape);
        args.dsinks = dsinks.view();
        tensors.push_back(&dsinks);
    }
    perform(draw, ("attention_backward " + words(call)).c_str(), args, attile_attention_backward_query, attile_attention_backward, tensors);
    Gradients gradients = {dq.values(), dk.values(), dv.values(), {}, {}};
    if (dbias.present()) gradients.dbias = dbias.values();
    if (dsinks.present()) gradients.dsinks = dsinks.values();
    return gradients;
}

GradientBound bound_of(const Attention &call, const Values &dout) {
    const AttentionBound forward = bound_of(call);
    const bool short_type = call.dtype == ATTILE_F16 || call.dtype == ATTILE_BF16;
    const double u = precision_of(wide(call.dtype)).unit * (short_type ? 4 : 1);
    const auto dim_v = static_cast<double>(call.v.shape[3]);
    const auto rows = static_cast<double>(call.len_q() * call.heads_q() / call.heads_kv());
    // Gradients of a probability are at most dp, as is delta; both are rounded on the way, and o, lse and p were before.
    const double dp = max_norm(dout) * max_norm(call.v);
    const double operand = short_type ? 4 * precision_of(call.dtype).unit : 0;
    const double relative = forward.weight + 2 * forward.lse + u * (4 * std::sqrt(dim_v) + 4 * std::sqrt(rows) + 16) + operand;
    const double ds = 2 * dp * relative + max_norm(dout) * std::sqrt(dim_v) * forward.o;
    const double factor = std::fabs(call.factor());
    // A row's probabilities add up to at most one; a key may have that much of every row.
    const double pairs = rows * static_cast<double>(call.batch());
    return {2 * factor * ds * max_norm(call.k), 2 * factor * ds * max_norm(call.q) * rows, 2 * rows * max_abs(dout) * relative,
            2 * ds * pairs * static_cast<double>(call.heads_kv()), 2 * ds * pairs};
}

testing::AssertionResult same_gradients(const Gradients &got, const Gradients &want, const GradientBound &bound) {
    const struct {
        const char *name;
        const Values &got, &want;
        double bound;
    } outputs[] = {{"dq", got.dq, want.dq, bound.dq},
                   {"dk", got.dk, want.dk, bound.dk},
                   {"dv", got.dv, want.dv, bound.dv},
                   {"dbias", got.dbias, want.dbias, bound.dbias},
                   {"dsinks", got.dsinks, want.dsinks, bound.dsinks}};
    for (const auto &output : outputs)
        if (testing::AssertionResult same = close(output.got, output.want, output.bound); !same) return same << " (" << output.name << ")";
    return testing::AssertionSuccess();
}

}  // namespace attile::test

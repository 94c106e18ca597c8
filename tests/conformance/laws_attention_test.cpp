// SPDX-License-Identifier: Apache-2.0
// Laws of attention under changes of its keys, rows, heads, batch and columns.
#include <algorithm>

#include "laws_attention.h"

namespace attile::test {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// o and lse of parts of a problem put together along an axis of o.
AttentionResult joined(const std::vector<AttentionResult> &parts, std::size_t axis) {
    std::vector<Values> o, lse;
    for (const AttentionResult &part : parts) {
        o.push_back(part.o);
        lse.push_back(part.lse);
    }
    return {join(o, axis), join(lse, axis)};
}

// Runs of one axis, as many as drawn: their ends.
std::vector<std::int64_t> cuts(Draw &draw, std::int64_t extent) {
    std::vector<std::int64_t> ends;
    for (std::int64_t at = 0; at < extent || ends.empty();) {
        at = std::min(extent, at + draw.random.between(ends.empty() ? 0 : 1, std::max<std::int64_t>(1, extent * 2 / 3)));
        ends.push_back(at);
    }
    return ends;
}

ATTILE_LAW(KeysInAnyOrder) {
    const Attention call = draw_attention(draw, {});
    const AttentionResult whole = run_attention(draw, call);
    const AttentionResult permuted = run_attention(draw, take_keys(call, draw.permutation(call.len_k())));
    EXPECT_TRUE(same_attention(permuted, whole, bound_of(call)));
}

ATTILE_LAW(RowsInAnyOrder) {
    const Attention call = draw_attention(draw, {});
    const AttentionResult whole = run_attention(draw, call);
    const std::vector<std::int64_t> order = draw.permutation(call.len_q());
    const AttentionResult permuted = run_attention(draw, take_rows(call, order));
    EXPECT_TRUE(same_attention(permuted, {take(whole.o, 2, order), take(whole.lse, 2, order)}, bound_of(call)));
}

// Few rows are done by other kernels than many.
ATTILE_LAW(RowsAlone) {
    const Attention call = draw_attention(draw, {.mask = true});
    const AttentionResult whole = run_attention(draw, call);
    for (int time = 0; time < 3; ++time) {
        const std::int64_t row = draw.random.between(0, call.len_q() - 1);
        Attention one = take_rows(call, {row});
        // About a diagonal of its own the row sees what it saw: the window moves with it.
        if (call.mask != ATTILE_MASK_NONE) {
            const bool bottom = call.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT || call.mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
            const bool causal = call.mask == ATTILE_MASK_CAUSAL_TOP_LEFT || call.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            const std::int64_t diagonal = row + (bottom ? call.len_k() - call.len_q() : 0);
            const std::int64_t left = causal ? -1 : call.window_left, right = causal ? 0 : call.window_right;
            const std::int64_t first = left < 0 ? 0 : std::clamp<std::int64_t>(diagonal - left, 0, call.len_k());
            const std::int64_t end = right < 0 ? call.len_k() : std::clamp<std::int64_t>(diagonal + right + 1, 0, call.len_k());
            one.mask = ATTILE_MASK_NONE;
            one.window_left = one.window_right = 0;
            one = take_keys(one, range(first, std::max(first, end)));
        }
        EXPECT_TRUE(
            same_attention(run_attention(draw, one), {slice(whole.o, 2, row, row + 1), slice(whole.lse, 2, row, row + 1)}, bound_of(call)))
            << "row " << row;
    }
}

ATTILE_LAW(BatchEntriesAlone) {
    const Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    std::vector<AttentionResult> alone;
    for (std::int64_t b = 0; b < call.batch(); ++b) alone.push_back(run_attention(draw, take_batch(call, {b})));
    EXPECT_TRUE(same_attention(run_attention(draw, call), joined(alone, 0), bound_of(call)));
}

// More entries than any loop unrolls, and the same one many times.
ATTILE_LAW(BatchEntriesRepeated) {
    const Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    const AttentionResult once = run_attention(draw, call);
    std::vector<std::int64_t> entries;
    for (int i = 0; i < 11; ++i) entries.push_back(draw.random.between(0, call.batch() - 1));
    EXPECT_TRUE(same_attention(run_attention(draw, take_batch(call, entries)), {take(once.o, 0, entries), take(once.lse, 0, entries)},
                               bound_of(call)));
}

ATTILE_LAW(HeadsAlone) {
    const Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    std::vector<AttentionResult> alone;
    for (std::int64_t g = 0; g < call.heads_kv(); ++g) alone.push_back(run_attention(draw, take_heads(call, {g})));
    EXPECT_TRUE(same_attention(run_attention(draw, call), joined(alone, 1), bound_of(call)));
}

ATTILE_LAW(GroupedHeadsAreRepeatedHeads) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    const AttentionResult grouped = run_attention(draw, call);
    std::vector<std::int64_t> heads;
    for (std::int64_t h = 0; h < call.heads_q(); ++h) heads.push_back(h / (call.heads_q() / call.heads_kv()));
    const AttentionBound bound = bound_of(call);
    call.k = take(call.k, 1, heads);
    call.v = take(call.v, 1, heads);
    EXPECT_TRUE(same_attention(run_attention(draw, call), grouped, bound));
}

ATTILE_LAW(SplitKeysMergeToTheWhole) {
    const Attention call = draw_attention(draw, {});
    const AttentionResult whole = run_attention(draw, call);
    const std::vector<std::int64_t> ends = cuts(draw, call.len_k());
    std::vector<TestTensor> o, lse;
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
        Attention part = take_keys(call, range(begin, end));
        if (begin != 0 || end == 0) part.sinks = {};  // one part alone has them
        begin = end;
        const AttentionResult result = run_attention(draw, part);
        o.push_back(draw.input(call.out_dtype, result.o));
        lse.push_back(draw.input(wide(call.dtype), result.lse));
    }
    std::vector<attile_tensor> o_views, lse_views;
    std::vector<TestTensor *> tensors;
    for (std::size_t i = 0; i < o.size(); ++i) {
        o_views.push_back(o[i].view());
        lse_views.push_back(lse[i].view());
        tensors.insert(tensors.end(), {&o[i], &lse[i]});
    }
    TestTensor o_whole = draw.output(call.out_dtype, whole.o.shape), lse_whole = draw.output(wide(call.dtype), whole.lse.shape);
    tensors.insert(tensors.end(), {&o_whole, &lse_whole});
    attile_attention_merge_args args;
    attile_attention_merge_init(&args, sizeof args);
    args.o_parts = o_views.data();
    args.lse_parts = lse_views.data();
    args.parts = static_cast<std::int64_t>(o_views.size());
    args.o = o_whole.view();
    args.lse = lse_whole.view();
    perform(draw, "attention_merge", args, attile_attention_merge_query, attile_attention_merge, tensors);
    AttentionBound bound = bound_of(call);
    bound.o = 2 * bound.o + 4 * bound.lse * max_abs(call.v);
    bound.lse *= 2;
    EXPECT_TRUE(same_attention({o_whole.values(), lse_whole.values()}, whole, bound)) << ends.size() << " parts";
}

ATTILE_LAW(RepeatedKeysAddTheirLogarithm) {
    const Attention call = draw_attention(draw, {.sinks = false});
    AttentionResult want = run_attention(draw, call);
    const std::int64_t copies = draw.random.between(2, 3);
    std::vector<std::int64_t> keys;
    for (std::int64_t copy = 0; copy < copies; ++copy)
        for (std::int64_t j = 0; j < call.len_k(); ++j) keys.push_back(j);
    for (double &x : want.lse.at) x += std::log(static_cast<double>(copies));
    const Attention repeated = take_keys(call, keys);
    EXPECT_TRUE(same_attention(run_attention(draw, repeated), want, bound_of(repeated)));
}

// One key twice is that key with log 2 in its bias.
ATTILE_LAW(ARepeatedKeyIsALargerBias) {
    Attention call = draw_attention(draw, {});
    const std::int64_t key = draw.random.between(0, call.len_k() - 1);
    std::vector<std::int64_t> keys = range(0, call.len_k());
    keys.push_back(key);
    const AttentionResult twice = run_attention(draw, take_keys(call, keys));
    if (call.bias.shape.empty()) call.bias = Values({1, 1, 1, 1});
    call.bias = spread(call.bias, call);
    call.bias_dtype = wide(call.dtype);
    for (std::size_t at = 0; at < call.bias.at.size(); ++at)
        if (static_cast<std::int64_t>(at) % call.len_k() == key) call.bias.at[at] += std::log(2.0);
    for (double &x : call.bias.at) x = round_to(call.bias_dtype, x);
    EXPECT_TRUE(same_attention(run_attention(draw, call), twice, bound_of(call)));
}

ATTILE_LAW(ASinkIsAKeyWithoutAValue) {
    Attention call = draw_attention(draw, {.sinks = false, .softcap = false});
    Attention with_key = call;
    call.sinks = draw.normal(wide(call.dtype), {call.heads_q()}, 2);
    const AttentionResult sunk = run_attention(draw, call);
    const auto longer = [](const Values &values, std::size_t axis) {
        Values more = slice(values, axis, 0, 1);
        for (double &x : more.at) x = 0;
        return join({values, more}, axis);
    };
    with_key.k = longer(call.k, 2);
    with_key.v = longer(call.v, 2);
    if (!call.allowed.shape.empty()) {
        with_key.allowed = longer(spread(call.allowed, call), 3);
        for (std::size_t at = 0; at < with_key.allowed.at.size(); ++at)
            if (static_cast<std::int64_t>(at) % with_key.len_k() == call.len_k()) with_key.allowed.at[at] = 1;
    }
    if (call.bias.shape.empty()) with_key.bias = Values({1, 1, 1, 1});
    with_key.bias = longer(spread(with_key.bias, call), 3);
    with_key.bias_dtype = wide(call.dtype);
    for (std::size_t at = 0; at < with_key.bias.at.size(); ++at) {
        const std::int64_t row = static_cast<std::int64_t>(at) / with_key.len_k();
        if (static_cast<std::int64_t>(at) % with_key.len_k() == call.len_k())
            with_key.bias.at[at] = call.sinks(row / call.len_q() % call.heads_q());
    }
    EXPECT_TRUE(same_attention(run_attention(draw, with_key), sunk, bound_of(with_key)));
}

ATTILE_LAW(PowersOfTwoOfValuesAreExact) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    const AttentionResult before = run_attention(draw, call);
    const double factor = std::ldexp(1.0, static_cast<int>(draw.random.between(1, 4)));
    // Layouts and addresses choose kernels: the same kernel means the same call but for the contents.
    call.v = times(call.v, factor);
    const AttentionResult after = run_attention(draw, call);
    const AttentionBound bound = bound_of(call);
    EXPECT_TRUE(same_attention(after, {times(before.o, factor), before.lse}, bound));
}

// What is taken from q and given to the scale, or to k, changes no score.
ATTILE_LAW(ScaleMovesBetweenFactors) {
    Attention call = draw_attention(draw, {.mask = true, .lengths = true});
    call.scale = call.factor();
    const AttentionResult before = run_attention(draw, call);
    const double factor = std::ldexp(1.0, static_cast<int>(draw.random.between(1, 3)));
    Attention moved = call;
    moved.q = times(call.q, factor);
    if (draw.random.chance(0.5))
        moved.scale = call.scale / factor;
    else
        moved.k = times(call.k, call.dtype == ATTILE_F16 ? 1 : 1 / factor);
    if (moved.scale == call.scale && call.dtype == ATTILE_F16) moved.scale = call.scale / factor;
    EXPECT_TRUE(same_attention(run_attention(draw, moved), before, bound_of(call)));
}

ATTILE_LAW(ColumnsOfValuesApart) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    const AttentionResult whole = run_attention(draw, call);
    const AttentionBound bound = bound_of(call);
    const std::int64_t columns = call.v.shape[3], cut = draw.random.between(1, columns);
    const Values v = call.v;
    call.v = slice(v, 3, 0, cut);
    AttentionResult first = run_attention(draw, call);
    if (cut == columns) {
        EXPECT_TRUE(same_attention(first, whole, bound));
        return;
    }
    call.v = slice(v, 3, cut, columns);
    EXPECT_TRUE(same_attention({join({first.o, run_attention(draw, call).o}, 3), first.lse}, whole, bound));
}

// Columns of zeros change no product: head sizes that have kernels of their own, and those that have none.
ATTILE_LAW(ColumnsOfZerosChangeNothing) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    call.scale = call.factor();
    const AttentionResult plain = run_attention(draw, call);
    const AttentionBound bound = bound_of(call);
    const std::int64_t more = draw.random.pick<std::int64_t>({1, 8, 64, 200});
    const auto padded = [more](const Values &values) {
        return join({values, Values({values.shape[0], values.shape[1], values.shape[2], more})}, 3);
    };
    call.q = padded(call.q);
    call.k = padded(call.k);
    EXPECT_TRUE(same_attention(run_attention(draw, call), plain, bound));
}

ATTILE_LAW(EqualValuesAreTheResult) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .sinks = false, .lengths = true});
    call.v = take(call.v, 2, std::vector<std::int64_t>(static_cast<std::size_t>(call.len_k()), 0));
    const AttentionResult result = run_attention(draw, call);
    const AttentionBound bound = bound_of(call);
    const std::int64_t group = call.heads_q() / call.heads_kv();
    Values want = result.o;
    for (std::int64_t b = 0; b < call.batch(); ++b)
        for (std::int64_t h = 0; h < call.heads_q(); ++h)
            for (std::int64_t i = 0; i < call.len_q(); ++i)
                for (std::int64_t d = 0; d < call.v.shape[3]; ++d)
                    want(b, h, i, d) = result.lse(b, h, i) == kHidden ? 0 : call.v(b, h / group, 0, d);
    EXPECT_TRUE(close(result.o, want, bound.o));
}

// Scores of zero, be it that queries or keys are: the mean of the values that are seen, and lse their number's logarithm.
ATTILE_LAW(EqualScoresGiveTheMean) {
    Attention call = draw_attention(draw, {.bias = false, .sinks = false});
    Values &zero = draw.random.chance(0.5) ? call.q : call.k;
    zero = Values(zero.shape);
    const AttentionResult result = run_attention(draw, call);
    const Values allowed =
        call.allowed.shape.empty() ? Values({call.batch(), call.heads_q(), call.len_q(), call.len_k()}, 1) : spread(call.allowed, call);
    AttentionResult want = result;
    const std::int64_t group = call.heads_q() / call.heads_kv(), columns = call.v.shape[3];
    for (std::int64_t b = 0; b < call.batch(); ++b)
        for (std::int64_t h = 0; h < call.heads_q(); ++h)
            for (std::int64_t i = 0; i < call.len_q(); ++i) {
                double count = 0;
                std::vector<double> sum(static_cast<std::size_t>(columns));
                for (std::int64_t j = 0; j < call.len_k(); ++j) {
                    if (allowed(b, h, i, j) == 0) continue;
                    count += 1;
                    for (std::int64_t d = 0; d < columns; ++d) sum[static_cast<std::size_t>(d)] += call.v(b, h / group, j, d);
                }
                want.lse(b, h, i) = std::log(count);
                for (std::int64_t d = 0; d < columns; ++d) want.o(b, h, i, d) = count == 0 ? 0 : sum[static_cast<std::size_t>(d)] / count;
            }
    EXPECT_TRUE(same_attention(result, want, bound_of(call)));
}

ATTILE_LAW(SoftcapKeepsScoresBelowIt) {
    Attention call = draw_attention(draw, {.bias = false, .allowed = false, .sinks = false});
    call.softcap = draw.random.pick({0.25, 1.0, 3.0});
    call.q = times(call.q, 8);
    const AttentionResult result = run_attention(draw, call);
    const AttentionBound bound = bound_of(call);
    const double middle = std::log(static_cast<double>(call.len_k()));
    for (const double lse : result.lse.at)
        ASSERT_TRUE(std::fabs(lse - middle) <= call.softcap + bound.lse) << lse << " of " << call.len_k();
    // A cap far above every score is none: c tanh(s / c) = s - s^3 / (3 c^2) ...
    call.softcap = 0;
    const AttentionResult without = run_attention(draw, call);
    const double size = std::fabs(call.factor()) * max_norm(call.q) * max_norm(call.k);
    call.softcap = 1000 * (size + 1);
    AttentionBound loose = bound_of(call);
    loose.lse += size * 1e-6;
    loose.o += 2 * size * 1e-6 * max_abs(call.v);
    EXPECT_TRUE(same_attention(run_attention(draw, call), without, loose));
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Laws of attention's masks, biases and lengths, and of packed and paged storage: each says in another way what could be said without it.
#include <algorithm>

#include "laws_attention.h"

namespace attile::test {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

bool bottom_right(std::int32_t mask) { return mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT || mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT; }

// The pairs of a mask, [Lq, Lk].
bool mask_sees(const Attention &call, std::int64_t i, std::int64_t j, std::int64_t len_k) {
    const std::int64_t distance = j - i - (bottom_right(call.mask) ? len_k - call.len_q() : 0);
    if (call.mask == ATTILE_MASK_NONE) return true;
    if (call.mask < ATTILE_MASK_WINDOW_TOP_LEFT) return distance <= 0;
    return (call.window_left < 0 || -distance <= call.window_left) && (call.window_right < 0 || distance <= call.window_right);
}

std::int64_t length_of(const Attention &call, std::int64_t b) {
    if (call.key_lengths.shape.empty()) return call.len_k();
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(call.key_lengths(b)), 0, call.len_k());
}

// The mask and the lengths as bytes of `allowed`.
Attention spelt_out(const Attention &call) {
    Attention plain = call;
    plain.allowed =
        call.allowed.shape.empty() ? Values({call.batch(), call.heads_q(), call.len_q(), call.len_k()}, 1) : spread(call.allowed, call);
    for (std::int64_t b = 0; b < call.batch(); ++b)
        for (std::int64_t h = 0; h < call.heads_q(); ++h)
            for (std::int64_t i = 0; i < call.len_q(); ++i)
                for (std::int64_t j = 0; j < call.len_k(); ++j)
                    if (j >= length_of(call, b) || !mask_sees(call, i, j, length_of(call, b))) plain.allowed(b, h, i, j) = 0;
    plain.mask = ATTILE_MASK_NONE;
    plain.window_left = plain.window_right = 0;
    plain.key_lengths = {};
    return plain;
}

ATTILE_LAW(MasksAreAllowedPairs) {
    const Attention call = draw_attention(draw, {.mask = true, .lengths = true});
    EXPECT_TRUE(same_attention(run_attention(draw, spelt_out(call)), run_attention(draw, call), bound_of(call)));
}

ATTILE_LAW(AllowedIsABiasOfMinusInfinity) {
    Attention call = draw_attention(draw, {.mask = true, .lengths = true});
    const AttentionResult masked = run_attention(draw, call);
    Attention biased = spelt_out(call);
    if (biased.bias.shape.empty()) biased.bias = Values({1, 1, 1, 1});
    biased.bias = spread(biased.bias, call);
    for (std::size_t at = 0; at < biased.bias.at.size(); ++at)
        if (biased.allowed.at[at] == 0) biased.bias.at[at] = kHidden;
    biased.allowed = {};
    EXPECT_TRUE(same_attention(run_attention(draw, biased), masked, bound_of(call)));
}

ATTILE_LAW(AWindowOfEverythingIsNone) {
    Attention call = draw_attention(draw, {.lengths = true});
    const AttentionResult none = run_attention(draw, call);
    call.mask = draw.random.pick({ATTILE_MASK_WINDOW_TOP_LEFT, ATTILE_MASK_WINDOW_BOTTOM_RIGHT});
    const std::int64_t far = call.len_q() + call.len_k();
    call.window_left = draw.random.pick<std::int64_t>({-1, far, far * 3, std::numeric_limits<std::int64_t>::max()});
    call.window_right = draw.random.pick<std::int64_t>({-1, far, far * 3, std::numeric_limits<std::int64_t>::max()});
    EXPECT_TRUE(same_attention(run_attention(draw, call), none, bound_of(call)));
}

ATTILE_LAW(CausalIsAWindowToTheRight) {
    Attention call = draw_attention(draw, {.alibi = true, .lengths = true});
    const bool bottom = draw.random.chance(0.5);
    call.mask = bottom ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_CAUSAL_TOP_LEFT;
    const AttentionResult causal = run_attention(draw, call);
    call.mask = bottom ? ATTILE_MASK_WINDOW_BOTTOM_RIGHT : ATTILE_MASK_WINDOW_TOP_LEFT;
    call.window_left = -1;
    call.window_right = 0;
    EXPECT_TRUE(same_attention(run_attention(draw, call), causal, bound_of(call)));
}

ATTILE_LAW(AlibiIsABias) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    if (call.slopes.shape.empty()) call.slopes = draw.uniform(wide(call.dtype), {call.batch(), call.heads_q()}, 0.01, 0.5);
    const AttentionResult sloped = run_attention(draw, call);
    const AttentionBound bound = bound_of(call);
    if (call.bias.shape.empty()) call.bias = Values({1, 1, 1, 1});
    call.bias = spread(call.bias, call);
    call.bias_dtype = wide(call.dtype);
    for (std::int64_t b = 0; b < call.batch(); ++b) {
        const bool moved = call.mask == ATTILE_MASK_NONE || bottom_right(call.mask);
        const std::int64_t shift = moved ? length_of(call, b) - call.len_q() : 0;
        for (std::int64_t h = 0; h < call.heads_q(); ++h) {
            const double slope = call.slopes.shape.size() == 2 ? call.slopes(b, h) : call.slopes(h);
            for (std::int64_t i = 0; i < call.len_q(); ++i)
                for (std::int64_t j = 0; j < call.len_k(); ++j) {
                    double &x = call.bias(b, h, i, j);
                    x = round_to(call.bias_dtype, x - slope * std::fabs(static_cast<double>(j - i - shift)));
                }
        }
    }
    call.slopes = {};
    EXPECT_TRUE(same_attention(run_attention(draw, call), sloped, bound));
}

// A constant on a row's bias moves its lse by that much and its o not at all; unless there is a sink, which does not move.
ATTILE_LAW(AConstantBiasMovesLse) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .sinks = false, .lengths = true});
    AttentionResult want = run_attention(draw, call);
    const Values constants = draw.normal(ATTILE_BF16, {call.batch(), call.heads_q(), call.len_q()}, 4);
    if (call.bias.shape.empty()) call.bias = Values({1, 1, 1, 1});
    call.bias = spread(call.bias, call);
    call.bias_dtype = wide(call.dtype);
    for (std::size_t at = 0; at < call.bias.at.size(); ++at)
        call.bias.at[at] = round_to(call.bias_dtype, call.bias.at[at] + constants.at[at / static_cast<std::size_t>(call.len_k())]);
    for (std::size_t at = 0; at < want.lse.at.size(); ++at) want.lse.at[at] += constants.at[at];
    EXPECT_TRUE(same_attention(run_attention(draw, call), want, bound_of(call)));
}

ATTILE_LAW(ABroadcastBiasIsItsCopies) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    if (call.bias.shape.empty()) call.bias = draw.normal(call.bias_dtype, {1, call.heads_q(), 1, call.len_k()});
    const AttentionResult broadcast = run_attention(draw, call);
    call.bias = spread(call.bias, call);
    if (!call.allowed.shape.empty()) call.allowed = spread(call.allowed, call);
    if (call.slopes.shape.size() == 1) {
        Values slopes({call.batch(), call.heads_q()});
        for (std::size_t at = 0; at < slopes.at.size(); ++at) slopes.at[at] = call.slopes.at[at % call.slopes.at.size()];
        call.slopes = slopes;
    }
    EXPECT_TRUE(same_attention(run_attention(draw, call), broadcast, bound_of(call)));
}

ATTILE_LAW(AKeyLengthIsFewerKeys) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true});
    call = take_batch(call, {0});
    const std::int64_t length = draw.random.between(0, call.len_k());
    const AttentionBound bound = bound_of(call);
    const AttentionResult fewer = run_attention(draw, take_keys(call, range(0, length)));
    call.key_lengths = Values({1}, static_cast<double>(length));
    EXPECT_TRUE(same_attention(run_attention(draw, call), fewer, bound)) << length << " keys";
}

// Sequences of one length or another, with rows and keys of nobody around them.
struct Packed {
    Attention call;
    std::vector<Attention> alone;
    std::vector<std::int64_t> starts;
};

Packed draw_packed(Draw &draw, bool equal_lengths) {
    AttentionExtras extras = {.mask = true, .alibi = true};
    extras.bias = extras.allowed = false;
    Attention first = draw_attention(draw, extras);
    const std::int64_t sequences = draw.random.pick<std::int64_t>({1, 2, 3, 11}), longest_q = first.len_q(), longest_k = first.len_k();
    Packed packed = {first, {}, {}};
    Attention &call = packed.call;
    const bool entry_slopes = call.slopes.shape.size() == 2;
    if (entry_slopes) call.slopes = draw.uniform(wide(call.dtype), {sequences, call.heads_q()}, 0.01, 0.5);
    call.cu_len_q = Values({sequences + 1});
    call.cu_len_k = Values({sequences + 1});
    std::int64_t rows = draw.random.between(0, 2), keys = draw.random.between(0, 2);
    for (std::int64_t b = 0; b <= sequences; ++b) {
        call.cu_len_q(b) = static_cast<double>(rows);
        call.cu_len_k(b) = static_cast<double>(keys);
        if (b == sequences) break;
        rows += equal_lengths ? longest_q : draw.random.between(0, longest_q);
        keys += equal_lengths ? longest_k : draw.random.between(0, longest_k);
    }
    const std::int64_t more = draw.random.between(0, 2);
    call.q = draw.normal(call.dtype, {1, first.heads_q(), rows + more, first.head_dim()});
    call.k = draw.normal(call.dtype, {1, first.heads_kv(), keys + more, first.head_dim()});
    call.v = draw.normal(call.dtype, {1, first.heads_kv(), keys + more, first.v.shape[3]});
    if (draw.random.chance(0.6)) call.max_len_q = longest_q, call.max_len_k = longest_k;
    if (!equal_lengths && draw.random.chance(0.4)) {
        call.key_lengths = Values({sequences});
        for (double &x : call.key_lengths.at) x = static_cast<double>(draw.random.between(-1, longest_k + 1));
    }
    for (std::int64_t b = 0; b < sequences; ++b) {
        Attention one = call;
        one.cu_len_q = one.cu_len_k = {};
        one.max_len_q = one.max_len_k = 0;
        const auto at = [b](const Values &starts, std::int64_t next) { return static_cast<std::int64_t>(starts(b + next)); };
        one.q = slice(call.q, 2, at(call.cu_len_q, 0), at(call.cu_len_q, 1));
        one.k = slice(call.k, 2, at(call.cu_len_k, 0), at(call.cu_len_k, 1));
        one.v = slice(call.v, 2, at(call.cu_len_k, 0), at(call.cu_len_k, 1));
        if (entry_slopes) one.slopes = slice(call.slopes, 0, b, b + 1);
        if (!call.key_lengths.shape.empty()) one.key_lengths = slice(call.key_lengths, 0, b, b + 1);
        packed.starts.push_back(at(call.cu_len_q, 0));
        packed.alone.push_back(one);
    }
    return packed;
}

ATTILE_LAW(PackedSequencesAreCallsOfTheirOwn) {
    const Packed packed = draw_packed(draw, false);
    const AttentionResult together = run_attention(draw, packed.call);
    for (std::size_t b = 0; b < packed.alone.size(); ++b) {
        const Attention &one = packed.alone[b];
        const std::int64_t start = packed.starts[b], end = start + one.len_q();
        EXPECT_TRUE(same_attention({slice(together.o, 2, start, end), slice(together.lse, 2, start, end)}, run_attention(draw, one),
                                   bound_of(packed.call)))
            << "sequence " << b;
    }
}

ATTILE_LAW(PackedSequencesOfOneLengthAreABatch) {
    const Packed packed = draw_packed(draw, true);
    Attention batch = packed.alone.front();
    std::vector<Values> q, k, v;
    for (const Attention &one : packed.alone) {
        q.push_back(one.q);
        k.push_back(one.k);
        v.push_back(one.v);
    }
    batch.q = join(q, 0);
    batch.k = join(k, 0);
    batch.v = join(v, 0);
    batch.slopes = packed.call.slopes;
    const AttentionResult want = run_attention(draw, batch), got = run_attention(draw, packed.call);
    for (std::int64_t b = 0; b < batch.batch(); ++b) {
        const std::int64_t start = packed.starts[static_cast<std::size_t>(b)], end = start + batch.len_q();
        EXPECT_TRUE(same_attention({slice(got.o, 2, start, end), slice(got.lse, 2, start, end)},
                                   {slice(want.o, 0, b, b + 1), slice(want.lse, 0, b, b + 1)}, bound_of(packed.call)))
            << "sequence " << b;
    }
}

ATTILE_LAW(PagesAreDenseKeys) {
    Attention call = draw_attention(draw, {.mask = true, .alibi = true, .lengths = true});
    if (call.key_lengths.shape.empty()) call.key_lengths = Values({call.batch()}, static_cast<double>(call.len_k()));
    const std::int64_t page_size = draw.random.pick<std::int64_t>({1, 4, 16, 33, 64, 128});
    const std::int64_t runs = (call.len_k() + page_size - 1) / page_size, spare = draw.random.between(0, 3);
    const AttentionBound bound = bound_of(call);
    Attention paged = call;
    const std::int64_t pages = call.batch() * runs + spare;
    const std::vector<std::int64_t> order = draw.permutation(pages);
    paged.block_table = Values({call.batch(), runs});
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (auto [to, from] : {std::pair(&paged.k, &call.k), std::pair(&paged.v, &call.v)}) {
        *to = Values({pages, call.heads_kv(), page_size, from->shape[3]}, nan);
        for (std::int64_t b = 0; b < call.batch(); ++b)
            for (std::int64_t j = 0; j < length_of(call, b); ++j) {
                const std::int64_t page = order[static_cast<std::size_t>(b * runs + j / page_size)];
                paged.block_table(b, j / page_size) = static_cast<double>(page);
                for (std::int64_t h = 0; h < call.heads_kv(); ++h)
                    for (std::int64_t d = 0; d < from->shape[3]; ++d) (*to)(page, h, j % page_size, d) = (*from)(b, h, j, d);
            }
        // Past a length the table is not read.
        for (std::int64_t b = 0; b < call.batch(); ++b)
            for (std::int64_t run = (length_of(call, b) + page_size - 1) / page_size; run < runs; ++run)
                paged.block_table(b, run) = draw.random.pick({-1e9, 1e9, 0.0});
    }
    for (Values *values : {&paged.bias, &paged.allowed}) {  // They reach as far as the pages do.
        if (values->shape.empty() || values->shape[3] == 1) continue;
        std::vector<std::int64_t> keys = range(0, call.len_k());
        keys.resize(static_cast<std::size_t>(runs * page_size), 0);
        *values = take(*values, 3, keys);
    }
    for (double &x : call.key_lengths.at) x = std::clamp(x, 0.0, static_cast<double>(call.len_k()));
    paged.key_lengths = call.key_lengths;
    EXPECT_TRUE(same_attention(run_attention(draw, paged), run_attention(draw, call), bound)) << "pages of " << page_size;
}

ATTILE_LAW(PagesOutOfRangeAreHiddenKeys) {
    Attention call = draw_attention(draw, {.bias = false, .allowed = false, .softcap = false, .lengths = true});
    if (call.key_lengths.shape.empty()) call.key_lengths = Values({call.batch()}, static_cast<double>(call.len_k()));
    const std::int64_t page_size = draw.random.pick<std::int64_t>({4, 8, 16, 64, 128});
    const std::int64_t runs = (call.len_k() + page_size - 1) / page_size, pages = call.batch() * runs;
    Attention paged = call, hidden = call;
    for (double &x : call.key_lengths.at) x = std::clamp(x, 0.0, static_cast<double>(call.len_k()));
    paged.key_lengths = call.key_lengths;
    paged.block_table = Values({call.batch(), runs});
    hidden.allowed = Values({call.batch(), 1, 1, call.len_k()}, 1.0);
    for (auto [to, from] : {std::pair(&paged.k, &call.k), std::pair(&paged.v, &call.v)}) {
        *to = Values({pages, call.heads_kv(), page_size, from->shape[3]}, std::numeric_limits<double>::quiet_NaN());
        for (std::int64_t b = 0; b < call.batch(); ++b)
            for (std::int64_t j = 0; j < call.len_k(); ++j)
                for (std::int64_t h = 0; h < call.heads_kv(); ++h)
                    for (std::int64_t d = 0; d < from->shape[3]; ++d)
                        (*to)(b * runs + j / page_size, h, j % page_size, d) = (*from)(b, h, j, d);
    }
    for (std::int64_t b = 0; b < call.batch(); ++b)
        for (std::int64_t run = 0; run < runs; ++run) {
            const bool is_there = draw.random.chance(0.7);
            paged.block_table(b, run) =
                is_there ? static_cast<double>(b * runs + run) : draw.random.pick({-1.0, -1e9, 1e9, static_cast<double>(pages)});
            for (std::int64_t j = run * page_size; !is_there && j < std::min((run + 1) * page_size, call.len_k()); ++j)
                hidden.allowed(b, 0, 0, j) = 0;
        }
    EXPECT_TRUE(same_attention(run_attention(draw, paged), run_attention(draw, hidden), bound_of(hidden))) << "pages of " << page_size;
}

}  // namespace
}  // namespace attile::test

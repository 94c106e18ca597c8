// SPDX-License-Identifier: Apache-2.0
// Cases of attention: one a feature in every type, head dims, lengths, layouts, adversarial scores, then random ones.
#include "cases_attention.h"

#include <algorithm>
#include <tuple>

#include "cases.h"
#include "cases_attention_list.h"

namespace attile::test {
namespace {

using C = AttentionCase;
using P = AttentionPattern;
using Adder = AttentionAdder;

C lengths(std::int64_t len_q, std::int64_t len_k, std::int64_t head_dim = 8) { return attention_of(len_q, len_k, head_dim); }

C masked(std::int32_t mask, std::int64_t left = 0, std::int64_t right = 0, std::int64_t len_q = 37, std::int64_t len_k = 70) {
    C c = lengths(len_q, len_k, 16);
    c.mask = mask;
    c.window_left = left;
    c.window_right = right;
    return c;
}

void add_masks(Adder add) {
    for (const bool tall : {false, true}) {
        const std::int64_t q = tall ? 70 : 37, k = tall ? 37 : 70;
        const std::string suffix = tall ? "_more_rows" : "";
        add("causal_top_left" + suffix, masked(ATTILE_MASK_CAUSAL_TOP_LEFT, 0, 0, q, k));
        add("causal_bottom_right" + suffix, masked(ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, q, k));
        for (const auto &[left, right] : {std::pair<int, int>{0, 0}, {3, 5}, {33, 0}, {-1, 2}, {4, -1}, {-1, -1}, {1000, 1000}}) {
            const std::string window =
                "window_" + (left < 0 ? "open" : std::to_string(left)) + "_" + (right < 0 ? "open" : std::to_string(right));
            add(window + "_top_left" + suffix, masked(ATTILE_MASK_WINDOW_TOP_LEFT, left, right, q, k));
            add(window + "_bottom_right" + suffix, masked(ATTILE_MASK_WINDOW_BOTTOM_RIGHT, left, right, q, k));
        }
    }
    // Splits of what a window leaves of many keys: of a few rows, of many, and of heads that are rows.
    for (const std::int64_t q : {3, 70}) {
        C c = q == 3 ? masked(ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 1000, 0, q, 2000) : masked(ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 200, 0, q, 600);
        c.batch = 1;
        c.heads_q = c.heads_kv = 1;
        add("window_of_splits_" + std::to_string(q) + "_rows", c);
        c.heads_q = 7;
        c.alibi = 1;
        add("window_of_splits_" + std::to_string(q) + "_rows_of_7_heads_alibi", c);
    }
    add("causal_square", masked(ATTILE_MASK_CAUSAL_TOP_LEFT, 0, 0, 65, 65));
    add("window_huge", masked(ATTILE_MASK_WINDOW_BOTTOM_RIGHT, INT64_MAX, INT64_MAX));
}

void add_features(Adder add) {
    C c = lengths(33, 65, 16);
    c.scale = -0.3;
    add("scale", c);
    c.scale = 0;
    c.softcap = 1.5;
    add("softcap", c);
    c.softcap = 50;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("softcap_causal", c);
    c = lengths(33, 65, 16);
    c.lse = false;
    add("no_lse", c);

    for (const auto &[name, axes, rank] : {std::tuple<const char *, int, int>{"full", 15, 4},
                                           {"of_keys", 8, 1},
                                           {"of_heads_and_keys", 10, 3},
                                           {"of_rows_and_keys", 12, 2},
                                           {"of_rows", 4, 4},
                                           {"of_batch", 1, 4}}) {
        c = lengths(19, 45, 16);
        c.bias = BiasKind::kNormal;
        c.bias_axes = static_cast<std::uint8_t>(axes);
        c.bias_rank = static_cast<std::uint8_t>(rank);
        c.bias_layout = {.pad = 3, .offset = 1};
        add(std::string("bias_") + name, c);
        c.bias = BiasKind::kNone;
        c.allowed = MaskBytes::kRandom;
        c.allowed_axes = c.bias_axes;
        c.allowed_rank = c.bias_rank;
        c.allowed_layout = {.pad = 3, .offset = 1};
        add(std::string("allowed_") + name, c);
    }
    c = lengths(19, 45, 16);
    c.bias = BiasKind::kNormal;
    c.bias_layout = {.broadcast = 3};
    add("bias_by_stride_0", c);
    c.bias_layout = {};
    c.bias = BiasKind::kSomeHidden;
    add("bias_hides_some", c);
    c.bias = BiasKind::kRowsHidden;
    add("bias_hides_rows", c);
    c.bias_axes = 8;
    c.bias = BiasKind::kSomeHidden;
    c.bias_poisoned = true;
    add("bias_hides_nan", c);
    c = lengths(19, 45, 16);
    c.allowed = MaskBytes::kNothing;
    add("allowed_nothing", c);
    c.sinks = true;
    add("allowed_nothing_but_sinks", c);
    c = lengths(7, 301, 16);
    c.allowed = MaskBytes::kLeadingHidden;
    add("allowed_only_late_keys", c);

    c = lengths(33, 65, 16);
    c.alibi = 1;
    add("alibi", c);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("alibi_bottom_right", c);
    c.alibi = 2;
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add("alibi_of_batch_top_left", c);
    c = lengths(33, 65, 16);
    c.sinks = true;
    add("sinks", c);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.len_k = 20;
    add("sinks_of_rows_without_keys", c);
}

void add_lengths_of_data(Adder add) {
    for (const std::int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
        const std::string suffix = mask == ATTILE_MASK_NONE ? "" : mask == ATTILE_MASK_CAUSAL_TOP_LEFT ? "_top_left" : "_bottom_right";
        C c = lengths(19, 70, 16);
        c.batch = 5;
        c.mask = mask;
        c.key_lengths = true;
        add("key_lengths" + suffix, c);
        c.packed_q = c.packed_k = true;
        c.key_lengths = false;
        add("packed" + suffix, c);
        c.give_max_len = false;
        add("packed_no_max_len" + suffix, c);
        c.give_max_len = true;
        c.key_lengths = true;
        c.alibi = 2;
        c.sinks = true;
        c.bias = BiasKind::kNormal;
        add("packed_with_everything" + suffix, c);
        c = lengths(1, 70, 16);
        c.batch = 3;
        c.mask = mask;
        c.page_size = 16;
        add("paged_decode" + suffix, c);
        c.len_q = 9;
        c.page_size = 5;
        add("paged_odd_pages" + suffix, c);
        c.packed_q = true;
        c.page_size = 8;
        add("paged_packed_rows" + suffix, c);
        c = lengths(400, 40, 16);  // Whole tiles of rows that end before the first key.
        c.batch = 3;
        c.heads_q = c.heads_kv = 1;
        c.mask = mask;
        c.page_size = 16;
        add("paged_far_before_the_keys" + suffix, c);
    }
}

void add_shapes(Adder add, Tier tier) {
    for (const std::int64_t d : {1, 8, 16, 32, 40, 59, 64, 80, 96, 111, 128, 192, 256}) {
        C c = lengths(35, 67, d);
        c.batch = 1;
        c.heads_q = 2;
        c.heads_kv = 1;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("head_dim_" + std::to_string(d), c);
    }
    for (const auto &[d, dv] : {std::pair<int, int>{192, 128}, {64, 128}, {16, 1}, {1, 59}}) {
        C c = lengths(33, 65);
        c.head_dim = d;
        c.head_dim_v = dv;
        add("head_dims_" + std::to_string(d) + "_" + std::to_string(dv), c);
    }
    for (const auto &[hq, hkv] : {std::pair<int, int>{1, 1}, {8, 8}, {8, 1}, {6, 2}, {7, 7}, {12, 4}}) {
        C c = lengths(5, 33, 32);
        c.heads_q = hq;
        c.heads_kv = hkv;
        add("heads_" + std::to_string(hq) + "_" + std::to_string(hkv), c);
    }
    for (const auto &[q, k] :
         {std::pair<int, int>{1, 1}, {1, 1025}, {2, 512}, {1025, 1}, {3, 2}, {31, 33}, {63, 64}, {64, 65}, {97, 97}, {128, 128}})
        add("len_" + std::to_string(q) + "_" + std::to_string(k), lengths(q, k, 16));
    for (const auto &[q, k] : {std::pair<int, int>{0, 5}, {5, 0}, {0, 0}})
        add("empty_" + std::to_string(q) + "_" + std::to_string(k), lengths(q, k));
    C c = lengths(5, 0);
    c.sinks = true;
    add("no_keys_but_sinks", c);
    c = lengths(5, 7);
    c.batch = 0;
    add("empty_batch", c);
    // On an emulated device one row block more than whole waves: its keys are split.
    for (const std::int64_t k : {256, 237}) {
        c = lengths(128, k, 32);
        c.batch = 1;
        c.heads_q = c.heads_kv = 97;
        c.sinks = true;
        add("last_wave_" + std::to_string(k), c);
    }
    if (tier == Tier::kFull) {
        c = lengths(257, 513, 64);
        c.batch = 1;
        c.heads_q = c.heads_kv = 1;
        add("long", c);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("long_causal", c);
        c = lengths(1, 4099, 128);
        c.batch = 1;
        add("long_decode", c);
        // Splits of more rows than are put together one by one, on 132 multiprocessors and on 8.
        c = lengths(280, 1300, 32);
        c.batch = 1;
        c.heads_q = c.heads_kv = 8;
        add("rows_of_splits", c);
        for (const std::int64_t d : {64, 50}) {
            c = lengths(150, 1024, d);
            c.batch = 1;
            c.heads_q = c.heads_kv = 2;
            c.sinks = true;
            add("few_rows_of_splits_d" + std::to_string(d), c);
            c.o_layout = {.pad = 1};
            c.packed_q = c.packed_k = true;
            add("few_rows_of_splits_packed_d" + std::to_string(d), c);
        }
    }
}

void add_layouts(Adder add) {
    C c = lengths(19, 33, 16);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    const auto all = [&](const char *name, const Layout &input, const Layout &output) {
        C with = c;
        with.q_layout = with.k_layout = with.v_layout = input;
        with.o_layout = with.lse_layout = output;
        add(name, with);
    };
    all("blhd", {.order = Order::kHeadsInside}, {.order = Order::kHeadsInside});
    all("fortran", {.order = Order::kFortran}, {.order = Order::kFortran});
    all("odd_strides", {.pad = 3, .offset = 1}, {.pad = 1, .offset = 3});
    all("head_dim_not_unit", {.step = 2, .offset = 1}, {.step = 3});
    all("negative_strides", {.reversed = 6}, {.reversed = 13});
    all("stride_0_heads", {.broadcast = 2}, {});
    all("stride_0_keys_and_batch", {.broadcast = 5}, {});
    c.batch = 1;
    c.heads_q = c.heads_kv = 1;
    all("absurd_strides_of_extent_1", {.absurd_unit_stride = true}, {.absurd_unit_stride = true});
}

void add_numbers(Adder add) {
    const std::pair<const char *, P> patterns[] = {{"scores_x36", P::kTimes36},        {"scores_x400", P::kTimes400},
                                                   {"huge_late_key", P::kHugeLateKey}, {"alternating_signs", P::kAlternating},
                                                   {"equal_scores", P::kConstant},     {"rising_scores", P::kRising},
                                                   {"tiny_values", P::kTiny},          {"nan_in_query", P::kNanInQuery},
                                                   {"far_below", P::kFarBelow}};
    for (const auto &[name, pattern] : patterns) {
        C c = lengths(9, 200, 32);
        c.pattern = pattern;
        add(name, c);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.len_q = 40;
        add(std::string(name) + "_causal", c);
    }
    for (const std::int64_t len_q : {1, 9, 40}) {  // Tiles hold keys that the row does not see beside scores that are NaN.
        C c = lengths(len_q, 70, 32);
        c.pattern = P::kNanInQuery;
        c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        c.window_left = 7;
        c.window_right = -1;
        add("nan_in_query_window_" + std::to_string(len_q) + "_rows", c);
    }
}

}  // namespace

void append_attention_cases(std::vector<Case> &list, Tier tier) {
    const std::size_t first = list.size();
    for (const TypePair types : kTypePairs) {
        const Adder add(list, types);
        add_features(add);
        add_lengths_of_data(add);
        add_layouts(add);
        add_numbers(add);
        add_operand_attention_cases(add);
        add_diagonal_attention_cases(add, tier);
        add_sparse_attention_cases(add, tier);
        // Masks and shapes do not depend on the type as much: a quick run takes them in two.
        if (tier == Tier::kFull || types.in == ATTILE_F32 || (types.in == ATTILE_BF16 && types.out == ATTILE_BF16)) {
            add_masks(add);
            add_shapes(add, tier);
        }
        add_single_modifier_cases(add, tier);
        add_unreached_attention_cases(add, tier);
        add_wide_attention_cases(add, tier);
        add_extreme_attention_cases(add);  // Last: they take longest.
    }
    C c = lengths(19, 45, 16);
    c.bias = BiasKind::kNormal;
    for (const std::int32_t type : {ATTILE_F16, ATTILE_BF16, ATTILE_F64}) {
        Adder(list, {type, type})("bias_in_f32", c);
        std::get<C>(list.back().problem).bias_dtype = ATTILE_F32;
        C odd = lengths(67, 133, 64);
        odd.bias = BiasKind::kSomeHidden;
        Adder(list, {type, type})("unreached_bias_in_f32", odd);
        std::get<C>(list.back().problem).bias_dtype = ATTILE_F32;
    }
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    Adder(list, kTypePairs[0])("batch_invariant", c);
    // Every width a GPU kernel may be made for: rows that are not whole tiles see keys that are, or are told to be invariant.
    for (const std::int64_t dim : {32, 40, 48, 64, 80, 96, 112, 128, 192, 256}) {
        C whole = lengths(130, 128, dim);
        Adder(list, kTypePairs[0])("whole_tiles_d" + std::to_string(dim), whole);
        whole.flags = ATTILE_FLAG_BATCH_INVARIANT;
        Adder(list, kTypePairs[0])("batch_invariant_d" + std::to_string(dim), whole);
        for (const auto &[name, pattern] : {std::pair{"far_below_", P::kFarBelow}, std::pair{"far_below_but_one_", P::kFarBelowButOne}}) {
            C far = lengths(70, 330, dim);
            far.pattern = pattern;
            Adder(list, kTypePairs[0])(name + ("d" + std::to_string(dim)), far);
            far.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            Adder(list, kTypePairs[0])(name + ("causal_d" + std::to_string(dim)), far);
        }
    }
    // The largest weight of a row may be rounded, too, where o shows it.
    for (const TypePair types : {kTypePairs[3], kTypePairs[5]}) {
        for (const std::int64_t dim : {64, 96, 128, 192, 256}) {
            C fast = lengths(140, 700, dim);
            fast.flags = ATTILE_FLAG_FAST_ACCUMULATION;
            Adder(list, types)("fast_output_d" + std::to_string(dim), fast);
            fast.pattern = P::kFarBelowButOne;
            fast.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            Adder(list, types)("fast_output_far_below_but_one_d" + std::to_string(dim), fast);
        }
    }
    if (tier == Tier::kFull) add_again<C>(list, first, kTypePairs[0], "split_tf32", ATTILE_FLAG_ALLOW_SPLIT_TF32);
    // Split numbers below 2^-113 are promised to be less precise: docs/numerics.md.
    std::erase_if(list, [](const Case &each) { return each.id.rfind("attention.split_tf32.tiny_values", 0) == 0; });
    append_cached_attention_cases(list, tier);
    append_sliced_attention_cases(list);
    append_narrow_attention(list);
    const std::uint64_t count = tier == Tier::kQuick ? 50 : 400;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        list.push_back({"attention.random." + std::to_string(seed), random_attention(seed)});
}

AttentionCase random_attention(std::uint64_t seed) {
    Random random(seed * 8 + 5);
    const auto extent = [&] { return random.pick<std::int64_t>({0, 1, 1, 2, 3, 5, 9, 31, 32, 33, 63, 64, 65, 97, 1025}); };
    const auto dim = [&] { return random.pick<std::int64_t>({1, 8, 16, 32, 40, 59, 64, 80, 96, 111, 128, 192, 256}); };
    C c;
    const TypePair types = random_types(random);
    c.dtype = types.in;
    c.out_dtype = types.in == ATTILE_F64 && random.chance(0.3) ? ATTILE_F32 : types.out;
    c.bias_dtype = random.chance(0.4) ? ATTILE_F32 : types.in;
    c.batch = random.pick<std::int64_t>({1, 1, 2, 3});
    c.heads_kv = random.pick<std::int64_t>({1, 2, 3});
    c.heads_q = c.heads_kv * random.pick<std::int64_t>({1, 1, 2, 4, 7});
    c.len_q = extent();
    c.len_k = extent();
    c.head_dim = dim();
    c.head_dim_v = random.chance(0.6) ? c.head_dim : dim();
    const auto cost = [&c] { return c.batch * c.heads_q * c.len_q * c.len_k * (c.head_dim + c.head_dim_v); };
    if (cost() > 4'000'000) c.batch = c.heads_q = c.heads_kv = 1;
    while (cost() > 4'000'000) (c.len_q > c.len_k ? c.len_q : c.len_k) /= 3;
    c.scale = random.pick({0.0, 0.0, 0.125, -0.5, 1.0});
    c.softcap = random.pick({0.0, 0.0, 0.0, 2.0, 30.0});
    c.mask = static_cast<std::int32_t>(random.between(0, 4));
    if (c.mask >= ATTILE_MASK_WINDOW_TOP_LEFT) {
        c.window_left = random.pick<std::int64_t>({-1, 0, 1, 7, 40});
        c.window_right = random.pick<std::int64_t>({-1, 0, 0, 3, 40});
    }
    const auto axes = [&] { return static_cast<std::uint8_t>(random.between(1, 15)); };
    if (random.chance(0.3)) c.bias = random.pick({BiasKind::kNormal, BiasKind::kSomeHidden, BiasKind::kRowsHidden});
    c.bias_axes = axes();
    if (random.chance(0.25)) c.allowed = random.pick({MaskBytes::kRandom, MaskBytes::kRandom, MaskBytes::kLeadingHidden});
    c.allowed_axes = axes();
    if (random.chance(0.2)) c.alibi = static_cast<std::uint8_t>(random.between(1, 2));
    c.sinks = random.chance(0.2);
    c.key_lengths = random.chance(0.25);
    if (random.chance(0.25)) {
        c.packed_q = true;
        c.packed_k = random.chance(0.7);
        if (!c.packed_k) c.page_size = random.pick<std::int64_t>({1, 4, 16, 33});
        c.give_max_len = random.chance(0.7);
    } else if (random.chance(0.15)) {
        c.page_size = random.pick<std::int64_t>({1, 4, 16, 64});
    }
    c.lse = random.chance(0.7);
    c.pattern = random.pick({P::kNormal, P::kNormal, P::kNormal, P::kTimes36, P::kHugeLateKey, P::kRising});
    c.q_layout = random_layout(random, 4, true);
    c.k_layout = random_layout(random, 4, true);
    c.v_layout = random_layout(random, 4, true);
    c.o_layout = random_layout(random, 4, false);
    c.lse_layout = random_layout(random, 3, false);
    c.bias_layout = random_layout(random, 4, true);
    c.allowed_layout = random_layout(random, 4, true);
    c.flags = random.chance(0.15) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    if (random.chance(0.3)) c.flags |= ATTILE_FLAG_ALLOW_SPLIT_TF32;
    c.key_starts = random.chance(0.12);
    c.causal_offset = random.chance(0.12) && (c.mask != ATTILE_MASK_NONE || c.alibi != 0);
    if (c.packed_q && c.packed_k && random.chance(0.2)) c.packed_k = false;
    if (random.chance(0.1)) c.block_mask = MaskBytes::kRandom;
    c.block_axes = axes();
    if (random.chance(0.1)) c.tree_keys = std::min<std::int64_t>(c.len_k - c.max_len_cut, random.pick<std::int64_t>({1, 2, 5, 40}));
    c.tree_axes = axes() & 7u;
    c.seed = seed;
    return c;
}

std::string describe(const AttentionCase &c) {
    constexpr const char *kMasks[] = {"none", "causal_top_left", "causal_bottom_right", "window_top_left", "window_bottom_right"};
    Words words;
    words.add("types", pair_name({c.dtype, c.out_dtype})).add("batch", c.batch).add("heads_q", c.heads_q).add("heads_kv", c.heads_kv);
    words.add("len_q", c.len_q).add("len_k", c.len_k).add("head_dim", c.head_dim).add("head_dim_v", c.head_dim_v);
    words.add_unless("scale", c.scale, 0.0).add_unless("softcap", c.softcap, 0.0);
    words.add_unless("mask", std::string(kMasks[c.mask]), std::string("none"));
    if (c.mask >= ATTILE_MASK_WINDOW_TOP_LEFT) words.add("window_left", c.window_left).add("window_right", c.window_right);
    if (c.bias != BiasKind::kNone)
        words.add("bias", static_cast<int>(c.bias)).add("bias_type", dtype_name(c.bias_dtype)).add("bias_axes", int{c.bias_axes});
    const auto add_storage = [&](const char *name, const char *scales, const CacheStorage &storage) {
        if (storage.dtype != 0) words.add(name, dtype_name(storage.dtype));
        if (storage.scaled) words.add(scales, std::to_string(storage.group) + "/" + std::to_string(storage.axes));
    };
    add_storage("q_type", "q_scales", c.q_storage);
    add_storage("k_type", "k_scales", c.k_storage);
    add_storage("v_type", "v_scales", c.v_storage);
    words.add_layout("q_scale", c.q_storage.scale_layout)
        .add_layout("k_scale", c.k_storage.scale_layout)
        .add_layout("v_scale", c.v_storage.scale_layout)
        .add_layout("o_scale", c.o_scales.scale_layout);
    if (c.o_scales.scaled) words.add("o_scales", std::to_string(c.o_scales.group) + "/" + std::to_string(c.o_scales.axes));
    if (c.allowed != MaskBytes::kNone) words.add("allowed", static_cast<int>(c.allowed)).add("allowed_axes", int{c.allowed_axes});
    if (c.block_mask != MaskBytes::kNone) words.add("block_mask", static_cast<int>(c.block_mask)).add("block_axes", int{c.block_axes});
    if (c.tree_keys != 0) words.add("tree_keys", c.tree_keys).add("tree_axes", int{c.tree_axes});
    words.add_unless("alibi", int{c.alibi}, 0).add_unless("sinks", c.sinks, false).add_unless("key_lengths", c.key_lengths, false);
    words.add_unless("key_starts", c.key_starts, false).add_unless("causal_offset", c.causal_offset, false);
    words.add_unless("packed_q", c.packed_q, false).add_unless("packed_k", c.packed_k, false);
    words.add_unless("page_size", c.page_size, std::int64_t{0}).add_unless("values_in_keys", c.values_in_keys, false);
    words.add_unless("lse", c.lse, true);
    words.add_unless("give_max_len", c.give_max_len, true).add_unless("pattern", static_cast<int>(c.pattern), 0);
    words.add_layout("q", c.q_layout).add_layout("k", c.k_layout).add_layout("v", c.v_layout).add_layout("o", c.o_layout);
    words.add_layout("lse_layout", c.lse_layout).add_layout("bias_layout", c.bias_layout).add_layout("allowed_layout", c.allowed_layout);
    words.add_layout("numbers_layout", c.numbers_layout).add_unless("max_len_cut", c.max_len_cut, std::int64_t{0});
    return words.add_unless("flags", c.flags, 0u).add("seed", c.seed).text();
}

}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Cases of attention whose keys and values are of 8 or 4 bits, or of other types than q.
#include "cases_cached.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

using C = AttentionCase;

constexpr Types kTypes[] = {
    {ATTILE_F32, ATTILE_I8, ATTILE_I8, ATTILE_F32},           {ATTILE_BF16, ATTILE_I8, ATTILE_I8, ATTILE_BF16},
    {ATTILE_F16, ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_F32}, {ATTILE_F32, ATTILE_F8_E5M2, ATTILE_I8, ATTILE_F16},
    {ATTILE_BF16, ATTILE_F8_E4M3, ATTILE_BF16, ATTILE_F16},   {ATTILE_F32, ATTILE_F16, ATTILE_F16, ATTILE_F16},
    {ATTILE_F32, ATTILE_BF16, ATTILE_F16, ATTILE_BF16},       {ATTILE_BF16, ATTILE_F32, ATTILE_BF16, ATTILE_F32},
    {ATTILE_F32, ATTILE_I4, ATTILE_I4, ATTILE_F32},           {ATTILE_BF16, ATTILE_I4, ATTILE_I4, ATTILE_F32},
    {ATTILE_F16, ATTILE_U4, ATTILE_U4, ATTILE_F16},           {ATTILE_F32, ATTILE_U4, ATTILE_I8, ATTILE_F32},
};

// Few rows and many, keys of one block and of several: each is a way of its own through a backend.
void add_paths(const Adder &add) {
    const Layout heads_inside = {.order = Order::kHeadsInside};
    for (const std::int64_t rows : {1, 3, 40}) {
        const std::string suffix = "_" + std::to_string(rows) + "_rows";
        C c = attention_of(rows, 333, 64);
        add("plain" + suffix, c);
        add("groups" + suffix, c, 32);
        add("columns" + suffix, c, 1, 2);
        c.k_layout = c.v_layout = heads_inside;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.sinks = c.key_lengths = true;
        c.bias = BiasKind::kSomeHidden;
        c.bias_poisoned = true;
        c.batch = 4;
        add("lengths" + suffix, c, 0, 2);
        add("lengths_tokens" + suffix, c);
        c = attention_of(rows, 190, 48);
        c.head_dim_v = 37;
        c.page_size = 16;
        c.key_starts = true;
        c.allowed = MaskBytes::kRandom;
        add("paged" + suffix, c);
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        add("batch_invariant" + suffix, c);
    }
}

// Kernels for few rows have sizes: rows of a key head by columns.
void add_sizes(const Adder &add) {
    for (const std::int64_t columns : {64, 128, 256}) {
        for (const std::int64_t heads_kv : {2, 4}) {
            C c = attention_of(1, 333, columns);
            c.heads_q = 4;
            c.heads_kv = heads_kv;
            const std::string suffix = "_" + std::to_string(4 / heads_kv) + "_of_" + std::to_string(columns);
            add("one_row" + suffix, c, 32);
            c.page_size = 16;
            c.bias = BiasKind::kSomeHidden;
            add("one_row_paged" + suffix, c, 64);
        }
    }
}

void add_layouts(const Adder &add) {
    const Layout odd = {.order = Order::kFortran, .pad = 3, .step = 2, .offset = 1};
    for (const std::int64_t rows : {2, 19}) {
        const std::string suffix = "_" + std::to_string(rows) + "_rows";
        C c = attention_of(rows, 70, 40);
        c.k_layout = c.v_layout = odd;
        c.k_storage.scale_layout = c.v_storage.scale_layout = odd;
        c.alibi = 2;
        add("odd" + suffix, c);
        c.k_storage.scale_layout = c.v_storage.scale_layout = {.reversed = 4};
        c.packed_q = c.packed_k = true;
        c.batch = 3;
        c.softcap = 20;
        add("packed" + suffix, c);
        C without = attention_of(rows, 70, 17);
        without.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        without.window_left = 30;
        add("one_scale" + suffix, without, 0, 0);
        without.block_mask = MaskBytes::kRandom;
        without.tree_keys = 2;
        add("masks" + suffix, without, 0, 1);
    }
}

// Queries of 8 bits too. `types.q` is the type of o.
void add_queries(std::vector<Case> &list, const Types &types, std::int32_t q, Tier tier) {
    const auto add = [&](const std::string &name, C c, std::int64_t group, std::uint8_t axes) {
        set_types(c, types);
        c.q_storage = {.dtype = q, .scaled = true, .group = group, .axes = axes};
        give_scales(c, group, axes);
        list.push_back({"attention.queries_" + name + "." + dtype_name(q) + "_" + name_of(types), c});
    };
    const Layout odd = {.order = Order::kFortran, .pad = 3, .step = 2, .offset = 1};
    for (const std::int64_t rows : {1, 9, 70}) {
        const std::string suffix = "_" + std::to_string(rows) + "_rows";
        C c = attention_of(rows, 150, 64);
        add("plain" + suffix, c, 0, 3);
        add("groups" + suffix, c, 32, 7);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.q_layout = odd;
        c.q_storage.scale_layout = odd;
        c.sinks = true;
        c.bias = BiasKind::kSomeHidden;
        add("odd" + suffix, c, 0, 7);
        C packed = attention_of(rows, 90, 48);
        packed.packed_q = packed.packed_k = true;
        packed.batch = 3;
        add("packed" + suffix, packed, 1, 2);
        C paged = attention_of(rows, 90, 40);
        paged.page_size = 16;
        paged.q_layout.reversed = 4;
        add("paged" + suffix, paged, 0, 0);
        paged.flags = ATTILE_FLAG_BATCH_INVARIANT;
        add("batch_invariant" + suffix, paged, 0, 7);
    }
    if (tier == Tier::kQuick) return;
    add("wide", attention_of(9, 150, 300), 0, 3);
}

// All of e4m3 with FAST_ACCUMULATION, whose sums may lose bits: each tile, mask and way that a kernel for it may take.
void add_fast_queries(std::vector<Case> &list, std::int32_t out, Tier tier) {
    constexpr std::int32_t kE = ATTILE_F8_E4M3;
    const auto add = [&](const std::string &name, C c, std::uint8_t axes = 3) {
        c.dtype = c.out_dtype = out;
        c.q_storage = c.k_storage = c.v_storage = {.dtype = kE, .scaled = true, .axes = axes};
        c.flags |= ATTILE_FLAG_FAST_ACCUMULATION;
        list.push_back({"attention.fast_" + name + ".e4m3_" + dtype_name(out), c});
    };
    // Of few heads: honest sums that lose bits take long.
    const auto of = [](std::int64_t rows, std::int64_t keys, std::int64_t width, std::int64_t heads_q) {
        C c = attention_of(rows, keys, width);
        c.batch = 1;
        c.heads_q = heads_q;
        c.heads_kv = 1;
        return c;
    };
    if (out != ATTILE_BF16) {  // Kernels of other outputs differ in how they store it.
        C c = of(140, 200, 64, 2);
        add("long_128", of(70, 1100, 128, 1));
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("causal_64", c, 0);
        c.sinks = true;
        add("sinks", c);
        return;
    }
    // Widths of kernels and between them. Long rows have steps that look at no maxima.
    for (const std::int64_t width : {32, 64, 80, 128, 256}) {
        const std::string suffix = "_" + std::to_string(width);
        C c = of(140, 200, width, 2);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("causal" + suffix, c, 0);
        c.pattern = AttentionPattern::kNanInCache;
        add("nan" + suffix, c);
        if (tier == Tier::kQuick && width != 64) continue;
        add("long" + suffix, of(70, 1100, width, 1));
        c = of(90, 300, width, 2);
        c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        c.window_left = 200;
        c.key_lengths = c.key_starts = true;
        c.batch = 2;
        add("lengths" + suffix, c);
    }
    for (const AttentionPattern pattern :
         {AttentionPattern::kTimes36, AttentionPattern::kRising, AttentionPattern::kHugeLateKey, AttentionPattern::kConstant,
          AttentionPattern::kFarBelowButOne, AttentionPattern::kAlternating}) {
        C c = of(66, tier == Tier::kQuick ? 300 : 1000, 32, 1);
        c.pattern = pattern;
        add("pattern_" + std::to_string(static_cast<int>(pattern)), c);
    }
    C c = of(40, 200, 64, 4);
    c.head_dim_v = 32;
    c.sinks = true;
    add("sinks", c);
    c.packed_q = true;
    c.batch = 2;
    add("packed_rows", c, 2);
    c = of(140, 200, 64, 2);
    c.lse = false;
    add("no_lse", c);
    c.lse = true;
    c.pattern = AttentionPattern::kNanInQuery;
    add("nan_in_query", c);
    c.pattern = AttentionPattern::kNormal;
    c.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
    c.window_left = 50;
    c.window_right = 20;
    add("window_top_left", c);
    c.q_layout = c.k_layout = c.v_layout = c.o_layout = {.order = Order::kHeadsInside};
    add("blhd", c);
    for (const std::int32_t dtype : {ATTILE_F16, ATTILE_BF16}) {  // Of an output in float32.
        add("wide_output_of_" + std::string(dtype_name(dtype)), of(70, 200, 64, 1));
        auto &wide = std::get<C>(list.back().problem);
        wide.dtype = dtype;
        wide.out_dtype = ATTILE_F32;
    }
    c = of(200, 80, 64, 1);
    add("short_keys", c);
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add("unseen_keys", c);
    c.o_layout = {.pad = 3, .offset = 1};
    add("odd_output", c);
    c = of(70, 1500, 64, 1);
    add("splits", c);
    c.scale = -0.1;
    c.len_k = 100;
    add("negative_scale", c);
}

// All of int8, in rows of whole pieces, as kernels that multiply it as it is take them; weights stay as they are, or may be rounded.
void add_int8_queries(std::vector<Case> &list, std::int32_t out, bool fast, Tier tier) {
    const auto add = [&](const std::string &name, C c, std::uint8_t axes = 3) {
        c.dtype = c.out_dtype = out;
        c.q_storage = c.k_storage = c.v_storage = {.dtype = ATTILE_I8, .scaled = true, .axes = axes};
        if (fast) c.flags |= ATTILE_FLAG_FAST_ACCUMULATION;
        list.push_back({std::string("attention.") + (fast ? "fast_" : "int8_") + name + ".i8_" + dtype_name(out), c});
    };
    const auto of = [](std::int64_t rows, std::int64_t keys, std::int64_t width, std::int64_t heads_q) {
        C c = attention_of(rows, keys, width);
        c.batch = 1;
        c.heads_q = heads_q;
        c.heads_kv = 1;
        return c;
    };
    for (const std::int64_t width : {64, 128}) {
        const std::string suffix = "_" + std::to_string(width);
        C c = of(140, 200, width, 2);
        add("tokens" + suffix, c, 7);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("causal" + suffix, c, 0);
        if (out != ATTILE_F32) continue;  // Kernels of other outputs differ in how they store it.
        add("whole_tiles" + suffix, of(128, 192, width, 1));
        c = of(90, 300, width, 2);
        c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        c.window_left = 70;
        c.key_lengths = true;
        c.batch = 3;
        add("lengths" + suffix, c);
        c.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
        c.window_right = 20;
        c.causal_offset = true;
        add("offsets" + suffix, c, 7);
        c = of(70, 90, width, 2);
        c.packed_q = c.packed_k = true;
        c.batch = 3;
        add("packed" + suffix, c, 7);
        c = of(70, 1500, width, 1);
        add("splits" + suffix, c);
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        c.batch = 2;
        c.len_k = 700;
        add("batch_invariant" + suffix, c);
        c.len_q = 9;
        add("batch_invariant_few" + suffix, c, 7);
        c = of(20, 150, width, 8);  // Heads of a group as rows.
        c.sinks = true;
        add("group" + suffix, c, 7);
        if (tier == Tier::kQuick && width != 64) continue;
        for (const AttentionPattern pattern :
             {AttentionPattern::kTimes36, AttentionPattern::kTimes400, AttentionPattern::kRising, AttentionPattern::kHugeLateKey,
              AttentionPattern::kConstant, AttentionPattern::kFarBelow, AttentionPattern::kFarBelowButOne, AttentionPattern::kAlternating,
              AttentionPattern::kTiny, AttentionPattern::kOneAbove}) {
            c = of(66, 300, width, 1);
            c.pattern = pattern;
            add("pattern_" + std::to_string(static_cast<int>(pattern)) + suffix, c);
        }
    }
    if (out != ATTILE_F32) return;
    C c = of(40, 100, 64, 4);
    c.lse = false;
    add("no_lse", c);
    c.lse = true;
    c.q_layout = c.k_layout = c.v_layout = c.o_layout = {.order = Order::kHeadsInside};
    add("blhd", c, 7);
    c.q_layout = c.k_layout = c.v_layout = {};
    c.o_layout = {.pad = 3, .step = 2, .offset = 1};
    c.q_storage.scale_layout = c.k_storage.scale_layout = c.v_storage.scale_layout = {.reversed = 4};
    add("odd_output", c, 7);
    c.o_layout = {};
    c.scale = -0.1;
    add("negative_scale", c);
    c.scale = 0;
    c.len_q = 200;
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add("unseen_keys", c);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;  // The first rows see none.
    add("unseen_rows", c, 7);
    c.q_storage = c.k_storage = c.v_storage = {.dtype = ATTILE_I8};
    c.mask = ATTILE_MASK_NONE;
    c.scale = 1e-4;
    c.dtype = c.out_dtype = out;
    c.flags = fast ? ATTILE_FLAG_FAST_ACCUMULATION : 0;
    list.push_back({std::string("attention.") + (fast ? "fast_" : "int8_") + "unscaled.i8_f32", c});
}

// Keys and values of one type, those of 8 bits with a scale for each token.
template <std::int32_t kType>
CaseOption cache_of(const char *name) {
    return {name,
            [](const Case &c) {
                const auto &a = std::get<C>(c.problem);
                return a.type_of(a.k_storage) == kType && a.type_of(a.v_storage) == kType && a.dtype != kType;
            },
            [](Case &c) {
                auto &a = std::get<C>(c.problem);
                if (a.dtype == ATTILE_F64 || a.dtype == kType || a.k_layout.broadcast != 0 || a.v_layout.broadcast != 0) return false;
                if (a.pattern == AttentionPattern::kInfiniteKeys) return false;  // Not every type has infinities.
                if (is_four_bits(kType) && (a.pattern != AttentionPattern::kNormal || a.head_dim % 2 + a.head_dim_v % 2 != 0)) return false;
                a.k_storage = a.v_storage = {.dtype = kType, .scaled = is_quantised(kType)};
                pair_up(a);
                return true;
            }};
}

}  // namespace

std::vector<CaseOption> cached_options() {
    return {
        cache_of<ATTILE_I8>("cache_i8"),
        cache_of<ATTILE_F8_E4M3>("cache_e4m3"),
        cache_of<ATTILE_I4>("cache_i4"),
        cache_of<ATTILE_BF16>("cache_bf16"),
        cache_of<ATTILE_F32>("cache_f32"),
        // No option of a call, but of a kernel's path: a row has scores that are no numbers.
        {"nan_in_query", [](const Case &c) { return std::get<C>(c.problem).pattern == AttentionPattern::kNanInQuery; },
         [](Case &c) {
             auto &a = std::get<C>(c.problem);
             if (a.type_of(a.q_storage) == ATTILE_I8) return false;
             a.pattern = AttentionPattern::kNanInQuery;
             return true;
         }},
    };
}

void append_cached_attention_cases(std::vector<Case> &list, Tier tier) {
    for (const Types &types : kTypes) {
        const Adder add(list, types);
        add_paths(add);
        add_sizes(add);
        if (types.k == types.v && types.q != ATTILE_F32 && is_quantised(types.k)) append_streamed_cases(add);
        add_layouts(add);
        C c = attention_of(5, 400, 128);
        set_types(c, types);
        pair_up(c);
        list.push_back({"attention.cache_unscaled." + name_of(types), c});
        if (is_float8(types.k)) {
            for (const std::int64_t rows : {1, 5, 9}) {
                c = attention_of(rows, 200, 72);
                c.pattern = AttentionPattern::kNanInCache;
                c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
                add("nan_" + std::to_string(rows) + "_rows", c);
                c.head_dim = c.head_dim_v = 96;
                c.allowed = MaskBytes::kRandom;
                add("nan_allowed_" + std::to_string(rows) + "_rows", c);
            }
        }
        if (tier == Tier::kQuick) continue;
        add("spans", attention_of(2, 4500, 16));
        add("long", attention_of(130, 2100, 32), 32);
        add("wide", attention_of(9, 150, 256), 128);
    }
    add_queries(list, {ATTILE_BF16, ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_F32}, ATTILE_F8_E4M3, tier);
    add_queries(list, {ATTILE_F32, ATTILE_I8, ATTILE_I8, ATTILE_F16}, ATTILE_I8, tier);
    add_queries(list, {ATTILE_F16, ATTILE_F16, ATTILE_F8_E5M2, ATTILE_F32}, ATTILE_F8_E5M2, tier);
    for (const std::int32_t out : {ATTILE_BF16, ATTILE_F16, ATTILE_F32}) {
        add_fast_queries(list, out, tier);
        for (const bool fast : {false, true}) add_int8_queries(list, out, fast, tier);
    }
    const std::uint64_t count = tier == Tier::kQuick ? 40 : 300;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        list.push_back({"attention.random_cached." + std::to_string(seed), random_cached_attention(seed)});
}

AttentionCase random_cached_attention(std::uint64_t seed) {
    Random random(seed * 8 + 6);
    C c = random_attention(seed * 31 + 11);
    set_types(c, kTypes[random.between(0, static_cast<std::int64_t>(std::size(kTypes)) - 1)]);
    c.pattern = AttentionPattern::kNormal;
    for (Layout *layout : {&c.k_layout, &c.v_layout}) layout->broadcast = 0;
    pair_up(c);
    for (CacheStorage *storage : {&c.k_storage, &c.v_storage}) {
        storage->scaled = is_quantised(storage->dtype) && random.chance(0.8);
        const std::int64_t width = storage == &c.k_storage ? c.head_dim : c.head_dim_v;
        const std::int64_t group = random.pick<std::int64_t>({0, 0, 1, 32, 64, 128});
        storage->group = group > 0 && width % group == 0 ? group : 0;
        storage->axes = static_cast<std::uint8_t>(random.between(0, 7));
        storage->scale_layout = random_layout(random, 4, false);
    }
    return c;
}

}  // namespace attile::test

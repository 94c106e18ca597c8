// SPDX-License-Identifier: Apache-2.0
// Cases of products of groups of rows: one a feature, then random ones.
#include "cases_grouped.h"

#include <algorithm>

#include "case_text.h"
#include "cases.h"

namespace attile::test {
namespace {

void add(std::vector<Case> &list, const char *name, TypePair types, GroupedCase c) {
    c.dtype = types.in;
    c.out_dtype = c.bias_dtype = types.out;
    list.push_back({"gemm_grouped." + std::string(name) + "." + pair_name(types), c});
}

GroupedCase grouped(std::vector<std::int64_t> rows, std::int64_t n, std::int64_t k) {
    GroupedCase c;
    c.rows = std::move(rows);
    c.n = n;
    c.k = k;
    return c;
}

void add_shapes(std::vector<Case> &list, TypePair types) {
    add(list, "some", types, grouped({3, 17, 1, 40, 8}, 33, 21));
    add(list, "empty_groups", types, grouped({0, 5, 0, 0, 70, 0}, 24, 40));
    add(list, "all_in_one", types, grouped({0, 0, 150, 0}, 65, 31));
    add(list, "one_row_each", types, grouped({1, 1, 1, 1, 1, 1, 1, 1, 1}, 48, 64));
    add(list, "one_group", types, grouped({130}, 70, 33));
    add(list, "nothing_in_any", types, grouped({0, 0, 0}, 8, 8));
    add(list, "whole_tiles", types, grouped({128, 256, 64}, 128, 64));
    add(list, "beside_tiles", types, grouped({127, 129, 63, 65, 191}, 136, 72));
    add(list, "odd_n_and_k", types, grouped({33, 200, 7}, 131, 77));
    add(list, "k_is_1", types, grouped({9, 4}, 12, 1));
    add(list, "n_is_1", types, grouped({9, 40, 4}, 1, 37));
    add(list, "many_groups", types, grouped(std::vector<std::int64_t>(150, 3), 16, 16));
    GroupedCase c = grouped({20, 0, 45}, 40, 24);
    c.before = 5;
    c.behind = 9;
    add(list, "rows_of_no_group", types, c);
    add(list, "columns_of_several_tiles", types, grouped({70, 0, 1, 190}, 600, 72));
    add(list, "odd_columns_of_several_tiles", types, grouped({70, 0, 1, 190}, 777, 72));
    c = grouped({5, 6}, 10, 0);
    c.has_bias = true;
    add(list, "k_is_0", types, c);
}

void add_layouts(std::vector<Case> &list, TypePair types) {
    const Layout columns = {.order = Order::kFortran}, inside = {.order = Order::kHeadsInside};
    GroupedCase c = grouped({33, 5, 70}, 65, 32);
    c.b_layout = inside;  // [G, N, K] is the like of it for [G, K, N]
    add(list, "b_between", types, c);
    c.b_layout = columns;
    add(list, "b_by_columns", types, c);
    c.a_layout = columns;
    add(list, "a_and_b_by_columns", types, c);
    c.b_layout = {};
    c.d_layout = columns;
    add(list, "a_and_d_by_columns", types, c);
    // Threads have a group each, and all of them the last columns of a tile.
    c = grouped({41, 43, 45, 47}, 64, 100);
    c.a_layout = c.d_layout = columns;
    add(list, "parts_of_tiles_by_columns", types, c);
    c = grouped({17, 3, 29}, 29, 40);
    c.a_layout = {.pad = 3, .offset = 1};
    c.b_layout = {.pad = 5, .offset = 3};
    c.d_layout = {.pad = 1, .offset = 1};
    add(list, "odd_leading_dimensions", types, c);
    c.a_layout = {.step = 2};
    c.b_layout = {.step = 3};
    c.d_layout = {.step = 2};
    add(list, "no_unit_stride", types, c);
    c.a_layout = {.reversed = 3};
    c.b_layout = {.reversed = 5};
    c.d_layout = {.reversed = 2};
    c.offsets_layout = {.step = 3, .reversed = 1};
    add(list, "negative_strides", types, c);
    c = grouped({17, 3, 29}, 29, 40);
    c.b_layout = {.broadcast = 1};
    add(list, "groups_of_stride_0", types, c);
    c.b_layout = {};
    c.one_b = true;
    c.has_bias = c.one_bias = true;
    add(list, "one_b_for_all", types, c);
}

void add_epilogues(std::vector<Case> &list, TypePair types) {
    GroupedCase c = grouped({13, 0, 65, 4}, 40, 48);
    c.alpha = -0.75;
    c.beta = 1.5;
    add(list, "alpha_and_beta", types, c);
    c.in_place = true;
    c.before = c.behind = 2;
    add(list, "c_is_d", types, c);
    c = grouped({13, 0, 65, 4}, 40, 48);
    c.c_given = true;
    add(list, "beta_0_reads_no_c", types, c);
    c.alpha = 0;
    c.beta = 2;
    add(list, "alpha_0_reads_no_a_b", types, c);
    c = grouped({13, 0, 65, 4}, 40, 48);
    c.has_bias = true;
    add(list, "bias", types, c);
    c.bias_layout = {.step = 2};
    c.activation = ATTILE_ACTIVATION_RELU;
    add(list, "bias_relu", types, c);
    c.beta = -0.5;
    c.activation = ATTILE_ACTIVATION_SILU;
    add(list, "bias_c_silu", types, c);
    c.has_bias = false;
    c.beta = 0;
    c.activation = ATTILE_ACTIVATION_GELU;
    add(list, "gelu", types, c);
    c.activation = ATTILE_ACTIVATION_GELU_TANH;
    c.d_layout = {.pad = 1, .offset = 1};
    add(list, "gelu_tanh_odd", types, c);
    c = grouped({70, 40, 3}, 304, 136);
    c.before = 3;
    c.beta = 0.5;
    c.has_bias = true;
    c.activation = ATTILE_ACTIVATION_RELU;
    add(list, "c_bias_relu_large", types, c);
    c.in_place = true;
    c.d_layout = {.pad = 3, .offset = 1};
    add(list, "c_is_d_odd_large", types, c);
    c = grouped({9, 20, 9}, 48, 24);
    c.special = true;
    add(list, "nan_and_infinity", types, c);
}

// Offsets that nobody should give: what they mean is defined, and memory beyond the operands is not touched.
void add_offsets(std::vector<Case> &list, TypePair types) {
    GroupedCase c = grouped({30, 30, 30, 30}, 40, 16);
    c.offsets = {0, 70, 20, 90, 120};
    add(list, "offsets_decrease", types, c);
    c.offsets = {-5, 10, 40, 200, 2147483647};
    add(list, "offsets_out_of_range", types, c);
    c.offsets = {2147483647, -2147483647, 0, 60, 120};
    add(list, "offsets_begin_beyond", types, c);
    c.offsets = {0, 120, 0, 120, 0};
    add(list, "offsets_again_and_again", types, c);
    c.offsets = {90, 60, 30, 10, 0};
    add(list, "offsets_only_decrease", types, c);
}

void add_quantised(std::vector<Case> &list) {
    for (const TypePair types : {TypePair{ATTILE_F32, ATTILE_F32}, {ATTILE_BF16, ATTILE_BF16}, {ATTILE_F16, ATTILE_F32}})
        for (const std::int32_t b : {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2}) {
            GroupedCase c = grouped({3, 0, 40, 17}, 36, 128);
            c.b_dtype = b;
            c.depth_group = 32;
            add(list, (std::string("quantised_b_") + dtype_name(b)).c_str(), types, c);
            c.depth_group = 0;
            c.b_layout = {.order = Order::kFortran};
            add(list, (std::string("quantised_b_without_scales_") + dtype_name(b)).c_str(), types, c);
            c = grouped({70, 1, 0, 130}, 256, 192);
            c.b_dtype = b;
            c.b_layout = {.order = Order::kHeadsInside};
            c.depth_group = 64;
            c.width_group = 128;
            c.has_bias = true;
            c.activation = ATTILE_ACTIVATION_SILU;
            c.beta = 0.5;
            add(list, (std::string("quantised_b_blocks_") + dtype_name(b)).c_str(), types, c);
            c = grouped({9, 4, 66}, 65, 96);
            c.b_dtype = b;
            c.depth_group = 96;
            c.width_group = 1;
            c.a_layout = {.pad = 3, .step = 2, .offset = 1};
            c.b_layout = {.pad = 1, .step = 3, .offset = 3, .reversed = 2};
            c.before = 2;
            c.behind = 5;
            add(list, (std::string("quantised_b_no_unit_stride_") + dtype_name(b)).c_str(), types, c);
            c = grouped({9, 4, 66}, 33, 77);
            c.b_dtype = b;
            c.one_b = true;
            c.d_layout = {.order = Order::kFortran};
            add(list, (std::string("quantised_b_odd_") + dtype_name(b)).c_str(), types, c);
        }
    for (const TypePair types : {TypePair{ATTILE_F32, ATTILE_F32}, {ATTILE_BF16, ATTILE_BF16}, {ATTILE_F16, ATTILE_F32}})
        for (const std::int32_t b : {ATTILE_I4, ATTILE_U4}) {
            GroupedCase c = grouped({3, 0, 40, 17}, 36, 128);
            c.b_dtype = b;
            c.depth_group = 32;
            c.width_group = 1;
            c.zeros = b == ATTILE_U4;
            add(list, (std::string("quantised_b_") + dtype_name(b)).c_str(), types, c);
            c.depth_group = 128;
            c.width_group = 0;
            c.b_layout = {.pad = 2, .offset = 2};
            c.offsets = {50, 10, 40, 33, 60};
            add(list, (std::string("quantised_b_offsets_") + dtype_name(b)).c_str(), types, c);
            c = grouped({130, 64}, 70, 33);
            c.b_dtype = b;
            add(list, (std::string("quantised_b_without_scales_") + dtype_name(b)).c_str(), types, c);
        }
}

}  // namespace

void append_grouped_cases(std::vector<Case> &list, Tier tier) {
    for (const TypePair types : kTypePairs) {
        add_shapes(list, types);
        add_layouts(list, types);
        add_epilogues(list, types);
        add_offsets(list, types);
    }
    add_quantised(list);
    GroupedCase c = grouped({40, 3, 1, 0, 77}, 72, 96);
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    add(list, "batch_invariant", kTypePairs[0], c);
    c.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
    add(list, "split_tf32", kTypePairs[0], c);
    if (tier == Tier::kFull)
        for (const TypePair types : kTypePairs) {
            add(list, "large", types, grouped({300, 0, 511, 64, 129, 1}, 520, 264));
            add(list, "rows_of_each_tile", types, grouped({9, 17, 60, 120, 143, 150, 170, 190, 200, 238, 290, 481}, 136, 72));
        }
    const std::uint64_t count = tier == Tier::kQuick ? 30 : 200;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        list.push_back({"gemm_grouped.random." + std::to_string(seed), random_grouped(seed)});
}

GroupedCase random_grouped(std::uint64_t seed) {
    Random random(seed * 8 + 7);
    GroupedCase c;
    const TypePair types = random_types(random);
    c.dtype = types.in;
    c.out_dtype = types.out;
    c.bias_dtype = random.chance(0.7) ? types.out : ATTILE_F32;
    for (std::int64_t groups = random.pick<std::int64_t>({0, 1, 2, 3, 5, 9, 20}); groups > 0; --groups)
        c.rows.push_back(random.pick<std::int64_t>({0, 0, 1, 2, 3, 7, 16, 31, 33, 64, 100, 129}));
    c.before = random.pick<std::int64_t>({0, 0, 0, 1, 6});
    c.behind = random.pick<std::int64_t>({0, 0, 0, 1, 40});
    c.n = random.pick<std::int64_t>({0, 1, 2, 3, 9, 31, 32, 33, 63, 64, 65, 97, 130});
    c.k = random.pick<std::int64_t>({0, 1, 2, 3, 9, 31, 32, 33, 63, 64, 65, 97, 130, 520});
    c.alpha = random.pick({1.0, 1.0, 0.5, -2.0, 0.0});
    c.beta = random.pick({0.0, 0.0, 1.0, -0.5});
    c.c_given = random.chance(0.3);
    c.in_place = c.beta != 0 && random.chance(0.3);
    c.has_bias = random.chance(0.4);
    c.one_bias = random.chance(0.3);
    c.one_b = random.chance(0.1);
    c.activation = static_cast<std::int32_t>(random.pick({0, 0, 0, 1, 2, 3, 4}));
    if (random.chance(0.2)) {
        const std::int64_t m = c.total_rows();
        for (std::size_t i = 0; i <= c.rows.size(); ++i) c.offsets.push_back(random.between(-m / 8 - 1, m + m / 8));
        if (random.chance(0.5)) std::sort(c.offsets.begin(), c.offsets.end());
    }
    c.a_layout = random_layout(random, 2, true);
    c.b_layout = random_layout(random, 3, true);
    c.c_layout = random_layout(random, 2, true);
    c.d_layout = random_layout(random, 2, false);
    c.bias_layout = random_layout(random, 1, true);
    c.flags = random.chance(0.2) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    c.seed = seed;
    return c;
}

std::string describe(const GroupedCase &c) {
    Words words;
    words.add("types", pair_name({c.dtype, c.out_dtype}))
        .add_unless("b_type", std::string(dtype_name(c.type_of_b())), std::string(dtype_name(c.dtype)));
    words.add("rows", shape_text(c.rows)).add_unless("before", c.before, std::int64_t{0}).add_unless("behind", c.behind, std::int64_t{0});
    words.add("n", c.n).add("k", c.k).add_unless("alpha", c.alpha, 1.0).add_unless("beta", c.beta, 0.0);
    words.add_unless("c_given", c.c_given, false).add_unless("in_place", c.in_place, false).add_unless("one_b", c.one_b, false);
    words.add_unless("activation", c.activation, 0);
    if (c.has_bias) words.add("bias_type", dtype_name(c.bias_dtype)).add_unless("one_bias", c.one_bias, false);
    words.add_unless("offsets", shape_text(c.offsets), std::string("-"));
    words.add_layout("a", c.a_layout).add_layout("b", c.b_layout).add_layout("c", c.c_layout).add_layout("d", c.d_layout);
    words.add_layout("bias", c.bias_layout).add_layout("row_offsets", c.offsets_layout).add_unless("flags", c.flags, 0u);
    words.add_unless("depth_group", c.depth_group, std::int64_t{0})
        .add_unless("width_group", c.width_group, std::int64_t{0})
        .add_unless("zeros", c.zeros, false)
        .add_unless("special", c.special, false);
    return words.add("seed", c.seed).text();
}

}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Cases of matrix multiplication: one a feature, then random ones.
#include "cases_gemm.h"

#include <tuple>

#include "case_text.h"
#include "cases.h"
#include "cases_exact.h"
#include "cases_quantised.h"

namespace attile::test {
namespace {

void add(std::vector<Case> &list, const char *name, TypePair types, GemmCase c) {
    c.dtype = types.in;
    c.out_dtype = types.out;
    c.bias_dtype = types.out;
    list.push_back({"gemm." + std::string(name) + "." + pair_name(types), c});
}

GemmCase batched(std::vector<std::int64_t> batch, std::int64_t m, std::int64_t n, std::int64_t k) {
    GemmCase c = gemm_of(m, n, k);
    c.batch = std::move(batch);
    return c;
}

Layout fortran() { return {.order = Order::kFortran}; }

void add_layouts(std::vector<Case> &list, TypePair types) {
    GemmCase c = gemm_of(33, 65, 31);
    c.a_layout = fortran();
    add(list, "a_transposed", types, c);
    c.b_layout = fortran();
    add(list, "both_transposed", types, c);
    c.d_layout = fortran();
    add(list, "all_column_major", types, c);
    c = gemm_of(33, 65, 31);
    c.b_layout = fortran();
    add(list, "b_transposed", types, c);
    c = gemm_of(17, 29, 40);
    c.a_layout = {.pad = 3, .offset = 1};
    c.b_layout = {.pad = 5, .offset = 3};
    c.d_layout = {.pad = 1, .offset = 1};
    add(list, "odd_leading_dimensions", types, c);
    c.a_layout = {.step = 2};
    c.b_layout = {.step = 3};
    c.d_layout = {.step = 2};
    add(list, "no_unit_stride", types, c);
    c.a_layout = {.reversed = 3};
    c.b_layout = {.reversed = 1};
    c.d_layout = {.reversed = 2};
    add(list, "negative_strides", types, c);
    c.a_layout = {.broadcast = 1};
    c.b_layout = {.broadcast = 2};
    c.d_layout = {};
    add(list, "rows_and_columns_of_stride_0", types, c);
    c.a_layout = {.broadcast = 2};
    add(list, "k_of_stride_0", types, c);
    c = gemm_of(1, 65, 1);
    c.a_layout = c.b_layout = c.d_layout = {.absurd_unit_stride = true};
    add(list, "absurd_strides_of_extent_1", types, c);
}

void add_scalars(std::vector<Case> &list, TypePair types) {
    GemmCase c = gemm_of(13, 21, 34);
    c.alpha = -0.75;
    c.beta = 1.5;
    add(list, "alpha_and_beta", types, c);
    c.in_place = true;
    add(list, "c_is_d", types, c);
    c.in_place = false;
    c.beta = 0;
    c.c_given = true;
    add(list, "beta_0_reads_no_c", types, c);
    c.alpha = 0;
    add(list, "alpha_0_beta_0", types, c);
    c.beta = 2;
    add(list, "alpha_0_reads_no_a_b", types, c);
    c = gemm_of(5, 6, 0);
    add(list, "k_0", types, c);
    c.beta = -1;
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    add(list, "k_0_with_beta_and_bias", types, c);
    for (const auto &[m, n] : {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 0}, {0, 0}})
        add(list, ("empty_" + std::to_string(m) + "x" + std::to_string(n)).c_str(), types, gemm_of(m, n, 3));
    add(list, "empty_batch", types, batched({0, 2}, 3, 4, 5));
}

void add_epilogues(std::vector<Case> &list, TypePair types) {
    const char *names[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
    for (std::int32_t activation = 0; activation <= ATTILE_ACTIVATION_SILU; ++activation)
        for (std::int32_t axis = 0; axis <= ATTILE_BIAS_ROWS; ++axis) {
            if (activation == 0 && axis == 0) continue;
            GemmCase c = gemm_of(19, 35, 24);
            c.activation = activation;
            c.bias_axis = axis;
            c.beta = axis == 2 ? 0.5 : 0;
            const char *axes[] = {"", "_bias_columns", "_bias_rows"};
            add(list, (std::string("epilogue_") + names[activation] + axes[axis]).c_str(), types, c);
        }
}

// A depth of several blocks, whose ends differ: c, bias and activation count once.
void add_deep_epilogue(std::vector<Case> &list, TypePair types) {
    GemmCase c = gemm_of(40, 70, 1100);
    c.alpha = 0.5;
    c.beta = -0.75;
    add(list, "deep_beta", types, c);
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    c.activation = ATTILE_ACTIVATION_RELU;
    add(list, "deep_beta_bias_relu", types, c);
}

// Few outputs and a long depth, which devices of many units share out: the epilogue is then the business of what adds the parts.
void add_split_epilogues(std::vector<Case> &list) {
    GemmCase c;
    for (const std::int32_t type : {ATTILE_F16, ATTILE_BF16}) {
        c = gemm_of(128, 128, 697);
        c.activation = ATTILE_ACTIVATION_GELU;
        add(list, "split_gelu", {type, ATTILE_F32}, c);
        c.activation = ATTILE_ACTIVATION_NONE;
        c.bias_axis = ATTILE_BIAS_COLUMNS;
        add(list, "split_bias_columns", {type, ATTILE_F32}, c);
        c.bias_axis = ATTILE_BIAS_ROWS;
        c.n -= 3;
        add(list, "split_bias_rows", {type, ATTILE_F32}, c);
        c.d_layout = fortran();
        c.activation = ATTILE_ACTIVATION_SILU;
        add(list, "split_bias_rows_silu_column_major", {type, ATTILE_F32}, c);
    }
    // Smaller products of float32 are left to ordinary arithmetic.
    c = gemm_of(283, 605, 1024);
    c.batch = {1};
    c.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
    c.activation = ATTILE_ACTIVATION_RELU;
    add(list, "split_relu", kTypePairs[0], c);
    c = gemm_of(136, 496, 1000);
    c.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    add(list, "split_bias_columns", kTypePairs[0], c);
}

// Some more than 128 rows beside many columns, which fill 132 multiprocessors or 16: kernels may have tiles of their own for these.
void add_some_rows(std::vector<Case> &list) {
    for (const std::int32_t type : {ATTILE_F16, ATTILE_BF16})
        for (const std::int64_t n : {8504, 1032}) {
            const std::string name = "some_rows_" + std::to_string(n);
            GemmCase c = gemm_of(190, n, 520);
            add(list, name.c_str(), {type, type}, c);
            add(list, name.c_str(), {type, ATTILE_F32}, c);
            c.a_layout = fortran();
            add(list, (name + "_a_turned").c_str(), {type, type}, c);
            c.b_layout = fortran();
            add(list, (name + "_both_turned").c_str(), {type, type}, c);
            c.a_layout = {};
            c.bias_axis = ATTILE_BIAS_COLUMNS;
            c.activation = ATTILE_ACTIVATION_GELU;
            add(list, (name + "_b_turned_bias_gelu").c_str(), {type, type}, c);
            c.bias_axis = ATTILE_BIAS_ROWS;
            c.beta = -0.75;
            c.n -= 3;
            add(list, (name + "_odd_bias_gelu_beta").c_str(), {type, type}, c);
            c.in_place = true;
            add(list, (name + "_odd_bias_gelu_in_place").c_str(), {type, type}, c);
            c.activation = ATTILE_ACTIVATION_RELU;
            add(list, (name + "_odd_bias_relu_in_place").c_str(), {type, ATTILE_F32}, c);
            c = gemm_of(190, n, 520);
            c.beta = 2;
            c.c_layout = {.pad = 1, .offset = 1};
            add(list, (name + "_c_at_odd_places").c_str(), {type, type}, c);
            add(list, (name + "_c_at_odd_places").c_str(), {type, ATTILE_F32}, c);
            c = gemm_of(190, n / 8, 2000);
            add(list, (name + "_deep").c_str(), {type, type}, c);
        }
}

// Some tiles of much depth, more than a device of 16 multiprocessors makes at a time or fewer: kernels may cut the last of them along the
// depth.
void add_some_tiles(std::vector<Case> &list) {
    // Of float64 more tiles of 64 by 64 than two rounds of 132 multiprocessors.
    const TypePair f64 = {ATTILE_F64, ATTILE_F64};
    for (const bool turns_a : {false, true})
        for (const bool turns_b : {false, true}) {
            GemmCase c = gemm_of(1030, 1090, 40);
            if (turns_a) c.a_layout = fortran();
            if (turns_b) c.b_layout = fortran();
            add(list, ("some_tiles_layout_" + std::to_string(turns_a) + std::to_string(turns_b)).c_str(), f64, c);
        }
    for (const std::int32_t type : {ATTILE_F16, ATTILE_BF16}) {
        GemmCase c = gemm_of(190, 520, 3304);
        add(list, "some_tiles", {type, type}, c);
        add(list, "some_tiles", {type, ATTILE_F32}, c);
        c.b_layout = fortran();
        c.bias_axis = ATTILE_BIAS_COLUMNS;
        c.activation = ATTILE_ACTIVATION_GELU;
        c.beta = 0.5;
        add(list, "some_tiles_bias_gelu_beta", {type, type}, c);
        c.n -= 3;
        c.bias_axis = ATTILE_BIAS_ROWS;
        add(list, "some_tiles_odd_bias_gelu_beta", {type, type}, c);
        add(list, "some_tiles_a_shared", {type, type}, gemm_of(260, 200, 4200));
        add(list, "some_tiles_more", {type, type}, gemm_of(130, 2056, 2104));
        c = gemm_of(130, 2056, 2104);
        c.d_layout = fortran();
        add(list, "some_tiles_d_by_columns", {type, type}, c);
    }
}

void add_batches(std::vector<Case> &list, TypePair types) {
    add(list, "batch", types, batched({3}, 9, 10, 11));
    add(list, "batch_of_two_axes", types, batched({2, 3}, 9, 10, 11));
    GemmCase c = batched({2, 3}, 9, 10, 11);
    c.b_form = BatchForm::kMissing;
    c.beta = 1;
    c.c_form = BatchForm::kUnit;
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    c.bias_form = BatchForm::kMissing;
    add(list, "batch_shares_b_c_and_bias", types, c);
    c.b_form = BatchForm::kFull;
    c.b_layout = {.broadcast = 1};
    c.a_form = BatchForm::kUnit;
    c.bias_axis = ATTILE_BIAS_ROWS;
    c.bias_form = BatchForm::kFull;
    add(list, "batch_by_stride_0", types, c);
    c = batched({4, 3}, 5, 6, 7);
    c.a_layout = c.b_layout = c.d_layout = {.order = Order::kHeadsInside, .pad = 2};
    add(list, "batch_axis_inside", types, c);
    // So many that a GPU may give a warp to each.
    add(list, "batch_of_many", types, batched({9, 8}, 15, 24, 40));
    c = batched({8, 9}, 32, 16, 32);
    c.b_form = BatchForm::kMissing;
    add(list, "batch_of_many_shares_b", types, c);
    c = batched({8, 9}, 7, 8, 16);
    c.a_layout = c.b_layout = c.d_layout = {.order = Order::kHeadsInside, .pad = 8};
    add(list, "batch_of_many_inside", types, c);
}

void add_numbers(std::vector<Case> &list, TypePair types) {
    for (const auto &[name, pattern] : {std::pair{"growing_sums", GemmPattern::kPositive},
                                        {"cancelling_sums", GemmPattern::kAlternating},
                                        {"nan_and_infinity", GemmPattern::kSpecial},
                                        {"subnormal_results", GemmPattern::kSubnormal}}) {
        GemmCase c = gemm_of(9, 33, 257);
        c.pattern = pattern;
        add(list, name, types, c);
    }
    // Activations of what is no number: few rows, a small product, and one of many tiles.
    for (const auto &[m, n, k] : {std::tuple<int, int, int>{4, 65, 40}, {19, 35, 24}, {140, 130, 300}})
        for (std::int32_t activation = ATTILE_ACTIVATION_RELU; activation <= ATTILE_ACTIVATION_SILU; ++activation) {
            GemmCase c = gemm_of(m, n, k);
            c.pattern = GemmPattern::kSpecial;
            c.activation = activation;
            c.bias_axis = activation % 2 == 0 ? ATTILE_BIAS_COLUMNS : ATTILE_BIAS_NONE;
            add(list, ("nan_and_infinity_activation_" + std::to_string(activation) + "_" + std::to_string(m) + "_rows").c_str(), types, c);
        }
    // Sums of very many terms of one sign: few rows and many, and vectors alone.
    if (types.in != ATTILE_F32) return;
    for (const auto &[m, n, k] :
         {std::tuple<int, int, int>{1, 1, 300'001}, {1, 20, 150'000}, {2, 20, 150'000}, {8, 40, 30'001}, {40, 40, 30'001}})
        for (const Order order : {Order::kRowMajor, Order::kFortran}) {
            GemmCase c = gemm_of(m, n, k);
            c.pattern = GemmPattern::kPositive;
            c.b_layout = {.order = order};
            add(list,
                ("long_sums_" + std::to_string(m) + "x" + std::to_string(n) + (order == Order::kFortran ? "_b_by_columns" : "")).c_str(),
                types, c);
        }
}

void add_shapes(std::vector<Case> &list, TypePair types, Tier tier) {
    struct Shape {
        std::int64_t m, n, k;
    };
    for (const Shape s : {Shape{1, 1, 1},
                          {1, 1025, 33},
                          {1025, 1, 33},
                          {1, 1, 1025},
                          {64, 64, 64},
                          {65, 63, 97},
                          {128, 128, 8},
                          {2, 3, 5},
                          {1, 36, 1025},
                          {3, 100, 513},
                          {8, 44, 600},
                          {12, 1000, 256}})  // Few rows, and whole vectors of columns but no whole tiles.
        add(list, (std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k)).c_str(), types, gemm_of(s.m, s.n, s.k));
    if (tier == Tier::kFull)
        for (const Shape s : {Shape{129, 127, 130}, {256, 256, 256}, {31, 513, 1025}, {7, 9, 8192}})
            add(list, (std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k)).c_str(), types, gemm_of(s.m, s.n, s.k));
}

const char *form_name(BatchForm form) { return form == BatchForm::kFull ? "full" : form == BatchForm::kUnit ? "unit" : "missing"; }

}  // namespace

void append_gemm_cases(std::vector<Case> &list, Tier tier) {
    for (const TypePair types : kTypePairs) {
        add_shapes(list, types, tier);
        add_scalars(list, types);
        add_layouts(list, types);
        add_epilogues(list, types);
        add_deep_epilogue(list, types);
        add_batches(list, types);
        add_numbers(list, types);
    }
    add_split_epilogues(list);
    if (tier == Tier::kFull) add_some_rows(list);
    if (tier == Tier::kFull) add_some_tiles(list);
    GemmCase c = gemm_of(33, 17, 40);
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    add(list, "batch_invariant", kTypePairs[0], c);
    c.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
    add(list, "split_tf32", kTypePairs[0], c);
    c.flags = 0;
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    for (const std::int32_t type : {ATTILE_F16, ATTILE_BF16, ATTILE_F64}) {
        add(list, "bias_in_f32", {type, type}, c);
        std::get<GemmCase>(list.back().problem).bias_dtype = ATTILE_F32;
    }
    // All but the largest shapes would do without tensor cores, were the choice not to be the same for any number of rows.
    if (tier == Tier::kFull)
        add_again<GemmCase>(list, 0, kTypePairs[0], "split_tf32", ATTILE_FLAG_ALLOW_SPLIT_TF32 | ATTILE_FLAG_BATCH_INVARIANT);
    const std::uint64_t count = tier == Tier::kQuick ? 40 : 300;
    for (std::uint64_t seed = 1; seed <= count; ++seed) list.push_back({"gemm.random." + std::to_string(seed), random_gemm(seed)});
    append_quantised_cases(list, tier);
    append_narrow_products(list, tier);
    append_exact_cases(list, tier);
}

GemmCase random_gemm(std::uint64_t seed) {
    Random random(seed * 8 + 1);
    const auto extent = [&] { return random.pick<std::int64_t>({0, 1, 2, 3, 5, 9, 31, 32, 33, 63, 64, 65, 97, 1025}); };
    GemmCase c;
    const TypePair types = random_types(random);
    c.dtype = types.in;
    c.out_dtype = types.out;
    c.bias_dtype = random.chance(0.7) ? types.out : ATTILE_F32;
    for (std::int64_t rank = random.pick<std::int64_t>({0, 0, 0, 1, 1, 2}); rank > 0; --rank)
        c.batch.push_back(random.pick<std::int64_t>({1, 2, 3, 5}));
    c.m = extent();
    c.n = extent();
    c.k = extent();
    while (c.m * c.n * c.k > 4'000'000) (c.m > c.n ? c.m : c.n) /= 4;
    if (c.m * c.n * c.k > 300'000) c.batch.clear();
    c.alpha = random.pick({1.0, 1.0, 0.5, -2.0, 0.0});
    c.beta = random.pick({0.0, 0.0, 1.0, -0.5});
    c.c_given = random.chance(0.3);
    c.in_place = c.beta != 0 && random.chance(0.3);
    c.bias_axis = static_cast<std::int32_t>(random.pick({0, 0, 1, 2}));
    c.activation = static_cast<std::int32_t>(random.pick({0, 0, 0, 1, 2, 3, 4}));
    const auto form = [&] { return random.pick({BatchForm::kFull, BatchForm::kFull, BatchForm::kUnit, BatchForm::kMissing}); };
    c.a_form = form();
    c.b_form = form();
    c.c_form = c.in_place ? BatchForm::kFull : form();
    c.bias_form = form();
    const int rank = 2;  // layout bits beyond the rank an operand turns out to have do nothing
    c.a_layout = random_layout(random, rank, true);
    c.b_layout = random_layout(random, rank, true);
    c.c_layout = random_layout(random, rank, true);
    c.d_layout = random_layout(random, rank, false);
    c.bias_layout = random_layout(random, 1, true);
    c.pattern = random.pick({GemmPattern::kNormal, GemmPattern::kNormal, GemmPattern::kPositive, GemmPattern::kAlternating});
    c.flags = random.chance(0.2) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    if (random.chance(0.3)) c.flags |= ATTILE_FLAG_ALLOW_SPLIT_TF32;
    c.seed = seed;
    return c;
}

std::string describe(const GemmCase &c) {
    Words words;
    words.add("types", pair_name({c.dtype, c.out_dtype}))
        .add_unless("b_type", std::string(dtype_name(c.type_of_b())), std::string(dtype_name(c.dtype)))
        .add_unless("batch", shape_text(c.batch), std::string("-"));
    words.add("m", c.m).add("n", c.n).add("k", c.k).add_unless("alpha", c.alpha, 1.0).add_unless("beta", c.beta, 0.0);
    words.add_unless("c_given", c.c_given, false).add_unless("in_place", c.in_place, false);
    words.add_unless("bias_axis", c.bias_axis, 0).add_unless("activation", c.activation, 0);
    if (c.bias_axis != 0) words.add("bias_type", dtype_name(c.bias_dtype));
    if (!c.batch.empty())
        words.add("forms_abc_bias",
                  std::string(form_name(c.a_form)) + "," + form_name(c.b_form) + "," + form_name(c.c_form) + "," + form_name(c.bias_form));
    words.add_layout("a", c.a_layout).add_layout("b", c.b_layout).add_layout("c", c.c_layout).add_layout("d", c.d_layout);
    words.add_layout("bias", c.bias_layout).add_unless("flags", c.flags, 0u);
    for (const auto &[name, scales] : {std::pair{"a_scales", &c.a_scales}, {"b_scales", &c.b_scales}}) {
        if (!scales->given) continue;
        words.add(name, std::to_string(scales->depth) + "," + std::to_string(scales->width) + "," + form_name(scales->form));
        words.add_layout((std::string(name) + "_layout").c_str(), scales->layout);
    }
    if (c.d_scales.given)
        words.add("d_scales", std::to_string(c.d_scales.axes) + "/" + std::to_string(c.d_scales.rank))
            .add_layout("d_scale", c.d_scales.layout);
    words.add_unless("pattern", static_cast<int>(c.pattern), 0).add("seed", c.seed);
    return words.text();
}

}  // namespace attile::test

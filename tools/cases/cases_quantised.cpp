// SPDX-License-Identifier: Apache-2.0
#include "cases_quantised.h"

#include <string>
#include <tuple>
#include <utility>

#include "case_text.h"
#include "cases_gemm.h"

namespace attile::test {
namespace {

// Types of a, b and the result.
struct Types {
    std::int32_t a, b, out;
};
constexpr Types kTypes[] = {
    {ATTILE_F32, ATTILE_I8, ATTILE_F32},          {ATTILE_F32, ATTILE_F8_E4M3, ATTILE_F32},     {ATTILE_BF16, ATTILE_I8, ATTILE_BF16},
    {ATTILE_F16, ATTILE_F8_E5M2, ATTILE_F32},     {ATTILE_I8, ATTILE_I8, ATTILE_F32},           {ATTILE_I8, ATTILE_I8, ATTILE_BF16},
    {ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_F32}, {ATTILE_F8_E5M2, ATTILE_F8_E4M3, ATTILE_F16},
};

void set_types(GemmCase &c, const Types &types) {
    c.dtype = types.a;
    c.b_dtype = types.b == types.a ? 0 : types.b;
    c.out_dtype = c.bias_dtype = types.out;
}

std::string name_of(const Types &types) {
    std::string name = dtype_name(types.a);
    if (types.b != types.a) name += std::string("_") + dtype_name(types.b);
    if (types.out != types.a) name += std::string("_") + dtype_name(types.out);
    return name;
}

void add(std::vector<Case> &list, const std::string &name, const Types &types, GemmCase c) {
    set_types(c, types);
    list.push_back({"gemm.quantised_" + name + "." + name_of(types), std::move(c)});
}

// Of the operands that can have them.
void give_scales(GemmCase &c, const Types &types, std::int64_t depth, std::int64_t a_width, std::int64_t b_width) {
    if (is_quantised(types.a)) c.a_scales = {.given = true, .depth = depth, .width = a_width};
    c.b_scales = {.given = true, .depth = depth, .width = b_width};
}

// Each shape and layout is a path: few rows, few columns, many of both, depths of several pieces.
void add_paths(std::vector<Case> &list, const Types &types) {
    const Layout fortran = {.order = Order::kFortran};
    struct Shape {
        std::int64_t m, n, k;
    };
    for (const Shape s : {Shape{1, 300, 192}, {3, 200, 256}, {7, 130, 160}, {33, 65, 96}, {70, 150, 640}, {150, 3, 128}}) {
        const std::string size = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
        GemmCase c = gemm_of(s.m, s.n, s.k);
        give_scales(c, types, 0, 1, 1);
        add(list, size, types, c);
        give_scales(c, types, 32, 1, 1);
        if (s.m > 1 && s.m < 16) add(list, size + "_groups", types, c);
        c.b_layout = fortran;
        c.b_scales.layout = fortran;
        add(list, size + "_b_by_columns_groups", types, c);
    }
    if (!is_quantised(types.a)) {
        // Few rows, depths of many pieces for each of the warps that share them, and columns that fill a large device.
        GemmCase c = gemm_of(5, 70, 4192);
        c.b_layout = c.b_scales.layout = fortran;
        give_scales(c, types, 32, 1, 1);
        add(list, "few_deep_groups", types, c);
        c = gemm_of(12, 40, 4192);
        c.b_layout = fortran;
        give_scales(c, types, 0, 1, 1);
        add(list, "few_deep", types, c);
        c = gemm_of(9, 8200, 96);
        c.b_layout = fortran;
        give_scales(c, types, 0, 1, 1);
        add(list, "few_wide", types, c);
    }
    add(list, "odd", types, gemm_of(5, 37, 67));
    add(list, "odd_deep", types, gemm_of(13, 40, 2307));
    add(list, "k_0", types, gemm_of(5, 6, 0));
}

void add_scales(std::vector<Case> &list, const Types &types) {
    GemmCase c = gemm_of(4, 256, 256);
    give_scales(c, types, 128, 1, 128);
    add(list, "blocks", types, c);
    c = gemm_of(128, 128, 192);
    give_scales(c, types, 64, 0, 128);
    add(list, "groups_of_64", types, c);
    if (is_quantised(types.a)) {
        c.a_scales.depth = 32;
        c.b_scales.depth = 0;
        add(list, "groups_that_differ", types, c);
        c.b_scales.given = false;
        add(list, "a_alone", types, c);
    }
    c = gemm_of(20, 36, 64);
    give_scales(c, types, 0, 0, 0);
    c.batch = {2, 3};
    c.b_form = BatchForm::kMissing;
    c.a_scales.form = BatchForm::kFull;
    c.alpha = -0.75;
    c.beta = 0.5;
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    c.activation = ATTILE_ACTIVATION_GELU;
    add(list, "batch_beta_bias_gelu", types, c);
    c.d_layout = {.order = Order::kFortran};
    c.bias_axis = ATTILE_BIAS_ROWS;
    c.b_form = c.b_scales.form = BatchForm::kFull;
    add(list, "batch_d_by_columns", types, c);
    c = gemm_of(9, 33, 96);
    give_scales(c, types, 32, 1, 1);
    c.a_layout = {.pad = 3, .step = 2, .offset = 1};
    c.b_layout = {.pad = 1, .step = 3, .offset = 3, .reversed = 1};
    c.b_scales.layout = {.step = 2, .reversed = 2};
    add(list, "no_unit_stride", types, c);
    c.b_layout = {};
    c.alpha = 0;
    c.beta = 2;
    add(list, "alpha_0_reads_no_scales", types, c);
    if (types.a == ATTILE_I8) return;
    for (const std::int64_t m : {4, 40}) {
        c = gemm_of(m, 70, 96);
        c.pattern = GemmPattern::kSpecial;
        give_scales(c, types, 32, 1, 1);
        add(list, "nan_and_infinity_" + std::to_string(m) + "_rows", types, c);
    }
}

// Sums that are as large as they can be, and as they are.
void add_integer_sums(std::vector<Case> &list) {
    constexpr Types kExact = {ATTILE_I8, ATTILE_I8, ATTILE_I32};
    for (const auto &[m, n, k] : {std::tuple<int, int, int>{1, 1, 1}, {1, 40, 131'071}, {5, 37, 67}, {70, 150, 640}, {33, 65, 4100}}) {
        GemmCase c = gemm_of(m, n, k);
        add(list, "sums_" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k), kExact, c);
    }
    GemmCase c = gemm_of(20, 36, 64);
    c.batch = {2, 3};
    c.a_layout = c.d_layout = {.order = Order::kFortran};
    c.b_layout = {.pad = 5, .offset = 3};
    add(list, "sums_batch_by_columns", kExact, c);
    add(list, "sums_k_0", kExact, gemm_of(5, 6, 0));
    c = gemm_of(3, 17, 131'071);
    c.pattern = GemmPattern::kLowest;
    add(list, "largest_sums", kExact, c);
    // More than an int32 holds: sums of parts.
    c.k = 140'000;
    add(list, "beyond_int32", {ATTILE_I8, ATTILE_I8, ATTILE_F32}, c);
}

// Sums that may lose bits: tiles that are full and not, scales of rows and columns, blocks, all that follows, and what is rewritten first.
void add_fast_sums(std::vector<Case> &list, const Types &types) {
    const auto add_fast = [&](const std::string &name, GemmCase c) {
        set_types(c, types);
        c.flags |= ATTILE_FLAG_FAST_ACCUMULATION;
        list.push_back({"gemm.fast_" + name + "." + name_of(types), std::move(c)});
    };
    const Layout fortran = {.order = Order::kFortran};
    const auto rows_along_depth = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
        GemmCase c = gemm_of(m, n, k);
        c.b_layout = fortran;
        return c;
    };
    struct Shape {
        std::int64_t m, n, k;
    };
    for (const Shape s : {Shape{1, 40, 64}, {7, 130, 160}, {129, 66, 16}, {70, 150, 640}, {140, 264, 144}, {200, 300, 272}}) {
        const std::string size = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
        GemmCase c = rows_along_depth(s.m, s.n, s.k);
        add_fast(size, c);
        give_scales(c, types, 0, 1, 1);
        add_fast(size + "_scales", c);
    }
    GemmCase c = rows_along_depth(128, 128, 128);
    give_scales(c, types, 0, 0, 128);
    add_fast("scales_of_all_and_of_128_columns", c);
    c = rows_along_depth(40, 50, 2048);
    c.pattern = GemmPattern::kPositive;
    add_fast("positive_deep", c);
    c = rows_along_depth(40, 72, 4160);  // Deep enough to be cut into parts.
    give_scales(c, types, 0, 1, 1);
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    add_fast("deep_scales_bias", c);
    c = rows_along_depth(130, 72, 96);
    give_scales(c, types, 0, 1, 1);
    c.alpha = -0.75;
    c.beta = 0.5;
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    c.activation = ATTILE_ACTIVATION_RELU;
    add_fast("beta_bias_relu", c);
    c.activation = ATTILE_ACTIVATION_GELU;
    c.bias_axis = ATTILE_BIAS_ROWS;
    c.in_place = true;
    add_fast("in_place_gelu", c);
    c.d_layout = c.a_scales.layout = fortran;
    add_fast("d_by_columns", c);
    c = rows_along_depth(33, 65, 96);
    c.a_layout = {.pad = 16};
    c.d_layout = {.pad = 3, .offset = 1};
    give_scales(c, types, 0, 1, 0);
    add_fast("unaligned_d", c);
    c.a_layout = {.pad = 1, .offset = 3};
    add_fast("unaligned_a", c);
    c = rows_along_depth(40, 136, 64);
    c.batch = {2, 3};
    c.b_form = BatchForm::kMissing;
    add_fast("batch", c);
    give_scales(c, types, 0, 1, 1);
    add_fast("batch_scales", c);
    c = gemm_of(70, 150, 163);
    give_scales(c, types, 0, 1, 1);
    add_fast("b_by_columns", c);
    c.flags |= ATTILE_FLAG_BATCH_INVARIANT;
    add_fast("invariant", c);
    c = rows_along_depth(40, 70, 96);
    c.pattern = GemmPattern::kSpecial;
    give_scales(c, types, 0, 1, 1);
    add_fast("nan_and_infinity", c);
    c = rows_along_depth(40, 24, 96);
    c.batch = {2, 3};
    give_scales(c, types, 0, 1, 1);
    c.a_scales.form = c.b_scales.form = BatchForm::kFull;
    c.beta = 0.5;
    c.bias_axis = ATTILE_BIAS_ROWS;
    c.flags |= ATTILE_FLAG_BATCH_INVARIANT;
    add_fast("batch_of_scales", c);
    if (types.a != ATTILE_F8_E4M3) return;
    // Scales along the depth: of each column, of 128 of them, and of one operand alone; an even number of groups, an odd one, and parts.
    c = rows_along_depth(150, 264, 256);
    give_scales(c, types, 128, 1, 1);
    add_fast("groups", c);
    c.pattern = GemmPattern::kSpecial;
    add_fast("groups_nan", c);
    c.pattern = GemmPattern::kNormal;
    c.d_layout = fortran;
    add_fast("groups_d_by_columns", c);
    c = rows_along_depth(70, 384, 640);
    give_scales(c, types, 128, 1, 128);
    add_fast("groups_blocks", c);
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    c.beta = -0.5;
    c.activation = ATTILE_ACTIVATION_RELU;
    add_fast("groups_blocks_beta_bias_relu", c);
    c.a_scales.depth = 0;
    add_fast("groups_of_b", c);
    c.a_scales.depth = 128;
    c.b_scales = {};
    add_fast("groups_of_a", c);
    c = rows_along_depth(40, 128, 4224);
    give_scales(c, types, 128, 1, 128);
    c.a_scales.layout = fortran;
    add_fast("groups_deep", c);
    c = rows_along_depth(30, 128, 256);
    c.batch = {2};
    give_scales(c, types, 128, 1, 128);
    c.a_scales.form = BatchForm::kFull;
    add_fast("groups_batch", c);
    c = rows_along_depth(256, 130, 256);
    give_scales(c, types, 128, 128, 0);
    add_fast("groups_of_rows", c);
    c = rows_along_depth(20, 36, 128);
    c.k = 192;
    give_scales(c, types, 64, 1, 1);
    add_fast("groups_of_64", c);
}

template <std::int32_t kA, std::int32_t kB, std::int32_t kOut>
CaseOption types(const char *name) {
    return {name,
            [](const Case &c) {
                const auto &g = std::get<GemmCase>(c.problem);
                return g.dtype == kA && g.type_of_b() == kB && g.out_dtype == kOut;
            },
            [](Case &c) {
                set_types(std::get<GemmCase>(c.problem), {kA, kB, kOut});
                return true;
            }};
}

template <std::int32_t kB>
CaseOption weights(const char *name) {
    return {name, [](const Case &c) { return std::get<GemmCase>(c.problem).b_dtype == kB; },
            [](Case &c) {
                auto &g = std::get<GemmCase>(c.problem);
                if (g.dtype == ATTILE_F64 || is_quantised(g.dtype)) return false;
                g.b_dtype = kB;
                return true;
            }};
}

CaseOption fast_accumulation() {
    return {"fast", [](const Case &c) { return (std::get<GemmCase>(c.problem).flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0; },
            [](Case &c) {
                auto &g = std::get<GemmCase>(c.problem);
                if (!is_float8(g.dtype)) return false;
                g.flags |= ATTILE_FLAG_FAST_ACCUMULATION;
                return true;
            }};
}

template <std::int64_t kDepth, std::int64_t kWidth>
CaseOption scales(const char *name) {
    return {name,
            [](const Case &c) {
                const GemmScales &s = std::get<GemmCase>(c.problem).b_scales;
                return s.given && s.depth == kDepth && s.width == kWidth;
            },
            [](Case &c) {
                auto &g = std::get<GemmCase>(c.problem);
                if (!is_quantised(g.type_of_b()) || g.out_dtype == ATTILE_I32) return false;
                if ((kDepth != 0 && g.k % kDepth != 0) || (kWidth > 1 && g.n % kWidth != 0)) return false;
                g.b_scales = {.given = true, .depth = kDepth, .width = kWidth};
                return true;
            }};
}

}  // namespace

void append_quantised_cases(std::vector<Case> &list, Tier tier) {
    for (const Types &types : kTypes) {
        add_paths(list, types);
        add_scales(list, types);
    }
    add_integer_sums(list);
    for (const std::int32_t out : {ATTILE_F32, ATTILE_F16, ATTILE_BF16}) add_fast_sums(list, {ATTILE_F8_E4M3, ATTILE_F8_E4M3, out});
    add_fast_sums(list, {ATTILE_F8_E5M2, ATTILE_F8_E4M3, ATTILE_BF16});
    const std::uint64_t count = tier == Tier::kQuick ? 40 : 200;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        list.push_back({"gemm.random_quantised." + std::to_string(seed), random_quantised_gemm(seed)});
}

GemmCase random_quantised_gemm(std::uint64_t seed) {
    Random random(seed * 8 + 5);
    GemmCase c = random_gemm(seed * 31 + 7);
    const Types types = kTypes[random.between(0, 7)];
    set_types(c, types);
    c.alpha = c.alpha == 0 ? 1 : c.alpha;
    const auto round_down = [](std::int64_t extent, std::int64_t group) { return group > 1 ? extent / group * group : extent; };
    const std::int64_t depth = random.pick<std::int64_t>({0, 0, 32, 64, 128}), width = random.pick<std::int64_t>({0, 1, 1, 128});
    c.k = round_down(c.k, depth);
    if (width == 128) c.n = round_down(c.n, 128);
    give_scales(c, types, depth, random.pick<std::int64_t>({0, 1}), width);
    c.b_scales.given = random.chance(0.8);
    c.b_scales.layout = random_layout(random, 2, true);
    c.a_scales.layout = random_layout(random, 2, true);
    return c;
}

std::vector<CaseOption> quantised_options() {
    return {
        weights<ATTILE_I8>("weights_i8"),
        weights<ATTILE_F8_E4M3>("weights_e4m3"),
        weights<ATTILE_F8_E5M2>("weights_e5m2"),
        types<ATTILE_I8, ATTILE_I8, ATTILE_I32>("i8_i32"),
        types<ATTILE_I8, ATTILE_I8, ATTILE_F32>("i8"),
        types<ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_BF16>("e4m3"),
        types<ATTILE_F8_E5M2, ATTILE_F8_E5M2, ATTILE_F32>("e5m2"),
        scales<0, 1>("scales_of_columns"),
        scales<32, 1>("scales_of_groups"),
        scales<128, 128>("scales_of_blocks"),
        fast_accumulation(),
    };
}

}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
#include "cases_exact.h"

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "case_text.h"
#include "cases_gemm.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr double kMostExact = 150000;  // Multiply-adds.

void add(std::vector<Case> &list, const std::string &name, std::int32_t dtype, GemmCase c) {
    c.dtype = c.out_dtype = c.bias_dtype = dtype;
    c.flags |= ATTILE_FLAG_EXACT_PRODUCTS;
    list.push_back({"gemm.exact_" + name + "." + dtype_name(dtype), std::move(c)});
}

// Few and many of each extent; depths of several sums, and without a whole place at their end.
void add_shapes(std::vector<Case> &list, std::int32_t dtype) {
    struct Shape {
        std::int64_t m, n, k;
    };
    for (const Shape s : {Shape{1, 1, 1},
                          {1, 300, 70},
                          {3, 200, 530},
                          {150, 2, 131},
                          {33, 65, 31},
                          {97, 130, 257},
                          {110, 70, 1030},
                          {70, 9, 5001},
                          {5, 6, 0},
                          {0, 5, 4}})
        add(list, std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k), dtype, gemm_of(s.m, s.n, s.k));
}

void add_numbers(std::vector<Case> &list, std::int32_t dtype) {
    using P = GemmPattern;
    for (const auto &[name, pattern] : {std::pair{"spread", P::kSpread},
                                        {"cancelling", P::kCancelling},
                                        {"integers", P::kIntegers},
                                        {"special", P::kSpecial},
                                        {"integers_by_spread", P::kIntegersBySpread},
                                        {"ties", P::kTies},
                                        {"tiny", P::kTiny},
                                        {"subnormal", P::kSubnormal},
                                        {"positive", P::kPositive}})
        for (const std::int64_t n : {7, 70}) {
            GemmCase c = gemm_of(60, n, 90);
            c.pattern = pattern;
            add(list, std::string(name) + (n < 60 ? "_few" : ""), dtype, c);
        }
    for (const auto &[name, pattern] : {std::pair{"ties", P::kTies}, {"tiny", P::kTiny}, {"special", P::kSpecial}}) {
        GemmCase c = gemm_of(7, 5, 6);
        c.pattern = pattern;
        add(list, std::string(name) + "_7x5x6", dtype, c);
    }
    GemmCase c = gemm_of(70, 66, 1100);
    c.pattern = P::kCancelling;
    add(list, "cancelling_deep", dtype, c);
}

void add_layouts(std::vector<Case> &list, std::int32_t dtype) {
    const Layout fortran = {.order = Order::kFortran};
    GemmCase c = gemm_of(40, 66, 70);
    c.a_layout = fortran;
    add(list, "a_by_columns", dtype, c);
    c.b_layout = c.d_layout = fortran;
    c.beta = 0.5;
    c.bias_axis = ATTILE_BIAS_ROWS;
    add(list, "all_by_columns_beta_bias", dtype, c);
    c = gemm_of(40, 66, 70);
    c.a_layout = {.pad = 3, .step = 2, .offset = 1};
    c.b_layout = {.pad = 1, .step = 3, .offset = 3, .reversed = 1};
    c.d_layout = {.step = 2, .reversed = 2};
    c.alpha = -0.7;
    c.beta = 1.3;
    c.activation = ATTILE_ACTIVATION_RELU;
    add(list, "no_unit_stride_relu", dtype, c);
    c = gemm_of(36, 40, 50);
    c.batch = {2, 3};
    c.b_form = BatchForm::kMissing;
    c.bias_axis = ATTILE_BIAS_COLUMNS;
    add(list, "batch_bias", dtype, c);
    c.batch = {9};
    c.alpha = 3;
    c.beta = 1;
    c.in_place = true;
    c.b_form = BatchForm::kFull;
    add(list, "batch_c_is_d", dtype, c);
    c = gemm_of(20, 30, 40);
    c.alpha = 0;
    c.beta = -2;
    add(list, "alpha_0", dtype, c);
    c = gemm_of(20, 30, 40);
    c.c_given = true;
    add(list, "c_unread", dtype, c);
}

// Of attention those that exact products are for, and that plain loops do not take long for.
bool has_exact(const Case &c) {
    const AttentionCase *const attention = std::get_if<AttentionCase>(&c.problem);
    if (attention == nullptr) return true;
    const AttentionCase &a = *attention;
    const bool is_of_one_type = a.out_dtype == a.dtype && a.q_storage.dtype == 0 && a.k_storage.dtype == 0 && a.v_storage.dtype == 0;
    return (a.dtype == ATTILE_F64 || a.dtype == ATTILE_F32) && is_of_one_type && a.softcap == 0 &&
           (a.flags & ATTILE_FLAG_FAST_ACCUMULATION) == 0 && multiply_adds(c) < kMostExact;
}

// Rows of numbers that sums in another order would show in.
void add_rows(std::vector<Case> &list, const std::string &operation, const std::string &name, std::vector<std::int64_t> shape,
              std::int32_t axis, RowPattern pattern) {
    for (const TypePair types : kTypePairs) {
        const std::string id = operation + ".exact_" + name + "." + pair_name(types);
        if (operation == "softmax") {
            list.push_back({id, SoftmaxCase{.dtype = types.in,
                                            .out_dtype = types.out,
                                            .shape = shape,
                                            .axis = axis,
                                            .pattern = pattern,
                                            .flags = ATTILE_FLAG_EXACT_PRODUCTS}});
            continue;
        }
        for (const auto &[op, op_name] : {std::pair{ATTILE_REDUCE_SUM, "sum"}, {ATTILE_REDUCE_MEAN, "mean"}, {ATTILE_REDUCE_MIN, "min"}})
            list.push_back({id + "." + op_name, ReduceCase{.dtype = types.in,
                                                           .out_dtype = types.out,
                                                           .shape = shape,
                                                           .axis = axis,
                                                           .op = op,
                                                           .pattern = pattern,
                                                           .flags = ATTILE_FLAG_EXACT_PRODUCTS}});
    }
}

// Null if the operation has none.
template <class C>
auto flags_of(C &c) {
    return std::visit(
        [](auto &problem) -> std::conditional_t<std::is_const_v<C>, const std::uint32_t *, std::uint32_t *> {
            if constexpr (requires { problem.flags; })
                return &problem.flags;
            else
                return nullptr;
        },
        c.problem);
}

}  // namespace

CaseOption exact_option() {
    return {"exact", [](const Case &c) { return flags_of(c) != nullptr && (*flags_of(c) & ATTILE_FLAG_EXACT_PRODUCTS) != 0; },
            [](Case &c) {
                if (flags_of(c) == nullptr || !has_exact(c) || multiply_adds(c) >= kMostExact) return false;
                *flags_of(c) |= ATTILE_FLAG_EXACT_PRODUCTS;
                return true;
            }};
}

void append_exact_rows(std::vector<Case> &list, std::size_t first) {
    const std::size_t last = list.size();
    const std::string operation = operation_of(list.at(first).id);
    for (std::size_t i = first; i < last; ++i) {
        Case c = list[i];
        if (!has_exact(c)) continue;
        c.id = operation + ".exact_" + c.id.substr(operation.size() + 1);
        std::visit(
            [](auto &problem) {
                if constexpr (requires { problem.flags; }) problem.flags |= ATTILE_FLAG_EXACT_PRODUCTS;
            },
            c.problem);
        list.push_back(std::move(c));
    }
    if (operation == "attention_merge" || operation == "attention") return;
    for (const auto &[name, pattern] : {std::pair{"spread", RowPattern::kSpread},
                                        {"cancelling", RowPattern::kCancelling},
                                        {"subnormal", RowPattern::kSubnormal},
                                        {"zeros", RowPattern::kZeros}}) {
        add_rows(list, operation, name, {9, 97}, 1, pattern);
        add_rows(list, operation, std::string(name) + "_columns", {33, 70}, 0, pattern);
        add_rows(list, operation, std::string(name) + "_long", {2, 2501}, 1, pattern);
    }
}

void append_exact_cases(std::vector<Case> &list, Tier tier) {
    for (const std::int32_t dtype : {ATTILE_F64, ATTILE_F32}) {
        add_shapes(list, dtype);
        add_numbers(list, dtype);
        add_layouts(list, dtype);
    }
    const std::uint64_t count = tier == Tier::kQuick ? 30 : 200;
    for (std::uint64_t seed = 1; seed <= count; ++seed) {
        GemmCase c = random_gemm(seed * 17 + 3);
        Random random(seed);
        c.dtype = c.out_dtype = random.chance(0.6) ? ATTILE_F64 : ATTILE_F32;
        c.bias_dtype = random.chance(0.7) ? c.dtype : ATTILE_F32;
        c.activation = random.chance(0.3) ? ATTILE_ACTIVATION_RELU : ATTILE_ACTIVATION_NONE;
        c.flags |= ATTILE_FLAG_EXACT_PRODUCTS;
        const GemmPattern pattern = random.pick({c.pattern, GemmPattern::kSpread, GemmPattern::kIntegers, GemmPattern::kCancelling});
        if (pattern != GemmPattern::kCancelling || c.k > 1) c.pattern = pattern;
        list.push_back({"gemm.random_exact." + std::to_string(seed), std::move(c)});
    }
}

}  // namespace attile::test

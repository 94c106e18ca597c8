// SPDX-License-Identifier: Apache-2.0
// Laws of matrix multiplication.
#include <algorithm>

#include "case_text.h"
#include "laws.h"

namespace attile::test {
namespace {

// The contents of a call: D = activation(alpha A B + beta C + bias).
struct Product {
    std::int32_t dtype = ATTILE_F32, out_dtype = ATTILE_F32;
    Values a, b, c, bias;  ///< the last two without a shape where absent
    double alpha = 1, beta = 0;
    std::int32_t bias_axis = ATTILE_BIAS_NONE, activation = ATTILE_ACTIVATION_NONE;
    std::uint32_t flags = 0;

    std::size_t row_axis() const { return a.shape.size() - 2; }
    std::int64_t m() const { return a.shape[row_axis()]; }
    std::int64_t n() const { return b.shape.back(); }
    std::int64_t k() const { return a.shape.back(); }
    std::vector<std::int64_t> shape() const {
        std::vector<std::int64_t> shape = a.shape;
        shape.back() = n();
        return shape;
    }
};

struct ProductExtras {
    bool c = true, bias = true, activation = true;
};

Product draw_product(Draw &draw, const ProductExtras &extras) {
    Random &random = draw.random;
    Product call;
    const TypePair types = random_types(random);
    call.dtype = types.in;
    call.out_dtype = types.out;
    const bool few_rows = random.chance(0.3), deep = random.chance(0.3);
    std::int64_t m = few_rows ? random.between(1, 5) : draw.extent(600), n = draw.extent(600),
                 k = deep ? random.between(500, 4000) : draw.extent(600);
    while (m * n * k > draw.work * 4) (m > n ? (m > k ? m : k) : (n > k ? n : k)) /= 2;
    std::vector<std::int64_t> batch;
    if (random.chance(0.3)) batch.push_back(m * n * k * 11 <= draw.work * 4 ? 11 : 2);
    if (random.chance(0.2)) batch.push_back(2);
    const auto shape = [&batch](std::int64_t rows, std::int64_t columns) {
        std::vector<std::int64_t> all = batch;
        all.insert(all.end(), {rows, columns});
        return all;
    };
    call.a = draw.normal(call.dtype, shape(m, k));
    call.b = draw.normal(call.dtype, shape(k, n));
    call.alpha = random.pick({1.0, 1.0, 0.75, -2.0});
    if (extras.c && random.chance(0.4)) {
        call.c = draw.normal(call.out_dtype, shape(m, n));
        call.beta = random.pick({1.0, -0.5, 3.0});
    }
    if (extras.bias && random.chance(0.5)) {
        call.bias_axis = random.pick({ATTILE_BIAS_ROWS, ATTILE_BIAS_COLUMNS});
        call.bias = draw.normal(call.out_dtype, {call.bias_axis == ATTILE_BIAS_ROWS ? m : n});
    }
    if (extras.activation && random.chance(0.5)) call.activation = static_cast<std::int32_t>(random.between(1, 4));
    call.flags = random.chance(0.2) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    return call;
}

Values run_product(Draw &draw, const Product &call) {
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    args.flags = call.flags;
    args.alpha = call.alpha;
    args.beta = call.beta;
    args.bias_axis = call.bias_axis;
    args.activation = call.activation;
    TestTensor a = draw.input(call.dtype, call.a), b = draw.input(call.dtype, call.b), bias = draw.input(call.out_dtype, call.bias);
    const bool over_c = call.beta != 0 && draw.random.chance(0.5);
    TestTensor d = over_c ? draw.in_place(call.out_dtype, call.c) : draw.output(call.out_dtype, call.shape());
    TestTensor c = over_c ? TestTensor() : draw.input(call.out_dtype, call.c);
    args.a = a.view();
    args.b = b.view();
    args.c = over_c ? d.view() : c.view();
    args.d = d.view();
    args.bias = bias.view();
    Words words;
    words.add("types", pair_name({call.dtype, call.out_dtype})).add("a", shape_text(call.a.shape)).add("b", shape_text(call.b.shape));
    words.add_unless("alpha", call.alpha, 1.0).add_unless("beta", call.beta, 0.0).add_unless("bias_axis", call.bias_axis, 0);
    words.add_unless("activation", call.activation, 0).add_unless("flags", call.flags, 0u);
    perform(draw, ("gemm " + words.text()).c_str(), args, attile_gemm_query, attile_gemm, {&a, &b, &c, &d, &bias});
    return d.values();
}

// How far two results of one problem may be apart. Activations rise by at most 1.2 times their argument's change.
double bound_of(const Product &call) {
    const double u = precision_of(wide(call.dtype)).unit * (element_bytes(call.dtype) == 2 ? 4 : 1);
    const double product = std::fabs(call.alpha) * max_norm(call.a) * max_norm_across(call.b);
    const double other = std::fabs(call.beta) * max_abs(call.c) + max_abs(call.bias);
    const Precision stored = precision_of(call.out_dtype);
    const double depth = std::sqrt(static_cast<double>(call.k()));
    return 2 * (1.2 * u * ((2 * depth + 8) * product + 8 * other) + stored.unit * 1.2 * (product + other) + stored.tiny);
}

// D's rounding to storage alone is less than the bound, which has the largest number that D could hold.
testing::AssertionResult same_product(const Product &call, const Values &got, const Values &want) {
    Product exact = call;
    exact.out_dtype = ATTILE_F64;
    const Precision stored = precision_of(call.out_dtype);
    return close(got, want, bound_of(exact) + 2 * stored.tiny, 2.5 * stored.unit);
}

Product transposed(const Product &call) {
    Product other = call;
    other.a = swapped(call.b, call.row_axis());
    other.b = swapped(call.a, call.row_axis());
    if (!call.c.shape.empty()) other.c = swapped(call.c, call.row_axis());
    if (call.bias_axis != ATTILE_BIAS_NONE) other.bias_axis = call.bias_axis == ATTILE_BIAS_ROWS ? ATTILE_BIAS_COLUMNS : ATTILE_BIAS_ROWS;
    return other;
}

ATTILE_LAW(TransposedProducts) {
    const Product call = draw_product(draw, {});
    const Values d = run_product(draw, call);
    EXPECT_TRUE(same_product(call, swapped(run_product(draw, transposed(call)), call.row_axis()), d));
}

ATTILE_LAW(DepthInAnyOrder) {
    const Product call = draw_product(draw, {});
    Product permuted = call;
    const std::vector<std::int64_t> order = draw.permutation(call.k());
    permuted.a = take(call.a, call.row_axis() + 1, order);
    permuted.b = take(call.b, call.row_axis(), order);
    EXPECT_TRUE(same_product(call, run_product(draw, permuted), run_product(draw, call)));
}

// The sum over a range of the depth, and the rest of it on top of that.
ATTILE_LAW(DepthInTwoParts) {
    Product call = draw_product(draw, {});
    const Values whole = run_product(draw, call);
    const std::int64_t cut = draw.random.between(0, call.k());
    Product first = call, second = call;
    first.a = slice(call.a, call.row_axis() + 1, 0, cut);
    first.b = slice(call.b, call.row_axis(), 0, cut);
    first.bias = {};
    first.bias_axis = first.activation = 0;
    first.out_dtype = wide(call.dtype);
    second.a = slice(call.a, call.row_axis() + 1, cut, call.k());
    second.b = slice(call.b, call.row_axis(), cut, call.k());
    second.out_dtype = wide(call.dtype);
    for (double &x : second.bias.at) x = round_to(second.out_dtype, x);
    second.c = run_product(draw, first);
    second.beta = 1;
    EXPECT_TRUE(same_product(call, run_product(draw, second), whole));
}

ATTILE_LAW(BlocksOfRowsAndColumns) {
    const Product call = draw_product(draw, {});
    const Values whole = run_product(draw, call);
    const bool rows = draw.random.chance(0.5);
    const std::size_t axis = call.row_axis() + (rows ? 0 : 1);
    const std::int64_t extent = rows ? call.m() : call.n(), cut = draw.random.between(0, extent);
    std::vector<Values> parts;
    for (const auto &[begin, end] : {std::pair<std::int64_t, std::int64_t>(0, cut), std::pair<std::int64_t, std::int64_t>(cut, extent)}) {
        Product part = call;
        (rows ? part.a : part.b) = slice(rows ? call.a : call.b, axis, begin, end);
        if (!call.c.shape.empty()) part.c = slice(call.c, axis, begin, end);
        if (call.bias_axis == (rows ? ATTILE_BIAS_ROWS : ATTILE_BIAS_COLUMNS)) part.bias = slice(call.bias, 0, begin, end);
        parts.push_back(run_product(draw, part));
    }
    EXPECT_TRUE(same_product(call, join(parts, axis), whole));
}

ATTILE_LAW(ProductsOfABatchAlone) {
    Product call = draw_product(draw, {});
    if (call.a.shape.size() == 2) {  // make one of it
        const auto stacked = [&](const Values &values) {
            Values more = values;
            more.shape.insert(more.shape.begin(), 1);
            return take(more, 0, std::vector<std::int64_t>(10, 0));
        };
        call.a = stacked(call.a);
        call.b = stacked(call.b);
        for (double &x : call.a.at) x = round_to(call.dtype, x + 0.25);
        if (!call.c.shape.empty()) call.c = stacked(call.c);
    }
    const Values whole = run_product(draw, call);
    for (std::int64_t x = 0; x < call.a.shape[0]; ++x) {
        Product one = call;
        one.a = slice(call.a, 0, x, x + 1);
        one.b = slice(call.b, 0, x, x + 1);
        if (!call.c.shape.empty()) one.c = slice(call.c, 0, x, x + 1);
        EXPECT_TRUE(same_product(call, run_product(draw, one), slice(whole, 0, x, x + 1))) << "entry " << x;
    }
}

ATTILE_LAW(PowersOfTwoOfOperandsAreExact) {
    Product call = draw_product(draw, {});
    if (call.activation > ATTILE_ACTIVATION_RELU) call.activation = ATTILE_ACTIVATION_NONE;
    const Values before = run_product(draw, call);
    const double factor = std::ldexp(1.0, static_cast<int>(draw.random.between(1, 3)));
    Product after = call;
    switch (draw.random.between(0, 2)) {
        case 0:
            after.a = times(call.a, factor);
            break;
        case 1:
            after.b = times(call.b, factor);
            break;
        default:
            after.alpha = call.alpha * factor;
            break;
    }
    if (!call.c.shape.empty()) after.c = times(call.c, factor);
    after.bias = times(call.bias, factor);
    EXPECT_TRUE(same_product(after, run_product(draw, after), times(before, factor)));
}

ATTILE_LAW(TheUnitMatrixChangesNothing) {
    Product call = draw_product(draw, {.c = false, .bias = false, .activation = false});
    call.alpha = 1;
    const std::int64_t n = std::min<std::int64_t>(call.k(), 200);
    call.a = slice(call.a, call.row_axis() + 1, 0, n);
    call.b = Values({n, n});
    for (std::int64_t i = 0; i < n; ++i) call.b(i, i) = 1;
    EXPECT_TRUE(equal(run_product(draw, call), call.a, call.out_dtype));
    const Values want = swapped(call.a, call.row_axis());
    Product other = call;
    other.b = want;
    other.a = want;
    other.a.shape.back() = other.a.shape[call.row_axis()] = n;
    other.a = Values(other.a.shape);
    for (std::size_t at = 0; at < other.a.at.size(); ++at)
        if (static_cast<std::int64_t>(at) / n % n == static_cast<std::int64_t>(at) % n) other.a.at[at] = 1;
    EXPECT_TRUE(equal(run_product(draw, other), want, call.out_dtype));
}

// The bias is a C that is broadcast, and an activation works on what would be stored without it.
ATTILE_LAW(EpiloguesOneByOne) {
    Product call = draw_product(draw, {});
    call.out_dtype = wide(call.dtype);
    for (Values *values : {&call.c, &call.bias})
        for (double &x : values->at) x = round_to(call.out_dtype, x);
    const Values fused = run_product(draw, call);
    Product bare = call;
    bare.activation = ATTILE_ACTIVATION_NONE;
    bare.bias_axis = ATTILE_BIAS_NONE;
    bare.bias = bare.c = {};
    bare.beta = 0;
    Values want = run_product(draw, bare);
    const auto n = static_cast<std::size_t>(call.n()), m = static_cast<std::size_t>(call.m());
    for (std::size_t at = 0; at < want.at.size(); ++at) {
        double &x = want.at[at];
        if (call.beta != 0) x += call.beta * call.c.at[at];
        if (call.bias_axis == ATTILE_BIAS_ROWS) x += call.bias.at[at / n % m];
        if (call.bias_axis == ATTILE_BIAS_COLUMNS) x += call.bias.at[at % n];
        constexpr double kSqrt2OverPi = 0.79788456080286535588;
        switch (call.activation) {
            case ATTILE_ACTIVATION_RELU:
                x = std::max(x, 0.0);
                break;
            case ATTILE_ACTIVATION_GELU:
                x = x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
                break;
            case ATTILE_ACTIVATION_GELU_TANH:
                x = x / 2 * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
                break;
            case ATTILE_ACTIVATION_SILU:
                x = x / (1 + std::exp(-x));
                break;
            default:
                break;
        }
    }
    EXPECT_TRUE(same_product(call, fused, want));
}

// The names of BLAS are the same products.
ATTILE_LAW(BlasNamesAreProducts) {
    Product call = draw_product(draw, {.bias = false, .activation = false});
    const std::int32_t type = call.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    while (call.a.shape.size() > 2)
        for (Values *values : {&call.a, &call.b, &call.c}) {
            if (values->shape.empty()) continue;
            *values = slice(*values, 0, 0, 1);
            values->shape.erase(values->shape.begin());
        }
    call.dtype = call.out_dtype = type;
    const Values want = run_product(draw, call);
    const bool column_major = draw.random.chance(0.5), trans_a = draw.random.chance(0.5), trans_b = draw.random.chance(0.5);
    const auto stored = [column_major](const Values &matrix, bool transposed_here) {
        return column_major != transposed_here ? swapped(matrix) : matrix;
    };
    const Values a = stored(call.a, trans_a), b = stored(call.b, trans_b);
    Values c = call.c.shape.empty() ? Values({call.m(), call.n()}, std::numeric_limits<double>::quiet_NaN()) : call.c;
    c = stored(c, false);
    const auto run = [&](auto zero, auto gemm) {
        using T = decltype(zero);
        std::vector<T> to_a(a.at.begin(), a.at.end()), to_b(b.at.begin(), b.at.end()), to_c(c.at.begin(), c.at.end());
        const std::int32_t status =
            gemm(draw.context, column_major ? ATTILE_COL_MAJOR : ATTILE_ROW_MAJOR, trans_a ? ATTILE_TRANS : ATTILE_NO_TRANS,
                 trans_b ? ATTILE_CONJ_TRANS : ATTILE_NO_TRANS, call.m(), call.n(), call.k(), call.alpha, to_a.data(), a.shape[1],
                 to_b.data(), b.shape[1], call.beta, to_c.data(), c.shape[1]);
        EXPECT_TRUE(succeeded(status));
        std::copy(to_c.begin(), to_c.end(), c.at.begin());
    };
    if (type == ATTILE_F64)
        run(0.0, attile_dgemm);
    else
        run(0.0F, attile_sgemm);
    EXPECT_TRUE(same_product(call, column_major ? swapped(c) : c, want));
}

}  // namespace
}  // namespace attile::test

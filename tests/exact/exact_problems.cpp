// SPDX-License-Identifier: Apache-2.0
#include "exact_problems.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "test_random.h"

namespace attile::test {
namespace {

using Numbers = ExactNumbers;
using Values = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// a is batch x m x k, b is batch x k x n.
void draw(const ExactProblem &p, Values *a, Values *b) {
    Random random(p.seed);
    const auto at_a = [&](int64_t e, int64_t i, int64_t k) -> double & { return (*a)[static_cast<size_t>((e * p.m + i) * p.k + k)]; };
    const auto at_b = [&](int64_t e, int64_t k, int64_t j) -> double & { return (*b)[static_cast<size_t>((e * p.k + k) * p.n + j)]; };
    a->resize(static_cast<size_t>(p.batch * p.m * p.k));
    b->resize(static_cast<size_t>(p.batch * p.k * p.n));
    for (Values *x : {a, b})
        for (double &value : *x) value = exact_number(random, p.numbers, p.f64);
    for (int64_t e = 0; e < p.batch; ++e) {
        if (p.numbers == Numbers::kCancelling) {
            // Pairs of steps that cancel; then a last step that leaves nothing, a last bit, or as much as rounding away from the rest
            // leaves.
            for (int64_t k = 0; k + 2 < p.k; k += 2) {
                for (int64_t i = 0; i < p.m; ++i) at_a(e, i, k + 1) = -at_a(e, i, k);
                for (int64_t j = 0; j < p.n; ++j) at_b(e, k + 1, j) = at_b(e, k, j);
            }
            for (int64_t k = (p.k - 1) / 2 * 2; k < p.k; ++k) {
                for (int64_t i = 0; i < p.m; ++i) at_a(e, i, k) = std::ldexp(static_cast<double>(i % 3 - 1), p.f64 ? -1074 : -149);
                for (int64_t j = 0; j < p.n; ++j) at_b(e, k, j) = j % 4 == 0 ? 1 : j % 4 == 1 ? 0.5 : j % 4 == 2 ? 0.75 : 0x1p80;
            }
        }
        if (p.numbers == Numbers::kTies && p.k >= 3) {
            // 1 + last bit + half of it + or - something far below, alone or among zeros.
            const int digits = p.f64 ? 52 : 23;
            for (int64_t i = 0; i < p.m; ++i)
                for (int64_t k = 0; k < p.k; ++k) {
                    const double values[] = {1 + static_cast<double>(i % 2) * std::ldexp(1, -digits), std::ldexp(1, -digits - 1),
                                             static_cast<double>(i % 3 - 1) * std::ldexp(1, p.f64 ? -900 : -100)};
                    at_a(e, i, k) = k < 3 ? values[k] : 0;
                }
            for (int64_t k = 0; k < p.k; ++k)
                for (int64_t j = 0; j < p.n; ++j)
                    at_b(e, k, j) = k == 2 ? static_cast<double>(j % 2) : std::ldexp(1, static_cast<int>(j % 5) - 2);
        }
        if (p.numbers == Numbers::kSpecial) {
            for (int64_t i = 0; i < p.m; i += 7) at_a(e, i, i % p.k) = i % 2 == 0 ? kInfinity : -kInfinity;
            for (int64_t i = 3; i < p.m; i += 11) at_a(e, i, (i + 1) % p.k) = kNan;
            for (int64_t j = 1; j < p.n; j += 5) at_b(e, j % p.k, j) = j % 3 == 0 ? -kInfinity : 0.0;
        }
        if (p.numbers == Numbers::kZeroLines) {
            for (int64_t i = 0; i < p.m; i += 2)
                for (int64_t k = 0; k < p.k; ++k) at_a(e, i, k) = i % 4 == 0 ? 0.0 : -0.0;
            for (int64_t j = 0; j < p.n; j += 3)
                for (int64_t k = 0; k < p.k; ++k) at_b(e, k, j) = 0;
        }
    }
}

// A matrix for each entry, in the type, layout and spacing of a problem.
struct Memory {
    std::vector<unsigned char> bytes;
    attile_tensor tensor{};
    int64_t size = 0;

    Memory(const ExactProblem &p, int64_t batch, int64_t rows, int64_t columns, bool by_columns) : size(p.f64 ? 8 : 4) {
        bytes.assign(static_cast<size_t>(batch * rows * columns * p.step * size), 0xff);  // NaN
        tensor.data = bytes.data();
        tensor.dtype = p.f64 ? ATTILE_F64 : ATTILE_F32;
        tensor.rank = 3;
        const int64_t shape[] = {batch, rows, columns}, stride[] = {rows * columns, by_columns ? 1 : columns, by_columns ? rows : 1};
        for (int axis = 0; axis < 3; ++axis) {
            tensor.shape[axis] = shape[axis];
            tensor.stride[axis] = stride[axis] * p.step;
        }
    }
    unsigned char *at(int64_t e, int64_t i, int64_t j) {
        return bytes.data() + (e * tensor.stride[0] + i * tensor.stride[1] + j * tensor.stride[2]) * size;
    }
    void set(int64_t e, int64_t i, int64_t j, double value) {
        const float narrow = static_cast<float>(value);
        std::memcpy(at(e, i, j), size == 8 ? static_cast<const void *>(&value) : &narrow, static_cast<size_t>(size));
    }
    void fill(const Values &values) {
        size_t next = 0;
        for (int64_t e = 0; e < tensor.shape[0]; ++e)
            for (int64_t i = 0; i < tensor.shape[1]; ++i)
                for (int64_t j = 0; j < tensor.shape[2]; ++j) set(e, i, j, values[next++]);
    }
};

ExactProblem plain(const std::string &name, bool f64, int64_t m, int64_t n, int64_t k, Numbers numbers) {
    return {name,  f64, 1,     m, n, k, numbers, static_cast<uint64_t>(m * 1000003 + n * 1009 + k), false, false,
            false, 1,   false, 1, 0, 0, false};
}

const std::pair<Numbers, const char *> kNumbers[] = {
    {Numbers::kNormal, "normal"}, {Numbers::kUniform, "uniform"},        {Numbers::kPositive, "positive"},
    {Numbers::kSpread, "spread"}, {Numbers::kSomeSpread, "some_spread"}, {Numbers::kCancelling, "cancelling"},
    {Numbers::kTies, "ties"},     {Numbers::kIntegers, "integers"},      {Numbers::kSubnormal, "subnormal"},
    {Numbers::kLarge, "large"},   {Numbers::kSpecial, "special"},        {Numbers::kZeroLines, "zero_lines"}};

}  // namespace

double spread_number(Random &random, int low, int high) {
    const int exponent = static_cast<int>(random.between(low, high));
    return std::ldexp(random.normal(), exponent);
}

double exact_number(Random &random, ExactNumbers numbers, bool f64) {
    const int low = f64 ? -300 : -70;
    switch (numbers) {
        case Numbers::kUniform:
            return 2 * random.uniform() - 1;
        case Numbers::kPositive:
            return random.uniform();
        case Numbers::kSpread:
            return spread_number(random, low, -low);
        case Numbers::kSomeSpread:
            return spread_number(random, -30, 30);
        case Numbers::kIntegers:
            return static_cast<double>(random.between(-9, 9));
        case Numbers::kSubnormal:
            return std::ldexp(random.normal(), f64 ? -537 : -75);
        case Numbers::kLarge:
            return std::ldexp(random.normal(), f64 ? 509 : 61);
        default:
            return random.normal();
    }
}

std::vector<ExactProblem> exact_problems() {
    std::vector<ExactProblem> list;
    for (const bool f64 : {true, false}) {
        const std::string type = f64 ? "f64." : "f32.";
        for (const auto &[numbers, name] : kNumbers) {
            list.push_back(plain(type + name, f64, 70, 67, 91, numbers));
            list.push_back(plain(type + name + "_few", f64, 3, 130, 45, numbers));
        }
        struct Shape {
            int64_t m, n, k;
        };
        for (const Shape s :
             {Shape{1, 1, 1}, {5, 7, 0}, {9, 8, 1}, {40, 70, 7}, {100, 66, 1000}, {7, 9, 40000}, {200, 130, 64}, {98, 65, 2049}})
            list.push_back(plain(type + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k), f64, s.m, s.n, s.k,
                                 Numbers::kNormal));
        list.push_back(plain(type + "cancelling_deep", f64, 66, 70, 2100, Numbers::kCancelling));
        list.push_back(plain(type + "spread_deep", f64, 40, 40, 1500, Numbers::kSpread));
        list.push_back(plain(type + "blocks", f64, 1100, 1060, 20, Numbers::kSomeSpread));
        ExactProblem p = plain(type + "by_columns", f64, 50, 70, 80, Numbers::kNormal);
        p.a_by_columns = p.b_by_columns = p.d_by_columns = true;
        list.push_back(p);
        p.name = type + "mixed_layouts_every_third";
        p.b_by_columns = false;
        p.step = 3;
        list.push_back(p);
        p.name = type + "batch_shared_b_epilogue";
        p.step = 1;
        p.batch = 5;
        p.b_shared = true;
        p.alpha = -0.3;
        p.beta = 1.7;
        p.bias_axis = ATTILE_BIAS_COLUMNS;
        p.relu = true;
        list.push_back(p);
        p.name = type + "epilogue_by_rows";
        p.d_by_columns = false;
        p.bias_axis = ATTILE_BIAS_ROWS;
        p.relu = false;
        list.push_back(p);
    }
    return list;
}

ExactProblem random_exact_problem(uint64_t seed) {
    Random random(seed * 2 + 1);
    const auto extent = [&] { return random.pick<int64_t>({1, 2, 3, 5, 8, 17, 33, 64, 65, 100}); };
    const auto &[numbers, name] = kNumbers[random.between(0, 11)];
    ExactProblem p = plain("random." + std::to_string(seed) + "." + name, random.chance(0.6), extent(), extent(),
                           random.pick<int64_t>({1, 2, 3, 7, 20, 50, 130, 300}), numbers);
    p.seed = seed;
    p.batch = random.pick<int64_t>({1, 1, 1, 2, 5});
    p.a_by_columns = random.chance(0.4);
    p.b_by_columns = random.chance(0.4);
    p.d_by_columns = random.chance(0.4);
    p.step = random.pick<int64_t>({1, 1, 1, 2});
    p.b_shared = random.chance(0.3);
    p.alpha = random.pick({1.0, 1.0, -1.0, 0.1, 0x1p-600});
    p.beta = random.pick({0.0, 0.0, 1.0, -0.7});
    p.bias_axis = static_cast<int32_t>(random.pick({0, 0, 1, 2}));
    p.relu = random.chance(0.2);
    return p;
}

std::vector<unsigned char> run_exact(attile_context *context, const ExactProblem &p, std::string *why) {
    Values a_values, b_values;
    draw(p, &a_values, &b_values);
    const int64_t b_batch = p.b_shared ? 1 : p.batch;
    Memory a(p, p.batch, p.m, p.k, p.a_by_columns), b(p, b_batch, p.k, p.n, p.b_by_columns), c(p, p.batch, p.m, p.n, p.a_by_columns);
    Memory d(p, p.batch, p.m, p.n, p.d_by_columns), bias(p, 1, 1, p.bias_axis == ATTILE_BIAS_ROWS ? p.m : p.n, false);
    a.fill(a_values);
    b.fill(b_values);
    Random random(p.seed + 1);
    for (Memory *x : {&c, &bias}) {
        Values values(static_cast<size_t>(x->tensor.shape[0] * x->tensor.shape[1] * x->tensor.shape[2]));
        for (double &value : values) value = random.normal();
        x->fill(values);
    }
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    args.a = a.tensor;
    args.b = b.tensor;
    args.c = c.tensor;
    args.d = d.tensor;
    args.alpha = p.alpha;
    args.beta = p.beta;
    args.activation = p.relu ? ATTILE_ACTIVATION_RELU : ATTILE_ACTIVATION_NONE;
    if (p.bias_axis != ATTILE_BIAS_NONE) {
        args.bias = bias.tensor;
        args.bias.rank = 1;
        args.bias.shape[0] = bias.tensor.shape[2];
        args.bias.stride[0] = bias.tensor.stride[2];
        args.bias_axis = p.bias_axis;
    }
    why->clear();
    if (attile_gemm(context, &args) != ATTILE_OK) {
        char text[512];
        attile_last_error(text, sizeof text);
        *why = text;
        return {};
    }
    std::vector<unsigned char> result;
    for (int64_t e = 0; e < p.batch; ++e)
        for (int64_t i = 0; i < p.m; ++i)
            for (int64_t j = 0; j < p.n; ++j) result.insert(result.end(), d.at(e, i, j), d.at(e, i, j) + d.size);
    return result;
}

}  // namespace attile::test

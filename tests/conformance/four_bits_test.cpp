// SPDX-License-Identifier: Apache-2.0
// Products with weights of 4 bits, which the list of cases does not hold: every backend that has them against plain sums in double.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "case_text.h"
#include "properties.h"
#include "test_element.h"
#include "test_random.h"
#include "test_tensor.h"

namespace attile::test {
namespace {

struct FourBitProduct {
    std::int64_t m, n, k;
    std::int64_t group = 0;  // along k; 0: all
    bool by_columns = true;  // neighbours along k share a byte, else along n
    bool d_by_columns = false;
    bool is_signed = true, has_zeros = false, has_scales = true, strided_scales = false;
    std::int32_t dtype = ATTILE_F32, out_dtype = ATTILE_F32;
    std::int64_t pad = 0;  // numbers between lines of b, even
    std::uint64_t seed = 1;

    std::string text() const {
        return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " group " + std::to_string(group) +
               (by_columns ? " along k" : " along n") + (is_signed ? " i4" : " u4") + (has_zeros ? " zeros" : "") +
               (has_scales ? "" : " no scales") + (strided_scales ? " strided" : "") + (d_by_columns ? " d by columns" : "") + " " +
               dtype_name(dtype) + " -> " + dtype_name(out_dtype) + " pad " + std::to_string(pad) + " seed " + std::to_string(seed);
    }
};

// The weights in memory, fenced on both sides by bytes that nobody may read as numbers: 0x88 is -8 twice.
struct Weights {
    Weights(const FourBitProduct &c, Random &random) : value(Shape2{c.k, c.n}) {
        const std::int64_t lines = c.by_columns ? c.n : c.k, length = c.by_columns ? c.k : c.n, step = length + c.pad;
        bytes.assign(static_cast<std::size_t>(lines * step / 2 + 2 * kFence), 0x88);
        tensor = {};
        tensor.data = bytes.data() + kFence;
        tensor.dtype = c.is_signed ? ATTILE_I4 : ATTILE_U4;
        tensor.rank = 2;
        tensor.shape[0] = c.k;
        tensor.shape[1] = c.n;
        tensor.stride[0] = c.by_columns ? 1 : step;
        tensor.stride[1] = c.by_columns ? step : 1;
        for (std::int64_t k = 0; k < c.k; ++k)
            for (std::int64_t n = 0; n < c.n; ++n) {
                const auto bits = static_cast<unsigned>(random.between(0, 15));
                const std::int64_t at = k * tensor.stride[0] + n * tensor.stride[1];
                unsigned char &byte = bytes[static_cast<std::size_t>(kFence + at / 2)];
                const int shift = at % 2 == 0 ? 0 : 4;
                byte = static_cast<unsigned char>((byte & (0xf0 >> shift)) | bits << shift);
                value(k, n) = c.is_signed && bits >= 8 ? static_cast<int>(bits) - 16 : static_cast<int>(bits);
            }
    }
    using Shape2 = std::vector<std::int64_t>;
    static constexpr std::int64_t kFence = 64;
    std::vector<unsigned char> bytes;
    attile_tensor tensor;
    Values value;
};

Values drawn(std::vector<std::int64_t> shape, std::int32_t dtype, Random &random, double low) {
    Values values(std::move(shape));
    for (double &x : values.at) x = round_to(dtype, low != 0 ? low * random.uniform() : random.normal());
    return values;
}

void expect_close(attile_context *context, const FourBitProduct &c) {
    Random random(c.seed * 131 + 9);
    const std::int64_t groups = c.group == 0 ? 1 : c.k / c.group;
    const Values a = drawn({c.m, c.k}, c.dtype, random, 0), scale = drawn({groups, c.n}, ATTILE_F32, random, 0);
    const Values zero = drawn({groups, c.n}, ATTILE_F32, random, 15);
    const Weights b(c, random);
    const Layout scale_layout = c.strided_scales ? Layout{.step = 2} : Layout{.order = Order::kFortran};
    TestTensor a_tensor(context, Placement::kHost, c.dtype, a), scale_tensor, zero_tensor;
    if (c.has_scales) scale_tensor = TestTensor(context, Placement::kHost, ATTILE_F32, scale, scale_layout);
    if (c.has_zeros) zero_tensor = TestTensor(context, Placement::kHost, ATTILE_F32, zero, scale_layout);
    TestTensor d = TestTensor::output(context, Placement::kHost, c.out_dtype, {c.m, c.n},
                                      {.order = c.d_by_columns ? Order::kFortran : Order::kRowMajor, .pad = 3});
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    args.a = a_tensor.view();
    args.b = b.tensor;
    args.b_scale = scale_tensor.view();
    args.b_zero = zero_tensor.view();
    args.d = d.view();
    attile_support support;
    attile_support_init(&support, sizeof support);
    ASSERT_TRUE(succeeded(attile_gemm_query(context, &args, &support)));
    if (support.level == ATTILE_SUPPORT_NONE) {
        EXPECT_EQ(attile_gemm(context, &args), support.status);
        return;
    }
    const TestWorkspace workspace(context, Placement::kHost, support.workspace_bytes);
    args.workspace = workspace.data();
    args.workspace_bytes = workspace.bytes();
    args.flags = ATTILE_FLAG_NO_ALLOC;
    ASSERT_TRUE(succeeded(attile_gemm(context, &args))) << c.text();
    d.fetch();
    EXPECT_EQ(d.damage(), "") << c.text();
    EXPECT_EQ(workspace.damage(), "") << c.text();
    const Values found = d.values();
    const Precision rounding = precision_of(c.out_dtype);
    for (std::int64_t m = 0; m < c.m; ++m)
        for (std::int64_t n = 0; n < c.n; ++n) {
            double sum = 0, magnitude = 0;
            for (std::int64_t k = 0; k < c.k; ++k) {
                const std::int64_t g = c.group == 0 ? 0 : k / c.group;
                const double number = b.value(k, n) - (c.has_zeros ? zero(g, n) : 0);
                const double term = a(m, k) * number * (c.has_scales ? scale(g, n) : 1);
                sum += term;
                magnitude += std::fabs(term);
            }
            // Roundings of short chains, of the scales and of the result.
            const double bound = 8 * 0x1p-24 * magnitude + rounding.unit * std::fabs(sum) + rounding.tiny;
            ASSERT_TRUE(std::fabs(found(m, n) - sum) <= bound)
                << c.text() << ": element " << m << ", " << n << " is " << found(m, n) << ", expected " << sum << " within " << bound;
        }
}

using FourBits = PropertyTest;

// Few rows of weights along k or along n, many rows, few columns, products whose d lies by columns, pieces of the depth that begin within a
// byte.
TEST_F(FourBits, ShapesAndLayouts) {
    on_every_backend([](attile_context *context) {
        const struct {
            std::int64_t m, n, k;
        } shapes[] = {{1, 34, 384},  {1, 96, 4098}, {2, 9, 256},    {3, 6, 64},    {4, 40, 1184}, {5, 64, 96},  {16, 70, 320},
                      {33, 18, 128}, {40, 2, 66},   {64, 130, 640}, {100, 4, 128}, {1, 2, 2},     {40, 20, 962}};
        for (const auto &s : shapes)
            for (const std::int64_t group : {0, 32, 64, 128})
                for (const bool by_columns : {true, false}) {
                    if ((group != 0 && s.k % group != 0) || (by_columns ? s.k : s.n) % 2 != 0) continue;
                    FourBitProduct c = {s.m, s.n, s.k};
                    c.group = group;
                    c.by_columns = by_columns;
                    expect_close(context, c);
                    c.is_signed = false;
                    c.has_zeros = true;
                    c.strided_scales = group == 64;
                    c.pad = 6;
                    expect_close(context, c);
                    c.d_by_columns = true;
                    c.dtype = c.out_dtype = ATTILE_BF16;
                    expect_close(context, c);
                }
    });
}

// Depths of many pieces for each of the warps that share them, and columns that fill a large device.
TEST_F(FourBits, FewRowsOfManyWeights) {
    on_every_backend([](attile_context *context) {
        const struct { std::int64_t m, n, k; } shapes[] = {{5, 70, 4224}, {12, 40, 4224}, {3, 8200, 96}, {9, 8200, 96}};
        for (const auto &s : shapes)
            for (const std::int64_t group : {32, 64, 128}) {
                if (s.k % group != 0) continue;
                FourBitProduct c = {s.m, s.n, s.k};
                c.group = group;
                c.dtype = c.out_dtype = ATTILE_BF16;
                expect_close(context, c);
                c.is_signed = false;
                c.has_zeros = true;
                c.dtype = ATTILE_F16;
                c.out_dtype = ATTILE_F32;
                expect_close(context, c);
            }
    });
}

TEST_F(FourBits, AtRandom) {
    on_every_backend([](attile_context *context) {
        for (std::uint64_t seed = 1; seed <= 120; ++seed) {
            Random random(seed * 17 + 3);
            FourBitProduct c = {};
            c.seed = seed;
            c.by_columns = random.chance(0.6);
            c.group = random.pick<std::int64_t>({0, 32, 64, 128});
            c.k = c.group == 0 ? random.between(1, 300) : c.group * random.between(1, 9);
            c.n = random.between(1, 100);
            (c.by_columns ? c.k : c.n) += (c.by_columns ? c.k : c.n) % 2;
            c.m = random.pick<std::int64_t>({1, 1, 2, 3, 4, 7, 16, 17, 50});
            c.is_signed = random.chance(0.5);
            c.has_scales = random.chance(0.9);
            c.has_zeros = c.has_scales && !c.is_signed && random.chance(0.7);
            c.strided_scales = random.chance(0.3);
            c.d_by_columns = random.chance(0.3);
            c.dtype = random.pick({ATTILE_F32, ATTILE_F16, ATTILE_BF16});
            c.out_dtype = random.chance(0.5) ? ATTILE_F32 : c.dtype;
            c.pad = 2 * random.between(0, 5);
            expect_close(context, c);
        }
    });
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 by VDPBF16PS and by tiles: the bits of multiply-adds in their order, tiny numbers included, which the instructions
// themselves flush.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "cpu_contexts.h"
#include "element.h"

namespace attile::test {
namespace {

using cpu::float_to_brain;
float widened(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// A matrix whose strides are any.
struct Matrix {
    int64_t rows, columns, stride[2];
    std::vector<uint16_t> at;
    Matrix(int64_t m, int64_t n, int layout) : rows(m), columns(n), stride{layout == 1 ? 1 : n, layout == 1 ? m : 1} {
        if (layout == 2) stride[0] = 2 * n, stride[1] = 2;
        at.assign(static_cast<size_t>(2 * m * n), 0x7fc0);  // NaN between the elements
    }
    uint16_t &operator()(int64_t i, int64_t j) { return at[static_cast<size_t>(i * stride[0] + j * stride[1])]; }
    void describe(attile_tensor *tensor) {
        const int64_t shape[2] = {rows, columns};
        ASSERT_EQ(attile_tensor_init(tensor, at.data(), ATTILE_BF16, 2, shape), ATTILE_OK) << last_error();
        tensor->stride[0] = stride[0];
        tensor->stride[1] = stride[1];
    }
};

struct Draw {
    uint64_t state = 1;
    uint32_t bits() {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>(state >> 33);
    }
    // Plain: some 1/64 to 4, some zeros. Else of any size that no sum of products overflows with, some subnormal.
    uint16_t number(bool plain) {
        const uint32_t x = bits(), sign = x & 0x8000, fraction = x & 0x7f, exponent = x >> 16 & 0xff;
        if (exponent % 16 == 0) return static_cast<uint16_t>(sign);
        return static_cast<uint16_t>(sign | (plain ? 121 + exponent % 8 : exponent * 11 / 16) << 7 | fraction);
    }
};

std::vector<float> product(attile_context *context, Matrix &a, Matrix &b, uint32_t flags, std::string *kernel) {
    std::vector<float> d(static_cast<size_t>(a.rows * b.columns), NAN);
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    a.describe(&args.a);
    b.describe(&args.b);
    const int64_t shape[2] = {a.rows, b.columns};
    EXPECT_EQ(attile_tensor_init(&args.d, d.data(), ATTILE_F32, 2, shape), ATTILE_OK);
    args.flags = flags;
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK) << last_error();
    *kernel = support.kernel;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
    return d;
}

// In pairs along the depth, the second of each first.
float chain_of_pairs(Matrix &a, Matrix &b, int64_t i, int64_t j) {
    float sum = 0;
    for (int64_t k = 0; k < a.columns; k += 2) {
        if (k + 1 < a.columns) sum = std::fma(widened(a(i, k + 1)), widened(b(k + 1, j)), sum);
        sum = std::fma(widened(a(i, k)), widened(b(k, j)), sum);
    }
    return sum;
}

// In steps of 32 along the depth, of each the numbers at even and those at odd places.
float chain_of_tiles(Matrix &a, Matrix &b, int64_t i, int64_t j) {
    float sum = 0;
    for (int64_t first = 0; first < a.columns; first += 32) {
        float part[2] = {0, 0};
        for (int64_t k = first; k < first + 32 && k < a.columns; ++k)
            part[k % 2] = std::fma(widened(a(i, k)), widened(b(k, j)), part[k % 2]);
        sum += part[0] + part[1];
    }
    return sum;
}

using Chain = float (*)(Matrix &, Matrix &, int64_t, int64_t);
void expect_chains(const std::string &target, const std::string &kernel_part, Chain chain) {
    const CpuContext context = open_cpu(target, 1);
    if (context == nullptr) GTEST_SKIP() << "which is not what this processor can run";
    const int64_t shapes[][3] = {{37, 100, 64}, {20, 49, 255}, {100, 97, 19}, {18, 801, 34}, {33, 144, 1}};
    for (const auto &[m, n, k] : shapes) {
        for (int layout = 0; layout < 9; ++layout) {
            for (const int tiny : {0, 1, 2, 3}) {  // Of a's rows, of b's columns, of both.
                SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + " layouts " +
                             std::to_string(layout) + " tiny " + std::to_string(tiny));
                Matrix a(m, k, layout % 3), b(k, n, layout / 3);
                Draw draw;
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t p = 0; p < k; ++p) a(i, p) = draw.number(!(tiny % 2 == 1 && i % 13 == 5));
                for (int64_t p = 0; p < k; ++p)
                    for (int64_t j = 0; j < n; ++j) b(p, j) = draw.number(!(tiny / 2 == 1 && j % 61 == 7));
                std::string kernel;
                const std::vector<float> d = product(context.get(), a, b, ATTILE_FLAG_BATCH_INVARIANT, &kernel);
                EXPECT_NE(kernel.find(kernel_part), std::string::npos) << kernel;
                int wrong = 0;
                for (int64_t i = 0; i < m; ++i) {
                    for (int64_t j = 0; j < n; ++j) {
                        const float got = d[static_cast<size_t>(i * n + j)], want = chain(a, b, i, j);
                        if (std::memcmp(&got, &want, sizeof got) == 0) continue;
                        if (++wrong < 4) ADD_FAILURE() << i << ", " << j << ": " << got << " instead of " << want;
                    }
                }
                ASSERT_EQ(wrong, 0);
            }
        }
    }
}

TEST(CpuBrain, ProductsOfPairsAreTheBitsOfMultiplyAdds) { expect_chains("avx512bf16", "bf16_9x48_AVX-512-BF16", chain_of_pairs); }

TEST(CpuBrain, ProductsOfTilesAreTheBitsOfMultiplyAdds) { expect_chains("amxbf16", "bf16_32x32_AMX-BF16", chain_of_tiles); }

// One head; o(i, c) where q, k and v are what the functions say.
template <class Q, class K, class V>
std::vector<float> attention(attile_context *context, int64_t rows, int64_t keys, int64_t width, float scale, Q &&q_of, K &&k_of,
                             V &&v_of) {
    std::vector<uint16_t> q, k, v, o(static_cast<size_t>(rows * width), 0x7fc0);
    for (int64_t i = 0; i < rows * width; ++i) q.push_back(float_to_brain(q_of(i / width, i % width)));
    for (int64_t i = 0; i < keys * width; ++i) k.push_back(float_to_brain(k_of(i / width, i % width)));
    for (int64_t i = 0; i < keys * width; ++i) v.push_back(float_to_brain(v_of(i / width, i % width)));
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    const int64_t row_shape[4] = {1, 1, rows, width}, key_shape[4] = {1, 1, keys, width};
    EXPECT_EQ(attile_tensor_init(&args.q, q.data(), ATTILE_BF16, 4, row_shape), ATTILE_OK);
    EXPECT_EQ(attile_tensor_init(&args.k, k.data(), ATTILE_BF16, 4, key_shape), ATTILE_OK);
    EXPECT_EQ(attile_tensor_init(&args.v, v.data(), ATTILE_BF16, 4, key_shape), ATTILE_OK);
    EXPECT_EQ(attile_tensor_init(&args.o, o.data(), ATTILE_BF16, 4, row_shape), ATTILE_OK);
    args.scale = scale;
    EXPECT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
    std::vector<float> result;
    for (const uint16_t x : o) result.push_back(widened(x));
    return result;
}

TEST(CpuBrain, AttentionKeepsValuesBelowTheNormalRange) {
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 1);
        const auto zero = [](int64_t, int64_t) { return 0.0f; };
        // Equal weights: the mean of equal values, exactly.
        const auto value = [](int64_t, int64_t c) { return static_cast<float>(c % 5) * 0x1p-131f; };
        const std::vector<float> o = attention(context.get(), 40, 51, 33, 1.0f, zero, zero, value);
        for (size_t i = 0; i < o.size(); ++i) ASSERT_EQ(o[i], value(0, static_cast<int64_t>(i % 33))) << target << " " << i;
    }
}

TEST(CpuBrain, AttentionKeepsKeysBelowTheNormalRange) {
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 1);
        const auto query = [](int64_t, int64_t c) { return c == 0 ? 0x1p127f : 0.0f; };
        const auto key = [](int64_t j, int64_t c) { return c == 0 ? static_cast<float>(j % 3) * 0x1p-128f : 0.0f; };  // scores 0, 1/2, 1
        const auto value = [](int64_t j, int64_t) { return static_cast<float>(j % 3); };
        const double e = std::exp(0.5), want = (e + 2 * e * e) / (1 + e + e * e);
        for (const float x : attention(context.get(), 35, 48, 16, 1.0f, query, key, value)) ASSERT_NEAR(x, want, 0.02) << target;
    }
}

}  // namespace
}  // namespace attile::test

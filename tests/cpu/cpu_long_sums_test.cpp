// SPDX-License-Identifier: Apache-2.0
// Attention over very many keys whose weights are small beside one: each weighs less than half of what the sum is rounded to, and all
// together 0.7 % of it. Sums that take them one by one lose them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "cpu_contexts.h"
#include "element.h"

namespace attile::test {
namespace {

constexpr int64_t kKeys = 131072;
constexpr float kBelow = 16.7f;
constexpr double kBound = 2e-6;

// Elements of float32, float16 or bfloat16.
struct Elements {
    int32_t dtype;
    std::vector<unsigned char> bytes;

    Elements(int32_t type, int64_t count) : dtype(type), bytes(static_cast<size_t>(count) * (type == ATTILE_F32 ? 4 : 2)) {}
    double set(int64_t i, float x) {
        if (dtype == ATTILE_F32) {
            std::memcpy(bytes.data() + i * 4, &x, sizeof x);
            return static_cast<double>(x);
        }
        const uint16_t bits = dtype == ATTILE_F16 ? cpu::float_to_half(x) : cpu::float_to_brain(x);
        std::memcpy(bytes.data() + i * 2, &bits, sizeof bits);
        return static_cast<double>(dtype == ATTILE_F16 ? cpu::half_to_float(bits)
                                                       : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    }
    attile_tensor tensor(int64_t rows, int64_t head_dim) {
        attile_tensor t;
        const int64_t shape[4] = {1, 1, rows, head_dim};
        EXPECT_EQ(attile_tensor_init(&t, bytes.data(), dtype, 4, shape), ATTILE_OK) << last_error();
        return t;
    }
};

struct Problem {
    int32_t dtype;
    int64_t rows, head_dim;
    int64_t large;     // the key whose score is 0; all others' is -kBelow
    bool values_vary;  // else all are 1
};

// The largest error of o, and of lse.
void expect_close(attile_context *context, const Problem &p) {
    Elements q(p.dtype, p.rows * p.head_dim), k(p.dtype, kKeys * p.head_dim), v(p.dtype, kKeys * p.head_dim),
        o(ATTILE_F32, p.rows * p.head_dim);
    std::vector<float> lse(static_cast<size_t>(p.rows), NAN);
    for (int64_t i = 0; i < p.rows; ++i) q.set(i * p.head_dim, 1);
    const double small = std::exp(-static_cast<double>(kBelow));
    std::vector<double> sum(static_cast<size_t>(p.head_dim));
    uint64_t state = 1;
    for (int64_t j = 0; j < kKeys; ++j) {
        k.set(j * p.head_dim, j == p.large ? 0.0f : -1.0f);
        for (int64_t c = 0; c < p.head_dim; ++c) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const float value = p.values_vary ? 0.5f + static_cast<float>(state >> 40) * 0x1p-24f : 1.0f;
            sum[static_cast<size_t>(c)] += (j == p.large ? 1.0 : small) * v.set(j * p.head_dim + c, value);
        }
    }
    for (int64_t i = 0; i < p.rows * p.head_dim; ++i) o.set(i, NAN);
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = q.tensor(p.rows, p.head_dim);
    args.k = k.tensor(kKeys, p.head_dim);
    args.v = v.tensor(kKeys, p.head_dim);
    args.o = o.tensor(p.rows, p.head_dim);
    const int64_t shape[3] = {1, 1, p.rows};
    ASSERT_EQ(attile_tensor_init(&args.lse, lse.data(), ATTILE_F32, 3, shape), ATTILE_OK) << last_error();
    args.scale = static_cast<double>(kBelow);
    ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
    const double weights = 1 + small * static_cast<double>(kKeys - 1);
    double worst = 0;
    for (int64_t i = 0; i < p.rows; ++i) {
        for (int64_t c = 0; c < p.head_dim; ++c) {
            float got;
            std::memcpy(&got, o.bytes.data() + (i * p.head_dim + c) * 4, sizeof got);
            const double exact = sum[static_cast<size_t>(c)] / weights;
            const double error = std::fabs(static_cast<double>(got) - exact) / exact;
            worst = std::isnan(error) ? INFINITY : std::fmax(worst, error);
        }
        EXPECT_LE(std::fabs(static_cast<double>(lse[static_cast<size_t>(i)]) - std::log(weights)), kBound);
    }
    EXPECT_LE(worst, kBound);
}

// Few rows and many; widths of which a row is less than a vector, some vectors, and more than the registers hold.
TEST(CpuLongSums, ManySmallWeightsBesideALargeOneAreKept) {
    std::vector<Problem> problems;
    for (const int32_t dtype : {ATTILE_F32, ATTILE_F16, ATTILE_BF16}) {
        for (const int64_t rows : {1, 2, 8, 9, 40}) {
            for (const int64_t large : {int64_t{0}, int64_t{50000}, kKeys - 1}) {
                for (const bool values_vary : {false, true}) problems.push_back({dtype, rows, 8, large, values_vary});
            }
        }
    }
    for (const int64_t rows : {1, 40}) {
        for (const int64_t head_dim : {20, 64, 128, 200}) problems.push_back({ATTILE_F32, rows, head_dim, 0, false});
    }
    for (const std::string &target : targets_here()) {
        const CpuContext alone = open_cpu(target, 1), team = open_cpu(target, 3);
        for (const Problem &p : problems) {
            SCOPED_TRACE(target + " dtype " + std::to_string(p.dtype) + " rows " + std::to_string(p.rows) + " head dim " +
                         std::to_string(p.head_dim) + " large key " + std::to_string(p.large) + (p.values_vary ? " values vary" : ""));
            expect_close((p.rows % 2 == 0 ? alone : team).get(), p);
        }
    }
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// What attention does to scores, where the result is known: queries and keys of one column, so that a score is a product, and lse, which
// shows scores to a few roundings.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu_contexts.h"
#include "element.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Numbers stored as one of three types, and what they have become by that.
struct Numbers {
    int32_t dtype;
    std::vector<unsigned char> bytes;

    Numbers(int32_t type, const std::vector<float> &values) : dtype(type) {
        for (const float x : values) {
            const uint16_t bits = dtype == ATTILE_F16 ? cpu::float_to_half(x) : cpu::float_to_brain(x);
            const auto *from =
                dtype == ATTILE_F32 ? reinterpret_cast<const unsigned char *>(&x) : reinterpret_cast<const unsigned char *>(&bits);
            bytes.insert(bytes.end(), from, from + (dtype == ATTILE_F32 ? 4 : 2));
        }
    }
    double at(int64_t i) const {
        if (dtype == ATTILE_F32) {
            float x;
            std::memcpy(&x, bytes.data() + i * 4, sizeof x);
            return static_cast<double>(x);
        }
        uint16_t bits;
        std::memcpy(&bits, bytes.data() + i * 2, sizeof bits);
        return static_cast<double>(dtype == ATTILE_F16 ? cpu::half_to_float(bits)
                                                       : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    }
    attile_tensor tensor(const std::vector<int64_t> &shape) {
        attile_tensor t;
        EXPECT_EQ(attile_tensor_init(&t, bytes.data(), dtype, static_cast<int32_t>(shape.size()), shape.data()), ATTILE_OK) << last_error();
        return t;
    }
};

// q: rows of one column; k: keys, v: ones, or NaN where the key is. Fills in what is common, calls, and gives lse; o is 1 where lse is a
// number.
struct Problem {
    Numbers q, k, v, o;
    std::vector<float> lse;
    attile_attention_args args;

    Problem(int32_t dtype, const std::vector<float> &queries, const std::vector<float> &keys)
        : q(dtype, queries),
          k(dtype, keys),
          v(dtype, values_of(keys)),
          o(ATTILE_F32, std::vector<float>(queries.size(), NAN)),
          lse(queries.size(), NAN) {
        attile_attention_init(&args, sizeof args);
        const int64_t rows = static_cast<int64_t>(queries.size()), count = static_cast<int64_t>(keys.size()), shape[3] = {1, 1, rows};
        args.q = q.tensor({1, 1, rows, 1});
        args.k = k.tensor({1, 1, count, 1});
        args.v = v.tensor({1, 1, count, 1});
        args.o = o.tensor({1, 1, rows, 1});
        EXPECT_EQ(attile_tensor_init(&args.lse, lse.data(), ATTILE_F32, 3, shape), ATTILE_OK) << last_error();
    }
    void run(attile_context *context) {
        ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
        for (size_t i = 0; i < lse.size(); ++i) {
            ASSERT_NEAR(o.at(static_cast<int64_t>(i)), lse[i] == kHidden ? 0.0 : 1.0, 0.01) << "row " << i << ", lse " << lse[i];
        }
    }

  private:
    static std::vector<float> values_of(const std::vector<float> &keys) {
        std::vector<float> values;
        for (const float key : keys) values.push_back(std::isnan(key) ? NAN : 1.0f);
        return values;
    }
};

// Calls body(context, dtype) for each set of instructions and type.
template <class Body>
void each_way(Body body) {
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 1);
        for (const int32_t dtype : {ATTILE_F32, ATTILE_F16, ATTILE_BF16}) {
            SCOPED_TRACE(target + " dtype " + std::to_string(dtype));
            body(context.get(), dtype);
        }
    }
}

// Scores from far below their cap to far above it, side by side.
TEST(CpuOptions, ScoresAreCapped) {
    Random random(1);
    each_way([&](attile_context *context, int32_t dtype) {
        for (const int64_t rows : {3, 40, 100}) {
            for (const double cap : {1e-7, 0.5, 30.0, 1e6, 1e33}) {
                for (const double scale : {1.0, 0.3125, -2.0}) {
                    std::vector<float> queries;
                    for (int64_t i = 0; i < rows; ++i) {
                        const double size = random.between(0, 3) == 0 ? 8.0 : 0.3;
                        const double score = size * cap * (static_cast<double>(random.between(-1000, 1000)) / 1000);
                        queries.push_back(static_cast<float>(std::fmin(std::fmax(score, -6e4), 6e4)));
                    }
                    Problem problem(dtype, queries, {1.0f});
                    problem.args.scale = scale;
                    problem.args.softcap = cap;
                    problem.run(context);
                    for (int64_t i = 0; i < rows; ++i) {
                        const double exact = cap * std::tanh(problem.q.at(i) * scale / cap);
                        ASSERT_NEAR(static_cast<double>(problem.lse[static_cast<size_t>(i)]), exact, 4e-7 * std::fabs(exact) + 1e-44)
                            << "row " << i << " of " << rows << ", cap " << cap << ", scale " << scale << ", score "
                            << problem.q.at(i) * scale;
                    }
                }
            }
        }
    });
}

// Numbers of keys around those that are turned together, rows that fill their panel or not.
TEST(CpuOptions, BytesHideKeys) {
    Random random(2);
    each_way([&](attile_context *context, int32_t dtype) {
        for (const int64_t keys : {1, 15, 16, 17, 63, 64, 65, 100, 127, 128, 190, 400}) {
            const int64_t rows = random.pick<int64_t>({9, 31, 32, 40});
            Problem problem(dtype, std::vector<float>(static_cast<size_t>(rows), 0.0f),
                            std::vector<float>(static_cast<size_t>(keys), 1.0f));
            std::vector<uint8_t> allowed(static_cast<size_t>(rows * keys));
            const int64_t shown = random.between(0, 10);
            for (uint8_t &byte : allowed)
                byte = random.between(0, 9) < shown ? static_cast<uint8_t>(random.pick<int64_t>({1, 2, 128, 255})) : uint8_t{0};
            const int64_t shape[2] = {rows, keys};
            ASSERT_EQ(attile_tensor_init(&problem.args.allowed, allowed.data(), ATTILE_U8, 2, shape), ATTILE_OK) << last_error();
            problem.run(context);
            for (int64_t i = 0; i < rows; ++i) {
                int64_t count = 0;
                for (int64_t j = 0; j < keys; ++j) count += allowed[static_cast<size_t>(i * keys + j)] != 0 ? 1 : 0;
                const double exact = std::log(static_cast<double>(count)), got = static_cast<double>(problem.lse[static_cast<size_t>(i)]);
                ASSERT_TRUE(count == 0 ? got == exact : std::fabs(got - exact) <= 1e-6)
                    << "row " << i << " of " << rows << ", " << keys << " keys: " << got << ", expected " << exact;
            }
        }
    });
}

// Every type of bias, with a distance and without, at any scale; -inf hides a key that holds NaN, and no other row or key is changed by it.
TEST(CpuOptions, BiasAndDistancesAreAdded) {
    Random random(3);
    each_way([&](attile_context *context, int32_t dtype) {
        for (const int64_t keys : {1, 17, 31, 32, 33, 96, 150, 400}) {
            for (const int32_t bias_type : {dtype, static_cast<int32_t>(ATTILE_F32)}) {
                for (const bool distances : {false, true}) {
                    const int64_t rows = random.pick<int64_t>({9, 31, 32, 40});
                    std::vector<float> queries, key_numbers, bias_numbers, slopes(1, 0.25f);
                    const auto draw = [&] { return static_cast<float>(random.between(-64, 64)) / 32; };
                    const int64_t nan_key = random.between(0, 2) == 0 ? random.between(0, keys - 1) : -1;
                    for (int64_t i = 0; i < rows; ++i) queries.push_back(draw());
                    for (int64_t j = 0; j < keys; ++j) key_numbers.push_back(j == nan_key ? NAN : draw());
                    for (int64_t n = 0; n < rows * keys; ++n)
                        bias_numbers.push_back(n % keys == nan_key || random.between(0, 9) == 0 ? kHidden : draw());
                    Problem problem(dtype, queries, key_numbers);
                    Numbers bias(bias_type, bias_numbers);
                    problem.args.bias = bias.tensor({rows, keys});
                    problem.args.scale = 0.75;
                    Numbers slope(ATTILE_F32, slopes);
                    if (distances) problem.args.alibi_slopes = slope.tensor({1});
                    problem.run(context);
                    for (int64_t i = 0; i < rows; ++i) {
                        double sum = 0;
                        for (int64_t j = 0; j < keys; ++j) {
                            if (bias_numbers[static_cast<size_t>(i * keys + j)] == kHidden) continue;
                            const double away = static_cast<double>(std::abs(j - i - (keys - rows)));
                            sum += std::exp(0.75 * problem.q.at(i) * problem.k.at(j) + bias.at(i * keys + j) -
                                            (distances ? 0.25 * away : 0.0));
                        }
                        const double exact = std::log(sum), got = static_cast<double>(problem.lse[static_cast<size_t>(i)]);
                        ASSERT_TRUE(sum == 0 ? got == exact : std::fabs(got - exact) <= 4e-6)
                            << "row " << i << " of " << rows << ", " << keys << " keys: " << got << ", expected " << exact;
                    }
                }
            }
        }
    });
}

}  // namespace
}  // namespace attile::test

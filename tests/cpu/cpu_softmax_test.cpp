// SPDX-License-Identifier: Apache-2.0
// Softmax of rows that hold everything between 1 and nothing: weights that are subnormal lie beside others in vectors, and are results.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cpu_contexts.h"

namespace attile::test {
namespace {

template <class T>
std::vector<T> softmax(attile_context *context, const T *x, int64_t rows, int64_t count, bool columns = false) {
    std::vector<T> y(static_cast<size_t>(rows * count), std::numeric_limits<T>::quiet_NaN());
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    const int64_t shape[2] = {columns ? count : rows, columns ? rows : count};
    const int32_t dtype = sizeof(T) == 4 ? ATTILE_F32 : ATTILE_F64;
    EXPECT_EQ(attile_tensor_init(&args.x, const_cast<T *>(x), dtype, 2, shape), ATTILE_OK) << last_error();
    EXPECT_EQ(attile_tensor_init(&args.y, y.data(), dtype, 2, shape), ATTILE_OK) << last_error();
    args.axis = columns ? 0 : 1;
    EXPECT_EQ(attile_softmax(context, &args), ATTILE_OK) << last_error();
    return y;
}

template <class T>
class CpuSoftmax : public ::testing::Test {
  protected:
    static constexpr int64_t kRows = 11;
    static constexpr double kDeepest = sizeof(T) == 4 ? 112 : 760;  // e^-kDeepest is 0

    std::mt19937_64 random_{17};

    // The largest of each row, and of each column of as many elements, is 0, so that differences to it are exact.
    std::vector<T> draw(int64_t count) {
        std::uniform_real_distribution<double> depth(0, kDeepest);
        std::vector<T> x(static_cast<size_t>(kRows * count));
        for (int64_t i = 0; i < kRows * count; ++i) {
            x[static_cast<size_t>(i)] = i % 7 == 3 ? -std::numeric_limits<T>::infinity() : static_cast<T>(-depth(random_));
        }
        for (int64_t r = 0; r < kRows; ++r) {
            const auto place = static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
            x[static_cast<size_t>(r * count + place)] = x[static_cast<size_t>(place * kRows + r)] = 0;
        }
        return x;
    }

    static void expect_softmax(const T *x, const T *y, int64_t step, int64_t count) {
        long double sum = 0, top = -HUGE_VALL;
        for (int64_t i = 0; i < count; ++i) top = std::fmax(top, static_cast<long double>(x[i * step]));
        for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<long double>(x[i * step]) - top);
        for (int64_t i = 0; i < count; ++i) {
            const long double right = std::exp(static_cast<long double>(x[i * step]) - top) / sum;
            const long double bound =
                8 * static_cast<long double>(std::numeric_limits<T>::epsilon()) * right + 2 * std::numeric_limits<T>::denorm_min();
            const long double error = std::fabs(static_cast<long double>(y[i * step]) - right);
            EXPECT_TRUE(error <= bound) << "element " << i << " of " << count << " is " << y[i * step] << ", expected " << right;
        }
    }
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CpuSoftmax, Types);

TYPED_TEST(CpuSoftmax, ResultsDownToTheSmallestOnEachTarget) {
    using T = TypeParam;
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 1);
        ASSERT_NE(context, nullptr) << target;
        for (const int64_t count : {1, 3, 16, 17, 64, 65, 130, 515, 2100}) {
            SCOPED_TRACE(target + ", " + std::to_string(count) + " elements");
            const std::vector<T> x = this->draw(count), y = softmax(context.get(), x.data(), this->kRows, count);
            for (int64_t r = 0; r < this->kRows; ++r) {
                const T *const row = x.data() + r * count;
                this->expect_softmax(row, y.data() + r * count, 1, count);
                const std::vector<T> alone = softmax(context.get(), row, 1, count);
                EXPECT_EQ(std::memcmp(alone.data(), y.data() + r * count, static_cast<size_t>(count) * sizeof(T)), 0) << "row " << r;
            }
        }
    }
}

TYPED_TEST(CpuSoftmax, ColumnsDownToTheSmallestOnEachTarget) {
    using T = TypeParam;
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 1);
        ASSERT_NE(context, nullptr) << target;
        for (const int64_t count : {1, 5, 130, 300}) {
            SCOPED_TRACE(target + ", " + std::to_string(count) + " elements");
            const std::vector<T> x = this->draw(count), y = softmax(context.get(), x.data(), this->kRows, count, true);
            // Elements of a column are kRows apart here. The deepest of them decides no other's bits.
            for (int64_t c = 0; c < this->kRows; ++c) this->expect_softmax(x.data() + c, y.data() + c, this->kRows, count);
        }
    }
}

TYPED_TEST(CpuSoftmax, NanAndRowsOfNothingStayTheirOwn) {
    using T = TypeParam;
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 1);
        ASSERT_NE(context, nullptr) << target;
        for (const int64_t count : {2, 70, 515}) {
            std::vector<T> x = this->draw(count);
            x[static_cast<size_t>(2 * count + count / 2)] = std::numeric_limits<T>::quiet_NaN();
            x[static_cast<size_t>(4 * count)] = std::numeric_limits<T>::infinity();
            for (int64_t i = 0; i < count; ++i) x[static_cast<size_t>(3 * count + i)] = -std::numeric_limits<T>::infinity();
            const std::vector<T> y = softmax(context.get(), x.data(), this->kRows, count);
            for (int64_t i = 0; i < count; ++i) {
                EXPECT_TRUE(std::isnan(y[static_cast<size_t>(2 * count + i)])) << target;
                EXPECT_EQ(y[static_cast<size_t>(3 * count + i)], 0) << target;
            }
            EXPECT_TRUE(std::isnan(y[static_cast<size_t>(4 * count)])) << target;
            for (const int64_t r : {0, 1, 5, 10}) this->expect_softmax(x.data() + r * count, y.data() + r * count, 1, count);
        }
    }
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Sizes that do not wrap, and calls that would need more memory than there is: a status, nothing written, and the next call works.
#include "size.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cpu_contexts.h"

namespace attile::test {
namespace {

using cpu::bytes_for;
using cpu::Cutter;
using cpu::Size;

TEST(CpuSize, SumsAndProductsStayAtTheTop) {
    const Size top = Size::kMost;
    EXPECT_EQ((Size(3) * 5 + 7).value(), 22);
    EXPECT_EQ(Size(INT64_MAX).value(), Size::kMost);
    EXPECT_EQ((top + top).value(), Size::kMost);
    EXPECT_EQ((top * top).value(), Size::kMost);
    EXPECT_EQ((Size(int64_t{1} << 32) * (int64_t{1} << 32)).value(), Size::kMost);
    EXPECT_EQ((top * 0).value(), 0);
    EXPECT_EQ(top.rounded_up(256).value(), Size::kMost);
    EXPECT_EQ(Size(257).rounded_up(256).value(), 512);
    EXPECT_EQ(bytes_for<double>(3, 11).value(), 512);
    EXPECT_EQ(bytes_for<float>(int64_t{1} << 62).value(), Size::kMost);
    EXPECT_EQ(cpu::ceil_div(INT64_MAX, 2), (int64_t{1} << 62));
    EXPECT_EQ(cpu::ceil_div(0, 7), 0);
}

TEST(CpuSize, AScratchThatIsOnlyCountedIsAsLongAsItsPieces) {
    Cutter count(nullptr);
    EXPECT_EQ(count.cut<float>(3, 5), nullptr);
    count.cut<double>(100);
    EXPECT_EQ(count.used(), 256 + 1024);
    count.cut<float>(int64_t{1} << 61, 9);
    count.cut<float>(1);
    EXPECT_EQ(count.used(), Size::kMost);
}

attile_tensor still(float *data, std::vector<int64_t> shape) {
    attile_tensor t{};
    t.data = data;
    t.dtype = ATTILE_F32;
    t.rank = static_cast<int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), t.shape);
    return t;
}

TEST(CpuSize, AProductOfMoreThanAllMemoryIsRefused) {
    std::vector<float> row(80, 1.0f);
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 2);
        for (const int64_t k : {int64_t{1} << 62, INT64_MAX, (int64_t{1} << 56) + 1}) {
            for (const auto &[m, n] : {std::pair<int64_t, int64_t>{1, 1}, {1, 80}, {2, 80}, {7, 80}, {16, 80}}) {
                std::vector<float> d(static_cast<size_t>(m * n), -7.0f);
                const int64_t shape[2] = {m, n};
                attile_gemm_args args;
                attile_gemm_init(&args, sizeof args);
                args.a = still(row.data(), {m, k});
                args.b = still(row.data(), {k, n});
                args.b.stride[1] = 1;
                attile_tensor_init(&args.d, d.data(), ATTILE_F32, 2, shape);
                const int32_t status = attile_gemm(context.get(), &args);
                const bool countable = k <= INT64_MAX / n;  // the core refuses what has more elements than 63 bits count
                EXPECT_EQ(status, countable ? ATTILE_ERROR_OUT_OF_HOST_MEMORY : ATTILE_ERROR_OVERFLOW) << target << " " << m << " " << k;
                for (const float x : d) ASSERT_EQ(x, -7.0f);
            }
        }
    }
}

TEST(CpuSize, AHeadOfMoreThanAllMemoryIsRefused) {
    float zero = 0, value = 3, o = -7;
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 2);
        for (const int64_t d : {int64_t{1} << 57, (int64_t{1} << 57) - 9, int64_t{1} << 62, INT64_MAX}) {
            attile_attention_args args;
            attile_attention_init(&args, sizeof args);
            args.q = args.k = still(&zero, {1, 1, 1, d});
            args.v = still(&value, {1, 1, 1, 1});
            args.o = still(&o, {1, 1, 1, 1});
            for (const uint32_t flags : {0u, ATTILE_FLAG_BATCH_INVARIANT}) {
                args.flags = flags;
                EXPECT_EQ(attile_attention(context.get(), &args), ATTILE_ERROR_OUT_OF_HOST_MEMORY) << target << " head_dim " << d;
                EXPECT_EQ(o, -7.0f);
            }
            args.q = args.k = still(&zero, {1, 1, 1, 1});
            args.flags = 0;
            EXPECT_EQ(attile_attention(context.get(), &args), ATTILE_OK) << last_error();
            EXPECT_EQ(o, 3.0f);
            o = -7;
        }
    }
}

}  // namespace
}  // namespace attile::test

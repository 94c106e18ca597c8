// SPDX-License-Identifier: Apache-2.0
// attile_tensor_init, the checks of a tensor by itself, and operands.
#include "tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace {

using namespace attile::core;

alignas(64) unsigned char memory[4096];

attile_tensor tensor(std::initializer_list<int64_t> shape, std::initializer_list<int64_t> stride, int32_t dtype = ATTILE_F32,
                     void *data = memory) {
    attile_tensor made = {};
    made.data = data;
    made.dtype = dtype;
    made.rank = static_cast<int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), made.shape);
    std::copy(stride.begin(), stride.end(), made.stride);
    return made;
}

int32_t check(const attile_tensor &made, bool output = false, bool query = false, View *view = nullptr) {
    View scratch;
    return check_tensor({"test", query}, "t", made, {kFloats, 1, 4, output}, view != nullptr ? view : &scratch);
}

TEST(TensorInit, FillsDenseRowMajor) {
    attile_tensor made;
    const int64_t shape[4] = {2, 3, 4, 5};
    ASSERT_EQ(attile_tensor_init(&made, memory, ATTILE_BF16, 4, shape), ATTILE_OK);
    EXPECT_EQ(made.data, memory);
    EXPECT_EQ(made.dtype, ATTILE_BF16);
    EXPECT_EQ(made.rank, 4);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(made.shape[i], shape[i]);
    EXPECT_EQ(made.stride[0], 60);
    EXPECT_EQ(made.stride[1], 20);
    EXPECT_EQ(made.stride[2], 5);
    EXPECT_EQ(made.stride[3], 1);
}

TEST(TensorInit, RefusesAndLeavesZero) {
    const int64_t shape[4] = {2, 3, 4, 5}, negative[2] = {3, -1}, huge[3] = {int64_t{1} << 31, int64_t{1} << 31, 2},
                  wide[2] = {int64_t{1} << 31, int64_t{1} << 30};
    attile_tensor made;
    const auto init = [&](int32_t dtype, int32_t rank, const int64_t *extents) {
        std::memset(&made, 0xff, sizeof made);
        const int32_t status = attile_tensor_init(&made, memory, dtype, rank, extents);
        const attile_tensor zero = {};
        EXPECT_EQ(std::memcmp(&made, &zero, sizeof zero), 0);
        return status;
    };
    EXPECT_EQ(attile_tensor_init(nullptr, memory, ATTILE_F32, 4, shape), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(init(ATTILE_F32, 4, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(init(0, 4, shape), ATTILE_ERROR_INVALID_DTYPE);
    EXPECT_EQ(init(0x0221, 4, shape), ATTILE_ERROR_INVALID_DTYPE);
    EXPECT_EQ(init(ATTILE_F32, 0, shape), ATTILE_ERROR_INVALID_RANK);
    EXPECT_EQ(init(ATTILE_F32, 5, shape), ATTILE_ERROR_INVALID_RANK);
    EXPECT_EQ(init(ATTILE_F32, 2, negative), ATTILE_ERROR_INVALID_SHAPE);
    EXPECT_EQ(init(ATTILE_F32, 3, huge), ATTILE_ERROR_OVERFLOW);
    EXPECT_EQ(init(ATTILE_F32, 2, wide), ATTILE_ERROR_OVERFLOW) << "4 bytes times 2^61";
    EXPECT_EQ(attile_tensor_init(&made, memory, ATTILE_U8, 2, wide), ATTILE_OK);
    EXPECT_EQ(attile_tensor_init(&made, nullptr, ATTILE_F64, 2, shape), ATTILE_OK) << "NULL is a matter of the call";
}

TEST(Tensor, MeasuresItsBytesWhicheverWayTheStridesGo) {
    View view;
    ASSERT_EQ(check(tensor({2, 3}, {3, 1}), false, false, &view), ATTILE_OK);
    const uintptr_t base = reinterpret_cast<uintptr_t>(memory);
    EXPECT_EQ(view.low, base);
    EXPECT_EQ(view.high, base + 24);
    const attile_tensor backwards = tensor({2, 3}, {3, -1}, ATTILE_F32, memory + 8);
    ASSERT_EQ(check(backwards, true, false, &view), ATTILE_OK);
    EXPECT_EQ(view.low, base);
    EXPECT_EQ(view.high, base + 24);
    ASSERT_EQ(check(tensor({2, 1}, {0, INT64_MAX}, ATTILE_F64), false, false, &view), ATTILE_OK) << "the stride of an extent 1 is nothing";
    EXPECT_EQ(view.high, base + 8);
}

TEST(Tensor, WithoutElementsNeedsNeitherDataNorStrides) {
    View view;
    const attile_tensor nothing = tensor({2, 0, 3}, {INT64_MAX, INT64_MIN, 0}, ATTILE_F32, nullptr);
    ASSERT_EQ(check(nothing, true, false, &view), ATTILE_OK);
    EXPECT_TRUE(view.empty);
    EXPECT_FALSE(view.located);
    const attile_operand operand = make_aligned_operand(view);
    EXPECT_EQ(operand.dtype, ATTILE_F32);
    for (const int64_t stride : operand.stride) EXPECT_EQ(stride, 0);
}

TEST(Tensor, OverflowIsFoundAtTheEdge) {
    const int64_t edge = INT64_MAX / 4;  // bytes of f32
    EXPECT_EQ(check(tensor({2}, {edge / 2})), ATTILE_OK);
    EXPECT_EQ(check(tensor({2}, {edge})), ATTILE_ERROR_OVERFLOW);
    EXPECT_EQ(check(tensor({2}, {edge / 2 + 1})), ATTILE_ERROR_OVERFLOW);
    EXPECT_EQ(check(tensor({2}, {-edge / 2 - 1})), ATTILE_ERROR_OVERFLOW);
    void *const far = reinterpret_cast<void *>(uintptr_t{1} << 46);  // with 4 TiB of addresses below it on every system
    EXPECT_EQ(check(tensor({2}, {-1024 * 1024 * 1024 * int64_t{1024}}, ATTILE_F32, far), false, true), ATTILE_OK)
        << "reads nothing in a query";
    EXPECT_EQ(check(tensor({INT64_MAX, INT64_MAX}, {0, 0})), ATTILE_ERROR_OVERFLOW) << "the count of elements";
    EXPECT_EQ(check(tensor({INT64_MAX}, {0})), ATTILE_OK) << "broadcast";
}

TEST(Tensor, QueryTakesNoData) {
    View view;
    EXPECT_EQ(check(tensor({2}, {1}, ATTILE_F32, nullptr)), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(check(tensor({2}, {1}, ATTILE_F32, nullptr), false, true, &view), ATTILE_OK);
    EXPECT_FALSE(view.located);
    EXPECT_FALSE(view.empty);
}

TEST(Tensor, IsAbsentOnlyIfAllZero) {
    EXPECT_TRUE(is_absent({}));
    attile_tensor forgotten_dtype = tensor({2}, {1}, 0);
    EXPECT_FALSE(is_absent(forgotten_dtype));
    EXPECT_EQ(check(forgotten_dtype), ATTILE_ERROR_INVALID_DTYPE);
    EXPECT_EQ(check({}), ATTILE_ERROR_NULL_ARGUMENT);
}

// Outputs whose elements share memory, against a count by hand: every small shape and stride of up to three axes.
TEST(Tensor, SelfOverlapAgreesWithBruteForce) {
    int refused_though_apart = 0, cases = 0;
    for (int64_t n0 = 1; n0 <= 3; ++n0) {
        for (int64_t n1 = 1; n1 <= 4; ++n1) {
            for (int64_t n2 = 1; n2 <= 3; ++n2) {
                for (int64_t s0 = -7; s0 <= 13; ++s0) {
                    for (int64_t s1 = -3; s1 <= 5; ++s1) {
                        for (int64_t s2 = 0; s2 <= 2; ++s2) {
                            std::set<int64_t> seen;
                            for (int64_t i = 0; i < n0 * n1 * n2; ++i) seen.insert(i / (n1 * n2) * s0 + i / n2 % n1 * s1 + i % n2 * s2);
                            const bool apart = static_cast<int64_t>(seen.size()) == n0 * n1 * n2;
                            const int32_t status = check(tensor({n0, n1, n2}, {s0, s1, s2}, ATTILE_F32, memory + 2048), true);
                            ++cases;
                            if (status == ATTILE_OK) {
                                ASSERT_TRUE(apart) << n0 << ' ' << n1 << ' ' << n2 << " strides " << s0 << ' ' << s1 << ' ' << s2;
                            } else if (apart) {
                                ++refused_though_apart;
                                // Only three axes that interleave are given up on.
                                ASSERT_TRUE(n0 > 1 && n1 > 1 && n2 > 1) << n0 << ' ' << n1 << ' ' << n2 << ' ' << s0 << ' ' << s1;
                            }
                        }
                    }
                }
            }
        }
    }
    EXPECT_LT(refused_though_apart, cases / 20);
}

TEST(Operand, ZeroesStridesOfExtentOneAndAlignsFromTheLastAxis) {
    View view;
    const attile_tensor t = tensor({2, 1, 3}, {40, 99, 7});
    ASSERT_EQ(check(t, false, false, &view), ATTILE_OK);
    const attile_operand operand = make_aligned_operand(view);
    EXPECT_EQ(operand.data, memory);
    EXPECT_EQ(operand.stride[0], 0);
    EXPECT_EQ(operand.stride[1], 40);
    EXPECT_EQ(operand.stride[2], 0);
    EXPECT_EQ(operand.stride[3], 7);
    const attile_operand three = make_aligned_operand(view, 2);
    EXPECT_EQ(three.stride[0], 40);
    EXPECT_EQ(three.stride[2], 7);
    EXPECT_EQ(three.stride[3], 0);
    const attile_operand permuted = make_operand(view, 2, -1, 0);
    EXPECT_EQ(permuted.stride[0], 7);
    EXPECT_EQ(permuted.stride[1], 0);
    EXPECT_EQ(permuted.stride[2], 40);
    const attile_operand absent = make_aligned_operand(View());
    EXPECT_EQ(absent.data, nullptr);
    EXPECT_EQ(absent.dtype, 0);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// What attile_reduce and attile_softmax make of their arguments: the axis in question is moved last.
#include "front_test.h"

namespace attile_test {
namespace {

class ReduceFront : public FrontTest {
  protected:
    ReduceFront() {
        attile_reduce_init(&reduce, sizeof reduce);
        reduce.op = ATTILE_REDUCE_MAX;
        attile_softmax_init(&softmax, sizeof softmax);
    }
    static void expect_shape(const int64_t *shape, std::initializer_list<int64_t> extents) {
        EXPECT_TRUE(std::equal(extents.begin(), extents.end(), shape)) << shape[0] << ' ' << shape[1] << ' ' << shape[2] << ' ' << shape[3];
    }

    attile_reduce_args reduce;
    attile_softmax_args softmax;
};

TEST_F(ReduceFront, EveryAxisOfRank4) {
    const int64_t extents[4] = {2, 3, 4, 5};
    const int64_t strides[4] = {60, 20, 5, 1};
    for (int32_t axis = -4; axis < 4; ++axis) {
        const int32_t chosen = axis < 0 ? axis + 4 : axis;
        int64_t kept[4] = {2, 3, 4, 5};
        kept[chosen] = 1;
        reduce.x = softmax.x = dense(ATTILE_F32, {2, 3, 4, 5});
        reduce.y = dense(ATTILE_F32, {kept[0], kept[1], kept[2], kept[3]});
        softmax.y = dense(ATTILE_F32, {2, 3, 4, 5});
        reduce.axis = softmax.axis = axis;
        ASSERT_EQ(attile_reduce(context, &reduce), ATTILE_OK) << last_error();
        ASSERT_EQ(attile_softmax(context, &softmax), ATTILE_OK) << last_error();
        int64_t order[4], at = 0;
        for (int64_t i = 0; i < 4; ++i) {
            if (i != chosen) order[at++] = i;
        }
        order[3] = chosen;
        for (int64_t i = 0; i < 4; ++i) {
            EXPECT_EQ(recording().reduce.shape[i], extents[order[i]]);
            EXPECT_EQ(recording().reduce.x.stride[i], strides[order[i]]);
            EXPECT_EQ(recording().softmax.shape[i], extents[order[i]]);
            EXPECT_EQ(recording().softmax.y.stride[i], strides[order[i]]);
            EXPECT_EQ(recording().reduce.y.stride[i], i == 3 ? 0 : reduce.y.stride[order[i]]);
        }
        EXPECT_EQ(recording().reduce.op, ATTILE_REDUCE_MAX);
    }
}

TEST_F(ReduceFront, MissingAxesComeFirst) {
    reduce.x = dense(ATTILE_BF16, {3, 5});
    reduce.y = dense(ATTILE_F32, {1, 5});
    reduce.axis = 0;
    ASSERT_EQ(attile_reduce(context, &reduce), ATTILE_OK) << last_error();
    expect_shape(recording().reduce.shape, {1, 1, 5, 3});
    expect_operand(recording().reduce.x, reduce.x, {0, 0, 1, 5});
    expect_operand(recording().reduce.y, reduce.y, {0, 0, 1, 0});
    EXPECT_EQ(recording().reduce.compute, ATTILE_F32);
    softmax.x = dense(ATTILE_F64, {7});
    softmax.y = dense(ATTILE_F64, {7});
    softmax.axis = -1;
    ASSERT_EQ(attile_softmax(context, &softmax), ATTILE_OK) << last_error();
    expect_shape(recording().softmax.shape, {1, 1, 1, 7});
    EXPECT_EQ(recording().softmax.compute, ATTILE_F64);
}

TEST_F(ReduceFront, EmptyAxes) {
    reduce.x = dense(ATTILE_F32, {3, 0});
    reduce.x.data = nullptr;
    reduce.y = dense(ATTILE_F32, {3, 1});
    reduce.axis = 1;
    ASSERT_EQ(attile_reduce(context, &reduce), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 1) << "over no elements there is a result";
    expect_shape(recording().reduce.shape, {1, 1, 3, 0});
    reduce.y = dense(ATTILE_F32, {1, 0});
    reduce.axis = 0;
    ASSERT_EQ(attile_reduce(context, &reduce), ATTILE_OK) << last_error();
    softmax.x = dense(ATTILE_F32, {3, 0});
    softmax.y = dense(ATTILE_F32, {3, 0});
    ASSERT_EQ(attile_softmax(context, &softmax), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 1);
}

TEST_F(ReduceFront, SoftmaxInPlace) {
    softmax.x = softmax.y = dense(ATTILE_F32, {3, 5});
    EXPECT_EQ(attile_softmax(context, &softmax), ATTILE_OK) << last_error();
    softmax.y.data = static_cast<float *>(softmax.y.data) + 5;
    EXPECT_EQ(attile_softmax(context, &softmax), ATTILE_ERROR_ALIASING);
}

TEST_F(ReduceFront, InputMayBeBroadcast) {
    reduce.x = strided(dense(ATTILE_F32, {3, 5}), {0, -1});
    reduce.y = dense(ATTILE_F32, {3, 1});
    reduce.axis = -1;
    ASSERT_EQ(attile_reduce(context, &reduce), ATTILE_OK) << last_error();
    expect_operand(recording().reduce.x, reduce.x, {0, 0, 0, -1});
}

}  // namespace
}  // namespace attile_test

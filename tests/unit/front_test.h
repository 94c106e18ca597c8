// SPDX-License-Identifier: Apache-2.0
// What the tests of the fronts share: a context on the recording backend, tensors, and the comparison of operands.
#ifndef ATTILE_TESTS_FRONT_TEST_H
#define ATTILE_TESTS_FRONT_TEST_H

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "recording_backend.h"

namespace attile_test {

class FrontTest : public ::testing::Test {
  protected:
    FrontTest() : context(recording_context()) {}
    ~FrontTest() override { attile_context_destroy(context); }
    FrontTest(const FrontTest &) = delete;

    // Dense, each in memory of its own; the recording backend reads none of it, so that addresses without memory behind them will do.
    attile_tensor dense(int32_t dtype, std::initializer_list<int64_t> shape) {
        next_ += uint64_t{1} << 32;
        attile_tensor made = {};
        EXPECT_EQ(attile_tensor_init(&made, reinterpret_cast<void *>(next_), dtype, static_cast<int32_t>(shape.size()), shape.begin()),
                  ATTILE_OK);
        return made;
    }
    static attile_tensor strided(attile_tensor tensor, std::initializer_list<int64_t> stride) {
        std::copy(stride.begin(), stride.end(), tensor.stride);
        return tensor;
    }

    attile_context *const context;

  private:
    uint64_t next_ = uint64_t{1} << 40;
};

inline void expect_operand(const attile_operand &operand, const attile_tensor &tensor, std::initializer_list<int64_t> stride) {
    EXPECT_EQ(operand.data, tensor.data);
    EXPECT_EQ(operand.dtype, tensor.dtype);
    EXPECT_EQ(operand.reserved, 0);
    EXPECT_TRUE(std::equal(stride.begin(), stride.end(), operand.stride))
        << operand.stride[0] << ", " << operand.stride[1] << ", " << operand.stride[2] << ", " << operand.stride[3];
}

inline void expect_absent(const attile_operand &operand) {
    EXPECT_EQ(operand.data, nullptr);
    EXPECT_EQ(operand.dtype, 0);
}

}  // namespace attile_test

#endif

// SPDX-License-Identifier: Apache-2.0
// A fault of the device: a program of its own, since the device is of no use to the process afterwards.
#include "cuda_test_context.h"

namespace attile::test {
namespace {

TEST_F(CudaTest, AFaultStaysWithTheContext) {
    Array<float> x(context, ATTILE_MEMORY_DEVICE, 1000);
    // Device addresses in the primary context's range, far beyond the allocation.
    float *wild = x.data() + (int64_t{1} << 34);
    int32_t kind = 0;
    if (attile_memory_kind(context, wild, &kind) != ATTILE_OK || kind != ATTILE_MEMORY_HOST) GTEST_SKIP() << "somebody's memory is there";
    Array<float> y(context, ATTILE_MEMORY_DEVICE, 1000);
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    const int64_t shape[1] = {1000};
    attile_tensor_init(&args.x, x.data(), ATTILE_F32, 1, shape);
    attile_tensor_init(&args.y, y.data(), ATTILE_F32, 1, shape);
    args.x.stride[0] = int64_t{1} << 34;  // The first element is the device's; the others are nobody's.
    EXPECT_EQ(attile_softmax(context, &args), ATTILE_OK);
    EXPECT_EQ(attile_synchronize(context, nullptr), ATTILE_ERROR_DEVICE_FAULT);
    EXPECT_EQ(attile_softmax(context, &args), ATTILE_ERROR_DEVICE_FAULT);
    EXPECT_NE(last_error().find("earlier"), std::string::npos) << last_error();
}

}  // namespace
}  // namespace attile::test

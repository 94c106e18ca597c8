// SPDX-License-Identifier: Apache-2.0
// What a device keeps of its kernels: each question reaches the vendor's runtime once, kernel by kernel, and again if it failed.
#include <gtest/gtest.h>

#include "host/kernel_cache.h"

namespace attile::test {
namespace {

const char kFirst = 0, kSecond = 0;  // Kernels are addresses.

TEST(KernelCache, ResourcesAreReadOnceForEachKernel) {
    gpu::KernelCache known;
    int asked = 0;
    const auto read = [&](gpu::KernelResources *found) {
        found->registers = ++asked;
        return ATTILE_OK;
    };
    gpu::KernelResources found;
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(known.resources(&kFirst, &found, read), ATTILE_OK);
        EXPECT_EQ(found.registers, 1);
    }
    EXPECT_EQ(known.resources(&kSecond, &found, read), ATTILE_OK);
    EXPECT_EQ(found.registers, 2);
    EXPECT_EQ(asked, 2);
}

TEST(KernelCache, OccupancyDependsOnThreadsAndSharedMemory) {
    gpu::KernelCache known;
    int asked = 0;
    const auto ask = [&](int *blocks) {
        *blocks = ++asked;
        return ATTILE_OK;
    };
    const std::size_t large = std::size_t{1} << 33;  // Beyond 32 bits: no part of the question is lost.
    int32_t blocks = 0;
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(known.occupancy(&kFirst, 128, 0, &blocks, ask), ATTILE_OK);
        EXPECT_EQ(blocks, 1);
        EXPECT_EQ(known.occupancy(&kFirst, 256, 0, &blocks, ask), ATTILE_OK);
        EXPECT_EQ(blocks, 2);
        EXPECT_EQ(known.occupancy(&kFirst, 128, large, &blocks, ask), ATTILE_OK);
        EXPECT_EQ(blocks, 3);
        EXPECT_EQ(known.occupancy(&kSecond, 128, 0, &blocks, ask), ATTILE_OK);
        EXPECT_EQ(blocks, 4);
    }
    EXPECT_EQ(asked, 4);
}

TEST(KernelCache, OptsInOnlyToMoreThanBefore) {
    gpu::KernelCache known;
    int asked = 0;
    const auto opt_in = [&] { return ++asked, ATTILE_OK; };
    EXPECT_EQ(known.allow_shared(&kFirst, 16384, opt_in), ATTILE_OK);
    EXPECT_EQ(asked, 0) << "what every kernel may have needs no leave";
    for (const std::size_t shared : {49152, 65536, 49152, 65536}) EXPECT_EQ(known.allow_shared(&kFirst, shared, opt_in), ATTILE_OK);
    EXPECT_EQ(asked, 2);
    EXPECT_EQ(known.allow_shared(&kSecond, 49152, opt_in), ATTILE_OK);
    EXPECT_EQ(asked, 3);
}

TEST(KernelCache, HandlesAreLookedUpOnceForEachKernel) {
    gpu::KernelCache known;
    int asked = 0;
    static const char kKernels[1000] = {};  // More than are found without the lock.
    const auto handle_of = [](const char *kernel) { return const_cast<char *>(kernel) + 1; };
    for (int round = 0; round < 2; ++round) {
        for (const char &kernel : kKernels) {
            void *found = nullptr;
            const auto look_up = [&](void **handle) { return ++asked, *handle = handle_of(&kernel), ATTILE_OK; };
            EXPECT_EQ(known.function(&kernel, &found, look_up), ATTILE_OK);
            EXPECT_EQ(found, handle_of(&kernel));
        }
    }
    EXPECT_EQ(asked, 1000);
}

TEST(KernelCache, AFailureIsNotKept) {
    gpu::KernelCache known;
    bool fails = true;
    int asked = 0;
    const auto answer = [&](auto *...) { return ++asked, fails ? ATTILE_ERROR_DEVICE_RUNTIME : ATTILE_OK; };
    gpu::KernelResources found;
    int32_t blocks = -1;
    EXPECT_EQ(known.resources(&kFirst, &found, answer), ATTILE_ERROR_DEVICE_RUNTIME);
    EXPECT_EQ(known.occupancy(&kFirst, 128, 0, &blocks, answer), ATTILE_ERROR_DEVICE_RUNTIME);
    EXPECT_EQ(blocks, -1);
    EXPECT_EQ(known.allow_shared(&kFirst, 65536, answer), ATTILE_ERROR_DEVICE_RUNTIME);
    void *handle = nullptr;
    const auto look_up = [&](void **made) {
        return ++asked, *made = fails ? nullptr : &asked, fails ? ATTILE_ERROR_DEVICE_RUNTIME : ATTILE_OK;
    };
    EXPECT_EQ(known.function(&kFirst, &handle, look_up), ATTILE_ERROR_DEVICE_RUNTIME);
    fails = false;
    EXPECT_EQ(known.function(&kFirst, &handle, look_up), ATTILE_OK);
    EXPECT_EQ(handle, &asked);
    EXPECT_EQ(known.resources(&kFirst, &found, answer), ATTILE_OK);
    EXPECT_EQ(known.occupancy(&kFirst, 128, 0, &blocks, answer), ATTILE_OK);
    EXPECT_EQ(known.allow_shared(&kFirst, 65536, answer), ATTILE_OK);
    EXPECT_EQ(asked, 8);
}

}  // namespace
}  // namespace attile::test

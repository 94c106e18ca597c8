// SPDX-License-Identifier: Apache-2.0
// Occupancy as kernel_model reckons it against NVIDIA's own arithmetic, the header cuda_occupancy.h of the CUDA toolkit: every known
// device, blocks of many sizes. Built where a toolkit is.
#include <cuda_occupancy.h>
#include <gtest/gtest.h>

#include "kernel_model.h"

namespace {

using namespace attile::model;

int64_t limit_of(int limit) { return limit == INT_MAX ? kNoLimit : limit; }

TEST(OccupancyHeaderTest, SameBlocksForEveryDevice) {
    int devices = 0, compared = 0;
    for (int capability = 50; capability < 130; ++capability) {
        const auto unit = unit_limits(capability);
        if (!unit) continue;
        cudaOccDeviceProp device;
        device.computeMajor = capability / 10, device.computeMinor = capability % 10;
        device.maxThreadsPerBlock = kThreadsPerBlock;
        device.maxThreadsPerMultiprocessor = static_cast<int>(unit->threads);
        device.regsPerBlock = device.regsPerMultiprocessor = static_cast<int>(unit->registers);
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 << 10;
        device.sharedMemPerMultiprocessor = static_cast<size_t>(unit->shared_bytes);
        device.numSms = 1;
        device.sharedMemPerBlockOptin = static_cast<size_t>(shared_per_block(capability));
        device.reservedSharedMemPerBlock = static_cast<size_t>(allocation_units(capability)->shared_reserved);
        int blocks = 0;
        if (cudaOccMaxBlocksPerMultiprocessor(&blocks, &device) == CUDA_OCC_ERROR_UNKNOWN_DEVICE) {
            EXPECT_GE(capability, 100) << "toolkits that this project takes know capability " << capability;  // 11.8 ends at 9.0.
            continue;
        }
        EXPECT_EQ(unit->blocks, blocks) << "capability " << capability;
        ++devices;
        for (int threads : {1, 31, 32, 33, 64, 96, 100, 128, 160, 192, 256, 288, 384, 512, 640, 768, 1000, 1024})
            for (int registers = 1; registers <= kRegistersPerThread; ++registers)
                for (int shared : {0, 1, 255, 256, 257, 1000, 2048, 4096, 6000, 8192, 16384, 20000, 32768, 49152}) {
                    cudaOccFuncAttributes kernel;
                    kernel.maxThreadsPerBlock = kThreadsPerBlock;
                    kernel.numRegs = registers;
                    kernel.sharedSizeBytes = static_cast<size_t>(shared);
                    const cudaOccDeviceState state;
                    cudaOccResult theirs;
                    ASSERT_EQ(cudaOccMaxActiveBlocksPerMultiprocessor(&theirs, &device, &kernel, &state, threads, 0), CUDA_OCC_SUCCESS)
                        << "capability " << capability;
                    const Occupancy ours = occupancy({threads, registers, shared}, *unit, allocation_units(capability).value());
                    ASSERT_EQ(ours.blocks, theirs.activeBlocksPerMultiprocessor)
                        << "capability " << capability << ", " << threads << " threads, " << registers << " registers, " << shared
                        << " bytes";
                    ASSERT_EQ(ours.blocks_by[kByThreads], limit_of(theirs.blockLimitWarps));
                    ASSERT_EQ(ours.blocks_by[kByRegisters], limit_of(theirs.blockLimitRegs));
                    ASSERT_EQ(ours.blocks_by[kByShared], limit_of(theirs.blockLimitSharedMem));
                    ++compared;
                }
    }
    EXPECT_GE(devices, 9);
    EXPECT_GT(compared, 9 * 60000);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Launches of the kernels of attention's gradients one after the other. After a failure nothing more is launched.
#pragma once

#include <algorithm>

#include "attention_backward/simt/kernels.h"
#include "host/sizes.h"

namespace attile::gpu::simt {

class BackwardLauncher {
  public:
    BackwardLauncher(Device &device, Stream stream) : device_(device), stream_(stream) {}
    int32_t status() const { return status_; }
    bool goes_on() const { return status_ == ATTILE_OK; }
    void keep(int32_t status) { status_ = status; }

    void zero(void *memory, int64_t bytes) {
        if (goes_on()) status_ = device_.fill_zero(memory, bytes, stream_);
    }
    template <class Params>
    void launch_blocks(void (*kernel)(Params), int64_t blocks, int32_t threads, const Params &params) {
        if (!goes_on() || blocks < 1) return;
        Dim3 grid, block;
        grid.x = static_cast<uint32_t>(std::min(blocks, kMaxGridX));
        block.x = static_cast<uint32_t>(threads);
        status_ = launch(device_, kernel, grid, block, 0, stream_, params);
    }
    // A kernel whose threads share out `tasks` among themselves.
    void step(AttentionBackwardKernel kernel, int64_t tasks, const AttentionBackwardParams &params) {
        launch_blocks(kernel, std::min<int64_t>(ceil_div(tasks, kBackwardThreads), 1 << 20), kBackwardThreads, params);
    }
    // Sums of `elements` of dbias, several a thread where there are more than fill the device; a lane group to each where keys are summed.
    void add_bias(AttentionBackwardKernel kernel, int64_t elements, bool sums_keys, const AttentionBackwardParams &params) {
        constexpr int64_t kOfThread = 8, kThreadsOfUnit = 4096;
        const int64_t fill = kThreadsOfUnit * device_.properties().compute_units;
        const int64_t threads = std::max(ceil_div(elements, kOfThread), std::min(elements, fill));
        step(kernel, sums_keys ? kLanesOfTask * elements : threads, params);
    }
    // A kernel that takes pairs of row and key one by one, a lane group a row or key: all there are, or, rarely, a few.
    void one_by_one(AttentionBackwardKernel kernel, int64_t tasks, const AttentionBackwardParams &params) {
        const int64_t blocks = ceil_div(kLanesOfTask * tasks, kBackwardThreads), device = 16ll * device_.properties().compute_units;
        launch_blocks(kernel, std::min<int64_t>(blocks, params.irregular_only ? device : 1 << 20), kBackwardThreads, params);
    }
    static constexpr int64_t kLanesOfTask = 32;  // Tasks of a lane group.

  private:
    Device &device_;
    Stream stream_;
    int32_t status_ = ATTILE_OK;
};

}  // namespace attile::gpu::simt

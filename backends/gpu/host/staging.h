// SPDX-License-Identifier: Apache-2.0
// Runs an operation whose operands lie partly or wholly in host memory: cut into chunks along its independent axes, each chunk's inputs are
// copied in while the chunk before it computes and the one before that is copied out. Chunks bound the device memory that is needed.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "device.h"
#include "host/pinned_pieces.h"
#include "host/team.h"

namespace attile::gpu {

inline constexpr int kStagedDims = 4;

// How an operand follows the chunk: axis a has extent[a] elements in all, and moves with dimension dim[a] by per_unit[a] elements a unit.
struct StagedOperand {
    attile_operand *operand = nullptr;  // In the problem that `run` computes; rewritten for each chunk.
    int64_t stride[4] = {0, 0, 0, 0};   // As the caller gave it, and its data type's size:
    int32_t element_bytes = 0;
    int64_t extent[4] = {1, 1, 1, 1};
    int32_t dim[4] = {-1, -1, -1, -1};  // -1: the axis is never cut.
    int64_t per_unit[4] = {1, 1, 1, 1};
    bool is_output = false;
    bool is_partial = false;  // An output of which the call may leave elements as they are: what is there is sent to the device first.
};

struct StagedCall {
    std::vector<StagedOperand> operands;
    int64_t units[kStagedDims] = {1, 1, 1, 1};    // Dimensions in loop order, outermost first; 1: not to be cut.
    int64_t granule[kStagedDims] = {1, 1, 1, 1};  // Chunks are multiples of this.
    int32_t cut_order[kStagedDims] = {0, 1, 2, 3};
    int32_t cut_for_overlap =
        kStagedDims;  // Only the first this many of cut_order are cut for overlap's sake, the rest only to fit memory.
    // Computes one chunk: `count` units from each dimension, the operands being in place. Queues on the stream.
    std::function<int32_t(const int64_t count[kStagedDims], Stream stream)> run;
};

// Whether an operand is in host memory, which needs staging. Absent operands are not.
int32_t needs_staging(Device &device, const attile_operand &operand, bool *yes);

class Stager {
  public:
    Stager(Device &device, int32_t threads)
        : device_(device), team_(threads), downloads_(device, team_), uploads_(device, team_, downloads_) {}
    ~Stager();  // The device is current.
    Stager(const Stager &) = delete;
    Stager &operator=(const Stager &) = delete;

    // Ordered after what is queued on `stream`; returns when the results are in place. One call at a time, others wait.
    int32_t run(StagedCall &call, Stream stream);

  private:
    friend class StagedRun;
    int32_t start();
    void stop();

    Device &device_;
    HostTeam team_;
    std::mutex lock_;
    bool is_started_ = false;
    Stream in_ = nullptr, compute_ = nullptr, out_ = nullptr;
    Event begun_ = nullptr;
    PinnedDownloads downloads_;
    PinnedUploads uploads_;
};

}  // namespace attile::gpu

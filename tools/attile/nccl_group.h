// SPDX-License-Identifier: Apache-2.0
// Communicators of NCCL, or RCCL, for ranks that are threads of this process, each with a GPU. The program is linked with neither: it loads
// the library that is there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attile::cli {

class NcclGroup {
  public:
    // One for each GPU of the list, of that type (ATTILE_DEVICE_CUDA or ATTILE_DEVICE_ROCM). NULL, and why, if there are none.
    static std::unique_ptr<NcclGroup> make(int32_t device_type, const std::vector<int> &devices, std::string *why);
    ~NcclGroup();
    NcclGroup(const NcclGroup &) = delete;
    NcclGroup &operator=(const NcclGroup &) = delete;

    // A rank's, as attile_comm_options has it.
    int64_t communicator(int rank) const { return static_cast<int64_t>(reinterpret_cast<intptr_t>(comms_[static_cast<size_t>(rank)])); }

  private:
    using Destroy = int (*)(void *comm);
    NcclGroup(Destroy destroy, std::vector<void *> comms) : destroy_(destroy), comms_(std::move(comms)) {}

    const Destroy destroy_;
    const std::vector<void *> comms_;
};

}  // namespace attile::cli

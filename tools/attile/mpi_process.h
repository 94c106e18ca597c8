// SPDX-License-Identifier: Apache-2.0
// MPI of whatever launcher started this process. The program is linked with none: it loads the one that the launcher belongs to.
#pragma once

#include <string>

namespace attile::cli {

class MpiProcess {
  public:
    // Initialises MPI; throws Failure if no launcher started this process, or its library cannot be loaded.
    MpiProcess();
    MpiProcess(const MpiProcess &) = delete;
    MpiProcess &operator=(const MpiProcess &) = delete;

    // Ends MPI; waits for the other ranks. A process that ends without it has failed in the launcher's eyes, which ends the others.
    void end();

  private:
    void *find(const char *name) const;

    std::string library_;
    void *handle_ = nullptr;
};

}  // namespace attile::cli

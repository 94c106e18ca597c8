// SPDX-License-Identifier: Apache-2.0
#include "mpi_process.h"

#include "cli.h"

namespace attile::cli {

MpiProcess::MpiProcess() {
    throw Failure(
        "--ranks without a number is for ranks of MPI, which there are none of on Windows; give a number of threads, as in --ranks 4");
}

void MpiProcess::end() {}

void *MpiProcess::find(const char *) const { return nullptr; }

}  // namespace attile::cli

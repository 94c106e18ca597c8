// SPDX-License-Identifier: Apache-2.0
// MPI of whatever launcher started this process.
#include "mpi_process.h"

#include <dlfcn.h>

#include <cstdlib>

#include "cli.h"

namespace attile::cli {
namespace {

// What launchers leave in the environment, and the library of their MPI. Functions without a handle are alike in both.
struct Launcher {
    const char *variable;
    const char *library;
};
constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_SIZE", "libmpi.so.40"}, {"PMI_SIZE", "libmpich.so.12"}};
constexpr int kThreadFunneled = 1;  // MPI_THREAD_FUNNELED of both

}  // namespace

MpiProcess::MpiProcess() {
    for (const Launcher &launcher : kLaunchers)
        if (library_.empty() && std::getenv(launcher.variable) != nullptr) library_ = launcher.library;
    if (library_.empty())
        throw Failure(
            "--ranks without a number is for ranks of MPI, and neither Open MPI's mpiexec nor MPICH's started this process; start "
            "it so, or give a number of threads, as in --ranks 4");
    // Open MPI's own parts look for its names among those of the process.
    handle_ = dlopen(library_.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle_ == nullptr) throw Failure(text("the launcher's MPI cannot be loaded: %s", dlerror()));
    const auto initialise = reinterpret_cast<int (*)(int *, char ***, int, int *)>(find("MPI_Init_thread"));
    int level = 0;
    if (initialise(nullptr, nullptr, kThreadFunneled, &level) != 0) throw Failure(library_ + ": MPI_Init_thread failed");
}

void MpiProcess::end() {
    const auto finalise = reinterpret_cast<int (*)()>(find("MPI_Finalize"));
    if (finalise() != 0) throw Failure(library_ + ": MPI_Finalize failed");
}

void *MpiProcess::find(const char *name) const {
    void *found = dlsym(handle_, name);
    if (found == nullptr) throw Failure(library_ + " has no " + name);
    return found;
}

}  // namespace attile::cli

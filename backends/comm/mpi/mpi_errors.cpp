// SPDX-License-Identifier: Apache-2.0
#include "mpi/mpi_errors.h"

#include <mutex>
#include <new>

namespace attile::mpi {
namespace {

constinit std::mutex lock;
constinit int alive = 0;
alignas(ReturnedErrors) unsigned char places[2][sizeof(ReturnedErrors)];
constinit ReturnedErrors *handlers[2] = {};

}  // namespace

bool finalised() {
    int yes = 0;
    return MPI_Finalized(&yes) != MPI_SUCCESS || yes != 0;
}

ReturnedErrors::ReturnedErrors(MPI_Comm comm) : comm_(comm) {
    if (comm == MPI_COMM_NULL) return;
    if (MPI_Comm_get_errhandler(comm, &before_) == MPI_SUCCESS) (void)MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

ReturnedErrors::~ReturnedErrors() {
    if (before_ == MPI_ERRHANDLER_NULL || finalised()) return;
    (void)MPI_Comm_set_errhandler(comm_, before_);
    (void)MPI_Errhandler_free(&before_);
}

ReturnedErrorsOfAll::ReturnedErrorsOfAll() {
    const std::lock_guard<std::mutex> hold(lock);
    if (alive++ != 0) return;
    handlers[0] = new (places[0]) ReturnedErrors(MPI_COMM_WORLD);
    handlers[1] = new (places[1]) ReturnedErrors(MPI_COMM_SELF);
}

ReturnedErrorsOfAll::~ReturnedErrorsOfAll() {
    const std::lock_guard<std::mutex> hold(lock);
    if (--alive != 0) return;
    for (ReturnedErrors *one : handlers) one->~ReturnedErrors();
}

}  // namespace attile::mpi

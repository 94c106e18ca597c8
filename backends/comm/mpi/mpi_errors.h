// SPDX-License-Identifier: Apache-2.0
// What MPI does about an error is the handler's of a communicator, and by default to end all ranks. While one of these lives, MPI returns.
#ifndef ATTILE_COMM_MPI_ERRORS_H
#define ATTILE_COMM_MPI_ERRORS_H

#include <mpi.h>

namespace attile::mpi {

bool finalised();

// Errors on one communicator; none: MPI_COMM_NULL. The program's own handler is then back.
class ReturnedErrors {
  public:
    explicit ReturnedErrors(MPI_Comm comm);
    ~ReturnedErrors();
    ReturnedErrors(const ReturnedErrors &) = delete;
    ReturnedErrors &operator=(const ReturnedErrors &) = delete;

  private:
    const MPI_Comm comm_;
    MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

// Errors that MPI has no communicator for: of a handle that is none and, with MPICH, of every request. They go to the handler of
// MPI_COMM_WORLD or MPI_COMM_SELF. Several threads may have one at once: the first sets the handlers, the last puts them back.
class ReturnedErrorsOfAll {
  public:
    ReturnedErrorsOfAll();
    ~ReturnedErrorsOfAll();
    ReturnedErrorsOfAll(const ReturnedErrorsOfAll &) = delete;
    ReturnedErrorsOfAll &operator=(const ReturnedErrorsOfAll &) = delete;
};

}  // namespace attile::mpi

#endif

// SPDX-License-Identifier: Apache-2.0
// pdgemm of Attile and of ScaLAPACK in turn, on the ranks of MPI: the time of the slowest rank, and the ratio.
//   mpiexec -n 4 bench_scalapack_X [N [BLOCK [ROUNDS]]]        square matrices of N (4096), in blocks of BLOCK (64) on a grid as square as
//   can be
// OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 give each rank one thread.
#include <attile/attile_distributed.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "scalapack_names.h"

namespace {

double slowest(double seconds) {
    double all = 0;
    MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

template <class Call>
double time_of(Call &&call) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    call();
    return slowest(MPI_Wtime() - begin);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

int main(int argc, char **argv) {
    int level = 0, rank = 0, ranks = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int n = argc > 1 ? std::atoi(argv[1]) : 4096, block = argc > 2 ? std::atoi(argv[2]) : 64,
              rounds = argc > 3 ? std::atoi(argv[3]) : 5;
    int rows = static_cast<int>(std::sqrt(ranks));
    while (ranks % rows != 0) --rows;
    const int columns = ranks / rows, none = -1, zero = 0, one = 1;
    int context = 0, row = 0, column = 0, all_rows = 0, all_columns = 0;
    blacs_get_(&none, &zero, &context);
    blacs_gridinit_(&context, "Row", &rows, &columns);
    blacs_gridinfo_(&context, &all_rows, &all_columns, &row, &column);
    const int lines = numroc_(&n, &block, &row, &zero, &rows), count = numroc_(&n, &block, &column, &zero, &columns);
    const int leading = std::max(1, lines), descriptor[9] = {1, context, n, n, block, block, 0, 0, leading};
    const std::size_t elements = static_cast<std::size_t>(leading) * static_cast<std::size_t>(std::max(1, count));
    std::vector<double> a(elements), b(elements), c(elements), theirs(elements);
    for (std::size_t i = 0; i < elements; ++i) {
        a[i] = static_cast<double>(i % 17) / 16 - 0.5;
        b[i] = static_cast<double>(i % 13) / 12 - 0.5;
    }
    const double alpha = 1, beta = 0;
    int status = 0;
    const auto ours = [&] {
        status = attile_pdgemm_("N", "N", &n, &n, &n, &alpha, a.data(), &one, &one, descriptor, b.data(), &one, &one, descriptor, &beta,
                                c.data(), &one, &one, descriptor);
    };
    const auto scalapack = [&] {
        pdgemm_("N", "N", &n, &n, &n, &alpha, a.data(), &one, &one, descriptor, b.data(), &one, &one, descriptor, &beta, theirs.data(),
                &one, &one, descriptor);
    };
    std::vector<double> our_times, their_times, ratios;
    for (int round = 0; round <= rounds; ++round) {
        const bool first = round % 2 == 0;
        const double before = first ? time_of(ours) : time_of(scalapack), after = first ? time_of(scalapack) : time_of(ours);
        if (status != 0) {
            char text[512];
            attile_last_error(text, sizeof text);
            std::printf("rank %d: %s\n", rank, text);
            return 1;
        }
        if (round == 0) continue;  // both begin
        our_times.push_back(first ? before : after);
        their_times.push_back(first ? after : before);
        ratios.push_back(their_times.back() / our_times.back());
        if (rank == 0)
            std::printf("round %d: attile %.3f s, ScaLAPACK %.3f s, %.2fx\n", round, our_times.back(), their_times.back(), ratios.back());
    }
    double difference = 0;
    for (std::size_t i = 0; i < elements; ++i) difference = std::max(difference, std::fabs(c[i] - theirs[i]));
    difference = slowest(difference);
    if (rank == 0) {
        const double work = 2e-9 * n * n * n;
        std::printf("n %d, blocks of %d, %d x %d ranks: attile %.1f GFLOP/s, ScaLAPACK %.1f, median ratio %.2f; largest difference %.2g\n",
                    n, block, rows, columns, work / median(our_times), work / median(their_times), median(ratios), difference);
    }
    attile_grid_close(context);
    blacs_gridexit_(&context);
    MPI_Finalize();
    return 0;
}

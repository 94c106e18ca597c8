// SPDX-License-Identifier: Apache-2.0
// GoogleTest on every rank of MPI: rank 0 says what is run, every rank what fails, and all fail if one does.
//   mpi_ranks_X [--level=single|funneled|serialized|multiple|none] ...    none: tests initialise MPI themselves
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

namespace {

class FailurePrinter : public testing::EmptyTestEventListener {
  public:
    explicit FailurePrinter(int rank) : rank_(rank) {}
    void OnTestPartResult(const testing::TestPartResult &result) override {
        if (result.failed()) std::printf("rank %d: %s:%d: %s\n", rank_, result.file_name(), result.line_number(), result.message());
    }

  private:
    const int rank_;
};

}  // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    const std::map<std::string, int> levels = {{"single", MPI_THREAD_SINGLE},
                                               {"funneled", MPI_THREAD_FUNNELED},
                                               {"serialized", MPI_THREAD_SERIALIZED},
                                               {"multiple", MPI_THREAD_MULTIPLE}};
    std::string level = "funneled";
    for (int i = 1; i < argc; ++i)
        if (std::strncmp(argv[i], "--level=", 8) == 0) level = argv[i] + 8;
    if (level == "none") return RUN_ALL_TESTS();
    int provided = 0, rank = 0;
    MPI_Init_thread(&argc, &argv, levels.at(level), &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    auto &listeners = testing::UnitTest::GetInstance()->listeners();
    if (rank != 0) {
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new FailurePrinter(rank));
    }
    int failed = RUN_ALL_TESTS(), any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}

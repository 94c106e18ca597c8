// SPDX-License-Identifier: Apache-2.0
// Products over ranks of NCCL, one for each GPU, of square matrices of bf16 on the devices and on the host: milliseconds of a call on the
// slowest rank, the longest that a rank waits for messages in it, and the rate of all together. ATTILE_TEST_NCCL names the library; without
// it ranks are emulated. usage: attile_bench_nccl_products RANKS [N [REPEAT]]      8192, 5 times
#include <attile/attile_distributed.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "barrier.h"
#include "nccl_ranks.h"
#include "test_tensor.h"

namespace attile::test {
namespace {

void need(std::int32_t status) {
    if (status != ATTILE_OK) throw std::runtime_error(last_error());
}

// How a matrix lies: grid, blocks (0: cut evenly), and whether all have all rows.
struct Side {
    std::int32_t rows, columns;
    std::int64_t block;
    bool rows_replicated;
};

struct Row {
    const char *name;
    Side a, b, d;
    Placement placement;
};

std::vector<Row> list_rows(std::int32_t ranks) {
    const std::int32_t rows = ranks % 2 == 0 ? 2 : 1;
    const Side by_rows = {ranks, 1, 0, false}, by_columns = {1, ranks, 0, false}, shared = {ranks, 1, 0, true};
    const Side grid = {rows, ranks / rows, 0, false}, cyclic = {rows, ranks / rows, 64, false};
    std::vector<Row> list;
    for (const Placement placement : {Placement::kDevice, Placement::kHost}) {
        list.push_back({"all-gather, GEMM", by_rows, by_columns, by_columns, placement});
        list.push_back({"GEMM, reduce-scatter", by_columns, by_rows, by_rows, placement});
        list.push_back({"GEMM, all-reduce", by_columns, by_rows, shared, placement});
        list.push_back({"grid, even blocks", grid, grid, grid, placement});
        list.push_back({"grid, blocks of 64", cyclic, cyclic, cyclic, placement});
    }
    return list;
}

// One rank's end, and its part of the matrices of a row.
class BenchRank {
  public:
    BenchRank(const NcclComms &comms, int rank, int ranks) : rank_(rank), ranks_(ranks) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        const std::string backend = device_of_rank(rank);
        options.backend = backend.c_str();
        need(attile_context_create(&options, &context_));
        attile_comm_options joining;
        attile_comm_options_init(&joining, sizeof joining);
        comms.join(rank, &joining);
        need(attile_comm_create(context_, &joining, &comm_));
    }
    ~BenchRank() {
        for (Memory &memory : memory_) memory = Memory();
        attile_comm_destroy(comm_);
        attile_context_destroy(context_);
    }
    BenchRank(const BenchRank &) = delete;
    BenchRank &operator=(const BenchRank &) = delete;

    void take(const Row &row, std::int64_t n) {
        const Side *const sides[3] = {&row.a, &row.b, &row.d};
        for (int i = 0; i < 3; ++i) {
            attile_grid_init(&grids_[i], sizeof grids_[i]);
            grids_[i].rows = sides[i]->rows;
            grids_[i].columns = sides[i]->columns;
            attile_distributed_matrix &matrix = matrices_[i];
            attile_distributed_matrix_init(&matrix, sizeof matrix);
            matrix.grid = &grids_[i];
            matrix.rows = matrix.columns = n;
            matrix.block_rows = matrix.block_columns = sides[i]->block;
            if (sides[i]->rows_replicated) matrix.source_row = ATTILE_REPLICATED;
            std::int64_t shape[2];
            need(attile_distributed_extents(&matrix, rank_, ranks_, &shape[0], &shape[1]));
            memory_[i] = Memory(context_, row.placement, shape[0] * shape[1] * 2);
            memory_[i].upload(std::vector<std::byte>(static_cast<std::size_t>(memory_[i].bytes()), std::byte{0x3c}));
            need(attile_tensor_init(&matrix.local, memory_[i].data(), ATTILE_BF16, 2, shape));
        }
        attile_gemm_distributed_init(&args_, sizeof args_);
        args_.m = args_.n = args_.k = n;
        args_.a = &matrices_[0];
        args_.b = &matrices_[1];
        args_.d = &matrices_[2];
    }
    void call() const { need(attile_gemm_distributed(comm_, &args_)); }
    double transport_seconds() const {
        attile_comm_info info;
        attile_comm_info_init(&info, sizeof info);
        need(attile_comm_get_info(comm_, &info));
        return info.transport_seconds;
    }

  private:
    const int rank_, ranks_;
    attile_context *context_ = nullptr;
    attile_comm *comm_ = nullptr;
    attile_grid grids_[3];
    attile_distributed_matrix matrices_[3];
    Memory memory_[3];
    attile_gemm_distributed_args args_;
};

void run(int ranks, std::int64_t n, int repeat) {
    const NcclComms comms(ranks);
    const std::vector<Row> rows = list_rows(ranks);
    std::vector<std::vector<double>> waited(rows.size(), std::vector<double>(static_cast<std::size_t>(ranks)));
    std::vector<double> seconds(rows.size(), 1e30);
    Barrier together(ranks);
    const auto work = [&](int rank) {
        BenchRank own(comms, rank, ranks);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            own.take(rows[i], n);
            own.call();
            const double before = own.transport_seconds();
            for (int round = 0; round < repeat; ++round) {
                together.arrive_and_wait();
                const auto begin = std::chrono::steady_clock::now();
                own.call();
                together.arrive_and_wait();
                const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                if (rank == 0) seconds[i] = std::min(seconds[i], passed);
            }
            waited[i][static_cast<std::size_t>(rank)] = (own.transport_seconds() - before) / repeat;
        }
    };
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                work(rank);
            } catch (const std::exception &error) {
                std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
                std::_Exit(1);  // the others wait for this one
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    std::printf("| memory | layout               |         ms | most wait, ms | TFLOP/s |\n");
    std::printf("|--------|----------------------|------------|---------------|---------|\n");
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        std::printf("| %-6s | %-20s | %10.3f | %13.3f | %7.1f |\n", rows[i].placement == Placement::kDevice ? "device" : "host",
                    rows[i].name, 1e3 * seconds[i], 1e3 * *std::max_element(waited[i].begin(), waited[i].end()),
                    flops / seconds[i] * 1e-12);
    }
}

}  // namespace
}  // namespace attile::test

int main(int count, char **words) {
    std::int64_t values[3] = {0, 8192, 5};
    for (int i = 1; i < std::min(count, 4); ++i) values[i - 1] = std::atoll(words[i]);
    if (count > 4 || *std::min_element(values, values + 3) < 1) {
        std::fprintf(stderr, "usage: attile_bench_nccl_products RANKS [N [REPEAT]]\n");
        return 2;
    }
    attile::test::run(static_cast<int>(values[0]), values[1], static_cast<int>(values[2]));
    return 0;
}

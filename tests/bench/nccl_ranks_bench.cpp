// SPDX-License-Identifier: Apache-2.0
// Attention over ranks of NCCL, one for each GPU, rows and results on the devices: milliseconds of a call on the slowest rank, the share of
// it that the ranks wait for messages, and the rate of all together. ATTILE_TEST_NCCL names the library; without it ranks are emulated.
// usage: attile_bench_nccl RANKS [ROWS [HEADS [HEAD_DIM [REPEAT]]]]      ROWS of each rank; 8192 rows, 8 heads of 128, 5 times
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "barrier.h"
#include "bench_rank.h"

namespace attile::test {
namespace {

struct Sizes : RankSizes {
    int repeat = 5;
};

struct Row {
    int method;
    const char *name;  // NULL: not shown
    bool causal, backward;
};

std::vector<Row> list_rows(const Sizes &sizes) {
    std::vector<Row> rows;
    for (const bool backward : {false, true}) {
        for (const bool causal : {true, false}) {
            // Gradients want the o and lse of their own mask.
            if (backward) rows.push_back({ATTILE_METHOD_RING, nullptr, causal, false});
            rows.push_back({ATTILE_METHOD_RING, "ring", causal, backward});
            rows.push_back({ATTILE_METHOD_ALL_GATHER, "all-gather", causal, backward});
            if (sizes.heads % sizes.ranks == 0) rows.push_back({ATTILE_METHOD_ALL_TO_ALL, "all-to-all", causal, backward});
        }
    }
    return rows;
}

double flops_of(const Sizes &sizes, const Row &row) {
    const double length = static_cast<double>(sizes.ranks * sizes.rows);
    const double pairs = row.causal ? length * (length + 1) / 2 : length * length;
    return (row.backward ? 10 : 4) * pairs * static_cast<double>(sizes.heads * sizes.head_dim);
}

void run(const Sizes &sizes) {
    const NcclComms comms(sizes.ranks);
    const std::vector<Row> rows = list_rows(sizes);
    std::vector<std::vector<double>> waited(rows.size(), std::vector<double>(static_cast<std::size_t>(sizes.ranks)));
    std::vector<double> seconds(rows.size(), 1e30);
    Barrier together(sizes.ranks);
    std::vector<std::thread> threads;
    const auto work = [&](int rank) {
        BenchRank own(sizes, rank, device_of_rank(rank));
        own.join(comms);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const Row &row = rows[i];
            own.call(row.method, row.causal, row.backward);
            const double before = own.transport_seconds();
            for (int repeat = 0; repeat < sizes.repeat; ++repeat) {
                together.arrive_and_wait();
                const auto begin = std::chrono::steady_clock::now();
                own.call(row.method, row.causal, row.backward);
                together.arrive_and_wait();
                const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                if (rank == 0) seconds[i] = std::min(seconds[i], passed);
            }
            waited[i][static_cast<std::size_t>(rank)] = (own.transport_seconds() - before) / sizes.repeat;
        }
    };
    for (int rank = 0; rank < sizes.ranks; ++rank) {
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
    std::printf("| pass     | mask   | method     |         ms | least wait, ms | most wait, ms | TFLOP/s |\n");
    std::printf("|----------|--------|------------|------------|----------------|---------------|---------|\n");
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Row &row = rows[i];
        if (row.name == nullptr) continue;
        const auto [least, most] = std::minmax_element(waited[i].begin(), waited[i].end());
        std::printf("| %-8s | %-6s | %-10s | %10.3f | %14.3f | %13.3f | %7.1f |\n", row.backward ? "backward" : "forward",
                    row.causal ? "causal" : "full", row.name, 1e3 * seconds[i], 1e3 * *least, 1e3 * *most,
                    flops_of(sizes, row) / seconds[i] * 1e-12);
    }
}

}  // namespace
}  // namespace attile::test

int main(int count, char **words) {
    attile::test::Sizes sizes;
    std::int64_t values[5] = {0, sizes.rows, sizes.heads, sizes.head_dim, sizes.repeat};
    for (int i = 1; i < std::min(count, 6); ++i) values[i - 1] = std::atoll(words[i]);
    if (count > 6 || *std::min_element(values, values + 5) < 1) {
        std::fprintf(stderr, "usage: attile_bench_nccl RANKS [ROWS [HEADS [HEAD_DIM [REPEAT]]]]\n");
        return 2;
    }
    sizes.ranks = static_cast<int>(values[0]);
    sizes.rows = values[1];
    sizes.heads = values[2];
    sizes.head_dim = values[3];
    sizes.repeat = static_cast<int>(values[4]);
    attile::test::run(sizes);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Attention over ranks of NCCL, one for each GPU, rows and results on the devices: milliseconds of a call on the slowest rank, the share of
// it that the ranks wait for messages, and the rate of all together. ATTILE_TEST_NCCL names the library; without it ranks are emulated.
// usage: attile_bench_nccl RANKS [ROWS [HEADS [HEAD_DIM [REPEAT]]]]      ROWS of each rank; 8192 rows, 8 heads of 128, 5 times
#include <attile/attile_distributed.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "barrier.h"
#include "nccl_ranks.h"

namespace attile::test {
namespace {

struct Sizes {
    int ranks = 1, repeat = 5;
    std::int64_t rows = 8192, heads = 8, head_dim = 128;
};

void need(std::int32_t status) {
    if (status != ATTILE_OK) throw std::runtime_error(last_error());
}

// One rank's tensors and calls.
class BenchRank {
  public:
    BenchRank(const NcclComms &comms, const Sizes &sizes, int rank) : sizes_(sizes) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        const std::string backend = device_of_rank(rank);
        options.backend = backend.c_str();
        need(attile_context_create(&options, &context_));
        attile_comm_options joining;
        attile_comm_options_init(&joining, sizeof joining);
        comms.join(rank, &joining);
        need(attile_comm_create(context_, &joining, &comm_));
        attile_attention_init(&local_, sizeof local_);
        attile_attention_backward_init(&gradients_, sizeof gradients_);
        for (attile_tensor *tensor :
             {&local_.q, &local_.k, &local_.v, &local_.o, &gradients_.dout, &gradients_.dq, &gradients_.dk, &gradients_.dv})
            *tensor = rows();
        const std::int64_t lines[3] = {1, sizes.heads, sizes.rows};
        need(attile_tensor_init(&local_.lse, allocate(sizes.heads * sizes.rows * 4, 0), ATTILE_F32, 3, lines));
    }
    ~BenchRank() {
        attile_comm_destroy(comm_);
        attile_context_destroy(context_);  // and its memory
    }
    BenchRank(const BenchRank &) = delete;
    BenchRank &operator=(const BenchRank &) = delete;

    void call(int method, bool causal, bool backward) {
        local_.mask = causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
        const std::int64_t length = sizes_.ranks * sizes_.rows;
        if (backward) {
            gradients_.forward = &local_;
            attile_attention_backward_distributed_args args;
            attile_attention_backward_distributed_init(&args, sizeof args);
            args.local = &gradients_;
            args.layout = ATTILE_SHARDS_ZIGZAG;
            args.method = method;
            args.len_q = args.len_k = length;
            need(attile_attention_backward_distributed(comm_, &args));
            return;
        }
        attile_attention_distributed_args args;
        attile_attention_distributed_init(&args, sizeof args);
        args.local = &local_;
        args.layout = ATTILE_SHARDS_ZIGZAG;
        args.method = method;
        args.len_q = args.len_k = length;
        need(attile_attention_distributed(comm_, &args));
    }

    double transport_seconds() const {
        attile_comm_info info;
        attile_comm_info_init(&info, sizeof info);
        need(attile_comm_get_info(comm_, &info));
        return info.transport_seconds;
    }

  private:
    void *allocate(std::int64_t bytes, int seed) {
        void *memory = nullptr;
        need(attile_alloc(context_, ATTILE_MEMORY_DEVICE, bytes, &memory));
        std::vector<std::uint16_t> values(static_cast<std::size_t>(bytes / 2));
        std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761U + 1;
        for (std::uint16_t &value : values) {  // bf16 between 0.5 and 2, of both signs
            state = state * 1664525U + 1013904223U;
            value = static_cast<std::uint16_t>(0x3f00U + (state >> 24U) + ((state >> 8U & 1U) << 15U));
        }
        need(attile_copy(context_, memory, values.data(), bytes, nullptr));
        return memory;
    }
    attile_tensor rows() {
        const std::int64_t shape[4] = {1, sizes_.heads, sizes_.rows, sizes_.head_dim};
        attile_tensor tensor{};
        need(attile_tensor_init(&tensor, allocate(sizes_.rows * sizes_.heads * sizes_.head_dim * 2, ++made_), ATTILE_BF16, 4, shape));
        tensor.stride[1] = sizes_.head_dim;
        tensor.stride[2] = sizes_.heads * sizes_.head_dim;
        return tensor;
    }

    const Sizes sizes_;
    int made_ = 0;
    attile_context *context_ = nullptr;
    attile_comm *comm_ = nullptr;
    attile_attention_args local_;
    attile_attention_backward_args gradients_;
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
        BenchRank own(comms, sizes, rank);
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

// SPDX-License-Identifier: Apache-2.0
// The ranks of MPI, one thread each, against one process with several threads, in turn on the same processors: attention and a product in
// float32. The time of the slowest rank and its ratio; and the ratio of the processors' time, of all ranks together and with what they
// spend asking for messages, which other work on the machine changes less.
//   mpiexec -n 4 --bind-to none bench_one_process_X [THREADS [SIZE [ROUNDS]]]   2 threads; SIZE 4096 rows and keys, matrices of half of it
// Ranks that have nothing to do sleep, so that they take no processor from the one that has.
#include <attile/attile_distributed.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kHeads = 8, kHeadDim = 64;

int rank = 0, ranks = 1;

void check(std::int32_t status) {
    if (status == ATTILE_OK) return;
    char text[1024];
    attile_last_error(text, sizeof text);
    std::printf("rank %d: %s\n", rank, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// MPI_Barrier asks again and again.
void meet_asleep() {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0;) {
        const std::timespec pause = {0, 200000};
        (void)nanosleep(&pause, nullptr);
    }
}

attile_context *open_context(int threads) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "cpu";
    options.threads = threads;
    attile_context *context = nullptr;
    check(attile_context_create(&options, &context));
    return context;
}

std::vector<float> numbers(std::int64_t count, int seed) {
    std::vector<float> made(static_cast<std::size_t>(count));
    std::srand(static_cast<unsigned>(seed));
    for (float &one : made) one = static_cast<float>(std::rand()) / static_cast<float>(RAND_MAX) - 0.5F;
    return made;
}

// The whole problem on rank 0, and a part of it on each rank.
class Problem {
  public:
    virtual ~Problem() = default;
    virtual std::int32_t over_ranks(attile_comm *comm) = 0;
    virtual std::int32_t alone(attile_context *context) = 0;
    // Of this rank's results from those of one process, which rank 0 has.
    virtual double difference() const = 0;
};

class Attention final : public Problem {
  public:
    Attention(std::int64_t length, bool causal) : length_(length), layout_(causal ? ATTILE_SHARDS_ZIGZAG : ATTILE_SHARDS_CONTIGUOUS) {
        for (std::int32_t part = 0; part < (causal ? 2 : 1); ++part) {
            std::int64_t first = 0, count = 0, stride = 1;
            check(attile_shard_part(layout_, length, rank, ranks, part, &first, &count, &stride));
            for (std::int64_t i = 0; i < count; ++i) rows_.push_back(first + i * stride);
        }
        attile_attention_init(&whole_, sizeof whole_);
        attile_attention_init(&local_, sizeof local_);
        whole_.mask = local_.mask = causal ? ATTILE_MASK_CAUSAL_TOP_LEFT : ATTILE_MASK_NONE;
        attile_tensor *const of_whole[4] = {&whole_.q, &whole_.k, &whole_.v, &whole_.o};
        attile_tensor *const of_rank[4] = {&local_.q, &local_.k, &local_.v, &local_.o};
        for (int i = 0; i < 4; ++i) {
            all_[i] = numbers(kHeads * length * kHeadDim, i);
            for (std::int64_t h = 0; h < kHeads; ++h) {
                for (const std::int64_t row : rows_) {
                    const auto from = all_[i].begin() + (h * length + row) * kHeadDim;
                    own_[i].insert(own_[i].end(), from, from + kHeadDim);
                }
            }
            bind(of_whole[i], all_[i], length);
            bind(of_rank[i], own_[i], static_cast<std::int64_t>(rows_.size()));
        }
        attile_attention_distributed_init(&args_, sizeof args_);
        args_.local = &local_;
        args_.layout = layout_;
        args_.len_q = args_.len_k = length;
    }
    std::int32_t over_ranks(attile_comm *comm) override { return attile_attention_distributed(comm, &args_); }
    std::int32_t alone(attile_context *context) override { return attile_attention(context, &whole_); }
    double difference() const override {
        double largest = 0;
        std::size_t at = 0;
        for (std::int64_t h = 0; h < kHeads; ++h) {
            for (const std::int64_t row : rows_) {
                for (std::int64_t d = 0; d < kHeadDim; ++d, ++at) {
                    const float whole = all_[3][static_cast<std::size_t>((h * length_ + row) * kHeadDim + d)];
                    largest = std::max(largest, std::fabs(static_cast<double>(own_[3][at]) - static_cast<double>(whole)));
                }
            }
        }
        return largest;
    }

  private:
    static void bind(attile_tensor *tensor, std::vector<float> &memory, std::int64_t rows) {
        const std::int64_t shape[4] = {1, kHeads, rows, kHeadDim};
        check(attile_tensor_init(tensor, memory.data(), ATTILE_F32, 4, shape));
    }

    const std::int64_t length_;
    const std::int32_t layout_;
    std::vector<std::int64_t> rows_;
    std::vector<float> all_[4], own_[4];
    attile_attention_args whole_, local_;
    attile_attention_distributed_args args_;
};

// Square, cut evenly over a grid of two rows.
class Product final : public Problem {
  public:
    explicit Product(std::int64_t n) : n_(n) {
        attile_grid_init(&grid_, sizeof grid_);
        grid_.rows = ranks % 2 == 0 ? 2 : 1;
        grid_.columns = ranks / grid_.rows;
        attile_gemm_init(&whole_, sizeof whole_);
        attile_gemm_distributed_init(&args_, sizeof args_);
        attile_tensor *const of_whole[3] = {&whole_.a, &whole_.b, &whole_.d};
        for (int i = 0; i < 3; ++i) {
            all_[i] = numbers(n * n, i);
            const std::int64_t shape[2] = {n, n};
            check(attile_tensor_init(of_whole[i], all_[i].data(), ATTILE_F32, 2, shape));
            attile_distributed_matrix &matrix = matrices_[i];
            attile_distributed_matrix_init(&matrix, sizeof matrix);
            matrix.grid = &grid_;
            matrix.rows = matrix.columns = n;
            std::int64_t own_shape[2];
            check(attile_distributed_extents(&matrix, rank, ranks, &own_shape[0], &own_shape[1]));
            for (std::int64_t row = 0; row < own_shape[0]; ++row) {
                const auto from = all_[i].begin() + whole_at(row, 0);
                own_[i].insert(own_[i].end(), from, from + own_shape[1]);
            }
            check(attile_tensor_init(&matrix.local, own_[i].data(), ATTILE_F32, 2, own_shape));
        }
        args_.m = args_.n = args_.k = n;
        args_.a = &matrices_[0];
        args_.b = &matrices_[1];
        args_.d = &matrices_[2];
    }
    std::int32_t over_ranks(attile_comm *comm) override { return attile_gemm_distributed(comm, &args_); }
    std::int32_t alone(attile_context *context) override { return attile_gemm(context, &whole_); }
    double difference() const override {
        const std::int64_t *const shape = matrices_[2].local.shape;
        double largest = 0;
        for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
            const float whole = all_[2][static_cast<std::size_t>(whole_at(i / shape[1], i % shape[1]))];
            largest = std::max(largest, std::fabs(static_cast<double>(own_[2][static_cast<std::size_t>(i)]) - static_cast<double>(whole)));
        }
        return largest;
    }

  private:
    std::int64_t whole_at(std::int64_t row, std::int64_t column) const {
        const std::int64_t rows = (n_ + grid_.rows - 1) / grid_.rows, columns = (n_ + grid_.columns - 1) / grid_.columns;
        return (rank / grid_.columns * rows + row) * n_ + rank % grid_.columns * columns + column;
    }

    const std::int64_t n_;
    attile_grid grid_;
    attile_distributed_matrix matrices_[3];
    std::vector<float> all_[3], own_[3];
    attile_gemm_args whole_;
    attile_gemm_distributed_args args_;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double processor_seconds() {
    std::timespec now = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// What a call took: until the slowest rank was done, and of all processors.
struct Cost {
    double seconds, processors;
};

template <typename Call>
Cost cost_of(Call &&call) {
    meet_asleep();
    const double worked = processor_seconds(), begin = MPI_Wtime();
    call();
    const double seconds = MPI_Wtime() - begin, processors = processor_seconds() - worked;
    meet_asleep();
    Cost cost = {};
    MPI_Allreduce(&seconds, &cost.seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&processors, &cost.processors, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return cost;
}

void compare(const std::string &name, Problem &problem, attile_comm *comm, attile_context *one, int rounds) {
    std::vector<double> of_ranks, of_one, ratios, processors;
    for (int round = 0; round <= rounds; ++round) {
        Cost ranks_cost = {}, one_cost = {};
        for (int turn = 0; turn < 2; ++turn) {
            if ((round + turn) % 2 == 0) {
                ranks_cost = cost_of([&] { check(problem.over_ranks(comm)); });
            } else {
                one_cost = cost_of([&] { check(rank == 0 ? problem.alone(one) : ATTILE_OK); });
            }
        }
        if (round == 0) continue;  // both begin
        of_ranks.push_back(ranks_cost.seconds);
        of_one.push_back(one_cost.seconds);
        ratios.push_back(ranks_cost.seconds / one_cost.seconds);
        processors.push_back(ranks_cost.processors / one_cost.processors);
    }
    if (rank != 0) return;
    std::printf("| %s | %.1f ms | %.1f ms | %.3f | %.3f | %.1e |\n", name.c_str(), 1e3 * median(of_ranks), 1e3 * median(of_one),
                median(ratios), median(processors), problem.difference());
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int threads = argc > 1 ? std::atoi(argv[1]) : 2, size = argc > 2 ? std::atoi(argv[2]) : 4096,
              rounds = argc > 3 ? std::atoi(argv[3]) : 7;
    attile_context *const context = open_context(1), *const one = rank == 0 ? open_context(threads) : nullptr;
    attile_comm_options options;
    attile_comm_options_init(&options, sizeof options);
    options.kind = "mpi";
    attile_comm *comm = nullptr;
    check(attile_comm_create(context, &options, &comm));
    if (rank == 0)
        std::printf(
            "| float32 | %d ranks, a thread each | one process, %d threads | ratio | of processors' time | difference "
            "|\n|---|---|---|---|---|---|\n",
            ranks, threads);
    for (const bool causal : {false, true}) {
        Attention attention(size, causal);
        const std::string name = "attention, 8 heads, " + std::to_string(size) + " rows and keys, d 64" + (causal ? ", causal" : "");
        compare(name, attention, comm, one, rounds);
    }
    Product product(size / 2);
    compare("product, " + std::to_string(size / 2) + " x " + std::to_string(size / 2), product, comm, one, rounds);
    attile_comm_destroy(comm);
    attile_context_destroy(one);
    attile_context_destroy(context);
    MPI_Finalize();
    return 0;
}

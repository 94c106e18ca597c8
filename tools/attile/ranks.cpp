// SPDX-License-Identifier: Apache-2.0
// Ranks of a command.
#include "ranks.h"

#include <algorithm>
#include <exception>
#include <future>
#include <mutex>
#include <thread>

#include "mpi_process.h"
#include "nccl_group.h"

namespace attile::cli {

Rank::Rank(std::unique_ptr<Context> context, const attile_comm_options &options, const attile_comm_options &exchange,
           const std::string &note)
    : work_(std::move(context), options), exchange_(std::make_unique<Context>("reference", 1), exchange), note_(note), info_(info()) {}

attile_comm_info Rank::info() const {
    attile_comm_info info;
    attile_comm_info_init(&info, sizeof info);
    check(attile_comm_get_info(comm(), &info));
    return info;
}

// The library moves attention's operands alone between ranks. So each rank has one key, whose value is its number, and every rank has a row
// for each: a row that sees one key gets its value. A batch entry is one number of each rank.
std::vector<std::vector<double>> Rank::share(const std::vector<double> &own) const {
    const int64_t count = static_cast<int64_t>(own.size()), all = ranks();
    std::vector<double> values = own, zeros(static_cast<size_t>(count * all), 0.0), results(zeros);
    attile_attention_args local;
    attile_attention_init(&local, sizeof local);
    const int64_t rows[4] = {count, 1, all, 1}, keys[4] = {count, 1, 1, 1};
    check(attile_tensor_init(&local.q, zeros.data(), ATTILE_F64, 4, rows));
    check(attile_tensor_init(&local.k, zeros.data(), ATTILE_F64, 4, keys));
    check(attile_tensor_init(&local.v, values.data(), ATTILE_F64, 4, keys));
    check(attile_tensor_init(&local.o, results.data(), ATTILE_F64, 4, rows));
    local.mask = ATTILE_MASK_WINDOW_TOP_LEFT;  // 0 keys to either side of the row's own
    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &local;
    args.rows = ATTILE_ROWS_REPLICATED;
    args.len_q = args.len_k = all;
    check(attile_attention_distributed(exchange_.comm(), &args));
    std::vector<std::vector<double>> of_rank(static_cast<size_t>(all), own);
    for (int64_t rank = 0; rank < all; ++rank)
        for (int64_t i = 0; i < count; ++i)
            of_rank[static_cast<size_t>(rank)][static_cast<size_t>(i)] = results[static_cast<size_t>(i * all + rank)];
    return of_rank;
}

std::string Rank::share_text(const std::string &of_first) const {
    const double length = share({static_cast<double>(of_first.size())})[0][0];
    std::vector<double> letters(static_cast<size_t>(length), 0.0);
    if (first()) std::transform(of_first.begin(), of_first.end(), letters.begin(), [](char c) { return static_cast<unsigned char>(c); });
    std::string result;
    if (letters.empty()) return result;
    letters = share(letters)[0];
    for (const double letter : letters) result += static_cast<char>(static_cast<unsigned char>(letter));
    return result;
}

const char *layout_name(int32_t layout) {
    constexpr const char *kNames[] = {"contiguous", "zigzag", "striped"};
    return kNames[layout];
}

const char *method_name(int32_t method) {
    constexpr const char *kNames[] = {"auto", "ring", "all-gather", "all-to-all", "local", "tree"};
    return kNames[method];
}

namespace {

// The first failure in time: others follow from it.
class FirstFailure {
  public:
    void keep(const std::exception_ptr &failure) {
        const std::lock_guard<std::mutex> hold(mutex_);
        if (!first_) first_ = failure;
    }
    void rethrow() const {
        if (first_) std::rethrow_exception(first_);
    }

  private:
    std::mutex mutex_;
    std::exception_ptr first_;
};

// What the ranks that are threads compute on, and how messages go.
struct Threads {
    std::vector<std::unique_ptr<Context>> contexts;
    std::unique_ptr<NcclGroup> nccl;  // NULL: the transport of threads
    std::string note;
};

// A GPU for each rank, or why not.
std::string take_gpus(int ranks, int threads, Threads *taken) {
    const attile_context_info first = taken->contexts[0]->info();
    std::vector<int> devices = {0};
    for (int rank = 1; rank < ranks; ++rank) {
        try {
            taken->contexts.push_back(std::make_unique<Context>(text("%s:%d", first.backend, rank), threads));
        } catch (const Failure &) {
            return text("the backend finds %d", rank);
        }
        devices.push_back(rank);
    }
    std::string why;
    taken->nccl = NcclGroup::make(first.device_type, devices, &why);
    return why;
}

Threads open_threads(int ranks, const std::string &backend, int threads) {
    Threads opened;
    opened.contexts.push_back(std::make_unique<Context>(backend, threads));
    const attile_context_info &first = opened.contexts[0]->info();
    const bool is_gpu = first.device_type == ATTILE_DEVICE_CUDA || first.device_type == ATTILE_DEVICE_ROCM;
    if (is_gpu && ranks > 1 && first.device_index == 0 && backend.find(':') == std::string::npos) {
        const std::string why = take_gpus(ranks, threads, &opened);
        opened.note = opened.nccl != nullptr ? ", a GPU each" : " on one GPU (" + why + ")";
    }
    if (opened.nccl != nullptr) return opened;
    opened.contexts.resize(1);
    while (static_cast<int>(opened.contexts.size()) < ranks) opened.contexts.push_back(std::make_unique<Context>(backend, threads));
    return opened;
}

void run_on_threads(int ranks, const std::string &backend, int threads, const std::function<void(Rank &)> &body) {
    // Ranks have the processors among them.
    if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
    Threads opened = open_threads(ranks, backend, threads);
    FirstFailure failure;
    std::promise<bool> gate;  // Nobody waits for a rank whose thread cannot be made.
    const std::shared_future<bool> all_are_there = gate.get_future().share();
    const auto run = [&](int rank) {
        if (all_are_there.get()) {
            attile_comm_options options;
            attile_comm_options_init(&options, sizeof options);
            options.kind = "threads";
            options.rank = rank;
            options.ranks = ranks;
            attile_comm_options exchange = options;
            exchange.group = 1;
            if (opened.nccl != nullptr) {
                options.kind = "nccl";
                options.communicator = opened.nccl->communicator(rank);
            }
            try {
                Rank own(std::move(opened.contexts[static_cast<size_t>(rank)]), options, exchange, opened.note);
                try {
                    body(own);
                } catch (...) {
                    failure.keep(std::current_exception());  // before this rank leaves, and the others fail of that
                }
            } catch (...) {
                failure.keep(std::current_exception());
            }
        }
    };
    std::vector<std::thread> running;
    try {
        for (int rank = 0; rank < ranks; ++rank) running.emplace_back(run, rank);
    } catch (...) {
        failure.keep(std::current_exception());
    }
    gate.set_value(running.size() == opened.contexts.size());
    for (std::thread &thread : running) thread.join();
    failure.rethrow();
}

}  // namespace

void run_on_ranks(int ranks, const std::string &backend, int threads, const std::function<void(Rank &)> &body) {
    if (ranks > 0) return run_on_threads(ranks, backend, threads, body);
    MpiProcess mpi;
    int number = -1;
    try {
        attile_comm_options options;
        attile_comm_options_init(&options, sizeof options);
        options.kind = "mpi";
        attile_comm_options exchange = options;
        exchange.group = 1;
        Rank own(std::make_unique<Context>(backend, threads), options, exchange);
        number = own.rank();
        body(own);
    } catch (const std::exception &problem) {
        throw Failure(number < 0 ? std::string(problem.what()) : text("rank %d: %s", number, problem.what()));
    }
    mpi.end();
}

}  // namespace attile::cli

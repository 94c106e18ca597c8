// SPDX-License-Identifier: Apache-2.0
// Attention over ranks as on links of given rates, on one device: one rank after the other makes its calls over the transport of NCCL, and
// paced_nccl/ plays the others. First all ranks run at once, which records the messages. Beside each time the same without pacing, and an
// equal share of one call of the whole problem. bf16, zigzag shards. Times are medians, of the slowest rank.
// usage: attile_bench_paced [--ranks 8] [--rows 8192] [--heads 8] [--head-dim 128] [--repeat 5] [--rates 50,100,200,370] [--latency 0]
//                           [--method ring|all-gather|all-to-all] [--backend cuda:0] [--check]
//   --rates: of the link in each direction, GB/s; --latency: of each group of messages, microseconds
//   --check: exit status 1 if a rank's results have other bits than in the recorded run, or if a call without a mask is
//     faster than its link (ring and all-gather)
// ATTILE_TEST_NCCL names the library if it is not where it was built.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench_rank.h"
#include "paced_nccl/paced.h"

namespace attile::test {
namespace {

const std::map<std::string, int> kMethods = {
    {"ring", ATTILE_METHOD_RING}, {"all-gather", ATTILE_METHOD_ALL_GATHER}, {"all-to-all", ATTILE_METHOD_ALL_TO_ALL}};

struct Options : RankSizes {
    Options() { ranks = 8; }
    int repeat = 5;
    std::vector<double> rates = {0, 50e9, 100e9, 200e9, 370e9};  // bytes per second; the first: not paced
    double latency = 0;                                          // seconds
    std::string method_name = "ring";
    int method() const { return kMethods.at(method_name); }
    std::string backend = "cuda:0";
    bool check = false;
};

using Results = std::vector<std::vector<unsigned char>>;  // of a rank

bool has_nan(const std::vector<unsigned char> &bytes, bool wide) {
    for (std::size_t at = wide ? 2 : 0; at < bytes.size(); at += wide ? 4 : 2) {  // the upper half of a float32 is a bf16
        std::uint16_t bits = 0;
        std::memcpy(&bits, &bytes[at], sizeof bits);
        if ((bits & 0x7fffU) > 0x7f80U) return true;
    }
    return false;
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Seconds of one mask.
struct Times {
    explicit Times(const Options &options) {
        for (auto &of_pass : calls)
            of_pass.resize(options.rates.size(), std::vector<std::vector<double>>(static_cast<std::size_t>(options.ranks)));
    }
    double slowest(int pass, std::size_t rate) const {
        double most = 0;
        for (const std::vector<double> &of_rank : calls[pass][rate]) most = std::max(most, median(of_rank));
        return most;
    }
    std::vector<std::vector<std::vector<double>>> calls[2];  // of forward and backward: by rate, rank and repetition
    std::vector<double> whole[2];
};

class PacedRing {
  public:
    explicit PacedRing(const Options &options)
        : options_(options),
          link_(Nccl::instance().function<attile_paced_link_fn>("attile_paced_link")),
          replay_(Nccl::instance().function<attile_paced_replay_fn>("attile_paced_replay")) {
        const auto open = Nccl::instance().function<attile_paced_open_fn>("attile_paced_open");
        if (open == nullptr || link_ == nullptr || replay_ == nullptr)
            throw std::runtime_error("ATTILE_TEST_NCCL is not the paced library");
        const char *why = open(options.backend.rfind("emulated", 0) == 0 ? 1 : 0);
        if (why != nullptr) throw std::runtime_error(why);
        for (int rank = 0; rank < options.ranks; ++rank) ranks_.push_back(std::make_unique<BenchRank>(options, rank, options.backend));
        RankSizes sizes = options;
        sizes.ranks = 1;
        sizes.rows *= options.ranks;
        whole_ = std::make_unique<BenchRank>(sizes, 0, options.backend);
        recorded_.resize(ranks_.size());
    }

    // Whether all that was checked is right.
    bool run() {
        std::printf("%s: %d ranks of %lld rows, %lld heads, head_dim %lld, %s, latency %g us; medians of %d\n\n", whole_->device().c_str(),
                    options_.ranks, static_cast<long long>(options_.rows), static_cast<long long>(options_.heads),
                    static_cast<long long>(options_.head_dim), options_.method_name.c_str(), 1e6 * options_.latency, options_.repeat);
        std::printf("| pass     | mask   | link, GB/s |         ms | not paced, ms | visible | whole / ranks, ms | efficiency |\n");
        std::printf("|----------|--------|------------|------------|---------------|---------|-------------------|------------|\n");
        for (const bool causal : {true, false}) print(measure(causal), causal);
        if (options_.check && right_)
            std::printf("\nchecked %d replays: the same bits%s\n", replays_, has_bound() ? ", and no faster than the link" : "");
        return right_;
    }

  private:
    bool has_bound() const { return options_.method() != ATTILE_METHOD_ALL_TO_ALL; }

    // Both calls twice, as a replayed rank makes them.
    void record(const NcclComms &comms, bool causal) {
        const auto work = [&](std::size_t rank) {
            BenchRank &own = *ranks_[rank];
            if (options_.check) own.forget_results();
            own.join(comms);
            for (const bool backward : {false, true}) {
                for (int i = 0; i < 2; ++i) own.call(options_.method(), causal, backward);
            }
            own.leave();
            if (options_.check) recorded_[rank] = own.results();
        };
        std::vector<std::thread> threads;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            threads.emplace_back([&, rank] {
                try {
                    work(rank);
                } catch (const std::exception &error) {
                    std::fprintf(stderr, "rank %zu: %s\n", rank, error.what());
                    std::_Exit(2);  // the others wait for this one
                }
            });
        }
        for (std::thread &thread : threads) thread.join();
        for (const Results &results : recorded_) {
            for (std::size_t i = 0; i < results.size(); ++i) {
                if (has_nan(results[i], i == 1)) throw std::runtime_error("the recorded run has results that are NaN");
            }
        }
    }

    // Of a second call, which alone is paced: the first one takes memory. Before each the device computes the whole problem, so that its
    // clocks are those under load whatever is timed.
    double seconds_of(BenchRank &rank, bool causal, bool backward, double rate) {
        link_(0, 0);
        rank.call(options_.method(), causal, backward);
        if (&rank != whole_.get()) whole_->call(options_.method(), causal, backward);
        rank.synchronize();
        link_(rate, options_.latency);
        const auto begin = std::chrono::steady_clock::now();
        rank.call(options_.method(), causal, backward);
        rank.synchronize();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }

    void replay(const NcclComms &comms, std::size_t rank, bool causal, std::size_t rate, Times *times) {
        BenchRank &own = *ranks_[rank];
        if (options_.check) own.forget_results();
        own.join(comms);
        double passed[2];
        for (int pass = 0; pass < 2; ++pass) {
            passed[pass] = seconds_of(own, causal, pass == 1, options_.rates[rate]);
            times->calls[pass][rate][rank].push_back(passed[pass]);
        }
        own.leave();
        if (!options_.check) return;
        ++replays_;
        if (own.results() != recorded_[rank]) find_wrong(rank, "has other bits than in the recorded run");
        // All keys and values of the other ranks come. Sums of both are float32, and are sent as often.
        const double bytes = 4.0 * (options_.ranks - 1) * static_cast<double>(options_.rows * options_.heads * options_.head_dim);
        if (causal || !has_bound() || rate == 0) return;
        for (int pass = 0; pass < 2; ++pass) {
            if (!(passed[pass] >= (pass == 0 ? 1 : 3) * bytes / options_.rates[rate])) find_wrong(rank, "is faster than its link");
        }
    }

    void find_wrong(std::size_t rank, const char *what) {
        std::fprintf(stderr, "rank %zu %s\n", rank, what);
        right_ = false;
    }

    Times measure(bool causal) {
        Times times(options_);
        const std::vector<int> first_device(ranks_.size());
        const NcclComms comms(options_.ranks, first_device), alone(1, {0});
        record(comms, causal);
        replay_(comms.at(0));
        whole_->join(alone);
        for (int repeat = 0; repeat < options_.repeat; ++repeat) {  // outermost: the device's clocks change with time
            for (int pass = 0; pass < 2; ++pass) times.whole[pass].push_back(seconds_of(*whole_, causal, pass == 1, 0));
            for (std::size_t rate = 0; rate < options_.rates.size(); ++rate) {
                for (std::size_t rank = 0; rank < ranks_.size(); ++rank) replay(comms, rank, causal, rate, &times);
            }
        }
        whole_->leave();
        return times;
    }

    void print(const Times &times, bool causal) const {
        const double share[2] = {median(times.whole[0]) / options_.ranks, median(times.whole[1]) / options_.ranks};
        for (int pass = 0; pass < 3; ++pass) {
            const auto of = [&](std::size_t rate) {
                return pass < 2 ? times.slowest(pass, rate) : times.slowest(0, rate) + times.slowest(1, rate);
            };
            const double whole = pass < 2 ? share[pass] : share[0] + share[1];
            for (std::size_t rate = 1; rate < options_.rates.size(); ++rate) {
                std::printf("| %-8s | %-6s | %10g | %10.3f | %13.3f | %7.3f | %17.3f | %10.3f |\n",
                            pass == 0   ? "forward"
                            : pass == 1 ? "backward"
                                        : "both",
                            causal ? "causal" : "full", 1e-9 * options_.rates[rate], 1e3 * of(rate), 1e3 * of(0),
                            (of(rate) - of(0)) / of(rate), 1e3 * whole, whole / of(rate));
            }
        }
    }

    const Options options_;
    const attile_paced_link_fn link_;
    const attile_paced_replay_fn replay_;
    std::vector<std::unique_ptr<BenchRank>> ranks_;
    std::unique_ptr<BenchRank> whole_;
    std::vector<Results> recorded_;
    int replays_ = 0;
    bool right_ = true;
};

void add_options(CLI::App *app, Options *options) {
    const auto add_size = [&](const char *name, std::int64_t *size) { app->add_option(name, *size)->check(CLI::PositiveNumber); };
    app->add_option("--ranks", options->ranks)->check(CLI::Range(2, 65536));
    add_size("--rows", &options->rows);
    add_size("--heads", &options->heads);
    add_size("--head-dim", &options->head_dim);
    app->add_option("--repeat", options->repeat)->check(CLI::PositiveNumber);
    app->add_option_function<std::vector<double>>("--rates",
                                                  [options](const std::vector<double> &rates) {
                                                      options->rates = {0};
                                                      for (const double rate : rates) options->rates.push_back(1e9 * rate);
                                                  })
        ->delimiter(',')
        ->check(CLI::PositiveNumber);
    app->add_option_function<double>("--latency", [options](double latency) { options->latency = 1e-6 * latency; })
        ->check(CLI::NonNegativeNumber);
    app->add_option("--method", options->method_name)->check(CLI::IsMember(kMethods));
    app->add_option("--backend", options->backend);
    app->add_flag("--check", options->check);
}

}  // namespace
}  // namespace attile::test

int main(int count, char **words) {
    // The link's copies must not wait behind kernels of other streams.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    setenv("ATTILE_TEST_NCCL", PACED_NCCL, 0);
    attile::test::Options options;
    CLI::App app("Attention over ranks as on links of given rates");
    attile::test::add_options(&app, &options);
    CLI11_PARSE(app, count, words);
    if (options.rows % 2 != 0) {
        std::fprintf(stderr, "--rows is odd; expected an even number, a rank has two chunks\n");
        return 2;
    }
    try {
        return attile::test::PacedRing(options).run() ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}

// SPDX-License-Identifier: Apache-2.0
// attile bench --ranks: the bench cases of attention and of its gradients, spread over ranks, and the share of their time in communication.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "bench_cases.h"
#include "bench_choice.h"
#include "cli.h"
#include "commands.h"
#include "measure.h"
#include "progress.h"
#include "ranks.h"
#include "table.h"

namespace attile::cli {
namespace {

using bench::BenchCase;
using bench::Operation;

bool goes_over_ranks(const BenchCase &one) {
    return one.operation == Operation::kAttention || one.operation == Operation::kAttentionBackward;
}

// A call over ranks on this rank's part of a case.
class ShardedBench {
  public:
    ShardedBench(const Rank &rank, const BenchCase &one) : rank_(rank), run_(rank.context(), shard(rank, one)) {
        attile_attention_distributed_init(&forward_, sizeof forward_);
        forward_.local = run_.attention();
        attile_attention_backward_distributed_init(&backward_, sizeof backward_);
        backward_.local = run_.attention_backward();
        forward_.layout = backward_.layout = layout(one);
        forward_.len_q = backward_.len_q = one.len_q;
        forward_.len_k = backward_.len_k = one.len_k;
    }

    attile_distributed_support query() const {
        attile_distributed_support support;
        attile_distributed_support_init(&support, sizeof support);
        check(is_forward() ? attile_attention_distributed_query(rank_.comm(), &forward_, &support)
                           : attile_attention_backward_distributed_query(rank_.comm(), &backward_, &support));
        return support;
    }
    bool fits() const {
        const int64_t memory = rank_.context().info().memory_total;
        return memory <= 0 || run_.bytes() <= memory / 2;
    }
    int64_t bytes() const { return run_.bytes(); }
    void allocate() { check(run_.allocate(ATTILE_MEMORY_DEVICE)); }

    // Seconds of a call.
    double call() const {
        const auto start = std::chrono::steady_clock::now();
        check(is_forward() ? attile_attention_distributed(rank_.comm(), &forward_)
                           : attile_attention_backward_distributed(rank_.comm(), &backward_));
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }

  private:
    bool is_forward() const { return forward_.local != nullptr; }
    // A causal mask gives ranks the same work only if each has early and late rows.
    static int32_t layout(const BenchCase &one) { return one.mask == ATTILE_MASK_NONE ? ATTILE_SHARDS_CONTIGUOUS : ATTILE_SHARDS_ZIGZAG; }
    static BenchCase shard(const Rank &rank, const BenchCase &one) {
        BenchCase own = one;
        const auto count = [&](int64_t length) {
            int64_t all = 0;
            for (int32_t part = 0; part < (layout(one) == ATTILE_SHARDS_ZIGZAG ? 2 : 1); ++part) {
                int64_t rows = 0;
                check(attile_shard_part(layout(one), length, rank.rank(), rank.ranks(), part, nullptr, &rows, nullptr));
                all += rows;
            }
            return all;
        };
        own.len_q = count(one.len_q);
        own.len_k = count(one.len_k);
        return own;
    }

    const Rank &rank_;
    bench::BenchRun run_;
    attile_attention_distributed_args forward_;
    attile_attention_backward_distributed_args backward_;
};

struct Result {
    std::string why;  // Not empty: not run.
    attile_distributed_support support;
    Timing timing;               // of the slowest rank
    double least = 0, most = 0;  // of the ranks' shares of time in communication
};

// What to expect of the next case of an operation, from the last one that ran.
struct Rate {
    double seconds = 0, flops = 0;
};

Result run_case(const Rank &rank, const BenchCase &one, double seconds, std::map<std::string, Rate> &rates) {
    Result result;
    ShardedBench sharded(rank, one);
    result.support = sharded.query();
    if (result.support.level == ATTILE_SUPPORT_NONE) {
        result.why = std::string("not supported: ") + result.support.text;
        return result;
    }
    // What one rank decides all do, or they would make different calls.
    Rate &rate = rates[std::string(bench::operation_name(one.operation))];
    const double expected = rate.flops > 0 ? 5 * rate.seconds * result.support.flops / rate.flops : 0;
    const std::vector<std::vector<double>> decisions = rank.share({sharded.fits() ? 0.0 : 1.0, expected});
    const bool too_large =
        std::any_of(decisions.begin(), decisions.end(), [](const std::vector<double> &of_rank) { return of_rank[0] > 0; });
    if (too_large) result.why = "left out: needs " + bytes_text(static_cast<double>(sharded.bytes())) + " on a rank";
    if (decisions[0][1] > 5 * seconds) result.why = "left out: would take about " + seconds_text(decisions[0][1]) + " (see --seconds)";
    if (!result.why.empty()) return result;

    constexpr int kFewest = 3, kMost = 50;
    sharded.allocate();
    rank.meet();                    // Others may still allocate.
    double spent = sharded.call();  // First touch of memory.
    const double once = sharded.call();
    spent += once;
    const double first_once = rank.share({once})[0][0], first_spent = rank.share({spent})[0][0];
    const int times = std::clamp(static_cast<int>((seconds - first_spent) / std::max(first_once, 1e-9)), kFewest, kMost);
    std::vector<double> samples;
    double all = 0, in_transport = -rank.transport_seconds();
    for (int i = 0; i < times; ++i) {
        samples.push_back(sharded.call());
        all += samples.back();
    }
    in_transport += rank.transport_seconds();
    result.timing = timing_of(samples);
    const Timing own = result.timing;
    result.least = result.most = all > 0 ? in_transport / all : 0;
    for (const std::vector<double> &of_rank : rank.share({own.median, own.spread, result.least})) {
        if (of_rank[0] > result.timing.median) {
            result.timing.median = of_rank[0];
            result.timing.spread = of_rank[1];
        }
        result.least = std::min(result.least, of_rank[2]);
        result.most = std::max(result.most, of_rank[2]);
    }
    if (result.timing.tells_rate()) rate = {result.timing.median, result.support.flops};
    return result;
}

void bench_on(Rank &rank, const BenchOptions &options) {
    std::vector<BenchCase> cases = choose_bench_cases(options, rank.context().info());
    std::erase_if(cases, [](const BenchCase &one) { return !goes_over_ranks(one); });
    if (cases.empty()) throw Failure("--ranks is for cases of attention and attention_backward, and none of these was chosen");
    if (options.list) {
        for (const BenchCase &one : cases)
            if (rank.first()) std::printf("%s\n", one.id.c_str());
        return;
    }
    if (rank.first()) {
        std::printf("backend  %s\nranks    %d by %s; times are medians of the slowest rank\nmemory   the device's own\n\n",
                    rank.context().description().c_str(), rank.ranks(), rank.transport().c_str());
        std::fflush(stdout);
    }
    Table table({"case", "method", ">median", ">spread", ">rate", ">communication", "kernel"});
    std::map<std::string, Rate> rates;
    {
        std::optional<Progress> progress;
        if (rank.first()) progress.emplace("bench", static_cast<int64_t>(cases.size()), "cases");
        for (const BenchCase &one : cases) {
            if (progress) progress->label(one.id);
            const Result result = run_case(rank, one, options.seconds, rates);
            if (result.why.empty())
                table.row({one.id, method_name(result.support.method), seconds_text(result.timing.median),
                           text("%.1f %%", 100 * result.timing.spread),
                           text("%.2f GFLOP/s", result.support.flops / result.timing.median / 1e9),
                           text("%.0f to %.0f %%", 100 * result.least, 100 * result.most), result.support.kernel});
            else
                table.row({one.id, "", "", "", "", "", result.why});
            if (progress) progress->advance();
        }
    }
    if (!rank.first()) return;
    std::fputs(table.str().c_str(), stdout);
    std::puts(
        "\ncommunication: the share of the time that a rank sends or waits for others, of the rank with least and of that with most.");
}

}  // namespace

int run_bench_on_ranks(const BenchOptions &options) {
    run_on_ranks(options.ranks.threads, options.backend, options.threads, [&](Rank &rank) { bench_on(rank, options); });
    return 0;
}

}  // namespace attile::cli

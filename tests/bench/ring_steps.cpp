// SPDX-License-Identifier: Apache-2.0
// What ring attention costs beside its messages: on one device, the local calls and merges that all ranks of a zigzag ring make, one after
// the other, against one call of the whole problem. bf16, by the public calls, on device memory; gradients with the lse of the whole.
// usage: attile_bench_ring [--ranks 8] [--rows 8192] [--heads 8] [--head-dim 128] [--repeat 5] [--calls pairs|rows|joined] [--check]
//   --calls: a call for each pair of chunks; with the rows joined that see all of the same keys; or with keys joined, too, as
//            attile_attention_distributed makes them (the default)
//   --check: exit status 1 if the results are not those of the one call
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ring_problem.h"

namespace attile::bench {
namespace {

enum class Calls { kPairs, kRows, kJoined };
constexpr struct {
    const char *name, *words;
} kCalls[] = {
    {"pairs", "a call for each pair of chunks"}, {"rows", "rows joined that see the same keys"}, {"joined", "rows and keys joined"}};

struct Options {
    int ranks = 8, repeat = 5;
    std::int64_t rows = 8192, heads = 8, head_dim = 128;
    Calls calls = Calls::kJoined;
    bool check = false;
};

// The local calls of all ranks in the order of ranks and steps.
std::vector<Meeting> list_meetings(const Options &options, bool causal) {
    std::vector<Meeting> all;
    const int ranks = options.ranks, chunks = 2 * ranks;
    for (int rank = 0; rank < ranks; ++rank) {
        for (int step = 0; step < ranks; ++step) {
            const int owner = (rank + ranks - step) % ranks;
            if (options.calls == Calls::kJoined) {
                const bool own = owner == rank, before = owner < rank;
                const ChunkRange both = {0, 2}, first = {0, 1}, second = {1, 2};
                if (!causal) {
                    all.push_back({rank, both, owner, both, false});
                } else if (own) {
                    all.push_back({rank, first, owner, first, true});
                    all.push_back({rank, second, owner, first, false});
                    all.push_back({rank, second, owner, second, true});
                } else {
                    all.push_back({rank, before ? both : second, owner, before ? first : both, false});
                }
                continue;
            }
            const int q[2] = {rank, chunks - 1 - rank}, k[2] = {owner, chunks - 1 - owner};
            for (int j = 0; j < 2; ++j) {
                if (options.calls == Calls::kRows && (!causal || (k[j] < q[0] && k[j] < q[1]))) {
                    all.push_back({rank, {0, 2}, owner, {j, j + 1}, false});
                    continue;
                }
                for (int i = 0; i < 2; ++i) {
                    if (causal && k[j] > q[i]) continue;
                    all.push_back({rank, {i, i + 1}, owner, {j, j + 1}, causal && k[j] == q[i]});
                }
            }
        }
    }
    return all;
}

double seconds_of(RingProblem &problem, int repeat, const std::function<void()> &run) {
    std::vector<double> times;
    for (int i = 0; i <= repeat; ++i) {
        problem.synchronize();
        const auto begin = std::chrono::steady_clock::now();
        run();
        problem.synchronize();
        if (i > 0) times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
}

bool compare(RingProblem &problem, const Options &options, bool causal, bool backward) {
    const std::vector<Meeting> meetings = list_meetings(options, causal);
    const auto ring = [&](bool calls, bool merges) {
        if (backward) {
            problem.ring_backward(meetings, calls, merges);
        } else {
            problem.ring_forward(meetings, calls, merges);
        }
    };
    if (backward) problem.whole_forward(causal);
    const double whole =
        seconds_of(problem, options.repeat, [&] { backward ? problem.whole_backward(causal) : problem.whole_forward(causal); });
    if (backward) problem.take_whole_results();
    const double all = seconds_of(problem, options.repeat, [&] { ring(true, true); });
    const double off = options.check ? problem.difference(backward) : 0;
    const double calls = seconds_of(problem, options.repeat, [&] { ring(true, false); });
    const double merges = seconds_of(problem, options.repeat, [&] { ring(false, true); });
    std::printf("| %-8s | %-6s | %6zu | %10.3f | %10.3f | %10.3f | %10.3f | %6.3f |", backward ? "backward" : "forward",
                causal ? "causal" : "full", meetings.size(), 1e3 * calls, 1e3 * merges, 1e3 * all, 1e3 * whole, all / whole);
    if (options.check) std::printf(" off by %.3g", off);
    std::printf("\n");
    return !(off > kMostOff);
}

Options read(int count, char **words) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        if (word == "--check") {
            options.check = true;
            continue;
        }
        if (i + 1 == count) throw std::runtime_error(word + " wants a value");
        const std::string value = words[++i];
        const std::int64_t number = std::atoll(value.c_str());
        const auto *const calls = std::find_if(std::begin(kCalls), std::end(kCalls), [&](const auto &one) { return value == one.name; });
        if (word == "--calls" && calls != std::end(kCalls)) {
            options.calls = static_cast<Calls>(calls - kCalls);
        } else if (number < 1) {
            throw std::runtime_error(word + " is " + value + "; expected a positive number");
        } else if (word == "--ranks") {
            options.ranks = static_cast<int>(number);
        } else if (word == "--repeat") {
            options.repeat = static_cast<int>(number);
        } else if (word == "--rows") {
            options.rows = number;
        } else if (word == "--heads") {
            options.heads = number;
        } else if (word == "--head-dim") {
            options.head_dim = number;
        } else {
            throw std::runtime_error("unknown option " + word);
        }
    }
    if (options.rows % 2 != 0) throw std::runtime_error("--rows is odd; expected an even number, a rank has two chunks");
    return options;
}

int run(int count, char **words) {
    const Options options = read(count, words);
    RingProblem problem(options.ranks, options.rows, options.heads, options.head_dim);
    std::printf("%s: %d ranks of %lld rows, %lld heads, head_dim %lld, %s; milliseconds\n\n", problem.device().c_str(), options.ranks,
                static_cast<long long>(options.rows), static_cast<long long>(options.heads), static_cast<long long>(options.head_dim),
                kCalls[static_cast<int>(options.calls)].words);
    std::printf("| pass     | mask   |  calls |      calls |     merges |   together |   one call |  ratio |\n");
    std::printf("|----------|--------|--------|------------|------------|------------|------------|--------|\n");
    bool right = true;
    for (const bool backward : {false, true}) {
        for (const bool causal : {true, false}) right = compare(problem, options, causal, backward) && right;
    }
    return right ? 0 : 1;
}

}  // namespace
}  // namespace attile::bench

int main(int count, char **words) {
    try {
        return attile::bench::run(count, words);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}

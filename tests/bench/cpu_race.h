// SPDX-License-Identifier: Apache-2.0
// Sides that alternate at the same work, and rows of results with the goal each has to meet.
#ifndef ATTILE_BENCH_CPU_RACE_H
#define ATTILE_BENCH_CPU_RACE_H

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace attile::bench {

// Seconds a call.
struct Timing {
    double median = 0, best = 0;
    double spread = 0;  // distance between the quartiles, as a share of the median
    int samples = 0;
};

struct Side {
    std::string name;
    std::function<void()> run;
    std::vector<double> samples = {};
    std::vector<double> rounds = {};  // each round's median

    Timing timing() const;
};

// How many times as long `other` takes as `one`: the median over rounds of each round's own ratio, since a machine that changes its speed
// changes it for both sides of a round, but not for both halves of a run.
double paired_ratio(const Side &one, const Side &other);

// Every side in each round, until `seconds` are spent, at least three rounds. Before its own samples a side runs once unmeasured: the
// caches are then its own. With several threads every side waits before its samples until the threads of the side before have stopped
// spinning.
void race(std::vector<Side> &sides, int threads, double seconds);

struct Row {
    std::string group, name;
    int threads = 1;
    std::string unit;                                   // of `rates`
    std::vector<std::pair<std::string, double>> rates;  // by median; Attile's first
    std::vector<std::pair<std::string, Timing>> timings;
    std::string measure;          // what `value` is: "x best peer", "of FMA peak", ...
    double value = 0;             // 0: there was nothing to compare with
    double must = 0, aim = 0;     // 0: none
    const char *verdict() const;  // "aim", "must", "MISSED", "" if there is no goal
};

// Prints rows as they come; writes them all as JSON in the end.
class Report {
  public:
    void add(Row row);
    int missed() const;
    bool write_json(const char *path, const std::vector<std::pair<std::string, std::string>> &facts) const;

  private:
    std::vector<Row> rows_;
};

}  // namespace attile::bench

#endif  // ATTILE_BENCH_CPU_RACE_H

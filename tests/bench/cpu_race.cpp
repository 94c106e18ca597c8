// SPDX-License-Identifier: Apache-2.0
#include "cpu_race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "cpu_peak.h"

namespace attile::bench {
namespace {

constexpr double kBurstSeconds = 0.02;
constexpr int kMostInBurst = 20;
// OpenBLAS's threads look for work for some 25 ms after a call, OpenMP's for a few.
constexpr auto kCalmDown = std::chrono::milliseconds(40);

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return result + '"';
}

std::string number(double value) {
    if (!std::isfinite(value)) return "null";
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

}  // namespace

Timing Side::timing() const {
    Timing result;
    result.samples = static_cast<int>(samples.size());
    if (samples.empty()) return result;
    std::vector<double> sorted = samples;
    std::sort(sorted.begin(), sorted.end());
    const auto quantile = [&](double share) { return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)]; };
    result.median = quantile(0.5);
    result.best = sorted.front();
    result.spread = (quantile(0.75) - quantile(0.25)) / result.median;
    return result;
}

double paired_ratio(const Side &one, const Side &other) {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(one.rounds.size(), other.rounds.size()); ++i) ratios.push_back(other.rounds[i] / one.rounds[i]);
    return median(std::move(ratios));
}

void race(std::vector<Side> &sides, int threads, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    for (int round = 0; round < 3 || (spent() < seconds && round < 200); ++round) {
        // Who begins changes, so that nobody always follows the same neighbour.
        std::rotate(sides.begin(), sides.begin() + (round > 0 ? 1 : 0), sides.end());
        for (Side &side : sides) {
            if (threads > 1) std::this_thread::sleep_for(kCalmDown);
            // A call so long that the first touch of its caches does not count is not run twice.
            if (side.samples.empty() || side.samples.back() < 0.1) side.run();
            double burst = 0;
            const auto first = static_cast<std::ptrdiff_t>(side.samples.size());
            for (int i = 0; i < kMostInBurst && (i == 0 || burst < kBurstSeconds); ++i) {
                const double before = seconds_now();
                side.run();
                side.samples.push_back(seconds_now() - before);
                burst += side.samples.back();
            }
            side.rounds.push_back(median({side.samples.begin() + first, side.samples.end()}));
        }
    }
}

const char *Row::verdict() const {
    if (!(value > 0) || (must == 0 && aim == 0)) return "";
    if (aim > 0 && value >= aim) return "aim";
    return value >= must ? "must" : "MISSED";
}

void Report::add(Row row) {
    std::printf("%-10s %-30s %d thr ", row.group.c_str(), row.name.c_str(), row.threads);
    for (const auto &[name, rate] : row.rates) std::printf(" %s %.4g", name.c_str(), rate);
    std::printf(" %s", row.unit.c_str());
    if (row.value > 0) std::printf("  %.3g %s", row.value, row.measure.c_str());
    if (row.must > 0 || row.aim > 0) {
        std::printf("  (must %.3g", row.must);
        if (row.aim > 0) std::printf(", aim %.3g", row.aim);
        std::printf(") %s", row.verdict());
    }
    if (!row.timings.empty()) std::printf("  spread %.0f %%", 100 * row.timings.front().second.spread);
    std::printf("\n");
    std::fflush(stdout);
    rows_.push_back(std::move(row));
}

int Report::missed() const {
    return static_cast<int>(
        std::count_if(rows_.begin(), rows_.end(), [](const Row &row) { return std::string(row.verdict()) == "MISSED"; }));
}

bool Report::write_json(const char *path, const std::vector<std::pair<std::string, std::string>> &facts) const {
    std::FILE *file = std::fopen(path, "w");
    if (file == nullptr) return false;
    std::fprintf(file, "{\"facts\": {");
    const char *comma = "";
    for (const auto &[name, value] : facts) {
        std::fprintf(file, "%s%s: %s", comma, quoted(name).c_str(), quoted(value).c_str());
        comma = ", ";
    }
    std::fprintf(file, "},\n \"rows\": [");
    comma = "\n";
    for (const Row &row : rows_) {
        std::fprintf(file, "%s  {\"group\": %s, \"case\": %s, \"threads\": %d, \"unit\": %s", comma, quoted(row.group).c_str(),
                     quoted(row.name).c_str(), row.threads, quoted(row.unit).c_str());
        if (row.value > 0) std::fprintf(file, ", \"value\": %s, \"measure\": %s", number(row.value).c_str(), quoted(row.measure).c_str());
        if (row.must > 0) std::fprintf(file, ", \"must\": %s", number(row.must).c_str());
        if (row.aim > 0) std::fprintf(file, ", \"aim\": %s", number(row.aim).c_str());
        if (*row.verdict() != 0) std::fprintf(file, ", \"verdict\": %s", quoted(row.verdict()).c_str());
        std::fprintf(file, ", \"rates\": {");
        const char *inner = "";
        for (const auto &[name, rate] : row.rates) {
            std::fprintf(file, "%s%s: %s", inner, quoted(name).c_str(), number(rate).c_str());
            inner = ", ";
        }
        std::fprintf(file, "}, \"seconds\": {");
        inner = "";
        for (const auto &[name, t] : row.timings) {
            std::fprintf(file, "%s%s: {\"median\": %s, \"best\": %s, \"spread\": %s, \"samples\": %d}", inner, quoted(name).c_str(),
                         number(t.median).c_str(), number(t.best).c_str(), number(t.spread).c_str(), t.samples);
            inner = ", ";
        }
        std::fprintf(file, "}}");
        comma = ",\n";
    }
    std::fprintf(file, "\n ]}\n");
    return std::fclose(file) == 0;
}

}  // namespace attile::bench

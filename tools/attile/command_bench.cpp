// SPDX-License-Identifier: Apache-2.0
// attile bench: a short run of the bench cases that suit the device, with median, spread and rate; then, if it lies beside this program,
// the program that compares the backend with other libraries.
#include <cstdio>
#include <map>

#include "bench_cases.h"
#include "bench_choice.h"
#include "cli.h"
#include "commands.h"
#include "json.h"
#include "measure.h"
#include "progress.h"
#include "replace_file.h"
#include "system.h"
#include "table.h"

namespace attile::cli {
namespace {

using bench::BenchCase;
using bench::BenchRun;

struct Result {
    std::string kernel;
    std::string why;  // Not empty: not run.
    Timing timing;
    double flops = 0, bytes = 0;
};

// What to expect of the next case of an operation, from the last one that ran: cases of an operation grow.
struct Rate {
    double seconds = 0, work = 0;
};

double work_of(const BenchCase &one, const attile_support &support) { return one.memory_bound ? support.bytes : support.flops; }

Result run_case(const Context &context, const BenchCase &one, double seconds, std::map<std::string, Rate> &rates) {
    Result result;
    BenchRun run(context, one);
    attile_support support;
    check(run.query(support));
    if (support.level == ATTILE_SUPPORT_NONE) {
        result.why = std::string("not supported: ") + support.text;
        return result;
    }
    result.kernel = support.kernel;
    result.flops = support.flops;
    result.bytes = support.bytes;
    const attile_context_info &info = context.info();
    if (info.memory_total > 0 && run.bytes() > info.memory_total / 2) {
        result.why = "left out: needs " + bytes_text(static_cast<double>(run.bytes()));
        return result;
    }
    const std::string plain(bench::operation_name(one.operation)), operation = plain + (one.exact ? "_exact" : "");
    Rate &rate = rates[operation + "/" + std::string(bench::dtype_name(one.dtype))];
    if (!(rate.work > 0)) rate = rates[operation];  // The first of its type: as another type.
    if (!(rate.work > 0)) rate = rates[plain];      // The first exact one: no faster than others.
    // Three samples and two calls before them.
    const double expected = rate.work > 0 ? 5 * rate.seconds * work_of(one, support) / rate.work : 0;
    if (expected > 5 * seconds) {
        result.why = "left out: would take about " + seconds_text(expected) + " (see --seconds)";
        return result;
    }
    check(run.allocate(ATTILE_MEMORY_DEVICE));
    result.timing = measure(
        [&](int times) {
            for (int i = 0; i < times; ++i) check(run.run());
            check(attile_synchronize(context, nullptr));
        },
        seconds);
    if (result.timing.tells_rate()) rate = rates[operation] = {result.timing.median, work_of(one, support)};
    return result;
}

std::string rate_text(const BenchCase &one, const Result &result) {
    const double work = one.memory_bound ? result.bytes : result.flops;
    if (work <= 0 || result.timing.median <= 0) return "";
    return text("%.2f %s", work / result.timing.median / 1e9, one.memory_bound ? "GB/s   " : "GFLOP/s");
}

// Of a case with EXACT_PRODUCTS, which follows the same case without: how many times as long.
std::string times_text(const Result &result, const Result &before) {
    return before.why.empty() && before.timing.best > 0 ? text("%.3g", result.timing.best / before.timing.best) : "";
}

void write_json(const BenchOptions &options, const Context &context, const std::vector<BenchCase> &cases,
                const std::vector<Result> &results) {
    const attile_context_info &info = context.info();
    std::string rows;
    for (size_t i = 0; i < cases.size(); ++i) {
        const Result &result = results[i];
        JsonObject row;
        row.add("case", cases[i].id).add("operation", std::string(bench::operation_name(cases[i].operation))).add("kernel", result.kernel);
        if (!result.why.empty()) {
            row.add("not_run", result.why);
        } else {
            row.add("median_seconds", result.timing.median).add("best_seconds", result.timing.best).add("spread", result.timing.spread);
            row.add("samples", result.timing.samples).add("flops", result.flops).add("bytes", result.bytes);
            row.add("gflops", result.flops / result.timing.median / 1e9)
                .add("gbytes_per_second", result.bytes / result.timing.median / 1e9);
        }
        rows += (i ? ",\n    " : "\n    ") + row.str();
    }
    const std::string library = "attile " + version_text(attile_version());
    JsonObject root;
    root.add("library", library).add("backend", info.backend).add("device", info.device_name).add("arch", info.arch);
    root.add("threads", info.threads).raw("results", "[" + rows + "\n  ]");
    const std::string document = root.str() + "\n";
    ReplaceFile file;
    if (!file.open(options.json.c_str()) || !file.write(document.data(), static_cast<int64_t>(document.size())) || !file.commit())
        throw Failure(file.error());
}

// attile_bench_<backend> knows the goals that the backend has to reach and prints each with what was reached. It is built with the tests
// and not installed.
int compare_with_peers(const BenchOptions &options, const std::string &backend) {
    const auto announce = [](const std::string &path) {
        std::printf("\nbeside other libraries and the device's own limits (%s):\n", path.c_str());
        std::fflush(stdout);
    };
    const std::vector<std::string> arguments = {"--seconds", text("%g", options.seconds), "--threads", std::to_string(options.threads)};
    const int code = run_beside("attile_bench_" + backend, arguments, announce);
    return code < 0 ? 0 : code;
}

}  // namespace

int run_bench(const BenchOptions &options) {
    if (options.ranks.wanted) return run_bench_on_ranks(options);
    const Context context(options.backend, options.threads);
    std::vector<BenchCase> cases = choose_bench_cases(options, context.info());
    if (options.exact) cases = exact_pairs(context, cases);
    if (options.list) {
        for (const BenchCase &one : cases) std::printf("%s\n", one.id.c_str());
        return 0;
    }
    std::printf("backend  %s\nmemory   the device's own; times are medians, the spread is that of the middle half\n\n",
                context.description().c_str());
    std::fflush(stdout);

    std::vector<std::string> columns = {"case", ">median", ">spread", ">rate", "kernel"};
    if (options.exact) columns.insert(columns.begin() + 4, ">times");
    Table table(columns);
    const auto add_row = [&](std::vector<std::string> cells, const std::string &times) {
        if (options.exact) cells.insert(cells.begin() + 4, times);
        table.row(cells);
    };
    std::vector<Result> results;
    std::map<std::string, Rate> rates;
    {
        Progress progress("bench", static_cast<int64_t>(cases.size()), "cases");
        for (const BenchCase &one : cases) {
            progress.label(one.id);
            results.push_back(run_case(context, one, options.seconds, rates));
            const Result &result = results.back();
            if (result.why.empty())
                add_row({one.id, seconds_text(result.timing.median), text("%.1f %%", 100 * result.timing.spread), rate_text(one, result),
                         result.kernel},
                        one.exact ? times_text(result, results.at(results.size() - 2)) : "");
            else
                add_row({one.id, "", "", "", result.why}, "");
            progress.advance();
        }
    }
    std::fputs(table.str().c_str(), stdout);
    if (!options.json.empty()) write_json(options, context, cases, results);
    // Who asks for some cases gets those alone.
    if (!options.peers || options.exact || !options.filter.empty() || !options.size.empty()) return 0;
    return compare_with_peers(options, context.info().backend);
}

}  // namespace attile::cli

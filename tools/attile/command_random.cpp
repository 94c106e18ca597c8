// SPDX-License-Identifier: Apache-2.0
// attile bench --random and --problem: problems drawn from what attile.h allows, or named, beside the roofline of the device.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "commands.h"
#include "json.h"
#include "progress.h"
#include "random_call.h"
#include "random_clock.h"
#include "random_report.h"
#include "replace_file.h"
#include "table.h"

namespace attile::cli {
namespace {

constexpr double kMostFloor = 20e-3;  // Seconds by the roofline of a drawn problem: a kernel that is a hundred times slower must end, too.
constexpr double kClockSeconds = 0.03;  // Of a drawn problem; one call if that takes longer.
constexpr int64_t kListed = 1000;

struct Bench {
    const Context &context;
    OperandMemory &memory;
    Clock &clock;
    const Roof &roof;
};

// Calls with operands of their own, so many that none finds its operands in the last cache; one where a call takes a millisecond or more.
int copies_of(const attile_context_info &info, int64_t bytes, double floor) {
    if (floor > 1e-3 || bytes <= 0) return 1;
    return static_cast<int>(std::clamp<int64_t>((2 * info.l2_bytes + bytes - 1) / bytes, 1, 64));
}

Outcome run_problem(const Bench &bench, const Problem &problem, double seconds, double most_floor) {
    Outcome outcome;
    outcome.problem = problem;
    outcome.id = id_of(problem);
    outcome.work = work_of(problem);
    outcome.floor = bench.roof.floor_seconds(outcome.work, problem.dtype);
    bench.memory.count();
    attile_support support;
    {
        const ProblemCall counted(bench.context, problem, bench.memory);
        check(counted.query(support));
    }
    outcome.kernel = support.kernel;
    const attile_context_info &info = bench.context.info();
    const int64_t bytes = bench.memory.counted();
    if (support.level == ATTILE_SUPPORT_NONE) {
        outcome.why = std::string("not supported: ") + support.text;
        outcome.refused = true;
    } else if (outcome.floor > most_floor) {
        outcome.why = "left out: the roofline alone is " + seconds_text(outcome.floor);
    } else if (info.memory_total > 0 && bytes > info.memory_total / 3) {
        outcome.why = "left out: needs " + bytes_text(static_cast<double>(bytes));
    }
    if (!outcome.why.empty()) return outcome;
    const int copies = copies_of(info, bytes, outcome.floor);
    bench.memory.provide(copies);
    std::vector<std::unique_ptr<ProblemCall>> calls;
    for (int i = 0; i < copies; ++i) {
        calls.push_back(std::make_unique<ProblemCall>(bench.context, problem, bench.memory));
        calls.back()->prepare();
    }
    // The run decides with addresses what the query left open.
    check(calls[0]->query(support));
    outcome.kernel = support.kernel;
    outcome.clocked = bench.clock.time(calls, seconds);
    return outcome;
}

// As above, and says of which problem a failure is.
Outcome run_named(const Bench &bench, const Problem &problem, double seconds, double most_floor) {
    try {
        return run_problem(bench, problem, seconds, most_floor);
    } catch (const Failure &failure) {
        throw Failure(id_of(problem) + ": " + failure.what());
    }
}

std::vector<Operation> chosen_operations(const std::string &name) {
    if (name.empty()) return operations();
    std::vector<Operation> chosen;
    std::copy_if(operations().begin(), operations().end(), std::back_inserter(chosen),
                 [&](Operation o) { return bench::operation_name(o) == name; });
    return chosen;
}

void write_json(const BenchOptions &options, const Context &context, const Roof &roof, const std::string &distributions,
                const std::string &rows) {
    const attile_context_info &info = context.info();
    JsonObject root;
    root.add("library", "attile " + version_text(attile_version())).add("backend", info.backend).add("device", info.device_name);
    root.add("arch", info.arch).add("threads", info.threads).raw("roof", roof_json(roof));
    if (options.random > 0) {
        root.add("random_seconds", options.random).raw("seed", std::to_string(options.seed));
        root.raw("distributions", "[" + distributions + "\n  ]");
    }
    const std::string document = root.raw("results", "[" + rows + "\n  ]").str() + "\n";
    ReplaceFile file;
    if (!file.open(options.json.c_str()) || !file.write(document.data(), static_cast<int64_t>(document.size())) || !file.commit())
        throw Failure(file.error());
}

void print_head(const Context &context, const Roof &roof) {
    std::printf("backend   %s\n", context.description().c_str());
    std::string peaks;
    for (const auto &[dtype, rate] : roof.flops) peaks += std::string(bench::dtype_name(dtype)) + " " + flop_rate_text(rate) + ", ";
    std::printf("roofline  the longer of arithmetic and memory traffic, and %s for the call; peaks (%s): %smemory %s\n",
                seconds_text(roof.launch).c_str(), roof.from.c_str(), peaks.c_str(), byte_rate_text(roof.bandwidth).c_str());
    if (context.info().device_type == ATTILE_DEVICE_CPU)
        std::printf(
            "clock     the fastest of repeated samples of 1 ms or one call; a short call finds its operands outside the last cache\n\n");
    else
        std::printf(
            "clock     medians of calls that the host queued while the device was still copying, the copies' time taken off; a short call\n"
            "          finds its operands outside the last cache\n\n");
    std::fflush(stdout);
}

int run_problems(const BenchOptions &options, const Bench &bench) {
    std::vector<Outcome> outcomes;
    std::string rows;
    bool all_ran = true;
    for (const std::string &id : options.problems) {
        Problem problem;
        if (const std::string why = parse_problem(id, problem); !why.empty()) throw Failure(why);
        outcomes.push_back(run_named(bench, problem, options.seconds, 1e9));
        rows += (rows.empty() ? "\n    " : ",\n    ") + outcome_json(outcomes.back());
        all_ran = all_ran && outcomes.back().why.empty();
    }
    std::fputs(table_of(outcomes, bench.roof).c_str(), stdout);
    if (!options.json.empty()) write_json(options, bench.context, bench.roof, "", rows);
    return all_ran ? 0 : 1;
}

std::vector<Outcome> run_drawn(const BenchOptions &options, const Bench &bench, Operation operation) {
    using Time = std::chrono::steady_clock;
    const bool on_device = bench.context.info().device_type != ATTILE_DEVICE_CPU;
    Draw draw(operation, options.seed, on_device);
    std::vector<Outcome> outcomes;
    Progress progress(std::string(bench::operation_name(operation)), static_cast<int64_t>(options.random), "s");
    const auto start = Time::now();
    for (int64_t told = 0; options.count == 0 || static_cast<int64_t>(outcomes.size()) < options.count;) {
        const double spent = std::chrono::duration<double>(Time::now() - start).count();
        if (spent >= options.random && !outcomes.empty()) break;
        for (; told < static_cast<int64_t>(spent); ++told) progress.advance();
        const Problem problem = draw.next();
        progress.label(id_of(problem));
        outcomes.push_back(run_named(bench, problem, std::min(kClockSeconds, options.seconds), kMostFloor));
    }
    return outcomes;
}

}  // namespace

int run_random(const BenchOptions &options) {
    const Context context(options.backend, options.threads);
    if (options.list) {
        for (const Operation operation : chosen_operations(options.operation)) {
            Draw draw(operation, options.seed, context.info().device_type != ATTILE_DEVICE_CPU);
            for (int64_t i = options.count == 0 ? kListed : options.count; i > 0; --i) std::printf("%s\n", id_of(draw.next()).c_str());
        }
        return 0;
    }
    OperandMemory memory(context);
    const Roof roof = roof_of(context, memory, options.peaks);
    Clock clock(context);
    const Bench bench = {context, memory, clock, roof};
    print_head(context, roof);
    if (!options.problems.empty()) return run_problems(options, bench);
    std::string distributions, rows;
    for (const Operation operation : chosen_operations(options.operation)) {
        const std::vector<Outcome> outcomes = run_drawn(options, bench, operation);
        std::fputs(report(outcomes, roof).c_str(), stdout);
        std::fflush(stdout);
        distributions += (distributions.empty() ? "\n    " : ",\n    ") + distribution_json(operation, outcomes);
        for (const Outcome &one : outcomes) rows += (rows.empty() ? "\n    " : ",\n    ") + outcome_json(one);
    }
    if (!options.json.empty()) write_json(options, context, roof, distributions, rows);
    return 0;
}

}  // namespace attile::cli

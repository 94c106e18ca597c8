// SPDX-License-Identifier: Apache-2.0
// attile verify: the conformance cases on one backend, judged against double precision on the reference backend.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cases.h"
#include "cli.h"
#include "commands.h"
#include "progress.h"
#include "runner.h"
#include "table.h"
#include "verify_report.h"

namespace attile::cli {
namespace {

using test::Case;
using test::Outcome;
using test::Report;

test::Placement placement_of(const std::string &memory) {
    if (memory == "device") return test::Placement::kDevice;
    if (memory == "managed") return test::Placement::kManaged;
    if (memory == "pinned") return test::Placement::kPinned;
    return test::Placement::kHost;
}

std::vector<Report> run_all(const Context &context, const std::vector<Case> &cases, const VerifyOptions &options) {
    const Context reference("reference");
    test::RunOptions run;
    run.placement = placement_of(options.memory);
    std::vector<Report> reports;
    Progress progress("verify", static_cast<int64_t>(cases.size()), "cases");
    for (const Case &one : cases) {
        progress.label(one.id);
        test::run_case(context, reference, one, run, reports.emplace_back());
        progress.advance();
        if (options.fail_fast && reports.back().outcome == Outcome::kFailed) break;
    }
    return reports;
}

}  // namespace

int run_verify(const VerifyOptions &options) {
    if (options.ranks.wanted) return run_verify_on_ranks(options);
    const std::vector<Case> cases = choose_cases(options);
    if (options.list) {
        Table table({"id", "case"});
        for (const Case &one : cases) table.row({one.id, test::describe(one)});
        std::fputs(table.str().c_str(), stdout);
        return 0;
    }
    const Context context(options.backend, options.threads);
    std::printf("backend  %s\nmemory   %s\n", context.description().c_str(), options.memory.c_str());
    std::fflush(stdout);

    const auto start = std::chrono::steady_clock::now();
    const std::vector<Report> reports = run_all(context, cases, options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!options.case_id.empty()) {
        std::fputs(verify_facts(reports[0]).c_str(), stdout);
    } else {
        std::printf("\n%s\nworst error: the largest error as a share of what is allowed; above 1 is a failure. %.1f s.\n",
                    verify_table(cases, reports).c_str(), seconds);
        for (const Report &report : reports)
            if (report.outcome == Outcome::kFailed) std::printf("\n%s", verify_facts(report).c_str());
    }
    const auto failed =
        std::count_if(reports.begin(), reports.end(), [](const Report &report) { return report.outcome == Outcome::kFailed; });
    if (failed == 0) return 0;
    std::fflush(stdout);
    throw Failure(text("%lld of %lld cases failed; attile verify --backend %s --memory %s --case ID runs one again",
                       static_cast<long long>(failed), static_cast<long long>(reports.size()), context.info().backend,
                       options.memory.c_str()));
}

}  // namespace attile::cli

// SPDX-License-Identifier: Apache-2.0
// attile verify: the conformance cases on one backend, judged against double precision on the reference backend.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "case_feature.h"
#include "case_filter.h"
#include "cases.h"
#include "cli.h"
#include "commands.h"
#include "progress.h"
#include "runner.h"
#include "table.h"

namespace attile::cli {
namespace {

using test::Case;
using test::Outcome;
using test::Report;

struct Tally {
    int cases = 0, passed = 0, failed = 0, unsupported = 0;
    double worst = 0;

    void count(const Report &report) {
        ++cases;
        (report.outcome == Outcome::kPassed ? passed : report.outcome == Outcome::kFailed ? failed : unsupported) += 1;
        worst = std::max(worst, report.worst);
    }
    std::vector<std::string> cells(const std::string &operation, const std::string &feature) const {
        const auto number = [](int count) { return count ? std::to_string(count) : "-"; };
        return {operation,
                feature,
                number(cases),
                number(passed),
                number(failed),
                number(unsupported),
                passed + failed ? text("%.3f", worst) : ""};
    }
};

std::vector<Case> choose(const VerifyOptions &options) {
    std::vector<Case> cases;
    if (!options.case_id.empty()) {
        std::optional<Case> one = test::find_case(options.case_id);
        if (!one) throw Failure("there is no case '" + options.case_id + "' (attile verify --full --list shows them)");
        cases.push_back(std::move(*one));
        return cases;
    }
    const CaseFilter filter(options.filter);
    cases = test::list_cases(options.full ? test::Tier::kFull : test::Tier::kQuick);
    std::erase_if(cases, [&](const Case &one) { return !filter.matches(one.id); });
    if (cases.empty())
        throw Failure("no case matches '" + options.filter + "' (attile verify " + (options.full ? "--full " : "") + "--list shows them)");
    return cases;
}

const char *outcome_name(Outcome outcome) {
    return outcome == Outcome::kPassed ? "passed" : outcome == Outcome::kFailed ? "FAILED" : "not supported";
}

// All there is to say about a case.
std::string facts_of(const Report &report) {
    Facts facts;
    facts.add("case", report.id);
    facts.add("is", report.description);
    facts.add("kernel", report.kernel);
    facts.add("result", outcome_name(report.outcome));
    facts.add(report.outcome == Outcome::kFailed ? "because" : "note", report.message);
    if (report.outcome != Outcome::kUnsupported) facts.add("worst error", text("%.3g of what is allowed", report.worst));
    return facts.str();
}

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

// A row for each feature of each operation, and a last one for all. Of the cases that ran, which are the first ones.
std::string table_of(const std::vector<Case> &cases, const std::vector<Report> &reports) {
    std::vector<std::string> operations;
    std::map<std::string, std::map<std::string, Tally>> tallies;
    Tally total;
    for (size_t i = 0; i < reports.size(); ++i) {
        const std::string operation = test::operation_of(cases[i].id);
        if (tallies.find(operation) == tallies.end()) operations.push_back(operation);
        tallies[operation][case_feature(cases[i])].count(reports[i]);
        total.count(reports[i]);
    }
    Table table({"operation", "feature", ">cases", ">passed", ">failed", ">unsupported", ">worst error"});
    for (const std::string &operation : operations) {
        bool first = true;
        for (const auto &[feature, tally] : tallies[operation]) {
            table.row(tally.cells(first ? operation : "", feature));
            first = false;
        }
    }
    table.row(total.cells("all", ""));
    return table.str();
}

}  // namespace

int run_verify(const VerifyOptions &options) {
    const std::vector<Case> cases = choose(options);
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
        std::fputs(facts_of(reports[0]).c_str(), stdout);
    } else {
        std::printf("\n%s\nworst error: the largest error as a share of what is allowed; above 1 is a failure. %.1f s.\n",
                    table_of(cases, reports).c_str(), seconds);
        for (const Report &report : reports)
            if (report.outcome == Outcome::kFailed) std::printf("\n%s", facts_of(report).c_str());
    }
    const auto failed =
        std::count_if(reports.begin(), reports.end(), [](const Report &report) { return report.outcome == Outcome::kFailed; });
    if (failed == 0) return 0;
    std::fflush(stdout);
    throw Failure(text("%lld of %zu cases failed; attile verify --backend %s --memory %s --case ID runs one again",
                       static_cast<long long>(failed), reports.size(), context.info().backend, options.memory.c_str()));
}

}  // namespace attile::cli

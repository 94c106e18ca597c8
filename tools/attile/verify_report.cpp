// SPDX-License-Identifier: Apache-2.0
#include "verify_report.h"

#include <algorithm>
#include <map>

#include "case_feature.h"
#include "case_filter.h"
#include "cli.h"
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

const char *outcome_name(Outcome outcome) {
    return outcome == Outcome::kPassed ? "passed" : outcome == Outcome::kFailed ? "FAILED" : "not supported";
}

}  // namespace

std::vector<Case> choose_cases(const VerifyOptions &options) {
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

std::string verify_facts(const Report &report) {
    Facts facts;
    facts.add("case", report.id);
    facts.add("is", report.description);
    facts.add("kernel", report.kernel);
    facts.add("result", outcome_name(report.outcome));
    facts.add(report.outcome == Outcome::kFailed ? "because" : "note", report.message);
    if (report.outcome != Outcome::kUnsupported) facts.add("worst error", text("%.3g of what is allowed", report.worst));
    return facts.str();
}

std::string verify_table(const std::vector<Case> &cases, const std::vector<Report> &reports) {
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

}  // namespace attile::cli

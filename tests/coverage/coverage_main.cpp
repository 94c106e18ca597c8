// SPDX-License-Identifier: Apache-2.0
// Every plan of a backend with every option of its operation, found by queries and run.
//
// A plan is what a query answers: the kernel, and whether the sum or the keys are split. A plan times an option is a cell. A cell exists if
// a query answers that plan for some call with that option: of the list of cases, of problems drawn at random, also as exact products and
// sums, or of those with the option put on. What the list does not reach gets cases of its own, each with as many of a plan's empty cells
// as leave the plan; they are run and judged as those of the list are. So no device has a plan that was never run with an option, whatever
// plans were known when the list was written.
//
// usage: attile_coverage [--queries] [--listed TEXT]... [--plans TEXT]... [--table] [--case ID] [--drop OPTION] [--seeds N] [OPERATION...]
//   --queries  finds the cells and the cases, and runs none
//   --listed   runs, even so, cases of the list: of those whose id contains one of these, a few that reach each cell that all of them reach
//   --plans    likewise, but a few of each TEXT that take each plan which all of that TEXT take
//   --table    prints a line for each plan, and its cells that the list does not reach
//   --case     runs that case alone
//   --drop     without the cases of the list that have the option: the test of this test
//   --seeds    how many problems are drawn at random for each operation (400)
// Environment: ATTILE_TEST_BACKEND, ATTILE_TEST_TIER, ATTILE_TEST_RERUNS, as attile_conformance. Exit status 1 if a case fails or a cell
// stays empty.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "case_options.h"
#include "cases.h"
#include "conformance_backends.h"
#include "problem.h"
#include "runner.h"

namespace attile::test {
namespace {

constexpr const char *kOperations[] = {"gemm",   "attention", "attention_backward", "attention_merge", "attention_merge_backward",
                                       "reduce", "softmax"};
constexpr std::size_t kSamples = 4;            // cases of a plan that options are put on
constexpr std::uint64_t kFirstSeed = 100'001;  // beyond those of the list
constexpr double kWorkOfACase = 3e6;           // what takes a case's time besides its products, in multiply-adds

// Empty if the call would not work.
std::string plan_of(attile_context *context, Placement placement, const Case &c) {
    try {
        const WithoutContents only_asked;
        const std::unique_ptr<Call> call = make_problem(c, Contents::kNone)->bind(context, placement, false);
        attile_support support;
        attile_support_init(&support, sizeof support);
        if (call->query(&support) != ATTILE_OK || support.level == ATTILE_SUPPORT_NONE) return {};
        return std::string(support.kernel) + (support.splits > 1 ? ", split" : "");
    } catch (const std::exception &) {
        return {};  // Not a call: an option that contradicts another.
    }
}

struct Cell {
    int reached = 0;
    std::string witness;  // of an empty one that exists
};

struct Plan {
    std::vector<Case> samples;          // the ones with the fewest options
    std::map<std::string, Cell> cells;  // by option; "" is the plan itself
};

// A case of the list, and what it reaches.
struct Listed {
    using Cell = std::pair<std::string, std::string>;  // plan and option
    Case test_case;
    std::set<Cell> cells;
};

class Table {
  public:
    Table(attile_context *context, Placement placement, std::string operation)
        : context_(context), placement_(placement), operation_(std::move(operation)) {}

    void add_listed(const Case &c) {
        const std::string plan = plan_of(context_, placement_, c);
        if (plan.empty()) return;
        listed_.push_back({c, {}});
        for (const std::string &option : options_on(c)) {
            ++plans_[plan].cells[option].reached;
            listed_.back().cells.insert({plan, option});
        }
        keep_sample(plans_[plan], c);
    }
    void add_drawn(const Case &c) {
        const std::string plan = plan_of(context_, placement_, c);
        if (plan.empty()) return;
        for (const std::string &option : options_on(c)) note(plans_[plan].cells[option], c);
        keep_sample(plans_[plan], c);
    }
    // Each option on each sample, where nothing yet tells that the cell exists.
    void put_options_on() {
        for (auto &[name, plan] : plans_)
            for (const Case &sample : plan.samples)
                for (const CaseOption &option : options_of(operation_)) {
                    if (const auto found = plan.cells.find(option.name); found != plan.cells.end()) continue;
                    const std::optional<Case> made = with_options(sample, option.name);
                    if (made && option.has(*made) && plan_of(context_, placement_, *made) == name) note(plan.cells[option.name], *made);
                }
    }
    bool has(const Case &c, const std::string &option) const {
        const std::vector<std::string> on = options_on(c);
        return !option.empty() && std::find(on.begin(), on.end(), option) != on.end();
    }
    // Cells, and those of them that the list does not reach.
    void count(int *cells, int *empty) const {
        for (const auto &[name, plan] : plans_)
            for (const auto &[option, cell] : plan.cells) {
                ++*cells;
                if (cell.reached == 0) ++*empty;
            }
    }
    void print() const {
        for (const auto &[name, plan] : plans_) {
            int reached = 0;
            std::string missing;
            for (const auto &[option, cell] : plan.cells) {
                if (cell.reached > 0)
                    ++reached;
                else
                    missing += (missing.empty() ? "\n    not in the list: " : ", ") + (option.empty() ? "the plan itself" : option);
            }
            std::printf("  %-18s %-50s %3d of %2zu cells in the list%s\n", operation_.c_str(), name.c_str(), reached, plan.cells.size(),
                        missing.c_str());
        }
    }
    // Of the listed cases whose id contains one of `texts`, a few that reach what these reach together, and of those with each of
    // `plan_texts` a few that take each plan. Next comes the one with the most that is new for the time it takes. *all: how many there are.
    std::vector<Case> few_listed(const std::vector<std::string> &texts, const std::vector<std::string> &plan_texts,
                                 std::size_t *all) const {
        using Wanted = std::pair<std::string, Listed::Cell>;  // A text of `plan_texts`, or none.
        struct Candidate {
            const Case *test_case;
            std::set<Wanted> reaches;
            double time;
        };
        std::set<Wanted> missing;
        std::vector<Candidate> candidates;
        for (const Listed &each : listed_) {
            const auto has = [&](const std::string &text) { return each.test_case.id.find(text) != std::string::npos; };
            Candidate candidate{&each.test_case, {}, kWorkOfACase + multiply_adds(each.test_case)};
            if (std::any_of(texts.begin(), texts.end(), has))
                for (const Listed::Cell &cell : each.cells) candidate.reaches.insert({"", cell});
            for (const std::string &text : plan_texts)
                if (has(text))
                    for (const Listed::Cell &cell : each.cells)
                        if (cell.second.empty()) candidate.reaches.insert({text, cell});
            if (candidate.reaches.empty()) continue;
            missing.insert(candidate.reaches.begin(), candidate.reaches.end());
            candidates.push_back(std::move(candidate));
        }
        const auto gain = [&](const Candidate &each) {
            const auto is_missing = [&](const Wanted &wanted) { return missing.count(wanted) != 0; };
            return static_cast<double>(std::count_if(each.reaches.begin(), each.reaches.end(), is_missing)) / each.time;
        };
        std::vector<Case> few;
        while (!missing.empty()) {
            const Candidate &best = *std::max_element(candidates.begin(), candidates.end(),
                                                      [&](const Candidate &x, const Candidate &y) { return gain(x) < gain(y); });
            few.push_back(*best.test_case);
            for (const Wanted &wanted : best.reaches) missing.erase(wanted);
        }
        *all = candidates.size();
        return few;
    }
    // Cases for the empty cells; *left: cells for which there is none.
    std::vector<Case> fill(int *left) const {
        std::vector<Case> cases;
        for (const auto &[name, plan] : plans_) {
            std::set<std::string> empty;
            for (const auto &[option, cell] : plan.cells)
                if (cell.reached == 0) empty.insert(option);
            while (!empty.empty()) {
                const std::string option = *empty.rbegin();
                std::optional<Case> made = find_with_options(plan.cells.at(option).witness);
                if (!made || plan_of(context_, placement_, *made) != name) {
                    std::printf("no case for %s with %s\n", name.c_str(), option.c_str());
                    ++*left;
                    empty.erase(option);
                    continue;
                }
                for (const std::string &more : std::set<std::string>(empty)) {
                    if (more.empty() || more == option) continue;
                    std::optional<Case> with = with_options(*made, more);
                    if (with && keeps_options(*made, *with) && plan_of(context_, placement_, *with) == name) made = std::move(with);
                }
                for (const std::string &done : options_on(*made)) empty.erase(done);
                empty.erase(option);
                cases.push_back(std::move(*made));
            }
        }
        return cases;
    }

  private:
    std::vector<std::string> options_on(const Case &c) const {
        std::vector<std::string> on = {""};
        for (const CaseOption &option : options_of(operation_))
            if (option.has(c)) on.emplace_back(option.name);
        return on;
    }
    // Options may exclude each other, as activations do.
    bool keeps_options(const Case &before, const Case &after) const {
        const std::vector<std::string> on = options_on(after);
        const std::vector<std::string> wanted = options_on(before);
        return std::all_of(wanted.begin(), wanted.end(),
                           [&](const std::string &each) { return std::count(on.begin(), on.end(), each) != 0; });
    }
    static void note(Cell &cell, const Case &c) {
        if (cell.witness.empty()) cell.witness = c.id;
    }
    void keep_sample(Plan &plan, const Case &c) const {
        const auto options = [this](const Case &each) { return options_on(each).size(); };
        plan.samples.push_back(c);
        std::stable_sort(plan.samples.begin(), plan.samples.end(), [&](const Case &a, const Case &b) { return options(a) < options(b); });
        if (plan.samples.size() > kSamples) plan.samples.pop_back();
    }

    attile_context *context_;
    Placement placement_;
    std::string operation_;
    std::map<std::string, Plan> plans_;
    std::vector<Listed> listed_;
};

struct Words {
    bool queries = false, table = false;
    std::string alone, drop;
    std::vector<std::string> listed, plans;
    std::uint64_t seeds = 400;
    std::set<std::string> operations;
};

// True if it failed.
bool run(const Backend &backend, attile_context *reference, const Case &c, const RunOptions &options) {
    Report report;
    run_case(backend.context.get(), reference, c, options, report);
    if (report.outcome != Outcome::kFailed) return false;
    std::printf("FAILED %s: %s\n  case:   %s\n  kernel: %s\n  again:  attile_coverage --case '%s'\n", backend.name.c_str(),
                report.message.c_str(), report.description.c_str(), report.kernel.c_str(), c.id.c_str());
    return true;
}

// Failures and cells that stay empty.
int check(const Backend &backend, attile_context *reference, const Words &words, Tier tier) {
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    attile_context_get_info(backend.context.get(), &info);
    const Placement placement = info.device_type == ATTILE_DEVICE_CPU ? Placement::kHost : Placement::kDevice;
    if (!words.alone.empty()) {
        const std::optional<Case> alone = find_with_options(words.alone);
        if (!alone) throw std::runtime_error("no case of the id " + words.alone);
        return run(backend, reference, *alone, {.placement = placement}) ? 1 : 0;
    }
    int cells = 0, empty = 0, left = 0, failed = 0;
    std::size_t cases = 0, listed = 0, candidates = 0;
    const int each = rerun_each();
    const std::vector<Case> list = list_cases(tier);
    for (const char *operation : kOperations) {
        if (!words.operations.empty() && words.operations.count(operation) == 0) continue;
        Table table(backend.context.get(), placement, operation);
        for (const Case &c : list)
            if (operation_of(c.id) == operation && !table.has(c, words.drop)) table.add_listed(c);
        for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + words.seeds; ++seed) {
            const Case drawn = *find_case(std::string(operation) + ".random." + std::to_string(seed));
            table.add_drawn(drawn);
            if (const std::optional<Case> exact = with_options(drawn, "exact")) table.add_drawn(*exact);
        }
        table.put_options_on();
        table.count(&cells, &empty);
        if (words.table) table.print();
        const auto run_next = [&, number = 0](const Case &c) mutable {
            failed += run(backend, reference, c, {.placement = placement, .rerun = number++ % each == 0}) ? 1 : 0;
        };
        std::size_t all = 0;
        const std::vector<Case> few = table.few_listed(words.listed, words.plans, &all);
        std::for_each(few.begin(), few.end(), run_next);
        listed += few.size();
        candidates += all;
        const std::vector<Case> fill = table.fill(&left);
        if (!words.queries) std::for_each(fill.begin(), fill.end(), run_next);
        cases += fill.size();
    }
    std::printf(
        "%s, %s %s: %d cells, %d of them not in the list; %zu cases of the list run, %zu like them left out, %zu more%s, %d failed; "
        "%d cells empty\n",
        backend.name.c_str(), info.device_name, info.arch, cells, empty, listed, candidates - listed, cases,
        words.queries ? " not run" : "", failed, left);
    return failed + left;
}

}  // namespace
}  // namespace attile::test

int main(int argc, char **argv) {
    using namespace attile::test;
    Words words;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const bool takes_value = word == "--case" || word == "--drop" || word == "--seeds" || word == "--listed" || word == "--plans";
        if (takes_value && i + 1 == argc) return std::fprintf(stderr, "coverage: %s wants a value\n", argv[i]), 2;
        if (word == "--queries")
            words.queries = true;
        else if (word == "--table")
            words.table = true;
        else if (takes_value && word == "--case")
            words.alone = argv[++i];
        else if (takes_value && word == "--listed")
            words.listed.emplace_back(argv[++i]);
        else if (takes_value && word == "--plans")
            words.plans.emplace_back(argv[++i]);
        else if (takes_value && word == "--drop")
            words.drop = argv[++i];
        else if (takes_value)
            words.seeds = std::strtoull(argv[++i], nullptr, 10);
        else if (std::count(std::begin(kOperations), std::end(kOperations), word) != 0)
            words.operations.insert(word);
        else
            return std::fprintf(stderr, "coverage: what is %s?\n", argv[i]), 2;
    }
    try {
        const char *tier = std::getenv("ATTILE_TEST_TIER");
        const ContextHandle reference = open_backend("reference");
        int wrong = 0;
        for (const Backend &backend : backends_under_test())
            wrong += check(backend, reference.get(), words, tier != nullptr && std::strcmp(tier, "full") == 0 ? Tier::kFull : Tier::kQuick);
        return wrong > 0 ? 1 : 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "coverage: %s\n", error.what());
        return 2;
    }
}

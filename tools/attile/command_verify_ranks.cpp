// SPDX-License-Identifier: Apache-2.0
// attile verify --ranks: the conformance cases of attention and of its gradients, spread over ranks. Each rank judges its own part.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>

#include "cli.h"
#include "commands.h"
#include "progress.h"
#include "ranks.h"
#include "sharded_attention.h"
#include "sharded_gradients.h"
#include "table.h"
#include "verify_report.h"

namespace attile::cli {
namespace {

using test::Case;
using test::Outcome;
using test::Report;

// Not what calls over ranks refuse.
bool goes_over_ranks(const test::AttentionCase &c) {
    return c.page_size == 0 && !c.key_starts && !c.causal_offset && c.packed_q == c.packed_k && c.block_mask == test::MaskBytes::kNone &&
           c.tree_keys == 0 && c.k_storage.dtype == 0 && c.v_storage.dtype == 0;
}

bool goes_over_ranks(const Case &one) {
    if (const auto *forward = std::get_if<test::AttentionCase>(&one.problem)) return goes_over_ranks(*forward);
    const auto *backward = std::get_if<test::BackwardCase>(&one.problem);
    return backward != nullptr && !backward->dlse && goes_over_ranks(backward->forward);
}

// A case, and the answer that is expected of it, are made once for all ranks of a process.
class SharedCases {
  public:
    explicit SharedCases(const std::vector<Case> &cases) : cases_(cases), made_(cases.size()) {}
    std::shared_ptr<const test::CaseOverRanks> find(size_t number) {
        const std::lock_guard<std::mutex> hold(mutex_);
        std::shared_ptr<const test::CaseOverRanks> made = made_[number].lock();
        if (made == nullptr) made_[number] = made = make(cases_[number]);
        return made;
    }

  private:
    static std::shared_ptr<const test::CaseOverRanks> make(const Case &one) {
        if (const auto *forward = std::get_if<test::AttentionCase>(&one.problem)) return std::make_shared<test::ShardedCase>(*forward);
        return std::make_shared<test::ShardedGradients>(std::get<test::BackwardCase>(one.problem));
    }

    const std::vector<Case> &cases_;
    std::mutex mutex_;
    std::vector<std::weak_ptr<const test::CaseOverRanks>> made_;
};

// A layout and a method for each case: always the same ones, so that --case runs what failed; all of them occur in a list.
test::ShardedRun run_of(const Case &one, int ranks) {
    uint32_t hash = 2166136261U;  // FNV-1a
    for (const char letter : one.id) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
    test::ShardedRun run;
    run.ranks = ranks;
    run.layout = static_cast<int>(hash / 4 % 3);
    run.method = static_cast<int>(hash % 4);
    const auto *forward = std::get_if<test::AttentionCase>(&one.problem);
    // Merges by lse are not for scores beside which the logarithm of a number of keys is lost (docs/distributed.md).
    const bool lowest = forward != nullptr && forward->bias == test::BiasKind::kLowest;
    if (lowest) run.method = ATTILE_METHOD_ALL_TO_ALL;
    run.replicated = forward != nullptr && !lowest && !forward->packed_q && hash / 16 % 5 == 0;
    if (run.replicated) run.method = ATTILE_METHOD_TREE;
    return run;
}

Report report_of(const Rank &rank, const Case &one, const test::CaseOverRanks &sharded) {
    const test::ShardedRun run = run_of(one, rank.ranks());
    Report report;
    report.id = one.id;
    report.description = test::describe(one) + ", " + test::describe(run);
    std::vector<test::ResultsOfRank> results(static_cast<size_t>(rank.ranks()));
    test::ResultsOfRank &own = results[static_cast<size_t>(rank.rank())];
    sharded.run({rank.rank(), rank.context(), rank.comm()}, run, &own);
    report.kernel = own.kernel;
    report.message = own.failure;
    if (own.status / 1000 == 2) {
        report.outcome = Outcome::kUnsupported;
    } else if (own.failure.empty()) {
        const test::Verdict verdict = sharded.judge(run, results);
        report.outcome = verdict.passed ? Outcome::kPassed : Outcome::kFailed;
        report.message = verdict.message;
        report.worst = verdict.worst;
    }
    return report;
}

// On every rank the worst outcome and error of all. A rank that failed says why by itself.
void combine(const Rank &rank, Report &report) {
    if (report.outcome == Outcome::kFailed && report.message.empty()) report.message = "it failed";
    const double worst = std::isfinite(report.worst) ? report.worst : 1e300;
    const double code = report.outcome == Outcome::kFailed ? 2 : report.outcome == Outcome::kUnsupported ? 1 : 0;
    const std::vector<std::vector<double>> all = rank.share({code, worst});
    std::string failed;
    double code_of_all = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        code_of_all = std::max(code_of_all, all[i][0]);
        report.worst = std::max(report.worst, all[i][1] < 1e300 ? all[i][1] : INFINITY);
        if (all[i][0] > 1) failed += (failed.empty() ? "" : ", ") + std::to_string(i);
    }
    if (code > 1) std::printf("\nrank     %d\n%s", rank.rank(), verify_facts(report).c_str());
    report.outcome = code_of_all > 1 ? Outcome::kFailed : code_of_all > 0 ? Outcome::kUnsupported : Outcome::kPassed;
    if (!failed.empty()) report.message = "it failed on rank " + failed;
}

// `of_first` gets the first rank's reports; the others have none to give.
void verify(Rank &rank, const std::vector<Case> &cases, SharedCases &shared, const VerifyOptions &options, std::vector<Report> *of_first) {
    if (rank.first()) {
        std::printf("backend  %s\nranks    %d by %s\nmemory   host\n", rank.context().description().c_str(), rank.ranks(),
                    rank.transport().c_str());
        std::fflush(stdout);
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<Report> reports;
    {
        std::optional<Progress> progress;
        if (rank.first()) progress.emplace("verify", static_cast<int64_t>(cases.size()), "cases");
        for (size_t i = 0; i < cases.size(); ++i) {
            if (progress) progress->label(cases[i].id);
            const std::shared_ptr<const test::CaseOverRanks> sharded = shared.find(i);
            reports.push_back(report_of(rank, cases[i], *sharded));
            combine(rank, reports.back());
            const attile_comm_info info = rank.info();
            if (info.status != ATTILE_OK) throw Failure(cases[i].id + ": " + info.text);
            if (progress) progress->advance();
            if (options.fail_fast && reports.back().outcome == Outcome::kFailed) break;
        }
    }
    if (!rank.first()) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!options.case_id.empty())
        std::fputs(verify_facts(reports[0]).c_str(), stdout);
    else
        std::printf("\n%s\nworst error: the largest error as a share of what is allowed; above 1 is a failure. %.1f s.\n",
                    verify_table(cases, reports).c_str(), seconds);
    *of_first = std::move(reports);
}

}  // namespace

int run_verify_on_ranks(const VerifyOptions &options) {
    std::vector<Case> cases = choose_cases(options);
    std::erase_if(cases, [](const Case &one) { return !goes_over_ranks(one); });
    if (cases.empty())
        throw Failure("--ranks is for cases of attention and attention_backward that ranks do not refuse, and none of these was chosen");
    SharedCases shared(cases);
    std::vector<Report> reports;
    run_on_ranks(options.ranks.threads, options.backend, options.threads,
                 [&](Rank &rank) { verify(rank, cases, shared, options, rank.first() ? &reports : nullptr); });
    const auto failed =
        std::count_if(reports.begin(), reports.end(), [](const Report &report) { return report.outcome == Outcome::kFailed; });
    if (failed == 0) return 0;
    std::fflush(stdout);
    throw Failure(text("%lld of %lld cases failed over ranks; attile verify --ranks --case ID runs one again",
                       static_cast<long long>(failed), static_cast<long long>(reports.size())));
}

}  // namespace attile::cli

// SPDX-License-Identifier: Apache-2.0
#include "over_ranks.h"

#include <cstdlib>

namespace attile::test {

std::string describe(const RunOfCase &run) {
    return describe(static_cast<const ShardedRun &>(run)) + " on " + run.backend +
           (run.join              ? " by another kind"
            : run.mail != nullptr ? " by callbacks"
                                  : " by threads") +
           ", memory: " + placement_name(run.placement);
}

void run_jobs(std::vector<Job> &jobs) {
    if (jobs.empty()) return;
    const RunOfCase &first = jobs.front().run;
    std::vector<std::vector<ResultsOfRank>> results(jobs.size(), std::vector<ResultsOfRank>(static_cast<std::size_t>(first.ranks)));
    RanksOptions options;
    options.ranks = first.ranks;
    options.backend = first.backend;
    options.mail = first.mail;
    options.join = first.join;
    options.backends = first.backends;
    options.placement = first.placement;
    run_ranks(options, [&](Rank &rank) {
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            ResultsOfRank &own = results[i][static_cast<std::size_t>(rank.rank)];
            if (rank.created != ATTILE_OK) {
                own.failure = rank.why;
            } else {
                jobs[i].test_case->run(rank, jobs[i].run, &own);
            }
        }
    });
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        Job &job = jobs[i];
        for (const ResultsOfRank &own : results[i]) {
            if (!own.failure.empty() && job.wrong.empty())
                job.wrong = "rank " + std::to_string(&own - results[i].data()) + ": " + own.failure;
            if (own.outputs.empty() && job.wrong.empty()) job.wrong = "rank " + std::to_string(&own - results[i].data()) + ": no results";
            job.bytes.insert(job.bytes.end(), own.bytes.begin(), own.bytes.end());
        }
        if (job.wrong.empty()) job.wrong = job.test_case->judge(job.run, results[i]).message;
    }
}

std::string run_case(const CaseOverRanks &test_case, const RunOfCase &run, std::vector<std::byte> *bytes) {
    std::vector<Job> jobs = {{&test_case, run, {}, {}}};
    run_jobs(jobs);
    if (bytes != nullptr) *bytes = std::move(jobs[0].bytes);
    return jobs[0].wrong;
}

const std::vector<std::string> &backends() {
    static const std::vector<std::string> list = [] {
        const char *named = std::getenv("ATTILE_TEST_BACKEND");
        if (named != nullptr && named[0] != '\0') return std::vector<std::string>{named};
        std::vector<std::string> found = {"reference"};
        if (opens("cpu")) found.push_back("cpu");
        return found;
    }();
    return list;
}

bool full_list() {
    const char *tier = std::getenv("ATTILE_TEST_TIER");
    return tier != nullptr && std::string(tier) == "full";
}

std::uint64_t number(const char *variable, std::uint64_t otherwise) {
    const char *text = std::getenv(variable);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace attile::test

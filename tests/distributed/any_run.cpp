// SPDX-License-Identifier: Apache-2.0
#include "any_run.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "options.h"
#include "test_random.h"

namespace attile::test {
namespace {

std::vector<Job> done(std::vector<Job> jobs, Mail *mail) {
    for (Job &job : jobs) job.run.mail = mail;
    run_jobs(jobs);
    return jobs;
}

}  // namespace

void expect_every_layout_method_and_option(int ranks,
                                           const std::function<const CaseOverRanks &(std::size_t option, std::int32_t dtype)> &made) {
    for (const std::string &backend : backends()) {
        std::vector<Job> jobs;
        for (std::size_t at = 0; at < options().size(); at += number("ATTILE_DISTRIBUTED_STEP", 1)) {
            for (int layout = 0; layout < 3; ++layout) {
                for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
                    RunOfCase run;
                    run.ranks = ranks;
                    run.backend = backend;
                    run.layout = layout;
                    run.method = method;
                    const std::size_t turn = static_cast<std::size_t>(3 * layout + method + ranks) + at;
                    for (std::size_t type = 0; type < std::size(kTypes); ++type) {
                        if (!full_list() && type != turn % std::size(kTypes)) continue;
                        jobs.push_back({&made(at, kTypes[type]), run, {}, {}});
                    }
                }
            }
        }
        run_jobs(jobs);
        for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << job.test_case->text();
    }
}

void expect_the_same_bits(const std::vector<Job> &jobs) {
    const std::vector<Job> first = done(jobs, nullptr);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        MailOptions options;
        options.seed = seed;
        options.collectives = seed % 2 == 0;
        options.give_up = seed != 3;
        Mail mail(jobs[0].run.ranks, options);
        const std::vector<Job> again = done(jobs, &mail);
        for (std::size_t i = 0; i < first.size(); ++i) {
            EXPECT_EQ(again[i].wrong, "") << describe(again[i].run) << ": " << again[i].test_case->text();
            EXPECT_EQ(again[i].bytes, first[i].bytes) << "other bits: " << describe(again[i].run) << ": " << again[i].test_case->text();
        }
    }
}

void expect_random_runs(const CaseOverRanks &test_case, std::int64_t rows, std::int64_t keys, std::uint64_t seed) {
    Random random(seed);
    for (int repeat = 0; repeat < 2; ++repeat) {
        RunOfCase run;
        run.ranks = random.pick({2, 3, 4, 5, 6, 8});
        run.backend = backends()[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(backends().size()) - 1))];
        run.layout = static_cast<int>(random.between(0, 2));
        run.method = static_cast<int>(random.between(0, 3));
        if (run.layout == ATTILE_SHARDS_CONTIGUOUS && random.chance(0.7)) {
            const auto cut = [&](std::int64_t length) {
                std::vector<std::int64_t> cuts = {0};
                for (int rank = 1; rank < run.ranks; ++rank) cuts.push_back(random.between(cuts.back(), length));
                return cuts;
            };
            run.cuts_q = cut(rows);
            run.cuts_k = cut(keys);
        }
        MailOptions options;
        options.seed = seed;
        options.collectives = random.chance(0.5);
        options.give_up = random.chance(0.5);
        Mail mail(run.ranks, options);
        if (random.chance(0.4)) run.mail = &mail;
        std::vector<Job> jobs(2, {&test_case, run, {}, {}});
        run_jobs(jobs);
        EXPECT_EQ(jobs[0].wrong, "") << "seed " << seed << ": " << describe(run) << ": " << test_case.text();
        EXPECT_EQ(jobs[1].wrong, "") << "seed " << seed << ", a second time";
        EXPECT_EQ(jobs[0].bytes, jobs[1].bytes) << "seed " << seed << ": other bits in a second run";
    }
}

}  // namespace attile::test

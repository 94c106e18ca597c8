// SPDX-License-Identifier: Apache-2.0
// Every layout, method and option against one rank: rows within the rule of the local call, and the same bits in every run.
// Environment: ATTILE_TEST_BACKEND, one backend; ATTILE_TEST_TIER=full, every type and more problems (2 minutes);
// ATTILE_DISTRIBUTED_STEP=n, every n-th option; ATTILE_DISTRIBUTED_PROBLEMS=n, so many problems at random.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sharded_attention.h"

namespace attile::test {
namespace {

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

// Builds that take long look at fewer.
std::uint64_t number(const char *variable, std::uint64_t otherwise) {
    const char *text = std::getenv(variable);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Option {
    const char *name;
    std::function<void(AttentionCase &)> set;
};

void window(AttentionCase &c, std::int32_t mask, std::int64_t left, std::int64_t right) {
    c.mask = mask;
    c.window_left = left;
    c.window_right = right;
}

const Option kOptions[] = {
    {"plain", [](AttentionCase &) {}},
    {"causal_top_left", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
    {"causal_bottom_right", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"causal_square", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT, c.len_k = c.len_q; }},
    {"window_top_left", [](AttentionCase &c) { window(c, ATTILE_MASK_WINDOW_TOP_LEFT, 5, 2); }},
    {"window_bottom_right", [](AttentionCase &c) { window(c, ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 3, -1); }},
    {"window_one", [](AttentionCase &c) { window(c, ATTILE_MASK_WINDOW_TOP_LEFT, 0, 0); }},
    {"mqa", [](AttentionCase &c) { c.heads_kv = 1; }},
    {"gqa_uneven", [](AttentionCase &c) { c.heads_q = 9, c.heads_kv = 3, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"softcap_scale", [](AttentionCase &c) { c.softcap = 2, c.scale = -0.5; }},
    {"alibi", [](AttentionCase &c) { c.alibi = 1; }},
    {"alibi_causal", [](AttentionCase &c) { c.alibi = 2, c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
    {"alibi_bottom_right", [](AttentionCase &c) { c.alibi = 1, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, c.key_lengths = true; }},
    {"alibi_bias", [](AttentionCase &c) { c.alibi = 2, c.bias = BiasKind::kNormal, c.bias_axes = 13; }},
    {"sinks", [](AttentionCase &c) { c.sinks = true, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"bias", [](AttentionCase &c) { c.bias = BiasKind::kSomeHidden; }},
    {"bias_broadcast", [](AttentionCase &c) { c.bias = BiasKind::kNormal, c.bias_axes = 8, c.bias_rank = 3; }},
    {"bias_rows", [](AttentionCase &c) { c.bias = BiasKind::kRowsHidden, c.bias_axes = 7; }},
    {"allowed", [](AttentionCase &c) { c.allowed = MaskBytes::kRandom, c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
    {"allowed_broadcast", [](AttentionCase &c) { c.allowed = MaskBytes::kRandom, c.allowed_axes = 12; }},
    {"key_lengths", [](AttentionCase &c) { c.key_lengths = true, c.batch = 3; }},
    {"key_lengths_causal", [](AttentionCase &c) { c.key_lengths = true, c.batch = 3, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"nan_in_query", [](AttentionCase &c) { c.pattern = AttentionPattern::kNanInQuery; }},
    {"infinite_keys", [](AttentionCase &c) { c.pattern = AttentionPattern::kInfiniteKeys, c.sinks = true; }},
    {"bias_poisoned", [](AttentionCase &c) { c.bias = BiasKind::kSomeHidden, c.bias_poisoned = true; }},
    {"few_rows", [](AttentionCase &c) { c.len_q = 2, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"one_row", [](AttentionCase &c) { c.len_q = 1; }},
    {"few_keys", [](AttentionCase &c) { c.len_k = 3; }},
    {"no_keys", [](AttentionCase &c) { c.len_k = 0; }},
    {"no_rows", [](AttentionCase &c) { c.len_q = 0; }},
    {"no_dimension_without_lse", [](AttentionCase &c) { c.head_dim = 0, c.lse = false; }},
    {"strides",
     [](AttentionCase &c) {
         c.q_layout.order = c.k_layout.order = c.o_layout.order = Order::kHeadsInside;
         c.v_layout.order = Order::kFortran;
         c.q_layout.reversed = 4, c.k_layout.pad = 3, c.v_layout.offset = 1, c.o_layout.pad = 2, c.o_layout.step = 2;
     }},
};

AttentionCase case_of(const Option &option, std::int32_t dtype) {
    AttentionCase c;
    c.dtype = c.out_dtype = dtype;
    c.bias_dtype = dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    c.len_q = 21;
    c.len_k = 26;
    c.heads_q = 4;
    c.heads_kv = 2;
    c.head_dim = 8;
    c.head_dim_v = 5;
    c.seed = 7;
    option.set(c);
    return c;
}

constexpr std::int32_t kTypes[] = {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16};

class Methods : public testing::TestWithParam<int> {};

// Types take it in turn over layouts and methods, but in the long list.
TEST_P(Methods, EveryLayoutMethodAndOption) {
    const int ranks = GetParam();
    std::map<std::pair<std::size_t, std::int32_t>, ShardedCase> cases;
    for (const std::string &backend : backends()) {
        std::vector<Job> jobs;
        for (std::size_t at = 0; at < std::size(kOptions); at += number("ATTILE_DISTRIBUTED_STEP", 1)) {
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
                        const auto one = cases.try_emplace({at, kTypes[type]}, case_of(kOptions[at], kTypes[type])).first;
                        jobs.push_back({&one->second, run, {}, {}});
                    }
                }
            }
        }
        run_jobs(jobs);
        for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << describe(job.test_case->data().c);
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Methods, testing::Values(1, 2, 3, 4, 6, 8), [](const auto &given) { return std::to_string(given.param); });

TEST(Types, EachByEachMethod) {
    std::vector<ShardedCase> cases;
    for (const std::int32_t dtype : kTypes) {
        AttentionCase c = case_of({"", [](AttentionCase &x) { x.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, x.sinks = true; }}, dtype);
        for (const std::int32_t out : {dtype, std::int32_t{ATTILE_F32}}) {
            c.out_dtype = out;
            cases.emplace_back(c);
        }
    }
    for (const std::string &backend : backends()) {
        std::vector<Job> jobs;
        for (const ShardedCase &one : cases) {
            for (int method = ATTILE_METHOD_AUTO; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
                RunOfCase run;
                run.ranks = 3;
                run.backend = backend;
                run.layout = ATTILE_SHARDS_ZIGZAG;
                run.method = method;
                jobs.push_back({&one, run, {}, {}});
            }
        }
        run_jobs(jobs);
        for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << describe(job.test_case->data().c);
    }
}

// Threads, and callbacks with and without collectives, whatever the order in which messages arrive.
TEST(Transports, GiveTheSameBits) {
    std::vector<ShardedCase> cases;
    for (std::size_t at = 0; at < std::size(kOptions); at += number("ATTILE_DISTRIBUTED_STEP", 1))
        cases.emplace_back(case_of(kOptions[at], ATTILE_F32));
    const auto run_all = [&](Mail *mail) {
        std::vector<Job> jobs;
        for (const ShardedCase &one : cases) {
            for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
                RunOfCase run;
                run.ranks = 4;
                run.backend = backends().back();
                run.layout = ATTILE_SHARDS_ZIGZAG;
                run.method = method;
                run.mail = mail;
                jobs.push_back({&one, run, {}, {}});
            }
        }
        run_jobs(jobs);
        return jobs;
    };
    const std::vector<Job> first = run_all(nullptr);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        MailOptions options;
        options.seed = seed;
        options.collectives = seed % 2 == 0;
        options.give_up = seed != 3;
        Mail mail(4, options);
        const std::vector<Job> again = run_all(&mail);
        for (std::size_t i = 0; i < first.size(); ++i) {
            EXPECT_EQ(again[i].wrong, "") << describe(again[i].run);
            EXPECT_EQ(again[i].bytes, first[i].bytes) << "other bits: " << describe(again[i].run);
        }
    }
}

TEST(Random, Problems) {
    const std::uint64_t problems = number("ATTILE_DISTRIBUTED_PROBLEMS", (full_list() ? 200 : 16) / number("ATTILE_DISTRIBUTED_STEP", 1));
    for (std::uint64_t seed = 1; seed <= problems; ++seed) {
        AttentionCase c = random_attention(seed);
        c.packed_q = c.packed_k = false;
        c.page_size = 0;
        c.len_q = c.len_q % 97;
        c.len_k = c.len_k % 130;
        // A shard of one row or key has no stride; the data of the case are those of one.
        for (Layout *layout : {&c.q_layout, &c.k_layout, &c.v_layout, &c.bias_layout, &c.allowed_layout}) layout->broadcast = 0;
        const ShardedCase one(c);
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
                run.cuts_q = cut(c.len_q);
                run.cuts_k = cut(c.len_k);
            }
            MailOptions options;
            options.seed = seed;
            options.collectives = random.chance(0.5);
            options.give_up = random.chance(0.5);
            Mail mail(run.ranks, options);
            if (random.chance(0.4)) run.mail = &mail;
            std::vector<Job> jobs(2, {&one, run, {}, {}});
            run_jobs(jobs);
            EXPECT_EQ(jobs[0].wrong, "") << "seed " << seed << ": " << describe(run) << ": " << describe(c);
            EXPECT_EQ(jobs[1].wrong, "") << "seed " << seed << ", a second time";
            EXPECT_EQ(jobs[0].bytes, jobs[1].bytes) << "seed " << seed << ": other bits in a second run";
        }
    }
}

// What a mask hides is not sent: under a causal mask nothing goes to ranks whose rows come before all keys of the others.
TEST(Traffic, LeavesHiddenChunksAway) {
    const ShardedCase one(
        case_of({"", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT, c.len_q = c.len_k = 64; }}, ATTILE_F32));
    const std::int64_t chunk = 2 * 2 * 16 * (8 + 5) * 4;  // batch, heads, keys of a rank, columns, bytes
    for (const int method : {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER}) {
        Mail mail(4, {});
        RunOfCase run;
        run.ranks = 4;
        run.method = method;
        run.mail = &mail;
        ASSERT_EQ(run_case(one, run), "");
        const std::int64_t talk = mail.bytes(1, 0);  // rank 0 sees no key of rank 1
        EXPECT_LT(talk, chunk);
        const auto sent = [&](int from, int to) { return mail.bytes(from, to) - talk; };
        EXPECT_EQ(sent(3, 0), 0);
        EXPECT_EQ(sent(0, 1), chunk);
        EXPECT_EQ(sent(0, 3), method == ATTILE_METHOD_RING ? 0 : chunk);
        EXPECT_EQ(sent(2, 3), method == ATTILE_METHOD_RING ? 3 * chunk : chunk);
    }
}

}  // namespace
}  // namespace attile::test

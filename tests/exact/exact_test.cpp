// SPDX-License-Identifier: Apache-2.0
// Bits of exact products and of exact sums of rows: those of a committed table, and those of the reference.
//
// ATTILE_TEST_BACKEND names one backend to test. ATTILE_EXACT_TABLE=FILE writes the table anew, by the reference: after a change of the
// problems, never after one of results. ATTILE_EXACT_SEEDS=N draws more random problems. ATTILE_EXACT_MOST=N leaves problems of more
// multiply-adds out of the table's, and says how many.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "exact_problems.h"
#include "exact_rows.h"
#include "sha256.h"
#ifdef HAS_CPU
#include "cpu_contexts.h"
#endif

namespace attile::test {
namespace {

struct Close {
    void operator()(attile_context *context) const { attile_context_destroy(context); }
};
using Handle = std::unique_ptr<attile_context, Close>;

Handle open(const char *backend) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend;
    attile_context *context = nullptr;
    EXPECT_EQ(attile_context_create(&options, &context), ATTILE_OK) << backend;
    return Handle(context);
}

std::map<std::string, std::string> table() {
    std::map<std::string, std::string> result;
    std::ifstream file(EXACT_HASHES);
    for (std::string name, hash; file >> name >> hash;) result[name] = hash;
    return result;
}

std::string variable(const char *name) {
    const char *value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// Every backend, instruction set and number of threads that is here, by name.
template <class Body>
void for_contexts(Body &&body) {
    const std::string only = variable("ATTILE_TEST_BACKEND");
    if (only.empty() || only == "reference") body("reference", open("reference").get());
#ifdef HAS_CPU
    if (only.empty() || only == "cpu") {
        for (const std::string &target : targets_here())
            for (const int threads : {1, 2}) body(target + " by " + std::to_string(threads), open_cpu(target, threads).get());
    }
#endif
    if (!only.empty() && only != "reference" && only != "cpu") body(only, open(only.c_str()).get());
}

// The first element that two results differ in.
std::string difference(const ExactProblem &p, const std::vector<unsigned char> &got, const std::vector<unsigned char> &want) {
    if (got.size() != want.size()) return "another size";
    const size_t size = p.f64 ? 8 : 4;
    size_t wrong = 0, first = 0;
    for (size_t at = 0; at < got.size(); at += size) {
        if (std::memcmp(got.data() + at, want.data() + at, size) == 0) continue;
        if (wrong++ == 0) first = at;
    }
    const auto text = [&](const std::vector<unsigned char> &bytes) {
        char words[80];
        double x = 0;
        float narrow = 0;
        std::memcpy(&x, bytes.data() + first, p.f64 ? 8 : 0);
        std::memcpy(&narrow, bytes.data() + first, 4);
        std::snprintf(words, sizeof words, "%a", p.f64 ? x : static_cast<double>(narrow));
        return std::string(words);
    };
    return wrong == 0 ? ""
                      : std::to_string(wrong) + " elements differ, first number " + std::to_string(first / size) + ": " + text(got) +
                            " for " + text(want);
}

TEST(Exact, HashesAreThoseOfTheTable) {
    const std::string to = variable("ATTILE_EXACT_TABLE");
    if (!to.empty()) {
        std::ofstream file(to);
        const Handle reference = open("reference");
        std::string why;
        for (const ExactProblem &problem : exact_problems())
            file << problem.name << ' ' << sha256(run_exact(reference.get(), problem, &why)) << '\n';
        for (const ExactRows &problem : exact_rows())
            file << problem.name << ' ' << sha256(run_exact(reference.get(), problem, &why)) << '\n';
        GTEST_SKIP() << "the table is written";
    }
    const std::map<std::string, std::string> wanted = table();
    ASSERT_EQ(wanted.size(), exact_problems().size() + exact_rows().size());
    const std::string text = variable("ATTILE_EXACT_MOST");
    const double most = text.empty() ? HUGE_VAL : std::strtod(text.c_str(), nullptr);
    for_contexts([&](const std::string &name, attile_context *context) {
        const auto judge = [&](const auto &problem) {
            std::string why;
            const std::vector<unsigned char> got = run_exact(context, problem, &why);
            ASSERT_EQ(why, "") << name;
            const auto found = wanted.find(problem.name);
            ASSERT_NE(found, wanted.end()) << problem.name;
            EXPECT_EQ(sha256(got), found->second) << name << ": " << problem.name;
        };
        for (const ExactRows &problem : exact_rows()) judge(problem);
        int left_out = 0;
        for (const ExactProblem &problem : exact_problems()) {
            if (static_cast<double>(problem.batch * problem.m * problem.n) * static_cast<double>(problem.k) > most) {
                ++left_out;
                continue;
            }
            judge(problem);
        }
        if (left_out > 0) std::printf("%s: %d problems of more than %s multiply-adds left out\n", name.c_str(), left_out, text.c_str());
    });
}

uint64_t seeds_wanted() {
    const std::string seeds = variable("ATTILE_EXACT_SEEDS");
    return seeds.empty() ? 100 : std::strtoull(seeds.c_str(), nullptr, 10);
}

TEST(Exact, RandomProblemsHaveTheReferencesBits) {
    const uint64_t count = seeds_wanted();
    const Handle reference = open("reference");
    std::vector<std::vector<unsigned char>> wanted;
    for (uint64_t seed = 1; seed <= count; ++seed) {
        std::string why;
        wanted.push_back(run_exact(reference.get(), random_exact_problem(seed), &why));
        ASSERT_EQ(why, "");
    }
    for_contexts([&](const std::string &name, attile_context *context) {
        if (name == "reference") return;
        for (uint64_t seed = 1; seed <= count; ++seed) {
            const ExactProblem problem = random_exact_problem(seed);
            const std::vector<unsigned char> &want = wanted[seed - 1];
            std::string why;
            const std::vector<unsigned char> got = run_exact(context, problem, &why);
            ASSERT_EQ(why, "") << name;
            EXPECT_EQ(difference(problem, got, want), "") << name << ": " << problem.name;
        }
    });
}

TEST(Exact, RandomRowsHaveTheReferencesBits) {
    const Handle reference = open("reference");
    for_contexts([&](const std::string &name, attile_context *context) {
        for (uint64_t seed = 1; seed <= 2 * seeds_wanted() && name != "reference"; ++seed) {
            const ExactRows problem = random_exact_rows(seed);
            std::string why;
            const std::vector<unsigned char> want = run_exact(reference.get(), problem, &why), got = run_exact(context, problem, &why);
            ASSERT_EQ(why, "") << name;
            EXPECT_TRUE(got == want) << name << ": " << problem.name;
        }
    });
}

bool is_device(attile_context *context) {
    attile_context_info info{};
    info.struct_size = sizeof info;
    EXPECT_EQ(attile_context_get_info(context, &info), ATTILE_OK);
    return info.device_type != ATTILE_DEVICE_CPU;
}

// In another mode the sums stay exact, and what follows them is of that mode. Devices have a mode of their own: of these the sums alone.
TEST(Exact, RoundingOfTheCallerIsThatOfTheReference) {
    const Handle reference = open("reference");
    for_contexts([&](const std::string &name, attile_context *context) {
        for (uint64_t seed = 1; seed <= 30; ++seed) {
            ExactProblem problem = random_exact_problem(seed);
            if (is_device(context)) {
                problem.f64 = true;
                problem.alpha = 1;
                problem.beta = 0;
                problem.bias_axis = ATTILE_BIAS_NONE;
            }
            std::string why;
            std::fesetround(FE_UPWARD);
            const std::vector<unsigned char> want = run_exact(reference.get(), problem, &why), got = run_exact(context, problem, &why);
            std::fesetround(FE_TONEAREST);
            EXPECT_EQ(difference(problem, got, want), "") << name << ": " << problem.name;
        }
    });
}

TEST(Exact, HashesAreThoseOfSha256) {
    EXPECT_EQ(sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256({'a', 'b', 'c'}), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256(std::vector<unsigned char>(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace attile::test

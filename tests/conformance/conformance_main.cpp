// SPDX-License-Identifier: Apache-2.0
// The whole case list as GoogleTest tests, "<backend>_<placement>.<case id>".
//
// Environment: ATTILE_TEST_BACKEND, names of backends; ATTILE_TEST_TIER=quick|full (quick); ATTILE_TEST_SEEDS=first-last adds random cases
// of those seeds for every operation; ATTILE_TEST_RERUNS=n runs one case in n again instead of each.
//
// Of the backend "reference" one case of attention and its gradients in eight runs, unless ATTILE_LONG=1. Its loops are what every other
// backend is compared with, case by case; here it meets itself in float64, which tells how it reads and writes the types.
// coverage.reference has each option of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "conformance_backends.h"
#include "runner.h"

namespace attile::test {
namespace {

constexpr std::uint32_t kStepOfReference = 8;

// Shared by every test; closed before main returns.
struct Session {
    ContextHandle reference;
    std::vector<Backend> backends;
    KnownAnswers known{std::size_t{512} << 20};
    int rerun_each = 1;
};

class ConformanceTest : public testing::Test {
  public:
    ConformanceTest(attile_context *context, Session &session, const Case &test_case, const RunOptions &options)
        : context_(context), session_(session), case_(test_case), options_(options) {}

    void TestBody() override {
        Report report;
        run_case(context_, session_.reference.get(), case_, options_, report);
        if (report.outcome == Outcome::kUnsupported) GTEST_SKIP() << report.message;
        RecordProperty("worst", std::to_string(report.worst));
        EXPECT_TRUE(report.outcome == Outcome::kPassed)
            << report.message << "\n  case:   " << report.description << "\n  kernel: " << report.kernel
            << "\n  again:  attile_conformance --gtest_filter='*." << report.id << "'";
    }

  private:
    attile_context *context_;
    Session &session_;
    const Case case_;
    const RunOptions options_;
};

bool runs_long() {
    const char *text = std::getenv("ATTILE_LONG");
    return text != nullptr && std::string_view(text) == "1";
}

// One in `step` at random, the same ones each time: counted off, they would fall in step with the loops that made the list.
bool is_one_of(std::size_t number, std::uint32_t step) { return (static_cast<std::uint32_t>(number) * 2654435769u >> 16) % step == 0; }

void add_tests(Session &session, const Backend &backend, const std::vector<Case> &cases, Placement placement) {
    // The reference has one way through each loop.
    const bool is_reference = backend.name == "reference";
    const int each = is_reference ? std::max(session.rerun_each, 7) : session.rerun_each;
    const std::uint32_t step = is_reference && !runs_long() ? kStepOfReference : 1;
    int number = 0;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        const Case &test_case = cases[i];
        const std::string operation = operation_of(test_case.id);
        if ((operation == "attention" || operation == "attention_backward") && !is_one_of(i, step)) continue;
        const RunOptions options = {.placement = placement, .rerun = number++ % each == 0, .known = &session.known};
        testing::RegisterTest((backend.name + "_" + placement_name(placement)).c_str(), test_case.id.c_str(), nullptr, nullptr, __FILE__,
                              __LINE__, [context = backend.context.get(), &session, test_case, options] {
                                  return new ConformanceTest(context, session, test_case, options);
                              });
    }
}

void add_seeds(std::vector<Case> &cases) {
    unsigned long long first = 0, last = 0;
    const char *range = std::getenv("ATTILE_TEST_SEEDS");
    if (range == nullptr || std::sscanf(range, "%llu-%llu", &first, &last) != 2) return;
    for (const char *operation :
         {"gemm", "gemm_grouped", "attention", "attention_backward", "attention_merge", "attention_merge_backward", "reduce", "softmax"})
        for (unsigned long long seed = first; seed <= last; ++seed)
            cases.push_back(*find_case(std::string(operation) + ".random." + std::to_string(seed)));
}

}  // namespace
}  // namespace attile::test

int main(int argc, char **argv) {
    using namespace attile::test;
    testing::InitGoogleTest(&argc, argv);
    try {
        Session session;
        session.reference = open_backend("reference");
        session.backends = backends_under_test();
        session.rerun_each = rerun_each();
        const char *tier_name = std::getenv("ATTILE_TEST_TIER");
        const Tier tier = tier_name != nullptr && std::string_view(tier_name) == "full" ? Tier::kFull : Tier::kQuick;
        std::vector<Case> cases = list_cases(tier);
        add_seeds(cases);
        std::vector<Case> few;
        for (std::size_t i = 0; i < cases.size(); i += 16) few.push_back(cases[i]);
        for (const Backend &backend : session.backends) {
            // Everything in ordinary memory, and in device memory where that is another; the kinds between differ only in how pointers are
            // told apart.
            attile_context_info info;
            attile_context_info_init(&info, sizeof info);
            attile_context_get_info(backend.context.get(), &info);
            add_tests(session, backend, cases, Placement::kHost);
            add_tests(session, backend, info.device_type == ATTILE_DEVICE_CPU ? few : cases, Placement::kDevice);
            add_tests(session, backend, few, Placement::kPinned);
            add_tests(session, backend, few, Placement::kManaged);
        }
        if (!runs_long())
            for (const Backend &backend : session.backends)
                if (backend.name == "reference")
                    std::printf("reference: one case of attention and its gradients in %u; ATTILE_LONG=1 runs all\n", kStepOfReference);
        return RUN_ALL_TESTS();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "conformance: %s\n", error.what());
        return 1;
    }
}

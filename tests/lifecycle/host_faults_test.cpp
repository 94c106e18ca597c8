// SPDX-License-Identifier: Apache-2.0
// Every allocation, mapping, thread, operation on a file and call of a backend fails in turn: a status with a sentence, no output touched,
// nothing lost, and the next call works.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "fault_injection.h"
#include "moments.h"

namespace attile_test {
namespace {

constexpr int64_t kMostFaults = 2000;

struct Kind {
    const char *name;
    uint32_t bits;
    bool lasting;  // from the n-th on all fail, not it alone
};
void PrintTo(const Kind &kind, std::ostream *out) { *out << kind.name; }

using Parameter = std::tuple<const char *, Kind>;
class HostFaults : public ::testing::TestWithParam<Parameter> {
  protected:
    void SetUp() override {
        backend = std::get<0>(GetParam());
        kind = std::get<1>(GetParam());
        if (std::string(backend) == "cpu" && access(ATTILE_PLUGINS "/libattile_backend_cpu.so", F_OK) != 0)
            GTEST_SKIP() << "no cpu backend";
    }

    void arm(int64_t n) const { attile_fault_arm(kind.bits, n, kind.lasting ? INT64_MAX : n); }

    const char *backend = nullptr;
    Kind kind = {};
};

int32_t try_create(const char *backend, attile_context **context) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend;
    options.threads = 3;
    return attile_context_create(&options, context);
}

bool only_gemm(const char *backend) { return std::string(backend) == "faulty"; }

void use_some(attile_context *context, const char *backend) {
    if (!only_gemm(backend)) return use(context);
    CallArguments call(Operation::kGemm);
    expect(call.run(context) == ATTILE_OK, error());
}

void expect_failure(int32_t status) {
    EXPECT_STRNE(attile_status_name(status), "ATTILE_ERROR_UNKNOWN");
    EXPECT_NE(error(), "");
}

// The first context of a process, where all is still to be loaded: each attempt in a process of its own.
TEST_P(HostFaults, OfTheFirstContext) {
    int64_t n = 1;
    for (; n < kMostFaults; ++n) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            alarm(60);
            expect(attile_add_backend_directory(FAKES) == ATTILE_OK, error());
            attile_context *context = nullptr;
            arm(n);
            const int32_t status = try_create(backend, &context);
            const int64_t seen = attile_fault_disarm();
            if (status != ATTILE_OK) {
                expect(context == nullptr, "a context of a failed call");
                expect(std::strcmp(attile_status_name(status), "ATTILE_ERROR_UNKNOWN") != 0 && !error().empty(), "no sentence");
                expect(try_create(backend, &context) == ATTILE_OK, "the next call: " + error());
            }
            use_some(context, backend);
            attile_context_destroy(context);
            _exit(seen < n ? 42 : 0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFEXITED(status)) << "call " << n << ": signal " << WTERMSIG(status);
        if (WEXITSTATUS(status) == 42) break;
        ASSERT_EQ(WEXITSTATUS(status), 0) << "call " << n;
    }
    EXPECT_LT(n, kMostFaults);
    RecordProperty("calls", static_cast<int>(n - 1));
}

// One operation: arguments that are made anew, the call, and whether its outputs are as at first.
struct Attempt {
    std::function<int32_t()> run;
    std::function<bool()> untouched;
    std::function<std::vector<unsigned char>()> result;
};

Attempt small_call(attile_context *context, Operation operation) {
    auto call = std::make_shared<CallArguments>(operation);
    auto before = std::make_shared<std::vector<unsigned char>>(call->memory());
    // The tensors begin at an aligned address somewhere in the memory, with zeros around.
    const auto tensors = [=] {
        const std::vector<unsigned char> &all = call->memory();
        const auto is_set = [](unsigned char byte) { return byte != 0; };
        return std::vector<unsigned char>(std::find_if(all.begin(), all.end(), is_set),
                                          std::find_if(all.rbegin(), all.rend(), is_set).base());
    };
    return {[=] { return call->run(context); }, [=] { return call->memory() == *before; }, tensors};
}

// Large enough for threads and a workspace.
Attempt large_product(attile_context *context) {
    constexpr int kN = 300;
    auto a = std::make_shared<std::vector<float>>(kN * kN, 0.5F), c = std::make_shared<std::vector<float>>(kN * kN, NAN);
    const auto bytes = [=] {
        std::vector<unsigned char> all(c->size() * sizeof(float));
        std::memcpy(all.data(), c->data(), all.size());
        return all;
    };
    const std::vector<unsigned char> before = bytes();
    return {[=] {
                return attile_sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_TRANS, kN, kN, kN, 1, a->data(), kN, a->data(), kN,
                                    0, c->data(), kN);
            },
            [=] { return bytes() == before; }, bytes};
}

Attempt housekeeping(attile_context *context) {
    return {[=] {
                void *memory = nullptr, *stream = nullptr;
                int32_t kind = 0, status = attile_alloc(context, ATTILE_MEMORY_DEVICE, 1000, &memory);
                const auto step = [&](int32_t next) {
                    if (status == ATTILE_OK) status = next;
                };
                if (status == ATTILE_OK) step(attile_memory_kind(context, memory, &kind));
                if (status == ATTILE_OK) step(attile_copy(context, memory, &kind, sizeof kind, nullptr));
                if (status == ATTILE_OK) step(attile_prefetch(context, memory, 8, ATTILE_MEMORY_DEVICE, nullptr));
                if (status == ATTILE_OK) step(attile_stream_create(context, &stream));
                if (status == ATTILE_OK) step(attile_synchronize(context, stream));
                attile_context_info info;
                attile_context_info_init(&info, sizeof info);
                if (status == ATTILE_OK) step(attile_context_get_info(context, &info));
                const int32_t ended = attile_stream_destroy(context, stream), freed = attile_free(context, memory);
                step(ended);
                step(freed);
                return status;
            },
            [] { return true; }, [] { return std::vector<unsigned char>(); }};
}

using Make = std::function<Attempt(attile_context *)>;

std::vector<Make> attempts(const char *backend) {
    std::vector<Make> list = {housekeeping};
    if (only_gemm(backend)) {
        list.push_back([](attile_context *context) { return small_call(context, Operation::kGemm); });
        return list;
    }
    for (const Operation operation : kOperations) list.push_back([=](attile_context *context) { return small_call(context, operation); });
    if (std::string(backend) == "cpu") list.push_back(large_product);
    return list;
}

// Until the operation runs without meeting a fault. Returns how many were met.
int64_t fail_in_turn(const std::function<void(int64_t)> &arm, attile_context *context, const Make &make) {
    const Attempt clean = make(context);
    EXPECT_EQ(clean.run(), ATTILE_OK) << error();
    const std::vector<unsigned char> expected = clean.result();
    for (int64_t n = 1; n < kMostFaults; ++n) {
        const Attempt attempt = make(context);
        arm(n);
        const int32_t status = attempt.run();
        const int64_t seen = attile_fault_disarm();
        if (status == ATTILE_OK) {
            EXPECT_TRUE(attempt.result() == expected) << "call " << n;
        } else {
            expect_failure(status);
            EXPECT_TRUE(attempt.untouched()) << "call " << n << ": " << error();
            const Attempt next = make(context);
            EXPECT_EQ(next.run(), ATTILE_OK) << "call " << n << ": " << error();
            EXPECT_TRUE(next.result() == expected) << "call " << n;
        }
        if (seen < n || ::testing::Test::HasFailure()) return n - 1;
    }
    ADD_FAILURE() << "no end of faults";
    return kMostFaults;
}

TEST_P(HostFaults, OfEveryOperation) {
    ASSERT_EQ(attile_add_backend_directory(FAKES), ATTILE_OK);
    int64_t blocks = 0, met = 0;
    // The first round makes what is made once: tables, threads, a thread's sentences.
    for (int round = 0; round < 3; ++round) {
        if (round > 0) blocks = attile_fault_blocks();
        attile_context *context = nullptr;
        ASSERT_EQ(try_create(backend, &context), ATTILE_OK) << error();
        for (const Make &make : attempts(backend)) met += fail_in_turn([this](int64_t n) { arm(n); }, context, make);
        attile_context_destroy(context);
        const int64_t left = attile_fault_blocks();
        EXPECT_TRUE(round == 0 || left == blocks) << left - blocks << " blocks were lost";
    }
    RecordProperty("faults", static_cast<int>(met));
}

// Contexts of a process in which all is loaded; and closing one while everything fails.
TEST_P(HostFaults, OfLaterContexts) {
    ASSERT_EQ(attile_add_backend_directory(FAKES), ATTILE_OK);
    int64_t blocks = 0;
    for (int round = 0; round < 3; ++round) {
        if (round > 0) blocks = attile_fault_blocks();
        for (int64_t n = 1;; ++n) {
            ASSERT_LT(n, kMostFaults);
            attile_context *context = nullptr;
            arm(n);
            const int32_t status = try_create(backend, &context);
            const int64_t seen = attile_fault_disarm();
            if (status != ATTILE_OK) {
                expect_failure(status);
                EXPECT_EQ(context, nullptr);
                ASSERT_EQ(try_create(backend, &context), ATTILE_OK) << error();
            }
            use_some(context, backend);
            void *memory = nullptr, *stream = nullptr;
            EXPECT_EQ(attile_alloc(context, ATTILE_MEMORY_HOST, 100, &memory), ATTILE_OK) << error();
            EXPECT_EQ(attile_stream_create(context, &stream), ATTILE_OK) << error();
            arm(n);
            attile_context_destroy(context);
            attile_fault_disarm();
            if (seen < n || HasFailure()) break;
        }
        const int64_t left = attile_fault_blocks();
        EXPECT_TRUE(round == 0 || left == blocks) << left - blocks << " blocks were lost";
    }
}

const Kind kKinds[] = {{"memory", ATTILE_FAULT_MEMORY, false},        {"lasting_memory", ATTILE_FAULT_MEMORY, true},
                       {"mapping", ATTILE_FAULT_MAPPING, false},      {"thread", ATTILE_FAULT_THREAD, false},
                       {"lasting_thread", ATTILE_FAULT_THREAD, true}, {"file", ATTILE_FAULT_FILE, false},
                       {"lasting_file", ATTILE_FAULT_FILE, true},     {"call", ATTILE_FAULT_CALL, false},
                       {"lasting_call", ATTILE_FAULT_CALL, true}};

INSTANTIATE_TEST_SUITE_P(Host, HostFaults, ::testing::Combine(::testing::Values("reference", "cpu", "faulty"), ::testing::ValuesIn(kKinds)),
                         [](const ::testing::TestParamInfo<Parameter> &one) {
                             return std::string(std::get<0>(one.param)) + "_" + std::get<1>(one.param).name;
                         });

}  // namespace
}  // namespace attile_test

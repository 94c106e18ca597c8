// SPDX-License-Identifier: Apache-2.0
// Each call of a device's runtime fails in turn: in opening a context, and in every operation on host and on device arrays. What follows
// must be a status with its sentence, nothing written by what promises it, nothing left behind, and a next call that works.
//
// Runs on a stand-in for the runtime: ATTILE_TEST_BACKEND names the backend, ATTILE_TEST_STAND_IN the library that stands in
// (failing_calls.h). ATTILE_TEST_BLIND says that its kernels compute nothing, so that results are not compared.
#include <attile/attile.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cases.h"
#include "failing_calls.h"
#include "problem.h"

namespace attile::test {
namespace {

constexpr int kMostCalls = 4000;  // More than any operation here makes.

std::string last_error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}
std::string said(int32_t status) { return std::string(attile_status_name(status)) + ": " + last_error(); }

const char *kind_name(Failure kind) {
    return kind == Failure::kMemory ? "out of memory" : kind == Failure::kOnce ? "fails once" : "fails from here on";
}

class DeviceFailures : public testing::Test {
  protected:
    static int32_t open(attile_context **context) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = std::getenv("ATTILE_TEST_BACKEND");
        options.threads = 2;
        return attile_context_create(&options, context);
    }
    void SetUp() override {
        const char *const path = std::getenv("ATTILE_TEST_STAND_IN");
        ASSERT_TRUE(path != nullptr && std::getenv("ATTILE_TEST_BACKEND") != nullptr)
            << "run by ctest, which says what stands in for a device";
        void *const library = dlopen(path, RTLD_NOW);
        ASSERT_NE(library, nullptr) << dlerror();
        begin_ = reinterpret_cast<void (*)(int, int)>(dlsym(library, "attile_failures_begin"));
        failed_ = reinterpret_cast<const char *(*)()>(dlsym(library, "attile_failures_failed"));
        alive_ = reinterpret_cast<int (*)()>(dlsym(library, "attile_failures_alive"));
        ASSERT_TRUE(begin_ != nullptr && failed_ != nullptr && alive_ != nullptr) << path;
    }
    void TearDown() override {
        if (begin_ != nullptr) let_fail(0, Failure::kNone);
    }
    void let_fail(int nth, Failure kind) const { begin_(nth, static_cast<int>(kind)); }
    void stop() const { let_fail(0, Failure::kNone); }
    std::string failed() const { return failed_(); }
    int alive() const { return alive_(); }
    std::string at(int nth, Failure kind) const { return "call " + std::to_string(nth) + ", " + failed() + ", " + kind_name(kind); }

    // Calls `one` for n from 1 until there is no nth call in what it gives to its first argument, which fails there.
    void in_turn(Failure kind, const std::function<void(const std::function<int32_t(const std::function<int32_t()> &)> &, int nth)> &one) {
        for (int nth = 1; nth < kMostCalls && !HasFatalFailure(); ++nth) {
            bool came_to_it = false;
            one(
                [&](const std::function<int32_t()> &act) {
                    let_fail(nth, kind);
                    const int32_t status = act();
                    came_to_it = !failed().empty();
                    return status;
                },
                nth);
            stop();
            if (!came_to_it) return;
        }
        ADD_FAILURE() << "more than " << kMostCalls << " calls";
    }

    void (*begin_)(int, int) = nullptr;
    const char *(*failed_)() = nullptr;
    int (*alive_)() = nullptr;
};

// A status that a failing runtime may lead to, and a sentence with it.
void expect_explained(int32_t status, const std::string &where, bool is_opening) {
    const int block = status / 1000;
    EXPECT_TRUE(block == 4 || block == 5 || (is_opening && block == 3)) << where << ": " << said(status);
    EXPECT_GT(last_error().size(), 20u) << where;
}

TEST_F(DeviceFailures, OpeningAContext) {
    for (const Failure kind : {Failure::kOnce, Failure::kMemory, Failure::kLasting}) {
        const int before = alive();
        int refused = 0;
        in_turn(kind, [&](const auto &failing, int nth) {
            attile_context *context = nullptr;
            const int32_t status = failing([&] { return open(&context); });
            const std::string where = at(nth, kind);
            if (status != ATTILE_OK) {
                ++refused;
                EXPECT_EQ(context, nullptr) << where;
                expect_explained(status, where, true);
            }
            stop();
            if (context != nullptr && !failed().empty()) {
                // A call that the context can do without: it is then as good as any.
                attile_context_info info;
                attile_context_info_init(&info, sizeof info);
                EXPECT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << where << ": " << last_error();
                EXPECT_GT(info.compute_units, 0) << where;
                EXPECT_GT(info.memory_total, 0) << where;
                EXPECT_GT(std::string(info.device_name).size(), 0u) << where;
            }
            attile_context_destroy(context);
            EXPECT_EQ(alive(), before) << where << ": something is left of the context";
            ASSERT_EQ(open(&context), ATTILE_OK) << "after " << where << ": " << last_error();
            attile_context_destroy(context);
            EXPECT_EQ(alive(), before) << "after " << where;
        });
        EXPECT_GT(refused, 0) << kind_name(kind);
    }
}

TEST_F(DeviceFailures, ClosingAContext) {
    for (const Failure kind : {Failure::kOnce, Failure::kMemory, Failure::kLasting}) {
        const int before = alive();
        in_turn(kind, [&](const auto &failing, int nth) {
            attile_context *context = nullptr;
            ASSERT_EQ(open(&context), ATTILE_OK) << last_error();
            const std::vector<float> x(1000, 1.0f);
            float y = 0;
            attile_reduce_args args;
            attile_reduce_init(&args, sizeof args);
            const int64_t shape[1] = {1000}, one[1] = {1};
            attile_tensor_init(&args.x, const_cast<float *>(x.data()), ATTILE_F32, 1, shape);
            attile_tensor_init(&args.y, &y, ATTILE_F32, 1, one);
            args.op = ATTILE_REDUCE_SUM;
            ASSERT_EQ(attile_reduce(context, &args), ATTILE_OK) << last_error();  // Has streams, events and buffers from now on.
            failing([&] {
                attile_context_destroy(context);
                return ATTILE_OK;
            });
            EXPECT_EQ(alive(), before) << at(nth, kind);
        });
    }
}

TEST_F(DeviceFailures, MemoryAndStreams) {
    for (const Failure kind : {Failure::kOnce, Failure::kMemory, Failure::kLasting}) {
        for (const int32_t memory : {ATTILE_MEMORY_DEVICE, ATTILE_MEMORY_PINNED, ATTILE_MEMORY_MANAGED}) {
            const int before = alive();
            in_turn(kind, [&](const auto &failing, int nth) {
                attile_context *context = nullptr;
                ASSERT_EQ(open(&context), ATTILE_OK) << last_error();
                void *pointer = nullptr, *stream = nullptr;
                std::vector<char> there(256, 'x'), back(256, 0);
                int32_t is_of = 0;
                const int32_t status = failing([&] {
                    int32_t code = attile_alloc(context, memory, 256, &pointer);
                    if (code != ATTILE_OK) return code;
                    if (code == ATTILE_OK) code = attile_memory_kind(context, pointer, &is_of);
                    if (code == ATTILE_OK) code = attile_stream_create(context, &stream);
                    if (code == ATTILE_OK) code = attile_copy(context, pointer, there.data(), 256, stream);
                    if (code == ATTILE_OK) code = attile_prefetch(context, pointer, 256, ATTILE_MEMORY_HOST, stream);
                    if (code == ATTILE_OK) code = attile_copy(context, back.data(), pointer, 256, stream);
                    if (code == ATTILE_OK) code = attile_synchronize(context, stream);
                    return code;
                });
                const std::string where = at(nth, kind);
                if (status != ATTILE_OK) expect_explained(status, where, false);
                if (status == ATTILE_OK) {
                    EXPECT_EQ(there, back) << where;
                }
                if (status == ATTILE_OK) {
                    EXPECT_EQ(is_of, memory) << where;
                }
                stop();
                if (stream != nullptr) attile_stream_destroy(context, stream);
                if (pointer != nullptr) attile_free(context, pointer);
                attile_context_destroy(context);
                EXPECT_EQ(alive(), before) << where;
            });
        }
    }
}

std::vector<std::vector<std::byte>> bytes_of(const Call &call) {
    std::vector<std::vector<std::byte>> bytes;
    for (const Call::Output &out : call.outputs()) bytes.push_back(out.tensor->element_bytes_in_order());
    return bytes;
}

struct Moment {
    const char *id;
    Placement placement;
};
void PrintTo(const Moment &moment, std::ostream *out) { *out << moment.id << " in " << placement_name(moment.placement); }

class DeviceFailuresOf : public DeviceFailures, public testing::WithParamInterface<Moment> {
  protected:
    void of(Failure kind);
};

void DeviceFailuresOf::of(Failure kind) {
    const std::optional<Case> found = find_case(GetParam().id);
    ASSERT_TRUE(found.has_value());
    const std::unique_ptr<Problem> problem = make_problem(*found);
    const bool is_blind = std::getenv("ATTILE_TEST_BLIND") != nullptr;
    std::vector<std::vector<std::byte>> right;  // The first result of a call that nothing went wrong with.
    const int before = alive();
    in_turn(kind, [&](const auto &failing, int nth) {
        attile_context *context = nullptr;
        ASSERT_EQ(open(&context), ATTILE_OK) << last_error();
        {
            std::unique_ptr<Call> call = problem->bind(context, GetParam().placement, false);
            call->fetch();
            const std::vector<std::vector<std::byte>> untouched = bytes_of(*call);
            const int32_t status = failing([&] {
                const int32_t code = call->run();
                return code == ATTILE_OK ? attile_synchronize(context, nullptr) : code;
            });
            const std::string where = at(nth, kind);
            stop();
            if (status != ATTILE_OK) expect_explained(status, where, false);
            const bool is_over = status == ATTILE_ERROR_DEVICE_FAULT && kind == Failure::kLasting;
            if (is_over) {
                // It stays with the context, in words.
                EXPECT_EQ(call->run(), ATTILE_ERROR_DEVICE_FAULT) << where;
                EXPECT_NE(last_error().find("earlier"), std::string::npos) << where << ": " << last_error();
            } else {
                call->fetch();
                EXPECT_EQ(call->damage(), "") << where;
                if (status / 1000 == 4) {
                    EXPECT_EQ(bytes_of(*call), untouched) << where << " wrote, and gave " << attile_status_name(status);
                }
                if (status == ATTILE_OK && !is_blind) {
                    if (right.empty()) right = bytes_of(*call);
                    EXPECT_EQ(bytes_of(*call), right) << where << " led to another result";
                }
                call->reset();
                ASSERT_EQ(call->run(), ATTILE_OK) << "after " << where << ": " << last_error();
                ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << "after " << where << ": " << last_error();
                call->fetch();
                EXPECT_EQ(call->damage(), "") << "after " << where;
                if (right.empty()) right = bytes_of(*call);
                if (!is_blind) {
                    EXPECT_EQ(bytes_of(*call), right) << "after " << where;
                }
            }
        }
        attile_context_destroy(context);
        EXPECT_EQ(alive(), before) << "something is left after call " << nth << ", " << kind_name(kind);
    });
}

TEST_P(DeviceFailuresOf, NoMemory) { of(Failure::kMemory); }
TEST_P(DeviceFailuresOf, Once) { of(Failure::kOnce); }
TEST_P(DeviceFailuresOf, Lasting) { of(Failure::kLasting); }

// Every operation; products whole and with their depth cut, with C in place and with an epilogue; attention by tiles, by few rows in parts,
// packed and paged; gradients in one launch and in several; what takes a workspace and what does not.
constexpr const char *kIds[] = {"gemm.epilogue_gelu_bias_rows.f32",
                                "gemm.1x1x1025.f32",
                                "gemm.c_is_d.f32",
                                "gemm.64x64x64.f16",
                                "attention.causal_bottom_right.f32",
                                "attention.len_1_1025.f32",
                                "attention.packed_with_everything.f32",
                                "attention.paged_decode.f16_f32",
                                "attention_backward.plain.f32",
                                "attention_backward.packed_with_everything.f32",
                                "attention_merge.two_parts.f32",
                                "attention_merge.over_the_first.f32",
                                "reduce.sum_2x1x4097_axis3.f32",
                                "reduce.sum_33x5_axis0.f32",
                                "softmax.2x1x4097_axis3.f32",
                                "softmax.in_place_axis1.f32"};
std::vector<Moment> moments() {
    std::vector<Moment> all;
    for (const char *id : kIds)
        for (const Placement placement : {Placement::kHost, Placement::kPinned, Placement::kDevice}) all.push_back({id, placement});
    return all;
}
INSTANTIATE_TEST_SUITE_P(All, DeviceFailuresOf, testing::ValuesIn(moments()), [](const auto &test) {
    std::string name = std::string(test.param.id) + "_" + placement_name(test.param.placement);
    for (char &letter : name)
        if (letter == '.') letter = '_';
    return name;
});

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Any number of threads may call at once, on one context or on many: right results, each thread its own error, nothing freed twice.
#include <attile/attile.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "barrier.h"

namespace {

constexpr int kThreads = 8;

// Runs `body(thread)` on all threads, which start together.
void in_parallel(const std::function<void(int)> &body) {
    attile::test::Barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            start.arrive_and_wait();
            body(t);
        });
    }
    for (std::thread &thread : threads) thread.join();
}

std::string last_error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}

std::string report() {
    std::string text(static_cast<size_t>(attile_backend_report(nullptr, 0)) + 4096, '\0');
    attile_backend_report(text.data(), static_cast<int64_t>(text.size()));
    return text.c_str();
}

bool multiply(attile_context *context, int n, float value) {
    std::vector<float> a(static_cast<size_t>(n) * n, value), b(a.size(), 1.0F), c(a.size(), NAN);
    const int32_t status = attile_sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, n, n, n, 1.0F, a.data(), n, b.data(),
                                        n, 0.0F, c.data(), n);
    if (status != ATTILE_OK) return false;
    for (const float x : c) {
        if (!(x == value * static_cast<float>(n))) return false;
    }
    return true;
}

bool attend(attile_context *context, int64_t keys, float value) {
    const int64_t head_dim = 8;
    std::vector<float> q(8, 1.0F), k(static_cast<size_t>(keys * head_dim), 0.5F), v(k.size(), value), o(8, NAN);
    const int64_t one[4] = {1, 1, 1, head_dim}, many[4] = {1, 1, keys, head_dim};
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q.data(), ATTILE_F32, 4, one);
    attile_tensor_init(&args.k, k.data(), ATTILE_F32, 4, many);
    attile_tensor_init(&args.v, v.data(), ATTILE_F32, 4, many);
    attile_tensor_init(&args.o, o.data(), ATTILE_F32, 4, one);
    if (attile_attention(context, &args) != ATTILE_OK) return false;
    for (const float x : o) {
        if (!(std::abs(x - value) <= 1e-5F)) return false;
    }
    return true;
}

// The barrier itself: nobody goes on before all have come, and everybody does then.
TEST(Barrier, LetsAllGoOnTogether) {
    constexpr int kRounds = 1000;
    attile::test::Barrier barrier(kThreads);
    std::atomic<int> arrived{0}, wrong{0};
    in_parallel([&](int) {
        for (int round = 1; round <= kRounds; ++round) {
            ++arrived;
            barrier.arrive_and_wait();
            if (arrived != kThreads * round) ++wrong;
            barrier.arrive_and_wait();
        }
    });
    EXPECT_EQ(wrong, 0);
}

TEST(Threads, FirstContextsAreMadeAtOnce) {
    in_parallel([](int) {
        attile_context *context = nullptr;
        ASSERT_EQ(attile_context_create(nullptr, &context), ATTILE_OK) << last_error();
        EXPECT_TRUE(multiply(context, 17, 1.0F));
        attile_context_destroy(context);
    });
}

TEST(Threads, CallsOnOneContext) {
    attile_context *context = nullptr;
    ASSERT_EQ(attile_context_create(nullptr, &context), ATTILE_OK) << last_error();
    in_parallel([&](int t) {
        for (int i = 0; i < 20; ++i) {
            EXPECT_TRUE(multiply(context, 3 + 7 * t + i, static_cast<float>(t + 1))) << last_error();
            EXPECT_TRUE(attend(context, 1 + 9 * t + i, static_cast<float>(t + 1))) << last_error();
            attile_context_info info;
            attile_context_info_init(&info, sizeof info);
            EXPECT_EQ(attile_context_get_info(context, &info), ATTILE_OK);
        }
    });
    attile_context_destroy(context);
}

TEST(Threads, ContextsComeAndGo) {
    in_parallel([](int t) {
        for (int i = 0; i < 30; ++i) {
            attile_context_options options;
            attile_context_options_init(&options, sizeof options);
            options.backend = (t + i) % 3 == 0 ? "nosuch" : (t + i) % 3 == 1 ? "reference" : nullptr;
            attile_context *context = nullptr;
            const int32_t status = attile_context_create(&options, &context);
            if (options.backend != nullptr && options.backend[0] == 'n') {
                EXPECT_EQ(status, ATTILE_ERROR_BACKEND_NOT_FOUND);
                continue;
            }
            ASSERT_EQ(status, ATTILE_OK) << last_error();
            EXPECT_TRUE(multiply(context, 5, 2.0F));
            void *left = nullptr;
            EXPECT_EQ(attile_alloc(context, ATTILE_MEMORY_DEVICE, 100, &left), ATTILE_OK);  // released with the context
            attile_context_destroy(context);
        }
    });
    EXPECT_NE(report().find("nosuch"), std::string::npos);
}

TEST(Threads, AllocationsAndStreams) {
    attile_context *context = nullptr;
    ASSERT_EQ(attile_context_create(nullptr, &context), ATTILE_OK) << last_error();
    in_parallel([&](int t) {
        std::vector<void *> held;
        for (int i = 0; i < 200; ++i) {
            void *memory = nullptr;
            ASSERT_EQ(attile_alloc(context, i % 4, 1 + 16 * t + i, &memory), ATTILE_OK) << last_error();
            held.push_back(memory);
            if (i % 3 == 0) {
                EXPECT_EQ(attile_free(context, held.back()), ATTILE_OK);
                held.pop_back();
            }
            void *stream = nullptr;
            ASSERT_EQ(attile_stream_create(context, &stream), ATTILE_OK) << last_error();
            EXPECT_EQ(attile_synchronize(context, stream), ATTILE_OK);
            EXPECT_EQ(attile_stream_destroy(context, stream), ATTILE_OK);
        }
        for (void *memory : held) EXPECT_EQ(attile_free(context, memory), ATTILE_OK);
    });
    attile_context_destroy(context);
}

// All threads free the same pointers: each is freed once, all the others are told so.
TEST(Threads, OnlyOneFreeSucceeds) {
    attile_context *context = nullptr;
    ASSERT_EQ(attile_context_create(nullptr, &context), ATTILE_OK) << last_error();
    std::vector<void *> shared(300, nullptr);
    for (void *&memory : shared) ASSERT_EQ(attile_alloc(context, ATTILE_MEMORY_DEVICE, 64, &memory), ATTILE_OK);
    std::atomic<int> freed{0}, refused{0};
    in_parallel([&](int) {
        for (void *memory : shared) {
            const int32_t status = attile_free(context, memory);
            if (status == ATTILE_OK) ++freed;
            if (status == ATTILE_ERROR_UNKNOWN_POINTER) ++refused;
        }
    });
    EXPECT_EQ(freed.load(), 300);
    EXPECT_EQ(refused.load(), 300 * (kThreads - 1));
    attile_context_destroy(context);
}

TEST(Threads, EachThreadHasItsOwnError) {
    in_parallel([](int t) {
        EXPECT_EQ(last_error(), "");
        for (int i = 0; i < 50; ++i) {
            const std::string name = "nosuch" + std::to_string(t);
            attile_context_options options;
            attile_context_options_init(&options, sizeof options);
            options.backend = name.c_str();
            attile_context *context = nullptr;
            EXPECT_EQ(attile_context_create(&options, &context), ATTILE_ERROR_BACKEND_NOT_FOUND);
            EXPECT_NE(last_error().find(name), std::string::npos);
        }
    });
}

TEST(Threads, LogReceiversChangeWhileLinesAreWritten) {
    std::atomic<int> lines{0};
    in_parallel([&](int t) {
        for (int i = 0; i < 100; ++i) {
            if (t == 0) {
                const auto count = [](void *user, int32_t, const char *) { ++*static_cast<std::atomic<int> *>(user); };
                EXPECT_EQ(attile_set_log(i % 2 == 0 ? +count : nullptr, &lines, i % 6), ATTILE_OK);
            }
            attile_context *context = nullptr;
            EXPECT_EQ(attile_context_create(nullptr, &context), ATTILE_OK);
            attile_context_destroy(context);
        }
    });
    EXPECT_EQ(attile_set_log(nullptr, nullptr, ATTILE_LOG_OFF), ATTILE_OK);
}

}  // namespace

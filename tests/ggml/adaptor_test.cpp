// SPDX-License-Identifier: Apache-2.0
// What test-backend-ops does not see of libggml-attile: nodes that it must refuse, calls that fail, and numbers of threads that change.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

namespace {

constexpr int kHeads = 4;

std::string &logged() {
    static std::string text;
    return text;
}

class Ggml : public testing::Test {
  protected:
    Ggml() {
        ggml_log_set([](ggml_log_level, const char *line, void *) { logged() += line; }, nullptr);
        ggml_backend_reg_t registry = ggml_backend_reg_by_name("Attile");
        if (registry == nullptr) registry = ggml_backend_load(LIBRARY);
        if (registry == nullptr || ggml_backend_reg_dev_count(registry) != 1) return;
        device = ggml_backend_reg_dev_get(registry, 0);
        backend = ggml_backend_dev_init(device, nullptr);
        set_threads =
            reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
        unknown = ggml_backend_reg_get_proc_address(registry, "no_such_function");
        logged().clear();
    }

    ~Ggml() override {
        ggml_backend_free(backend);
        ggml_free(context);
    }

    void SetUp() override { ASSERT_NE(backend, nullptr) << logged(); }

    ggml_tensor *tensor(ggml_type type, int64_t a, int64_t b, int64_t c = 1, int64_t d = 1) {
        return ggml_new_tensor_4d(context, type, a, b, c, d);
    }

    bool is_served(ggml_tensor *node) { return ggml_backend_dev_supports_op(device, node); }

    ggml_status compute(ggml_tensor *node) {
        ggml_cgraph *graph = ggml_new_graph(context);
        ggml_build_forward_expand(graph, node);
        return ggml_backend_graph_compute(backend, graph);
    }

    ggml_tensor *attention(ggml_type k, ggml_type v, ggml_tensor *mask, float scale) {
        return ggml_flash_attn_ext(context, tensor(GGML_TYPE_F32, 32, 5, kHeads, 2), tensor(k, 32, 16, 2, 2), tensor(v, 32, 16, 2, 2), mask,
                                   scale, 0, 0);
    }

    ggml_context *context = ggml_init({1 << 20, nullptr, true});
    ggml_backend_dev_t device = nullptr;
    ggml_backend_t backend = nullptr;
    ggml_backend_set_n_threads_t set_threads = nullptr;
    void *unknown = nullptr;
};

// Before the other tests: once is once in a process.
TEST_F(Ggml, SaysOnceWhyItRefuses) {
    ggml_tensor *mask = tensor(GGML_TYPE_F16, 16, 5, 2);
    ggml_tensor *x = tensor(GGML_TYPE_F32, 32, 3);
    ggml_tensor *refused[] = {attention(GGML_TYPE_F16, GGML_TYPE_F16, mask, 0.2f), attention(GGML_TYPE_F16, GGML_TYPE_F16, nullptr, 0),
                              attention(GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, nullptr, 0.2f),
                              ggml_mul_mat(context, tensor(GGML_TYPE_Q8_0, 32, 8), x)};
    const char *const lines[] = {
        "Attile: FLASH_ATTN_EXT 'node' of f32, f16, f16, f16 is left to another backend: attention: bias.shape",
        "Attile: FLASH_ATTN_EXT 'node' of f32, f16, f16 is left to another backend: an option is not served; ",
        "Attile: FLASH_ATTN_EXT 'node' of f32, q8_0, q8_0 is left to another backend: these types are not served; ",
        "Attile: MUL_MAT 'node' of q8_0, f32 is left to another backend: these types are not served; "};
    for (int i = 0; i < 4; ++i) {
        ggml_set_name(refused[i], "node");
        logged().clear();
        EXPECT_FALSE(is_served(refused[i]));
        EXPECT_EQ(logged().find(lines[i]), 0U) << logged();
        logged().clear();
        EXPECT_FALSE(is_served(refused[i]));
        EXPECT_EQ(logged(), "");
    }
    EXPECT_FALSE(is_served(ggml_add(context, x, x)));
    EXPECT_EQ(logged(), "");
}

TEST_F(Ggml, DescribesItself) {
    EXPECT_STREQ(ggml_backend_name(backend), "Attile");
    EXPECT_EQ(ggml_backend_dev_type(device), GGML_BACKEND_DEVICE_TYPE_ACCEL);
    const char *chosen = std::getenv("ATTILE_BACKEND");
    EXPECT_NE(std::string(ggml_backend_dev_description(device)).find(chosen != nullptr ? chosen : "cpu"), std::string::npos);
    EXPECT_TRUE(ggml_backend_buft_is_host(ggml_backend_dev_buffer_type(device)));
    EXPECT_EQ(ggml_backend_buft_get_device(ggml_backend_dev_buffer_type(device)), device);
    EXPECT_NE(set_threads, nullptr);
    EXPECT_EQ(unknown, nullptr);
}

TEST_F(Ggml, RefusesOtherOperationsAndTypes) {
    ggml_tensor *x = tensor(GGML_TYPE_F32, 32, 3);
    EXPECT_TRUE(is_served(ggml_mul_mat(context, tensor(GGML_TYPE_F16, 32, 8), x)));
    EXPECT_TRUE(is_served(ggml_transpose(context, x)));
    EXPECT_FALSE(is_served(ggml_add(context, x, x)));
    EXPECT_FALSE(is_served(ggml_mul_mat(context, tensor(GGML_TYPE_Q8_0, 32, 8), x)));
    EXPECT_FALSE(is_served(ggml_mul_mat(context, tensor(GGML_TYPE_F16, 32, 8), tensor(GGML_TYPE_BF16, 32, 3))));
    ggml_tensor *hinted = ggml_mul_mat(context, tensor(GGML_TYPE_F32, 32, 32), x);
    EXPECT_TRUE(is_served(hinted));
    ggml_mul_mat_set_hint(hinted, GGML_HINT_SRC0_IS_HADAMARD);
    EXPECT_FALSE(is_served(hinted));
    EXPECT_FALSE(is_served(ggml_mul_mat(context, tensor(GGML_TYPE_F32, 32, 0), x)));
}

TEST_F(Ggml, RefusesAttentionThatAttileDoesNotHave) {
    const auto mask = [&](int64_t heads, int64_t entries) { return tensor(GGML_TYPE_F16, 16, 5, heads, entries); };
    EXPECT_TRUE(is_served(attention(GGML_TYPE_F16, GGML_TYPE_F16, nullptr, 0.2f)));
    EXPECT_FALSE(is_served(attention(GGML_TYPE_F16, GGML_TYPE_F16, nullptr, 0)));  // Which Attile takes for the default.
    EXPECT_FALSE(is_served(attention(GGML_TYPE_F16, GGML_TYPE_F32, nullptr, 0.2f)));
    EXPECT_FALSE(is_served(attention(GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, nullptr, 0.2f)));
    for (const int64_t entries : {1, 2}) {
        EXPECT_TRUE(is_served(attention(GGML_TYPE_F16, GGML_TYPE_F16, mask(1, entries), 0.2f)));
        EXPECT_TRUE(is_served(attention(GGML_TYPE_F16, GGML_TYPE_F16, mask(kHeads, entries), 0.2f)));
        EXPECT_FALSE(is_served(attention(GGML_TYPE_F16, GGML_TYPE_F16, mask(2, entries), 0.2f)));  // Heads 0, 1, 0, 1.
    }
}

TEST_F(Ggml, FailuresAreStatusesWithALineOfLog) {
    ggml_tensor *node = ggml_mul_mat(context, tensor(GGML_TYPE_F32, 32, 8), tensor(GGML_TYPE_F32, 32, 3));
    ggml_set_name(node, "without_memory");
    EXPECT_EQ(compute(node), GGML_STATUS_FAILED);
    EXPECT_NE(logged().find("Attile: MUL_MAT 'without_memory': "), std::string::npos) << logged();
    EXPECT_NE(logged().find("NULL"), std::string::npos) << logged();
    EXPECT_EQ(compute(ggml_add(context, tensor(GGML_TYPE_F32, 4, 4), tensor(GGML_TYPE_F32, 4, 4))), GGML_STATUS_FAILED);
    EXPECT_NE(logged().find("Attile: ADD '"), std::string::npos) << logged();
    EXPECT_NE(logged().find("refuses it"), std::string::npos) << logged();
}

TEST_F(Ggml, CopiesThatHaveNoMemoryAreAStatus) {
    if (SANITIZED) GTEST_SKIP() << "the sanitizers' malloc ends the process";
    float nowhere = 0;
    ggml_tensor *x = tensor(GGML_TYPE_F32, 32, int64_t{1} << 55);
    x->data = &nowhere;
    EXPECT_EQ(compute(ggml_mul_mat(context, tensor(GGML_TYPE_F16, 32, 8), x)), GGML_STATUS_ALLOC_FAILED);
    EXPECT_NE(logged().find("no host memory"), std::string::npos) << logged();
}

TEST_F(Ggml, ThreadsMayChange) {
    std::vector<float> w(32 * 8), x(32 * 3), first, y(8 * 3);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2;
    ggml_tensor *a = tensor(GGML_TYPE_F32, 32, 8), *b = tensor(GGML_TYPE_F32, 32, 3), *node = ggml_mul_mat(context, a, b);
    a->data = w.data();
    b->data = x.data();
    node->data = y.data();
    for (const int threads : {1, 2, 1, 3, 0, 2, 1}) {
        set_threads(backend, threads);
        y.assign(y.size(), NAN);
        ASSERT_EQ(compute(node), GGML_STATUS_SUCCESS) << logged();
        float expected = 0;
        for (size_t i = 0; i < 32; ++i) expected += w[32 + i] * x[64 + i];
        EXPECT_EQ(y[2 * 8 + 1], expected);
        if (first.empty()) first = y;
        EXPECT_EQ(y, first) << threads << " threads";
    }
}

}  // namespace

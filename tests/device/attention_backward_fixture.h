// SPDX-License-Identifier: Apache-2.0
// What the tests of attention's gradients on a device share: a case run twice and judged as conformance judges, and which kernel takes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cases_attention.h"
#include "cuda_test_context.h"
#include "runner.h"

namespace attile::test {

inline std::string kernel_of(int64_t dim) {
    for (const int64_t width : {32, 64, 96, 128, 256})
        if (dim <= width) return "attention_backward_cols" + std::to_string(width);
    return "attention_backward_any_f32";
}

// ATTILE_CUDA_GRADIENTS, as the backend reads it.
inline bool gradients_go_by(const char *what) {
    const char *const set = std::getenv("ATTILE_CUDA_GRADIENTS");
    return set != nullptr && std::strcmp(set, what) == 0;
}

// The unfused kernels, or GEMM's products, in the place of `kernel`, where there are such. dbias: the gradient of the bias is asked for.
inline std::string by_products(const std::string &kernel, const AttentionCase &c, bool dbias) {
    if (const std::size_t any = kernel.find("_any_"); any != std::string::npos) return std::string(kernel).replace(any, 5, "_products_");
    const bool is_aligned = c.dtype != ATTILE_F32 || (c.q_layout.offset == 0 && c.k_layout.offset == 0 && c.v_layout.offset == 0);
    if (!is_aligned || dbias) return kernel;
    for (const char *const width : {"64", "128", "256"})
        if (kernel == std::string("attention_backward_cols") + width) return std::string("attention_backward_products_cols") + width;
    return kernel;
}

// Hopper's kernel for the one option that the case has in the place of that for several, up to 128 columns. A bias or a mask it reads two
// keys at a time.
inline std::string by_option(const std::string &kernel, const AttentionCase &c) {
    if (std::max(c.head_dim, c.head_dim_v) > 128) return kernel;
    const std::string several = "_modified";
    const bool bias = c.bias != BiasKind::kNone, allowed = c.allowed != MaskBytes::kNone,
               in_pairs = c.len_k % 2 == 0 && (c.bias_axes & 8) != 0;
    if (kernel.size() < several.size() || kernel.compare(kernel.size() - several.size(), several.size(), several) != 0) return kernel;
    if (bias + allowed + (c.alibi != 0) + (c.softcap != 0) != 1 || ((bias || allowed) && !in_pairs)) return kernel;
    return kernel.substr(0, kernel.size() - several.size()) + (bias           ? "_bias"
                                                               : allowed      ? "_allowed"
                                                               : c.alibi != 0 ? "_alibi"
                                                                              : "_softcap");
}

class AttentionBackward : public CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (context == nullptr) return;
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = "reference";
        ASSERT_EQ(attile_context_create(&options, &reference), ATTILE_OK) << last_error();
    }
    void TearDown() override {
        attile_context_destroy(reference);
        CudaTest::TearDown();
    }
    // In device memory, twice, the second time in a workspace of the caller's.
    void check(const AttentionCase &forward, const std::string &kernel, bool dbias = true) {
        BackwardCase c;
        c.forward = forward;
        c.dbias = dbias;
        c.dout_dtype = c.grad_dtype = c.dbias_dtype = c.forward.out_dtype = c.forward.bias_dtype = forward.dtype;
        Report report;
        run_case(context, reference, Case{"attention_backward.device", c}, {.placement = Placement::kDevice}, report);
        EXPECT_EQ(report.outcome, Outcome::kPassed) << report.message << "\n  case:   " << report.description;
        // Where nobody says so the device's speeds decide.
        const std::string products = by_products(kernel, forward, dbias && forward.bias != BiasKind::kNone);
        if (gradients_go_by("products") || (!gradients_go_by("tiles") && report.kernel == products))
            EXPECT_EQ(report.kernel, products) << report.description;
        else
            EXPECT_EQ(report.kernel, by_option(kernel, forward)) << report.description;
    }
    // What scores pass through: a mask at most; bias, boolean mask, ALiBi or softcap; softcap beside bias or ALiBi.
    enum class Scores { kMasked, kModified, kMixed };
    // The kernel for rows of 16 bits at multiples of 16 bytes: of tensor cores, where device and build have them. Hopper's own take nothing
    // mixed.
    std::string kernel16_of(int32_t dtype, int64_t dim, Scores scores = Scores::kMasked) {
        if (!has_tensor_cores()) return kernel_of(dim);
        const std::string width = std::to_string(dim <= 64 ? 64 : dim <= 128 ? 128 : 256);
        const bool is_hoppers = has_hopper_kernels() && scores != Scores::kMixed;
        return std::string("attention_backward_") + (dtype == ATTILE_F16 ? "f16" : "bf16") + (is_hoppers ? "_sm90_cols" : "_sm80_cols") +
               width + (is_hoppers && scores == Scores::kModified ? "_modified" : "");
    }
    int capability() {
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        EXPECT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << last_error();
        return std::strncmp(info.arch, "sm_", 3) == 0 ? std::atoi(info.arch + 3) : 0;
    }
    // ATTILE_CUDA_TENSOR_CORES, as the backend reads it.
    bool allows(const char *what) {
        const char *const set = std::getenv("ATTILE_CUDA_TENSOR_CORES");
        return set == nullptr || std::strcmp(set, what) != 0;
    }
    bool has_tensor_cores() {
#if defined(ATTILE_CUDA_HAS_SM80)
        return capability() >= 80 && allows("0");
#else
        return false;
#endif
    }
    bool has_hopper_kernels() {
#if defined(ATTILE_CUDA_HAS_SM90)
        return capability() == 90 && allows("0") && allows("80");
#else
        return false;
#endif
    }
    attile_context *reference = nullptr;
};

inline AttentionCase sized(int64_t len_q, int64_t len_k, int64_t dim) {
    AttentionCase c;
    c.batch = 1;
    c.heads_q = 2;
    c.heads_kv = 1;
    c.len_q = len_q;
    c.len_k = len_k;
    c.head_dim = c.head_dim_v = dim;
    return c;
}

}  // namespace attile::test

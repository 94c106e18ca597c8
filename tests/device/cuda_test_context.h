// SPDX-License-Identifier: Apache-2.0
// A context of the CUDA backend for a test, or a skip with the backend's reason; and arrays on the device.
#pragma once

#include <attile/attile.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace attile::test {

inline std::string last_error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}

// What ATTILE_TEST_BACKEND names, if these tests can test it; else cuda. "emulated" and "emulated64" (tests/device/emulation) run the
// kernels without a device, "hip" is the HIP backend built for HIP's NVIDIA platform.
inline std::string backend_under_test() {
    const char *name = std::getenv("ATTILE_TEST_BACKEND");
    return name != nullptr && (std::strncmp(name, "emulated", 8) == 0 || std::strcmp(name, "hip") == 0) ? name : "cuda";
}

class CudaTest : public testing::Test {
  protected:
    void SetUp() override {
        const std::string backend = backend_under_test();
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = backend.c_str();
        const int32_t status = attile_context_create(&options, &context);
        if (status == ATTILE_OK) return;
        const char *required = std::getenv("ATTILE_TEST_BACKEND");
        if (required != nullptr && backend == required) FAIL() << last_error();
        GTEST_SKIP() << last_error();
    }
    void TearDown() override { attile_context_destroy(context); }
    attile_context *context = nullptr;
};

// A context with certain kernels for tensor cores. Tests run with the best that there are (nothing), and again with others, as
// ATTILE_CUDA_TENSOR_CORES names them; where that variable is set, for what it says alone.
class TensorCoreTest : public CudaTest {
  protected:
    void SetUp() override {}
    void open(const std::string &kernels) {
        const char *const set = std::getenv(kVariable);
        if (set != nullptr && !kernels.empty()) GTEST_SKIP() << kVariable << " is set";
        if (!kernels.empty()) setenv(kVariable, kernels.c_str(), 1);
        CudaTest::SetUp();
        if (!kernels.empty()) unsetenv(kVariable);
        if (context == nullptr) return;
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        ASSERT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << last_error();
        const std::string arch = info.arch, wanted = set != nullptr ? set : kernels;
        const int capability = arch.compare(0, 3, "sm_") == 0 ? std::atoi(arch.c_str() + 3) : 0;
        if (wanted == "0") return;
#if defined(ATTILE_CUDA_HAS_SM80)
        if (capability >= 80) generation = "sm80";
#endif
#if defined(ATTILE_CUDA_HAS_SM90)
        if (capability == 90 && wanted != "80") generation = "sm90";
#endif
        if (kernels == "80" && (capability != 90 || generation.empty())) GTEST_SKIP() << "no other kernels for " << arch;
    }
    // The part of a kernel's name that says which tensor cores it is for; empty where it is for none.
    std::string generation;

  private:
    static constexpr const char *kVariable = "ATTILE_CUDA_TENSOR_CORES";
};
inline std::string tensor_core_name(const testing::TestParamInfo<const char *> &kernels) {
    return kernels.param[0] == '\0' ? "best" : "sm_" + std::string(kernels.param);
}

// Memory of a kind, given back at the end of the scope. It starts as NaN, but for arrays whose size is what is tested.
template <class T>
class Array {
  public:
    Array(attile_context *context, int32_t kind, std::size_t count) : context_(context), count_(count) {
        void *pointer = nullptr;
        const int32_t status = attile_alloc(context, kind, static_cast<int64_t>(count * sizeof(T)), &pointer);
        EXPECT_EQ(status, ATTILE_OK) << last_error();
        data_ = static_cast<T *>(pointer);
        constexpr int64_t kMost = 64 << 20;
        if (status != ATTILE_OK || bytes() == 0 || bytes() > kMost) return;
        const std::vector<unsigned char> nan(static_cast<std::size_t>(bytes()), 0xff);
        EXPECT_EQ(attile_copy(context, data_, nan.data(), bytes(), nullptr), ATTILE_OK) << last_error();
    }
    Array(attile_context *context, int32_t kind, const std::vector<T> &from) : Array(context, kind, from.size()) {
        EXPECT_EQ(attile_copy(context, data_, from.data(), bytes(), nullptr), ATTILE_OK) << last_error();
    }
    ~Array() { attile_free(context_, data_); }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    T *data() const { return data_; }
    int64_t bytes() const { return static_cast<int64_t>(count_ * sizeof(T)); }
    std::vector<T> fetch() const {
        std::vector<T> values(count_);
        EXPECT_EQ(attile_copy(context_, values.data(), data_, bytes(), nullptr), ATTILE_OK) << last_error();
        return values;
    }

  private:
    attile_context *context_;
    std::size_t count_;
    T *data_ = nullptr;
};

}  // namespace attile::test

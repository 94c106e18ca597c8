// SPDX-License-Identifier: Apache-2.0
// The HIP backend over a runtime of the tests' own (fake_amdhip64.cpp): finding it, opening a device, memory, streams, loading and
// launching kernels, errors. What kernels compute is tested where there is a device.
#include <attile/attile.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::string last_error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}

class HipRuntime : public testing::Test {
  protected:
    static int32_t create(attile_context **context) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = "hip";
        return attile_context_create(&options, context);
    }
    void with(const char *fault) { setenv("FAKE_HIP", fault, 1); }
    void TearDown() override { unsetenv("FAKE_HIP"); }
    template <class Function>
    static Function fake(const char *name) {
        void *library = dlopen(ATTILE_TEST_HIP_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
        return reinterpret_cast<Function>(library != nullptr ? dlsym(library, name) : nullptr);
    }
};

attile_tensor vector_of(float *data, int64_t count) {
    attile_tensor tensor = {};
    tensor.data = data;
    tensor.dtype = ATTILE_F32;
    tensor.rank = 1;
    tensor.shape[0] = count;
    tensor.stride[0] = 1;
    return tensor;
}

int32_t reduce(attile_context *context, float *x, float *y) {
    attile_reduce_args args;
    attile_reduce_init(&args, sizeof args);
    args.x = vector_of(x, 1024);
    args.y = vector_of(y, 1);
    args.op = ATTILE_REDUCE_SUM;
    return attile_reduce(context, &args);
}

TEST_F(HipRuntime, NoDeviceIsARefusalInWords) {
    with("no-device");
    attile_context *context = nullptr;
    EXPECT_NE(create(&context), ATTILE_OK);
    EXPECT_EQ(context, nullptr);
    EXPECT_NE(last_error().find("HIP device"), std::string::npos) << last_error();
}

TEST_F(HipRuntime, ABuildWithoutCodeForTheDeviceIsARefusalInWords) {
    with("no-image");
    attile_context *context = nullptr;
    EXPECT_NE(create(&context), ATTILE_OK);
    EXPECT_NE(last_error().find("gfx90a: this build has no code for it"), std::string::npos) << last_error();
}

TEST_F(HipRuntime, SaysWhatTheDeviceIs) {
    attile_context *context = nullptr;
    ASSERT_EQ(create(&context), ATTILE_OK) << last_error();
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    ASSERT_EQ(attile_context_get_info(context, &info), ATTILE_OK);
    EXPECT_STREQ(info.device_name, "Fake Instinct");
    EXPECT_EQ(info.device_type, ATTILE_DEVICE_ROCM);
    attile_context_destroy(context);
}

TEST_F(HipRuntime, MemoryGoesThereAndBack) {
    attile_context *context = nullptr;
    ASSERT_EQ(create(&context), ATTILE_OK) << last_error();
    for (const int32_t kind : {ATTILE_MEMORY_DEVICE, ATTILE_MEMORY_PINNED, ATTILE_MEMORY_MANAGED}) {
        void *pointer = nullptr;
        ASSERT_EQ(attile_alloc(context, kind, 64, &pointer), ATTILE_OK) << last_error();
        int32_t found = 0;
        EXPECT_EQ(attile_memory_kind(context, static_cast<char *>(pointer) + 8, &found), ATTILE_OK);
        EXPECT_EQ(found, kind);
        const std::vector<char> sent(64, 'x');
        std::vector<char> got(64, 0);
        EXPECT_EQ(attile_copy(context, pointer, sent.data(), 64, nullptr), ATTILE_OK) << last_error();
        EXPECT_EQ(attile_copy(context, got.data(), pointer, 64, nullptr), ATTILE_OK) << last_error();
        EXPECT_EQ(got, sent);
        EXPECT_EQ(attile_free(context, pointer), ATTILE_OK);
    }
    int here = 0;
    int32_t kind = 0;
    EXPECT_EQ(attile_memory_kind(context, &here, &kind), ATTILE_OK);
    EXPECT_EQ(kind, ATTILE_MEMORY_HOST);
    attile_context_destroy(context);
    EXPECT_EQ(fake<int (*)()>("fake_leaks")(), 0);
}

TEST_F(HipRuntime, LaunchesKernelsByTheirNamesFromImagesLoadedOnce) {
    attile_context *context = nullptr;
    ASSERT_EQ(create(&context), ATTILE_OK) << last_error();
    void *memory = nullptr;
    ASSERT_EQ(attile_alloc(context, ATTILE_MEMORY_DEVICE, 8192, &memory), ATTILE_OK);
    auto *x = static_cast<float *>(memory);
    ASSERT_EQ(reduce(context, x, x + 1024), ATTILE_OK) << last_error();
    const int loaded = fake<int (*)()>("fake_modules")();
    EXPECT_GE(loaded, 1);
    ASSERT_EQ(reduce(context, x, x + 1024), ATTILE_OK) << last_error();
    EXPECT_EQ(fake<int (*)()>("fake_modules")(), loaded);
    EXPECT_NE(std::string(fake<const char *(*)()>("fake_kernels")()).find("reduce_"), std::string::npos);
    EXPECT_EQ(attile_free(context, memory), ATTILE_OK);
    attile_context_destroy(context);
    EXPECT_EQ(fake<int (*)()>("fake_leaks")(), 0);
}

TEST_F(HipRuntime, AFaultStaysWithTheContext) {
    attile_context *context = nullptr;
    ASSERT_EQ(create(&context), ATTILE_OK) << last_error();
    void *memory = nullptr;
    ASSERT_EQ(attile_alloc(context, ATTILE_MEMORY_DEVICE, 8192, &memory), ATTILE_OK);
    auto *x = static_cast<float *>(memory);
    with("fault");
    EXPECT_EQ(reduce(context, x, x + 1024), ATTILE_ERROR_DEVICE_FAULT);
    EXPECT_NE(last_error().find("unspecified launch failure"), std::string::npos) << last_error();
    with("");
    EXPECT_EQ(reduce(context, x, x + 1024), ATTILE_ERROR_DEVICE_FAULT);
    attile_free(context, memory);
    attile_context_destroy(context);
    EXPECT_EQ(create(&context), ATTILE_OK) << last_error();
    attile_context_destroy(context);
}

TEST_F(HipRuntime, AStreamThatWasNotMadeIsNotDestroyed) {
    attile_context *context = nullptr;
    ASSERT_EQ(create(&context), ATTILE_OK) << last_error();
    std::vector<float> x(1024, 1.0f), y(1);
    with("no-stream");
    EXPECT_NE(reduce(context, x.data(), y.data()), ATTILE_OK);  // Of host arrays, which go through streams of the context's own.
    EXPECT_NE(last_error().find("creating a stream"), std::string::npos) << last_error();
    with("");
    attile_context_destroy(context);
    EXPECT_EQ(fake<int (*)()>("fake_leaks")(), 0);
}

TEST_F(HipRuntime, AStreamOfAnotherDeviceIsRefused) {
    attile_context *context = nullptr;
    ASSERT_EQ(create(&context), ATTILE_OK) << last_error();
    void *stream = nullptr;
    ASSERT_EQ(attile_stream_create(context, &stream), ATTILE_OK) << last_error();
    EXPECT_EQ(attile_synchronize(context, stream), ATTILE_OK) << last_error();
    with("foreign-stream");
    EXPECT_EQ(attile_synchronize(context, stream), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_NE(last_error().find("the stream does not belong to HIP device 0"), std::string::npos) << last_error();
    with("");
    EXPECT_EQ(attile_stream_destroy(context, stream), ATTILE_OK) << last_error();
    attile_context_destroy(context);
    EXPECT_EQ(fake<int (*)()>("fake_leaks")(), 0);
}

TEST_F(HipRuntime, ExhaustedMemoryIsSaidInNumbers) {
    attile_context *context = nullptr;
    ASSERT_EQ(create(&context), ATTILE_OK) << last_error();
    with("out-of-memory");
    void *pointer = &context;
    EXPECT_EQ(attile_alloc(context, ATTILE_MEMORY_DEVICE, 123456, &pointer), ATTILE_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_NE(last_error().find("123456 bytes asked of HIP device 0"), std::string::npos) << last_error();
    EXPECT_EQ(attile_alloc(context, ATTILE_MEMORY_PINNED, 123456, &pointer), ATTILE_ERROR_OUT_OF_HOST_MEMORY);
    attile_context_destroy(context);
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// What a call that was made before asks of the driver and of the runtime: these calls and no others. Each takes part of a microsecond, a
// launch some, and taking memory from a pool as long as a launch or two.
//
// ATTILE_TEST_STAND_IN names the library that stands in for both (failing_calls.h).
#include <attile/attile.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cuda_test_context.h"

namespace attile::test {
namespace {

// Of every call, around its launches, on `operands` arrays that are not of attile_alloc(); and of one that asks whether its stream is
// captured, or which stream it is, to use the workspace that the context keeps for it.
std::string call(int operands, const std::string &launches) {
    std::string calls = "cuCtxPushCurrent_v2 cuThreadExchangeStreamCaptureMode cuStreamGetCtx ";
    for (int i = 0; i < operands; ++i) calls += "cuPointerGetAttributes ";
    return calls + launches + "cuThreadExchangeStreamCaptureMode cuCtxPopCurrent_v2 ";
}
const std::string kPlain = "cuLaunchKernel ", kWith = "cuLaunchKernelEx ", kZero = "cudaMemsetAsync ", kIsCaptured = "cuStreamIsCapturing ",
                  kWorkspace = kIsCaptured + "cuStreamGetId ";

class DriverCalls : public CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        const char *const path = std::getenv("ATTILE_TEST_STAND_IN");
        ASSERT_NE(path, nullptr) << "run by ctest, which says what stands in for the driver";
        void *const library = dlopen(path, RTLD_NOW);
        ASSERT_NE(library, nullptr) << dlerror();
        write_down_ = reinterpret_cast<void (*)(int)>(dlsym(library, "attile_failures_write_down"));
        written_ = reinterpret_cast<const char *(*)()>(dlsym(library, "attile_failures_written"));
        alive_ = reinterpret_cast<int (*)()>(dlsym(library, "attile_failures_alive"));
        ASSERT_TRUE(write_down_ != nullptr && written_ != nullptr && alive_ != nullptr) << path;
        ASSERT_EQ(attile_stream_create(context, &stream), ATTILE_OK) << last_error();
    }
    void TearDown() override {
        if (stream != nullptr) attile_stream_destroy(context, stream);
        for (void *const each : memory_) attile_free(context, each);
        CudaTest::TearDown();
    }
    attile_tensor tensor(int32_t dtype, const std::vector<int64_t> &shape) {
        int64_t bytes = (dtype & 0xff) / 8;
        for (const int64_t extent : shape) bytes *= extent;
        void *data = nullptr;
        EXPECT_EQ(attile_alloc(context, ATTILE_MEMORY_DEVICE, bytes, &data), ATTILE_OK) << last_error();
        memory_.push_back(data);
        const std::vector<char> zeros(static_cast<std::size_t>(bytes));
        EXPECT_EQ(attile_copy(context, data, zeros.data(), bytes, nullptr), ATTILE_OK) << last_error();
        attile_tensor made;
        EXPECT_EQ(attile_tensor_init(&made, data, dtype, static_cast<int32_t>(shape.size()), shape.data()), ATTILE_OK);
        return made;
    }
    std::string calls_of(const std::function<int32_t()> &call) {
        write_down_(1);
        EXPECT_EQ(call(), ATTILE_OK) << last_error();
        write_down_(0);
        return written_();
    }
    std::string warm_calls_of(const std::function<int32_t()> &call) {
        for (int i = 0; i < 2; ++i) EXPECT_EQ(call(), ATTILE_OK) << last_error();
        return calls_of(call);
    }
    int alive() const { return alive_(); }
    void free_last() {
        EXPECT_EQ(attile_free(context, memory_.back()), ATTILE_OK) << last_error();
        memory_.pop_back();
    }

    attile_gemm_args gemm(int32_t dtype, int64_t m, int64_t n, int64_t k) {
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        args.stream = stream;
        args.a = tensor(dtype, {m, k});
        args.b = tensor(dtype, {k, n});
        args.d = tensor(dtype, {m, n});
        return args;
    }
    attile_attention_args attention(int32_t dtype, int64_t heads, int64_t len_q, int64_t len_k, int64_t dim) {
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.stream = stream;
        args.q = tensor(dtype, {1, heads, len_q, dim});
        args.k = tensor(dtype, {1, heads, len_k, dim});
        args.v = tensor(dtype, {1, heads, len_k, dim});
        args.o = tensor(dtype, {1, heads, len_q, dim});
        return args;
    }
    std::string calls(const attile_gemm_args &args) {
        return warm_calls_of([&] { return attile_gemm(context, &args); });
    }
    std::string calls(const attile_attention_args &args) {
        return warm_calls_of([&] { return attile_attention(context, &args); });
    }
    std::string backward_calls(int32_t dtype) {
        attile_attention_args forward = attention(dtype, 1, 64, 64, 64);
        forward.lse = tensor(ATTILE_F32, {1, 1, 64});
        attile_attention_backward_args args;
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        args.stream = stream;
        for (attile_tensor *each : {&args.dout, &args.dq, &args.dk, &args.dv}) *each = tensor(dtype, {1, 1, 64, 64});
        return warm_calls_of([&] { return attile_attention_backward(context, &args); });
    }
    void *stream = nullptr;

  private:
    void (*write_down_)(int) = nullptr;
    const char *(*written_)() = nullptr;
    int (*alive_)() = nullptr;
    std::vector<void *> memory_;
};

TEST_F(DriverCalls, Products) {
    EXPECT_EQ(calls(gemm(ATTILE_BF16, 128, 128, 64)), call(0, kWith));
    EXPECT_EQ(calls(gemm(ATTILE_BF16, 16, 256, 512)), call(0, kWith));
    EXPECT_EQ(calls(gemm(ATTILE_F32, 128, 128, 128)), call(0, kWorkspace + kPlain + kPlain));
}

TEST_F(DriverCalls, Attention) {
    EXPECT_EQ(calls(attention(ATTILE_BF16, 2, 128, 128, 64)), call(0, kWith));
    EXPECT_EQ(calls(attention(ATTILE_F32, 2, 128, 128, 64)), call(0, kPlain));
    EXPECT_EQ(calls(attention(ATTILE_BF16, 2, 1, 2048, 128)), call(0, kWorkspace + kWith + kPlain));
    EXPECT_EQ(calls(attention(ATTILE_F32, 2, 1, 2048, 128)), call(0, kWorkspace + kPlain));
}

// Whose memory it is, is asked of each operand that the context did not make; of memory that went, too.
TEST_F(DriverCalls, OperandsOfOthers) {
    attile_gemm_args args = gemm(ATTILE_BF16, 128, 128, 64);
    void *others = nullptr;
    ASSERT_EQ(cudaMalloc(&others, 128 * 64 * 2), cudaSuccess);
    ASSERT_EQ(cudaMemset(others, 0, 128 * 64 * 2), cudaSuccess);
    args.a.data = others;
    EXPECT_EQ(calls(args), call(1, kWith));
    attile_context *another = nullptr;
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "cuda";
    ASSERT_EQ(attile_context_create(&options, &another), ATTILE_OK) << last_error();
    EXPECT_EQ(warm_calls_of([&] { return attile_gemm(another, &args); }), call(3, kWith));
    attile_context_destroy(another);
    ASSERT_EQ(cudaFree(others), cudaSuccess);
    int32_t kind = 0;
    void *const gone = tensor(ATTILE_F32, {64}).data;
    ASSERT_EQ(attile_memory_kind(context, gone, &kind), ATTILE_OK);
    EXPECT_EQ(kind, ATTILE_MEMORY_DEVICE);
    free_last();
    ASSERT_EQ(attile_memory_kind(context, gone, &kind), ATTILE_OK);
    EXPECT_EQ(kind, ATTILE_MEMORY_HOST) << "nobody's";
}

TEST_F(DriverCalls, Gradients) {
    EXPECT_EQ(backward_calls(ATTILE_BF16), call(0, kWorkspace + kWith + kWith + kWith + kPlain));
    EXPECT_EQ(backward_calls(ATTILE_F32), call(0, kWorkspace + kZero + kPlain + kPlain + kPlain + kPlain + kPlain));
}

// A stream's number is not its handle: a new stream may have that of one that is gone.
TEST_F(DriverCalls, AStreamThatGoesTakesItsWorkspaceAlong) {
    const attile_gemm_args args = gemm(ATTILE_F32, 128, 128, 128);
    calls(args);
    const int with_one = alive();
    for (int i = 0; i < 3; ++i) {
        void *other = nullptr;
        ASSERT_EQ(attile_stream_create(context, &other), ATTILE_OK) << last_error();
        attile_gemm_args on_other = args;
        on_other.stream = other;
        EXPECT_NE(calls_of([&] { return attile_gemm(context, &on_other); }).find("cudaMallocFromPoolAsync"), std::string::npos);
        EXPECT_EQ(calls(on_other), calls(args));
        EXPECT_EQ(alive(), with_one + 2) << "the stream and its workspace";
        ASSERT_EQ(attile_stream_destroy(context, other), ATTILE_OK) << last_error();
        EXPECT_EQ(alive(), with_one);
    }
}

TEST_F(DriverCalls, ThreadsHaveDefaultStreamsOfTheirOwn) {
    attile_gemm_args args = gemm(ATTILE_F32, 128, 128, 128);
    for (void *const handle :
         {static_cast<void *>(nullptr), static_cast<void *>(cudaStreamLegacy), static_cast<void *>(cudaStreamPerThread)}) {
        args.stream = handle;
        const int before = alive();
        calls(args);
        const int with_one = alive();
        EXPECT_EQ(with_one, before + (handle == cudaStreamLegacy ? 0 : 1)) << "the legacy stream has two handles";
        std::string calls_of_other;
        std::thread([&] { calls_of_other = calls_of([&] { return attile_gemm(context, &args); }); }).join();
        const bool takes = calls_of_other.find("cudaMallocFromPoolAsync") != std::string::npos;
        EXPECT_EQ(takes, handle == cudaStreamPerThread);
        EXPECT_EQ(alive(), with_one + (takes ? 1 : 0));
    }
}

// Calls of two launches, the second of which reads the workspace that the first wrote, by threads that share a stream.
TEST_F(DriverCalls, ThreadsOnOneStreamShareNoWorkspace) {
    constexpr std::size_t kThreads = 4, kCount = 64 * 64;
    std::vector<attile_gemm_args> args;
    for (std::size_t t = 0; t < kThreads; ++t) {
        args.push_back(gemm(ATTILE_F32, 64, 64, 512));
        const std::vector<float> values(64 * 512, static_cast<float>(t + 1)), ones(64 * 512, 1.0f);
        const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
        ASSERT_EQ(attile_copy(context, args[t].a.data, values.data(), bytes, stream), ATTILE_OK) << last_error();
        ASSERT_EQ(attile_copy(context, args[t].b.data, ones.data(), bytes, stream), ATTILE_OK) << last_error();
    }
    EXPECT_EQ(calls(args[0]), call(0, kWorkspace + kPlain + kPlain)) << "a workspace, and two launches";
    std::vector<std::thread> threads;
    std::vector<int> wrong(kThreads);
    for (std::size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 8; ++i) {
                std::vector<float> d(kCount);
                if (attile_gemm(context, &args[t]) != ATTILE_OK) ++wrong[t];
                if (attile_copy(context, d.data(), args[t].d.data, kCount * sizeof(float), stream) != ATTILE_OK) ++wrong[t];
                if (d != std::vector<float>(kCount, 512.0f * static_cast<float>(t + 1))) ++wrong[t];
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

// A graph's memory is its own, and is given back with it: the stream's is free for calls while the graph runs elsewhere.
TEST_F(DriverCalls, ACapturedCallLeavesTheStreamsWorkspaceAlone) {
    const attile_gemm_args args = gemm(ATTILE_F32, 128, 128, 128);
    const std::string warm = calls(args);
    const int before = alive();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeGlobal), cudaSuccess);
    const std::string captured = calls_of([&] { return attile_gemm(context, &args); });
    ASSERT_EQ(cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph), cudaSuccess);
    EXPECT_EQ(captured, call(0, kIsCaptured + "cudaMallocFromPoolAsync " + kPlain + kPlain + "cudaFreeAsync "));
    EXPECT_EQ(alive(), before + 1);
    cudaGraphDestroy(graph);
    EXPECT_EQ(alive(), before);
    EXPECT_EQ(calls(args), warm);
}

}  // namespace
}  // namespace attile::test

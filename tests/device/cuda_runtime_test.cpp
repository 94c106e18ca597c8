// SPDX-License-Identifier: Apache-2.0
// What the backend promises beside results: kinds of memory, staging, graph capture, the caller's CUDA state, streams, errors.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>

#include "cuda_test_context.h"
#include "row_reference.h"

namespace attile::test {
namespace {

constexpr int32_t kKinds[] = {ATTILE_MEMORY_DEVICE, ATTILE_MEMORY_MANAGED, ATTILE_MEMORY_PINNED, ATTILE_MEMORY_HOST};

std::vector<float> random_floats(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-3, 3);
    std::vector<float> values(count);
    for (float &value : values) value = draw(engine);
    return values;
}

attile_softmax_args softmax_args(float *x, float *y, int64_t rows, int64_t length) {
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    const int64_t shape[2] = {rows, length};
    attile_tensor_init(&args.x, x, ATTILE_F32, 2, shape);
    attile_tensor_init(&args.y, y, ATTILE_F32, 2, shape);
    args.axis = 1;
    return args;
}

TEST_F(CudaTest, EveryKindOfMemoryGivesTheSameBits) {
    const int64_t rows = 3000, length = 1500;
    const std::vector<float> values = random_floats(static_cast<std::size_t>(rows * length), 1);
    std::vector<float> first;
    for (const int32_t from : kKinds) {
        for (const int32_t to : kKinds) {
            Array<float> x(context, from, values), y(context, to, values.size());
            const attile_softmax_args args = softmax_args(x.data(), y.data(), rows, length);
            ASSERT_EQ(attile_softmax(context, &args), ATTILE_OK) << last_error();
            ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK);
            const std::vector<float> got = y.fetch();
            if (first.empty()) first = got;
            ASSERT_TRUE(got == first) << "from kind " << from << " to " << to;
            ASSERT_TRUE(x.fetch() == values);
        }
    }
}

TEST_F(CudaTest, KindsOfMemoryAreTold) {
    for (const int32_t kind : kKinds) {
        Array<float> memory(context, kind, 1000);
        int32_t found = -1;
        ASSERT_EQ(attile_memory_kind(context, memory.data() + 500, &found), ATTILE_OK) << last_error();
        EXPECT_EQ(found, kind);
        EXPECT_EQ(attile_prefetch(context, memory.data(), 4000, ATTILE_MEMORY_DEVICE, nullptr), ATTILE_OK) << last_error();
        EXPECT_EQ(attile_prefetch(context, memory.data(), 4000, ATTILE_MEMORY_HOST, nullptr), ATTILE_OK) << last_error();
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0U);
    }
    int local = 0, found = -1;
    ASSERT_EQ(attile_memory_kind(context, &local, &found), ATTILE_OK);
    EXPECT_EQ(found, ATTILE_MEMORY_HOST);
}

TEST_F(CudaTest, LargeHostArraysPassThroughInChunks) {
    const int64_t rows = 50000, length = 1111;  // 222 MB each way.
    std::vector<float> x = random_floats(static_cast<std::size_t>(rows * length), 2), y(x.size(), std::nanf(""));
    const attile_softmax_args args = softmax_args(x.data(), y.data(), rows, length);
    ASSERT_EQ(attile_softmax(context, &args), ATTILE_OK) << last_error();
    for (int64_t r = 0; r < rows; r += 977) {
        double sum = 0;
        for (int64_t i = 0; i < length; ++i) sum += y[static_cast<std::size_t>(r * length + i)];
        ASSERT_TRUE(std::fabs(sum - 1) <= 1e-5) << r;
        const double first = softmax_row(length, [&](int64_t i) { return x[static_cast<std::size_t>(r * length + i)]; })[0];
        ASSERT_TRUE(std::fabs(y[static_cast<std::size_t>(r * length)] - first) <= 1e-6 * first) << r;
    }
}

TEST_F(CudaTest, CallsCanBeCaptured) {
    const int64_t rows = 2, length = 1 << 20;  // Needs a workspace.
    const std::vector<float> values = random_floats(static_cast<std::size_t>(rows * length), 3);
    Array<float> x(context, ATTILE_MEMORY_DEVICE, values),
        y(context, ATTILE_MEMORY_DEVICE, std::vector<float>(values.size(), std::nanf("")));
    Array<float> direct(context, ATTILE_MEMORY_DEVICE, values.size());
    attile_softmax_args args = softmax_args(x.data(), y.data(), rows, length);
    attile_support support;
    attile_support_init(&support, sizeof support);
    ASSERT_EQ(attile_softmax_query(context, &args, &support), ATTILE_OK) << last_error();
    ASSERT_GT(support.workspace_bytes, 0);
    Array<char> workspace(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(support.workspace_bytes));
    for (const bool with_workspace : {true, false}) {
        cudaStream_t stream = nullptr;
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        args.stream = stream;
        args.workspace = with_workspace ? workspace.data() : nullptr;
        args.workspace_bytes = with_workspace ? support.workspace_bytes : 0;
        args.flags = with_workspace ? ATTILE_FLAG_NO_ALLOC : 0;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t runnable = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
        const int32_t status = attile_softmax(context, &args);
        const std::string reason = last_error();
        ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
        if (!with_workspace && backend_under_test() == "hip") {  // Without memory pools a graph needs the caller's workspace, and says so.
            EXPECT_EQ(status, ATTILE_ERROR_WORKSPACE_TOO_SMALL) << reason;
            cudaGraphDestroy(graph);
            cudaStreamDestroy(stream);
            continue;
        }
        ASSERT_EQ(status, ATTILE_OK) << reason;
        ASSERT_EQ(cudaGraphInstantiateWithFlags(&runnable, graph, 0), cudaSuccess);
        for (int replay = 0; replay < 3; ++replay) ASSERT_EQ(cudaGraphLaunch(runnable, stream), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        cudaGraphExecDestroy(runnable);
        cudaGraphDestroy(graph);
        cudaStreamDestroy(stream);
        const attile_softmax_args again = softmax_args(x.data(), direct.data(), rows, length);
        ASSERT_EQ(attile_softmax(context, &again), ATTILE_OK) << last_error();
        ASSERT_TRUE(y.fetch() == direct.fetch());
    }
}

TEST_F(CudaTest, AHostTensorOnACapturingStreamIsRefused) {
    std::vector<float> x(100), y(100);
    attile_softmax_args args = softmax_args(x.data(), y.data(), 10, 10);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    args.stream = stream;
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(attile_softmax(context, &args), ATTILE_ERROR_UNSUPPORTED_MEMORY);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);  // The capture goes on unharmed.
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

TEST_F(CudaTest, TheCallersStateIsLeftAlone) {
    // An error of the caller's own stays to be read.
    ASSERT_NE(cudaMemcpy(nullptr, nullptr, 16, static_cast<cudaMemcpyKind>(99)), cudaSuccess);
    const cudaError_t own = cudaPeekAtLastError();
    ASSERT_NE(own, cudaSuccess);
    std::vector<float> values = random_floats(1000, 4);
    Array<float> x(context, ATTILE_MEMORY_DEVICE, values), y(context, ATTILE_MEMORY_DEVICE, values.size());
    const attile_softmax_args args = softmax_args(x.data(), y.data(), 10, 100);
    ASSERT_EQ(attile_softmax(context, &args), ATTILE_OK);
    void *impossible = nullptr;
    ASSERT_EQ(attile_alloc(context, ATTILE_MEMORY_DEVICE, int64_t{1} << 50, &impossible), ATTILE_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_NE(last_error().find("free"), std::string::npos) << last_error();
    EXPECT_EQ(cudaGetLastError(), own);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    // The device that is current stays so, in this thread and in one that has none.
    int devices = 0;
    ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    for (int device = 0; device < devices; ++device) {
        ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
        ASSERT_EQ(attile_softmax(context, &args), ATTILE_OK);
        int current = -1;
        ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
        EXPECT_EQ(current, device);
    }
    cudaSetDevice(0);
    std::thread([&] { EXPECT_EQ(attile_softmax(context, &args), ATTILE_OK); }).join();
}

TEST_F(CudaTest, ThreadsShareAContext) {
    const std::vector<float> values = random_floats(300 * 700, 5);
    std::vector<float> want(values.size());
    {
        std::vector<float> x = values;
        const attile_softmax_args args = softmax_args(x.data(), want.data(), 300, 700);
        ASSERT_EQ(attile_softmax(context, &args), ATTILE_OK) << last_error();
    }
    std::vector<std::thread> threads;
    std::vector<int> wrong(6, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&, t] {
            void *stream = nullptr;
            if (attile_stream_create(context, &stream) != ATTILE_OK) ++wrong[t];
            for (int round = 0; round < 20; ++round) {
                const int32_t kind = kKinds[(t + static_cast<std::size_t>(round)) % 4];
                Array<float> x(context, kind, values), y(context, kind, values.size());
                attile_softmax_args args = softmax_args(x.data(), y.data(), 300, 700);
                args.stream = stream;
                if (attile_softmax(context, &args) != ATTILE_OK) ++wrong[t];
                if (attile_synchronize(context, stream) != ATTILE_OK) ++wrong[t];
                if (y.fetch() != want) ++wrong[t];
            }
            if (attile_stream_destroy(context, stream) != ATTILE_OK) ++wrong[t];
        });
    }
    for (std::thread &thread : threads) thread.join();
    for (const int count : wrong) EXPECT_EQ(count, 0);
}

TEST_F(CudaTest, WorkspaceRules) {
    Array<float> x(context, ATTILE_MEMORY_DEVICE, std::vector<float>(std::size_t{1} << 20, 1)),
        y(context, ATTILE_MEMORY_DEVICE, std::size_t{1} << 20);
    attile_softmax_args args = softmax_args(x.data(), y.data(), 1, 1 << 20);
    args.flags = ATTILE_FLAG_NO_ALLOC;
    EXPECT_EQ(attile_softmax(context, &args), ATTILE_ERROR_WORKSPACE_TOO_SMALL);
    args.flags = 0;
    EXPECT_EQ(attile_softmax(context, &args), ATTILE_OK);
}

TEST_F(CudaTest, InfoIsFilled) {
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    ASSERT_EQ(attile_context_get_info(context, &info), ATTILE_OK);
    EXPECT_EQ(info.backend, backend_under_test());
    EXPECT_EQ(std::strncmp(info.arch, "sm_", 3), 0);
    EXPECT_EQ(info.device_type, ATTILE_DEVICE_CUDA);
    EXPECT_EQ(info.lane_width, 32);
    EXPECT_EQ(info.shared_per_block, 49152);
    EXPECT_GT(info.compute_units, 0);
    EXPECT_GT(info.memory_free, 0);
    EXPECT_GT(info.peak_flops_f32, 1e11);
    EXPECT_GT(info.peak_bandwidth, 1e10);
}

// What `attile explain` reckons with: the peak of the units that serve 16-bit types, and the share of it that a kernel is expected to
// reach.
class CudaRoofs : public TensorCoreTest, public testing::WithParamInterface<const char *> {
  protected:
    void SetUp() override { open(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CudaRoofs, testing::Values("", "80", "0"), tensor_core_name);

TEST_P(CudaRoofs, AreThoseOfTheKernelsThatRun) {
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    ASSERT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << last_error();
    if (generation.empty()) {
        EXPECT_EQ(info.peak_flops_f16, 0);
    } else {
        EXPECT_GT(info.peak_flops_f16, 3 * info.peak_flops_f32);
    }
    const auto expect_share = [&](const attile_support &support, int32_t dtype, const std::string &what) {
        EXPECT_GT(support.predicted_share, 0) << what << " by " << support.kernel;
        EXPECT_LE(support.predicted_share, 1) << what << " by " << support.kernel;
        const double peak = dtype != ATTILE_F32 && info.peak_flops_f16 > 0 ? info.peak_flops_f16 : info.peak_flops_f32;
        const double seconds = std::max(support.flops / peak, support.bytes / info.peak_bandwidth) / support.predicted_share;
        // No kernel is expected to outrun ordinary arithmetic where it is made of that.
        if (generation.empty()) {
            EXPECT_GE(seconds, support.flops / info.peak_flops_f32) << what << " by " << support.kernel;
        }
    };
    for (const int32_t dtype : {ATTILE_BF16, ATTILE_F16, ATTILE_F32}) {
        for (const int64_t dim : {33, 64, 128, 256}) {  // 33: the tensor cores do not take it.
            for (const int64_t len : {1, 4096}) {
                const int64_t of_rows[4] = {2, 16, len, dim}, of_keys[4] = {2, 16, 4096, dim}, of_lse[3] = {2, 16, len};
                attile_attention_args args;
                attile_attention_init(&args, sizeof args);
                for (attile_tensor *const t : {&args.q, &args.o}) attile_tensor_init(t, nullptr, dtype, 4, of_rows);
                for (attile_tensor *const t : {&args.k, &args.v}) attile_tensor_init(t, nullptr, dtype, 4, of_keys);
                attile_support support;
                attile_support_init(&support, sizeof support);
                ASSERT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
                const std::string what = "d " + std::to_string(dim) + " rows " + std::to_string(len);
                expect_share(support, dtype, "attention " + what);
                if (len == 1) continue;
                attile_tensor_init(&args.lse, nullptr, ATTILE_F32, 3, of_lse);
                attile_attention_backward_args backward;
                attile_attention_backward_init(&backward, sizeof backward);
                backward.forward = &args;
                for (attile_tensor *const t : {&backward.dout, &backward.dq}) attile_tensor_init(t, nullptr, dtype, 4, of_rows);
                for (attile_tensor *const t : {&backward.dk, &backward.dv}) attile_tensor_init(t, nullptr, dtype, 4, of_keys);
                attile_support_init(&support, sizeof support);
                ASSERT_EQ(attile_attention_backward_query(context, &backward, &support), ATTILE_OK) << last_error();
                if (generation != "sm80" || dtype == ATTILE_F32) expect_share(support, dtype, "gradients " + what);
            }
        }
        for (const int64_t rows : {1, 100, 4096}) {
            const int64_t of_a[2] = {rows, 4096}, of_b[2] = {4096, 4096};
            attile_gemm_args args;
            attile_gemm_init(&args, sizeof args);
            for (attile_tensor *const t : {&args.a, &args.d}) attile_tensor_init(t, nullptr, dtype, 2, of_a);
            attile_tensor_init(&args.b, nullptr, dtype, 2, of_b);
            attile_support support;
            attile_support_init(&support, sizeof support);
            ASSERT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK) << last_error();
            expect_share(support, dtype, "gemm of " + std::to_string(rows) + " rows");
        }
    }
}

TEST_F(CudaTest, ADeviceThatIsNotThereIsRefused) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    const std::string missing = backend_under_test() + ":99";
    options.backend = missing.c_str();
    attile_context *none = nullptr;
    EXPECT_EQ(attile_context_create(&options, &none), ATTILE_ERROR_BACKEND_REFUSED);
    EXPECT_NE(last_error().find("99"), std::string::npos) << last_error();
}

}  // namespace
}  // namespace attile::test

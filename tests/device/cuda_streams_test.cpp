// SPDX-License-Identifier: Apache-2.0
// Every operation, by every set of kernels that the device has: captured into a graph and replayed, called from many threads on one
// context, and on a stream of another device. That the bits are right is for the other tests to say; here they must be the same.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "cuda_test_context.h"
#include "problem.h"

namespace attile::test {
namespace {

AttentionCase attention_of(int32_t dtype, int64_t heads_q, int64_t heads_kv, int64_t len_q, int64_t len_k, int64_t dim) {
    AttentionCase c;
    c.dtype = c.out_dtype = c.bias_dtype = dtype;
    c.batch = 1;
    c.heads_q = heads_q;
    c.heads_kv = heads_kv;
    c.len_q = len_q;
    c.len_k = len_k;
    c.head_dim = c.head_dim_v = dim;
    return c;
}

void add_attention(std::vector<Case> &list, int32_t dtype) {
    const auto add = [&](const char *name, const AttentionCase &c) { list.push_back({std::string("attention.") + name, c}); };
    AttentionCase c = attention_of(dtype, dtype == ATTILE_F32 ? 8 : 140, dtype == ATTILE_F32 ? 8 : 140, 100, 150, 64);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("more_tiles_than_units", c);
    c = attention_of(dtype, 8, 2, 1, 3000, 128);
    add("keys_split", c);
    c.page_size = 16;
    add("paged", c);
    c = attention_of(dtype, 2, 2, 140, 300, 128);
    c.bias = BiasKind::kNormal;
    c.softcap = 5;
    c.sinks = true;
    add("modified", c);
    c = attention_of(dtype, 2, 2, 140, 300, 40);
    c.q_layout = c.k_layout = c.v_layout = {.pad = 3, .offset = 1};
    add("unaligned", c);
    if (dtype == ATTILE_F32) {
        c = attention_of(dtype, 2, 1, 300, 1500, 128);
        c.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
        add("split_tf32", c);
    }
}

void add_backward(std::vector<Case> &list, int32_t dtype) {
    for (const int64_t dim : {64, 256}) {
        for (const bool is_modified : {false, true}) {
            BackwardCase c;
            c.forward = attention_of(dtype, 2, 1, 100, 150, dim);
            c.forward.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            if (is_modified) c.forward.bias = BiasKind::kNormal;
            c.dout_dtype = c.grad_dtype = c.dbias_dtype = dtype;
            list.push_back({is_modified ? "attention_backward.modified" : "attention_backward.plain", c});
        }
    }
    BackwardCase c;
    c.forward = attention_of(dtype, 2, 1, 300, 1100, 128);
    c.dout_dtype = c.grad_dtype = c.dbias_dtype = dtype;
    list.push_back({"attention_backward.few_pairs_of_many_keys", c});
}

void add_gemm(std::vector<Case> &list, int32_t dtype) {
    struct Extents {
        int64_t m, n, k;
    };
    for (const Extents e : {Extents{64, 1024, 1024}, {1, 2048, 1024}, {129, 257, 65}, {256, 512, 512}, {128, 128, 2048}, {16, 520, 4096}}) {
        GemmCase c;
        c.dtype = c.out_dtype = c.bias_dtype = dtype;
        c.m = e.m;
        c.n = e.n;
        c.k = e.k;
        list.push_back({"gemm.of_" + std::to_string(e.m) + "_rows", c});
        if (dtype != ATTILE_F32 || e.m < 256) continue;
        c.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
        list.push_back({"gemm.split_tf32", c});
    }
}

std::vector<Case> listed_cases() {
    std::vector<Case> list;
    for (const int32_t dtype : {ATTILE_BF16, ATTILE_F16, ATTILE_F32}) {
        add_attention(list, dtype);
        add_backward(list, dtype);
        add_gemm(list, dtype);
    }
    MergeCase merge;
    merge.parts = 40;
    list.push_back({"attention_merge.many_parts", merge});
    for (const std::vector<int64_t> &shape : {std::vector<int64_t>{1, 1000001}, {700, 300}, {2, 1 << 19}}) {
        ReduceCase reduce;
        reduce.shape = shape;
        list.push_back({"reduce.rows", reduce});
        reduce.axis = 0;
        list.push_back({"reduce.columns", reduce});
        SoftmaxCase softmax;
        softmax.shape = shape;
        list.push_back({"softmax.rows", softmax});
    }
    SoftmaxCase by_tickets;  // Rows as long as softmax_whole takes, more than units.
    by_tickets.shape = {396, 33000};
    list.push_back({"softmax.whole_rows", by_tickets});
    return list;
}

template <class Operation>
uint64_t &seed_of(Operation &of) {
    return of.seed;
}
uint64_t &seed_of(BackwardCase &of) { return of.forward.seed; }
uint64_t &seed_of(MergeBackwardCase &of) { return of.forward.seed; }

// With their data, drawn once for all tests, and with other data.
struct Drawn {
    Case of;
    std::unique_ptr<Problem> problem, other;
};
const std::vector<Drawn> &cases() {
    static const std::vector<Drawn> drawn = [] {
        std::vector<Drawn> all;
        for (Case &each : listed_cases()) {
            std::unique_ptr<Problem> problem = make_problem(each);
            Case changed = each;
            std::visit([](auto &of) { ++seed_of(of); }, changed.problem);
            all.push_back({std::move(each), std::move(problem), make_problem(changed)});
        }
        return all;
    }();
    return drawn;
}

std::vector<std::vector<std::byte>> results(Call &call) {
    call.fetch();
    EXPECT_EQ(call.damage(), "");
    std::vector<std::vector<std::byte>> bytes;
    for (const Call::Output &out : call.outputs()) {
        bytes.push_back(out.tensor->element_bytes_in_order());
        const std::vector<bool> untouched = out.tensor->untouched();
        EXPECT_EQ(std::count(untouched.begin(), untouched.end(), true), 0) << out.name;
    }
    return bytes;
}

class CudaStreams : public TensorCoreTest, public testing::WithParamInterface<const char *> {
  protected:
    void SetUp() override { open(GetParam()); }
};

// Captured before it is run anywhere else: what is looked up or loaded for the first time must not break the capture. Replayed with the
// data that it was captured with, with other data in the same places, and with the first again.
TEST_P(CudaStreams, EveryOperationIsCaptured) {
    if (backend_under_test() == "hip") GTEST_SKIP() << "streams of the HIP runtime";
    attile_context *const direct = context;
    context = nullptr;
    open(GetParam());
    ASSERT_NE(context, nullptr);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (const Drawn &each : cases()) {
        SCOPED_TRACE(each.of.id + " " + describe(each.of));
        const std::unique_ptr<Call> expected = each.problem->bind(direct, Placement::kDevice, false),
                                    changed = each.other->bind(direct, Placement::kDevice, false),
                                    captured = each.problem->bind(context, Placement::kDevice, false);
        attile_support support;
        attile_support_init(&support, sizeof support);
        ASSERT_EQ(captured->query(&support), ATTILE_OK) << last_error();
        const auto workspace_bytes = static_cast<std::size_t>(support.workspace_bytes);
        const Array<char> workspace(context, ATTILE_MEMORY_DEVICE, workspace_bytes);
        captured->set_workspace(workspace.data(), support.workspace_bytes, ATTILE_FLAG_NO_ALLOC);
        captured->set_stream(stream);
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t runnable = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
        const int32_t status = captured->run();
        const std::string reason = last_error();
        ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << support.kernel;
        ASSERT_EQ(status, ATTILE_OK) << support.kernel << ": " << reason;
        ASSERT_EQ(cudaGraphInstantiateWithFlags(&runnable, graph, 0), cudaSuccess) << support.kernel;
        for (Call *const call : {expected.get(), changed.get()}) ASSERT_EQ(call->run(), ATTILE_OK) << last_error();
        ASSERT_EQ(attile_synchronize(direct, nullptr), ATTILE_OK) << last_error();
        const auto want = results(*expected), want_changed = results(*changed);
        for (const bool is_changed : {false, true, false}) {  // Whatever the outputs and the workspace hold.
            captured->begin_as(is_changed ? *changed : *expected);
            captured->reset();
            if (workspace_bytes > 0) {
                ASSERT_EQ(cudaMemset(workspace.data(), 0xff, workspace_bytes), cudaSuccess);
                ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // The graph's stream does not wait for the default stream.
            }
            ASSERT_EQ(cudaGraphLaunch(runnable, stream), cudaSuccess);
            ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
            EXPECT_TRUE(results(*captured) == (is_changed ? want_changed : want))
                << support.kernel << " replayed" << (is_changed ? " with other data" : "") << " gives other bits";
        }
        cudaGraphExecDestroy(runnable);
        cudaGraphDestroy(graph);
    }
    cudaStreamDestroy(stream);
    attile_context_destroy(direct);
}

TEST_P(CudaStreams, ThreadsShareAContextForEveryOperation) {
    constexpr std::size_t kThreads = 4;
    std::vector<std::vector<std::vector<std::byte>>> want;
    std::vector<std::vector<std::unique_ptr<Call>>> calls(kThreads);
    const std::vector<Drawn> &list = cases();
    for (const Drawn &each : list) {
        const std::unique_ptr<Call> alone = each.problem->bind(context, Placement::kDevice, false);
        ASSERT_EQ(alone->run(), ATTILE_OK) << each.of.id << ": " << last_error();
        ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
        want.push_back(results(*alone));
        for (auto &of_thread : calls) of_thread.push_back(each.problem->bind(context, Placement::kDevice, false));
    }
    std::vector<std::string> faults(kThreads);
    std::vector<std::thread> threads;
    void *streams[kThreads / 2] = {};  // Of two threads each.
    for (void *&stream : streams) ASSERT_EQ(attile_stream_create(context, &stream), ATTILE_OK) << last_error();
    for (std::size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            void *const stream = streams[t / 2];
            for (std::size_t i = 0; i < 2 * list.size(); ++i) {
                const std::size_t at = (i + t * list.size() / kThreads) % list.size();
                Call &call = *calls[t][at];
                call.set_stream(stream);
                if (call.run() != ATTILE_OK) faults[t] += list[at].of.id + ": " + last_error() + "; ";
                if (i % 3 != 0) continue;  // Else the next call follows at once.
                if (attile_synchronize(context, stream) != ATTILE_OK) faults[t] += list[at].of.id + ": " + last_error() + "; ";
            }
            if (attile_synchronize(context, stream) != ATTILE_OK) faults[t] += last_error() + "; ";
        });
    }
    for (std::thread &thread : threads) thread.join();
    for (void *const stream : streams) EXPECT_EQ(attile_stream_destroy(context, stream), ATTILE_OK) << last_error();
    for (std::size_t t = 0; t < kThreads; ++t) {
        EXPECT_EQ(faults[t], "");
        for (std::size_t i = 0; i < list.size(); ++i) EXPECT_TRUE(results(*calls[t][i]) == want[i]) << list[i].of.id << " of thread " << t;
    }
}

TEST_P(CudaStreams, AStreamOfAnotherDeviceIsRefused) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) GTEST_SKIP() << "one device alone";
    cudaStream_t foreign = nullptr;
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&foreign, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    for (const Drawn &each : cases()) {
        SCOPED_TRACE(each.of.id + " " + describe(each.of));
        for (const Placement placement : {Placement::kDevice, Placement::kHost}) {
            const std::unique_ptr<Call> call = each.problem->bind(context, placement, false);
            call->set_stream(foreign);
            EXPECT_EQ(call->run(), ATTILE_ERROR_INVALID_VALUE) << last_error();
            EXPECT_NE(last_error().find("the stream does not belong to CUDA device 0"), std::string::npos) << last_error();
            ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
            call->fetch();
            for (const Call::Output &out : call->outputs()) {
                const std::vector<bool> untouched = out.tensor->untouched();
                EXPECT_EQ(std::count(untouched.begin(), untouched.end(), false), 0) << out.name << " was written";
            }
        }
    }
    cudaStreamDestroy(foreign);
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaStreams, testing::Values("", "80", "0"), tensor_core_name);

}  // namespace
}  // namespace attile::test

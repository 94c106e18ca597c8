// SPDX-License-Identifier: Apache-2.0
// Decoding with split keys, where the last block of a row block puts the splits together: whatever the workspace held before, on several
// streams at once, and replayed from a graph. Code for sm_90 and later has a kernel for that instead, which the same calls test there.
#include <cuda_runtime_api.h>

#include <cmath>
#include <memory>
#include <random>

#include "cuda_test_context.h"
#include "row_reference.h"

namespace attile::test {
namespace {

struct DecodeShape {
    int64_t batch, heads_q, heads_kv, len_q, keys, dim, dim_v;
};

constexpr DecodeShape kShapes[] = {{1, 32, 8, 1, 4096, 128, 128}, {2, 8, 2, 1, 3001, 64, 64}, {1, 4, 4, 1, 9000, 128, 96},
                                   {1, 8, 1, 1, 40000, 128, 128}, {3, 6, 3, 2, 2500, 64, 20}, {1, 5, 1, 3, 6000, 256, 256}};

std::vector<float> random_floats(int64_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-3, 3);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values) value = draw(engine);
    return values;
}

// One decoding, its operands on the device, and its output in double precision.
class Decoding {
  public:
    Decoding(attile_context *context, const DecodeShape &s, unsigned seed)
        : shape_(s),
          hq_(random_floats(s.batch * s.heads_q * s.len_q * s.dim, seed)),
          hk_(random_floats(s.batch * s.heads_kv * s.keys * s.dim, seed + 1)),
          hv_(random_floats(s.batch * s.heads_kv * s.keys * s.dim_v, seed + 2)),
          q_(context, ATTILE_MEMORY_DEVICE, hq_),
          k_(context, ATTILE_MEMORY_DEVICE, hk_),
          v_(context, ATTILE_MEMORY_DEVICE, hv_),
          o_(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(s.batch * s.heads_q * s.len_q * s.dim_v)),
          lse_(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(s.batch * s.heads_q * s.len_q)) {
        const int64_t q[4] = {s.batch, s.heads_q, s.len_q, s.dim}, k[4] = {s.batch, s.heads_kv, s.keys, s.dim};
        const int64_t v[4] = {s.batch, s.heads_kv, s.keys, s.dim_v}, o[4] = {s.batch, s.heads_q, s.len_q, s.dim_v};
        attile_attention_init(&args, sizeof args);
        attile_tensor_init(&args.q, q_.data(), ATTILE_F32, 4, q);
        attile_tensor_init(&args.k, k_.data(), ATTILE_F32, 4, k);
        attile_tensor_init(&args.v, v_.data(), ATTILE_F32, 4, v);
        attile_tensor_init(&args.o, o_.data(), ATTILE_F32, 4, o);
        attile_tensor_init(&args.lse, lse_.data(), ATTILE_F32, 3, o);
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
        EXPECT_GT(support.splits, 1);
        workspace_bytes = support.workspace_bytes;
    }

    // NaN wherever a result should go.
    void spoil(cudaStream_t stream) const {
        ASSERT_EQ(cudaMemsetAsync(o_.data(), 0xff, static_cast<std::size_t>(o_.bytes()), stream), cudaSuccess);
        ASSERT_EQ(cudaMemsetAsync(lse_.data(), 0xff, static_cast<std::size_t>(lse_.bytes()), stream), cudaSuccess);
    }
    // Against double precision the first time, to the bit from then on.
    void check(const char *when, int round) {
        const std::vector<float> o = o_.fetch(), lse = lse_.fetch();
        if (first_o_.empty()) {
            compare(o, lse);
            first_o_ = o;
            first_lse_ = lse;
        }
        ASSERT_TRUE(o == first_o_) << when << ", round " << round << ", " << shape_.keys << " keys";
        ASSERT_TRUE(lse == first_lse_) << when << ", round " << round << ", " << shape_.keys << " keys";
    }

    attile_attention_args args;
    int64_t workspace_bytes = 0;

  private:
    void compare(const std::vector<float> &o, const std::vector<float> &lse) const {
        const DecodeShape &s = shape_;
        AttentionRow row_of;
        row_of.keys = s.keys;
        row_of.dim = s.dim;
        row_of.dim_v = s.dim_v;
        row_of.scale = 1 / std::sqrt(static_cast<double>(s.dim));
        for (int64_t row = 0; row < s.batch * s.heads_q * s.len_q; ++row) {
            const int64_t head = row / s.len_q, kv = head / s.heads_q * s.heads_kv + head % s.heads_q / (s.heads_q / s.heads_kv);
            row_of.q = hq_.data() + row * s.dim;
            row_of.k = [&](int64_t key) { return hk_.data() + (kv * s.keys + key) * s.dim; };
            row_of.v = [&](int64_t key) { return hv_.data() + (kv * s.keys + key) * s.dim_v; };
            const AttentionRowResult wanted = attention_row(row_of);
            ASSERT_NEAR(at(lse, row), wanted.lse, 2e-5) << "row " << row;
            for (int64_t d = 0; d < s.dim_v; ++d)
                ASSERT_NEAR(at(o, row * s.dim_v + d), wanted.o[static_cast<std::size_t>(d)], 2e-5) << "row " << row << ", column " << d;
        }
    }
    static float at(const std::vector<float> &x, int64_t i) { return x[static_cast<std::size_t>(i)]; }

    DecodeShape shape_;
    std::vector<float> hq_, hk_, hv_, first_o_, first_lse_;
    Array<float> q_, k_, v_, o_, lse_;
};

class Stream {
  public:
    Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess); }
    ~Stream() { cudaStreamDestroy(stream); }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    cudaStream_t stream = nullptr;
};

TEST_F(CudaTest, DecodeTakesAnyWorkspace) {
    for (const DecodeShape &shape : kShapes) {
        Decoding call(context, shape, 11);
        Array<char> workspace(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(call.workspace_bytes));
        call.args.workspace = workspace.data();
        call.args.workspace_bytes = call.workspace_bytes;
        call.args.flags = ATTILE_FLAG_NO_ALLOC;
        std::mt19937 engine(5);
        for (int round = 0; round < 24; ++round) {
            // All of one byte, random ones, or what the call before left.
            std::vector<char> garbage(static_cast<std::size_t>(call.workspace_bytes));
            constexpr int kBytes[] = {0xff, 0x00, 0x7f, 0x80, 0x01};
            for (char &byte : garbage) byte = static_cast<char>(round % 8 < 5 ? kBytes[round % 8] : static_cast<int>(engine() & 0xff));
            if (round % 8 != 7) {
                ASSERT_EQ(attile_copy(context, workspace.data(), garbage.data(), workspace.bytes(), nullptr), ATTILE_OK);
            }
            call.spoil(nullptr);
            ASSERT_EQ(attile_attention(context, &call.args), ATTILE_OK) << last_error();
            ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
            call.check("workspace", round);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_F(CudaTest, DecodesOnStreamsAtOnce) {
    constexpr int kStreams = 4, kRounds = 60;
    for (const bool with_workspace : {true, false}) {
        std::vector<std::unique_ptr<Stream>> streams;
        std::vector<std::unique_ptr<Decoding>> calls;
        std::vector<std::unique_ptr<Array<char>>> workspaces;
        for (int i = 0; i < kStreams; ++i) {
            streams.push_back(std::make_unique<Stream>());
            calls.push_back(std::make_unique<Decoding>(context, kShapes[i], 100 + 10 * static_cast<unsigned>(i)));
            Decoding &call = *calls.back();
            workspaces.push_back(
                std::make_unique<Array<char>>(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(call.workspace_bytes)));
            call.args.stream = streams.back()->stream;
            if (!with_workspace) continue;
            call.args.workspace = workspaces.back()->data();
            call.args.workspace_bytes = call.workspace_bytes;
        }
        for (int round = 0; round < kRounds; ++round) {
            for (int i = 0; i < kStreams; ++i) {
                // Several in a row, so that calls of all streams run beside each other.
                calls[static_cast<std::size_t>(i)]->spoil(streams[static_cast<std::size_t>(i)]->stream);
                for (int repeat = 0; repeat < 5; ++repeat) {
                    ASSERT_EQ(attile_attention(context, &calls[static_cast<std::size_t>((i + repeat) % kStreams)]->args), ATTILE_OK)
                        << last_error();
                }
            }
            if (round % 6 != 0) continue;
            ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
            for (auto &call : calls) call->check("streams", round);
            if (HasFatalFailure()) return;
        }
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
}

TEST_F(CudaTest, DecodesAreReplayedFromAGraph) {
    for (const bool with_workspace : {true, false}) {
        if (!with_workspace && backend_under_test() == "hip") continue;  // Without memory pools a graph needs the caller's workspace.
        Stream own;
        Decoding one(context, kShapes[0], 300), other(context, kShapes[2], 310);
        const int64_t bytes = std::max(one.workspace_bytes, other.workspace_bytes);
        Array<char> workspace(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(bytes));
        ASSERT_EQ(cudaMemset(workspace.data(), 0xff, static_cast<std::size_t>(bytes)), cudaSuccess);
        for (Decoding *call : {&one, &other}) {
            call->args.stream = own.stream;
            if (!with_workspace) continue;
            call->args.workspace = workspace.data();
            call->args.workspace_bytes = bytes;
        }
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t runnable = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal), cudaSuccess);
        int32_t status = ATTILE_OK;
        for (Decoding *call : {&one, &other, &one}) status = status == ATTILE_OK ? attile_attention(context, &call->args) : status;
        const std::string reason = last_error();
        ASSERT_EQ(cudaStreamEndCapture(own.stream, &graph), cudaSuccess);
        ASSERT_EQ(status, ATTILE_OK) << reason;
        ASSERT_EQ(cudaGraphInstantiateWithFlags(&runnable, graph, 0), cudaSuccess);
        for (int replay = 0; replay < 40; ++replay) {
            one.spoil(own.stream);
            other.spoil(own.stream);
            if (replay % 5 == 4) {
                ASSERT_EQ(cudaMemsetAsync(workspace.data(), replay, static_cast<std::size_t>(bytes), own.stream), cudaSuccess);
            }
            // Calls of no graph in the same workspace, in between.
            if (replay % 3 == 2) {
                ASSERT_EQ(attile_attention(context, &one.args), ATTILE_OK) << last_error();
            }
            ASSERT_EQ(cudaGraphLaunch(runnable, own.stream), cudaSuccess);
            ASSERT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
            one.check("replay", replay);
            other.check("replay", replay);
            if (HasFatalFailure()) break;
        }
        cudaGraphExecDestroy(runnable);
        cudaGraphDestroy(graph);
    }
}

}  // namespace
}  // namespace attile::test

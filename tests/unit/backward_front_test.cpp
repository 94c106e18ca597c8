// SPDX-License-Identifier: Apache-2.0
// What attile_attention_backward and attile_attention_merge make of their arguments.
#include "front_test.h"

namespace attile_test {
namespace {

class BackwardFront : public FrontTest {
  protected:
    BackwardFront() {
        attile_attention_init(&forward, sizeof forward);
        forward.q = dense(ATTILE_F16, {2, 8, 3, 16});
        forward.k = dense(ATTILE_F16, {2, 4, 7, 16});
        forward.v = dense(ATTILE_F16, {2, 4, 7, 24});
        forward.o = dense(ATTILE_F32, {2, 8, 3, 24});
        forward.lse = dense(ATTILE_F32, {2, 8, 3});
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        args.dout = dense(ATTILE_F16, {2, 8, 3, 24});
        args.dq = dense(ATTILE_F32, {2, 8, 3, 16});
        args.dk = dense(ATTILE_F16, {2, 4, 7, 16});
        args.dv = dense(ATTILE_F32, {2, 4, 7, 24});
    }
    void run() { ASSERT_EQ(attile_attention_backward(context, &args), ATTILE_OK) << last_error(); }

    void expect_bias_extent(std::initializer_list<int64_t> extents) {
        EXPECT_TRUE(std::equal(extents.begin(), extents.end(), problem.bias_extent))
            << problem.bias_extent[0] << ' ' << problem.bias_extent[1] << ' ' << problem.bias_extent[2] << ' ' << problem.bias_extent[3];
    }

    attile_attention_args forward;
    attile_attention_backward_args args;
    const attile_attention_backward_problem &problem = recording().backward;
};

TEST_F(BackwardFront, Gradients) {
    int forward_stream = 0, own_stream = 0;
    forward.stream = &forward_stream;
    forward.workspace_bytes = -5;  // not used, so not looked at
    forward.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    args.stream = &own_stream;
    args.flags = ATTILE_FLAG_ALLOW_NONDETERMINISTIC;
    run();
    EXPECT_EQ(recording().attention.launch.stream, &own_stream);
    EXPECT_EQ(recording().attention.launch.flags, ATTILE_FLAG_ALLOW_NONDETERMINISTIC);
    EXPECT_EQ(recording().attention.bottom_right, 1);
    EXPECT_EQ(recording().attention.heads_kv, 4);
    expect_operand(recording().attention.lse, forward.lse, {24, 3, 1, 0});
    expect_operand(problem.dout, args.dout, {576, 72, 24, 1});
    expect_operand(problem.dq, args.dq, {384, 48, 16, 1});
    expect_operand(problem.dk, args.dk, {448, 112, 16, 1});
    expect_operand(problem.dv, args.dv, {672, 168, 24, 1});
    expect_absent(problem.dbias);
    expect_absent(problem.dsinks);
    expect_absent(problem.dlse);
    expect_bias_extent({1, 1, 1, 1});
}

TEST_F(BackwardFront, BiasGradientIsSummedWhereBiasIsBroadcast) {
    forward.bias = dense(ATTILE_F16, {8, 1, 7});
    args.dbias = dense(ATTILE_F32, {8, 1, 7});
    forward.sinks = dense(ATTILE_F32, {8});
    args.dsinks = dense(ATTILE_F32, {8});
    run();
    expect_operand(problem.dbias, args.dbias, {0, 7, 0, 1});
    expect_bias_extent({1, 8, 1, 7});
    expect_operand(problem.dsinks, args.dsinks, {0, 1, 0, 0});
    // A broadcast written as stride 0, in bias and in its gradient.
    forward.bias = strided(dense(ATTILE_F16, {2, 8, 3, 7}), {0, 7, 0, 1});
    args.dbias = strided(dense(ATTILE_F32, {2, 8, 3, 7}), {0, 7, 0, 1});
    run();
    expect_operand(problem.dbias, args.dbias, {0, 7, 0, 1});
    expect_bias_extent({1, 8, 1, 7});
    // Room for every element is filled element by element.
    args.dbias = dense(ATTILE_F32, {2, 8, 3, 7});
    run();
    expect_bias_extent({2, 8, 3, 7});
    // A stride of 0 where bias has one is an output that overlaps itself.
    args.dbias = strided(args.dbias, {0, 0, 0, 1});
    EXPECT_EQ(attile_attention_backward(context, &args), ATTILE_ERROR_INVALID_STRIDE);
}

TEST_F(BackwardFront, EmptyOutputs) {
    forward.q = dense(ATTILE_F16, {2, 8, 0, 16});
    forward.o = dense(ATTILE_F32, {2, 8, 0, 24});
    forward.lse = dense(ATTILE_F32, {2, 8, 0});
    args.dout = dense(ATTILE_F16, {2, 8, 0, 24});
    args.dq = dense(ATTILE_F32, {2, 8, 0, 16});
    run();
    EXPECT_EQ(recording().runs, 1) << "dk and dv become 0";
    forward.k = dense(ATTILE_F16, {2, 4, 0, 16});
    forward.v = dense(ATTILE_F16, {2, 4, 0, 24});
    args.dk = dense(ATTILE_F16, {2, 4, 0, 16});
    args.dv = dense(ATTILE_F32, {2, 4, 0, 24});
    run();
    EXPECT_EQ(recording().runs, 1);
}

TEST_F(BackwardFront, OfManyEntriesWithoutElementsNoneIsVisited) {
    constexpr int64_t kMany = int64_t{1} << 50;
    forward.q = args.dq = dense(ATTILE_F16, {kMany, 8, 0, 16});
    forward.k = args.dk = dense(ATTILE_F16, {kMany, 4, 0, 16});
    forward.v = args.dv = dense(ATTILE_F16, {kMany, 4, 0, 24});
    forward.o = args.dout = dense(ATTILE_F16, {kMany, 8, 0, 24});
    forward.lse = dense(ATTILE_F32, {kMany, 8, 0});
    forward.sinks = dense(ATTILE_F32, {8});
    args.dsinks = dense(ATTILE_F32, {8});
    run();
    EXPECT_EQ(recording().attention.batch, 0);
    expect_operand(problem.dsinks, args.dsinks, {0, 1, 0, 0});
}

TEST_F(BackwardFront, GradientsOfLseAreSummedThoughNoOtherHasElements) {
    forward.q = args.dq = dense(ATTILE_F16, {2, 8, 3, 0});
    forward.k = args.dk = dense(ATTILE_F16, {2, 4, 7, 0});
    forward.v = args.dv = dense(ATTILE_F16, {2, 4, 7, 0});
    forward.o = args.dout = dense(ATTILE_F16, {2, 8, 3, 0});
    forward.sinks = dense(ATTILE_F32, {8});
    args.dsinks = dense(ATTILE_F32, {8});
    run();
    EXPECT_EQ(recording().attention.batch, 0) << "dsinks is a sum of zeros";
    args.dlse = dense(ATTILE_F32, {2, 8, 3});
    run();
    EXPECT_EQ(recording().attention.batch, 2);
}

// o may be that of all keys, of which these are the last piece.
TEST_F(BackwardFront, GradientsOfSinksAreSummedThoughNoOtherHasElements) {
    forward.q = args.dq = dense(ATTILE_F16, {2, 8, 3, 0});
    forward.k = args.dk = dense(ATTILE_F16, {2, 4, 0, 0});
    forward.v = args.dv = dense(ATTILE_F16, {2, 4, 0, 24});
    forward.sinks = dense(ATTILE_F32, {8});
    args.dsinks = dense(ATTILE_F32, {8});
    run();
    EXPECT_EQ(recording().attention.batch, 2);
}

TEST_F(BackwardFront, NoHeadsAreOneKeyHeadWithoutKeys) {
    forward.q = dense(ATTILE_F16, {2, 0, 3, 16});
    forward.k = dense(ATTILE_F16, {2, 0, 7, 16});
    forward.v = dense(ATTILE_F16, {2, 0, 7, 24});
    forward.o = dense(ATTILE_F32, {2, 0, 3, 24});
    forward.lse = dense(ATTILE_F32, {2, 0, 3});
    args.dout = dense(ATTILE_F16, {2, 0, 3, 24});
    args.dq = dense(ATTILE_F32, {2, 0, 3, 16});
    args.dk = dense(ATTILE_F16, {2, 0, 7, 16});
    args.dv = dense(ATTILE_F32, {2, 0, 7, 24});
    run();
    EXPECT_EQ(recording().runs, 0);
    forward.bias = dense(ATTILE_F16, {3, 7});
    args.dbias = dense(ATTILE_F16, {3, 7});
    run();
    EXPECT_EQ(recording().runs, 1) << "dbias becomes 0";
    EXPECT_EQ(recording().attention.heads_q, 0);
    EXPECT_EQ(recording().attention.heads_kv, 1);
    EXPECT_EQ(recording().attention.len_k, 0);
    expect_bias_extent({1, 1, 3, 7});
}

TEST_F(BackwardFront, PagedKeysAreUnsupported) {
    forward.k = dense(ATTILE_F16, {11, 4, 4, 16});
    forward.v = dense(ATTILE_F16, {11, 4, 4, 24});
    forward.block_table = dense(ATTILE_I32, {2, 5});
    forward.key_lengths = dense(ATTILE_I32, {2});
    args.dk = dense(ATTILE_F16, {11, 4, 4, 16});
    args.dv = dense(ATTILE_F16, {11, 4, 4, 24});
    EXPECT_EQ(attile_attention_backward(context, &args), ATTILE_ERROR_UNSUPPORTED_FEATURE);
    const std::string reason = last_error();
    EXPECT_EQ(attile_tensor_init(nullptr, nullptr, 0, 0, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    const std::string other = last_error();
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_attention_backward_query(context, &args, &support), ATTILE_OK);
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_FEATURE);
    EXPECT_EQ(support.text, reason);
    EXPECT_EQ(last_error(), other) << "a query that succeeds is no failure";
    EXPECT_EQ(recording().runs + recording().queries, 0);
}

TEST_F(BackwardFront, GradientOfLse) {
    args.dlse = strided(dense(ATTILE_F32, {2, 8, 3}), {0, 3, -1});
    args.dlse.data = static_cast<char *>(args.dlse.data) + 8;
    run();
    expect_operand(problem.dlse, args.dlse, {0, 3, -1, 0});
    args.dlse.dtype = ATTILE_F16;
    EXPECT_EQ(attile_attention_backward(context, &args), ATTILE_ERROR_INVALID_DTYPE);
    EXPECT_EQ(recording().runs, 1);
}

TEST_F(BackwardFront, AnOlderBackendIsNotGivenWhatItCannotSee) {
    attile_context *const older = recording_context(Recorder::kFirstVersions);
    const auto expect_refused = [&](const std::string &what) {
        const std::string sentence = "attention_backward: the backend 'older' is too old to know " + what;
        EXPECT_EQ(attile_attention_backward(older, &args), ATTILE_ERROR_UNSUPPORTED_FEATURE);
        EXPECT_EQ(last_error(), sentence);
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_backward_query(older, &args, &support), ATTILE_OK) << last_error();
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
        EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_FEATURE);
        EXPECT_EQ(support.text, sentence);
    };
    EXPECT_EQ(attile_attention_backward(older, &args), ATTILE_OK) << last_error();
    args.dlse = dense(ATTILE_F32, {2, 8, 3});
    expect_refused("dlse");
    args.dlse = {};
    forward.key_starts = dense(ATTILE_I32, {2});
    expect_refused("key_starts");
    EXPECT_EQ(recording().runs, 1);
    EXPECT_EQ(recording().queries, 0);
    attile_context_destroy(older);
}

class MergeFront : public FrontTest {
  protected:
    explicit MergeFront() { reset(2, ATTILE_F32, ATTILE_F32); }

    void reset(int64_t parts, int32_t part_type, int32_t output_type) {
        const int32_t lse_type = part_type == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
        o_parts.clear();
        lse_parts.clear();
        for (int64_t p = 0; p < parts; ++p) {
            o_parts.push_back(dense(part_type, {2, 8, 3, 24}));
            lse_parts.push_back(dense(lse_type, {2, 8, 3}));
        }
        attile_attention_merge_init(&args, sizeof args);
        args.o_parts = o_parts.data();
        args.lse_parts = lse_parts.data();
        args.parts = parts;
        args.o = dense(output_type, {2, 8, 3, 24});
        args.lse = dense(lse_type, {2, 8, 3});
    }
    void run() { ASSERT_EQ(attile_attention_merge(context, &args), ATTILE_OK) << last_error(); }

    std::vector<attile_tensor> o_parts, lse_parts;
    attile_attention_merge_args args;
    const attile_attention_merge_problem &problem = recording().merge;
};

TEST_F(MergeFront, FewAndManyParts) {
    for (const int64_t parts : {1, 2, 16, 17, 300}) {
        reset(parts, ATTILE_F32, ATTILE_F32);
        o_parts[static_cast<size_t>(parts - 1)].stride[3] = 1;
        run();
        EXPECT_EQ(problem.parts, parts);
        EXPECT_EQ(problem.batch, 2);
        EXPECT_EQ(problem.heads, 8);
        EXPECT_EQ(problem.len, 3);
        EXPECT_EQ(problem.head_dim_v, 24);
        for (size_t p = 0; p < o_parts.size(); ++p) {
            expect_operand(recording().o_parts[p], o_parts[p], {576, 72, 24, 1});
            expect_operand(recording().lse_parts[p], lse_parts[p], {24, 3, 1, 0});
        }
        expect_operand(problem.o, args.o, {576, 72, 24, 1});
        expect_operand(problem.lse, args.lse, {24, 3, 1, 0});
    }
    args.lse = {};
    run();
    expect_absent(problem.lse);
}

TEST_F(MergeFront, OutputMayBeNarrowerNotWider) {
    const struct {
        int32_t part, output, status;
    } cases[] = {
        {ATTILE_F64, ATTILE_F64, ATTILE_OK},
        {ATTILE_F64, ATTILE_F32, ATTILE_OK},
        {ATTILE_F64, ATTILE_BF16, ATTILE_OK},
        {ATTILE_F32, ATTILE_F16, ATTILE_OK},
        {ATTILE_F16, ATTILE_F16, ATTILE_OK},
        {ATTILE_F16, ATTILE_BF16, ATTILE_ERROR_INVALID_DTYPE},
        {ATTILE_F16, ATTILE_F32, ATTILE_ERROR_INVALID_DTYPE},
        {ATTILE_F32, ATTILE_F64, ATTILE_ERROR_INVALID_DTYPE},
    };
    for (const auto &c : cases) {
        reset(2, c.part, c.output);
        EXPECT_EQ(attile_attention_merge(context, &args), c.status) << std::hex << c.part << ' ' << c.output;
        EXPECT_EQ(problem.compute, c.part == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32);
    }
}

TEST_F(MergeFront, InPlaceOfOnePart) {
    args.o = o_parts[1];
    args.lse = lse_parts[0];
    run();
    EXPECT_EQ(problem.o.data, o_parts[1].data);
    args.lse = lse_parts[1];
    run();
    o_parts[0] = o_parts[1];
    EXPECT_EQ(attile_attention_merge(context, &args), ATTILE_ERROR_ALIASING);
}

TEST_F(MergeFront, QueriesTakeNullData) {
    for (attile_tensor &part : o_parts) part.data = nullptr;
    for (attile_tensor &part : lse_parts) part.data = nullptr;
    args.o.data = args.lse.data = nullptr;
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_attention_merge_query(context, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NATIVE);
}

}  // namespace
}  // namespace attile_test

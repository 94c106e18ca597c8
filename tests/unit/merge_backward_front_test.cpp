// SPDX-License-Identifier: Apache-2.0
// What attile_attention_merge_backward makes of its arguments.
#include "front_test.h"

namespace attile_test {
namespace {

class MergeBackwardFront : public FrontTest {
  protected:
    explicit MergeBackwardFront() { reset(2, ATTILE_F32, ATTILE_F32, ATTILE_F32, ATTILE_F32); }

    void reset(int64_t parts, int32_t part_type, int32_t o_type, int32_t dout_type, int32_t gradient_type) {
        const int32_t lse_type = part_type == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
        for (auto *list : {&o_parts, &lse_parts, &do_parts, &dlse_parts}) list->clear();
        for (int64_t p = 0; p < parts; ++p) {
            o_parts.push_back(dense(part_type, {2, 8, 3, 24}));
            lse_parts.push_back(dense(lse_type, {2, 8, 3}));
            do_parts.push_back(dense(gradient_type, {2, 8, 3, 24}));
            dlse_parts.push_back(dense(lse_type, {2, 8, 3}));
        }
        attile_attention_merge_init(&forward, sizeof forward);
        forward.parts = parts;
        forward.o = dense(o_type, {2, 8, 3, 24});
        forward.lse = dense(lse_type, {2, 8, 3});
        attile_attention_merge_backward_init(&args, sizeof args);
        args.forward = &forward;
        args.dout = dense(dout_type, {2, 8, 3, 24});
        args.dlse = dense(lse_type, {2, 8, 3});
        point();
    }
    void point() {
        forward.o_parts = o_parts.data();
        forward.lse_parts = lse_parts.data();
        args.do_parts = do_parts.data();
        args.dlse_parts = dlse_parts.data();
    }
    int32_t status() { return attile_attention_merge_backward(context, &args); }

    std::vector<attile_tensor> o_parts, lse_parts, do_parts, dlse_parts;
    attile_attention_merge_args forward;
    attile_attention_merge_backward_args args;
    const attile_attention_merge_backward_problem &problem = recording().merge_backward;
};

TEST_F(MergeBackwardFront, FewAndManyParts) {
    for (const int64_t parts : {1, 2, 16, 17, 300}) {
        reset(parts, ATTILE_F32, ATTILE_F32, ATTILE_F32, ATTILE_F32);
        ASSERT_EQ(status(), ATTILE_OK) << last_error();
        EXPECT_EQ(problem.parts, parts);
        EXPECT_EQ(problem.batch, 2);
        EXPECT_EQ(problem.heads, 8);
        EXPECT_EQ(problem.len, 3);
        EXPECT_EQ(problem.head_dim_v, 24);
        for (size_t p = 0; p < o_parts.size(); ++p) {
            expect_operand(recording().o_parts[p], o_parts[p], {576, 72, 24, 1});
            expect_operand(recording().lse_parts[p], lse_parts[p], {24, 3, 1, 0});
            expect_operand(recording().do_parts[p], do_parts[p], {576, 72, 24, 1});
            expect_operand(recording().dlse_parts[p], dlse_parts[p], {24, 3, 1, 0});
        }
        expect_operand(problem.o, forward.o, {576, 72, 24, 1});
        expect_operand(problem.lse, forward.lse, {24, 3, 1, 0});
        expect_operand(problem.dout, args.dout, {576, 72, 24, 1});
        expect_operand(problem.dlse, args.dlse, {24, 3, 1, 0});
    }
    args.dlse = {};
    ASSERT_EQ(status(), ATTILE_OK) << last_error();
    expect_absent(problem.dlse);
}

TEST_F(MergeBackwardFront, TypesThatGoTogether) {
    const struct {
        int32_t part, o, dout, gradient, status;
    } cases[] = {
        {ATTILE_F64, ATTILE_BF16, ATTILE_BF16, ATTILE_F64, ATTILE_OK},
        {ATTILE_F64, ATTILE_BF16, ATTILE_F64, ATTILE_F32, ATTILE_OK},
        {ATTILE_F32, ATTILE_F16, ATTILE_F32, ATTILE_F32, ATTILE_OK},
        {ATTILE_F16, ATTILE_F16, ATTILE_F16, ATTILE_F32, ATTILE_OK},
        {ATTILE_F16, ATTILE_F16, ATTILE_F32, ATTILE_F16, ATTILE_ERROR_INVALID_DTYPE},
        {ATTILE_F32, ATTILE_F32, ATTILE_F16, ATTILE_F32, ATTILE_ERROR_INVALID_DTYPE},
        {ATTILE_F32, ATTILE_F16, ATTILE_F16, ATTILE_F16, ATTILE_ERROR_INVALID_DTYPE},
        {ATTILE_F16, ATTILE_F32, ATTILE_F16, ATTILE_F16, ATTILE_ERROR_INVALID_DTYPE},
    };
    for (const auto &c : cases) {
        reset(2, c.part, c.o, c.dout, c.gradient);
        EXPECT_EQ(status(), c.status) << std::hex << c.part << ' ' << c.o << ' ' << c.dout << ' ' << c.gradient << ' ' << last_error();
        if (c.status != ATTILE_OK) continue;
        EXPECT_EQ(problem.compute, c.part == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32);
    }
}

// The gradients of many parts may lie in one tensor, side by side; one that meets another is found wherever it is in the list.
TEST_F(MergeBackwardFront, OverlapAmongManyParts) {
    constexpr int64_t kParts = 40;
    reset(kParts, ATTILE_F32, ATTILE_F32, ATTILE_F32, ATTILE_F32);
    const attile_tensor whole = dense(ATTILE_F32, {2, 8, kParts, 3 * 24}), whole_lse = dense(ATTILE_F32, {2, 8, kParts, 3});
    for (int64_t p = 0; p < kParts; ++p) {
        attile_tensor &o = do_parts[static_cast<size_t>(p)], &lse = dlse_parts[static_cast<size_t>(p)];
        o.data = static_cast<float *>(whole.data) + p * 3 * 24;
        o.stride[0] = whole.stride[0];
        o.stride[1] = whole.stride[1];
        lse.data = static_cast<float *>(whole_lse.data) + p * 3;
        lse.stride[0] = whole_lse.stride[0];
        lse.stride[1] = whole_lse.stride[1];
    }
    EXPECT_EQ(status(), ATTILE_OK) << last_error();
    do_parts[7].data = static_cast<float *>(do_parts[31].data) + 1;
    EXPECT_EQ(status(), ATTILE_ERROR_ALIASING);
    EXPECT_NE(last_error().find("do_parts[31]"), std::string::npos) << last_error();
    EXPECT_NE(last_error().find("do_parts[7]"), std::string::npos) << last_error();
}

// A view that reaches over all the others, and meets only the last.
TEST_F(MergeBackwardFront, OverlapBehindManyOthers) {
    reset(40, ATTILE_F32, ATTILE_F32, ATTILE_F32, ATTILE_F32);
    o_parts[0].stride[0] = static_cast<float *>(dlse_parts[39].data) - static_cast<float *>(o_parts[0].data);
    EXPECT_EQ(status(), ATTILE_ERROR_ALIASING);
    EXPECT_NE(last_error().find("dlse_parts[39]"), std::string::npos) << last_error();
    o_parts[0].stride[0] += 3 * 24;
    EXPECT_EQ(status(), ATTILE_OK) << last_error();
}

TEST_F(MergeBackwardFront, PartInPlaceOfTheForwardCallIsLost) {
    forward.o = o_parts[1];
    EXPECT_EQ(status(), ATTILE_ERROR_ALIASING);
    EXPECT_NE(last_error().find("forward->o_parts[1]"), std::string::npos) << last_error();
    forward.o = dense(ATTILE_F32, {2, 8, 3, 24});
    forward.lse = lse_parts[0];
    EXPECT_EQ(status(), ATTILE_ERROR_ALIASING);
    EXPECT_NE(last_error().find("forward->lse_parts[0]"), std::string::npos) << last_error();
    forward.lse = dense(ATTILE_F32, {2, 8, 3});
    args.dout = forward.o;  // Inputs may be one.
    EXPECT_EQ(status(), ATTILE_OK) << last_error();
}

TEST_F(MergeBackwardFront, WithoutColumnsTheGradientsOfLseAreLeft) {
    const auto cut = [](attile_tensor &tensor, int32_t axis) { tensor.shape[axis] = 0; };
    for (auto *list : {&o_parts, &do_parts})
        for (attile_tensor &tensor : *list) cut(tensor, 3);
    cut(forward.o, 3);
    cut(args.dout, 3);
    EXPECT_EQ(status(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 1);
    for (auto *list : {&o_parts, &do_parts, &lse_parts, &dlse_parts})
        for (attile_tensor &tensor : *list) cut(tensor, 2);
    for (attile_tensor *tensor : {&forward.o, &args.dout, &forward.lse, &args.dlse}) cut(*tensor, 2);
    EXPECT_EQ(status(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 1);
}

TEST_F(MergeBackwardFront, QueriesTakeNullData) {
    for (auto *list : {&o_parts, &lse_parts, &do_parts, &dlse_parts})
        for (attile_tensor &tensor : *list) tensor.data = nullptr;
    for (attile_tensor *tensor : {&forward.o, &args.dout, &forward.lse, &args.dlse}) tensor->data = nullptr;
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_attention_merge_backward_query(context, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NATIVE);
}

TEST_F(MergeBackwardFront, BackendsThatLackIt) {
    attile_context *bare = recording_context(Recorder::kBare);
    EXPECT_EQ(attile_attention_merge_backward(bare, &args), ATTILE_ERROR_UNSUPPORTED_OPERATION);
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_attention_merge_backward_query(bare, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_OPERATION);
    attile_context_destroy(bare);
}

}  // namespace
}  // namespace attile_test

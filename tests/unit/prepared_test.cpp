// SPDX-License-Identifier: Apache-2.0
// Prepared calls: what reaches the backend, what is refused, and what becomes of handles.
#include <cstring>

#include "front_test.h"

namespace attile_test {
namespace {

void *moved(const attile_tensor &tensor, int64_t bytes) { return static_cast<char *>(tensor.data) + bytes; }

class PreparedTest : public FrontTest {
  protected:
    PreparedTest() {
        attile_gemm_init(&gemm, sizeof gemm);
        gemm.a = dense(ATTILE_F32, {3, 5});
        gemm.b = dense(ATTILE_F32, {5, 4});
        gemm.d = dense(ATTILE_F32, {3, 4});
        attile_gemm_pointers_init(&pointers, sizeof pointers);
        attile_attention_init(&attention, sizeof attention);
        attention.q = dense(ATTILE_F32, {2, 4, 3, 8});
        attention.k = dense(ATTILE_F32, {2, 2, 7, 8});
        attention.v = dense(ATTILE_F32, {2, 2, 7, 8});
        attention.o = dense(ATTILE_F32, {2, 4, 3, 8});
        attile_attention_pointers_init(&attention_pointers, sizeof attention_pointers);
    }
    ~PreparedTest() override { attile_prepared_destroy(prepared); }
    int32_t prepare() { return attile_gemm_prepare(context, &gemm, &prepared); }
    int32_t run() { return attile_gemm_run(prepared, &pointers); }

    attile_gemm_args gemm;
    attile_gemm_pointers pointers;
    attile_attention_args attention;
    attile_attention_pointers attention_pointers;
    attile_prepared *prepared = nullptr;
    alignas(256) unsigned char workspace[1024];
};

TEST_F(PreparedTest, OperandsGoWhereTheLaunchHasThem) {
    gemm.alpha = 3;
    ASSERT_EQ(prepare(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 0);
    EXPECT_EQ(recording().queries, 1);
    pointers.a = moved(gemm.a, 4096);
    pointers.d = moved(gemm.d, 64);
    pointers.stream = &pointers;
    ASSERT_EQ(run(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 1);
    EXPECT_EQ(recording().queries, 1);
    attile_tensor a = gemm.a, d = gemm.d;
    a.data = pointers.a;
    d.data = pointers.d;
    expect_operand(recording().gemm.a, a, {0, 0, 5, 1});
    expect_operand(recording().gemm.b, gemm.b, {0, 0, 4, 1});
    expect_operand(recording().gemm.d, d, {0, 0, 4, 1});
    EXPECT_EQ(recording().gemm.launch.stream, &pointers);
    EXPECT_EQ(recording().gemm.alpha, 3);
    ASSERT_EQ(attile_gemm_run(prepared, nullptr), ATTILE_OK);
    expect_operand(recording().gemm.a, gemm.a, {0, 0, 5, 1});
    EXPECT_EQ(recording().gemm.launch.stream, nullptr);
}

TEST_F(PreparedTest, AStrideThatStepsOverNothingMayBeAnyNumber) {
    gemm.a = dense(ATTILE_F32, {1, 3, 5});
    gemm.b = dense(ATTILE_F32, {1, 5, 4});
    gemm.d = dense(ATTILE_F32, {1, 3, 4});
    gemm.a.stride[0] = INT64_MAX;
    gemm.b.stride[0] = INT64_MIN;
    gemm.d.stride[0] = INT64_MAX / 2;
    ASSERT_EQ(prepare(), ATTILE_OK) << last_error();
    pointers.a = moved(gemm.a, 4096);
    ASSERT_EQ(run(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 1);
    EXPECT_EQ(recording().queries, 1);
    EXPECT_EQ(recording().gemm.a.data, pointers.a);
}

TEST_F(PreparedTest, AttentionHasAllItsOperands) {
    attention.lse = dense(ATTILE_F32, {2, 4, 3});
    attention.bias = dense(ATTILE_F32, {3, 7});
    attention.allowed = dense(ATTILE_U8, {3, 7});
    attention.alibi_slopes = dense(ATTILE_F32, {4});
    attention.sinks = dense(ATTILE_F32, {4});
    attention.key_lengths = dense(ATTILE_I32, {2});
    attention.key_starts = dense(ATTILE_I32, {2});
    attention.causal_offset = dense(ATTILE_I32, {2});
    attention.block_mask = dense(ATTILE_BOOL, {4, 1, 1});
    attention.tree_mask = dense(ATTILE_U8, {3, 5});
    attention.q.dtype = attention.k.dtype = attention.v.dtype = ATTILE_I8;
    attention.q_scale = attention.o_scale = dense(ATTILE_F32, {4, 3, 1});
    attention.o.dtype = ATTILE_I8;
    attention.k_scale = attention.v_scale = dense(ATTILE_F32, {2, 7, 1});
    attention.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    ASSERT_EQ(attile_attention(context, &attention), ATTILE_OK) << last_error();
    const attile_attention_problem want = recording().attention;
    attile_attention_args elsewhere = attention;
    for (attile_tensor *x :
         {&elsewhere.q, &elsewhere.k, &elsewhere.v, &elsewhere.o, &elsewhere.lse, &elsewhere.bias, &elsewhere.allowed,
          &elsewhere.alibi_slopes, &elsewhere.sinks, &elsewhere.key_lengths, &elsewhere.key_starts, &elsewhere.causal_offset,
          &elsewhere.block_mask, &elsewhere.tree_mask, &elsewhere.k_scale, &elsewhere.v_scale, &elsewhere.q_scale, &elsewhere.o_scale})
        x->data = moved(*x, 1 << 20);
    ASSERT_EQ(attile_attention_prepare(context, &elsewhere, &prepared), ATTILE_OK) << last_error();
    attile_attention_pointers &to = attention_pointers;
    to.q = attention.q.data;
    to.k = attention.k.data;
    to.v = attention.v.data;
    to.o = attention.o.data;
    to.lse = attention.lse.data;
    to.bias = attention.bias.data;
    to.allowed = attention.allowed.data;
    to.alibi_slopes = attention.alibi_slopes.data;
    to.sinks = attention.sinks.data;
    to.key_lengths = attention.key_lengths.data;
    to.key_starts = attention.key_starts.data;
    to.causal_offset = attention.causal_offset.data;
    to.block_mask = attention.block_mask.data;
    to.tree_mask = attention.tree_mask.data;
    to.k_scale = attention.k_scale.data;
    to.v_scale = attention.v_scale.data;
    to.q_scale = attention.q_scale.data;
    to.o_scale = attention.o_scale.data;
    ASSERT_EQ(attile_attention_run(prepared, &to), ATTILE_OK) << last_error();
    EXPECT_EQ(std::memcmp(&want, &recording().attention, sizeof want), 0);
    EXPECT_EQ(recording().runs, 2);
}

TEST_F(PreparedTest, PointersThatAreWrongAreRefused) {
    ASSERT_EQ(prepare(), ATTILE_OK) << last_error();
    pointers.a = moved(gemm.a, 4);
    EXPECT_EQ(run(), ATTILE_ERROR_MISALIGNED);
    EXPECT_NE(last_error().find("gemm_run: a is "), std::string::npos) << last_error();
    EXPECT_NE(last_error().find("expected a multiple of 16 bytes"), std::string::npos) << last_error();
    pointers.a = moved(gemm.d, 16);
    EXPECT_EQ(run(), ATTILE_ERROR_ALIASING) << last_error();
    pointers.a = nullptr;
    pointers.bias = workspace;
    EXPECT_EQ(run(), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(last_error(), "gemm_run: bias is given, but the prepared call has none");
    pointers.bias = nullptr;
    pointers.d = reinterpret_cast<void *>(UINTPTR_MAX - 31);
    EXPECT_EQ(run(), ATTILE_ERROR_OVERFLOW) << last_error();
    pointers.d = nullptr;
    pointers.flags = 1;
    EXPECT_EQ(run(), ATTILE_ERROR_INVALID_FLAGS);
    pointers.flags = 0;
    pointers.struct_size = 8;
    EXPECT_EQ(run(), ATTILE_ERROR_STRUCT_SIZE);
    EXPECT_EQ(recording().runs, 0);
}

// Prepared with less, a call takes whatever is aligned as well.
TEST_F(PreparedTest, AlignmentIsThatOfThePreparedPointer) {
    gemm.a.data = moved(gemm.a, 8);
    ASSERT_EQ(prepare(), ATTILE_OK) << last_error();
    pointers.a = moved(gemm.a, 16);
    EXPECT_EQ(run(), ATTILE_OK) << last_error();
    pointers.a = moved(gemm.a, 4);
    EXPECT_EQ(run(), ATTILE_ERROR_MISALIGNED);
}

TEST_F(PreparedTest, ResultsInPlaceStayInPlace) {
    gemm.c = gemm.d;
    gemm.beta = 1;
    ASSERT_EQ(prepare(), ATTILE_OK) << last_error();
    EXPECT_EQ(attile_gemm_run(prepared, nullptr), ATTILE_OK) << last_error();
    pointers.c = pointers.d = moved(gemm.d, 256);
    EXPECT_EQ(run(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().gemm.c.data, pointers.c);
    pointers.c = moved(gemm.d, 272);
    EXPECT_EQ(run(), ATTILE_ERROR_ALIASING);
}

TEST_F(PreparedTest, WorkspaceIsHeldAgainstTheQuery) {
    answers().workspace_bytes = 512;
    gemm.flags = ATTILE_FLAG_NO_ALLOC;
    ASSERT_EQ(prepare(), ATTILE_OK) << last_error();
    EXPECT_EQ(run(), ATTILE_ERROR_WORKSPACE_TOO_SMALL);
    pointers.workspace = workspace;
    pointers.workspace_bytes = 511;
    EXPECT_EQ(run(), ATTILE_ERROR_WORKSPACE_TOO_SMALL);
    EXPECT_EQ(last_error(), "gemm_run: workspace_bytes is 511; expected at least 512");
    pointers.workspace_bytes = 512;
    EXPECT_EQ(run(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().gemm.launch.workspace, workspace);
    EXPECT_EQ(recording().gemm.launch.flags, ATTILE_FLAG_NO_ALLOC);
    EXPECT_EQ(recording().queries, 1);
    // Aligned otherwise than prepared, another kernel may want another workspace.
    pointers.a = moved(gemm.a, 16);
    EXPECT_EQ(run(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().queries, 2);
    pointers.a = workspace;
    EXPECT_EQ(run(), ATTILE_ERROR_ALIASING) << last_error();
}

TEST_F(PreparedTest, WhatTheBackendLacksIsSaidAtOnce) {
    answers().in_query = [](attile_support *support) {
        support->level = ATTILE_SUPPORT_NONE;
        support->status = ATTILE_ERROR_UNSUPPORTED_DTYPE;
        std::strcpy(support->text, "gemm: not for this");
    };
    EXPECT_EQ(prepare(), ATTILE_ERROR_UNSUPPORTED_DTYPE);
    EXPECT_EQ(last_error(), "gemm: not for this");
    EXPECT_EQ(prepared, nullptr);
    answers().in_query = nullptr;
    gemm.a.shape[1] = 6;
    EXPECT_EQ(prepare(), ATTILE_ERROR_SHAPE_MISMATCH);
    EXPECT_EQ(attile_gemm_prepare(context, nullptr, &prepared), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(attile_gemm_prepare(context, &gemm, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(attile_gemm_prepare(nullptr, &gemm, &prepared), ATTILE_ERROR_INVALID_CONTEXT);
}

TEST_F(PreparedTest, NothingToDoIsDone) {
    gemm.d.shape[0] = gemm.a.shape[0] = 0;
    ASSERT_EQ(prepare(), ATTILE_OK) << last_error();
    pointers.d = pointers.a = reinterpret_cast<void *>(3);  // Not looked at.
    EXPECT_EQ(run(), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(PreparedTest, HandlesThatAreNoneAreRefused) {
    EXPECT_EQ(attile_gemm_run(nullptr, &pointers), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(attile_gemm_run(reinterpret_cast<attile_prepared *>(&pointers), &pointers), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_gemm_run(reinterpret_cast<attile_prepared *>(context), &pointers), ATTILE_ERROR_INVALID_VALUE);
    ASSERT_EQ(prepare(), ATTILE_OK);
    EXPECT_EQ(attile_attention_run(prepared, &attention_pointers), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(last_error(), "attention_run: the prepared call is one of gemm");
    attile_context *const not_one = reinterpret_cast<attile_context *>(prepared);
    EXPECT_EQ(attile_gemm(not_one, &gemm), ATTILE_ERROR_INVALID_CONTEXT);
    attile_prepared *const first = prepared;
    attile_prepared_destroy(first);
    attile_prepared_destroy(first);
    EXPECT_EQ(run(), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_NE(last_error().find("was destroyed"), std::string::npos) << last_error();
    ASSERT_EQ(prepare(), ATTILE_OK);
    EXPECT_NE(prepared, first);
    attile_prepared_destroy(nullptr);
}

TEST_F(PreparedTest, OutlivesItsContextWithoutHarm) {
    attile_context *const other = recording_context();
    ASSERT_EQ(attile_gemm_prepare(other, &gemm, &prepared), ATTILE_OK) << last_error();
    attile_context_destroy(other);
    EXPECT_EQ(run(), ATTILE_ERROR_INVALID_CONTEXT);
    attile_context *const later = recording_context();
    EXPECT_EQ(run(), ATTILE_ERROR_INVALID_CONTEXT);
    attile_context_destroy(later);
}

}  // namespace
}  // namespace attile_test

// SPDX-License-Identifier: Apache-2.0
// attile.hpp: ownership, views, and both styles of errors.
#include <attile.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(View, DescribesDenseRowMajorMemory) {
    std::vector<double> data(24);
    const attile_tensor tensor = attile::view(data, {2, 3, 4});
    EXPECT_EQ(tensor.data, data.data());
    EXPECT_EQ(tensor.dtype, ATTILE_F64);
    EXPECT_EQ(tensor.rank, 3);
    EXPECT_EQ(tensor.stride[0], 12);
    EXPECT_EQ(tensor.stride[1], 4);
    EXPECT_EQ(tensor.stride[2], 1);
}

TEST(View, OfTooShortARangeIsRefusedByTheCall) {
    const attile::Context context("reference");
    std::array<float, 3> small{};
    std::vector<float> b(4), d(4);
    attile::GemmArgs args;
    args.a = attile::view(small, {2, 2});
    args.b = attile::view(b, {2, 2});
    args.d = attile::view(d, {2, 2});
    const attile::Status status = context.try_gemm(args);
    EXPECT_EQ(status.code(), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_NE(status.message().find("a"), std::string::npos);
}

TEST(View, OfARankOutOfRangeIsRefusedByTheCall) {
    const attile::Context context("reference");
    std::vector<float> data(32), out(32);
    attile::SoftmaxArgs args;
    args.x = attile::view(data, {2, 2, 2, 2, 2});
    args.y = attile::view(out, {2, 2, 2, 2, 2});
    EXPECT_EQ(context.try_softmax(args).code(), ATTILE_ERROR_INVALID_RANK);
}

TEST(Call, ComputesAndQueries) {
    const attile::Context context("reference");
    const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 0, 1, 1, 1};
    std::vector<float> d(4, kNaN);
    attile::GemmArgs args;
    args.a = attile::view(a, {2, 3});
    args.b = attile::view(b, {3, 2});
    args.d = attile::view(std::span<float>(d), {2, 2});
    EXPECT_EQ(context.query(args).level, ATTILE_SUPPORT_NATIVE);
    context.gemm(args);
    EXPECT_EQ(d, (std::vector<float>{4, 5, 10, 11}));
    EXPECT_STREQ(context.info().backend, "reference");
}

TEST(Call, MultipliesGroupsOfRows) {
    const attile::Context context("reference");
    const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 0, 1, 0, 2, 2, 0};  // Two groups: as it is; twice, columns exchanged.
    const std::vector<int32_t> offsets = {0, 1, 3};
    std::vector<float> d(6, -1.0f);
    attile::GemmGroupedArgs args;
    args.a = attile::view(a, {3, 2});
    args.b = attile::view(b, {2, 2, 2});
    args.d = attile::view(std::span<float>(d), {3, 2});
    args.row_offsets = attile::view(offsets, {3});
    EXPECT_EQ(context.query(args).level, ATTILE_SUPPORT_NATIVE);
    context.gemm_grouped(args);
    EXPECT_EQ(d, (std::vector<float>{1, 2, 8, 6, 12, 10}));
    args.row_offsets = {};
    EXPECT_EQ(context.try_gemm_grouped(args).code(), ATTILE_ERROR_NULL_ARGUMENT);
}

TEST(Call, TakesKeysAndValuesOfEightBits) {
    const attile::Context context("reference");
    const std::vector<float> q = {1, 2}, k_scale = {0.5F, 0.25F}, v_scale = {0.125F};
    const std::vector<std::int8_t> k = {2, 4, 4, 8}, v = {8, -16, 24, 127};  // Both keys are 1 and 2.
    std::vector<float> o(2, kNaN);
    attile::AttentionArgs args;
    args.q = attile::view(q, {1, 1, 1, 2});
    args.k = attile::view(k, {1, 1, 2, 2});
    args.v = attile::view(v, {1, 1, 2, 2});
    args.k_scale = attile::view(k_scale, {2, 1});
    args.v_scale = attile::view(v_scale, {1});
    args.o = attile::view(o, {1, 1, 1, 2});
    context.attention(args);
    EXPECT_NEAR(o[0], 2, 1e-6);
    EXPECT_NEAR(o[1], 6.9375, 1e-6);
    attile::AttentionPointers at;
    std::vector<float> doubled = {0.25F};
    at.v_scale = doubled.data();
    context.prepare(args).run(at);
    EXPECT_NEAR(o[0], 4, 1e-6);
}

TEST(Call, TakesQueriesOfEightBits) {
    const attile::Context context("reference");
    const std::vector<std::int8_t> q = {0, 4}, k = {1, 0, 2, 0}, v = {8, 4, 4, 8};  // Scores are 0 and 0, as q has no part of k.
    const std::vector<float> q_scale = {0.5F}, k_scale = {1.0F};
    std::vector<float> o(2, kNaN);
    attile::AttentionArgs args;
    args.q = attile::view(q, {1, 1, 1, 2});
    args.k = attile::view(k, {1, 1, 2, 2});
    args.v = attile::view(v, {1, 1, 2, 2});
    args.q_scale = attile::view(q_scale, {1});
    args.k_scale = attile::view(k_scale, {1});
    args.o = attile::view(o, {1, 1, 1, 2});
    args.flags = ATTILE_FLAG_FAST_ACCUMULATION;  // Of e4m3 alone.
    context.attention(args);
    EXPECT_NEAR(o[0], 6, 1e-6);
    EXPECT_NEAR(o[1], 6, 1e-6);
    attile::AttentionPointers at;
    const std::vector<std::int8_t> other = {2, 0};     // Scores differ by log 2.
    const std::vector<float> doubling = {0.4901291F};  // log 2 / sqrt 2
    at.q = const_cast<std::int8_t *>(other.data());
    at.q_scale = const_cast<float *>(doubling.data());
    context.prepare(args).run(at);
    EXPECT_NEAR(o[0], (8.0 + 2 * 4) / 3, 1e-5);
    EXPECT_NEAR(o[1], (4.0 + 2 * 8) / 3, 1e-5);
}

TEST(Call, GivesResultsOfEightBits) {
    const attile::Context context("reference");
    const std::vector<float> a = {3, 500}, b = {1}, by_rows = {-2, 2}, half = {0.5F};
    std::vector<std::int8_t> d(2, -128);
    attile::GemmArgs product;
    product.a = attile::view(a, {2, 1});
    product.b = attile::view(b, {1, 1});
    product.d = attile::view(d, {2, 1});
    product.d_scale = attile::view(by_rows, {2, 1});
    context.gemm(product);
    EXPECT_EQ(d[0], -2);  // Of -1.5 the even neighbour.
    EXPECT_EQ(d[1], 127);
    attile::GemmPointers at;
    std::vector<float> others = {1, 250};
    at.d_scale = others.data();
    context.prepare(product).run(at);
    EXPECT_EQ(d[0], 3);
    EXPECT_EQ(d[1], 2);
    attile::AttentionArgs args;
    args.q = args.k = attile::view(b, {1, 1, 1, 1});
    args.v = attile::view(b, {1, 1, 1, 1});
    args.o = attile::view(d, {1, 1, 1, 1});
    args.o_scale = attile::view(half, {1});
    context.attention(args);
    EXPECT_EQ(d[0], 2);
}

TEST(Call, GivesGradientsOfAMerge) {
    const attile::Context context("reference");
    const std::vector<float> parts = {1, 2, 3, 5}, lse_parts = {0, 0}, dout = {1, 1};
    std::vector<float> o(2, kNaN), lse(1, kNaN), gradients(4, kNaN), lse_gradients(2, kNaN);
    const auto part = [](auto &values, std::size_t i) { return attile::view(std::span(values).subspan(2 * i, 2), {1, 1, 1, 2}); };
    const auto number = [](auto &values, std::size_t i) { return attile::view(std::span(values).subspan(i, 1), {1, 1, 1}); };
    const attile_tensor o_views[2] = {part(parts, 0), part(parts, 1)}, lse_views[2] = {number(lse_parts, 0), number(lse_parts, 1)};
    const attile_tensor do_views[2] = {part(gradients, 0), part(gradients, 1)};
    const attile_tensor dlse_views[2] = {number(lse_gradients, 0), number(lse_gradients, 1)};
    attile::AttentionMergeArgs merge;
    merge.o_parts = o_views;
    merge.lse_parts = lse_views;
    merge.parts = 2;
    merge.o = part(o, 0);
    merge.lse = number(lse, 0);
    context.attention_merge(merge);
    attile::AttentionMergeBackwardArgs args;
    args.forward = &merge;
    args.dout = part(dout, 0);
    args.do_parts = do_views;
    args.dlse_parts = dlse_views;
    EXPECT_EQ(context.query(args).level, ATTILE_SUPPORT_NATIVE);
    context.attention_merge_backward(args);
    for (const float share : gradients) EXPECT_FLOAT_EQ(share, 0.5F);
    EXPECT_FLOAT_EQ(lse_gradients[0], -1.25F);  // Half of what part 0 has less than the whole.
    EXPECT_FLOAT_EQ(lse_gradients[1], 1.25F);
}

TEST(Call, IsPreparedAndRunElsewhere) {
    const attile::Context context("reference");
    const std::vector<float> a = {1, 2, 3, 4}, b = {1, 1, 1, 1};
    std::vector<float> d(4, kNaN), other(4, kNaN);
    attile::GemmArgs args;
    args.a = attile::view(a, {2, 2});
    args.b = attile::view(b, {2, 2});
    args.d = attile::view(d, {2, 2});
    attile::Prepared prepared = context.prepare(args);
    attile::GemmPointers at;
    at.d = other.data();
    prepared.run(at);
    EXPECT_EQ(other, (std::vector<float>{3, 3, 7, 7}));
    EXPECT_TRUE(std::isnan(d[0]));
    EXPECT_EQ(prepared.try_run(attile::AttentionPointers()).code(), ATTILE_ERROR_INVALID_VALUE);
    const attile::Prepared moved = std::move(prepared);
    EXPECT_EQ(prepared.try_run(at).code(), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_TRUE(moved.try_run(attile::GemmPointers()).ok());
    args.b.shape[0] = 3;
    EXPECT_THROW((void)context.prepare(args), attile::Error);
}

TEST(Call, ThrowsTheLibrarysSentence) {
    const attile::Context context("reference");
    std::vector<float> data(6);
    attile::GemmArgs args;
    args.a = attile::view(data, {2, 3});
    args.b = attile::view(data, {2, 3});
    std::vector<float> d(4);
    args.d = attile::view(d, {2, 2});
    try {
        context.gemm(args);
        FAIL() << "inner extents disagree";
    } catch (const attile::Error &error) {
        EXPECT_EQ(error.code(), ATTILE_ERROR_SHAPE_MISMATCH);
        EXPECT_NE(error.message().find("gemm"), std::string::npos);
        EXPECT_NE(std::string(error.what()).find("ATTILE_ERROR_SHAPE_MISMATCH"), std::string::npos);
    }
}

TEST(Context, ThatCannotBeOpenedThrows) {
    EXPECT_THROW(attile::Context("nosuch"), attile::Error);
    attile::Context none;
    EXPECT_EQ(attile::Context::try_create(none, "nosuch").code(), ATTILE_ERROR_BACKEND_NOT_FOUND);
    EXPECT_EQ(none.try_synchronize().code(), ATTILE_ERROR_INVALID_CONTEXT);
    EXPECT_NE(attile::backend_report().find("nosuch"), std::string::npos);
}

TEST(Owners, MoveAndRelease) {
    attile::Context context("reference");
    attile::Buffer<float> buffer(context, 100);
    ASSERT_NE(buffer.data(), nullptr);
    attile::Buffer<float> moved = std::move(buffer);
    EXPECT_EQ(moved.size(), 100u);
    attile::Stream stream(context), other;
    other = std::move(stream);
    context.synchronize(other.get());
    attile::Buffer<double> huge;
    EXPECT_FALSE(attile::Buffer<double>::try_create(huge, context, INT64_MAX));
    EXPECT_FALSE(attile::Buffer<double>::try_create(huge, context, -1));
}

}  // namespace

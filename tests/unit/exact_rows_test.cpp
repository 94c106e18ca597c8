// SPDX-License-Identifier: Apache-2.0
// What reduce, softmax, merge and attention make of ATTILE_FLAG_EXACT_PRODUCTS.
#include <functional>
#include <string>
#include <vector>

#include "front_test.h"

namespace attile_test {
namespace {

class ExactRows : public FrontTest {
  protected:
    ExactRows() {
        attile_reduce_init(&reduce, sizeof reduce);
        attile_softmax_init(&softmax, sizeof softmax);
        attile_attention_merge_init(&merge, sizeof merge);
        attile_attention_init(&attention, sizeof attention);
        reduce.flags = softmax.flags = merge.flags = attention.flags = ATTILE_FLAG_EXACT_PRODUCTS;
        reduce.op = ATTILE_REDUCE_SUM;
        take(ATTILE_F32);
    }
    void take(int32_t dtype) {
        reduce.x = softmax.x = dense(dtype, {3, 5});
        reduce.y = dense(dtype, {3, 1});
        softmax.y = dense(dtype, {3, 5});
        reduce.axis = softmax.axis = 1;
        for (int i = 0; i < 2; ++i) {
            o_parts[i] = dense(dtype, {1, 2, 3, 4});
            lse_parts[i] = dense(dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, {1, 2, 3});
        }
        merge.o_parts = o_parts;
        merge.lse_parts = lse_parts;
        merge.parts = 2;
        merge.o = dense(dtype, {1, 2, 3, 4});
        attention.q = dense(dtype, {1, 2, 3, 4});
        attention.k = dense(dtype, {1, 2, 5, 4});
        attention.v = dense(dtype, {1, 2, 5, 4});
        attention.o = dense(dtype, {1, 2, 3, 4});
    }
    struct Operation {
        const char *name;
        std::function<int32_t(attile_context *)> run;
        std::function<int32_t(attile_context *, attile_support *)> query;
        uint32_t *flags;
    };
    std::vector<Operation> operations() {
        return {{"reduce", [&](auto *on) { return attile_reduce(on, &reduce); },
                 [&](auto *on, auto *support) { return attile_reduce_query(on, &reduce, support); }, &reduce.flags},
                {"softmax", [&](auto *on) { return attile_softmax(on, &softmax); },
                 [&](auto *on, auto *support) { return attile_softmax_query(on, &softmax, support); }, &softmax.flags},
                {"attention_merge", [&](auto *on) { return attile_attention_merge(on, &merge); },
                 [&](auto *on, auto *support) { return attile_attention_merge_query(on, &merge, support); }, &merge.flags},
                {"attention", [&](auto *on) { return attile_attention(on, &attention); },
                 [&](auto *on, auto *support) { return attile_attention_query(on, &attention, support); }, &attention.flags}};
    }
    // The call and the query both say so.
    static void expect_refused(const Operation &operation, attile_context *on, int32_t status, const std::string &sentence) {
        const std::string whole = std::string(operation.name) + ": " + sentence;
        EXPECT_EQ(operation.run(on), status);
        EXPECT_EQ(last_error(), whole);
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(operation.query(on, &support), ATTILE_OK) << last_error();
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
        EXPECT_EQ(support.status, status);
        EXPECT_EQ(support.text, whole);
    }

    attile_reduce_args reduce;
    attile_softmax_args softmax;
    attile_attention_merge_args merge;
    attile_attention_args attention;
    attile_tensor o_parts[2], lse_parts[2];
};

TEST_F(ExactRows, TheFlagAndFloat64ReachTheBackend) {
    for (const int32_t dtype : {ATTILE_F64, ATTILE_F32}) {
        take(dtype);
        for (const Operation &operation : operations()) ASSERT_EQ(operation.run(context), ATTILE_OK) << last_error();
        for (const int32_t compute :
             {recording().reduce.compute, recording().softmax.compute, recording().merge.compute, recording().attention.compute})
            EXPECT_EQ(compute, ATTILE_F64);
        for (const attile_launch &launch :
             {recording().reduce.launch, recording().softmax.launch, recording().merge.launch, recording().attention.launch})
            EXPECT_EQ(launch.flags, static_cast<uint32_t>(ATTILE_FLAG_EXACT_PRODUCTS));
        EXPECT_EQ(recording().reduce.x.dtype, dtype);
    }
    for (const Operation &operation : operations()) {
        *operation.flags = 0;
        ASSERT_EQ(operation.run(context), ATTILE_OK) << last_error();
    }
    EXPECT_EQ(recording().reduce.compute, ATTILE_F32);
    EXPECT_EQ(recording().merge.compute, ATTILE_F32);
}

TEST_F(ExactRows, RowsMayBeOfSixteenBits) {
    take(ATTILE_BF16);
    for (const Operation &operation : operations()) {
        if (operation.name == std::string("attention")) continue;
        EXPECT_EQ(operation.run(context), ATTILE_OK) << last_error();
    }
}

TEST_F(ExactRows, AttentionIsOfFloat64AndFloat32) {
    const Operation operation = operations().back();
    take(ATTILE_F16);
    expect_refused(operation, context, ATTILE_ERROR_UNSUPPORTED_DTYPE,
                   "EXACT_PRODUCTS is set and q has the type f16 (0x0210); expected f64 or f32");
    take(ATTILE_F32);
    attention.v.dtype = ATTILE_BF16;
    expect_refused(operation, context, ATTILE_ERROR_UNSUPPORTED_DTYPE,
                   "EXACT_PRODUCTS is set and v has the type bf16 (0x0410); expected f64 or f32");
}

TEST_F(ExactRows, ASoftcapIsRefused) {
    attention.softcap = 30;
    expect_refused(operations().back(), context, ATTILE_ERROR_UNSUPPORTED_FEATURE,
                   "EXACT_PRODUCTS is set and softcap is 30; expected 0, since tanh has no exact steps");
}

TEST_F(ExactRows, AnOlderBackendIsNotGivenWhatItDoesNotKnow) {
    attile_context *const older = recording_context(Recorder::kFirstVersions);
    for (const Operation &operation : operations()) {
        expect_refused(operation, older, ATTILE_ERROR_UNSUPPORTED_FEATURE, "the backend 'older' is too old to know EXACT_PRODUCTS");
        *operation.flags = 0;
        EXPECT_EQ(operation.run(older), ATTILE_OK) << last_error();
    }
    attile_context_destroy(older);
}

}  // namespace
}  // namespace attile_test

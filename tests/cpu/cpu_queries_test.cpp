// SPDX-License-Identifier: Apache-2.0
// Queries of extents that no memory holds: inputs of stride 0, outputs without data, every extent anything that 63 bits hold. An answer or
// a refusal comes, and no size of what would be needed wraps: to a number below 0, or to one less than a smaller problem needs.
#include <gtest/gtest.h>

#include <algorithm>

#include "cpu_contexts.h"
#include "test_random.h"

namespace attile::test {
namespace {

using Shape = std::vector<std::int64_t>;

template <class Body>
void on_host_backends(Body body) {
    for (const char *name : {"cpu", "reference"}) {
        SCOPED_TRACE(name);
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = name;
        attile_context *context = nullptr;
        ASSERT_EQ(attile_context_create(&options, &context), ATTILE_OK) << last_error();
        const CpuContext closes(context);
        body(context);
    }
}

std::int64_t extent(Random &random) {
    const std::int64_t power = std::int64_t{1} << random.between(0, 62);
    return random.pick<std::int64_t>({0, 1, 1, 1, 2, 5, 8, 64, 1000, power, power - 1, power + 1, power - 8, power - 16, power - 24,
                                      std::max<std::int64_t>(power - random.between(0, 4096), 0), INT64_MAX});
}

// An input of stride 0.
attile_tensor input(const Shape &shape, std::int32_t dtype) {
    attile_tensor t = {};
    t.dtype = dtype;
    t.rank = static_cast<std::int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), t.shape);
    return t;
}

// A dense output; strides that no 63 bits hold are left for the library to refuse.
attile_tensor output(const Shape &shape, std::int32_t dtype) {
    attile_tensor t = input(shape, dtype);
    std::int64_t step = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        t.stride[axis] = step;
        if (__builtin_mul_overflow(step, shape[axis], &step)) step = INT64_MAX;
    }
    return t;
}

struct Types {
    std::int32_t in, out;
};
Types types(Random &random) {
    return random.pick<Types>({{ATTILE_F32, ATTILE_F32}, {ATTILE_F64, ATTILE_F64}, {ATTILE_F16, ATTILE_F16}, {ATTILE_BF16, ATTILE_F32}});
}

template <class Args, class Query>
void ask(attile_context *context, const Args &args, Query query, std::int64_t *answered) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    const std::int32_t status = query(context, &args, &support);
    if (status != ATTILE_OK) {
        EXPECT_EQ(status / 1000, 1) << attile_status_name(status);
        return;
    }
    ++*answered;
    EXPECT_GE(support.workspace_bytes, 0);
    EXPECT_GE(support.flops, 0);
    EXPECT_GE(support.bytes, 0);
    EXPECT_GE(support.blocks, 0);
}

constexpr int kDraws = 4000;
constexpr std::int64_t kAnswers = 100;  // of these at least were questions that had to be answered

TEST(CpuQueries, Gemm) {
    on_host_backends([](attile_context *context) {
        Random random(1);
        std::int64_t answered = 0;
        for (int i = 0; i < kDraws; ++i) {
            const std::int64_t b = extent(random), m = extent(random), n = extent(random), k = extent(random);
            const Types t = types(random);
            attile_gemm_args args;
            attile_gemm_init(&args, sizeof args);
            args.a = input({b, m, k}, t.in);
            args.b = input({b, k, n}, t.in);
            if (random.chance(0.5)) args.b.stride[2] = 1;
            if (random.chance(0.3)) args.b.stride[1] = 1;
            if (random.chance(0.5)) args.a.stride[2] = 1;
            args.d = output({b, m, n}, t.out);
            ask(context, args, attile_gemm_query, &answered);
        }
        EXPECT_GE(answered, kAnswers);
    });
}

TEST(CpuQueries, AttentionAndItsGradients) {
    on_host_backends([](attile_context *context) {
        Random random(2);
        std::int64_t answered = 0;
        for (int i = 0; i < kDraws; ++i) {
            const std::int64_t b = extent(random), heads_kv = extent(random), group = random.pick<std::int64_t>({1, 2, 8});
            const std::int64_t len_q = extent(random), len_k = extent(random), d = extent(random), dv = extent(random);
            std::int64_t heads = 0;
            if (__builtin_mul_overflow(heads_kv, group, &heads)) continue;
            const Types t = types(random);
            const std::int32_t statistic = t.in == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
            attile_attention_args args;
            attile_attention_init(&args, sizeof args);
            args.flags = random.chance(0.3) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
            args.q = input({b, heads, len_q, d}, t.in);
            args.k = input({b, heads_kv, len_k, d}, t.in);
            args.v = input({b, heads_kv, len_k, dv}, t.in);
            args.mask = static_cast<std::int32_t>(random.between(0, 2));
            const bool packed = random.chance(0.3);
            if (packed) {
                const std::int64_t sequences = extent(random);
                args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = 1;
                args.cu_len_q = input({sequences}, ATTILE_I32);
                args.cu_len_k = input({sequences}, ATTILE_I32);
                args.max_len_q = random.chance(0.5) ? extent(random) : 0;
                args.max_len_k = random.chance(0.5) ? extent(random) : 0;
            }
            args.o = output({args.q.shape[0], heads, len_q, dv}, t.out);
            if (random.chance(0.5) || d == 0 || dv == 0) args.lse = output({args.q.shape[0], heads, len_q}, statistic);
            ask(context, args, attile_attention_query, &answered);
            args.lse = output({args.q.shape[0], heads, len_q}, statistic);
            attile_attention_backward_args backward;
            attile_attention_backward_init(&backward, sizeof backward);
            backward.forward = &args;
            backward.dout = input({args.q.shape[0], heads, len_q, dv}, t.in);
            backward.dq = output({args.q.shape[0], heads, len_q, d}, t.in);
            backward.dk = output({args.k.shape[0], heads_kv, len_k, d}, t.in);
            backward.dv = output({args.k.shape[0], heads_kv, len_k, dv}, t.in);
            ask(context, backward, attile_attention_backward_query, &answered);
        }
        EXPECT_GE(answered, kAnswers);
    });
}

TEST(CpuQueries, Merge) {
    on_host_backends([](attile_context *context) {
        Random random(3);
        std::int64_t answered = 0;
        for (int i = 0; i < kDraws; ++i) {
            const Shape rows = {extent(random), extent(random), extent(random)};
            const Shape shape = {rows[0], rows[1], rows[2], extent(random)};
            const std::vector<attile_tensor> o_parts(static_cast<std::size_t>(random.pick<std::int64_t>({1, 2, 7, 40})),
                                                     input(shape, ATTILE_F64));
            const std::vector<attile_tensor> lse_parts(o_parts.size(), input(rows, ATTILE_F64));
            attile_attention_merge_args args;
            attile_attention_merge_init(&args, sizeof args);
            args.parts = static_cast<std::int64_t>(o_parts.size());
            args.o_parts = o_parts.data();
            args.lse_parts = lse_parts.data();
            args.o = output(shape, random.pick<std::int32_t>({ATTILE_F64, ATTILE_F32, ATTILE_F16, ATTILE_BF16}));
            if (random.chance(0.5)) args.lse = output(rows, ATTILE_F64);
            ask(context, args, attile_attention_merge_query, &answered);
            args.lse = output(rows, ATTILE_F64);
            const std::vector<attile_tensor> do_parts(o_parts.size(), output(shape, ATTILE_F32));
            const std::vector<attile_tensor> dlse_parts(o_parts.size(), output(rows, ATTILE_F64));
            attile_attention_merge_backward_args backward;
            attile_attention_merge_backward_init(&backward, sizeof backward);
            backward.forward = &args;
            backward.dout = input(shape, ATTILE_F64);
            if (random.chance(0.5)) backward.dlse = input(rows, ATTILE_F64);
            backward.do_parts = do_parts.data();
            backward.dlse_parts = dlse_parts.data();
            ask(context, backward, attile_attention_merge_backward_query, &answered);
        }
        EXPECT_GE(answered, kAnswers);
    });
}

TEST(CpuQueries, ReduceAndSoftmax) {
    on_host_backends([](attile_context *context) {
        Random random(4);
        std::int64_t answered = 0;
        for (int i = 0; i < kDraws; ++i) {
            Shape shape = {extent(random), extent(random), extent(random)};
            const Types t = types(random);
            attile_softmax_args softmax;
            attile_softmax_init(&softmax, sizeof softmax);
            softmax.x = input(shape, t.in);
            if (random.chance(0.5)) softmax.x.stride[random.between(0, 2)] = 1;
            softmax.y = output(shape, t.out);
            softmax.axis = static_cast<std::int32_t>(random.between(0, 2));
            ask(context, softmax, attile_softmax_query, &answered);
            attile_reduce_args reduce;
            attile_reduce_init(&reduce, sizeof reduce);
            reduce.x = softmax.x;
            reduce.axis = softmax.axis;
            reduce.op = static_cast<std::int32_t>(random.between(1, 4));
            shape[static_cast<std::size_t>(reduce.axis)] = 1;
            reduce.y = output(shape, t.out);
            ask(context, reduce, attile_reduce_query, &answered);
        }
        EXPECT_GE(answered, kAnswers);
    });
}

// The pool of more than there is, not a wrapped size of less: k beyond all memory, few rows packed; a head as wide.
TEST(CpuQueries, NeedsGrowWithExtents) {
    on_host_backends([](attile_context *context) {
        std::int64_t least = 0;
        for (int power = 10; power < 55; ++power) {
            attile_gemm_args args;
            attile_gemm_init(&args, sizeof args);
            const std::int64_t k = std::int64_t{1} << power;
            args.a = input({1, k}, ATTILE_F32);
            args.b = input({k, 64}, ATTILE_F32);
            args.b.stride[1] = 1;
            args.d = output({1, 64}, ATTILE_F32);
            attile_support support;
            attile_support_init(&support, sizeof support);
            ASSERT_EQ((attile_gemm_query(context, &args, &support)), ATTILE_OK) << last_error();
            if (support.level == ATTILE_SUPPORT_NONE) continue;
            // Splits of k on a device may need no more; nothing at all is what a size that wrapped to 0 looks like.
            EXPECT_TRUE(least == 0 || support.workspace_bytes > 0) << "k = 2^" << power;
            least = support.workspace_bytes;
        }
        least = 0;
        for (int power = 10; power < 61; ++power) {
            attile_attention_args args;
            attile_attention_init(&args, sizeof args);
            const std::int64_t d = std::int64_t{1} << power;
            args.q = input({1, 1, 1, d}, ATTILE_F32);
            args.k = input({1, 1, 3, d}, ATTILE_F32);
            args.v = input({1, 1, 3, 16}, ATTILE_F32);
            args.o = output({1, 1, 1, 16}, ATTILE_F32);
            attile_support support;
            attile_support_init(&support, sizeof support);
            ASSERT_EQ((attile_attention_query(context, &args, &support)), ATTILE_OK) << last_error();
            if (support.level == ATTILE_SUPPORT_NONE) continue;
            EXPECT_GE(support.workspace_bytes, least) << "head_dim = 2^" << power;
            least = support.workspace_bytes;
        }
    });
}

}  // namespace
}  // namespace attile::test

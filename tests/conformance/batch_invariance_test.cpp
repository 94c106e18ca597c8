// SPDX-License-Identifier: Apache-2.0
// ATTILE_FLAG_BATCH_INVARIANT: a row computed alone has the bits that it has among others.
#include <cstring>
#include <utility>

#include "properties.h"
#include "test_random.h"

namespace attile::test {
namespace {

std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> x(static_cast<std::size_t>(count));
    for (float &value : x) value = static_cast<float>(random.normal());
    return x;
}

attile_tensor tensor(std::vector<float> &data, std::vector<std::int64_t> shape) {
    attile_tensor t;
    EXPECT_EQ(attile_tensor_init(&t, data.data(), ATTILE_F32, static_cast<std::int32_t>(shape.size()), shape.data()), ATTILE_OK);
    return t;
}

// The view of `count` indices from `first` on along an axis.
attile_tensor part(attile_tensor t, int axis, std::int64_t first, std::int64_t count) {
    t.data = static_cast<unsigned char *>(t.data) + first * t.stride[axis] * ((t.dtype & 0xff) / 8);
    t.shape[axis] = count;
    return t;
}

bool same_bits(const float *a, const float *b, std::int64_t count) {
    return std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(float)) == 0;
}

using BatchInvariance = PropertyTest;

TEST_F(BatchInvariance, Gemm) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kM = 131, kN = 67, kK = 1025;
        std::vector<float> a = random_floats(kM * kK, 1), b = random_floats(kK * kN, 2), d(kM * kN), alone(kN);
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_BATCH_INVARIANT;
        args.a = tensor(a, {kM, kK});
        args.b = tensor(b, {kK, kN});
        args.d = tensor(d, {kM, kN});
        ASSERT_TRUE(succeeded(attile_gemm(context, &args)));
        const attile_tensor all = args.a;
        args.d = tensor(alone, {1, kN});
        for (const std::int64_t m : {0, 1, 63, 64, 127, 130}) {
            args.a = part(all, 0, m, 1);
            ASSERT_TRUE(succeeded(attile_gemm(context, &args)));
            EXPECT_TRUE(same_bits(alone.data(), d.data() + m * kN, kN)) << "row " << m;
        }
    });
}

TEST_F(BatchInvariance, GemmOfGroups) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kM = 200, kN = 67, kK = 1025;
        std::vector<float> a = random_floats(kM * kK, 1), b = random_floats(2 * kK * kN, 2), d(kM * kN), alone(kN);
        std::vector<std::int32_t> offsets = {0, 131, 200};
        attile_gemm_grouped_args args;
        attile_gemm_grouped_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_BATCH_INVARIANT;
        args.a = tensor(a, {kM, kK});
        args.b = tensor(b, {2, kK, kN});
        args.d = tensor(d, {kM, kN});
        const std::int64_t three = 3;
        ASSERT_TRUE(succeeded(attile_tensor_init(&args.row_offsets, offsets.data(), ATTILE_I32, 1, &three)));
        ASSERT_TRUE(succeeded(attile_gemm_grouped(context, &args)));
        const attile_tensor all = args.a;
        args.d = tensor(alone, {1, kN});
        for (const std::int32_t m : {0, 1, 63, 64, 127, 130, 131, 140, 199}) {
            args.a = part(all, 0, m, 1);
            offsets = {0, m < 131 ? 1 : 0, 1};  // The one row, of its group.
            ASSERT_TRUE(succeeded(attile_gemm_grouped(context, &args)));
            EXPECT_TRUE(same_bits(alone.data(), d.data() + m * kN, kN)) << "row " << m;
        }
    });
}

TEST_F(BatchInvariance, GemmOfABatch) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kB = 9, kM = 17, kN = 33, kK = 257;
        std::vector<float> a = random_floats(kB * kM * kK, 3), b = random_floats(kB * kK * kN, 4), d(kB * kM * kN), alone(kM * kN);
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_BATCH_INVARIANT;
        args.a = tensor(a, {kB, kM, kK});
        args.b = tensor(b, {kB, kK, kN});
        args.d = tensor(d, {kB, kM, kN});
        ASSERT_TRUE(succeeded(attile_gemm(context, &args)));
        const attile_tensor all_a = args.a, all_b = args.b;
        args.d = tensor(alone, {1, kM, kN});
        for (const std::int64_t x : {0, 4, 8}) {
            args.a = part(all_a, 0, x, 1);
            args.b = part(all_b, 0, x, 1);
            ASSERT_TRUE(succeeded(attile_gemm(context, &args)));
            EXPECT_TRUE(same_bits(alone.data(), d.data() + x * kM * kN, kM * kN)) << "entry " << x;
        }
    });
}

// Weights of 8 bits in groups, for rows of floats and of 8 bits.
TEST_F(BatchInvariance, GemmOfEightBits) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kM = 131, kN = 67, kK = 1056, kGroups = kK / 32;
        std::vector<float> x = random_floats(kM * kK, 11), row_scales = random_floats(kM, 12), scales = random_floats(kGroups * kN, 13),
                           d(kM * kN), alone(kN);
        std::vector<std::int8_t> p(kM * kK), q(kK * kN);
        Random random(14);
        for (std::vector<std::int8_t> *bytes : {&p, &q})
            for (std::int8_t &byte : *bytes) byte = static_cast<std::int8_t>(random.between(-128, 127));
        const auto narrow = [](std::vector<std::int8_t> &data, std::int64_t rows, std::int64_t columns) {
            return attile_tensor{data.data(), ATTILE_I8, 2, {rows, columns}, {columns, 1}};
        };
        for (const auto &[is_narrow, by_columns] : {std::pair{false, false}, {true, false}, {true, true}}) {
            attile_gemm_args args;
            attile_gemm_init(&args, sizeof args);
            args.flags = ATTILE_FLAG_BATCH_INVARIANT;
            args.a = is_narrow ? narrow(p, kM, kK) : tensor(x, {kM, kK});
            args.b = narrow(q, kK, kN);
            args.b_scale = tensor(scales, {kGroups, kN});
            if (is_narrow) args.a_scale = tensor(row_scales, {kM, 1});
            args.d = tensor(d, {kM, kN});
            if (by_columns) {
                args.d.stride[0] = 1;
                args.d.stride[1] = kM;
            }
            attile_support support;
            attile_support_init(&support, sizeof support);
            ASSERT_TRUE(succeeded(attile_gemm_query(context, &args, &support)));
            if (support.level == ATTILE_SUPPORT_NONE) return;
            ASSERT_TRUE(succeeded(attile_gemm(context, &args)));
            args.d = tensor(alone, {1, kN});
            for (const std::int64_t m : {0, 1, 63, 64, 127, 130}) {
                args.a = is_narrow ? narrow(p, 1, kK) : tensor(x, {1, kK});
                args.a.data = is_narrow ? static_cast<void *>(p.data() + m * kK) : x.data() + m * kK;
                if (is_narrow) args.a_scale = part(tensor(row_scales, {kM, 1}), 0, m, 1);
                ASSERT_TRUE(succeeded(attile_gemm(context, &args)));
                std::vector<float> row(d.begin() + m * kN, d.begin() + (m + 1) * kN);
                for (std::int64_t n = 0; by_columns && n < kN; ++n)
                    row[static_cast<std::size_t>(n)] = d[static_cast<std::size_t>(n * kM + m)];
                EXPECT_TRUE(same_bits(alone.data(), row.data(), kN)) << "row " << m << (by_columns ? " of columns" : "");
            }
        }
    });
}

// Entry by entry for every mask, row by row where the mask lets a row stand alone. Narrow: keys and values of 8 bits, with a scale for each
// token.
void attention(attile_context *context, std::int32_t mask, std::int64_t len_q, std::int64_t len_k, bool narrow = false) {
    constexpr std::int64_t kB = 5, kH = 4, kHkv = 2, kD = 64;
    std::vector<float> q = random_floats(kB * kH * len_q * kD, 5), k = random_floats(kB * kHkv * len_k * kD, 6);
    std::vector<float> v = random_floats(kB * kHkv * len_k * kD, 7), o(q.size()), lse(static_cast<std::size_t>(kB * kH * len_q));
    std::vector<float> alone(static_cast<std::size_t>(kH * len_q * kD));
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.flags = ATTILE_FLAG_BATCH_INVARIANT;
    args.mask = mask;
    args.q = tensor(q, {kB, kH, len_q, kD});
    args.k = tensor(k, {kB, kHkv, len_k, kD});
    args.v = tensor(v, {kB, kHkv, len_k, kD});
    args.o = tensor(o, {kB, kH, len_q, kD});
    args.lse = tensor(lse, {kB, kH, len_q});
    std::vector<std::int8_t> bytes(k.size());
    Random random(15);
    for (std::int8_t &byte : bytes) byte = static_cast<std::int8_t>(random.between(-128, 127));
    std::vector<float> scales = random_floats(kB * kHkv * len_k, 16);
    for (float &scale : scales) scale /= 64;
    if (narrow) {
        for (attile_tensor *x : {&args.k, &args.v}) x->data = bytes.data(), x->dtype = ATTILE_I8;
        for (attile_tensor *x : {&args.k_scale, &args.v_scale}) *x = tensor(scales, {kB, kHkv, len_k, 1});
    }
    attile_support support;
    attile_support_init(&support, sizeof support);
    ASSERT_TRUE(succeeded(attile_attention_query(context, &args, &support)));
    if (narrow && support.level == ATTILE_SUPPORT_NONE) return;
    ASSERT_TRUE(succeeded(attile_attention(context, &args)));
    attile_attention_args one = args;
    one.lse = {};
    for (const std::int64_t b : {0, 3, 4}) {
        one.q = part(args.q, 0, b, 1);
        one.k = part(args.k, 0, b, 1);
        one.v = part(args.v, 0, b, 1);
        if (narrow) one.k_scale = part(args.k_scale, 0, b, 1), one.v_scale = part(args.v_scale, 0, b, 1);
        one.o = tensor(alone, {1, kH, len_q, kD});
        ASSERT_TRUE(succeeded(attile_attention(context, &one)));
        EXPECT_TRUE(same_bits(alone.data(), o.data() + b * kH * len_q * kD, kH * len_q * kD)) << "entry " << b;
        if (mask != ATTILE_MASK_NONE) continue;
        for (const std::int64_t i : {std::int64_t{0}, len_q / 2, len_q - 1}) {
            one.q = part(part(args.q, 0, b, 1), 2, i, 1);
            one.o = tensor(alone, {1, kH, 1, kD});
            ASSERT_TRUE(succeeded(attile_attention(context, &one)));
            for (std::int64_t h = 0; h < kH; ++h)
                EXPECT_TRUE(same_bits(alone.data() + h * kD, o.data() + ((b * kH + h) * len_q + i) * kD, kD))
                    << "row " << i << " head " << h;
        }
    }
}

TEST_F(BatchInvariance, Attention) {
    on_every_backend([](attile_context *context) {
        for (const std::int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
            SCOPED_TRACE("mask " + std::to_string(mask));
            attention(context, mask, 35, 130);
            attention(context, mask, 1, 300);
            for (const std::int64_t rows : {1, 6, 35}) attention(context, mask, rows, 300, true);
        }
    });
}

TEST_F(BatchInvariance, ReduceAndSoftmax) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kRows = 77, kLength = 2049;
        std::vector<float> x = random_floats(kRows * kLength, 8), sums(kRows), y(x.size()), sum(1), row(kLength);
        attile_reduce_args reduce;
        attile_reduce_init(&reduce, sizeof reduce);
        reduce.flags = ATTILE_FLAG_BATCH_INVARIANT;
        reduce.op = ATTILE_REDUCE_SUM;
        reduce.axis = 1;
        reduce.x = tensor(x, {kRows, kLength});
        reduce.y = tensor(sums, {kRows, 1});
        ASSERT_TRUE(succeeded(attile_reduce(context, &reduce)));
        attile_softmax_args softmax;
        attile_softmax_init(&softmax, sizeof softmax);
        softmax.flags = ATTILE_FLAG_BATCH_INVARIANT;
        softmax.axis = 1;
        softmax.x = reduce.x;
        softmax.y = tensor(y, {kRows, kLength});
        ASSERT_TRUE(succeeded(attile_softmax(context, &softmax)));
        const attile_tensor all = reduce.x;
        reduce.y = tensor(sum, {1, 1});
        softmax.y = tensor(row, {1, kLength});
        for (const std::int64_t i : {0, 38, 76}) {
            reduce.x = softmax.x = part(all, 0, i, 1);
            ASSERT_TRUE(succeeded(attile_reduce(context, &reduce)));
            EXPECT_TRUE(same_bits(sum.data(), sums.data() + i, 1)) << "row " << i;
            ASSERT_TRUE(succeeded(attile_softmax(context, &softmax)));
            EXPECT_TRUE(same_bits(row.data(), y.data() + i * kLength, kLength)) << "row " << i;
        }
    });
}

// Of a matrix that lies by columns, an axis in between, and rows without a stride of 1 at all.
TEST_F(BatchInvariance, ReduceAndSoftmaxOfColumns) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kRows = 32, kLength = 1031;
        for (const std::int64_t step : {1, 2}) {
            SCOPED_TRACE("rows " + std::to_string(step) + " apart");
            std::vector<float> x = random_floats(kRows * kLength * step, 9), y(x.size()), row(kLength), sums(kRows), sum(1);
            attile_softmax_args softmax;
            attile_softmax_init(&softmax, sizeof softmax);
            softmax.flags = ATTILE_FLAG_BATCH_INVARIANT;
            softmax.axis = 1;
            softmax.x = tensor(x, {kRows, kLength});
            softmax.x.stride[0] = step;
            softmax.x.stride[1] = kRows * step;
            softmax.y = tensor(y, {kRows, kLength});
            ASSERT_TRUE(succeeded(attile_softmax(context, &softmax)));
            attile_reduce_args reduce;
            attile_reduce_init(&reduce, sizeof reduce);
            reduce.flags = ATTILE_FLAG_BATCH_INVARIANT;
            reduce.op = ATTILE_REDUCE_SUM;
            reduce.axis = 1;
            reduce.x = softmax.x;
            reduce.y = tensor(sums, {kRows, 1});
            ASSERT_TRUE(succeeded(attile_reduce(context, &reduce)));
            const attile_tensor all = softmax.x;
            softmax.y = tensor(row, {1, kLength});
            reduce.y = tensor(sum, {1, 1});
            for (std::int64_t i = 0; i < kRows; ++i) {
                softmax.x = reduce.x = part(all, 0, i, 1);
                ASSERT_TRUE(succeeded(attile_softmax(context, &softmax)));
                EXPECT_TRUE(same_bits(row.data(), y.data() + i * kLength, kLength)) << "row " << i;
                ASSERT_TRUE(succeeded(attile_reduce(context, &reduce)));
                EXPECT_TRUE(same_bits(sum.data(), sums.data() + i, 1)) << "row " << i;
            }
        }
    });
}

}  // namespace
}  // namespace attile::test

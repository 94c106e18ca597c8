// SPDX-License-Identifier: Apache-2.0
// Gradients of attention on a device, beyond the conformance list: every kernel once, more units and pairs than one launch takes, numbers
// that are not finite. Judged as conformance judges.
#include "attention_backward_fixture.h"

namespace attile::test {
namespace {

// Small problems: what a sanitizer can get through.
TEST_F(AttentionBackward, FewOfEachKernel) {
    for (const int64_t dim : {32, 64, 96, 128, 256, 264}) {
        AttentionCase c = sized(70, 135, dim);
        check(c, kernel_of(dim));
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        check(c, kernel_of(dim));
        c.bias = BiasKind::kNormal;
        c.bias_axes = 14;
        c.softcap = 3;
        c.alibi = 1;
        c.sinks = true;
        check(c, kernel_of(dim));
        c = sized(70, 135, dim);
        c.q_layout.offset = c.k_layout.offset = c.v_layout.offset = 1;  // Nothing is aligned.
        check(c, kernel_of(dim));
        c.dtype = ATTILE_BF16;
        c.packed_q = c.packed_k = true;
        c.batch = 2;
        check(c, kernel_of(dim));  // Nothing is aligned: not for tensor cores.
    }
    AttentionCase wide = sized(70, 135, 64);
    wide.dtype = ATTILE_F64;
    wide.bias = BiasKind::kNormal;
    wide.sinks = true;
    check(wide, "attention_backward_any_f64");
}

// Small problems for the tensor cores' kernels: masks, groups of heads, lengths, packed sequences, sinks.
TEST_F(AttentionBackward, TensorFewOfEachKernel) {
    if (!has_tensor_cores()) GTEST_SKIP() << "no tensor cores";
    for (const int32_t dtype : {ATTILE_BF16, ATTILE_F16}) {
        for (const int64_t dim : {40, 64, 96, 128, 256}) {
            AttentionCase c = sized(70, 135, dim);
            c.dtype = dtype;
            check(c, kernel16_of(dtype, dim));
            c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            c.sinks = true;
            check(c, kernel16_of(dtype, dim));
            c = sized(140, 75, dim);
            c.dtype = dtype;
            c.batch = 2;
            c.key_lengths = true;
            c.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
            c.window_left = 20;
            c.window_right = 3;
            check(c, kernel16_of(dtype, dim));
            c = sized(70, 135, dim);
            c.dtype = dtype;
            c.batch = 3;
            c.packed_q = c.packed_k = true;
            c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
            check(c, kernel16_of(dtype, dim));
        }
    }
}

TEST_F(AttentionBackward, TensorLengths) {
    if (!has_tensor_cores()) GTEST_SKIP() << "no tensor cores";
    struct Lengths {
        int64_t q, k;
    };
    for (const int64_t dim : {64, 128, 256})
        for (const Lengths len : {Lengths{1, 1000}, {63, 128}, {128, 129}, {129, 63}, {1000, 1}, {300, 270}})
            for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
                AttentionCase c = sized(len.q, len.k, dim);
                c.dtype = ATTILE_BF16;
                c.mask = mask;
                check(c, kernel16_of(ATTILE_BF16, dim));
            }
}

// Few pairs of many keys: Hopper's blocks of a pair begin with different rows there. Fewer steps than blocks, groups of heads, sequences
// that end early or are empty, and numbers that are not finite.
TEST_F(AttentionBackward, TensorFewPairsOfManyKeys) {
    if (!has_hopper_kernels()) GTEST_SKIP() << "no kernels for Hopper";
    for (const int64_t dim : {64, 128}) {
        const auto of_lengths = [&](int64_t len_q, int64_t len_k) {
            AttentionCase c = sized(len_q, len_k, dim);
            c.dtype = ATTILE_BF16;
            return c;
        };
        const std::string kernel = kernel16_of(ATTILE_BF16, dim);
        check(of_lengths(60, 1000), kernel);
        check(of_lengths(700, 1100), kernel);
        AttentionCase c = of_lengths(200, 640);
        c.heads_q = 4;
        check(c, kernel);
        c.pattern = AttentionPattern::kNanInQuery;
        check(c, kernel);
        c = of_lengths(300, 1200);
        c.batch = 3;
        c.key_lengths = true;
        check(c, kernel);
        c.key_lengths = false;
        c.packed_q = c.packed_k = true;
        check(c, kernel);
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        check(c, kernel);
    }
}

TEST_F(AttentionBackward, ManyUnits) {
    for (const int64_t dim : {32, 64, 96, 128, 256})
        for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_WINDOW_BOTTOM_RIGHT}) {
            AttentionCase c = sized(300, 270, dim);
            c.mask = mask;
            if (mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT) c.window_left = 90;
            check(c, kernel_of(dim));
        }
    AttentionCase c = sized(200, 270, 64);
    c.bias = BiasKind::kNormal;
    c.bias_axes = 8;
    check(c, kernel_of(64));
}

// What a query without addresses asks for is enough wherever operands and gradients begin, each by itself.
TEST_F(AttentionBackward, AWorkspaceAskedForWithoutAddressesDoesForAny) {
    constexpr int kTensors = 9;
    const auto workspace = [&](std::int64_t dim, double softcap, float *data, unsigned shifted) {
        int count = 0;
        const auto tensor = [&](std::vector<std::int64_t> shape) {
            attile_tensor t;
            float *const at = data == nullptr ? nullptr : data + count * (8 * 400 * dim + 4) + (shifted >> count & 1u);
            EXPECT_EQ(attile_tensor_init(&t, at, ATTILE_F32, static_cast<std::int32_t>(shape.size()), shape.data()), ATTILE_OK);
            ++count;
            return t;
        };
        attile_attention_args forward;
        attile_attention_init(&forward, sizeof forward);
        attile_attention_backward_args args;
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        forward.q = tensor({2, 4, 300, dim});
        forward.o = tensor({2, 4, 300, dim});
        args.dout = tensor({2, 4, 300, dim});
        args.dq = tensor({2, 4, 300, dim});
        forward.k = tensor({2, 4, 400, dim});
        forward.v = tensor({2, 4, 400, dim});
        args.dk = tensor({2, 4, 400, dim});
        args.dv = tensor({2, 4, 400, dim});
        forward.lse = tensor({2, 4, 300});
        forward.softcap = softcap;
        EXPECT_EQ(count, kTensors);
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_backward_query(context, &args, &support), ATTILE_OK) << last_error();
        EXPECT_GT(support.workspace_bytes, 0) << support.text;
        return support.workspace_bytes;
    };
    for (const double softcap : {0.0, 3.0})
        for (const std::int64_t dim : {64, 128, 256}) {
            const Array<float> memory(context, ATTILE_MEMORY_DEVICE, kTensors * (8 * 400 * dim + 4));
            const int64_t anywhere = workspace(dim, softcap, nullptr, 0);
            for (unsigned shifted = 0; shifted < 1u << kTensors; ++shifted)
                ASSERT_GE(anywhere, workspace(dim, softcap, memory.data(), shifted)) << dim << ", shifted " << shifted;
        }
}

// Likewise of a bias, which some kernels read two keys at a time.
TEST_F(AttentionBackward, AWorkspaceAskedForWithoutAddressesDoesForAnyBias) {
    const auto workspace = [&](std::int64_t batch, std::int64_t heads_kv, std::int64_t len, std::int64_t dim, std::int64_t bias_at) {
        const auto tensor = [&](std::vector<std::int64_t> shape, std::int64_t at = 0) {
            attile_tensor t;
            void *const data = reinterpret_cast<void *>(static_cast<std::intptr_t>(at));  // Nobody reads there.
            EXPECT_EQ(attile_tensor_init(&t, data, ATTILE_BF16, static_cast<std::int32_t>(shape.size()), shape.data()), ATTILE_OK);
            return t;
        };
        attile_attention_args forward;
        attile_attention_init(&forward, sizeof forward);
        forward.q = forward.o = tensor({batch, 16, len, dim});
        forward.k = forward.v = tensor({batch, heads_kv, len, dim});
        forward.bias = tensor({len, len}, bias_at);
        const std::int64_t rows[] = {batch, 16, len};
        EXPECT_EQ(attile_tensor_init(&forward.lse, nullptr, ATTILE_F32, 3, rows), ATTILE_OK);
        attile_attention_backward_args args;
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        args.dout = args.dq = forward.q;
        args.dk = args.dv = forward.k;
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_backward_query(context, &args, &support), ATTILE_OK) << last_error();
        return support.workspace_bytes;
    };
    for (const std::int64_t dim : {64, 128, 256}) {
        EXPECT_GE(workspace(8, 16, 4096, dim, 0), workspace(8, 16, 4096, dim, 4098)) << dim;
        for (const std::int64_t len : {200, 1000, 2048})  // Groups of heads in parts.
            for (const std::int64_t heads_kv : {1, 2, 8})
                EXPECT_GE(workspace(1, heads_kv, len, dim, 0), workspace(1, heads_kv, len, dim, 4098))
                    << dim << ", " << len << ", " << heads_kv;
    }
}

// Bits that are to be the same in any batch come from the same kernel, also where a call is cut into pieces of some heads.
TEST_F(AttentionBackward, TheSameKernelInAnyBatch) {
    for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT})
        for (const std::int64_t dim : {64, 128, 256})
            for (const std::int64_t len : {100, 256, 2048, 16384}) {
                std::string first;
                for (const std::int64_t heads : {1, 2, 8, 32, 200})
                    for (const std::int64_t batch : {1, 8, 1000}) {
                        const auto tensor = [&](std::vector<std::int64_t> shape) {
                            attile_tensor t;
                            EXPECT_EQ(attile_tensor_init(&t, nullptr, ATTILE_F32, static_cast<std::int32_t>(shape.size()), shape.data()),
                                      ATTILE_OK);
                            return t;
                        };
                        attile_attention_args forward;
                        attile_attention_init(&forward, sizeof forward);
                        forward.q = forward.k = forward.v = forward.o = tensor({batch, heads, len, dim});
                        forward.lse = tensor({batch, heads, len});
                        forward.mask = mask;
                        attile_attention_backward_args args;
                        attile_attention_backward_init(&args, sizeof args);
                        args.forward = &forward;
                        args.flags = ATTILE_FLAG_BATCH_INVARIANT;
                        args.dout = args.dq = args.dk = args.dv = forward.q;
                        attile_support support;
                        attile_support_init(&support, sizeof support);
                        EXPECT_EQ(attile_attention_backward_query(context, &args, &support), ATTILE_OK) << last_error();
                        if (first.empty()) first = support.kernel;
                        EXPECT_EQ(support.kernel, first) << "dim " << dim << ", len " << len << ", heads " << heads << ", batch " << batch;
                    }
            }
}

// Rows past the last are computed as copies of it: what of a key such a copy would see, if it were a row, must not show.
TEST_F(AttentionBackward, RowsPastTheLastSeeNothing) {
    for (const std::int64_t dim : {32, 64, 96, 128, 256}) {
        const std::vector<std::int64_t> of_q = {1, 1, 1, dim}, of_k = {1, 1, 2, dim};
        std::vector<float> q_values(dim, 0.1f), k_values(2 * dim, 0.01f);
        q_values[0] = k_values[dim] = 1e20f;  // The product of the row with the key that it does not see is infinite.
        k_values[0] = k_values[dim + 1] = 0;
        const Array<float> q(context, ATTILE_MEMORY_DEVICE, q_values), k(context, ATTILE_MEMORY_DEVICE, k_values),
            v(context, ATTILE_MEMORY_DEVICE, std::vector<float>(2 * dim, 0.5f)),
            dout(context, ATTILE_MEMORY_DEVICE, std::vector<float>(dim, 1.0f)), o(context, ATTILE_MEMORY_DEVICE, dim),
            lse(context, ATTILE_MEMORY_DEVICE, 1), dq(context, ATTILE_MEMORY_DEVICE, std::vector<float>(dim, NAN)),
            dk(context, ATTILE_MEMORY_DEVICE, std::vector<float>(2 * dim, NAN)),
            dv(context, ATTILE_MEMORY_DEVICE, std::vector<float>(2 * dim, NAN));
        const auto tensor = [](const Array<float> &x, const std::vector<std::int64_t> &shape) {
            attile_tensor t;
            EXPECT_EQ(attile_tensor_init(&t, x.data(), ATTILE_F32, static_cast<std::int32_t>(shape.size()), shape.data()), ATTILE_OK);
            return t;
        };
        attile_attention_args forward;
        attile_attention_init(&forward, sizeof forward);
        forward.q = tensor(q, of_q);
        forward.k = tensor(k, of_k);
        forward.v = tensor(v, of_k);
        forward.o = tensor(o, of_q);
        forward.lse = tensor(lse, {1, 1, 1});
        forward.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        ASSERT_EQ(attile_attention(context, &forward), ATTILE_OK) << last_error();
        attile_attention_backward_args args;
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        args.dout = tensor(dout, of_q);
        args.dq = tensor(dq, of_q);
        args.dk = tensor(dk, of_k);
        args.dv = tensor(dv, of_k);
        ASSERT_EQ(attile_attention_backward(context, &args), ATTILE_OK) << last_error();
        const std::vector<float> of_keys = dk.fetch(), of_values = dv.fetch();
        for (std::int64_t i = 0; i < dim; ++i) {
            ASSERT_EQ(of_values[i], 1.0f) << dim << ", " << i;  // One key takes it all.
            ASSERT_EQ(of_keys[dim + i], 0.0f) << dim << ", " << i;
            ASSERT_EQ(of_values[dim + i], 0.0f) << dim << ", " << i;
        }
    }
}

TEST_F(AttentionBackward, ManyPairs) {
    AttentionCase c = sized(70, 70, 16);
    c.batch = 40;
    c.heads_q = c.heads_kv = 2;
    c.key_lengths = true;
    check(c, kernel_of(16));
    c.bias = BiasKind::kNormal;
    c.bias_axes = 14;
    check(c, kernel_of(16));
}

TEST_F(AttentionBackward, UnequalWidths) {
    struct Widths {
        int64_t of_k, of_v;
    };
    for (const Widths dim : {Widths{192, 128}, {40, 72}, {128, 64}, {64, 128}, {8, 256}, {256, 136}}) {
        const int64_t wide = std::max(dim.of_k, dim.of_v);
        AttentionCase c = sized(70, 135, dim.of_k);
        c.head_dim_v = dim.of_v;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        check(c, kernel_of(wide));
        for (const int32_t dtype : {ATTILE_BF16, ATTILE_F16}) {
            AttentionCase narrow = c;
            narrow.dtype = dtype;
            check(narrow, kernel16_of(dtype, wide));
            narrow.softcap = 3;
            check(narrow, kernel16_of(dtype, wide, Scores::kModified));
        }
    }
}

TEST_F(AttentionBackward, HugeBatch) {
    if (backend_under_test().rfind("emulated", 0) == 0) GTEST_SKIP() << "too large for an emulated device";
    AttentionCase c = sized(2, 3, 8);
    c.batch = 70000;
    c.heads_q = 1;
    check(c, kernel_of(8));
    c.dtype = ATTILE_BF16;
    check(c, kernel16_of(ATTILE_BF16, 8));
}

// A NaN or an infinity reaches what it takes part in and nothing else.
TEST_F(AttentionBackward, HiddenNaN) {
    AttentionCase c = sized(100, 140, 64);
    c.batch = 2;
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    c.pattern = AttentionPattern::kNanInQuery;
    check(c, kernel_of(64));
    c.dtype = ATTILE_BF16;
    check(c, kernel16_of(ATTILE_BF16, 64));
    c = sized(100, 140, 64);
    c.allowed = MaskBytes::kLeadingHidden;
    check(c, kernel_of(64));
    c = sized(20, 140, 128);
    c.bias = BiasKind::kSomeHidden;
    c.bias_poisoned = true;
    check(c, kernel_of(128));
    c.dtype = ATTILE_BF16;
    check(c, kernel16_of(ATTILE_BF16, 128, Scores::kModified));
}

}  // namespace
}  // namespace attile::test

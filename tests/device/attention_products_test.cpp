// SPDX-License-Identifier: Apache-2.0
// Attention composed of products, and its gradients: slices, what they must not meet, and bits that are the same in any batch. Little
// memory or ATTILE_CUDA_ATTENTION=products and ATTILE_CUDA_GRADIENTS=products make more slices, and more of the cases go by them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "attention_backward_fixture.h"
#include "test_random.h"

namespace attile::test {
namespace {

bool attention_goes_by_products() {
    const char *const set = std::getenv("ATTILE_CUDA_ATTENTION");
    return set != nullptr && std::strcmp(set, "products") == 0;
}

class AttentionProducts : public AttentionBackward, public ::testing::WithParamInterface<int32_t> {
  protected:
    bool is_f64() const { return GetParam() == ATTILE_F64; }
    // Forward and backward, judged as conformance judges.
    void check_both(AttentionCase c, bool with_gradients = true) {
        c.dtype = c.out_dtype = c.bias_dtype = GetParam();
        Report report;
        run_case(context, reference, Case{"attention.device", c}, {.placement = Placement::kDevice}, report);
        EXPECT_EQ(report.outcome, Outcome::kPassed) << report.message << "\n  case:   " << report.description;
        if (attention_goes_by_products()) {
            EXPECT_EQ(report.kernel, is_f64() ? "attention_products_f64" : "attention_products_f32") << report.description;
        }
        if (!with_gradients) return;
        BackwardCase gradients;
        gradients.forward = c;
        gradients.dout_dtype = gradients.grad_dtype = gradients.dbias_dtype = GetParam();
        run_case(context, reference, Case{"attention_backward.device", gradients}, {.placement = Placement::kDevice}, report);
        EXPECT_EQ(report.outcome, Outcome::kPassed) << report.message << "\n  case:   " << report.description;
        if (gradients_go_by("products") && (is_f64() || std::max(c.head_dim, c.head_dim_v) > 256)) {
            EXPECT_EQ(report.kernel, is_f64() ? "attention_backward_products_f64" : "attention_backward_products_f32")
                << report.description;
        }
    }
};

// Rows, keys and heads that make several slices, with ends of their own, whose keys the mask cuts.
TEST_P(AttentionProducts, Slices) {
    for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_WINDOW_BOTTOM_RIGHT}) {
        AttentionCase c = sized(70, 90, 12);
        c.batch = 2;
        c.heads_q = 4;
        c.heads_kv = 2;
        c.head_dim_v = 7;
        c.mask = mask;
        const bool is_window = mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        c.window_left = is_window ? 20 : 0;
        c.window_right = is_window ? 3 : 0;
        check_both(c);
        c.bias = BiasKind::kSomeHidden;
        c.bias_axes = 10;
        c.sinks = true;
        check_both(c);
        c.heads_kv = 4;
        c.bias_axes = 15;
        c.softcap = 2;
        c.alibi = 1;
        check_both(c);
    }
}

// More keys than a lane group takes of a row, and rows that see none.
TEST_P(AttentionProducts, LongRows) {
    AttentionCase c = sized(5, 1300, 8);
    c.batch = 2;
    check_both(c);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.key_lengths = true;
    check_both(c);
    c = sized(300, 40, 8);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    check_both(c);
}

// Rows that the device alone knows the place of.
TEST_P(AttentionProducts, CopiedRows) {
    AttentionCase c = sized(40, 70, 24);
    c.batch = 3;
    c.heads_q = 4;
    c.heads_kv = 2;
    c.key_lengths = true;
    check_both(c);
    c.key_lengths = false;
    c.packed_q = c.packed_k = true;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    check_both(c);
    c.packed_q = c.packed_k = false;
    c.page_size = 16;
    check_both(c, false);
}

// Heads that no tile holds, and V of another width.
TEST_P(AttentionProducts, WideHeads) {
    for (const int64_t dim : {257, 264}) {
        AttentionCase c = sized(19, 20, dim);
        c.batch = 2;
        c.heads_q = 4;
        c.heads_kv = 2;
        check_both(c);
        c.head_dim_v = 9;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.bias = BiasKind::kSomeHidden;
        c.bias_axes = 11;
        check_both(c);
        c.bias = BiasKind::kNone;
        c.head_dim_v = 260;
        c.packed_q = c.packed_k = true;
        c.alibi = 1;
        check_both(c);
        c.packed_q = c.packed_k = false;
        c.key_lengths = true;
        c.pattern = AttentionPattern::kInfiniteKeys;
        check_both(c);
    }
}

// A NaN or an infinity reaches what it takes part in and nothing else.
TEST_P(AttentionProducts, HiddenNaN) {
    AttentionCase c = sized(60, 90, 24);
    c.batch = 2;
    c.heads_kv = 2;
    c.bias = BiasKind::kSomeHidden;
    c.bias_poisoned = true;
    check_both(c);
    c = sized(60, 90, 24);
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    for (const AttentionPattern pattern : {AttentionPattern::kNanInQuery, AttentionPattern::kInfiniteKeys}) {
        c.pattern = pattern;
        check_both(c);
    }
}

// An entry, and without a mask a row, has the same bits alone and among others. Strides keep heads of an entry apart from those of the
// next.
template <class T>
void expect_same_bits_in_any_batch(attile_context *context) {
    constexpr int32_t kType = sizeof(T) == sizeof(double) ? ATTILE_F64 : ATTILE_F32;
    constexpr int64_t kB = 3, kH = 2, kHkv = 1, kLq = 20, kLk = 2500, kD = 8;  // Keys enough that products split them.
    Random random(1);
    const auto numbers = [&](int64_t count, bool is_drawn) {
        std::vector<T> x(static_cast<std::size_t>(count));
        for (T &value : x) value = is_drawn ? static_cast<T>(random.normal()) : T(0);
        return x;
    };
    std::vector<T> q = numbers(kB * kH * kLq * kD, true), k = numbers(kB * kHkv * kLk * kD, true), v = numbers(kB * kHkv * kLk * kD, true);
    std::vector<T> dout = numbers(kB * kH * kLq * kD, true);
    struct Results {
        std::vector<T> o, lse, dq, dk, dv;
    };
    const auto run = [&](int64_t first, int64_t count, int64_t row, int64_t rows, int32_t mask, bool with_gradients) {
        Results r = {numbers(count * kH * rows * kD, false), numbers(count * kH * rows, false), numbers(count * kH * rows * kD, false),
                     numbers(count * kHkv * kLk * kD, false), numbers(count * kHkv * kLk * kD, false)};
        const auto tensor = [&](std::vector<T> &x, std::vector<int64_t> shape, int64_t at = 0) {
            attile_tensor t;
            EXPECT_EQ(attile_tensor_init(&t, x.data() + at, kType, static_cast<int32_t>(shape.size()), shape.data()), ATTILE_OK);
            return t;
        };
        const auto of_rows = [&](std::vector<T> &x) {
            attile_tensor t = tensor(x, {kB - first, kH, kLq, kD}, first * kH * kLq * kD);
            t.data = static_cast<T *>(t.data) + row * kD;
            t.shape[0] = count;
            t.shape[2] = rows;
            return t;
        };
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_BATCH_INVARIANT;
        args.mask = mask;
        args.window_left = mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT ? 2200 : 0;
        args.q = of_rows(q);
        args.k = tensor(k, {count, kHkv, kLk, kD}, first * kHkv * kLk * kD);
        args.v = tensor(v, {count, kHkv, kLk, kD}, first * kHkv * kLk * kD);
        args.o = tensor(r.o, {count, kH, rows, kD});
        args.lse = tensor(r.lse, {count, kH, rows});
        EXPECT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
        if (!with_gradients) return r;
        attile_attention_backward_args backward;
        attile_attention_backward_init(&backward, sizeof backward);
        backward.flags = ATTILE_FLAG_BATCH_INVARIANT;
        backward.forward = &args;
        backward.dout = of_rows(dout);
        backward.dq = tensor(r.dq, {count, kH, rows, kD});
        backward.dk = tensor(r.dk, {count, kHkv, kLk, kD});
        backward.dv = tensor(r.dv, {count, kHkv, kLk, kD});
        EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_OK) << last_error();
        return r;
    };
    const auto are_same = [](const std::vector<T> &alone, const std::vector<T> &all, int64_t entry) {
        return std::memcmp(alone.data(), all.data() + static_cast<std::size_t>(entry) * alone.size(), alone.size() * sizeof(T)) == 0;
    };
    for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_WINDOW_BOTTOM_RIGHT}) {
        const Results all = run(0, kB, 0, kLq, mask, true);
        for (int64_t entry = 0; entry < kB; ++entry) {
            const Results one = run(entry, 1, 0, kLq, mask, true);
            EXPECT_TRUE(are_same(one.o, all.o, entry)) << "o of entry " << entry << ", mask " << mask;
            EXPECT_TRUE(are_same(one.lse, all.lse, entry)) << "lse of entry " << entry << ", mask " << mask;
            EXPECT_TRUE(are_same(one.dq, all.dq, entry)) << "dq of entry " << entry << ", mask " << mask;
            EXPECT_TRUE(are_same(one.dk, all.dk, entry)) << "dk of entry " << entry << ", mask " << mask;
            EXPECT_TRUE(are_same(one.dv, all.dv, entry)) << "dv of entry " << entry << ", mask " << mask;
        }
        for (const int64_t row : {int64_t{0}, kLq / 2, kLq - 1}) {
            if (mask != ATTILE_MASK_NONE && row != kLq - 1) continue;  // The last stands in the corner, alone too.
            const Results one = run(1, 1, row, 1, mask, false);
            for (int64_t head = 0; head < kH; ++head)
                EXPECT_EQ(std::memcmp(one.o.data() + head * kD, all.o.data() + ((kH + head) * kLq + row) * kD, kD * sizeof(T)), 0)
                    << "row " << row << ", head " << head;
        }
    }
}

TEST_P(AttentionProducts, TheSameBitsInAnyBatch) {
    is_f64() ? expect_same_bits_in_any_batch<double>(context) : expect_same_bits_in_any_batch<float>(context);
}

// Sums of dk and dv end where slices of rows do: those are the same in any batch, and so are the kernels.
TEST_P(AttentionProducts, TheSameSlicesInAnyBatch) {
    for (const int64_t len : {100, 2048, 16384}) {
        std::string kernel, kernel_forward;
        int32_t rows = 0;
        for (const int64_t heads : {1, 8, 64})
            for (const int64_t batch : {1, 16}) {
                const auto tensor = [&](std::vector<int64_t> shape) {
                    attile_tensor t;
                    EXPECT_EQ(attile_tensor_init(&t, nullptr, GetParam(), static_cast<int32_t>(shape.size()), shape.data()), ATTILE_OK);
                    return t;
                };
                attile_attention_args forward;
                attile_attention_init(&forward, sizeof forward);
                forward.flags = ATTILE_FLAG_BATCH_INVARIANT;
                forward.q = forward.k = forward.v = forward.o = tensor({batch, heads, len, is_f64() ? 64 : 320});
                forward.lse = tensor({batch, heads, len});
                forward.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
                attile_support support;
                attile_support_init(&support, sizeof support);
                EXPECT_EQ(attile_attention_query(context, &forward, &support), ATTILE_OK) << last_error();
                if (kernel_forward.empty()) kernel_forward = support.kernel;
                EXPECT_EQ(support.kernel, kernel_forward) << "len " << len << ", heads " << heads << ", batch " << batch;
                attile_attention_backward_args args;
                attile_attention_backward_init(&args, sizeof args);
                args.forward = &forward;
                args.flags = ATTILE_FLAG_BATCH_INVARIANT;
                args.dout = args.dq = args.dk = args.dv = forward.q;
                EXPECT_EQ(attile_attention_backward_query(context, &args, &support), ATTILE_OK) << last_error();
                if (kernel.empty()) {
                    kernel = support.kernel;
                    rows = support.tile_m;
                }
                EXPECT_EQ(support.kernel, kernel) << "len " << len << ", heads " << heads << ", batch " << batch;
                EXPECT_EQ(support.tile_m, rows) << "len " << len << ", heads " << heads << ", batch " << batch;
            }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionProducts, ::testing::Values(ATTILE_F32, ATTILE_F64),
                         [](const auto &type) { return type.param == ATTILE_F64 ? "f64" : "f32"; });

}  // namespace
}  // namespace attile::test

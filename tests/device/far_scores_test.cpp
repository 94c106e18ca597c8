// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients where biases are as large as float goes, as frameworks fill masks with, or softcaps beyond: every kernel
// beside the reference on the same arrays. A bias that is finite hides no key.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cuda_test_context.h"
#include "test_element.h"

namespace attile::test {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kHeads = 2;

struct Problem {
    int32_t dtype = ATTILE_F32, bias_dtype = ATTILE_F32;
    int64_t len_q = 70, len_k = 516, dim = 64;
    int32_t mask = ATTILE_MASK_NONE;
    double softcap = 0, scale = 0;
    bool far = true, sinks = false, allowed = false;

    std::string text() const {
        return "dtype " + std::to_string(dtype) + " bias " + std::to_string(bias_dtype) + " " + std::to_string(len_q) + "x" +
               std::to_string(len_k) + "x" + std::to_string(dim) + " mask " + std::to_string(mask) + " softcap " + std::to_string(softcap) +
               " scale " + std::to_string(scale) + " sinks " + std::to_string(sinks) + " allowed " + std::to_string(allowed);
    }
};

// Elements of any type, as bytes and as numbers.
struct Array {
    int32_t dtype = ATTILE_F32;
    std::vector<int64_t> shape;
    std::vector<unsigned char> bytes;

    Array() = default;
    Array(int32_t type, std::vector<int64_t> extents) : dtype(type), shape(std::move(extents)) {
        bytes.assign(static_cast<std::size_t>(count() * element_bytes(dtype)), 0xff);  // NaN
    }
    int64_t count() const {
        int64_t n = 1;
        for (const int64_t extent : shape) n *= extent;
        return n;
    }
    double operator[](int64_t i) const { return decode(dtype, bytes.data() + i * element_bytes(dtype)); }
    void set(int64_t i, double x) { encode(dtype, x, bytes.data() + i * element_bytes(dtype)); }
    attile_tensor tensor() {
        attile_tensor t;
        EXPECT_EQ(attile_tensor_init(&t, bytes.data(), dtype, static_cast<int32_t>(shape.size()), shape.data()), ATTILE_OK) << last_error();
        return t;
    }
};

// A row's bias by its number: what fills masks, beside hidden keys, larger and ordinary ones.
float far_bias(int64_t row, int64_t key, int64_t len_k, std::mt19937 &engine) {
    const bool late = key >= len_k / 2, one = key == len_k / 3;
    const float large[] = {-kLargest, -3e38f, -2.5e38f}, steps[] = {-1e38f, -2e38f, -3e38f};
    switch (row % 14) {
        case 0:
            return -kLargest;
        case 1:
            return -3e38f;
        case 2:
            return large[engine() % 3];
        case 3:
            return one ? 0.0f : -kLargest;
        case 4:
            return one ? -kLargest : -kInfinity;
        case 5:
            return engine() % 5 == 0 ? kLargest : 0.0f;
        case 6:
            return late ? 0.5f : -kLargest;
        case 7:
            return late ? -kLargest : 0.5f;
        case 8:
            return -kInfinity;
        case 9:
            return steps[key % 3];
        case 10:
            return -2e37f;
        case 11:
            return late ? -kLargest : -kInfinity;
        case 12:
            return late ? -3e33f : -kLargest;
        default:
            return std::normal_distribution<float>()(engine);
    }
}

struct Call {
    explicit Call(const Problem &p) : problem(p) {
        std::mt19937 engine(static_cast<unsigned>(p.len_q * 1000 + p.len_k));
        std::normal_distribution<double> normal;
        const auto drawn = [&](std::vector<int64_t> shape) {
            Array array(p.dtype, std::move(shape));
            for (int64_t i = 0; i < array.count(); ++i) array.set(i, normal(engine));
            return array;
        };
        q = drawn({1, kHeads, p.len_q, p.dim});
        k = drawn({1, 1, p.len_k, p.dim});
        v = drawn({1, 1, p.len_k, p.dim});
        dout = drawn({1, kHeads, p.len_q, p.dim});
        const int32_t wide = p.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
        bias = Array(p.bias_dtype, {p.len_q, p.len_k});
        allowed = Array(ATTILE_U8, {p.len_q, p.len_k});
        for (int64_t i = 0; i < bias.count(); ++i) {
            const float drawn_bias = far_bias(i / p.len_k, i % p.len_k, p.len_k, engine);
            // Of bf16 the largest that it has.
            bias.set(i, p.bias_dtype == ATTILE_BF16 && std::abs(drawn_bias) > 3.38e38f && std::abs(drawn_bias) < kInfinity
                            ? std::copysign(3.38953139e38, drawn_bias)
                            : drawn_bias);
            allowed.bytes[static_cast<std::size_t>(i)] = engine() % 4 != 0;
        }
        sinks = Array(wide, {kHeads});
        sinks.set(0, -kLargest);
        sinks.set(1, 0.25);
        o = Array(p.dtype, q.shape);
        lse = Array(wide, {1, kHeads, p.len_q});
        dq = Array(p.dtype, q.shape);
        dk = Array(p.dtype, k.shape);
        dv = Array(p.dtype, v.shape);
    }
    attile_attention_args arguments() {
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.q = q.tensor();
        args.k = k.tensor();
        args.v = v.tensor();
        args.o = o.tensor();
        args.lse = lse.tensor();
        args.mask = problem.mask;
        args.softcap = problem.softcap;
        args.scale = problem.scale;
        if (problem.far) args.bias = bias.tensor();
        if (problem.allowed) args.allowed = allowed.tensor();
        if (problem.sinks) args.sinks = sinks.tensor();
        return args;
    }
    void forward(attile_context *context) {
        const attile_attention_args args = arguments();
        ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
        ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
    }
    void backward(attile_context *context) {
        const attile_attention_args args = arguments();
        attile_attention_backward_args gradients;
        attile_attention_backward_init(&gradients, sizeof gradients);
        gradients.forward = &args;
        gradients.dout = dout.tensor();
        gradients.dq = dq.tensor();
        gradients.dk = dk.tensor();
        gradients.dv = dv.tensor();
        ASSERT_EQ(attile_attention_backward(context, &gradients), ATTILE_OK) << last_error();
        ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
    }
    const Problem problem;
    Array q, k, v, dout, bias, allowed, sinks, o, lse, dq, dk, dv;
};

class FarScores : public CudaTest {
  protected:
    void SetUp() override {
        CudaTest::SetUp();
        if (context == nullptr) return;
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = "reference";
        ASSERT_EQ(attile_context_create(&options, &reference), ATTILE_OK) << last_error();
    }
    void TearDown() override {
        attile_context_destroy(reference);
        CudaTest::TearDown();
    }
    // Errors in units of the largest number of a tensor, or of a log-sum-exp itself. NaN fails, and infinities are equal.
    static void compare(const Array &found, const Array &expected, double bound, bool each_by_itself, const std::string &what) {
        double largest = 1;
        for (int64_t i = 0; i < expected.count(); ++i) largest = std::max(largest, std::abs(expected[i]));
        for (int64_t i = 0; i < expected.count(); ++i) {
            const double x = found[i], y = expected[i];
            const double unit = each_by_itself ? std::max(1.0, std::abs(y)) : largest;
            if (x == y || std::abs(x - y) <= bound * unit) continue;
            ADD_FAILURE() << what << " [" << i << " of " << expected.count() << "]: " << x << " instead of " << y;
            return;
        }
    }
    void check(const Problem &p, bool gradients) {
        SCOPED_TRACE(p.text());
        const double bound = p.dtype == ATTILE_F64 ? 1e-10 : p.dtype == ATTILE_F32 ? 2e-5 : p.dtype == ATTILE_F16 ? 4e-3 : 2e-2;
        Call here(p), there(p);
        there.forward(reference);
        here.forward(context);
        if (HasFatalFailure()) return;
        compare(here.o, there.o, bound, false, "o");
        compare(here.lse, there.lse, p.dtype == ATTILE_F64 ? 1e-10 : 2e-5, true, "lse");
        if (!gradients) return;
        here.o = there.o;
        here.lse = there.lse;
        there.backward(reference);
        here.backward(context);
        if (HasFatalFailure()) return;
        compare(here.dq, there.dq, bound, false, "dq");
        compare(here.dk, there.dk, bound, false, "dk");
        compare(here.dv, there.dv, bound, false, "dv");
    }
    attile_context *reference = nullptr;
};

// Few, for what runs kernels a thousand times as slow.
TEST_F(FarScores, HideNothingInFew) {
    for (const int32_t dtype : {ATTILE_F16, ATTILE_BF16}) {
        Problem p;
        p.dtype = dtype;
        p.len_q = 30;
        p.len_k = 132;
        check(p, true);
        p.allowed = p.sinks = true;
        check(p, false);
    }
}

// Bias alone and beside other modifiers, of rows in quads and not; few rows, and so many keys that they are split.
TEST_F(FarScores, HideNothing) {
    for (const int32_t dtype : {ATTILE_F32, ATTILE_F16, ATTILE_BF16, ATTILE_F64})
        for (const auto &[len_q, len_k] : {std::pair<int64_t, int64_t>{70, 516}, {70, 131}, {14, 260}, {1, 3000}, {140, 64}})
            for (const int64_t dim : {32, 128}) {
                Problem p;
                p.dtype = dtype;
                p.bias_dtype = dtype == ATTILE_F16 ? ATTILE_F32 : dtype;
                p.len_q = len_q;
                p.len_k = len_k;
                p.dim = dim;
                check(p, true);
                p.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
                check(p, len_q == 70);
                p.softcap = 30;
                p.sinks = true;
                check(p, false);
                p.allowed = true;
                p.bias_dtype = dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
                check(p, false);
                p = Problem{.dtype = dtype, .bias_dtype = p.bias_dtype, .len_q = len_q, .len_k = len_k, .dim = dim, .scale = 40};
                check(p, false);
                p.scale = 1e-4;
                check(p, false);
            }
}

// Heads that no tile holds.
TEST_F(FarScores, HideNothingOfWideHeads) {
    for (const int32_t dtype : {ATTILE_F32, ATTILE_BF16})
        for (const int64_t len_k : {132, 1100}) {
            Problem p;
            p.dtype = dtype;
            p.bias_dtype = dtype;
            p.len_q = 21;
            p.len_k = len_k;
            p.dim = 264;
            check(p, true);
            p.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            check(p, true);
            p.softcap = 30;
            p.sinks = true;
            check(p, true);
        }
}

// As good as none, or as a cap at 0.
TEST_F(FarScores, SoftcapsOfAnySize) {
    for (const int32_t dtype : {ATTILE_F32, ATTILE_F16, ATTILE_BF16, ATTILE_F64})
        for (const int64_t len_q : {1, 70})
            for (const double softcap : {1e37, 1e38, 3e38, 1e39, 1e300, 1e-30, 1e-38, 1e-42, 1e-46, 1e-300}) {
                Problem p;
                p.dtype = dtype;
                p.len_q = len_q;
                p.far = false;
                p.softcap = softcap;
                check(p, true);
            }
}

}  // namespace
}  // namespace attile::test

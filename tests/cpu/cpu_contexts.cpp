// SPDX-License-Identifier: Apache-2.0
#include "cpu_contexts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>

#include "element.h"
#include "portable.h"

namespace attile::test {
namespace {

// Uniform in [-3, 3), uint16_t as bfloat16; the same numbers everywhere.
template <class T>
std::vector<T> numbers(int64_t count, uint64_t seed) {
    std::vector<T> result(static_cast<size_t>(count));
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (T &x : result) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double value = static_cast<double>(state >> 11) * 0x1p-53 * 6 - 3;
        if constexpr (std::is_same_v<T, uint16_t>) {
            x = cpu::float_to_brain(static_cast<float>(value));
        } else {
            x = static_cast<T>(value);
        }
    }
    return result;
}

template <class T>
constexpr int32_t kType = sizeof(T) == 2   ? ATTILE_BF16
                          : sizeof(T) == 4 ? ATTILE_F32
                                           : ATTILE_F64;

// What nothing was written to: NaN.
template <class T>
inline const T kUnwritten = std::is_same_v<T, uint16_t> ? static_cast<T>(0x7fc0) : std::numeric_limits<T>::quiet_NaN();
template <class T>
bool is_nan(T x) {
    if constexpr (std::is_same_v<T, uint16_t>) return (x & 0x7fff) > 0x7f80;
    return x != x;
}

template <class T>
void describe(attile_tensor *tensor, std::vector<T> &data, std::vector<int64_t> shape) {
    ASSERT_EQ(attile_tensor_init(tensor, data.data(), kType<T>, static_cast<int32_t>(shape.size()), shape.data()), ATTILE_OK)
        << last_error();
}

template <class T>
std::vector<unsigned char> bytes_of(const std::vector<std::vector<T>> &outputs) {
    std::vector<unsigned char> result;
    for (const std::vector<T> &output : outputs) {
        for (const T x : output) EXPECT_FALSE(is_nan(x));
        const auto *first = reinterpret_cast<const unsigned char *>(output.data());
        result.insert(result.end(), first, first + output.size() * sizeof(T));
    }
    return result;
}

template <class T>
BitProblem gemm(int64_t batch, int64_t m, int64_t n, int64_t k, bool transposed_b) {
    const std::string name = "gemm_" + std::to_string(sizeof(T) * 8) + "_" + std::to_string(batch) + "_" + std::to_string(m) + "_" +
                             std::to_string(n) + "_" + std::to_string(k) + (transposed_b ? "_t" : "");
    return {name, [=](attile_context *context) {
                std::vector<T> a = numbers<T>(batch * m * k, 1), b = numbers<T>(batch * k * n, 2);
                std::vector<T> d(static_cast<size_t>(batch * m * n), kUnwritten<T>);
                attile_gemm_args args;
                attile_gemm_init(&args, sizeof args);
                describe(&args.a, a, {batch, m, k});
                describe(&args.b, b, {batch, k, n});
                describe(&args.d, d, {batch, m, n});
                if (transposed_b) {
                    args.b.stride[1] = 1;
                    args.b.stride[2] = k;
                }
                EXPECT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
                return bytes_of<T>({d});
            }};
}

struct Heads {
    int64_t batch, heads_q, heads_kv, len_q, len_k, head_dim;
};

template <class T>
struct AttentionOperands {
    std::vector<T> q, k, v, o;
    std::vector<std::conditional_t<sizeof(T) == 2, float, T>> lse;
    attile_attention_args args;
    AttentionOperands(const Heads &s, int32_t mask)
        : q(numbers<T>(s.batch * s.heads_q * s.len_q * s.head_dim, 3)),
          k(numbers<T>(s.batch * s.heads_kv * s.len_k * s.head_dim, 4)),
          v(numbers<T>(s.batch * s.heads_kv * s.len_k * s.head_dim, 5)),
          o(q.size(), kUnwritten<T>),
          lse(static_cast<size_t>(s.batch * s.heads_q * s.len_q), NAN) {
        attile_attention_init(&args, sizeof args);
        describe(&args.q, q, {s.batch, s.heads_q, s.len_q, s.head_dim});
        describe(&args.k, k, {s.batch, s.heads_kv, s.len_k, s.head_dim});
        describe(&args.v, v, {s.batch, s.heads_kv, s.len_k, s.head_dim});
        describe(&args.o, o, {s.batch, s.heads_q, s.len_q, s.head_dim});
        describe(&args.lse, lse, {s.batch, s.heads_q, s.len_q});
        args.mask = mask;
    }
};

std::string heads_name(const char *operation, const Heads &s, int32_t mask) {
    return std::string(operation) + "_" + std::to_string(s.batch) + "_" + std::to_string(s.heads_q) + "_" + std::to_string(s.heads_kv) +
           "_" + std::to_string(s.len_q) + "_" + std::to_string(s.len_k) + "_" + std::to_string(s.head_dim) +
           (mask == ATTILE_MASK_NONE ? "" : "_causal");
}

template <class T>
BitProblem attention(const Heads &s, int32_t mask) {
    const char *const name = sizeof(T) == 2 ? "attention_bf16" : sizeof(T) == 4 ? "attention" : "attention_f64";
    return {heads_name(name, s, mask), [=](attile_context *context) {
                AttentionOperands<T> x(s, mask);
                EXPECT_EQ(attile_attention(context, &x.args), ATTILE_OK) << last_error();
                std::vector<unsigned char> bytes = bytes_of<T>({x.o}), more = bytes_of<typename decltype(x.lse)::value_type>({x.lse});
                bytes.insert(bytes.end(), more.begin(), more.end());
                return bytes;
            }};
}

template <class T>
BitProblem backward(const Heads &s, int32_t mask) {
    return {heads_name(sizeof(T) == 2 ? "backward_bf16" : "backward", s, mask), [=](attile_context *context) {
                AttentionOperands<T> x(s, mask);
                EXPECT_EQ(attile_attention(context, &x.args), ATTILE_OK) << last_error();
                std::vector<T> dout = numbers<T>(static_cast<int64_t>(x.o.size()), 6);
                std::vector<T> dq(x.q.size(), kUnwritten<T>), dk(x.k.size(), kUnwritten<T>), dv(x.v.size(), kUnwritten<T>);
                attile_attention_backward_args args;
                attile_attention_backward_init(&args, sizeof args);
                args.forward = &x.args;
                describe(&args.dout, dout, {s.batch, s.heads_q, s.len_q, s.head_dim});
                describe(&args.dq, dq, {s.batch, s.heads_q, s.len_q, s.head_dim});
                describe(&args.dk, dk, {s.batch, s.heads_kv, s.len_k, s.head_dim});
                describe(&args.dv, dv, {s.batch, s.heads_kv, s.len_k, s.head_dim});
                EXPECT_EQ(attile_attention_backward(context, &args), ATTILE_OK) << last_error();
                return bytes_of<T>({dq, dk, dv});
            }};
}

BitProblem softmax(int64_t rows, int64_t columns) {
    return {"softmax_" + std::to_string(rows) + "_" + std::to_string(columns), [=](attile_context *context) {
                std::vector<float> x = numbers<float>(rows * columns, 7), y(x.size(), NAN);
                attile_softmax_args args;
                attile_softmax_init(&args, sizeof args);
                describe(&args.x, x, {rows, columns});
                describe(&args.y, y, {rows, columns});
                args.axis = 1;
                EXPECT_EQ(attile_softmax(context, &args), ATTILE_OK) << last_error();
                return bytes_of<float>({y});
            }};
}

BitProblem sum(int64_t rows, int64_t columns, int32_t axis) {
    return {"sum_" + std::to_string(rows) + "_" + std::to_string(columns) + "_" + std::to_string(axis), [=](attile_context *context) {
                std::vector<float> x = numbers<float>(rows * columns, 8);
                std::vector<float> y(static_cast<size_t>(axis == 1 ? rows : columns), NAN);
                attile_reduce_args args;
                attile_reduce_init(&args, sizeof args);
                describe(&args.x, x, {rows, columns});
                describe(&args.y, y, axis == 1 ? std::vector<int64_t>{rows, 1} : std::vector<int64_t>{1, columns});
                args.axis = axis;
                args.op = ATTILE_REDUCE_SUM;
                EXPECT_EQ(attile_reduce(context, &args), ATTILE_OK) << last_error();
                return bytes_of<float>({y});
            }};
}

}  // namespace

std::string last_error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}

CpuContext open_cpu(const std::string &target, int threads, std::string *why) {
    if (!target.empty()) set_variable("ATTILE_CPU_TARGET", target.c_str());
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "cpu";
    options.threads = threads;
    attile_context *context = nullptr;
    const int32_t status = attile_context_create(&options, &context);
    if (!target.empty()) unset_variable("ATTILE_CPU_TARGET");
    if (status != ATTILE_OK && why != nullptr) *why = last_error();
    return CpuContext(context);
}

std::vector<std::string> targets_here() {
    std::vector<std::string> result;
    for (const char *target : {"amxbf16", "avx512bf16", "avx512", "avx2", "sse4", "neoni8mm", "neondot", "neon"}) {
        if (open_cpu(target, 1) != nullptr) result.emplace_back(target);
    }
    return result;
}

std::vector<BitProblem> bit_problems() {
    constexpr int32_t kCausal = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    return {
        gemm<float>(1, 200, 210, 700, false),   // packed, several pieces of the depth
        gemm<float>(1, 97, 1025, 65, true),     // packed
        gemm<double>(1, 150, 170, 300, false),  // packed
        gemm<float>(3, 170, 210, 300, false),   // packed, one entry after the other
        gemm<float>(1, 100, 101, 103, false),   // in place
        gemm<float>(9, 33, 65, 31, false),      // whole entries for each thread
        gemm<float>(1, 1, 1025, 777, false),    // few rows
        gemm<float>(1, 5, 1025, 777, true),     // few rows of dot products
        gemm<double>(1, 3, 1025, 333, true),
        attention<float>({2, 3, 3, 130, 250, 64}, ATTILE_MASK_NONE),
        attention<float>({1, 4, 2, 257, 257, 80}, kCausal),
        attention<double>({1, 2, 2, 97, 131, 33}, kCausal),
        attention<float>({1, 8, 2, 1, 5000, 64}, ATTILE_MASK_NONE),  // decoding, keys split
        attention<float>({3, 8, 2, 2, 2100, 32}, kCausal),
        gemm<uint16_t>(1, 200, 210, 1700, false),  // of bfloat16: packed, several pieces of the depth
        gemm<uint16_t>(3, 97, 225, 65, true),
        attention<uint16_t>({2, 3, 3, 130, 251, 64}, ATTILE_MASK_NONE),
        attention<uint16_t>({1, 4, 2, 257, 257, 33}, kCausal),
        attention<uint16_t>({1, 8, 2, 1, 5000, 80}, ATTILE_MASK_NONE),
        backward<float>({1, 4, 2, 130, 150, 64}, kCausal),             // one pass
        backward<float>({1, 8, 8, 530, 600, 16}, kCausal),             // one pass, heads in pieces
        backward<float>({1, 2, 2, 40, 3000, 64}, ATTILE_MASK_NONE),    // two passes
        backward<uint16_t>({2, 4, 2, 70, 130, 33}, ATTILE_MASK_NONE),  // of bfloat16: one pass
        backward<uint16_t>({1, 8, 4, 530, 300, 40}, kCausal),          // and heads in pieces, more of rows than of keys
        softmax(37, 3001),
        sum(37, 30001, 1),
        sum(3001, 37, 0),
    };
}

}  // namespace attile::test

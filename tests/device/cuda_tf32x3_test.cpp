// SPDX-License-Identifier: Apache-2.0
// float32 by tf32x3 beside ordinary float32 arithmetic on the same device and data: errors against double precision on the host at most
// twice as large, infinities and NaN in the same places. Outputs start as NaN. Skipped where the device has no such kernels.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "cuda_test_context.h"
#include "row_reference.h"

namespace attile::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kLargest = std::numeric_limits<float>::max();

enum class Values { kNormal, kPositive, kMixed };  // Mixed: magnitudes from 2^-12 to 2^12.

std::vector<float> drawn(std::mt19937 &engine, int64_t count, Values kind, double factor = 1) {
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-12, 12);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &x : values) {
        x = static_cast<float>(factor) * normal(engine);
        if (kind == Values::kPositive) x = std::abs(x);
        if (kind == Values::kMixed) x = std::ldexp(x, exponent(engine));
    }
    return values;
}

struct Errors {
    double largest = 0, squares = 0;
    int64_t count = 0;
    void add(double found, double expected, double unit) {
        const double error = std::abs(found - expected) / unit;
        largest = error <= largest ? largest : error;  // NaN stays.
        squares += error * error;
        ++count;
    }
    double rms() const { return std::sqrt(squares / static_cast<double>(std::max<int64_t>(count, 1))); }
};

// So many heads that the kernels in ordinary arithmetic do not share a row's keys among blocks, which would make their sums shorter.
constexpr int64_t kHeads = 96;
struct AttentionProblem {
    int64_t heads = kHeads, heads_kv = 1, len_q = 300, len_k = 1500, dim = 128, dim_v = 128;
    int32_t mask = ATTILE_MASK_NONE;
    double spread = 1;
    Values kind = Values::kNormal, kind_v = Values::kNormal;
    double softcap = 0;
    std::string text() const {
        return "h" + std::to_string(heads) + "/" + std::to_string(heads_kv) + " lq" + std::to_string(len_q) + " lk" +
               std::to_string(len_k) + " d" + std::to_string(dim) + "/" + std::to_string(dim_v) + " mask" + std::to_string(mask) + " x" +
               std::to_string(spread) + " values" + std::to_string(static_cast<int>(kind)) + std::to_string(static_cast<int>(kind_v)) +
               " softcap" + std::to_string(softcap);
    }
};

class CudaTf32x3 : public TensorCoreTest {
  protected:
    void SetUp() override {
        open("");
        if (context == nullptr || IsSkipped()) return;
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        ASSERT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << last_error();
        const std::string arch = info.arch;
        if (generation.empty() || (arch.compare(0, 5, "sm_80") != 0 && arch.compare(0, 5, "sm_90") != 0))
            GTEST_SKIP() << "no split TF32 for " << arch;
    }

    struct Result {
        std::vector<float> o, lse;
    };
    Result attention(const AttentionProblem &p, const std::vector<float> &q, const std::vector<float> &k, const std::vector<float> &v,
                     uint32_t flags) {
        const Array<float> on_q(context, ATTILE_MEMORY_DEVICE, q), on_k(context, ATTILE_MEMORY_DEVICE, k),
            on_v(context, ATTILE_MEMORY_DEVICE, v);
        const auto count = static_cast<std::size_t>(p.heads * p.len_q);
        const Array<float> on_o(context, ATTILE_MEMORY_DEVICE, std::vector<float>(count * static_cast<std::size_t>(p.dim_v), NAN)),
            on_lse(context, ATTILE_MEMORY_DEVICE, std::vector<float>(count, NAN));
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        const auto tensor = [](attile_tensor &t, const Array<float> &data, std::initializer_list<int64_t> shape) {
            attile_tensor_init(&t, data.data(), ATTILE_F32, static_cast<int32_t>(shape.size()), shape.begin());
        };
        tensor(args.q, on_q, {1, p.heads, p.len_q, p.dim});
        tensor(args.k, on_k, {1, p.heads_kv, p.len_k, p.dim});
        tensor(args.v, on_v, {1, p.heads_kv, p.len_k, p.dim_v});
        tensor(args.o, on_o, {1, p.heads, p.len_q, p.dim_v});
        tensor(args.lse, on_lse, {1, p.heads, p.len_q});
        args.mask = p.mask;
        args.softcap = p.softcap;
        args.flags = flags;
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
        expect_kernel(support, flags);
        EXPECT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
        EXPECT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
        return {on_o.fetch(), on_lse.fetch()};
    }

    // Errors of o and lse against double, in units of float32's rounding of the row's largest output, and of 1.
    static void errors(const AttentionProblem &p, const std::vector<float> &q, const std::vector<float> &k, const std::vector<float> &v,
                       const Result &found, Errors &of_o, Errors &of_lse) {
        const double unit = std::ldexp(1.0, -24);
        AttentionRow row_of;
        row_of.dim = p.dim;
        row_of.dim_v = p.dim_v;
        row_of.scale = 1 / std::sqrt(static_cast<double>(p.dim));
        row_of.softcap = p.softcap;
        for (int64_t row = 0; row < p.heads * p.len_q; row += 7 * kHeads / 2 + 1) {
            const int64_t h = row / p.len_q, i = row % p.len_q, g = h * p.heads_kv / p.heads;
            row_of.keys = p.mask == ATTILE_MASK_CAUSAL_TOP_LEFT ? std::min(p.len_k, i + 1) : p.len_k;
            row_of.q = q.data() + row * p.dim;
            row_of.k = [&](int64_t j) { return k.data() + (g * p.len_k + j) * p.dim; };
            row_of.v = [&](int64_t j) { return v.data() + (g * p.len_k + j) * p.dim_v; };
            const AttentionRowResult wanted = attention_row(row_of);
            double largest = 0;
            for (const double x : wanted.o) largest = std::max(largest, std::abs(x));
            for (int64_t d = 0; d < p.dim_v; ++d)
                of_o.add(found.o[static_cast<std::size_t>(row * p.dim_v + d)], wanted.o[static_cast<std::size_t>(d)], largest * unit);
            of_lse.add(found.lse[static_cast<std::size_t>(row)], wanted.lse, unit);
        }
    }

    void compare(const AttentionProblem &p) {
        SCOPED_TRACE(p.text());
        std::mt19937 engine(5);
        const std::vector<float> q = drawn(engine, p.heads * p.len_q * p.dim, p.kind, p.spread),
                                 k = drawn(engine, p.heads_kv * p.len_k * p.dim, p.kind),
                                 v = drawn(engine, p.heads_kv * p.len_k * p.dim_v, p.kind_v);
        Errors plain_o, plain_lse, split_o, split_lse;
        errors(p, q, k, v, attention(p, q, k, v, 0), plain_o, plain_lse);
        errors(p, q, k, v, attention(p, q, k, v, ATTILE_FLAG_ALLOW_SPLIT_TF32), split_o, split_lse);
        expect_similar("o of " + p.text(), plain_o, split_o);
        expect_similar("lse of " + p.text(), plain_lse, split_lse);
    }

    struct Matrices {
        int64_t m, n, k;
        bool turned_a = false, turned_b = false;
    };
    std::vector<float> gemm(const Matrices &p, const std::vector<float> &a, const std::vector<float> &b, uint32_t flags) {
        const Array<float> on_a(context, ATTILE_MEMORY_DEVICE, a), on_b(context, ATTILE_MEMORY_DEVICE, b),
            on_d(context, ATTILE_MEMORY_DEVICE, std::vector<float>(static_cast<std::size_t>(p.m * p.n), NAN));
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        const auto matrix = [](attile_tensor &t, const Array<float> &data, int64_t rows, int64_t cols, bool turned) {
            const int64_t shape[2] = {rows, cols};
            attile_tensor_init(&t, data.data(), ATTILE_F32, 2, shape);
            if (!turned) return;
            t.stride[0] = 1;
            t.stride[1] = rows;
        };
        matrix(args.a, on_a, p.m, p.k, p.turned_a);
        matrix(args.b, on_b, p.k, p.n, p.turned_b);
        matrix(args.d, on_d, p.m, p.n, false);
        args.flags = flags;
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK) << last_error();
        expect_kernel(support, flags);
        EXPECT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
        EXPECT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
        return on_d.fetch();
    }
    void compare(const Matrices &p, Values kind) {
        const std::string text = std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) + " turned " +
                                 std::to_string(p.turned_a) + std::to_string(p.turned_b) + " values" +
                                 std::to_string(static_cast<int>(kind));
        SCOPED_TRACE(text);
        std::mt19937 engine(6);
        const std::vector<float> a = drawn(engine, p.m * p.k, kind), b = drawn(engine, p.k * p.n, kind);
        const std::vector<float> plain = gemm(p, a, b, ATTILE_FLAG_BATCH_INVARIANT),
                                 split = gemm(p, a, b, ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_ALLOW_SPLIT_TF32);
        Errors of_plain, of_split;
        for (int64_t i = 0; i < p.m; i += 1 + p.m / 24) {
            for (int64_t j = 0; j < p.n; ++j) {
                const ProductElement wanted = product_element(
                    p.k, [&](int64_t l) { return a[static_cast<std::size_t>(p.turned_a ? l * p.m + i : i * p.k + l)]; },
                    [&](int64_t l) { return b[static_cast<std::size_t>(p.turned_b ? j * p.k + l : l * p.n + j)]; });
                const double unit = std::ldexp(std::sqrt(wanted.squares), -24);
                of_plain.add(plain[static_cast<std::size_t>(i * p.n + j)], wanted.sum, unit);
                of_split.add(split[static_cast<std::size_t>(i * p.n + j)], wanted.sum, unit);
            }
        }
        expect_similar("d of " + text, of_plain, of_split);
    }

    static void expect_kernel(const attile_support &support, uint32_t flags) {
        const bool is_split = std::strstr(support.kernel, "split_tf32") != nullptr;
        EXPECT_EQ(is_split, (flags & ATTILE_FLAG_ALLOW_SPLIT_TF32) != 0) << support.kernel << ": " << support.text;
        if (!is_split) {
            EXPECT_NE(std::strstr(support.text, "ALLOW_SPLIT_TF32"), nullptr) << support.text;
        }
    }
    void expect_similar(const std::string &what, const Errors &plain, const Errors &split) {
        std::printf("%-70s largest %8.2f, plain %8.2f, %.2fx; rms %8.3f, plain %8.3f, %.2fx\n", what.c_str(), split.largest, plain.largest,
                    split.largest / plain.largest, split.rms(), plain.rms(), split.rms() / plain.rms());
        EXPECT_LE(split.largest, 2 * plain.largest) << what;
        EXPECT_LE(split.rms(), 2 * plain.rms()) << what;
    }
    // The same infinities and NaN, and numbers about alike.
    static void expect_alike(const std::vector<float> &plain, const std::vector<float> &split, float size) {
        int failures = 0;
        for (std::size_t i = 0; i < plain.size() && failures < 5; ++i) {
            const bool alike = std::isfinite(plain[i]) ? std::abs(split[i] - plain[i]) <= 1e-4F * (size + std::abs(plain[i]))
                                                       : plain[i] == split[i] || (std::isnan(plain[i]) && std::isnan(split[i]));
            if (!alike && ++failures) ADD_FAILURE() << "at " << i << ": " << split[i] << " instead of " << plain[i];
        }
    }
};

TEST_F(CudaTf32x3, AttentionErrsLittleMore) {
    for (const int64_t dim : {32, 64, 96, 128, 256})
        for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT}) compare({.dim = dim, .dim_v = dim, .mask = mask});
    for (const int64_t dim : {64, 128, 256}) {
        for (const double spread : {36, 400}) compare({.dim = dim, .dim_v = dim, .spread = spread});
        compare({.dim = dim, .dim_v = dim, .kind_v = Values::kPositive});
        compare({.dim = dim, .dim_v = dim, .spread = 4e-6, .kind = Values::kMixed, .kind_v = Values::kMixed});
        compare({.dim = dim, .dim_v = dim, .spread = 0.01, .kind = Values::kPositive, .kind_v = Values::kPositive});
    }
    compare({.dim = 40, .dim_v = 68});
    compare({.len_q = 100, .len_k = 64});
    compare({.len_q = 65, .len_k = 20000});
    compare({.heads_kv = 2, .len_q = 129, .len_k = 777, .softcap = 5});
}

TEST_F(CudaTf32x3, GemmErrsLittleMore) {
    for (const Values kind : {Values::kNormal, Values::kPositive, Values::kMixed})
        for (const int64_t k : {32, 64, 512}) compare({256, 384, k}, kind);
    for (const bool turned_a : {false, true})
        for (const bool turned_b : {false, true}) compare({200, 136, 520, turned_a, turned_b}, Values::kNormal);
}

TEST_F(CudaTf32x3, AttentionKeepsInfinitiesAndNan) {
    struct Special {
        float q, k, v;
    };
    for (const Special &x : {Special{1, kInfinity, 1},
                             {1, -kInfinity, 1},
                             {-1, kInfinity, 1},
                             {0, kInfinity, 1},
                             {1, NAN, 1},
                             {kInfinity, 1, 1},
                             {1, kLargest, 1},
                             {1, -kLargest, 1},
                             {1e30F, 1e20F, 1},
                             {1e30F, -1e20F, 1},
                             {1, 1, kInfinity},
                             {1, 1, -kInfinity},
                             {1, 1, NAN},
                             {1, 1, kLargest},
                             {1e19F, 1e19F, 1},
                             {1e-20F, 1e-25F, 1e-40F}}) {
        for (const int64_t dim : {64, 128, 256}) {
            for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT}) {
                SCOPED_TRACE(testing::Message() << "q " << x.q << " k " << x.k << " v " << x.v << " d " << dim << " mask " << mask);
                AttentionProblem p = {.len_q = 140, .len_k = 170, .dim = dim, .dim_v = dim, .mask = mask};
                std::mt19937 engine(7);
                std::vector<float> q = drawn(engine, p.heads * p.len_q * dim, Values::kNormal),
                                   k = drawn(engine, p.len_k * dim, Values::kNormal), v = drawn(engine, p.len_k * dim, Values::kNormal);
                for (const int64_t row : {3, 70, 131}) q[static_cast<std::size_t>(row * dim + 11)] = x.q;
                k[static_cast<std::size_t>(50 * dim + 11)] = x.k;
                v[static_cast<std::size_t>(60 * dim + 13)] = x.v;
                const Result plain = attention(p, q, k, v, 0), split = attention(p, q, k, v, ATTILE_FLAG_ALLOW_SPLIT_TF32);
                expect_alike(plain.o, split.o, 1);
                expect_alike(plain.lse, split.lse, 10);
            }
        }
    }
}

TEST_F(CudaTf32x3, GemmKeepsInfinitiesAndNan) {
    constexpr uint32_t kFlags = ATTILE_FLAG_BATCH_INVARIANT;
    for (const float x : {kInfinity, -kInfinity, NAN, kLargest, -kLargest, 3e38F}) {
        for (const bool turned : {false, true}) {
            for (const int64_t n : {129, 136}) {
                SCOPED_TRACE(testing::Message() << x << " turned " << turned << " n " << n);
                const Matrices p = {140, n, 200, turned, turned};
                std::mt19937 engine(8);
                std::vector<float> a = drawn(engine, p.m * p.k, Values::kNormal), b = drawn(engine, p.k * p.n, Values::kNormal);
                a[static_cast<std::size_t>(turned ? 30 * p.m + 17 : 17 * p.k + 30)] = x;
                b[static_cast<std::size_t>(turned ? 99 * p.k + 30 : 30 * p.n + 99)] = 0;
                b[static_cast<std::size_t>(turned ? 64 * p.k + 44 : 44 * p.n + 64)] = -x;
                a[static_cast<std::size_t>(turned ? 44 * p.m + 18 : 18 * p.k + 44)] = 0;
                expect_alike(gemm(p, a, b, kFlags), gemm(p, a, b, kFlags | ATTILE_FLAG_ALLOW_SPLIT_TF32), 15);
            }
        }
    }
}

TEST_F(CudaTf32x3, SmallProblemsGoWithout) {
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    const int64_t shape[2] = {32, 32};
    for (attile_tensor *const t : {&args.a, &args.b, &args.d}) attile_tensor_init(t, nullptr, ATTILE_F32, 2, shape);
    args.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
    attile_support support;
    attile_support_init(&support, sizeof support);
    ASSERT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(std::strstr(support.kernel, "split_tf32"), nullptr) << support.kernel;
    EXPECT_NE(std::strstr(support.text, "no tensor cores: "), nullptr) << support.text;
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Offsets beyond 2^31 elements, by huge strides over memory that is reserved and hardly touched, and batches beyond what a grid can have.
#include <cmath>

#include "portable.h"
#include "properties.h"
#include "test_random.h"

namespace attile::test {
namespace {

// Address space for floats; pages exist only where they are written.
class Reservation {
  public:
    explicit Reservation(std::int64_t elements) : bytes_(static_cast<std::size_t>(elements) * sizeof(float)) {
        data_ = reserve_space(bytes_);
    }
    ~Reservation() {
        if (data_ != nullptr) release_space(data_, bytes_);
    }
    Reservation(const Reservation &) = delete;
    Reservation &operator=(const Reservation &) = delete;
    float *data() const { return static_cast<float *>(data_); }

  private:
    std::size_t bytes_;
    void *data_;
};

attile_tensor strided(float *data, std::vector<std::int64_t> shape, std::vector<std::int64_t> stride) {
    attile_tensor t = {};
    t.data = data;
    t.dtype = ATTILE_F32;
    t.rank = static_cast<std::int32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), t.shape);
    std::copy(stride.begin(), stride.end(), t.stride);
    return t;
}

// A small integer, so that every sum is exact in any order.
float number(std::int64_t i) { return static_cast<float>(i * 7 % 11 - 5); }

constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 7;

using ExtremeShapes = PropertyTest;

// Backends that stage host memory may say no to what spans gigabytes; then the query must have said so.
template <class Args, class Query, class Run>
bool runs(attile_context *context, const Args &args, Query query, Run run) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(query(context, &args, &support), ATTILE_OK);
    const std::int32_t status = run(context, &args);
    EXPECT_EQ(status, support.status) << attile_status_name(status);
    return status == ATTILE_OK;
}

TEST_F(ExtremeShapes, GemmOfDistantRows) {
    constexpr std::int64_t kM = 3, kN = 4, kK = 3;
    const Reservation a(kFar * kM), b(kFar * kK), d(kFar * kM);
    if (a.data() == nullptr || b.data() == nullptr || d.data() == nullptr) GTEST_SKIP() << "no address space to reserve";
    for (std::int64_t m = 0; m < kM; ++m)
        for (std::int64_t k = 0; k < kK; ++k) a.data()[m * kFar + k] = number(m * kK + k);
    for (std::int64_t k = 0; k < kK; ++k)
        for (std::int64_t n = 0; n < kN; ++n) b.data()[k * kFar + n] = number(k * kN + n + 3);
    on_every_backend([&](attile_context *context) {
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        args.a = strided(a.data(), {kM, kK}, {kFar, 1});
        args.b = strided(b.data(), {kK, kN}, {kFar, 1});
        args.d = strided(d.data(), {kM, kN}, {kFar, 1});
        for (std::int64_t m = 0; m < kM; ++m) d.data()[m * kFar] = NAN;
        if (!runs(context, args, attile_gemm_query, attile_gemm)) return;
        for (std::int64_t m = 0; m < kM; ++m)
            for (std::int64_t n = 0; n < kN; ++n) {
                float sum = 0;
                for (std::int64_t k = 0; k < kK; ++k) sum += a.data()[m * kFar + k] * b.data()[k * kFar + n];
                EXPECT_EQ(d.data()[m * kFar + n], sum) << m << ", " << n;
            }
    });
}

TEST_F(ExtremeShapes, AttentionOfDistantKeysAndHeads) {
    constexpr std::int64_t kH = 2, kL = 3, kD = 4;
    const Reservation q(kFar * kH + kD * kL), k(kFar * kL + kD * kH), v(kFar * kL + kD * kH), o(kFar * kH + kD * kL);
    if (q.data() == nullptr || k.data() == nullptr || v.data() == nullptr || o.data() == nullptr)
        GTEST_SKIP() << "no address space to reserve";
    for (std::int64_t h = 0; h < kH; ++h)
        for (std::int64_t l = 0; l < kL; ++l)
            for (std::int64_t d = 0; d < kD; ++d) {
                q.data()[h * kFar + l * kD + d] = number(h + l + d);
                k.data()[l * kFar + h * kD + d] = 0;  // equal scores: the result is the mean of the values
                v.data()[l * kFar + h * kD + d] = number(h * 5 + l * 3 + d);
            }
    on_every_backend([&](attile_context *context) {
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.q = strided(q.data(), {1, kH, kL, kD}, {0, kFar, kD, 1});
        args.k = strided(k.data(), {1, kH, kL, kD}, {0, kD, kFar, 1});
        args.v = strided(v.data(), {1, kH, kL, kD}, {0, kD, kFar, 1});
        args.o = strided(o.data(), {1, kH, kL, kD}, {kFar * kH, kFar, kD, 1});
        if (!runs(context, args, attile_attention_query, attile_attention)) return;
        for (std::int64_t h = 0; h < kH; ++h)
            for (std::int64_t d = 0; d < kD; ++d) {
                float sum = 0;
                for (std::int64_t l = 0; l < kL; ++l) sum += v.data()[l * kFar + h * kD + d];
                for (std::int64_t l = 0; l < kL; ++l)
                    EXPECT_NEAR(o.data()[h * kFar + l * kD + d], sum / 3, 1e-5F) << h << ", " << l << ", " << d;
            }
    });
}

TEST_F(ExtremeShapes, ReduceOfDistantElements) {
    const Reservation x(kFar * 5);
    if (x.data() == nullptr) GTEST_SKIP() << "no address space to reserve";
    float want = 0;
    for (std::int64_t i = 0; i < 5; ++i) want += x.data()[i * kFar] = number(i + 2);
    on_every_backend([&](attile_context *context) {
        float y = NAN;
        attile_reduce_args args;
        attile_reduce_init(&args, sizeof args);
        args.op = ATTILE_REDUCE_SUM;
        args.x = strided(x.data(), {5}, {kFar});
        args.y = strided(&y, {1}, {1});
        if (!runs(context, args, attile_reduce_query, attile_reduce)) return;
        EXPECT_EQ(y, want);
    });
}

constexpr std::int64_t kBatch = 70'000;  // more than the 65535 blocks a grid may have in y and z

TEST_F(ExtremeShapes, GemmOfAHugeBatch) {
    on_every_backend([](attile_context *context) {
        std::vector<float> a(kBatch * 2), b(kBatch * 2), d(kBatch, NAN);
        for (std::int64_t i = 0; i < kBatch * 2; ++i) {
            a[static_cast<std::size_t>(i)] = number(i);
            b[static_cast<std::size_t>(i)] = number(i + 3);
        }
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        args.a = strided(a.data(), {kBatch, 1, 2}, {2, 2, 1});
        args.b = strided(b.data(), {kBatch, 2, 1}, {2, 1, 1});
        args.d = strided(d.data(), {kBatch, 1, 1}, {1, 1, 1});
        ASSERT_TRUE(succeeded(attile_gemm(context, &args)));
        for (std::size_t i = 0; i < d.size(); ++i) ASSERT_EQ(d[i], a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1]) << "entry " << i;
    });
}

TEST_F(ExtremeShapes, AttentionOfAHugeBatchAndOfManyHeads) {
    on_every_backend([](attile_context *context) {
        for (const bool heads : {false, true}) {
            SCOPED_TRACE(heads ? "heads" : "batch");
            std::vector<float> q(kBatch), k(kBatch), v(kBatch), o(kBatch, NAN), lse(kBatch, NAN);
            for (std::int64_t i = 0; i < kBatch; ++i) {
                q[static_cast<std::size_t>(i)] = number(i);
                k[static_cast<std::size_t>(i)] = number(i + 1);
                v[static_cast<std::size_t>(i)] = number(i + 2);
            }
            const std::int64_t b = heads ? 1 : kBatch, h = heads ? kBatch : 1;
            attile_attention_args args;
            attile_attention_init(&args, sizeof args);
            args.scale = 1;
            args.q = strided(q.data(), {b, h, 1, 1}, {h, 1, 1, 1});
            args.k = strided(k.data(), {b, h, 1, 1}, {h, 1, 1, 1});
            args.v = strided(v.data(), {b, h, 1, 1}, {h, 1, 1, 1});
            args.o = strided(o.data(), {b, h, 1, 1}, {h, 1, 1, 1});
            args.lse = strided(lse.data(), {b, h, 1}, {h, 1, 1});
            ASSERT_TRUE(succeeded(attile_attention(context, &args)));
            for (std::size_t i = 0; i < o.size(); ++i) {
                ASSERT_EQ(o[i], v[i]) << "entry " << i;
                ASSERT_NEAR(lse[i], q[i] * k[i], 1e-5F) << "entry " << i;
            }
        }
    });
}

// What a query without addresses asks for is enough for operands that begin anywhere.
TEST_F(ExtremeShapes, WorkspaceOfAttentionWithoutAddresses) {
    on_every_backend([](attile_context *context) {
        const auto workspace = [&](std::uintptr_t begins, std::int64_t h, std::int64_t rows, std::int64_t keys, std::int64_t d) {
            attile_attention_args args;
            attile_attention_init(&args, sizeof args);
            // Far apart, so that o overlaps nothing.
            const auto at = [&](std::uintptr_t place) { return begins == 0 ? nullptr : reinterpret_cast<float *>((place << 40) + begins); };
            args.q = strided(at(1), {1, h, rows, d}, {h * rows * d, rows * d, d, 1});
            args.k = strided(at(2), {1, h, keys, d}, {h * keys * d, keys * d, d, 1});
            args.v = strided(at(3), {1, h, keys, d}, {h * keys * d, keys * d, d, 1});
            args.o = strided(at(4), {1, h, rows, d}, {h * rows * d, rows * d, d, 1});
            attile_support support;
            attile_support_init(&support, sizeof support);
            EXPECT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK);
            return support.workspace_bytes;
        };
        for (const std::int64_t d : {32, 64, 128})
            for (std::int64_t h = 1; h < 70; h += 4)
                for (const std::int64_t rows : {1, 256, 1000, 4224})
                    for (const std::int64_t keys : {256, 1000, 4096})
                        ASSERT_GE(workspace(0, h, rows, keys, d), workspace(4, h, rows, keys, d))
                            << h << " heads, " << rows << " rows, " << keys << " keys, " << d << " columns";
    });
}

TEST_F(ExtremeShapes, WorkspaceOfSoftmaxWithoutAddresses) {
    on_every_backend([](attile_context *context) {
        const auto workspace = [&](std::uintptr_t x, std::uintptr_t y, std::int64_t rows, std::int64_t length) {
            attile_softmax_args args;
            attile_softmax_init(&args, sizeof args);
            args.axis = 1;
            const auto at = [&](std::uintptr_t place, std::uintptr_t begins) {
                return begins == 0 ? nullptr : reinterpret_cast<float *>((place << 40) + begins);
            };
            args.x = strided(at(1, x), {rows, length}, {length, 1});
            args.y = strided(at(2, y), {rows, length}, {length, 1});
            attile_support support;
            attile_support_init(&support, sizeof support);
            EXPECT_EQ(attile_softmax_query(context, &args, &support), ATTILE_OK);
            return support.workspace_bytes;
        };
        for (const std::int64_t rows : {1, 16, 132, 520})
            for (const std::int64_t length : {100, 2048, 8188, 8192, 8196, 16384, 20000, 32768, 40000, 100000})
                for (const std::uintptr_t x : {4, 16})
                    for (const std::uintptr_t y : {4, 8, 16}) {
                        const std::int64_t needed = workspace(x, y, rows, length);
                        for (const auto &[known_x, known_y] : {std::pair<std::uintptr_t, std::uintptr_t>{0, 0}, {x, 0}, {0, y}})
                            ASSERT_GE(workspace(known_x, known_y, rows, length), needed)
                                << rows << " rows of " << length << ", at addresses of " << x << " and " << y << ", of which " << known_x
                                << " and " << known_y << " were known";
                    }
    });
}

TEST_F(ExtremeShapes, SoftmaxOfManyRows) {
    on_every_backend([](attile_context *context) {
        std::vector<float> x(kBatch * 2), y(kBatch * 2, NAN);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 2) * std::log(3.0F);
        attile_softmax_args args;
        attile_softmax_init(&args, sizeof args);
        args.axis = 1;
        args.x = strided(x.data(), {kBatch, 2}, {2, 1});
        args.y = strided(y.data(), {kBatch, 2}, {2, 1});
        ASSERT_TRUE(succeeded(attile_softmax(context, &args)));
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], i % 2 == 0 ? 0.25F : 0.75F, 1e-6F) << "element " << i;
    });
}

// However many rows have no columns, their gradients take neither time nor memory.
TEST_F(ExtremeShapes, GradientsOfManyRowsWithoutColumns) {
    constexpr std::int64_t kMany = std::int64_t{1} << 50;
    on_every_backend([&](attile_context *context) {
        float sink = 1, dsink = NAN, lse = 0, nothing = 0;
        attile_attention_args forward;
        attile_attention_init(&forward, sizeof forward);
        attile_attention_backward_args args;
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        forward.q = forward.o = args.dout = args.dq = strided(&nothing, {1, 1, kMany, 0}, {0, 0, 0, 1});
        forward.k = forward.v = args.dk = args.dv = strided(&nothing, {1, 1, 3, 0}, {0, 0, 0, 1});
        forward.lse = strided(&lse, {1, 1, kMany}, {0, 0, 0});
        forward.sinks = strided(&sink, {1}, {1});
        args.dsinks = strided(&dsink, {1}, {1});
        if (!runs(context, args, attile_attention_backward_query, attile_attention_backward)) return;
        EXPECT_EQ(dsink, 0);
    });
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// The ends of what a device has: offsets and extents beyond 2^31 elements in its own memory, more batch entries than a grid has in y and
// z, memory that runs out, host arrays larger than what is free. Each by every set of kernels; memory that is not there is a skip. A
// program of its own, since it takes all of the device's memory: nothing else should use the device meanwhile.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cuda_test_context.h"
#include "row_reference.h"
#include "test_element.h"

namespace attile::test {
namespace {

constexpr int64_t kFar = (int64_t{1} << 31) + 64;  // Elements. A multiple of 16 bytes in every type.
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class CudaLimits : public TensorCoreTest, public testing::WithParamInterface<std::tuple<const char *, int32_t>> {
  protected:
    void SetUp() override {
        if (backend_under_test().rfind("emulated", 0) == 0) GTEST_SKIP() << "too large for an emulated device";
        open(std::get<0>(GetParam()));
    }
    int32_t dtype() const { return std::get<1>(GetParam()); }
    int64_t size() const { return element_bytes(dtype()); }
    int64_t free_bytes() {
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        EXPECT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << last_error();
        return info.memory_free;
    }
    bool has(int64_t elements) { return free_bytes() > elements * size() + (int64_t{1} << 30); }
    std::vector<unsigned char> drawn(int64_t count, double factor = 1) {
        std::normal_distribution<double> normal;
        std::vector<unsigned char> bytes(static_cast<std::size_t>(count * size()));
        for (int64_t i = 0; i < count; ++i) encode(dtype(), factor * normal(engine_), bytes.data() + i * size());
        return bytes;
    }
    double at(const std::vector<unsigned char> &bytes, int64_t i) const { return decode(dtype(), bytes.data() + i * size()); }
    void near(const std::vector<unsigned char> &found, const std::vector<unsigned char> &expected, const char *what) const {
        ASSERT_EQ(found.size(), expected.size());
        for (int64_t i = 0; i < static_cast<int64_t>(found.size()) / size(); ++i)
            ASSERT_LE(std::fabs(at(found, i) - at(expected, i)), 4 * precision_of(dtype()).unit * (1 + std::fabs(at(expected, i))))
                << what << " at " << i;
    }
    std::mt19937 engine_{9};
};

// A tensor whose lines along one axis lie kFar elements apart, in memory that several such tensors share, and its dense twin.
struct Spread {
    std::vector<int64_t> shape;
    int axis;
    attile_tensor far = {}, dense = {};
    int64_t line = 1;  // Elements of a line: all axes but the spread one.

    Spread(std::vector<int64_t> extents, int spread_axis, int32_t dtype, unsigned char *base, unsigned char *place)
        : shape(std::move(extents)), axis(spread_axis) {
        attile_tensor_init(&dense, place, dtype, static_cast<int32_t>(shape.size()), shape.data());
        far = dense;
        far.data = base;
        int64_t stride = 1;
        for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
            far.stride[i] = i == axis ? kFar : stride;
            if (i != axis) stride *= shape[static_cast<std::size_t>(i)];
        }
        line = stride;
    }
    // Elements as the dense twin has them, to where the far one has them, or back.
    template <class Copy>
    void each_run(int64_t element, const Copy &copy) const {
        int64_t inner = 1, outer = 1;
        for (int i = 0; i < static_cast<int>(shape.size()); ++i)
            (i < axis ? outer : inner) *= i == axis ? 1 : shape[static_cast<std::size_t>(i)];
        const int64_t count = shape[static_cast<std::size_t>(axis)];
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t i = 0; i < count; ++i)
                copy(static_cast<unsigned char *>(far.data) + (i * kFar + o * inner) * element, (o * count + i) * inner * element,
                     static_cast<std::size_t>(inner * element));
    }
};

class FarTensors {
  public:
    FarTensors(attile_context *context, int32_t dtype, int64_t lines, int64_t dense_bytes)
        : dtype_(dtype),
          far_(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(((lines - 1) * kFar + (1 << 22)) * element_bytes(dtype))),
          dense_(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(dense_bytes)) {}
    Spread place(const std::vector<int64_t> &shape, int axis, const std::vector<unsigned char> *bytes) {
        const int64_t element = element_bytes(dtype_);
        Spread spread(shape, axis, dtype_, far_.data() + far_next_, dense_.data() + dense_next_);
        int64_t count = 1;
        for (const int64_t extent : shape) count *= extent;
        far_next_ += (spread.line * element + 255) / 256 * 256;
        dense_next_ += (count * element + 255) / 256 * 256;
        EXPECT_LE(far_next_, (1 << 22) * element);
        EXPECT_LE(dense_next_, dense_.bytes());
        const std::vector<unsigned char> nothing(static_cast<std::size_t>(count * element), 0xff);
        const std::vector<unsigned char> &from = bytes != nullptr ? *bytes : nothing;
        EXPECT_EQ(cudaMemcpy(spread.dense.data, from.data(), from.size(), cudaMemcpyDefault), cudaSuccess);
        spread.each_run(element, [&](unsigned char *far, int64_t at, std::size_t run) {
            EXPECT_EQ(cudaMemcpy(far, from.data() + at, run, cudaMemcpyDefault), cudaSuccess);
        });
        return spread;
    }
    std::vector<unsigned char> fetch(const Spread &spread, bool far) const {
        const int64_t element = element_bytes(dtype_);
        int64_t count = 1;
        for (const int64_t extent : spread.shape) count *= extent;
        std::vector<unsigned char> bytes(static_cast<std::size_t>(count * element));
        if (!far) {
            EXPECT_EQ(cudaMemcpy(bytes.data(), spread.dense.data, bytes.size(), cudaMemcpyDefault), cudaSuccess);
            return bytes;
        }
        spread.each_run(element, [&](const unsigned char *from, int64_t at, std::size_t run) {
            EXPECT_EQ(cudaMemcpy(bytes.data() + at, from, run, cudaMemcpyDefault), cudaSuccess);
        });
        return bytes;
    }

  private:
    int32_t dtype_;
    Array<unsigned char> far_, dense_;
    int64_t far_next_ = 0, dense_next_ = 0;
};

// Batch entries, heads and rows, each in its turn, kFar elements apart: the same as if they lay side by side.
TEST_P(CudaLimits, DistantAttentionAndGradients) {
    struct Extents {
        int64_t batch, heads, rows, keys;
    };
    for (int axis = 0; axis < 3; ++axis) {
        const Extents e = axis == 0 ? Extents{2, 2, 70, 130} : axis == 1 ? Extents{2, 2, 70, 130} : Extents{1, 2, 4, 4};
        const int64_t lines = axis == 2 ? 4 : 2, dim = 64;
        if (!has(lines * kFar)) GTEST_SKIP() << "the device has too little memory free";
        FarTensors tensors(context, dtype(), lines, 8 << 20);
        const std::vector<int64_t> of_rows = {e.batch, e.heads, e.rows, dim}, of_keys = {e.batch, e.heads, e.keys, dim};
        const std::vector<unsigned char> q = drawn(e.batch * e.heads * e.rows * dim), k = drawn(e.batch * e.heads * e.keys * dim),
                                         v = drawn(e.batch * e.heads * e.keys * dim), dout = drawn(e.batch * e.heads * e.rows * dim);
        const Spread on_q = tensors.place(of_rows, axis, &q), on_k = tensors.place(of_keys, axis, &k),
                     on_v = tensors.place(of_keys, axis, &v), on_o = tensors.place(of_rows, axis, nullptr),
                     on_dout = tensors.place(of_rows, axis, &dout), on_dq = tensors.place(of_rows, axis, nullptr),
                     on_dk = tensors.place(of_keys, axis, nullptr), on_dv = tensors.place(of_keys, axis, nullptr);
        const Array<float> lse(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(e.batch * e.heads * e.rows));
        const int64_t lse_shape[3] = {e.batch, e.heads, e.rows};
        for (const bool far : {false, true}) {
            SCOPED_TRACE(testing::Message() << "axis " << axis << (far ? " far apart" : " dense"));
            const auto view = [far](const Spread &x) { return far ? x.far : x.dense; };
            attile_attention_args args;
            attile_attention_init(&args, sizeof args);
            args.q = view(on_q);
            args.k = view(on_k);
            args.v = view(on_v);
            args.o = view(on_o);
            attile_tensor_init(&args.lse, lse.data(), ATTILE_F32, 3, lse_shape);
            ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
            attile_attention_backward_args backward;
            attile_attention_backward_init(&backward, sizeof backward);
            backward.forward = &args;
            backward.dout = view(on_dout);
            backward.dq = view(on_dq);
            backward.dk = view(on_dk);
            backward.dv = view(on_dv);
            ASSERT_EQ(attile_attention_backward(context, &backward), ATTILE_OK) << last_error();
            ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
        }
        near(tensors.fetch(on_o, true), tensors.fetch(on_o, false), "o");
        near(tensors.fetch(on_dq, true), tensors.fetch(on_dq, false), "dq");
        near(tensors.fetch(on_dk, true), tensors.fetch(on_dk, false), "dk");
        near(tensors.fetch(on_dv, true), tensors.fetch(on_dv, false), "dv");
    }
}

TEST_P(CudaLimits, DistantProductsReductionsAndSoftmax) {
    for (const bool of_batch : {true, false}) {
        const int64_t lines = of_batch ? 2 : 4, m = of_batch ? 70 : 4, k = of_batch ? 136 : 4, n = 72;
        if (!has(lines * kFar)) GTEST_SKIP() << "the device has too little memory free";
        const int axis = of_batch ? 0 : 1;
        const int64_t batch = of_batch ? 2 : 1;
        FarTensors tensors(context, dtype(), lines, 8 << 20);
        const std::vector<unsigned char> a = drawn(batch * m * k), b = drawn(batch * k * n);
        const Spread on_a = tensors.place({batch, m, k}, axis, &a), on_b = tensors.place({batch, k, n}, axis, &b),
                     on_d = tensors.place({batch, m, n}, axis, nullptr), on_p = tensors.place({batch, k, n}, axis, nullptr),
                     on_s = tensors.place({batch, k, 1}, axis, nullptr);
        for (const bool far : {false, true}) {
            SCOPED_TRACE(testing::Message() << "axis " << axis << (far ? " far apart" : " dense"));
            const auto view = [far](const Spread &x) { return far ? x.far : x.dense; };
            attile_gemm_args gemm;
            attile_gemm_init(&gemm, sizeof gemm);
            gemm.a = view(on_a);
            gemm.b = view(on_b);
            gemm.d = view(on_d);
            ASSERT_EQ(attile_gemm(context, &gemm), ATTILE_OK) << last_error();
            attile_softmax_args softmax;
            attile_softmax_init(&softmax, sizeof softmax);
            softmax.x = view(on_b);
            softmax.y = view(on_p);
            softmax.axis = -1;
            ASSERT_EQ(attile_softmax(context, &softmax), ATTILE_OK) << last_error();
            attile_reduce_args reduce;
            attile_reduce_init(&reduce, sizeof reduce);
            reduce.x = view(on_b);
            reduce.y = view(on_s);
            reduce.op = ATTILE_REDUCE_MAX;
            reduce.axis = -1;
            ASSERT_EQ(attile_reduce(context, &reduce), ATTILE_OK) << last_error();
            ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
        }
        near(tensors.fetch(on_d, true), tensors.fetch(on_d, false), "d");
        near(tensors.fetch(on_p, true), tensors.fetch(on_p, false), "softmax");
        near(tensors.fetch(on_s, true), tensors.fetch(on_s, false), "reduce");
    }
}

// A result of more than 2^31 elements: A of one value but for its last row, and the last row of D is another's.
TEST_P(CudaLimits, MoreThan2To31Results) {
    const int64_t m = 46400, n = 46400, k = 8;
    if (!has(m * n)) GTEST_SKIP() << "the device has too little memory free";
    const Array<unsigned char> a(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(m * k * size())),
        b(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(k * n * size())),
        d(context, ATTILE_MEMORY_DEVICE, static_cast<std::size_t>(m * n * size()));
    const std::vector<unsigned char> last = drawn(k), from = drawn(k * n);
    ASSERT_EQ(cudaMemset(a.data(), 0, static_cast<std::size_t>(a.bytes())), cudaSuccess);
    ASSERT_EQ(cudaMemset(d.data(), 0xff, static_cast<std::size_t>(d.bytes())), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(a.data() + (m - 1) * k * size(), last.data(), last.size(), cudaMemcpyDefault), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(b.data(), from.data(), from.size(), cudaMemcpyDefault), cudaSuccess);
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    const int64_t of_a[2] = {m, k}, of_b[2] = {k, n}, of_d[2] = {m, n};
    attile_tensor_init(&args.a, a.data(), dtype(), 2, of_a);
    attile_tensor_init(&args.b, b.data(), dtype(), 2, of_b);
    attile_tensor_init(&args.d, d.data(), dtype(), 2, of_d);
    ASSERT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
    ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
    std::vector<unsigned char> row(static_cast<std::size_t>(n * size())), zero(row.size(), 0);
    for (const int64_t i : {int64_t{0}, m / 2, m - 2, m - 1}) {
        ASSERT_EQ(cudaMemcpy(row.data(), d.data() + i * n * size(), row.size(), cudaMemcpyDefault), cudaSuccess);
        if (i < m - 1) {
            for (int64_t j = 0; j < n; ++j) ASSERT_EQ(at(row, j), 0) << i << ", " << j;
            continue;
        }
        for (int64_t j = 0; j < n; ++j) {
            const ProductElement wanted = product_element(
                k, [&](int64_t l) { return at(last, l); }, [&](int64_t l) { return at(from, l * n + j); });
            // As many roundings as products in float32, one on the way out.
            ASSERT_LE(std::fabs(at(row, j) - wanted.sum),
                      (8 * std::ldexp(1.0, -24) + 2 * precision_of(dtype()).unit) * (1 + wanted.magnitude))
                << j;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaLimits,
                         testing::Combine(testing::Values("", "80", "0"), testing::Values(ATTILE_BF16, ATTILE_F16, ATTILE_F32)));

// All of the device's memory but about this much, taken, to 2 MiB.
class Hog {
  public:
    Hog(attile_context *context, int64_t left) : context_(context) {
        for (int64_t piece = int64_t{1} << 33; piece >= int64_t{1} << 21; piece /= 2) {
            for (;;) {
                attile_context_info info;
                attile_context_info_init(&info, sizeof info);
                void *memory = nullptr;
                if (attile_context_get_info(context, &info) != ATTILE_OK || info.memory_free < left + piece ||
                    attile_alloc(context, ATTILE_MEMORY_DEVICE, piece, &memory) != ATTILE_OK)
                    break;
                held_.push_back(memory);
            }
        }
    }
    ~Hog() {
        for (void *const memory : held_) attile_free(context_, memory);
    }
    Hog(const Hog &) = delete;
    Hog &operator=(const Hog &) = delete;

  private:
    attile_context *context_;
    std::vector<void *> held_;
};

class CudaMemory : public CudaTest {};

// K's rows have an odd length: they are rewritten in a workspace.
TEST_F(CudaMemory, RunsOut) {
    if (backend_under_test().rfind("emulated", 0) == 0) GTEST_SKIP() << "memory of the host";
    const int64_t heads = 1024, rows = 40, keys = 2047, dim = 33;
    const int64_t of_rows[4] = {1, heads, rows, dim}, of_keys[4] = {1, heads, keys, dim};
    const auto rows_count = static_cast<std::size_t>(heads * rows * dim), keys_count = static_cast<std::size_t>(heads * keys * dim);
    const Array<float> q(context, ATTILE_MEMORY_DEVICE, std::vector<float>(rows_count, 1)),
        k(context, ATTILE_MEMORY_DEVICE, std::vector<float>(keys_count, 1)),
        o(context, ATTILE_MEMORY_DEVICE, std::vector<float>(rows_count, kNaN));
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q.data(), ATTILE_F32, 4, of_rows);
    attile_tensor_init(&args.k, k.data(), ATTILE_F32, 4, of_keys);
    args.v = args.k;
    attile_tensor_init(&args.o, o.data(), ATTILE_F32, 4, of_rows);
    attile_support support;
    attile_support_init(&support, sizeof support);
    ASSERT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
    constexpr int64_t kLeft = 48 << 20;
    ASSERT_GT(support.workspace_bytes, 2 * kLeft) << support.kernel;
    {
        const Hog hog(context, kLeft);
        EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_OUT_OF_DEVICE_MEMORY);
        EXPECT_NE(last_error().find(std::to_string(support.workspace_bytes)), std::string::npos) << last_error();
        EXPECT_NE(last_error().find("free"), std::string::npos) << last_error();
        ASSERT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
        for (const float x : o.fetch()) ASSERT_TRUE(std::isnan(x)) << "o was written";
    }
    ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();  // There is room again.
    for (const float x : o.fetch()) ASSERT_NEAR(x, 1, 1e-5);
}

TEST_F(CudaMemory, HostArraysAreLargerThanWhatIsFree) {
    if (backend_under_test().rfind("emulated", 0) == 0) GTEST_SKIP() << "memory of the host";
    const int64_t heads = 96, rows = 64, keys = 8192, dim = 128;  // K and V: 400 MB each.
    std::mt19937 engine(4);
    std::uniform_real_distribution<float> draw(-2, 2);
    const auto drawn = [&](int64_t count) {
        std::vector<float> values(static_cast<std::size_t>(count));
        for (float &x : values) x = draw(engine);
        return values;
    };
    std::vector<float> q = drawn(heads * rows * dim), k = drawn(heads * keys * dim), v = drawn(heads * keys * dim);
    const int64_t of_rows[4] = {1, heads, rows, dim}, of_keys[4] = {1, heads, keys, dim};
    // By a context of its own, whose pool holds nothing yet.
    const auto run = [&](std::vector<float> &o) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        const std::string backend = backend_under_test();
        options.backend = backend.c_str();
        attile_context *fresh = nullptr;
        EXPECT_EQ(attile_context_create(&options, &fresh), ATTILE_OK) << last_error();
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_BATCH_INVARIANT;  // However many heads go at a time.
        attile_tensor_init(&args.q, q.data(), ATTILE_F32, 4, of_rows);
        attile_tensor_init(&args.k, k.data(), ATTILE_F32, 4, of_keys);
        attile_tensor_init(&args.v, v.data(), ATTILE_F32, 4, of_keys);
        attile_tensor_init(&args.o, o.data(), ATTILE_F32, 4, of_rows);
        const int32_t status = attile_attention(fresh, &args);
        attile_context_destroy(fresh);
        return status;
    };
    std::vector<float> roomy(q.size(), kNaN), tight(q.size(), kNaN), none(q.size(), kNaN);
    ASSERT_EQ(run(roomy), ATTILE_OK) << last_error();
    {
        const Hog hog(context, 160 << 20);
        ASSERT_EQ(run(tight), ATTILE_OK) << last_error();
        EXPECT_TRUE(tight == roomy);
    }
    {
        const Hog hog(context, 4 << 20);  // Not even a head of K and V.
        EXPECT_EQ(run(none), ATTILE_ERROR_OUT_OF_DEVICE_MEMORY);
        EXPECT_NE(last_error().find("bytes"), std::string::npos) << last_error();
        for (const float x : none) ASSERT_TRUE(std::isnan(x)) << "o was written";
    }
    ASSERT_EQ(run(tight), ATTILE_OK) << last_error();
    EXPECT_TRUE(tight == roomy);
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// ATTILE_FLAG_BATCH_INVARIANT on the device, by every set of kernels and in every type: a row, or an entry of the batch, has the same bits
// alone and among others. Rows beside it have scores that make references move at other times.
#include <cstring>
#include <random>

#include "cuda_test_context.h"
#include "test_element.h"

namespace attile::test {
namespace {

struct Type {
    int32_t dtype;
    uint32_t flags;
};
void PrintTo(const Type &type, std::ostream *out) { *out << type.dtype << (type.flags != 0 ? " split" : ""); }

// An array on the device and the dense tensor that it is.
struct Tensor {
    std::vector<int64_t> shape;
    int32_t dtype;
    Array<unsigned char> memory;
    attile_tensor view = {};

    Tensor(attile_context *context, int32_t type, std::vector<int64_t> extents, const std::vector<unsigned char> &bytes)
        : shape(std::move(extents)), dtype(type), memory(context, ATTILE_MEMORY_DEVICE, bytes) {
        attile_tensor_init(&view, memory.data(), dtype, static_cast<int32_t>(shape.size()), shape.data());
    }
    // `count` indices of an axis from `first` on.
    static attile_tensor part(attile_tensor view, int axis, int64_t first, int64_t count) {
        view.data = static_cast<unsigned char *>(view.data) + first * view.stride[axis] * element_bytes(view.dtype);
        view.shape[axis] = count;
        return view;
    }
};
using Bytes = std::vector<unsigned char>;

class CudaInvariance : public TensorCoreTest, public testing::WithParamInterface<std::tuple<const char *, Type>> {
  protected:
    void SetUp() override { open(std::get<0>(GetParam())); }
    int32_t dtype() const { return std::get<1>(GetParam()).dtype; }
    uint32_t flags() const { return std::get<1>(GetParam()).flags | ATTILE_FLAG_BATCH_INVARIANT; }
    static int64_t count_of(const std::vector<int64_t> &shape) {
        int64_t count = 1;
        for (const int64_t extent : shape) count *= extent;
        return count;
    }
    // Every seventh line of the last axis is `spread` times as large.
    Tensor drawn(const std::vector<int64_t> &shape, double spread = 1) {
        std::normal_distribution<double> normal;
        const int64_t count = count_of(shape);
        Bytes bytes(static_cast<std::size_t>(count * element_bytes(dtype())));
        for (int64_t i = 0; i < count; ++i)
            encode(dtype(), normal(engine_) * (i / shape.back() % 7 == 3 ? spread : 1), bytes.data() + i * element_bytes(dtype()));
        return {context, dtype(), shape, bytes};
    }
    Tensor empty(const std::vector<int64_t> &shape, int32_t type) {
        return {context, type, shape, Bytes(static_cast<std::size_t>(count_of(shape) * element_bytes(type)), 0xff)};
    }
    // Entry b of the batch, or all of them; `rows` from `first` on of the query rows.
    void attention(const Tensor &q, const Tensor &k, const Tensor &v, int32_t mask, int64_t b, int64_t first, int64_t rows, Tensor &o,
                   Tensor &lse) {
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.flags = flags();
        args.mask = mask;
        args.q = Tensor::part(b < 0 ? q.view : Tensor::part(q.view, 0, b, 1), 2, first, rows);
        args.k = b < 0 ? k.view : Tensor::part(k.view, 0, b, 1);
        args.v = b < 0 ? v.view : Tensor::part(v.view, 0, b, 1);
        args.o = o.view;
        args.lse = lse.view;
        attile_support support;
        attile_support_init(&support, sizeof support);
        ASSERT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
        if (!generation.empty() && (dtype() != ATTILE_F32 || std::get<1>(GetParam()).flags != 0)) {
            EXPECT_TRUE(std::strstr(support.kernel, "sm80") != nullptr || std::strstr(support.kernel, "sm90") != nullptr) << support.kernel;
        }
        ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
    }
    std::mt19937 engine_{3};
};

TEST_P(CudaInvariance, Attention) {
    constexpr int64_t kBatch = 3, kHeads = 4, kHeadsKv = 2, kRows = 150;
    const int64_t size = element_bytes(dtype());
    for (const int64_t dim : {64, 96, 128, 256}) {
        for (const int64_t keys : {200, 17000}) {  // Splits of 16384.
            if (keys > 1000 && dim != 64) continue;
            const int64_t rows = keys > 1000 ? 40 : kRows;
            const Tensor q = drawn({kBatch, kHeads, rows, dim}, 30), k = drawn({kBatch, kHeadsKv, keys, dim}),
                         v = drawn({kBatch, kHeadsKv, keys, dim});
            for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
                SCOPED_TRACE(testing::Message() << "d " << dim << " keys " << keys << " mask " << mask);
                Tensor o = empty({kBatch, kHeads, rows, dim}, dtype()), lse = empty({kBatch, kHeads, rows}, ATTILE_F32);
                attention(q, k, v, mask, -1, 0, rows, o, lse);
                const Bytes all = o.memory.fetch(), all_lse = lse.memory.fetch();
                for (const int64_t b : {0, 2}) {
                    // The last rows of a mask from the bottom right corner see what they saw, whatever comes before them.
                    for (const int64_t first : {int64_t{0}, int64_t{1}, rows / 2, rows - 1}) {
                        const int64_t count = rows - first;
                        Tensor some = empty({1, kHeads, count, dim}, dtype()), some_lse = empty({1, kHeads, count}, ATTILE_F32);
                        attention(q, k, v, mask, b, first, count, some, some_lse);
                        const Bytes found = some.memory.fetch(), found_lse = some_lse.memory.fetch();
                        for (int64_t h = 0; h < kHeads; ++h) {
                            const int64_t row = (b * kHeads + h) * rows + first;
                            EXPECT_EQ(
                                std::memcmp(&found[static_cast<std::size_t>(h * count * dim * size)],
                                            &all[static_cast<std::size_t>(row * dim * size)], static_cast<std::size_t>(count * dim * size)),
                                0)
                                << "entry " << b << " head " << h << " from row " << first;
                            EXPECT_EQ(std::memcmp(&found_lse[static_cast<std::size_t>(4 * h * count)],
                                                  &all_lse[static_cast<std::size_t>(4 * row)], static_cast<std::size_t>(4 * count)),
                                      0)
                                << "lse of entry " << b << " head " << h << " from row " << first;
                        }
                    }
                }
            }
        }
    }
}

TEST_P(CudaInvariance, Gradients) {
    constexpr int64_t kBatch = 5, kHeads = 4, kHeadsKv = 2, kRows = 150, kKeys = 200;
    const int64_t size = element_bytes(dtype());
    for (const int64_t dim : {64, 128, 256}) {
        SCOPED_TRACE(dim);
        const std::vector<int64_t> rows_shape = {kBatch, kHeads, kRows, dim}, keys_shape = {kBatch, kHeadsKv, kKeys, dim};
        const Tensor q = drawn(rows_shape, 10), k = drawn(keys_shape), v = drawn(keys_shape), dout = drawn(rows_shape);
        Tensor o = empty(rows_shape, dtype()), lse = empty({kBatch, kHeads, kRows}, ATTILE_F32);
        attention(q, k, v, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, -1, 0, kRows, o, lse);
        const auto gradients = [&](int64_t b) {
            const auto entry = [&](const Tensor &x) { return b < 0 ? x.view : Tensor::part(x.view, 0, b, 1); };
            std::vector<int64_t> of_rows = rows_shape, of_keys = keys_shape;
            if (b >= 0) of_rows[0] = of_keys[0] = 1;
            Tensor dq = empty(of_rows, dtype()), dk = empty(of_keys, dtype()), dv = empty(of_keys, dtype());
            attile_attention_args forward;
            attile_attention_init(&forward, sizeof forward);
            forward.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            forward.q = entry(q);
            forward.k = entry(k);
            forward.v = entry(v);
            forward.o = entry(o);
            forward.lse = entry(lse);
            attile_attention_backward_args args;
            attile_attention_backward_init(&args, sizeof args);
            args.flags = flags();
            args.forward = &forward;
            args.dout = entry(dout);
            args.dq = dq.view;
            args.dk = dk.view;
            args.dv = dv.view;
            EXPECT_EQ(attile_attention_backward(context, &args), ATTILE_OK) << last_error();
            return std::vector<Bytes>{dq.memory.fetch(), dk.memory.fetch(), dv.memory.fetch()};
        };
        const std::vector<Bytes> all = gradients(-1);
        for (const int64_t b : {0, 2, 4}) {
            const std::vector<Bytes> alone = gradients(b);
            for (std::size_t i = 0; i < alone.size(); ++i) {
                EXPECT_EQ(std::memcmp(alone[i].data(), &all[i][static_cast<std::size_t>(b) * alone[i].size()], alone[i].size()), 0)
                    << "gradient " << i << " of entry " << b << ", elements of " << size << " bytes";
            }
        }
    }
}

TEST_P(CudaInvariance, Gemm) {
    constexpr int64_t kBatch = 3, kRows = 300;
    const int64_t size = element_bytes(dtype());
    struct Extents {
        int64_t n, k;
    };
    for (const Extents e : {Extents{264, 1000}, {67, 257}, {520, 4096}}) {
        for (const bool by_columns : {false, true}) {
            SCOPED_TRACE(testing::Message() << "n " << e.n << " k " << e.k << " B by columns " << by_columns);
            const Tensor a = drawn({kBatch, kRows, e.k}), b = drawn({kBatch, e.k, e.n});
            attile_tensor view_b = b.view;
            if (by_columns) {
                view_b.stride[1] = 1;
                view_b.stride[2] = e.k;
            }
            const auto multiply = [&](int64_t entry, int64_t first, int64_t rows) {
                Tensor d = empty({entry < 0 ? kBatch : 1, rows, e.n}, dtype());
                attile_gemm_args args;
                attile_gemm_init(&args, sizeof args);
                args.flags = flags();
                args.a = Tensor::part(entry < 0 ? a.view : Tensor::part(a.view, 0, entry, 1), 1, first, rows);
                args.b = entry < 0 ? view_b : Tensor::part(view_b, 0, entry, 1);
                args.d = d.view;
                EXPECT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
                return d.memory.fetch();
            };
            const Bytes all = multiply(-1, 0, kRows);
            struct Some {
                int64_t first, rows;
            };
            for (const int64_t entry : {0, 2}) {
                for (const Some s : {Some{0, kRows}, {0, 1}, {127, 1}, {299, 1}, {5, 9}, {100, 64}, {31, 200}}) {
                    const Bytes found = multiply(entry, s.first, s.rows);
                    EXPECT_EQ(
                        std::memcmp(found.data(), &all[static_cast<std::size_t>((entry * kRows + s.first) * e.n * size)], found.size()), 0)
                        << "entry " << entry << " rows " << s.rows << " from " << s.first;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaInvariance,
                         testing::Combine(testing::Values("", "80", "0"),
                                          testing::Values(Type{ATTILE_BF16, 0}, Type{ATTILE_F16, 0}, Type{ATTILE_F32, 0},
                                                          Type{ATTILE_F32, ATTILE_FLAG_ALLOW_SPLIT_TF32})));

}  // namespace
}  // namespace attile::test

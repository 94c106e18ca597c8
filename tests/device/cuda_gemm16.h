// SPDX-License-Identifier: Apache-2.0
// gemm on tensor cores beside double precision on the host: a problem, and what runs and checks it.
#pragma once

#include <cmath>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "cuda_test_context.h"
#include "row_reference.h"
#include "test_element.h"

namespace attile::test {

// Matrices are stored by rows ('n') or by columns ('t'), with `pad` elements between neighbours of the other axis.
struct GemmCase {
    int64_t batch, m, n, k;
    const char *layout;  // Of A, B and D.
    int32_t dtype, dtype_d;
    int64_t pad = 0;
    int32_t bias_axis = ATTILE_BIAS_NONE, activation = ATTILE_ACTIVATION_NONE;
    double alpha = 1, beta = 0;
    bool shared_b = false;  // One B for the batch.
    uint32_t flags = 0;
    int64_t offset = 0;  // Elements before A and B.
};

inline void PrintTo(const GemmCase &c, std::ostream *out) {
    *out << c.batch << " x " << c.m << "x" << c.n << "x" << c.k << " " << c.layout << " types " << c.dtype << " " << c.dtype_d << " pad "
         << c.pad << " bias " << c.bias_axis << " activation " << c.activation << " alpha " << c.alpha << " beta " << c.beta << " shared "
         << c.shared_b << " flags " << c.flags << " offset " << c.offset;
}

// A matrix for every entry of the batch, on the host as the device's bytes and as doubles; what lies between is NaN.
struct Stack {
    int64_t rows, cols, row, col, entry, offset;
    int32_t dtype;
    std::vector<unsigned char> bytes;
    std::vector<double> values;  // By entry, row, column.

    Stack(int64_t batch, int64_t rows_, int64_t cols_, char layout, int64_t pad, int64_t offset_, int32_t dtype_)
        : rows(rows_),
          cols(cols_),
          row(layout == 'n' ? cols + pad : 1),
          col(layout == 'n' ? 1 : rows + pad),
          entry(layout == 'n' ? rows * row : cols * col),
          offset(offset_),
          dtype(dtype_),
          bytes(static_cast<std::size_t>((batch * entry + offset + 8) * element_bytes(dtype)), 0xff),
          values(static_cast<std::size_t>(batch * rows * cols)) {}

    template <class Draw>
    void fill(Draw draw) {
        std::size_t i = 0;
        for (int64_t b = 0; b < static_cast<int64_t>(values.size()) / (rows * cols); ++b) {
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t c = 0; c < cols; ++c) {
                    unsigned char *const to = at(b, r, c);
                    encode(dtype, draw(), to);
                    values[i++] = decode(dtype, to);
                }
            }
        }
    }
    unsigned char *at(int64_t b, int64_t r, int64_t c) {
        return bytes.data() + (offset + b * entry + r * row + c * col) * element_bytes(dtype);
    }
    attile_tensor tensor(void *data, int64_t batch) const {
        attile_tensor t = {};
        t.data = static_cast<unsigned char *>(data) + offset * element_bytes(dtype);
        t.dtype = dtype;
        t.rank = 3;
        const int64_t shape[3] = {batch, rows, cols}, stride[3] = {batch > 1 ? entry : 0, row, col};
        for (int i = 0; i < 3; ++i) {
            t.shape[i] = shape[i];
            t.stride[i] = stride[i];
        }
        return t;
    }
};

class CudaGemm16 : public TensorCoreTest {
  protected:
    void open(const std::string &kernels) {
        TensorCoreTest::open(kernels);
        if (context != nullptr && !IsSkipped() && generation.empty()) GTEST_SKIP() << "no kernels for tensor cores";
    }

    // Runs the case, checks it, and says which kernel it was.
    std::string run(const GemmCase &c, std::vector<unsigned char> *result = nullptr) {
        std::mt19937 engine(static_cast<unsigned>(c.m * 7 + c.n * 3 + c.k));
        std::normal_distribution<double> normal;
        const auto draw = [&] { return normal(engine); };
        const int32_t bias_dtype = ATTILE_F32;
        const int64_t batch_b = c.shared_b ? 1 : c.batch;
        Stack a(c.batch, c.m, c.k, c.layout[0], c.pad, c.offset, c.dtype), b(batch_b, c.k, c.n, c.layout[1], c.pad, c.offset, c.dtype);
        Stack d(c.batch, c.m, c.n, c.layout[2], c.pad, 0, c.dtype_d), old(c.batch, c.m, c.n, c.layout[2], c.pad, 0, c.dtype_d);
        Stack bias(1, 1, c.bias_axis == ATTILE_BIAS_ROWS ? c.m : c.n, 'n', 0, 0, bias_dtype);
        for (Stack *s : {&a, &b, &bias}) s->fill(draw);
        if (c.beta != 0) old.fill(draw);
        const Array<unsigned char> on_a(context, ATTILE_MEMORY_DEVICE, a.bytes), on_b(context, ATTILE_MEMORY_DEVICE, b.bytes),
            on_d(context, ATTILE_MEMORY_DEVICE, d.bytes), on_old(context, ATTILE_MEMORY_DEVICE, old.bytes),
            on_bias(context, ATTILE_MEMORY_DEVICE, bias.bytes);
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        args.flags = c.flags;
        args.a = a.tensor(on_a.data(), c.batch);
        args.b = b.tensor(on_b.data(), batch_b);
        args.d = d.tensor(on_d.data(), c.batch);
        args.c = old.tensor(on_old.data(), c.batch);  // Full of NaN where beta is 0.
        args.alpha = c.alpha;
        args.beta = c.beta;
        args.activation = c.activation;
        if (c.bias_axis != ATTILE_BIAS_NONE) {
            args.bias_axis = c.bias_axis;
            EXPECT_EQ(attile_tensor_init(&args.bias, on_bias.data(), bias_dtype, 1, &bias.cols), ATTILE_OK);
        }
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK) << last_error();
        EXPECT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
        EXPECT_EQ(attile_synchronize(context, nullptr), ATTILE_OK) << last_error();
        std::vector<unsigned char> got = on_d.fetch();
        if (result != nullptr) *result = got;
        if (is_checked_) check(c, a, b, old, bias, d, got);
        text_ = support.text;
        return support.kernel;
    }
    std::string text_;  // Of the latest query.
    bool is_checked_ = true;

  private:
    static void check(const GemmCase &c, const Stack &a, const Stack &b, const Stack &old, const Stack &bias, Stack &d,
                      std::vector<unsigned char> &got) {
        const double unit = precision_of(c.dtype_d).unit;
        const std::vector<unsigned char> before = d.bytes;
        int failures = 0;
        for (int64_t e = 0; e < c.batch; ++e) {
            const double *const ea = a.values.data() + e * c.m * c.k, *const eb = b.values.data() + (c.shared_b ? 0 : e * c.k * c.n);
            for (int64_t i = 0; i < c.m; ++i) {
                for (int64_t j = 0; j < c.n; ++j) {
                    const ProductElement element = product_element(
                        c.k, [&](int64_t l) { return ea[i * c.k + l]; }, [&](int64_t l) { return eb[l * c.n + j]; });
                    double sum = c.alpha * element.sum, size = std::abs(c.alpha) * element.magnitude;
                    if (c.beta != 0) {
                        const double add = c.beta * old.values[static_cast<std::size_t>((e * c.m + i) * c.n + j)];
                        sum += add;
                        size += std::abs(add);
                    }
                    if (c.bias_axis != ATTILE_BIAS_NONE)
                        sum += bias.values[static_cast<std::size_t>(c.bias_axis == ATTILE_BIAS_ROWS ? i : j)];
                    const double expected = activated(sum, c.activation);
                    const std::ptrdiff_t at = d.at(e, i, j) - d.bytes.data();
                    const double found = decode(c.dtype_d, got.data() + at);
                    const double limit = 1.01 * unit * std::abs(expected) + std::ldexp(size + std::abs(sum), -20) + 1e-7;
                    if (!(std::abs(found - expected) <= limit) && ++failures <= 4) {
                        ADD_FAILURE() << "entry " << e << " row " << i << " column " << j << ": " << found << " instead of " << expected;
                    }
                    for (int64_t byte = 0; byte < element_bytes(c.dtype_d); ++byte)
                        got[static_cast<std::size_t>(at + byte)] = before[static_cast<std::size_t>(at + byte)];
                }
            }
        }
        EXPECT_EQ(failures, 0);
        EXPECT_TRUE(got == before) << "something between or after the rows of D was written";
    }
};

inline constexpr int32_t kH = ATTILE_F16, kB = ATTILE_BF16, kS = ATTILE_F32;

}  // namespace attile::test

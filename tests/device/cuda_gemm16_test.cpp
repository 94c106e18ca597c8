// SPDX-License-Identifier: Apache-2.0
// gemm on tensor cores: that they are used where they should be, and what they compute, against double precision on the host. Where there
// are none the tests skip.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda_test_context.h"
#include "row_reference.h"
#include "test_element.h"

namespace attile::test {
namespace {

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

void PrintTo(const GemmCase &c, std::ostream *out) {
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

class CudaGemm16Case : public CudaGemm16, public testing::WithParamInterface<std::tuple<const char *, GemmCase>> {
  protected:
    void SetUp() override { open(std::get<0>(GetParam())); }
};

TEST_P(CudaGemm16Case, RunsOnTensorCores) {
    const std::string kernel = run(std::get<1>(GetParam()));
    EXPECT_EQ(kernel.rfind("gemm_" + generation + "_", 0), 0u) << kernel;
}

const auto kKernels = testing::Values("", "80");

constexpr int32_t kH = ATTILE_F16, kB = ATTILE_BF16, kS = ATTILE_F32;

INSTANTIATE_TEST_SUITE_P(
    Layouts, CudaGemm16Case,
    testing::Combine(kKernels, testing::Values(GemmCase{1, 256, 256, 128, "nnn", kB, kB}, GemmCase{1, 256, 256, 128, "ntn", kH, kH},
                                               GemmCase{1, 256, 256, 128, "tnn", kB, kS}, GemmCase{1, 256, 256, 128, "ttn", kH, kS},
                                               GemmCase{1, 256, 256, 128, "nnt", kB, kB}, GemmCase{1, 256, 256, 128, "ntt", kH, kH},
                                               GemmCase{1, 256, 256, 128, "tnt", kB, kS}, GemmCase{1, 256, 256, 128, "ttt", kH, kH})));
INSTANTIATE_TEST_SUITE_P(
    Ragged, CudaGemm16Case,
    testing::Combine(kKernels,
                     testing::Values(GemmCase{1, 200, 328, 136, "nnn", kB, kB, 8}, GemmCase{1, 136, 72, 200, "ntn", kH, kH, 16},
                                     GemmCase{1, 328, 200, 1000, "tnn", kB, kB, 8},
                                     GemmCase{1, 129, 257, 72, "nnn", kH, kS, 7, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT},
                                     GemmCase{1, 129, 257, 65, "ntn", kB, kB, 7}, GemmCase{1, 257, 131, 1003, "ttn", kH, kH, 1},
                                     GemmCase{1, 300, 301, 303, "nnn", kB, kB},
                                     GemmCase{1, 65, 1025, 63, "tnt", kB, kS, 3, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT})));
INSTANTIATE_TEST_SUITE_P(
    Batches, CudaGemm16Case,
    testing::Combine(kKernels,
                     testing::Values(GemmCase{5, 128, 192, 64, "nnn", kB, kB}, GemmCase{7, 72, 136, 200, "ntn", kH, kH, 8},
                                     GemmCase{3, 129, 257, 65, "tnn", kB, kS, 3, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT},
                                     GemmCase{6, 128, 128, 128, "ntt", kB, kB, 0, 0, 0, 1, 0, true},
                                     GemmCase{4, 64, 264, 72, "nnt", kH, kH, 8, 0, 0, 1, 0, true},
                                     GemmCase{70000, 9, 8, 8, "nnn", kB, kS, 0, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT})));
INSTANTIATE_TEST_SUITE_P(
    Epilogues, CudaGemm16Case,
    testing::Combine(kKernels,
                     testing::Values(GemmCase{1, 200, 328, 136, "nnn", kB, kB, 8, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_RELU, 1.5, 0.5},
                                     GemmCase{1, 200, 328, 136, "ntn", kH, kH, 8, ATTILE_BIAS_ROWS, ATTILE_ACTIVATION_GELU, 0.25, -2},
                                     GemmCase{1, 200, 328, 136, "tnt", kB, kS, 8, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_GELU_TANH, -1},
                                     GemmCase{1, 201, 327, 136, "ntn", kH, kS, 3, ATTILE_BIAS_ROWS, ATTILE_ACTIVATION_SILU, 0.1, 1},
                                     GemmCase{3, 136, 128, 64, "nnn", kB, kB, 0, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_NONE, 1, 1},
                                     GemmCase{1, 256, 256, 64, "nnn", kH, kH, 0, 0, 0, -0.5},
                                     GemmCase{1, 256, 256, 64, "nnn", kB, kB, 0, 0, 0, 0.5, 2})));
INSTANTIATE_TEST_SUITE_P(
    SplitsAndFewRows, CudaGemm16Case,
    testing::Combine(kKernels,
                     testing::Values(GemmCase{1, 17, 1024, 2048, "nnn", kB, kB}, GemmCase{1, 32, 520, 4096, "ntn", kH, kH},
                                     GemmCase{1, 1000, 24, 1000, "nnn", kB, kS}, GemmCase{1, 64, 64, 8192, "tnn", kB, kB},
                                     GemmCase{1, 16, 1032, 1024, "nnn", kH, kH},
                                     GemmCase{1, 1, 2048, 1024, "ntn", kB, kB, 8, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT},
                                     GemmCase{1, 128, 136, 4104, "nnn", kH, kH, 8, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_SILU, 1, 1},
                                     GemmCase{2, 33, 129, 1111, "nnt", kB, kB, 5})));
// Few tiles of much depth: on Hopper two blocks take half of a tile's columns each.
INSTANTIATE_TEST_SUITE_P(
    Halves, CudaGemm16Case,
    testing::Combine(kKernels,
                     testing::Values(GemmCase{1, 64, 4096, 1024, "ntn", kB, kB}, GemmCase{1, 57, 4040, 1032, "nnn", kH, kH, 8},
                                     GemmCase{1, 120, 4040, 1024, "nnn", kB, kB, 8}, GemmCase{1, 128, 4096, 1096, "ntn", kH, kH},
                                     GemmCase{1, 50, 1020, 2048, "ntn", kB, kB, 4, 0, 0, -1.5},
                                     GemmCase{1, 61, 1018, 2048, "tnn", kH, kH, 6}, GemmCase{1, 32, 2048, 1032, "nnn", kB, kB},
                                     GemmCase{1, 27, 2040, 1032, "ntn", kH, kH, 8}, GemmCase{1, 16, 2056, 2048, "nnn", kB, kB, 8},
                                     GemmCase{1, 5, 2040, 2048, "nnn", kH, kH}, GemmCase{3, 5, 1032, 520, "nnn", kH, kH},
                                     GemmCase{2, 40, 1032, 1040, "nnn", kB, kB, 8}, GemmCase{1, 1016, 30, 2048, "ttn", kB, kB, 2},
                                     GemmCase{1, 1041, 64, 2048, "nnt", kB, kB, 7}, GemmCase{1, 1041, 24, 2048, "nnt", kH, kH, 7})));
// Of one row the other kernels are left to those without tensor cores.
INSTANTIATE_TEST_SUITE_P(HalvesOfARow, CudaGemm16Case,
                         testing::Combine(testing::Values(""), testing::Values(GemmCase{1, 1, 2048, 1024, "nnn", kB, kB})));
INSTANTIATE_TEST_SUITE_P(
    Invariant, CudaGemm16Case,
    testing::Combine(kKernels,
                     testing::Values(GemmCase{1, 1, 128, 1000, "nnn", kB, kB, 0, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT},
                                     GemmCase{1, 9, 67, 1025, "nnn", kH, kH, 0, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT, 3},
                                     GemmCase{2, 130, 256, 512, "ntt", kB, kS, 0, 0, 0, 1, 0, false, ATTILE_FLAG_BATCH_INVARIANT})));

// Many products of up to 32 rows and columns: a warp makes each.
class CudaGemm16Small : public CudaGemm16, public testing::WithParamInterface<std::tuple<const char *, GemmCase>> {
  protected:
    void SetUp() override { open(std::get<0>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaGemm16Small,
    testing::Combine(kKernels, testing::Values(GemmCase{2100, 32, 32, 32, "nnn", kB, kB}, GemmCase{300, 32, 32, 32, "ttn", kH, kH},
                                               GemmCase{100, 17, 24, 40, "ntn", kB, kB, 8},
                                               GemmCase{65, 24, 31, 8, "ttt", kH, kH, 8, 0, 0, -1.5}, GemmCase{64, 1, 8, 64, "ntn", kB, kB},
                                               GemmCase{200, 24, 16, 27, "tnn", kH, kH, 8}, GemmCase{333, 8, 32, 56, "ttn", kB, kB},
                                               GemmCase{140, 32, 8, 16, "nnn", kB, kB, 0, 0, 0, 0.25, 0, true})));

TEST_P(CudaGemm16Small, HaveAKernelOfTheirOwn) {
    const std::string kernel = run(std::get<1>(GetParam()));
    EXPECT_NE(kernel.find("small"), std::string::npos) << kernel;
}

// Up to 16 rows or columns beside a large matrix, where tiles in halves do not serve: Hopper's own kernel for them.
class CudaGemm16FewRows : public CudaGemm16, public testing::WithParamInterface<GemmCase> {
  protected:
    void SetUp() override {
        open("");
        if (context != nullptr && !IsSkipped() && generation != "sm90") GTEST_SKIP() << "a kernel for capability 9.0";
    }
};
INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaGemm16FewRows,
    testing::Values(GemmCase{1, 1, 2048, 1024, "nnn", kB, kS}, GemmCase{1, 1, 2048, 1024, "ntn", kH, kH, 8},
                    GemmCase{1, 8, 2056, 520, "nnn", kB, kS, 8}, GemmCase{1, 9, 2040, 1048, "ntn", kH, kS, 8},
                    GemmCase{1, 16, 1048, 1032, "ntn", kB, kB, 16, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_SILU, 1.5, 0.5},
                    GemmCase{1, 13, 1048, 1032, "nnn", kH, kH, 8, ATTILE_BIAS_ROWS, ATTILE_ACTIVATION_GELU, -1, 2},
                    GemmCase{1, 16, 512, 8200, "nnn", kB, kB}, GemmCase{1, 3, 264, 8192, "ntn", kB, kB},
                    GemmCase{3, 5, 1032, 520, "nnn", kH, kS}, GemmCase{3, 5, 1032, 1024, "ntn", kB, kS, 0, 0, 0, 1, 0, true},
                    GemmCase{1, 2048, 3, 1024, "ntn", kH, kH}, GemmCase{1, 2048, 16, 1024, "ttt", kB, kS, 8}));

TEST_P(CudaGemm16FewRows, HaveAKernelOfTheirOwn) {
    std::vector<unsigned char> first, again;
    const std::string kernel = run(GetParam(), &first);
    EXPECT_NE(kernel.find("few_rows"), std::string::npos) << kernel;
    run(GetParam(), &again);
    EXPECT_TRUE(first == again);
}

// Tiles that do not fill the device, of much depth: they are cut along it. Beside the product in one piece, since a host would take
// minutes.
class CudaGemm16Parts : public CudaGemm16, public testing::WithParamInterface<GemmCase> {
  protected:
    void SetUp() override {
        open("");
        if (context != nullptr && !IsSkipped() && generation != "sm90") GTEST_SKIP() << "a kernel for capability 9.0";
    }
};
INSTANTIATE_TEST_SUITE_P(Shapes, CudaGemm16Parts,
                         testing::Values(GemmCase{1, 130, 5120, 5120, "nnn", kB, kB}, GemmCase{1, 130, 5120, 5120, "tnn", kH, kS},
                                         GemmCase{1, 130, 5112, 5120, "ntn", kB, kB, 8, ATTILE_BIAS_ROWS, ATTILE_ACTIVATION_GELU, 0.25, -2},
                                         GemmCase{1, 130, 5117, 5120, "nnn", kB, kB, 3, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_SILU, 1,
                                                  1}));

TEST_P(CudaGemm16Parts, AreAddedInOrder) {
    GemmCase c = GetParam();
    std::vector<unsigned char> first, again, whole;
    is_checked_ = false;
    const std::string kernel = run(c, &first);
    EXPECT_NE(kernel.find("_parts"), std::string::npos) << kernel;
    run(c, &again);
    EXPECT_TRUE(first == again);
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    EXPECT_EQ(run(c, &whole).find("_parts"), std::string::npos);
    const Stack d(1, c.m, c.n, c.layout[2], c.pad, 0, c.dtype_d);
    const double unit = precision_of(c.dtype_d).unit;
    int64_t apart = 0;
    for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
            const std::size_t at = static_cast<std::size_t>((i * d.row + j * d.col) * element_bytes(c.dtype_d));
            const double found = decode(c.dtype_d, first.data() + at), expected = decode(c.dtype_d, whole.data() + at);
            // Sums of 5120 products of size 1, in chains of other lengths that tensor cores round towards zero, and then rounded. A part
            // that is missing would be 40.
            apart += std::abs(found - expected) <= 2 * unit * std::abs(expected) + 1e-2 ? 0 : 1;
        }
    }
    EXPECT_EQ(apart, 0);
}

// Tiles that have rows of D along their columns, asked for by name, with a second tile of a few rows and a third of some columns. What does
// something to the results has another way out than what does not.
struct Turned {
    int64_t rows, columns;  // The tile's.
    const char *how;        // What else is asked for.
    GemmCase c;             // m: rows of D beyond a tile.
};
void PrintTo(const Turned &t, std::ostream *out) {
    *out << t.rows << "x" << t.columns << t.how << " ";
    PrintTo(t.c, out);
}
std::vector<Turned> turned_cases() {
    constexpr std::pair<int64_t, int64_t> kTiles[] = {{128, 144}, {128, 160}, {128, 176}, {128, 192}, {128, 208}, {128, 240}, {192, 176}};
    const std::pair<const char *, GemmCase> kinds[] = {
        {"", {1, 0, 392, 136, "nnn", kB, kB}},
        {",share=b", {1, 13, 392, 520, "ntn", kB, kB, 8, 0, 0, -1.5}},
        {",share=a", {1, 41, 264, 200, "nnn", kH, kH}},
        {",share=b", {1, 41, 392, 136, "nnn", kB, kB, 8, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_GELU, 1, 0.5}},
        {",share=a", {1, 29, 391, 136, "ntn", kH, kH, 3, ATTILE_BIAS_ROWS, ATTILE_ACTIVATION_SILU, 0.25, -2}},
        {"", {1, 41, 328, 136, "ntn", kH, kS, 4, ATTILE_BIAS_ROWS, ATTILE_ACTIVATION_RELU, 1, 1}},
        {",share=b", {1, -7, 327, 136, "nnn", kB, kS, 0, ATTILE_BIAS_COLUMNS, 0, 0.5}},
        {"", {3, 5, 264, 72, "nnn", kB, kB, 0, 0, ATTILE_ACTIVATION_GELU_TANH, 1, 0, true}},
        {",parts=2", {1, 1, 200, 2048, "ntn", kB, kB, 8, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_RELU, 1, 1}},
        {",share=b,parts=2", {1, 17, 203, 2056, "ntn", kH, kS}}};
    std::vector<Turned> cases;
    for (const auto &[rows, columns] : kTiles) {
        for (const auto &[how, c] : kinds) {
            cases.push_back({rows, columns, how, c});
            cases.back().c.m += columns;
        }
    }
    return cases;
}
class CudaGemm16Turned : public CudaGemm16, public testing::WithParamInterface<Turned> {
  protected:
    void SetUp() override {
        const std::string tile = std::to_string(GetParam().rows) + "x" + std::to_string(GetParam().columns);
        setenv("ATTILE_CUDA_GEMM", (tile + ",turned" + GetParam().how).c_str(), 1);
        open("");
        unsetenv("ATTILE_CUDA_GEMM");
        if (context != nullptr && !IsSkipped() && generation != "sm90") GTEST_SKIP() << "a kernel for capability 9.0";
    }
};
INSTANTIATE_TEST_SUITE_P(Tiles, CudaGemm16Turned, testing::ValuesIn(turned_cases()));

TEST_P(CudaGemm16Turned, RunWhereAskedFor) {
    const std::string kernel = run(GetParam().c), tile = std::to_string(GetParam().rows) + "x" + std::to_string(GetParam().columns) + "x64";
    EXPECT_NE(kernel.find(tile), std::string::npos) << kernel;
    EXPECT_EQ(kernel.find("_parts") != std::string::npos, std::strstr(GetParam().how, "parts=2") != nullptr) << kernel;
    EXPECT_EQ(text_.find("clusters of 2") != std::string::npos, std::strstr(GetParam().how, "share=") != nullptr) << text_;
}

// D in float32 leaves by the other way than D in 16 bits: narrowed afterwards it has the same bits.
TEST_P(CudaGemm16Turned, BitsDoNotDependOnTheWayOut) {
    GemmCase c = GetParam().c;
    if (c.bias_axis != ATTILE_BIAS_NONE || c.activation != 0 || c.dtype_d == kS) return;
    std::vector<unsigned char> narrow, wide;
    run(c, &narrow);
    c.dtype_d = kS;
    run(c, &wide);
    const Stack of_narrow(c.batch, c.m, c.n, 'n', c.pad, 0, c.dtype), of_wide(c.batch, c.m, c.n, 'n', c.pad, 0, kS);
    int64_t apart = 0;
    for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
            const auto at = [&](const Stack &d) { return static_cast<std::size_t>((i * d.row + j * d.col) * element_bytes(d.dtype)); };
            unsigned char bits[2];
            encode(c.dtype, decode(kS, wide.data() + at(of_wide)), bits);
            apart += std::memcmp(bits, narrow.data() + at(of_narrow), 2) == 0 ? 0 : 1;
        }
    }
    EXPECT_EQ(apart, 0);
}

class CudaGemm16Any : public CudaGemm16, public testing::WithParamInterface<const char *> {
  protected:
    void SetUp() override { open(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Kernels, CudaGemm16Any, kKernels, tensor_core_name);

TEST_P(CudaGemm16Any, SameBitsEveryTime) {
    const GemmCase c = {1, 48, 128, 4096, "nnn", kB, kS};
    std::vector<unsigned char> first, again;
    run(c, &first);
    for (int i = 0; i < 3; ++i) {
        run(c, &again);
        EXPECT_TRUE(first == again);
    }
}

TEST_P(CudaGemm16Any, IsMadeAsEverWhereTheTileAskedForIsNone) {
    const GemmCase c = {1, 200, 392, 136, "nnn", kB, kB};
    is_checked_ = false;
    const std::string kernel = run(c), text = text_;
    for (const char *asked : {"128x144", "100x100,turned", "128x144turned", "128x144,turned,", "128x144,turned,share=c", "x",
                              "128x144,turned,splits=2", "128x144,turned,parts=0", "128x144,turned,parts=99999999999"}) {
        attile_context_destroy(context);
        context = nullptr;
        setenv("ATTILE_CUDA_GEMM", asked, 1);
        open(GetParam());
        unsetenv("ATTILE_CUDA_GEMM");
        ASSERT_NE(context, nullptr);
        EXPECT_EQ(run(c), kernel) << asked;
        EXPECT_EQ(text_, text) << asked;
    }
}

TEST_P(CudaGemm16Any, UnalignedAddressIsServedWithTheReason) {
    const std::string kernel = run({1, 256, 256, 128, "nnn", kB, kB, 0, 0, 0, 1, 0, false, 0, 1});
    EXPECT_EQ(kernel.find(generation), std::string::npos) << kernel;
    EXPECT_NE(text_.find("no tensor cores: A or B does not begin at a multiple of 16 bytes"), std::string::npos) << text_;
}

}  // namespace
}  // namespace attile::test

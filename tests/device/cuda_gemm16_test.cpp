// SPDX-License-Identifier: Apache-2.0
// gemm on tensor cores: that they are used where they should be, and what they compute, against double precision on the host. Where there
// are none the tests skip.
#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "cuda_gemm16.h"

namespace attile::test {
namespace {

class CudaGemm16Case : public CudaGemm16, public testing::WithParamInterface<std::tuple<const char *, GemmCase>> {
  protected:
    void SetUp() override { open(std::get<0>(GetParam())); }
};

TEST_P(CudaGemm16Case, RunsOnTensorCores) {
    const std::string kernel = run(std::get<1>(GetParam()));
    EXPECT_EQ(kernel.rfind("gemm_" + generation + "_", 0), 0u) << kernel;
}

const auto kKernels = testing::Values("", "80");

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

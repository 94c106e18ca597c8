// SPDX-License-Identifier: Apache-2.0
// gemm on Hopper by tiles that are asked for by name. Where there are no kernels for 9.0 the tests skip.
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cuda_gemm16.h"

namespace attile::test {
namespace {

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

// Straight tiles, asked for by name, of C and D whose rows begin at odd places or are not pairs: rows begin in the first tile, go on after
// the second and end in the third. c.n: columns beyond two tiles.
struct Odd {
    int64_t rows, columns;  // The tile's.
    GemmCase c;             // m: rows beyond a tile.
};
void PrintTo(const Odd &o, std::ostream *out) {
    *out << o.rows << "x" << o.columns << " ";
    PrintTo(o.c, out);
}
std::vector<Odd> odd_cases() {
    constexpr std::pair<int64_t, int64_t> kTiles[] = {{128, 256}, {192, 128}, {128, 128}, {128, 64}, {64, 64}};
    const GemmCase kinds[] = {{1, 9, 31, 72, "nnn", kH, kH, 0, 0, 0, 1, -2},
                              {25, 1, 15, 72, "nnn", kH, kH, 0, 0, 0, 1, 1},  // More tiles than multiprocessors.
                              {3, 13, 1, 72, "ntn", kB, kB, 0, ATTILE_BIAS_COLUMNS, ATTILE_ACTIVATION_GELU, 0.5, 1.5},
                              {2, 1, 41, 520, "nnn", kB, kB, 8, ATTILE_BIAS_ROWS, ATTILE_ACTIVATION_RELU, 1, 1},
                              {1, 9, 30, 72, "nnn", kH, kH, 3, 0, 0, 1, 1},
                              {1, 3, 23, 72, "ntn", kH, kS, 0, 0, 0, -1, 0.5},
                              {1, -5, 33, 520, "nnn", kB, kB}};
    std::vector<Odd> cases;
    for (const auto &[rows, columns] : kTiles) {
        for (const GemmCase &c : kinds) {
            cases.push_back({rows, columns, c});
            cases.back().c.m += rows;
            cases.back().c.n += 2 * columns;
        }
    }
    return cases;
}
class CudaGemm16Odd : public CudaGemm16, public testing::WithParamInterface<Odd> {
  protected:
    void SetUp() override {
        const std::string tile = std::to_string(GetParam().rows) + "x" + std::to_string(GetParam().columns);
        setenv("ATTILE_CUDA_GEMM", tile.c_str(), 1);
        open("");
        unsetenv("ATTILE_CUDA_GEMM");
        if (context != nullptr && !IsSkipped() && generation != "sm90") GTEST_SKIP() << "a kernel for capability 9.0";
    }
};
INSTANTIATE_TEST_SUITE_P(Tiles, CudaGemm16Odd, testing::ValuesIn(odd_cases()));

TEST_P(CudaGemm16Odd, RunWhereAskedFor) {
    const std::string kernel = run(GetParam().c), tile = std::to_string(GetParam().rows) + "x" + std::to_string(GetParam().columns) + "x64";
    EXPECT_NE(kernel.find(tile), std::string::npos) << kernel;
    EXPECT_EQ(text_.find("transpose"), std::string::npos) << text_;
}

}  // namespace
}  // namespace attile::test

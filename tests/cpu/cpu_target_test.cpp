// SPDX-License-Identifier: Apache-2.0
// ATTILE_CPU_TARGET: every instruction set that the machine has, one after the other, and names that cannot be had.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "cpu_contexts.h"
#include "element.h"

namespace attile::test {
namespace {

attile_context_info info_of(attile_context *context) {
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    EXPECT_EQ(attile_context_get_info(context, &info), ATTILE_OK) << last_error();
    return info;
}

TEST(CpuTarget, TheBestOneIsTakenUnlessAnotherIsNamed) {
    const std::vector<std::string> targets = targets_here();
    ASSERT_FALSE(targets.empty());
    const std::map<std::string, std::string> arch = {
        {"amxbf16", "AMX-BF16"}, {"avx512bf16", "AVX-512-BF16"}, {"avx512", "AVX-512"},       {"avx2", "AVX2"},
        {"sse4", "SSE4"},        {"neoni8mm", "NEON-I8MM"},      {"neondot", "NEON-DotProd"}, {"neon", "NEON"}};
    const std::map<std::string, int> lanes = {{"amxbf16", 16}, {"avx512bf16", 16}, {"avx512", 16}, {"avx2", 8},
                                              {"sse4", 4},     {"neoni8mm", 4},    {"neondot", 4}, {"neon", 4}};
    EXPECT_EQ(info_of(open_cpu("", 1).get()).arch, arch.at(targets[0]));
    for (const std::string &target : targets) {
        const CpuContext context = open_cpu(target, 1);
        const attile_context_info info = info_of(context.get());
        EXPECT_EQ(info.arch, arch.at(target));
        EXPECT_EQ(info.lane_width, lanes.at(target));
        EXPECT_GT(info.peak_flops_f32, 1e8);
        EXPECT_LT(info.peak_flops_f32, 1e15);
        EXPECT_GT(info.peak_flops_f64, 0.3 * info.peak_flops_f32);
        EXPECT_GT(info.peak_bandwidth, 1e8);
        EXPECT_LT(info.peak_bandwidth, 1e14);
    }
}

TEST(CpuTarget, AContextKeepsItsOwn) {
    const std::vector<std::string> targets = targets_here();
    const CpuContext first = open_cpu(targets.front(), 1), last = open_cpu(targets.back(), 1);
    const attile_context_info a = info_of(first.get()), b = info_of(last.get());
    EXPECT_EQ(targets.size() == 1, std::string(a.arch) == b.arch);
}

TEST(CpuTarget, ANameThatIsNoneIsRefusedWithTheOnesThatAre) {
    for (const char *name : {"avx1024", "AVX2", "avx2 ", "x"}) {
        std::string why;
        EXPECT_EQ(open_cpu(name, 1, &why), nullptr) << name;
        EXPECT_NE(why.find(std::string("ATTILE_CPU_TARGET is \"") + name + "\", which is not an instruction set"), std::string::npos)
            << why;
        for (const std::string &target : targets_here()) EXPECT_NE(why.find(" " + target, why.find("expected")), std::string::npos) << why;
    }
}

TEST(CpuTarget, ASetThatIsNotHereIsRefused) {
    const std::vector<std::string> here = targets_here();
    for (const char *name : {"amxbf16", "avx512bf16", "avx512", "avx2", "sse4", "neoni8mm", "neondot", "neon"}) {
        if (std::find(here.begin(), here.end(), name) != here.end()) continue;
        std::string why;
        EXPECT_EQ(open_cpu(name, 1, &why), nullptr) << name;
        EXPECT_TRUE(why.find("which is not in this build") != std::string::npos ||
                    why.find("which is not what this processor can run") != std::string::npos)
            << why;
        EXPECT_NE(open_cpu("", 1), nullptr) << "a refusal must not outlive its variable: " << last_error();
    }
}

// A row of numbers times 1: storage to float and back by every set's own instructions.
std::vector<uint16_t> through(attile_context *context, int32_t dtype, std::vector<uint16_t> in) {
    std::vector<uint16_t> out(in.size(), 0x1234);
    std::vector<uint16_t> one = {static_cast<uint16_t>(dtype == ATTILE_F16 ? 0x3c00 : 0x3f80)};
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    const int64_t count = static_cast<int64_t>(in.size()), left[2] = {1, 1}, row[2] = {1, count};
    attile_tensor_init(&args.a, one.data(), dtype, 2, left);
    attile_tensor_init(&args.b, in.data(), dtype, 2, row);
    attile_tensor_init(&args.d, out.data(), dtype, 2, row);
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
    return out;
}

TEST(CpuTarget, EveryFloat16AndBfloat16SurvivesAProductWithOne) {
    std::vector<uint16_t> all(65536);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    for (const std::string &target : targets_here()) {
        const CpuContext context = open_cpu(target, 1);
        for (const int32_t dtype : {ATTILE_F16, ATTILE_BF16}) {
            const uint16_t infinity = dtype == ATTILE_F16 ? 0x7c00 : 0x7f80;
            const std::vector<uint16_t> out = through(context.get(), dtype, all);
            int wrong = 0;
            for (size_t i = 0; i < all.size(); ++i) {
                const bool nan = (i & 0x7fff) > infinity, zero = (i & 0x7fff) == 0;
                // A sum that begins with +0 has no -0.
                const bool right = nan ? (out[i] & 0x7fff) > infinity : zero ? (out[i] & 0x7fff) == 0 : out[i] == all[i];
                if (!right && ++wrong < 5) ADD_FAILURE() << target << " dtype " << dtype << ": " << i << " became " << out[i];
            }
            EXPECT_EQ(wrong, 0);
        }
    }
}

// The scalar conversions, which edges and odd strides take, against the definition: the nearest, of two the even one.
TEST(CpuTarget, HalvesAreRoundedToNearestEven) {
    using cpu::float_to_half;
    using cpu::half_to_float;
    for (uint32_t i = 0; i < 0x7bff; ++i) {
        const float low = half_to_float(static_cast<uint16_t>(i)), high = half_to_float(static_cast<uint16_t>(i + 1));
        ASSERT_LT(low, high);
        ASSERT_EQ(float_to_half(low), i);
        const float middle = (low + high) / 2;  // exact
        ASSERT_EQ(float_to_half(middle), i % 2 == 0 ? i : i + 1);
        ASSERT_EQ(float_to_half(std::nextafter(middle, low)), i);
        ASSERT_EQ(float_to_half(std::nextafter(middle, high)), i + 1);
        ASSERT_EQ(float_to_half(-middle), 0x8000u | float_to_half(middle));
    }
    EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
    EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
    EXPECT_EQ(float_to_half(INFINITY), 0x7c00);
    EXPECT_GT(float_to_half(NAN) & 0x7fff, 0x7c00);
}

}  // namespace
}  // namespace attile::test

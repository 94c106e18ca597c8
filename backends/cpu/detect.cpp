// SPDX-License-Identifier: Apache-2.0
// What the processor can do: instruction sets, caches, name.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "amx/amx.h"
#include "state.h"
#include "system.h"

namespace attile::cpu {
namespace {

constexpr Target kTargets[] = {Target::kAmxBf16, Target::kAvx512Bf16, Target::kAvx512,  Target::kAvx2,
                               Target::kSse4,    Target::kNeonI8mm,   Target::kNeonDot, Target::kNeon};
// As ATTILE_CPU_TARGET names them.
constexpr const char *kTargetVariables[] = {"amxbf16", "avx512bf16", "avx512", "avx2", "sse4", "neoni8mm", "neondot", "neon"};
constexpr int kTargetCount = static_cast<int>(std::size(kTargets));

int64_t known(int64_t bytes, int64_t otherwise) { return bytes > 0 ? bytes : otherwise; }

}  // namespace

bool target_is_built(Target target) {
#if defined(__x86_64__)
#if defined(ATTILE_CPU_WITHOUT_AVX512)
    if (target == Target::kAvx512 || has_pairs(target)) return false;
#endif
#if defined(ATTILE_CPU_WITHOUT_AVX2)
    if (target == Target::kAvx2) return false;
#endif
#if defined(ATTILE_CPU_WITHOUT_SSE4)
    if (target == Target::kSse4) return false;
#endif
    if (target == Target::kAmxBf16) return amx_is_built();
    return target == Target::kAvx512Bf16 || target == Target::kAvx512 || target == Target::kAvx2 || target == Target::kSse4;
#else
    return target == Target::kNeon || target == Target::kNeonDot || target == Target::kNeonI8mm;
#endif
}

#if defined(__x86_64__)
// Asked of the processor itself: __builtin_cpu_supports() knows other names in each compiler, and no processor at all in Zig's runtime.
enum Register { kEbx = 1, kEcx = 2, kEdx = 3 };
static bool has(unsigned leaf, Register of, unsigned bits) {
    unsigned found[4] = {};
    return __get_cpuid_count(leaf, 0, &found[0], &found[1], &found[2], &found[3]) != 0 && (found[of] & bits) == bits;
}
// Whether the operating system saves all these registers; the bits are those of XCR0.
static bool system_saves(unsigned registers) {
    if (!has(1, kEcx, bit_OSXSAVE)) return false;
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & registers) == registers;
}
static bool has_avx512_bf16() {
    constexpr unsigned kBit = 1u << 5;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kBit) != 0;
}
#endif

bool target_runs_here(Target target) {
    if (!target_is_built(target)) return false;
#if defined(__x86_64__)
    constexpr unsigned kYmm = 0x6, kZmm = 0xe6, kTiles = 3u << 17;  // of vectors each with the smaller ones, and those of masks
    const bool sse4 = has(1, kEcx, bit_SSE4_2 | bit_POPCNT);
    const bool avx2 =
        sse4 && system_saves(kYmm) && has(1, kEcx, bit_AVX | bit_FMA | bit_F16C) && has(7, kEbx, bit_AVX2 | bit_BMI | bit_BMI2);
    const bool avx512 = avx2 && system_saves(kZmm) && has(7, kEbx, bit_AVX512F | bit_AVX512VL | bit_AVX512DQ | bit_AVX512BW | bit_AVX512CD);
    // Processors with bfloat16 have VNNI, which products of int8 take beside it; a virtual machine may hide either.
    constexpr unsigned kVnni = 1u << 11;
    const bool pairs = avx512 && has_avx512_bf16() && has(7, kEcx, kVnni);
    constexpr unsigned kAmxTile = 1u << 24, kAmxBf16 = 1u << 22;
    const bool tiles = pairs && system_saves(kTiles) && has(7, kEdx, kAmxTile | kAmxBf16);
    return (target == Target::kSse4 && sse4) || (target == Target::kAvx2 && avx2) || (target == Target::kAvx512 && avx512) ||
           (target == Target::kAvx512Bf16 && pairs) || (target == Target::kAmxBf16 && tiles);
#elif defined(__aarch64__)
    return target == Target::kNeon || (target == Target::kNeonDot && has_dot_products()) ||
           (target == Target::kNeonI8mm && has_dot_products() && has_matrix_products());
#else
    static_cast<void>(target);
    return false;
#endif
}

bool processor_is_amd() {
#if defined(__x86_64__)
    constinit static std::atomic<int> answer{-1};  // cpuid takes microseconds in a virtual machine
    if (answer.load(std::memory_order_relaxed) < 0) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        const bool is = __get_cpuid(0, &a, &b, &c, &d) != 0 && b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
        answer.store(is ? 1 : 0, std::memory_order_relaxed);
    }
    return answer.load(std::memory_order_relaxed) == 1;
#else
    return false;
#endif
}

const char *target_name(Target target) {
    switch (target) {
        case Target::kAmxBf16:
            return "AMX-BF16";
        case Target::kAvx512Bf16:
            return "AVX-512-BF16";
        case Target::kAvx512:
            return "AVX-512";
        case Target::kAvx2:
            return "AVX2";
        case Target::kSse4:
            return "SSE4";
        case Target::kNeonI8mm:
            return "NEON-I8MM";
        case Target::kNeonDot:
            return "NEON-DotProd";
        case Target::kNeon:
            return "NEON";
        case Target::kNone:
            break;
    }
    return "none";
}

const char *kernel_target_name(Target target) {
    return target_name(has_pairs(target) ? Target::kAvx512 : has_quads(target) ? Target::kNeon : target);
}

int target_lanes_f32(Target target) {
    switch (target) {
        case Target::kAmxBf16:
        case Target::kAvx512Bf16:
        case Target::kAvx512:
            return 16;
        case Target::kAvx2:
            return 8;
        default:
            return 4;
    }
}

namespace {

Target best_below(Target limit) {
    for (const Target target : kTargets) {
        if (target > limit && target_runs_here(target)) return target;
    }
    return Target::kNone;
}

// A variable's text, NULL if it is unset or empty.
const char *variable(const char *name) {
    const char *text = g_host->environment != nullptr ? g_host->environment(name) : nullptr;
    return text == nullptr || *text == 0 ? nullptr : text;
}

}  // namespace

Target best_target() {
    const Target amx = Target::kAmxBf16;
    return target_runs_here(amx) ? amx : best_below(amx);
}

Target target_by_name(const char *name) {
    for (int i = 0; i < kTargetCount; ++i) {
        if (std::strcmp(name, kTargetVariables[i]) == 0) return kTargets[i];
    }
    return Target::kNone;
}

Target chosen_target() {
    const char *amx = variable("ATTILE_CPU_AMX");
    const bool forbidden = amx != nullptr && std::strcmp(amx, "0") == 0;
    const Target best = forbidden ? best_below(Target::kAmxBf16) : best_target();
    if (best == Target::kNone) {
        char text[160] = "cpu: this processor has none of the instruction sets that this build knows:";
        for (const Target target : kTargets) {
            if (!target_is_built(target)) continue;
            std::strcat(text, " ");
            std::strcat(text, target_name(target));
        }
        fail(ATTILE_ERROR_BACKEND_REFUSED, text);
        return best;
    }
    const char *wanted = variable("ATTILE_CPU_TARGET");
    if (wanted == nullptr) return best;
    const Target target = target_by_name(wanted);
    const auto usable = [&](Target one) { return target_runs_here(one) && !(forbidden && one == Target::kAmxBf16); };
    if (target == Target::kNone || !usable(target)) {
        const char *why = target == Target::kNone     ? "is not an instruction set"
                          : !target_is_built(target)  ? "is not in this build"
                          : !target_runs_here(target) ? "is not what this processor can run"
                                                      : "is forbidden by ATTILE_CPU_AMX";
        char text[224];
        std::snprintf(text, sizeof text, "cpu: ATTILE_CPU_TARGET is \"%.40s\", which %s: expected one of", wanted, why);
        for (int i = 0; i < kTargetCount; ++i) {
            if (!usable(kTargets[i])) continue;
            std::strcat(text, " ");
            std::strcat(text, kTargetVariables[i]);
        }
        fail(ATTILE_ERROR_BACKEND_REFUSED, text);
        return Target::kNone;
    }
    return target;
}

CacheSizes cache_sizes() {
    CacheSizes sizes;
    sizes.l1 = known(cache_bytes(1), sizes.l1);
    sizes.l2 = known(cache_bytes(2), sizes.l2);
    sizes.l3 = known(cache_bytes(3), 2 * sizes.l2);
    return sizes;
}

void processor_name(char *buffer, int capacity) {
    if (!processor_model(buffer, capacity)) std::snprintf(buffer, static_cast<size_t>(capacity), "%s", target_name(best_target()));
}

}  // namespace attile::cpu

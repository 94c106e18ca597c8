// SPDX-License-Identifier: Apache-2.0
// Values from one register to another: moved, packed, unpacked, converted.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ptx_lanes.h"
#include "ptx_plain.h"

namespace attile::virtual_gpu {
namespace {

template <class T>
Outcome move(Warp &warp, const Instruction &i, Mask lanes) {
    T *const d = warp.row<T>(i.arguments[0].value);
    const T *const a = warp.row<T>(i.arguments[1].value);
    each(lanes, [=](int lane) { d[lane] = a[lane]; });
    return Outcome::kNext;
}

// {a, b} of the halves, quarters of a word, or the word of them.
Outcome unpack(Warp &warp, const Instruction &i, Mask lanes) {
    const Argument &to = i.arguments[0], &from = i.arguments[1];
    const std::size_t parts = std::max(to.braces.size(), from.braces.size());
    const int64_t bits = i.number[0] / static_cast<int64_t>(parts);
    const uint64_t part_mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    const auto read = [&](const Operand &operand, int lane) {
        return operand.kind == Kind::kWide ? warp.row<uint64_t>(operand)[lane] : warp.row<uint32_t>(operand)[lane];
    };
    const auto write = [&](const Operand &operand, int lane, uint64_t value) {
        if (operand.kind == Kind::kWide)
            warp.row<uint64_t>(operand)[lane] = value;
        else if (operand.kind == Kind::kNarrow)
            warp.row<uint32_t>(operand)[lane] = static_cast<uint32_t>(value);
    };
    for_lanes(lanes, [&](int lane) {
        uint64_t whole = 0;
        if (from.braces.empty()) {
            whole = read(from.value, lane);
        } else {
            for (std::size_t part = 0; part < parts; ++part)
                whole |= (read(from.braces[part], lane) & part_mask) << (static_cast<int64_t>(part) * bits);
        }
        if (to.braces.empty()) {
            write(to.value, lane, whole);
        } else {
            for (std::size_t part = 0; part < parts; ++part)
                write(to.braces[part], lane, whole >> (static_cast<int64_t>(part) * bits) & part_mask);
        }
    });
    return Outcome::kNext;
}

// Conversions.
template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;
template <class T>
auto widened(T x) {
    if constexpr (std::is_same_v<T, F16>)
        return from_f16(x.bits);
    else if constexpr (std::is_same_v<T, Bf16>)
        return from_bf16(x.bits);
    else
        return x;
}
enum Rounding : int64_t { kNearest, kToZero, kDown, kUp, kToInteger = 8, kSaturate = 16 };
template <class F>
F to_integer(F x, int64_t rounding) {
    return rounding == kToZero ? std::trunc(x) : rounding == kDown ? std::floor(x) : rounding == kUp ? std::ceil(x) : std::nearbyint(x);
}
template <class D, class A>
D converted(A from, int64_t how) {
    const auto x = widened(from);
    using X = std::decay_t<decltype(x)>;
    const int64_t rounding = how & 7;
    if constexpr (!kIsFloat<D>) {
        if constexpr (std::is_floating_point_v<X>) {
            const X whole = to_integer(x, rounding);
            if (whole != whole) return 0;
            if (whole <= static_cast<X>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
            if (whole >= static_cast<X>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
            return static_cast<D>(whole);
        } else {
            return static_cast<D>(x);
        }
    } else {
        using Wide = std::conditional_t<std::is_same_v<D, double> || std::is_same_v<X, double>, double, float>;
        Wide y = static_cast<Wide>(x);
        if ((how & kToInteger) != 0) y = to_integer(y, rounding);
        if ((how & kSaturate) != 0) y = y > 0 ? std::fmin(y, Wide{1}) : Wide{0};
        if constexpr (std::is_same_v<D, F16>)
            return F16{to_f16(static_cast<float>(y))};
        else if constexpr (std::is_same_v<D, Bf16>)
            return Bf16{to_bf16(static_cast<float>(y))};
        else
            return static_cast<D>(y);
    }
}
template <class D, class A>
Outcome convert(Warp &warp, const Instruction &i, Mask lanes) {
    void *const d = warp.row<char>(i.arguments[0].value);
    const void *a = warp.row<char>(i.arguments[1].value);
    const int64_t how = i.number[0];
    uint32_t narrow[kLanes];
    if (sizeof(A) < 8 && i.arguments[1].value.kind == Kind::kWide) {  // The low bits of a register that has more.
        for (int lane = 0; lane < kLanes; ++lane) narrow[lane] = static_cast<uint32_t>(static_cast<const uint64_t *>(a)[lane]);
        a = narrow;
    }
    each(lanes, [=](int lane) { put<D>(d, lane, converted<D, A>(get<A>(a, lane), how)); });
    return Outcome::kNext;
}
template <class D>
Outcome convert_pair(Warp &warp, const Instruction &i, Mask lanes) {
    uint32_t *const d = warp.row<uint32_t>(i.arguments[0].value);
    const float *const high = warp.row<float>(i.arguments[1].value), *const low = warp.row<float>(i.arguments[2].value);
    for_lanes(lanes, [&](int lane) {
        d[lane] = static_cast<uint32_t>(converted<D, float>(high[lane], 0).bits) << 16 | converted<D, float>(low[lane], 0).bits;
    });
    return Outcome::kNext;
}
// The nearest number of e4m3, of two the even one; at most 448.
uint32_t to_e4m3(float x) {
    if (x != x) return 0x7f;
    const uint32_t sign = std::signbit(x) ? 0x80 : 0;
    const float size = std::fabs(x);
    if (size >= 448) return sign | 0x7e;
    if (size == 0) return sign;
    const int exponent = std::max(std::ilogb(size), -6);
    const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, 3 - exponent)));
    // Of a normal number 8 to 16 steps, where 16 are the next exponent's 8.
    return sign | (steps + static_cast<uint32_t>((exponent + 6) << 3));
}
Outcome convert_e4m3_pair(Warp &warp, const Instruction &i, Mask lanes) {
    uint32_t *const d = warp.row<uint32_t>(i.arguments[0].value);
    const float *const high = warp.row<float>(i.arguments[1].value), *const low = warp.row<float>(i.arguments[2].value);
    for_lanes(lanes, [&](int lane) { d[lane] = to_e4m3(high[lane]) << 8 | to_e4m3(low[lane]); });
    return Outcome::kNext;
}
// Exact; as f16, whose exponent has a bias of 8 more.
uint32_t e4m3_as_f16(uint32_t bits) {
    const uint32_t sign = (bits & 0x80u) << 8, size = bits & 0x7fu;
    if (size == 0x7f) return sign | 0x7fffu;
    const float x =
        size < 8 ? std::ldexp(static_cast<float>(size), -9) : std::ldexp(static_cast<float>(8 + size % 8), static_cast<int>(size / 8) - 10);
    return sign | converted<F16, float>(x, 0).bits;
}
Outcome widen_e4m3_pair(Warp &warp, const Instruction &i, Mask lanes) {
    uint32_t *const d = warp.row<uint32_t>(i.arguments[0].value);
    const uint32_t *const pair = warp.row<uint32_t>(i.arguments[1].value);
    for_lanes(lanes, [&](int lane) { d[lane] = e4m3_as_f16(pair[lane] >> 8 & 0xffu) << 16 | e4m3_as_f16(pair[lane] & 0xffu); });
    return Outcome::kNext;
}
uint32_t to_tf32(uint32_t bits) { return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u; }
Outcome convert_tf32(Warp &warp, const Instruction &i, Mask lanes) {
    uint32_t *const d = warp.row<uint32_t>(i.arguments[0].value);
    const uint32_t *const a = warp.row<uint32_t>(i.arguments[1].value);
    each(lanes, [=](int lane) { d[lane] = to_tf32(a[lane]); });
    return Outcome::kNext;
}

Run conversion(const Opcode &opcode, Instruction *instruction) {
    const std::string_view to = opcode.parts[opcode.parts.size() - 2], from = opcode.parts.back();
    if (to == "e4m3x2" && from == "f32" && opcode.has("satfinite") && opcode.has("rn")) return convert_e4m3_pair;
    const bool is_of_integers = to.find('f') == std::string_view::npos && from.find('f') == std::string_view::npos;
    for (const std::string_view part : {"satfinite", "relu", "pack", "rz", "rm", "rp"})
        if (opcode.has(part)) return nullptr;
    if (opcode.has("sat") && is_of_integers) return nullptr;
    if (to == "f16x2" && from == "f32") return convert_pair<F16>;
    if (to == "bf16x2" && from == "f32") return convert_pair<Bf16>;
    if (to == "f16x2" && from == "e4m3x2" && opcode.has("rn")) return widen_e4m3_pair;
    if (to == "tf32") return opcode.has("rna") ? convert_tf32 : nullptr;
    int64_t &how = instruction->number[0];
    how = kNearest;
    for (const std::string_view part : opcode.parts) {
        if (part == "rzi") how = kToZero | kToInteger;
        if (part == "rmi") how = kDown | kToInteger;
        if (part == "rpi") how = kUp | kToInteger;
        if (part == "rni") how = kNearest | kToInteger;
        if (part == "sat") how |= kSaturate;
    }
    return for_any(to, [&](auto d) -> Run { return for_any(from, [&](auto a) -> Run { return convert<decltype(d), decltype(a)>; }); });
}

}  // namespace

bool decode_conversion(const Opcode &opcode, Instruction *instruction) {
    if (opcode.is("cvt")) {
        instruction->run = conversion(opcode, instruction);
    } else if (opcode.is("mov") && opcode.parts.back() != "pred") {
        const std::vector<Argument> &arguments = instruction->arguments;
        const std::string_view type = opcode.parts.back();
        instruction->number[0] = type == "b64" ? 64 : type == "b32" ? 32 : 16;
        const bool has_braces = !arguments[0].braces.empty() || !arguments[1].braces.empty();
        instruction->run = has_braces ? unpack : arguments[0].value.kind == Kind::kWide ? move<uint64_t> : move<uint32_t>;
    }
    return instruction->run != nullptr;
}

}  // namespace attile::virtual_gpu

// SPDX-License-Identifier: Apache-2.0
// Instructions that a lane does by itself: arithmetic, comparisons, conversions.
#include <algorithm>

#include "ptx_arithmetic.h"
#include "ptx_lanes.h"
#include "ptx_plain.h"

namespace attile::virtual_gpu {
namespace {

template <class D, class A, D (*kOperation)(A)>
Outcome unary(Warp &warp, const Instruction &i, Mask lanes) {
    void *const d = warp.row<char>(i.arguments[0].value);
    const void *const a = warp.row<char>(i.arguments[1].value);
    each(lanes, [=](int lane) { put<D>(d, lane, kOperation(get<A>(a, lane))); });
    return Outcome::kNext;
}
template <class D, class A, class B, D (*kOperation)(A, B)>
Outcome binary(Warp &warp, const Instruction &i, Mask lanes) {
    void *const d = warp.row<char>(i.arguments[0].value);
    const void *const a = warp.row<char>(i.arguments[1].value), *const b = warp.row<char>(i.arguments[2].value);
    each(lanes, [=](int lane) { put<D>(d, lane, kOperation(get<A>(a, lane), get<B>(b, lane))); });
    return Outcome::kNext;
}
template <class D, class A, class B, class C, D (*kOperation)(A, B, C)>
Outcome ternary(Warp &warp, const Instruction &i, Mask lanes) {
    void *const d = warp.row<char>(i.arguments[0].value);
    const void *const a = warp.row<char>(i.arguments[1].value), *const b = warp.row<char>(i.arguments[2].value),
                      *const c = warp.row<char>(i.arguments[3].value);
    each(lanes, [=](int lane) { put<D>(d, lane, kOperation(get<A>(a, lane), get<B>(b, lane), get<C>(c, lane))); });
    return Outcome::kNext;
}
template <class T, bool (*kCompares)(T, T)>
Outcome compare(Warp &warp, const Instruction &i, Mask lanes) {
    const void *const a = warp.row<char>(i.arguments[1].value), *const b = warp.row<char>(i.arguments[2].value);
    Mask result = 0;
    each(lanes, [&](int lane) { result |= static_cast<Mask>(kCompares(get<T>(a, lane), get<T>(b, lane))) << lane; });
    Mask other = ~result;
    if (i.arguments.size() > 3) {
        const Mask with = warp.predicate(i.arguments[3].value);
        const auto join = [&](Mask x) { return i.number[0] == 1 ? x & with : i.number[0] == 2 ? x | with : x ^ with; };
        result = join(result), other = join(other);
    }
    warp.set_predicate(i.arguments[0].value, result, lanes);
    warp.set_predicate(i.arguments[0].second, other, lanes);
    return Outcome::kNext;
}
template <class T>
Outcome select(Warp &warp, const Instruction &i, Mask lanes) {
    void *const d = warp.row<char>(i.arguments[0].value);
    const void *const a = warp.row<char>(i.arguments[1].value), *const b = warp.row<char>(i.arguments[2].value);
    const Mask chosen = warp.predicate(i.arguments[3].value);
    each(lanes, [=](int lane) { put<T>(d, lane, (chosen >> lane & 1) != 0 ? get<T>(a, lane) : get<T>(b, lane)); });
    return Outcome::kNext;
}

// Bits of `b` from a position on replaced by those of `a`.
Outcome insert_bits(Warp &warp, const Instruction &i, Mask lanes) {
    const bool is_wide = i.arguments[0].value.kind == Kind::kWide;
    for_lanes(lanes, [&](int lane) {
        const auto value = [&](int argument) {
            const Operand &operand = i.arguments[static_cast<std::size_t>(argument)].value;
            return operand.kind == Kind::kWide ? warp.row<uint64_t>(operand)[lane] : warp.row<uint32_t>(operand)[lane];
        };
        const uint64_t at = value(3) & 255, count = value(4) & 255;
        const uint64_t field = at >= 64 ? 0 : (count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << at;
        const uint64_t result = (value(2) & ~field) | (at >= 64 ? 0 : value(1) << at & field);
        if (is_wide)
            warp.row<uint64_t>(i.arguments[0].value)[lane] = result;
        else
            warp.row<uint32_t>(i.arguments[0].value)[lane] = static_cast<uint32_t>(result);
    });
    return Outcome::kNext;
}
// Any function of three words, by its table.
Outcome by_table(Warp &warp, const Instruction &i, Mask lanes) {
    uint32_t *const d = warp.row<uint32_t>(i.arguments[0].value);
    const uint32_t *const a = warp.row<uint32_t>(i.arguments[1].value), *const b = warp.row<uint32_t>(i.arguments[2].value),
                          *const c = warp.row<uint32_t>(i.arguments[3].value);
    const uint32_t table = warp.row<uint32_t>(i.arguments[4].value)[0];
    for_lanes(lanes, [&](int lane) {
        uint32_t result = 0;
        for (int bit = 0; bit < 32; ++bit)
            result |= (table >> ((a[lane] >> bit & 1) << 2 | (b[lane] >> bit & 1) << 1 | (c[lane] >> bit & 1)) & 1) << bit;
        d[lane] = result;
    });
    return Outcome::kNext;
}
Outcome funnel(Warp &warp, const Instruction &i, Mask lanes) {
    uint32_t *const d = warp.row<uint32_t>(i.arguments[0].value);
    const uint32_t *const a = warp.row<uint32_t>(i.arguments[1].value), *const b = warp.row<uint32_t>(i.arguments[2].value),
                          *const c = warp.row<uint32_t>(i.arguments[3].value);
    for_lanes(lanes, [&](int lane) {
        const uint64_t all = static_cast<uint64_t>(b[lane]) << 32 | a[lane];
        const uint32_t by = i.number[1] != 0 ? c[lane] & 31 : std::min(c[lane], 32u);
        d[lane] = static_cast<uint32_t>(i.number[0] != 0 ? all >> by : (all << by) >> 32);
    });
    return Outcome::kNext;
}

Outcome predicates(Warp &warp, const Instruction &i, Mask lanes) {
    const Mask a = warp.predicate(i.arguments[1].value), b = i.arguments.size() > 2 ? warp.predicate(i.arguments[2].value) : 0;
    const Mask results[] = {a & b, a | b, a ^ b, ~a, a};
    warp.set_predicate(i.arguments[0].value, results[i.number[0]], lanes);
    return Outcome::kNext;
}

Run arithmetic(const Opcode &opcode) {
    const std::string_view name = opcode.parts[0], type = opcode.parts.back();
    // Other roundings, saturation and the like are not known.
    for (const std::string_view part : {"sat", "relu", "rz", "rp", "rm", "xorsign", "oob"})
        if (opcode.has(part) && !(type == "f32" && ((name == "fma" && part == "rm") || (name == "mul" && part == "rz")))) return nullptr;
    if (name == "fma") {
        if (type == "bf16x2") return ternary<uint32_t, uint32_t, uint32_t, uint32_t, fused_pair<from_bf16, to_bf16>>;
        if (type == "f16x2") return ternary<uint32_t, uint32_t, uint32_t, uint32_t, fused_pair<from_f16, to_f16>>;
        if (type == "f64") return ternary<double, double, double, double, fused<double>>;
        if (type != "f32") return nullptr;
        return opcode.has("rm") ? ternary<float, float, float, float, fused_down> : ternary<float, float, float, float, fused<float>>;
    }
    if (type == "f32") {
        if (name == "ex2") return opcode.has("ftz") ? unary<float, float, exp2_flushing> : unary<float, float, exp2_of>;
        if (name == "lg2") return unary<float, float, log2_of>;
        if (name == "tanh") return unary<float, float, tanh_of>;
        if (name == "sin") return unary<float, float, sine>;
        if (name == "cos") return unary<float, float, cosine>;
        if (name == "mul" && opcode.has("rz")) return binary<float, float, float, times_towards_zero>;
    }
    if (type == "f32" || type == "f64") {
        return for_number(type, [&](auto t) -> Run {
            using T = decltype(t);
            if constexpr (std::is_floating_point_v<T>) {
                if (name == "copysign") return binary<T, T, T, with_sign<T>>;
                if (name == "rcp") return unary<T, T, inverse<T>>;
                if (name == "sqrt") return unary<T, T, root<T>>;
                if (name == "rsqrt") return unary<T, T, inverse_root<T>>;
                if (name == "mul") return binary<T, T, T, times<T>>;
                if (name == "add") return binary<T, T, T, plus<T>>;
                if (name == "sub") return binary<T, T, T, minus<T>>;
                if (name == "div") return binary<T, T, T, over<T>>;
                if (name == "min") return opcode.has("NaN") ? binary<T, T, T, least_or_nan<T>> : binary<T, T, T, least<T>>;
                if (name == "max") return opcode.has("NaN") ? binary<T, T, T, most_or_nan<T>> : binary<T, T, T, most<T>>;
                if (name == "neg") return unary<T, T, opposite<T>>;
                if (name == "abs") return unary<T, T, magnitude<T>>;
            }
            return nullptr;
        });
    }
    if (name == "brev" && type == "b32") return unary<uint32_t, uint32_t, reversed>;
    if (name == "popc" && type == "b32") return unary<uint32_t, uint32_t, ones>;
    if (name == "clz" && type == "b32") return unary<uint32_t, uint32_t, zeros_above>;
    if (name == "bfind" && type == "u32")
        return opcode.has("shiftamt") ? unary<uint32_t, uint32_t, shift_to_highest> : unary<uint32_t, uint32_t, highest>;
    if (name == "dp4a" && opcode.parts[1] == "u32" && type == "u32") return ternary<uint32_t, uint32_t, uint32_t, uint32_t, sum_of_bytes>;
    if (name == "dp4a" && opcode.parts[1] == "s32" && type == "s32")
        return ternary<uint32_t, uint32_t, uint32_t, uint32_t, sum_of_signed_bytes>;
    if (name == "prmt" && opcode.parts.size() == 2) return ternary<uint32_t, uint32_t, uint32_t, uint32_t, bytes_chosen>;
    if (name == "bfi") return insert_bits;
    if (name == "lop3" && type == "b32") return by_table;
    if (name == "shf") return funnel;
    return for_integer(type, [&](auto t) -> Run {
        using T = decltype(t);
        if (opcode.has("cc")) return nullptr;
        if (name == "add") return binary<T, T, T, plus<T>>;
        if (name == "sub") return binary<T, T, T, minus<T>>;
        if (name == "div") return binary<T, T, T, over<T>>;
        if (name == "rem") return binary<T, T, T, rest_of<T>>;
        if (name == "min") return binary<T, T, T, least<T>>;
        if (name == "max") return binary<T, T, T, most<T>>;
        if (name == "neg") return unary<T, T, opposite<T>>;
        if (name == "abs") return unary<T, T, magnitude<T>>;
        if (name == "and") return binary<T, T, T, both<T>>;
        if (name == "or") return binary<T, T, T, either<T>>;
        if (name == "xor") return binary<T, T, T, differs<T>>;
        if (name == "not") return unary<T, T, inverted<T>>;
        if (name == "shl") return binary<T, T, uint32_t, left<T>>;
        if (name == "shr") return binary<T, T, uint32_t, right<T>>;
        if (name == "mul" && opcode.has("hi")) return binary<T, T, T, times_high<T>>;
        if (name == "mul" && opcode.has("lo")) return binary<T, T, T, times<T>>;
        if (name == "mad" && opcode.has("hi")) return ternary<T, T, T, T, times_high_plus<T>>;
        if (name == "mad" && opcode.has("lo")) return ternary<T, T, T, T, times_plus<T>>;
        if constexpr (sizeof(T) < 8) {
            if (name == "mul" && opcode.has("wide")) return binary<Twice<T>, T, T, times_wide<T>>;
            if (name == "mad" && opcode.has("wide")) return ternary<Twice<T>, T, T, Twice<T>, times_wide_plus<T>>;
        }
        return nullptr;
    });
}

Run comparison(const Opcode &opcode) {
    const std::string_view how = opcode.parts[1];
    return for_number(opcode.parts.back(), [&](auto t) -> Run {
        using T = decltype(t);
        const struct {
            std::string_view name;
            Run run;
        } all[] = {{"eq", compare<T, eq<T>>},   {"ne", compare<T, ne<T>>},   {"lt", compare<T, lt<T>>},   {"le", compare<T, le<T>>},
                   {"gt", compare<T, gt<T>>},   {"ge", compare<T, ge<T>>},   {"lo", compare<T, lt<T>>},   {"ls", compare<T, le<T>>},
                   {"hi", compare<T, gt<T>>},   {"hs", compare<T, ge<T>>},   {"equ", compare<T, equ<T>>}, {"neu", compare<T, neu<T>>},
                   {"ltu", compare<T, ltu<T>>}, {"leu", compare<T, leu<T>>}, {"gtu", compare<T, gtu<T>>}, {"geu", compare<T, geu<T>>},
                   {"num", compare<T, num<T>>}, {"nan", compare<T, nan<T>>}};
        for (const auto &one : all)
            if (one.name == how) return one.run;
        return nullptr;
    });
}

}  // namespace

bool decode_plain(const Opcode &opcode, Instruction *instruction) {
    Run &run = instruction->run;
    const std::string_view name = opcode.parts[0], type = opcode.parts.back();
    if (decode_memory(opcode, instruction) || decode_conversion(opcode, instruction)) return true;
    if (type == "pred" && (name == "and" || name == "or" || name == "xor" || name == "not" || name == "mov")) {
        instruction->number[0] = name == "and" ? 0 : name == "or" ? 1 : name == "xor" ? 2 : name == "not" ? 3 : 4;
        run = predicates;
    } else if (name == "setp") {
        instruction->number[0] = opcode.has("and") ? 1 : opcode.has("or") ? 2 : 3;
        run = comparison(opcode);
    } else if (name == "selp") {
        run = instruction->arguments[0].value.kind == Kind::kWide ? select<uint64_t> : select<uint32_t>;
    } else {
        if (name == "shf") {
            instruction->number[0] = opcode.has("r");
            instruction->number[1] = opcode.has("wrap");
        }
        run = arithmetic(opcode);
    }
    return run != nullptr;
}

}  // namespace attile::virtual_gpu

// SPDX-License-Identifier: Apache-2.0
// A lane's value in a row, of any type, and the choice of a handler by a type's name.
#pragma once

#include <cstring>
#include <type_traits>

#include "ptx_machine.h"

namespace attile::virtual_gpu {

struct F16 {
    uint16_t bits;
};
struct Bf16 {
    uint16_t bits;
};

// A lane's value in a row: narrow rows hold 32 bits whatever the type.
template <class T>
using Cell = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T>
T get(const void *row, int lane) {
    const Cell<T> cell = static_cast<const Cell<T> *>(row)[lane];
    if constexpr (sizeof(T) >= 4) {
        T value;
        std::memcpy(&value, &cell, sizeof value);
        return value;
    } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(cell);
    } else {
        return T{static_cast<uint16_t>(cell)};
    }
}
template <class T>
void put(void *row, int lane, T value) {
    Cell<T> cell;
    if constexpr (sizeof(T) >= 4)
        std::memcpy(&cell, &value, sizeof cell);
    else if constexpr (std::is_integral_v<T>)
        cell = static_cast<Cell<T>>(value);  // With its sign.
    else
        cell = value.bits;
    static_cast<Cell<T> *>(row)[lane] = cell;
}

// As for_lanes(), for what each lane does without the others: compilers then do many at once.
template <class Act>
inline __attribute__((always_inline)) void each(Mask lanes, const Act &act) {
    if (lanes == ~Mask{0}) {
#if !defined(__clang__)  // Which has no pragma that only allows it: its own warns where it does not do so.
#pragma GCC ivdep
#endif
        for (int lane = 0; lane < kLanes; ++lane) act(lane);
    } else {
        for (Mask rest = lanes; rest != 0; rest &= rest - 1) act(__builtin_ctz(rest));
    }
}

// Calls act with a number of the type's C++ type and returns what it makes; null where the type is none of them.
template <class Act>
Run for_integer(std::string_view type, const Act &act) {
    if (type == "u32" || type == "b32") return act(uint32_t{});
    if (type == "s32") return act(int32_t{});
    if (type == "u64" || type == "b64") return act(uint64_t{});
    if (type == "s64") return act(int64_t{});
    if (type == "u16" || type == "b16") return act(uint16_t{});
    if (type == "s16") return act(int16_t{});
    return nullptr;
}
template <class Act>
Run for_number(std::string_view type, const Act &act) {
    if (type == "f32") return act(float{});
    if (type == "f64") return act(double{});
    return for_integer(type, act);
}
template <class Act>
Run for_any(std::string_view type, const Act &act) {
    if (type == "f16") return act(F16{});
    if (type == "bf16") return act(Bf16{});
    if (type == "u8") return act(uint8_t{});
    if (type == "s8") return act(int8_t{});
    return for_number(type, act);
}

}  // namespace attile::virtual_gpu

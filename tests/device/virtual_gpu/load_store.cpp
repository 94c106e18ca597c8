// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomics, and addresses from one space to another.
#include <cstdlib>
#include <cstring>

#include "ptx_plain.h"

namespace attile::virtual_gpu {
namespace {

enum Space : int64_t { kGeneric, kGlobal, kShared, kLocal, kParameters };

Space space_of(const Opcode &opcode) {
    for (const std::string_view part : opcode.parts) {
        if (part == "global" || part == "const") return kGlobal;
        if (part == "shared" || part == "shared::cta" || part == "shared::cluster") return kShared;
        if (part == "local") return kLocal;
        if (part == "param") return kParameters;
    }
    return kGeneric;
}

// Local memory, which a lane has for itself, and, what is not in it, anything else.
inline unsigned char *local_at(Warp &warp, uint64_t address, std::size_t bytes, bool writes) {
    const uint64_t place = address - reinterpret_cast<uint64_t>(warp.local.data());
    if (place >= warp.local.size() || bytes > warp.local.size() - place || (place & (bytes - 1)) != 0)
        return generic_at(warp, address, bytes, bytes, writes);
    return warp.local.data() + place;
}

inline unsigned char *memory_at(Warp &warp, int64_t space, uint64_t address, std::size_t bytes, bool writes) {
    switch (space) {
        case kGlobal:
            return global_at(address, bytes, bytes, writes);
        case kShared:
            return shared_at(*warp.block, address, bytes, bytes);
        default:
            return local_at(warp, address, bytes, writes);
    }
}

// Values of a register or of all in braces: number[0] is the space.
const Operand *values_of(const Argument &argument, std::size_t *count) {
    *count = argument.braces.empty() ? 1 : argument.braces.size();
    return argument.braces.empty() ? &argument.value : argument.braces.data();
}

// Not another block's of the cluster.
bool is_own(Block &block, const unsigned char *at) { return at >= block.shared_base() && at < block.shared_base() + block.shared_size; }

// T is the type in memory; its sign is kept.
template <class T>
void set_register(Warp &warp, const Operand &to, int lane, const unsigned char *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    if (to.kind == Kind::kWide)
        warp.row<uint64_t>(to)[lane] = static_cast<uint64_t>(value);
    else if (to.kind == Kind::kNarrow)
        warp.row<uint32_t>(to)[lane] = static_cast<uint32_t>(value);
}

template <class T>
Outcome load(Warp &warp, const Instruction &i, Mask lanes) {
    std::size_t count;
    const Operand *const to = values_of(i.arguments[0], &count);
    const Argument &from = i.arguments[1];
    const std::size_t bytes = sizeof(T) * count;
    if (i.number[0] == kParameters && from.value.kind == Kind::kNone) {
        const std::vector<unsigned char> &parameters = warp.grid->parameters;
        if (static_cast<std::size_t>(from.offset) + bytes > parameters.size()) fault("a parameter that is not there");
        for (std::size_t k = 0; k < count; ++k)
            for_lanes(lanes, [&](int lane) { set_register<T>(warp, to[k], lane, parameters.data() + from.offset + k * sizeof(T)); });
        return Outcome::kNext;
    }
    for_lanes(lanes, [&](int lane) {
        const unsigned char *const at = memory_at(warp, i.number[0], warp.address(from, lane), bytes, false);
        if (i.number[0] == kShared && is_own(*warp.block, at))
            read_words(warp, static_cast<std::size_t>(at - warp.block->shared_base()), bytes);
        for (std::size_t k = 0; k < count; ++k) set_register<T>(warp, to[k], lane, at + k * sizeof(T));
    });
    return Outcome::kNext;
}

// What other blocks may be about to write is waited for in a loop.
template <class T>
Outcome load_in_turn(Warp &warp, const Instruction &i, Mask lanes) {
    load<T>(warp, i, lanes);
    return Outcome::kYield;
}

template <class T>
Outcome store(Warp &warp, const Instruction &i, Mask lanes) {
    std::size_t count;
    const Operand *const from = values_of(i.arguments[1], &count);
    const std::size_t bytes = sizeof(T) * count;
    for_lanes(lanes, [&](int lane) {
        unsigned char *const at = memory_at(warp, i.number[0], warp.address(i.arguments[0], lane), bytes, true);
        unsigned char values[32];
        for (std::size_t k = 0; k < count; ++k) {
            const T value =
                static_cast<T>(from[k].kind == Kind::kWide ? warp.row<uint64_t>(from[k])[lane] : warp.row<uint32_t>(from[k])[lane]);
            std::memcpy(values + k * sizeof(T), &value, sizeof value);
        }
        if (i.number[0] == kShared && is_own(*warp.block, at))
            write_shared(warp, at, values, bytes);
        else
            std::memcpy(at, values, bytes);
    });
    return Outcome::kNext;
}

template <class T>
Outcome load_local(Warp &warp, const Instruction &i, Mask lanes) {
    std::size_t count;
    const Operand *const to = values_of(i.arguments[0], &count);
    for_lanes(lanes, [&](int lane) {
        const unsigned char *const at = local_at(warp, warp.address(i.arguments[1], lane), sizeof(T) * count, false);
        for (std::size_t k = 0; k < count; ++k) set_register<T>(warp, to[k], lane, at + k * sizeof(T));
    });
    return Outcome::kNext;
}

template <class T>
Outcome store_local(Warp &warp, const Instruction &i, Mask lanes) {
    std::size_t count;
    const Operand *const from = values_of(i.arguments[1], &count);
    for_lanes(lanes, [&](int lane) {
        unsigned char *const at = local_at(warp, warp.address(i.arguments[0], lane), sizeof(T) * count, true);
        for (std::size_t k = 0; k < count; ++k) {
            const T value =
                static_cast<T>(from[k].kind == Kind::kWide ? warp.row<uint64_t>(from[k])[lane] : warp.row<uint32_t>(from[k])[lane]);
            std::memcpy(at + k * sizeof(T), &value, sizeof value);
        }
    });
    return Outcome::kNext;
}

enum class Access { kLoad, kLoadInTurn, kLoadLocal, kStore, kStoreLocal };
template <class T>
Run typed(Access access) {
    switch (access) {
        case Access::kLoadInTurn:
            return load_in_turn<T>;
        case Access::kLoadLocal:
            return load_local<T>;
        case Access::kStore:
            return store<T>;
        case Access::kStoreLocal:
            return store_local<T>;
        default:
            return load<T>;
    }
}
Run access_of(Access access, int64_t bits, bool is_signed) {
    switch (bits) {
        case 8:
            return is_signed ? typed<int8_t>(access) : typed<uint8_t>(access);
        case 16:
            return is_signed ? typed<int16_t>(access) : typed<uint16_t>(access);
        case 32:
            return is_signed ? typed<int32_t>(access) : typed<uint32_t>(access);
        default:
            return typed<uint64_t>(access);
    }
}

enum Atomic : int64_t { kAdd, kMin, kMax, kAnd, kOr, kExchange, kCompareAndSwap };

template <class T>
T atomic_result(int64_t what, T before, T operand, T second) {
    switch (what) {
        case kAdd:
            return static_cast<T>(before + operand);
        case kMin:
            return before < operand ? before : operand;
        case kMax:
            return before > operand ? before : operand;
        case kCompareAndSwap:
            return before == operand ? second : before;
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        if (what == kAnd) return before & operand;
        if (what == kOr) return before | operand;
    }
    return operand;
}
// One lane after the other. number[3]: how many arguments stand before the address.
template <class T>
Outcome atomic(Warp &warp, const Instruction &i, Mask lanes) {
    const std::size_t first = static_cast<std::size_t>(i.number[3]);
    for_lanes(lanes, [&](int lane) {
        T *const at = reinterpret_cast<T *>(memory_at(warp, i.number[0], warp.address(i.arguments[first], lane), sizeof(T), true));
        const T operand = warp.row<T>(i.arguments[first + 1].value)[lane];
        const T second = i.number[1] == kCompareAndSwap ? warp.row<T>(i.arguments[first + 2].value)[lane] : T{};
        const T before = *at;
        *at = atomic_result(i.number[1], before, operand, second);
        if (first > 0 && i.arguments[0].value.kind != Kind::kNone) warp.row<T>(i.arguments[0].value)[lane] = before;
    });
    return Outcome::kNext;
}

// Between a space's addresses and generic ones, which differ in shared memory alone.
Outcome change_space(Warp &warp, const Instruction &i, Mask lanes) {
    const Operand &to = i.arguments[0].value, &from = i.arguments[1].value;
    for_lanes(lanes, [&](int lane) {
        uint64_t address = from.kind == Kind::kWide ? warp.row<uint64_t>(from)[lane] : warp.row<uint32_t>(from)[lane];
        if (i.number[0] == kShared) address = i.number[1] != 0 ? address & 0xffffffffu : kSharedWindow | address;
        if (to.kind == Kind::kWide)
            warp.row<uint64_t>(to)[lane] = address;
        else
            warp.row<uint32_t>(to)[lane] = static_cast<uint32_t>(address);
    });
    return Outcome::kNext;
}

Outcome nothing(Warp &, const Instruction &, Mask) { return Outcome::kNext; }
Outcome trap(Warp &, const Instruction &, Mask) { fault("trap"); }

}  // namespace

bool decode_memory(const Opcode &opcode, Instruction *instruction) {
    const std::string_view name = opcode.parts[0], type = opcode.parts.back();
    const std::size_t digits = type.find_first_of("0123456789");
    const int64_t bits = digits == std::string_view::npos || digits == 0 ? 0 : std::atoi(std::string(type.substr(digits)).c_str());
    int64_t *const number = instruction->number;
    number[0] = static_cast<int64_t>(space_of(opcode));
    if (opcode.has("async")) {
        return false;
    } else if (name == "ld" || name == "ldu" || name == "st") {
        if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return false;
        if (name == "st" && instruction->arguments.size() > 1 &&
            instruction->arguments[1].braces.size() * static_cast<std::size_t>(bits) > 256)
            return false;
        const bool waits = opcode.has("acquire") || opcode.has("relaxed") || opcode.has("volatile");
        const bool is_local = number[0] == kLocal;
        const Access access = name == "st"                                               ? is_local ? Access::kStoreLocal : Access::kStore
                              : is_local                                                 ? Access::kLoadLocal
                              : waits && (number[0] == kGlobal || number[0] == kGeneric) ? Access::kLoadInTurn
                                                                                         : Access::kLoad;
        instruction->run = access_of(access, bits, type[0] == 's');
    } else if (name == "atom" || name == "red") {
        constexpr std::string_view kNames[] = {"add", "min", "max", "and", "or", "exch", "cas"};
        number[1] = -1;
        for (int64_t what = kAdd; what <= kCompareAndSwap; ++what)
            if (opcode.has(kNames[what])) number[1] = what;
        number[3] = name == "atom" ? 1 : 0;
        if (number[1] < 0 || !instruction->arguments.back().braces.empty()) return false;
        instruction->run = type == "u32" || type == "b32"   ? atomic<uint32_t>
                           : type == "s32"                  ? atomic<int32_t>
                           : type == "u64" || type == "b64" ? atomic<uint64_t>
                           : type == "f32"                  ? atomic<float>
                           : type == "f64"                  ? atomic<double>
                                                            : nullptr;
    } else if (name == "cvta") {
        number[1] = opcode.has("to");
        instruction->run = change_space;
    } else if (name == "trap") {
        instruction->run = trap;
    } else if (name == "prefetch" || name == "prefetchu") {
        instruction->run = nothing;
    }
    return instruction->run != nullptr;
}

}  // namespace attile::virtual_gpu

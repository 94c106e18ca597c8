// SPDX-License-Identifier: Apache-2.0
// Words for error sentences: arguments as the caller wrote them, data types, shapes. Only used once something has failed.
#ifndef ATTILE_CORE_MESSAGE_H
#define ATTILE_CORE_MESSAGE_H

#include <attile/attile.h>

#include <cstdint>

namespace attile::core {

// Which public call is being served, for its messages and for what a query may leave out.
struct Call {
    const char *operation;    // "gemm"
    bool query = false;       // data pointers may be NULL
    const char *prefix = "";  // how the tensors are reached from the args struct: "" or "forward->"
};

// An argument's name as the caller writes it; `index` for one of an array.
struct ArgName {
    const char *text;
    int64_t index;
    // Names are written as plain literals at every check.
    constexpr ArgName(const char *name = "", int64_t element = -1) : text(name), index(element) {}  // NOLINT(google-explicit-constructor)
};

struct NameText {
    NameText(const Call &call, ArgName name);
    char text[64];
};

// A set of data types, one bit each.
using DtypeSet = uint32_t;
inline constexpr DtypeSet kNoDtype = 0, kF32 = 1, kF64 = 2, kF16 = 4, kBf16 = 8, kI32 = 16, kU8 = 32, kBool = 64;
inline constexpr DtypeSet kI8 = 128, kE4m3 = 256, kE5m2 = 512, kI4 = 1024, kU4 = 2048, kI64 = 4096;
inline constexpr DtypeSet kFloats = kF32 | kF64 | kF16 | kBf16, kFloats8 = kE4m3 | kE5m2, kFourBits = kI4 | kU4;
inline constexpr DtypeSet kNarrow = kI8 | kFloats8;

// The bit of a data type; kNoDtype for a number that is none.
constexpr DtypeSet dtype_bit(int32_t dtype) {
    switch (dtype) {
        case ATTILE_F32:
            return kF32;
        case ATTILE_F64:
            return kF64;
        case ATTILE_F16:
            return kF16;
        case ATTILE_BF16:
            return kBf16;
        case ATTILE_I32:
            return kI32;
        case ATTILE_I64:
            return kI64;
        case ATTILE_U8:
            return kU8;
        case ATTILE_BOOL:
            return kBool;
        case ATTILE_I8:
            return kI8;
        case ATTILE_F8_E4M3:
            return kE4m3;
        case ATTILE_F8_E5M2:
            return kE5m2;
        case ATTILE_I4:
            return kI4;
        case ATTILE_U4:
            return kU4;
        default:
            return kNoDtype;
    }
}

// Bytes of an element: the low byte of a data type's number is its bits. Of 4 bits the byte that it shares.
constexpr int32_t element_bytes(int32_t dtype) { return ((dtype & 0xff) + 7) / 8; }
constexpr bool is_four_bits(int32_t dtype) { return (dtype & 0xff) == 4; }

// "f32 (0x0220)", "unknown (0x7777)"
struct DtypeText {
    explicit DtypeText(int32_t dtype);
    char text[32];
};

// "f32, f64 or bf16"
struct DtypeSetText {
    explicit DtypeSetText(DtypeSet set);
    char text[64];
};

// Replaces what could forge or garble a line of a log by '?': control characters, and bytes that are no UTF-8. Every text that leaves the
// library passes here, since some of it is the environment's, a file's name or a backend's.
void make_printable(char *text);

}  // namespace attile::core

#endif

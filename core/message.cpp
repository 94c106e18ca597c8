// SPDX-License-Identifier: Apache-2.0
// Words for error sentences, composed in small fixed buffers.
#include "message.h"

#include <cstdio>

namespace attile::core {
namespace {

constexpr struct {
    DtypeSet bit;
    const char *name;
} kDtypes[] = {{kF32, "f32"},   {kF64, "f64"}, {kF16, "f16"},      {kBf16, "bf16"},    {kI32, "i32"}, {kI64, "i64"}, {kU8, "u8"},
               {kBool, "bool"}, {kI8, "i8"},   {kE4m3, "f8_e4m3"}, {kE5m2, "f8_e5m2"}, {kI4, "i4"},   {kU4, "u4"}};

// Bytes of the character that begins at `text`, 0 if none to be shown does.
int printable_bytes(const unsigned char *text) {
    const unsigned first = text[0];
    if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
    const int bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4) return 0;
    uint32_t code = first & (0x7fU >> bytes);
    for (int i = 1; i < bytes; ++i) {
        if ((text[i] & 0xc0) != 0x80) return 0;  // the terminating zero, too
        code = code << 6 | (text[i] & 0x3fU);
    }
    constexpr uint32_t kLowest[] = {0, 0, 0xa0, 0x800, 0x10000};  // below 0xa0: control characters
    return code >= kLowest[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? bytes : 0;
}

}  // namespace

void make_printable(char *text) {
    unsigned char *at = reinterpret_cast<unsigned char *>(text);
    while (*at != '\0') {
        const int bytes = printable_bytes(at);
        if (bytes == 0) {
            *at++ = '?';
        } else {
            at += bytes;
        }
    }
}

NameText::NameText(const Call &call, ArgName name) {
    if (name.index >= 0) {
        std::snprintf(text, sizeof text, "%s%s[%lld]", call.prefix, name.text, static_cast<long long>(name.index));
    } else {
        std::snprintf(text, sizeof text, "%s%s", call.prefix, name.text);
    }
}

DtypeText::DtypeText(int32_t dtype) {
    const char *name = "unknown";
    for (const auto &known : kDtypes) {
        if (dtype_bit(dtype) == known.bit) name = known.name;
    }
    std::snprintf(text, sizeof text, "%s (0x%04x)", name, static_cast<unsigned>(dtype));
}

DtypeSetText::DtypeSetText(DtypeSet set) {
    text[0] = '\0';
    int written = 0;
    for (const auto &known : kDtypes) {
        if ((set & known.bit) == 0) continue;
        set &= ~known.bit;
        const char *before = written == 0 ? "" : set == 0 ? " or " : ", ";
        written += std::snprintf(text + written, sizeof text - static_cast<size_t>(written), "%s%s", before, known.name);
    }
}

}  // namespace attile::core

// SPDX-License-Identifier: Apache-2.0
// Words for error sentences, composed in small fixed buffers.
#include "message.h"

#include <cstdio>

namespace attile::core {
namespace {

constexpr struct {
    DtypeSet bit;
    const char *name;
} kDtypes[] = {{kF32, "f32"}, {kF64, "f64"}, {kF16, "f16"}, {kBf16, "bf16"}, {kI32, "i32"}, {kU8, "u8"}, {kBool, "bool"}};

}  // namespace

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

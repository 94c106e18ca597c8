// SPDX-License-Identifier: Apache-2.0
// What operations share whose result is of 8 bits, and is made in float32 first.
#pragma once

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "host/sizes.h"

namespace attile::gpu {

// Operands whose addresses are not known yet, where no vector begins.
inline void place_oddly(std::initializer_list<attile_operand *> operands) {
    for (attile_operand *const x : operands)
        if (is_present(*x) && x->data == nullptr) x->data = odd_address(x->dtype);
}

// What a query says after the plan of the step that makes float32, whose least traffic is `bytes`; support.bytes is the whole call's.
inline void name_rounded(attile_support &support, const char *name, double bytes) {
    if (bytes > 0) support.predicted_share *= support.bytes < bytes ? support.bytes / bytes : 1;
    const std::size_t length = std::strlen(support.text);
    std::snprintf(support.text + length, sizeof support.text - length, "%s%s is made in float32, then rounded to 8 bits",
                  length > 0 ? "; " : "", name);
}

}  // namespace attile::gpu

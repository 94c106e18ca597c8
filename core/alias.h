// SPDX-License-Identifier: Apache-2.0
// Whether two strided tensors share memory.
#ifndef ATTILE_CORE_ALIAS_H
#define ATTILE_CORE_ALIAS_H

#include <cstdint>

#include "tensor.h"

namespace attile::core {

enum class Overlap {
    kNone,  // proved: no byte in common
    kSame,  // the same elements at the same indices
    kSome,  // bytes in common, or interleaved in a way that could not be proved free of it
};

// Whether the bytes between first and last meet at all. Views that are empty, absent or not located meet nothing. Inline, since
// nearly every pair of every call ends here.
inline bool ranges_meet(const View &one, const View &other) {
    return one.located && other.located && one.low < other.high && other.low < one.high;
}

// Both views have been checked.
Overlap find_overlap(const View &one, const View &other);

// ATTILE_ERROR_ALIASING, naming the two.
int32_t refuse_alias(const Call &call, const View &output, const View &other);

// ATTILE_ERROR_ALIASING unless the two have nothing in common.
inline int32_t refuse_overlap(const Call &call, const View &output, const View &other) {
    if (!ranges_meet(output, other) || find_overlap(output, other) == Overlap::kNone) return ATTILE_OK;
    return refuse_alias(call, output, other);
}

// The same, but the very same view is also accepted, and reported in `same` if that is wanted.
int32_t refuse_partial_overlap(const Call &call, const View &output, const View &other, bool *same = nullptr);

}  // namespace attile::core

#endif

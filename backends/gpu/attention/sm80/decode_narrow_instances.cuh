// SPDX-License-Identifier: Apache-2.0
// The instances of decode_narrow.cuh, for plain scores and rows, and for any (kAny).
#pragma once

#include "attention/sm80/decode_narrow.cuh"
#include "attention/sm80/decode_narrow.h"

namespace attile::gpu::sm80 {

// Names of instances of 64 and of 128 columns.
struct NarrowNames {
    const char *of64, *of128;
};

template <class T, int kColumns, KeyScales kScales, bool kAny, int kThreads>
DecodeNarrowKernel narrow_instance(const char *name) {
    using C = DecodeNarrow<T, kColumns, kScales, kAny, kThreads>;
    return {name, reinterpret_cast<const void *>(&attention_decode_narrow_kernel<C>), C::kRows, C::kTile, C::kThreads, C::kSharedBytes};
}

// Scales of groups leave no registers for more than 256 threads, and without scales of keys 8 bits gain nothing by them. Devices but
// 8.0, 9.0 and 10.0 have less shared memory than 512 want.
template <class T, int kColumns, KeyScales kScales, bool kAny>
DecodeNarrowKernel narrow_instance(const char *name, int64_t shared) {
    if constexpr (kScales == KeyScales::kOne || (kScales == KeyScales::kNone && kBitsOf<T> == 4)) {
        const DecodeNarrowKernel large = narrow_instance<T, kColumns, kScales, kAny, 512>(name);
        if (static_cast<int64_t>(large.shared) <= shared) return large;
    }
    const DecodeNarrowKernel small = narrow_instance<T, kColumns, kScales, kAny, 256>(name);
    return static_cast<int64_t>(small.shared) <= shared ? small : DecodeNarrowKernel();
}

// Where there are no scales of keys, kernels for any scores take all of them for 1: that costs less than what modifies scores.
template <class T, int kColumns, bool kAny>
DecodeNarrowKernel narrow_instance(KeyScales scales, const char *name, int64_t shared) {
    if (scales == KeyScales::kGroups) return narrow_instance<T, kColumns, KeyScales::kGroups, kAny>(name, shared);
    if constexpr (!kAny)
        if (scales == KeyScales::kNone) return narrow_instance<T, kColumns, KeyScales::kNone, kAny>(name, shared);
    return narrow_instance<T, kColumns, KeyScales::kOne, kAny>(name, shared);
}

template <class T, bool kAny>
DecodeNarrowKernel narrow_instance(int64_t columns, KeyScales scales, const NarrowNames &names, int64_t shared) {
    return columns == 64 ? narrow_instance<T, 64, kAny>(scales, names.of64, shared)
                         : narrow_instance<T, 128, kAny>(scales, names.of128, shared);
}

template <bool kAny>
DecodeNarrowKernel narrow_instance(AttentionStorage storage, int64_t columns, KeyScales scales, const NarrowNames (&names)[3],
                                   int64_t shared) {
    if (storage == AttentionStorage::kI8) return narrow_instance<I8, kAny>(columns, scales, names[0], shared);
    if (storage == AttentionStorage::kI4) return narrow_instance<I4, kAny>(columns, scales, names[1], shared);
    return narrow_instance<E4M3, kAny>(columns, scales, names[2], shared);
}

}  // namespace attile::gpu::sm80

// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/decode_narrow.h"

#include "attention/sm80/decode_narrow.cuh"

namespace attile::gpu::sm80 {
namespace {

template <class T, int kColumns, KeyScales kScales>
DecodeNarrowKernel kernel_of(const char *name) {
    using C = DecodeNarrow<T, kColumns, kScales>;
    return {name, reinterpret_cast<const void *>(&attention_decode_narrow_kernel<C>), C::kRows, C::kTile, C::kThreads, C::kSharedBytes};
}

template <class T, int kColumns>
DecodeNarrowKernel kernel_of(KeyScales scales, const char *name) {
    if (scales == KeyScales::kGroups) return kernel_of<T, kColumns, KeyScales::kGroups>(name);
    return scales == KeyScales::kOne ? kernel_of<T, kColumns, KeyScales::kOne>(name) : kernel_of<T, kColumns, KeyScales::kNone>(name);
}

template <class T>
DecodeNarrowKernel kernel_of(int64_t columns, KeyScales scales, const char *name64, const char *name128) {
    return columns == 64 ? kernel_of<T, 64>(scales, name64) : columns == 128 ? kernel_of<T, 128>(scales, name128) : DecodeNarrowKernel();
}

}  // namespace

DecodeNarrowKernel attention_decode_narrow(AttentionStorage storage, int64_t columns, KeyScales scales) {
    if (storage == AttentionStorage::kI8) return kernel_of<I8>(columns, scales, "decode_64x8_i8_sm80", "decode_128x8_i8_sm80");
    if (storage == AttentionStorage::kI4) return kernel_of<I4>(columns, scales, "decode_64x8_i4_sm80", "decode_128x8_i4_sm80");
    return kernel_of<E4M3>(columns, scales, "decode_64x8_e4m3_sm80", "decode_128x8_e4m3_sm80");
}

}  // namespace attile::gpu::sm80

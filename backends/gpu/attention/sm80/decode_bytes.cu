// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/decode_bytes.h"

#include "attention/sm80/decode_bytes.cuh"

namespace attile::gpu::sm80 {
namespace {

template <class T, int kColumns, KeyScales kScales>
DecodeBytesKernel kernel_of(const char *name) {
    using C = DecodeBytes<T, kColumns, kScales>;
    return {name, reinterpret_cast<const void *>(&attention_decode_bytes_kernel<C>), C::kRows, C::kTile, C::kThreads};
}

template <class T, int kColumns>
DecodeBytesKernel kernel_of(KeyScales scales, const char *name) {
    if (scales == KeyScales::kGroups) return kernel_of<T, kColumns, KeyScales::kGroups>(name);
    return scales == KeyScales::kOne ? kernel_of<T, kColumns, KeyScales::kOne>(name) : kernel_of<T, kColumns, KeyScales::kNone>(name);
}

}  // namespace

DecodeBytesKernel attention_decode_bytes(AttentionStorage storage, int64_t columns, KeyScales scales) {
    const bool is_i8 = storage == AttentionStorage::kI8;
    if (columns == 64)
        return is_i8 ? kernel_of<I8, 64>(scales, "decode_64x4_i8_sm80") : kernel_of<E4M3, 64>(scales, "decode_64x4_e4m3_sm80");
    if (columns != 128) return {};
    return is_i8 ? kernel_of<I8, 128>(scales, "decode_128x4_i8_sm80") : kernel_of<E4M3, 128>(scales, "decode_128x4_e4m3_sm80");
}

}  // namespace attile::gpu::sm80

// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/decode_bytes.h"

#include "attention/sm80/decode_bytes.cuh"

namespace attile::gpu::sm80 {
namespace {

template <class T, int kColumns, bool kByKey>
DecodeBytesKernel kernel_of(const char *name) {
    using C = DecodeBytes<T, kColumns, kByKey>;
    return {name, reinterpret_cast<const void *>(&attention_decode_bytes_kernel<C>), C::kRows, C::kTile, C::kThreads};
}

template <class T>
DecodeBytesKernel kernel_of(int64_t columns, bool scales_by_key, const char *name_64, const char *name_128) {
    if (columns > 128) return {};
    if (columns > 64) return scales_by_key ? kernel_of<T, 128, true>(name_128) : kernel_of<T, 128, false>(name_128);
    return scales_by_key ? kernel_of<T, 64, true>(name_64) : kernel_of<T, 64, false>(name_64);
}

}  // namespace

DecodeBytesKernel attention_decode_bytes(AttentionStorage storage, int64_t columns, bool scales_by_key) {
    if (storage == AttentionStorage::kI8) return kernel_of<I8>(columns, scales_by_key, "decode_64x4_i8_sm80", "decode_128x4_i8_sm80");
    if (storage == AttentionStorage::kE4M3)
        return kernel_of<E4M3>(columns, scales_by_key, "decode_64x4_e4m3_sm80", "decode_128x4_e4m3_sm80");
    return {};
}

}  // namespace attile::gpu::sm80

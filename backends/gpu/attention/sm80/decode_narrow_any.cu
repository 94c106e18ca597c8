// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/decode_narrow_instances.cuh"

namespace attile::gpu::sm80 {

DecodeNarrowKernel attention_decode_narrow_any(AttentionStorage storage, int64_t columns, KeyScales scales, int64_t shared) {
    if (storage == AttentionStorage::kI8)
        return narrow_instance<I8, true>(columns, scales, {"decode_64x8_i8_any_sm80", "decode_128x8_i8_any_sm80"}, shared);
    if (storage == AttentionStorage::kI4)
        return narrow_instance<I4, true>(columns, scales, {"decode_64x8_i4_any_sm80", "decode_128x8_i4_any_sm80"}, shared);
    return narrow_instance<E4M3, true>(columns, scales, {"decode_64x8_e4m3_any_sm80", "decode_128x8_e4m3_any_sm80"}, shared);
}

}  // namespace attile::gpu::sm80

// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/decode_narrow_instances.cuh"

namespace attile::gpu::sm80 {

DecodeNarrowKernel attention_decode_narrow_any(AttentionStorage storage, int64_t columns, KeyScales scales, int64_t shared) {
    constexpr NarrowNames kNames[] = {{"decode_64x8_i8_any_sm80", "decode_128x8_i8_any_sm80"},
                                      {"decode_64x8_i4_any_sm80", "decode_128x8_i4_any_sm80"},
                                      {"decode_64x8_e4m3_any_sm80", "decode_128x8_e4m3_any_sm80"}};
    return narrow_instance<true>(storage, columns, scales, kNames, shared);
}

}  // namespace attile::gpu::sm80

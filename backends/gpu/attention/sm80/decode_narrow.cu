// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/decode_narrow_instances.cuh"

namespace attile::gpu::sm80 {

DecodeNarrowKernel attention_decode_narrow(AttentionStorage storage, int64_t columns, KeyScales scales, int64_t shared) {
    constexpr NarrowNames kNames[] = {{"decode_64x8_i8_sm80", "decode_128x8_i8_sm80"},
                                      {"decode_64x8_i4_sm80", "decode_128x8_i4_sm80"},
                                      {"decode_64x8_e4m3_sm80", "decode_128x8_e4m3_sm80"}};
    return narrow_instance<false>(storage, columns, scales, kNames, shared);
}

}  // namespace attile::gpu::sm80

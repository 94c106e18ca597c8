// SPDX-License-Identifier: Apache-2.0
#include "kernel/decode.cuh"

namespace attile::simt {

const AttentionDecodeKernel *attention_decode_kernels(int32_t *count) {
    static const AttentionDecodeKernel kKernels[] = {
#define ATTILE_DECODE(type, storage, suffix, loads)                                                              \
    decode_instance<DecodeConfig<type, 16, 1, 1, loads>>("decode_64x1_" suffix, AttentionStorage::storage),      \
        decode_instance<DecodeConfig<type, 16, 1, 4, 4>>("decode_64x4_" suffix, AttentionStorage::storage),      \
        decode_instance<DecodeConfig<type, 16, 1, 8, 4>>("decode_64x8_" suffix, AttentionStorage::storage),      \
        decode_instance<DecodeConfig<type, 32, 1, 1, loads>>("decode_128x1_" suffix, AttentionStorage::storage), \
        decode_instance<DecodeConfig<type, 32, 1, 4, 4>>("decode_128x4_" suffix, AttentionStorage::storage),     \
        decode_instance<DecodeConfig<type, 32, 1, 8, 4>>("decode_128x8_" suffix, AttentionStorage::storage),     \
        decode_instance<DecodeConfig<type, 32, 2, 1, 4>>("decode_256x1_" suffix, AttentionStorage::storage),     \
        decode_instance<DecodeConfig<type, 32, 2, 4, 2>>("decode_256x4_" suffix, AttentionStorage::storage)
        ATTILE_DECODE(float, kF32, "f32", 4),
        ATTILE_DECODE(F16, kF16, "f16", 8),
        ATTILE_DECODE(BF16, kBF16, "bf16", 8),
#undef ATTILE_DECODE
    };
    *count = static_cast<int32_t>(sizeof kKernels / sizeof kKernels[0]);
    return kKernels;
}

}  // namespace attile::simt

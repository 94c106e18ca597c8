// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/decode.cuh"

namespace attile::gpu::simt {

AttentionDecodeKernels attention_decode_f32() {
    static const DecodeInstances<float, 4> instances(AttentionStorage::kF32, ATTILE_DECODE_NAMES("f32"));
    return {instances.all, 8};
}

}  // namespace attile::gpu::simt

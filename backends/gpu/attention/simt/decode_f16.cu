// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/decode.cuh"

namespace attile::gpu::simt {

AttentionDecodeKernels attention_decode_f16() {
    static const DecodeInstances<F16, 8> instances(AttentionStorage::kF16, ATTILE_DECODE_NAMES("f16"));
    return {instances.all, 8};
}

}  // namespace attile::gpu::simt

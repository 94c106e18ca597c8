// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/decode.cuh"

namespace attile::gpu::simt {

AttentionDecodeKernels attention_decode_bf16() {
    static const DecodeInstances<BF16, 8> instances(AttentionStorage::kBF16, ATTILE_DECODE_NAMES("bf16"));
    return {instances.all, 8};
}

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/decode.cuh"

namespace attile::gpu::simt {

AttentionDecodeKernels attention_decode_i8() {
    static const DecodeBytesInstances<I8> instances(AttentionStorage::kI8, ATTILE_DECODE_NAMES("i8"));
    return {instances.all, 6};
}

}  // namespace attile::gpu::simt

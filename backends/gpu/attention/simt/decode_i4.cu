// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/decode.cuh"

namespace attile::gpu::simt {

AttentionDecodeKernels attention_decode_i4() {
    static const DecodeBytesInstances<I4> instances(AttentionStorage::kI4, ATTILE_DECODE_NAMES("i4"));
    return {instances.all, 6};
}

}  // namespace attile::gpu::simt

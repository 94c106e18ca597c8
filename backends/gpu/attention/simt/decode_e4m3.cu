// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/decode.cuh"

namespace attile::gpu::simt {

AttentionDecodeKernels attention_decode_e4m3() {
    static const DecodeBytesInstances<E4M3> instances(AttentionStorage::kE4M3, ATTILE_DECODE_NAMES("e4m3"));
    return {instances.all, 6};
}

}  // namespace attile::gpu::simt

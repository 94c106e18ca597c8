// SPDX-License-Identifier: Apache-2.0
// Apart from the other kinds of 128 columns, as those of 64 columns are (single64.cu).
#include "attention/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionSingleKernels attention_single128() { return attention_single_kernels<Attention128>(); }

}  // namespace attile::gpu::simt

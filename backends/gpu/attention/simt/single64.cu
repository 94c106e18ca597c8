// SPDX-License-Identifier: Apache-2.0
// Apart from the other kinds of 64 columns: what is compiled from PTX on the device is compiled a file at a time.
#include "attention/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionSingleKernels attention_single64() { return attention_single_kernels<Attention64>(); }

}  // namespace attile::gpu::simt

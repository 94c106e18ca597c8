// SPDX-License-Identifier: Apache-2.0
#include "gemm/exact/residues_mma.cuh"

#include "gemm/exact/kernels.h"

namespace attile::gpu::exact {

ResidueKernel residue_mma_kernel(bool f64, bool wide) {
    if (f64) return wide ? make_residues_mma<double, 3> : make_residues_mma<double, 2>;
    return wide ? make_residues_mma<float, 3> : make_residues_mma<float, 2>;
}

}  // namespace attile::gpu::exact

// SPDX-License-Identifier: Apache-2.0
// A GEMM problem brought into the form that the kernels take (see gemm_params.h), and what can be said about its operands.
#pragma once

#include <attile/attile_backend.h>

#include "kernel/gemm_params.h"

namespace attile::simt {

struct GemmShape {
    GemmParams params = {};  // Operands, extents, factors; the plan fills in the rest.
    int32_t dtype = 0;       // Of A and B.
    int64_t batches = 1;
    bool transposed = false;    // The kernels compute D^T = B^T A^T.
    bool has_epilogue = false;  // Bias or an activation.
    bool unit_strides = false;  // A and B are contiguous along outer or depth.
    // As strides and extents alone would allow, which is what a query may go by; and as the pointers are.
    bool direct_strides = false;
    bool vector_strides = false;  // Of A and B.
    bool direct = false;          // D, and C if there is one, can be read and written as the plain epilogue does.
    bool vectorised = false;      // D and C in vectors.
    bool a_vectors = false, b_vectors = false;
    bool b_quads = false;  // B by four elements, as the skinny kernels read it.
};

GemmShape gemm_shape(const attile_gemm_problem &problem);

// Fills in the operations and the least memory traffic of a problem.
void gemm_work(const attile_gemm_problem &problem, attile_support &support);

}  // namespace attile::simt

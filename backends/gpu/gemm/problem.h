// SPDX-License-Identifier: Apache-2.0
// A GEMM problem brought into the form that the kernels take (see gemm/params.h), and what can be said about its operands.
#pragma once

#include <attile/attile_backend.h>

#include "gemm/params.h"

namespace attile::gpu {

// All that launching reads: what follows from it is asked of it (below), so that no kernel family can forget a copy.
struct GemmProduct {
    GemmParams params = {};  // Operands, extents, factors; the plan fills in the rest.
    int32_t dtype = 0;       // That is summed in: of A and B, or of the partial results of kernels that widen them.
    int64_t batches = 1;
};

// A plan's operands, whose addresses stand for the problem's (host/operands.h), to where the problem has them.
const void *gemm_address(const attile_gemm_problem &problem, const void *standing_in);
void gemm_move(GemmParams &params, const attile_gemm_problem &problem);

// Does more than scaling and C lie between the sums and D: bias, or an activation?
bool gemm_has_epilogue(const GemmParams &p);
// Can C, if there is one, and D be read and written in vectors, all of their rows?
bool gemm_vectorised(const GemmParams &p);

struct GemmShape : GemmProduct {
    bool transposed = false;    // The kernels compute D^T = B^T A^T.
    bool unit_strides = false;  // A and B are contiguous along outer or depth.
    // As strides and extents alone would allow, which is what a query may go by; and as the pointers are.
    bool direct_strides = false;
    bool vector_strides = false;  // Of A and B.
    bool direct = false;          // D, and C if there is one, can be read and written as the plain epilogue does.
    bool a_vectors = false, b_vectors = false;
    bool b_quads = false;  // B by four elements, as the skinny kernels read it.
};

GemmShape gemm_shape(const attile_gemm_problem &problem);
// Of a grouped product: as it lies, and entries of the inner batch axis are groups, whose rows may begin anywhere.
GemmShape gemm_shape_of_groups(const attile_gemm_problem &problem);

// Fills in the operations and the least memory traffic of a problem.
void gemm_work(const attile_gemm_problem &problem, attile_support &support);

}  // namespace attile::gpu

// SPDX-License-Identifier: Apache-2.0
// A and B of a product as kernels for tensor cores read them: in rows 16 bytes aligned, which some operands are first copied into.
#pragma once

#include "device.h"
#include "gemm/problem.h"
#include "host/family.h"
#include "host/workspace.h"
#include "mma/reach.h"

namespace attile::gpu::mma {

// An operand as the kernels read it, or as packing leaves it: contiguous along `outer_first` ? its outer axis : the depth.
struct GemmPanel {
    int64_t outer, depth;  // Extents.
    int64_t row;           // Stride of the axis that is not contiguous.
    int64_t batch_x, batch_y;
    int64_t count_x, count_y;  // Extents of the batch axes; 1 where the operand is the same for all.
    bool outer_first;
};
int64_t gemm_panel_bytes(const GemmPanel &panel, int64_t element_bytes);

struct GemmOperands {
    GemmParams params = {};  // With a unit stride along the columns of D where it has one.
    int64_t batches = 1;
    int64_t element_bytes = 2;            // Of A and B.
    bool pack_a = false, pack_b = false;  // Of params' A and B.
    int64_t workspace_bytes = 0;          // For the copies.
    double input_bytes = 0, packed_bytes = 0;
    char declined[160] = {};  // Why no kernel can read them; empty if one can.

    GemmPanel panel(bool is_a) const;
};

// What 16-byte copies and the TMA of capability 9.0 reach: see is_reachable(). Extents beyond 2^31 are declined.
GemmOperands gemm_operands(const attile_gemm_problem &problem);

// Of a grouped product's A and B, which are never copied: can TMA read them as they are, A along the depth?
bool groups_reachable(const GemmOperands &operands);

// Does nothing but scaling and narrowing lie between the sums and a D of `dtype`, whose columns are contiguous?
bool is_plain(const GemmParams &p, int32_t dtype);
// Are the rows of C or D at multiples of 16 bytes: `rows` of them, in batch_y inner and batch_x outer batch entries?
bool is_wide(const GemmOutput &output, int64_t rows, int64_t batch_y, int64_t batch_x);

// Copies what is to be packed, and says where A and B are from then on.
int32_t gemm_pack(Device &device, const GemmOperands &operands, Workspace &workspace, Stream stream, const void **a, const void **b);

// Is SIMT clearly faster than `seconds`? Only asked of a problem whose operands these kernels would have to copy, that has few rows or
// columns, or that is of float32 or float64. Fills `declined` if so. Never with BATCH_INVARIANT, whose results must not depend on the
// number of rows.
bool gemm_is_left_to_simt(const DeviceProperties &properties, const attile_gemm_problem &problem, const GemmOperands &operands,
                          double seconds, Declined &declined);

}  // namespace attile::gpu::mma

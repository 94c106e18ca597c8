// SPDX-License-Identifier: Apache-2.0
// Few rows of f16 or bf16 times weights of 8 or 4 bits on tensor cores, as the host sees it.
#pragma once

#include <cstdint>

#include "divider.h"
#include "gemm/block_scales.h"
#include "gemm/params.h"
#include "host/family.h"

namespace attile::gpu::sm80 {

// Rows of A and of B lie along the depth, and begin at multiples of 16 bytes.
struct FewNarrowParams {
    const char *a, *b;
    int64_t a_batch_x, a_batch_y, a_row, b_batch_x, b_batch_y, b_row;  // In bytes.
    int64_t m, n, k;
    GemmOutput c, d, bias;
    float alpha, beta;
    int32_t activation;
    int32_t by_group;  // Scales or zero points change along the depth: at multiples of the depth of a part of a step.
    int32_t groups;    // Of columns, that a block has: 1 or 2. The other warps share the depth.
    Divider blocks_n, batch_y;
    BlockScales scale, zero;
};

struct FewNarrowKernel {
    const void *kernel = nullptr;
    int rows = 0;         // That it has room for.
    int step = 0;         // Of depth: of a warp at a time.
    int warp_bytes = 0;   // Of shared memory, of each warp,
    int share_bytes = 0;  // and of those that have the same depth.
    int32_t shared(int warps, int groups) const { return warps * warp_bytes + warps / groups * share_bytes; }
};
inline constexpr int kFewNarrowColumns = 32, kFewNarrowWarps = 16, kFewNarrowRows = 16;
// dtypes: ATTILE_ constants; a 16-bit one of A, and of B i8, e4m3, i4 or u4. m: at most kFewNarrowRows. parts: of a step, within which
// scales are the same: 1, 2, or of 4 bits 4.
FewNarrowKernel few_narrow_kernel(int32_t a_dtype, int32_t b_dtype, int64_t m, int parts);

// Of f16 or bf16 times i8, e4m3, i4 or u4. It needs no workspace, and asks for so much.
Planned<attile_gemm_problem> plan_few_narrow(Device &device, const attile_gemm_problem &problem, int64_t workspace);

}  // namespace attile::gpu::sm80

// SPDX-License-Identifier: Apache-2.0
// Few rows of f16 or bf16 times weights of 8 or 4 bits on tensor cores, as the host sees it.
#pragma once

#include <cstdint>

#include "divider.h"
#include "gemm/block_scales.h"
#include "gemm/params.h"
#include "host/family.h"

namespace attile::gpu::sm80 {

// Rows of A and of B lie along the depth, and begin at multiples of 16 bytes; those of B of a lane's run, if that is shorter.
struct FewNarrowParams {
    const char *a, *b;
    int64_t a_batch_x, a_batch_y, a_row, b_batch_x, b_batch_y, b_row;  // In bytes.
    int64_t m, n, k;
    GemmOutput c, d, bias;
    float alpha, beta;
    int32_t activation;
    int32_t by_group;  // Scales or zero points change along the depth: at multiples of the depth of a step.
    Divider blocks_n, batch_y;
    BlockScales scale, zero;
};

struct FewNarrowKernel {
    const void *kernel = nullptr;
    int rows = 0;  // That it has room for.
    int run = 0;   // Numbers of a row that a lane takes at a time: a step is four times as deep.
    int warp_bytes = 0;  // Of shared memory.
};
inline constexpr int kFewNarrowColumns = 32, kFewNarrowWarps = 8;
// dtypes: ATTILE_ constants; a 16-bit one of A, and of B i8, e4m3, i4 or u4. m: at most kFewNarrowRows. run_bytes: 16, 8, or of 4 bits 4.
inline constexpr int kFewNarrowRows = 16;
FewNarrowKernel few_narrow_kernel(int32_t a_dtype, int32_t b_dtype, int64_t m, int run_bytes);

// Of f16 or bf16 times i8, e4m3, i4 or u4. It needs no workspace, and asks for so much.
Planned<attile_gemm_problem> plan_few_narrow(Device &device, const attile_gemm_problem &problem, int64_t workspace);

}  // namespace attile::gpu::sm80

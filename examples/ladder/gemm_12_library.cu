// SPDX-License-Identifier: Apache-2.0
// Step: gemm 12 library
// Title: The library's own kernel
// Changes: attile_gemm() with device pointers; the kernel is backends/gpu/gemm/simt/tile.cuh. The same 128 by 128 by 8 tile and 8 by
//   8 outputs a thread, with a lane layout in which pairs of lanes share addresses, products walked to and fro so that registers are
//   reused, and the remainder of the depth taken first, so that the loop has no test.
// Why: A 128-bit load from shared memory takes 2 clocks in place of 4 if neighbouring lanes ask for the same words; a multiply-add
//   whose operand is still at hand fetches two registers in place of three. The kernel's header tells what else was tried.
// Intensity: 128 / 4 = 32 FLOP/B.
#include "ladder_gemm.h"
#include "ladder_library.h"

namespace {

attile_gemm_args arguments(const ladder::Gemm &p) {
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    args.a = ladder::tensor(p.a, {p.m, p.k});
    args.b = ladder::tensor(p.b, {p.k, p.n});
    args.d = ladder::tensor(p.c, {p.m, p.n});
    return args;
}

void launch(const ladder::Gemm &p) {
    const attile_gemm_args args = arguments(p);
    LADDER_ATTILE(attile_gemm(ladder::library(), &args));
}

double traffic(const ladder::Gemm &p) {
    const attile_gemm_args args = arguments(p);
    attile_support support = ladder::new_support();
    LADDER_ATTILE(attile_gemm_query(ladder::library(), &args, &support));
    return ladder::tile_traffic(p, std::max(1, support.tile_m), std::max(1, support.tile_n));
}

[[maybe_unused]] const bool added = ladder::add_gemm({12, "library", launch, traffic});

}  // namespace

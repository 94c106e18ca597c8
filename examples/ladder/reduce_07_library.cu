// SPDX-License-Identifier: Apache-2.0
// Step: reduction 7 library
// Title: The library's own kernel
// Changes: attile_reduce() with device pointers; the kernel is backends/gpu/rows/simt/reduce.cuh. 16-byte loads, four of them on
//   their way a thread, and a long row cut into as many parts as fill the device.
// Why: A quarter of the load instructions, and enough bytes under way to cover memory's latency: bandwidth is all there is to win.
// Intensity: 1/4 FLOP/B.
#include "ladder_library.h"
#include "ladder_reduce.h"

namespace {

void launch(const ladder::Reduction &p) {
    attile_reduce_args args;
    attile_reduce_init(&args, sizeof args);
    args.x = ladder::tensor(p.x, {1, p.n});
    args.y = ladder::tensor(p.result, {1, 1});
    args.op = ATTILE_REDUCE_SUM;
    args.axis = -1;
    LADDER_ATTILE(attile_reduce(ladder::library(), &args));
}

double traffic(double n) { return 4 * n; }

[[maybe_unused]] const bool added = ladder::add_reduce({7, "library", launch, traffic});

}  // namespace

// SPDX-License-Identifier: Apache-2.0
// Step: attention 11 library
// Title: The library's own kernel
// Changes: attile_attention() with device pointers; the kernel is backends/gpu/attention/simt/tile.cuh. A warp owns whole rows; each
//   lane keeps 8 rows by 4 or 8 keys of scores, and 8 rows by 8 columns of O, in registers for the whole loop. Weights pass through a
//   strip of shared memory that only their warp uses. K and V stream in through two small buffers; O is written once.
// Why: 16 multiply-adds a shared load in place of one to four make arithmetic the limit, and O no longer crosses global memory at every
//   tile. The exponential's base is 2, with the scale folded in, and O is corrected only when a row's maximum has moved far.
// Intensity: 4 * rows d FLOP for each 8 d bytes of a key: 64 FLOP/B with 128 rows a block.
#include "ladder_attention.h"
#include "ladder_library.h"

namespace {

attile_attention_args arguments(const ladder::Attention &p) {
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    const std::vector<int64_t> shape{p.heads, 1, p.n, p.d};
    args.q = ladder::tensor(p.q, shape);
    args.k = ladder::tensor(p.k, shape);
    args.v = ladder::tensor(p.v, shape);
    args.o = ladder::tensor(p.o, shape);
    return args;
}

void launch(const ladder::Attention &p) {
    const attile_attention_args args = arguments(p);
    LADDER_ATTILE(attile_attention(ladder::library(), &args));
}

double traffic(const ladder::Attention &p) {
    const attile_attention_args args = arguments(p);
    attile_support support = ladder::new_support();
    LADDER_ATTILE(attile_attention_query(ladder::library(), &args, &support));
    const double row_tiles = std::ceil(p.n / static_cast<double>(std::max(1, support.tile_m)));
    return p.heads * (row_tiles * 8.0 * p.n * p.d + 8.0 * p.n * p.d);
}

[[maybe_unused]] const bool added = ladder::add_attention({11, "library", launch, traffic});

}  // namespace

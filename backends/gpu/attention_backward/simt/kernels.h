// SPDX-License-Identifier: Apache-2.0
// The kernels of attention's gradients as the host sees them.
#pragma once

#include "attention_backward/params.h"

namespace attile::gpu::simt {

using AttentionBackwardKernel = void (*)(AttentionBackwardParams);

struct AttentionBackwardTile {
    AttentionBackwardKernel kernel;
    int32_t rows, keys, threads;
};

// Instances of the tile kernel for up to `depth` columns. Both want q, k, v and dout as float rows of exactly that many. Plain: at whole
// vectors, and no more than a mask between scores and probabilities.
struct AttentionBackwardTileKernel {
    const char *name;
    AttentionBackwardTile plain, modified;
    int32_t depth;
    double share;  // Of the multiply-add roof, by the five products there are.
};

// Kernels that take the tile kernel's place by writing P and dS to memory (attention_backward/simt/products.cuh), launched in this order.
// They want whole vectors. Blocks: of `scores`, or of one of the others where scores pass through more than a mask, score_tiles a unit and
// block of keys; of `of_keys`, twice key_tiles * col_tiles a block of keys and pair; of `of_rows`, col_tiles a unit.
struct AttentionBackwardProducts {
    const char *name = nullptr;
    AttentionBackwardKernel scores = nullptr, modified_scores = nullptr, capped_scores = nullptr, of_keys = nullptr, of_rows = nullptr;
    int32_t rows = 0, keys = 0, threads = 0, depth = 0;
    int32_t score_tiles = 0, col_tiles = 0, key_tiles = 0;
};
AttentionBackwardProducts attention_backward_products_of(int32_t depth);  // Null: there are none of that many columns.

// What comes before and after, and the kernels that take anything, pair by pair of row and key, slowly. Of the latter, `rows` makes dq and
// the scores' gradients of the launch's units, `keys` dk and dv of all its keys, a lane group each.
struct AttentionBackwardSteps {
    AttentionBackwardKernel prepare;  // Rows' numbers; which pairs are irregular.
    AttentionBackwardKernel rows, keys;
    AttentionBackwardKernel add_bias;    // Adds the launch's gradients of scores to sum_bias.
    AttentionBackwardKernel store_bias;  // sum_bias to dbias.
    AttentionBackwardKernel sinks;       // dsinks, a block a head.
};
AttentionBackwardSteps attention_backward_steps_f32();
AttentionBackwardSteps attention_backward_steps_f64();
AttentionBackwardKernel attention_backward_clear_kernel();   // dq, dk and dv to zero, for rows and keys that are in no sequence.
AttentionBackwardKernel attention_backward_gather_kernel();  // part_q to dq.
AttentionBackwardKernel attention_backward_finish_kernel();  // sum_k and sum_v to dk and dv.
// `rows` and `keys` of float for irregular pairs alone; awaits the kernel ahead of it (Device::launch_early).
AttentionBackwardKernel attention_backward_irregular_kernel();
inline constexpr int32_t kBackwardThreads = 128;  // Of all of these.
// Rows or keys of a head that a lane group of `prepare` takes. Row tiles are whole multiples.
inline constexpr int32_t kBackwardPrepareRun = 8;

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
// The attention kernels as the host sees them: what each can do, and the addresses to launch. Fastest first, the fallback last.
#pragma once

#include <cstdint>

#include "attention/params.h"

namespace attile::gpu::simt {

struct AttentionTile {
    const void *kernel;
    int32_t rows, keys, threads;  // Of a block: rows of Q by keys.
};

// Instances of the tile kernel with the modified kind's tile, for scores that one thing modifies; null where the modified kind serves. They
// want K and V as the masked kind does, rows of one head, and bias or `allowed` in whole aligned quads along keys. biased: of float;
// biased_half: of float16 or bfloat16.
struct AttentionSingleKernels {
    const void *biased, *biased_half, *allowed, *alibi, *softcapped;
};

// Instances of the tile kernel, one of each AttentionKind; null where another configuration serves. Plain and masked ones want K and V as
// float rows of whole 16-byte vectors.
struct AttentionTileKernel {
    const char *name;
    AttentionTile plain, masked, modified;
    int32_t cols;        // Most columns of V.
    int32_t depth;       // Most columns of Q and K.
    int32_t depth_step;  // Columns of Q and K are rounded up to a multiple of this.
    double share;        // Of the multiply-add roof, measured on a full device at long sequences.
    AttentionSingleKernels single;
};

// Of q, k and v of int8, in whole pieces of 16 bytes that begin at multiples of 16, all the columns there are; scores that only a mask
// changes. The second product is one of floats or, as FAST_ACCUMULATION permits, of integers, too: of weights alone, or of weights times
// scales of V that differ from key to key, which not every device has. No kernel of the modified kind.
struct AttentionTileKernels {
    const AttentionTileKernel *all;
    int32_t count;
};
enum class Int8Product { kFloats, kSteps, kScaledSteps };
AttentionTileKernels attention_int8(Int8Product product);

AttentionSingleKernels attention_single64();
AttentionSingleKernels attention_single128();

// An instance of the decode kernel: few rows, keys streamed once.
struct AttentionDecodeKernel {
    const char *name;
    const void *kernel;
    const void *modified;      // The same for K and V in vectors, without pages,
    const void *plain;         // and without modified scores.
    AttentionStorage storage;  // Of K and V.
    int32_t rows;              // Query rows a block takes, heads of a group among them.
    int32_t cols;              // Most columns of Q, K and V.
    int32_t step;              // Keys a lane group takes at a time.
    int32_t threads;
};
struct AttentionDecodeKernels {
    const AttentionDecodeKernel *all;
    int32_t count;
};
AttentionDecodeKernels attention_decode_f32();
AttentionDecodeKernels attention_decode_f16();
AttentionDecodeKernels attention_decode_bf16();
AttentionDecodeKernels attention_decode_i8();  // Of q, o and a bias any type.
AttentionDecodeKernels attention_decode_i4();  // Likewise.
AttentionDecodeKernels attention_decode_e4m3();

// The kernel that takes anything, slowly. Rows and columns of V of a block; rows of Q in its dynamic shared memory.
struct AttentionAnyKernel {
    const char *name;
    const void *kernel;
    int32_t rows, keys, cols, threads;
    int32_t element;  // Bytes of a number in shared memory.
};
AttentionAnyKernel attention_any_f32();
AttentionAnyKernel attention_any_f32_scaled();  // K or V of 8 bits.
AttentionAnyKernel attention_any_f64();

// Rewrites K or V as dense float rows: entries x heads x rows x cols, cols a multiple of 4.
struct AttentionConvertParams {
    AttentionOperand from;
    AttentionScales scales;
    float *to;
    const int32_t *block_table;  // Paged: which page holds a run of page_size rows.
    int64_t block_table_stride[2];
    int64_t pages, page_size;
    int64_t first, count;  // (entry, head) pairs, entry * heads + head.
    int64_t heads, rows;
    int32_t cols, padded_cols;
};
const void *attention_convert_kernel();
inline constexpr int32_t kAttentionConvertThreads = 256;

// Combines partial results of splits: a row a block, or, of many rows, as many as there are threads for, each four columns.
const void *attention_combine_kernel(int64_t head_dim_v, bool has_sums, bool many_rows);
inline constexpr int32_t kAttentionCombineThreads = 128;

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
// K or V of any storage, any strides or in pages, those of 8 bits times their scales, rewritten as dense float rows padded to whole 16-byte
// vectors, for the tile kernel. Costs one read and one write of what is rewritten, little beside products that reuse each row hundreds of
// times. 256 threads, no shared memory.
#include "attention/scaled.h"
#include "attention/simt/kernels.h"

namespace attile::gpu::simt {
namespace {

__global__ void ATTILE_LAUNCH_BOUNDS(kAttentionConvertThreads, 1) attention_convert(const AttentionConvertParams p) {
    const int quads = p.padded_cols / 4;
    const int64_t total = p.count * p.rows * quads, step = static_cast<int64_t>(gridDim.x) * kAttentionConvertThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kAttentionConvertThreads + threadIdx.x; i < total; i += step) {
        const int64_t row_of_all = i / quads, pair = p.first + row_of_all / p.rows;
        const int64_t entry = pair / p.heads, head = pair % p.heads;
        const int col = static_cast<int>(i % quads) * 4;
        int64_t row = row_of_all % p.rows, outer = entry;
        Quad quad = {};
        bool exists = true;
        if (p.block_table) {
            outer = p.block_table[entry * p.block_table_stride[0] + row / p.page_size * p.block_table_stride[1]];
            row %= p.page_size;
            exists = outer >= 0 && outer < p.pages;  // The kernel hides the keys of other pages.
        }
        if (exists)
            quad = load_quad_scaled(p.from, p.scales, outer * p.from.stride[0] + head * p.from.stride[1] + row * p.from.stride[2],
                                    scales_at(p.scales, outer, head, row), col, p.cols);
        store_vec(p.to + i * 4, quad);
    }
}

}  // namespace

const void *attention_convert_kernel() { return reinterpret_cast<const void *>(&attention_convert); }

}  // namespace attile::gpu::simt

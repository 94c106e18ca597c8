// SPDX-License-Identifier: Apache-2.0
// Masks of blocks and of trees, and bytes of the caller's, as one byte for each row and key; a thread makes 16 of a row. Bound: memory, a
// byte of each pair.
#include "attention/block.h"
#include "attention/mma/mask_bytes.h"
#include "vec.h"

namespace attile::gpu::mma {
namespace {

__global__ void ATTILE_LAUNCH_BOUNDS(kMaskBytesThreads, 1) write_mask_bytes(const MaskBytesParams p) {
    const uint32_t pieces = static_cast<uint32_t>(p.rows) * p.of_row.divisor, step = gridDim.x * kMaskBytesThreads;
    for (uint32_t pair = blockIdx.y; pair < p.pairs; pair += gridDim.y) {
        const int batch = static_cast<int>(quotient(pair, p.heads)), head = static_cast<int>(remainder(pair, p.heads));
        const AttentionEntry entry(p.of, batch);  // Of all, if one mask is: then no mask goes by lengths.
        uint8_t *const to = p.to + int64_t{pair} * pieces * kMaskBytesAtOnce;
        for (uint32_t piece = blockIdx.x * kMaskBytesThreads + threadIdx.x; piece < pieces; piece += step) {
            const int row = static_cast<int>(quotient(piece, p.of_row)),
                      first = static_cast<int>(piece - row * p.of_row.divisor) * kMaskBytesAtOnce;
            Vec<uint8_t, kMaskBytesAtOnce> shown = {};
            const AttentionOperand &allowed = p.of.allowed;
            const int64_t at = batch * allowed.stride[0] + head * allowed.stride[1] + row * allowed.stride[2];
#pragma unroll
            for (int i = 0; i < kMaskBytesAtOnce; ++i) {
                const int key = first + i;
                shown[i] = key < p.of.len_k && sparse_mask_shows(p.of, entry, head, row, key) &&
                           (!allowed.data || static_cast<const uint8_t *>(allowed.data)[at + key * allowed.stride[3]] != 0);
            }
            store_vec(to + int64_t{piece} * kMaskBytesAtOnce, shown);
        }
    }
}

}  // namespace

const void *attention_mask_bytes_kernel() { return reinterpret_cast<const void *>(&write_mask_bytes); }

}  // namespace attile::gpu::mma

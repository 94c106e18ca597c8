// SPDX-License-Identifier: Apache-2.0
// Which rows or keys a block of the kernels of attention's gradients has, and how rows of sums are stored.
#pragma once

#include "attention/block.h"
#include "attention_backward/mma/task.h"
#include "mma/store_row.cuh"

namespace attile::gpu::mma {

// What a block works on: kept rows of a batch entry and head, from `first` on.
struct BackwardSite {
    int head, first;
    AttentionEntry entry;
};

// kOfKeys: keys of a key head, first block first; else rows of a query head, last block first. Under a causal mask these have most to do.
template <bool kOfKeys>
__device__ __forceinline__ BackwardSite backward_site(const BackwardTask &a, int rows, int index) {
    const int per_chunk = a.chunk * a.blocks, chunk = index / per_chunk, rest = index - chunk * per_chunk;
    const int of_chunk = min(a.chunk, a.heads - chunk * a.chunk), level = rest / of_chunk;
    const int group = static_cast<int>(a.p.forward.group.divisor),
              heads = static_cast<int>(kOfKeys ? a.p.heads_kv.divisor : a.p.forward.heads.divisor);
    const int pair = static_cast<int>(a.p.first_pair) * (kOfKeys ? 1 : group) + chunk * a.chunk + rest - level * of_chunk,
              batch = pair / heads;
    return {pair - batch * heads, (kOfKeys ? level : a.blocks - 1 - level) * rows, AttentionEntry(a.p.forward, batch)};
}

// A row's sums from column `first` on, of `columns` in all; its number counts from the start of the operand.
template <class Element, int kColumns>
__device__ __forceinline__ void store_gradient_row(const AttentionOperand &x, const BackwardSite &site, int64_t row, bool is_there,
                                                   int columns, int first, const float *sums, float factor) {
    const int64_t at = site.entry.batch * x.stride[0] + site.head * x.stride[1] + row * x.stride[2] + first;
    void *const data = const_cast<void *>(x.data);
    if (x.storage == AttentionStorage::kF32)
        store_row_f32<kColumns>(static_cast<float *>(data) + at, columns - first, is_there, sums, factor);
    else
        store_row<Element, kColumns>(static_cast<Element *>(data) + at, columns - first, is_there, sums, factor);
}

}  // namespace attile::gpu::mma

// SPDX-License-Identifier: Apache-2.0
// What is made of a problem's operands before kernels run may not find room for all batch entries and heads at once. Equal slices of the
// problem then have one plan, and are made and computed one after the other in the same workspace.
#pragma once

#include <algorithm>

#include "attention/part.h"
#include "device.h"

namespace attile::gpu::mma {

struct AttentionSlices {
    int64_t entries = 1, heads = 1;  // Parts that the batch is cut into, and the key heads.

    int64_t count() const { return entries * heads; }
    AttentionPart part(const attile_attention_problem &p, int64_t i) const {
        const int64_t of_entries = p.batch / entries, of_heads = p.heads_kv / heads;
        return {i / heads * of_entries, of_entries, i % heads * of_heads, of_heads};
    }
};

// Says so in a plan's text, and counts all slices' blocks.
void name_slices(attile_support &support, const AttentionSlices &slices);

// Bytes of copies that find room.
int64_t attention_copies_room(const Device &device);
// Into how many slices a problem may be cut for so many bytes of copies: beyond, slices are too small for their launches.
int64_t most_slices(const Device &device, int64_t bytes);

// As many slices as there can be: one for each batch entry and key head, but packed sequences are not cut.
inline AttentionSlices smallest_slices(const attile_attention_problem &p) {
    return {p.cu_len_q.dtype != 0 || p.cu_len_k.dtype != 0 ? 1 : p.batch, p.heads_kv};
}

// The fewest slices that fits(slices) says to fit, of as many those that cut the batch most. False: more than `most` would be needed.
template <class Fits>
bool find_slices(const AttentionSlices &smallest, int64_t most, const Fits &fits, AttentionSlices &slices) {
    for (int64_t count = 1; count <= std::min(most, smallest.count()); ++count)
        for (int64_t heads = 1; heads <= std::min(count, smallest.heads); ++heads) {
            slices = {count / heads, heads};
            if (count % heads == 0 && smallest.entries % slices.entries == 0 && smallest.heads % heads == 0 && fits(slices)) return true;
        }
    return false;
}

}  // namespace attile::gpu::mma

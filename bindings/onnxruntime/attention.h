// SPDX-License-Identifier: Apache-2.0
// What the three operators of attention share: heads as strided views, caches of K and V, and masks.
#ifndef ATTILE_ONNXRUNTIME_ATTENTION_H
#define ATTILE_ONNXRUNTIME_ATTENTION_H

#include "kernels.h"

namespace attile::onnxruntime {

// Refuses a node if the backend lacks attention of this type with these options. `softcap` is 0 or more.
void require_attention(attile_context *context, int32_t dtype, double softcap);

// The attribute `scale`, as Attile takes it: 0 is 1/sqrt(D). Refuses one that Attile does not have.
double read_scale(const Node &node, bool zero_is_default);

// The attribute `softcap`. Refuses one that Attile does not have.
double read_softcap(const Node &node);

// [B, H, L, D] as it is, or [B, L, H D] with heads taken apart. Throws Failure that names `what`.
attile_tensor view_heads(const char *what, const Value &value, int64_t heads);

// Heads `first` to first + count - 1 of rows [B, L, ...] of `hidden` elements each, in which heads of `head_dim` elements follow each
// other.
attile_tensor view_rows(const Value &value, int64_t hidden, int64_t first, int64_t count, int64_t head_dim);

// Copies [B, H, L, D] to the rows from `row` on of batch entry `entry` of a cache, which is [B, H, rows, D].
void copy_rows(const attile_tensor &from, int64_t entry, const attile_tensor &cache, int64_t row);

// The first `count` rows of each head.
attile_tensor first_rows(attile_tensor tensor, int64_t count);

// K or V with the past before it: [B, H, P + L, D]. It is `now` itself where there is no past and output `present` is not wanted, else the
// output, or memory of the call.
attile_tensor join_past(const Call &call, size_t present, const Value &past, const attile_tensor &now, Scratch *scratch);

// Row i sees the keys up to i + past.
void mask_causal(attile_attention_args *args, int64_t past);

// The mask of the node: a bias, or keys that are allowed.
void set_mask(attile_attention_args *args, const Value &mask);

}  // namespace attile::onnxruntime

#endif

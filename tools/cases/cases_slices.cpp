// SPDX-License-Identifier: Apache-2.0
// Cases of attention that a device with little memory takes in slices of batch entries and heads, since numbers of 8 and 4 bits, or rows
// that do not begin at multiples of 16 bytes, are rewritten first. What an entry or a head has of its own differs from one to the next.
#include "cases_attention_list.h"
#include "cases_backward_list.h"

namespace attile::test {
namespace {

using C = AttentionCase;

// Twelve key heads of 300 keys: 1.1 MiB of keys and values in 16 bits.
C sliced() {
    C c = attention_of(40, 300, 64);
    c.head_dim_v = 96;
    c.batch = 4;
    c.heads_q = 6;
    c.heads_kv = 3;
    return c;
}

void add_options(std::vector<Case> &list, const std::string &types, const C &plain) {
    const auto add = [&](const char *name, const C &c) { list.push_back({std::string("attention.slices_") + name + "." + types, c}); };
    add("plain", plain);
    C c = plain;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.key_lengths = c.sinks = true;
    c.bias = BiasKind::kSomeHidden;
    add("bias_lengths", c);
    c = plain;
    c.alibi = 2;
    add("alibi", c);
    c.key_starts = c.causal_offset = true;
    c.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
    c.window_left = 90;
    c.numbers_layout = {.step = 2};
    add("alibi_starts_offsets", c);
    c = plain;
    c.allowed = MaskBytes::kRandom;
    c.q_layout = c.lse_layout = {.order = Order::kHeadsInside};
    add("allowed", c);
    c = plain;
    c.block_mask = MaskBytes::kRandom;
    c.tree_keys = 30;
    add("masks", c);
    c = plain;
    c.batch = 1;
    c.heads_q = c.heads_kv = 8;
    c.alibi = 1;
    add("one_entry", c);
    c = plain;
    c.packed_q = c.packed_k = true;
    c.sinks = true;
    c.o_layout = {};
    add("packed", c);
}

}  // namespace

void append_sliced_attention_cases(std::vector<Case> &list) {
    C c = sliced();
    c.dtype = c.out_dtype = c.bias_dtype = ATTILE_BF16;
    c.k_storage = c.v_storage = {.dtype = ATTILE_I8, .scaled = true};
    add_options(list, "bf16_i8", c);
    c.k_layout = c.v_layout = {.pad = 1};
    c.k_storage.scale_layout = {.reversed = 7};
    add_options(list, "bf16_i8_odd", c);
    c = sliced();
    c.dtype = c.out_dtype = c.bias_dtype = ATTILE_F16;
    c.k_storage = c.v_storage = {.dtype = ATTILE_I4, .scaled = true, .group = 32};
    add_options(list, "f16_i4", c);
    c.q_storage = c.k_storage = c.v_storage = {.dtype = ATTILE_I8, .scaled = true, .group = 32};
    add_options(list, "i8_f16", c);
    c = sliced();
    c.dtype = c.out_dtype = c.bias_dtype = ATTILE_BF16;
    c.q_layout = c.k_layout = c.v_layout = c.o_layout = c.bias_layout = c.allowed_layout = {.pad = 1};
    add_options(list, "bf16", c);
}

void add_sliced_backward_cases(BackwardAdder add) {
    C odd = backward_of(70, 130, 64);
    odd.batch = 4;
    odd.heads_q = 6;
    odd.heads_kv = 3;
    odd.q_layout = odd.k_layout = odd.v_layout = odd.o_layout = {.pad = 1};
    add.with_dlse("slices_dlse", odd);
    C c = odd;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.key_lengths = c.sinks = true;
    add("slices_causal_sinks", c);
    c = odd;
    c.bias = BiasKind::kNormal;
    add("slices_dbias", c);
    for (const int axes : {13, 14}) {  // Sums over heads, over entries.
        c.bias_axes = static_cast<std::uint8_t>(axes);
        add("slices_dbias_axes_" + std::to_string(axes), c);
    }
    c = odd;
    c.alibi = 2;
    add("slices_alibi", c);
    c = odd;
    c.packed_q = c.packed_k = true;
    add("slices_packed", c);
}

}  // namespace attile::test

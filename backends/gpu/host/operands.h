// SPDX-License-Identifier: Apache-2.0
// The operands of each operation's problem, and the addresses that stand for theirs while a plan is made.
//
// A plan may depend on how an address is aligned, but on nothing else of it. So it is made for a problem whose operands are at addresses
// that say their alignment and which operand it is, and then moved to where the call's own operands are: one plan serves all calls that
// differ in nothing else.
#pragma once

#include <attile/attile_backend.h>

#include <cstdint>
#include <type_traits>

namespace attile::gpu {

// Calls take(operand) for each, absent ones too, in an order that is always the same. Of gradients and of groups: without
// those of the forward problem, of the product.
template <class Problem, class Take>
void for_operands(Problem &p, const Take &take) {
    using Kind = std::remove_const_t<Problem>;
    if constexpr (std::is_same_v<Kind, attile_gemm_problem>) {
        for (auto *x : {&p.a, &p.b, &p.c, &p.d, &p.bias, &p.a_scale, &p.b_scale, &p.b_zero, &p.d_scale}) take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_gemm_grouped_problem>) {
        take(p.row_offsets);
    } else if constexpr (std::is_same_v<Kind, attile_attention_problem>) {
        for (auto *x :
             {&p.q,         &p.k,           &p.v,        &p.o,        &p.lse,         &p.bias,       &p.allowed,       &p.alibi_slopes,
              &p.sinks,     &p.key_lengths, &p.cu_len_q, &p.cu_len_k, &p.block_table, &p.key_starts, &p.causal_offset, &p.block_mask,
              &p.tree_mask, &p.k_scale,     &p.v_scale,  &p.q_scale,  &p.o_scale})
            take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_attention_backward_problem>) {
        for (auto *x : {&p.dout, &p.dlse, &p.dq, &p.dk, &p.dv, &p.dbias, &p.dsinks}) take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_attention_merge_problem>) {
        for (int64_t i = 0; i < p.parts; ++i) take(p.o_parts[i]);
        for (int64_t i = 0; i < p.parts; ++i) take(p.lse_parts[i]);
        take(p.o);
        take(p.lse);
    } else if constexpr (std::is_same_v<Kind, attile_attention_merge_backward_problem>) {
        for (auto *list : {p.o_parts, p.lse_parts, p.do_parts, p.dlse_parts})
            for (int64_t i = 0; i < p.parts; ++i) take(list[i]);
        for (auto *x : {&p.o, &p.lse, &p.dout, &p.dlse}) take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_quantize_problem>) {
        for (auto *x : {&p.x, &p.q, &p.scale, &p.zero, &p.rope_cos, &p.rope_sin, &p.positions, &p.key_lengths, &p.block_table}) take(*x);
    } else if constexpr (std::is_same_v<Kind, attile_repack_problem>) {
        for (auto *x : {&p.blocks, &p.q, &p.scale, &p.zero}) take(*x);
    } else {
        take(p.x);
        take(p.y);
    }
}

// No plan looks further.
inline constexpr uintptr_t kSeenAlignment = 64;
inline constexpr int kStandInShift = 12;

// The address that stands for operand `number`, from 0, at `data`; null for null.
inline void *stand_in(int number, const void *data) {
    if (data == nullptr) return nullptr;
    return reinterpret_cast<void *>((static_cast<uintptr_t>(number + 1) << kStandInShift) +
                                    reinterpret_cast<uintptr_t>(data) % kSeenAlignment);
}
// The operand that an address stands for.
inline int operand_of(const void *standing_in) { return static_cast<int>(reinterpret_cast<uintptr_t>(standing_in) >> kStandInShift) - 1; }

template <class Problem>
void let_addresses_stand_in(Problem &problem) {
    int number = 0;
    for_operands(problem, [&](attile_operand &x) { x.data = stand_in(number++, x.data); });
}

}  // namespace attile::gpu

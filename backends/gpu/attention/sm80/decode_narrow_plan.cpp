// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>

#include "attention/run.h"
#include "attention/sm80/decode_narrow.h"
#include "attention/tile_plan.h"
#include "host/sizes.h"

namespace attile::gpu::sm80 {

constexpr int64_t kPieceBits = 128;  // Rows are whole ones.

DecodeNarrowKernel plan_decode_narrow(const attile_attention_problem &p, int64_t shared) {
    if (p.q.dtype == ATTILE_F32 || p.head_dim < 1 || p.head_dim != p.head_dim_v || p.k.dtype != p.v.dtype) return {};
    if (is_present(p.block_mask)) return {};
    for (const attile_operand *x : {&p.k, &p.v, &p.k_scale, &p.v_scale})
        if (!has_short_stride(*x)) return {};
    if (p.k.dtype != ATTILE_I8 && p.k.dtype != ATTILE_F8_E4M3 && p.k.dtype != ATTILE_I4) return {};
    if (!lies_in_pieces(p.k) || !lies_in_pieces(p.v) || p.head_dim * dtype_bits(p.k.dtype) % kPieceBits != 0) return {};
    if (is_present(p.bias) && p.bias.dtype == ATTILE_F64) return {};
    const auto scales_of = [&p](const attile_operand &scale, int64_t group) {
        if (!attention_scales_by_key(p, scale)) return KeyScales::kNone;
        return scale.stride[3] == 0 || group >= p.head_dim ? KeyScales::kOne : KeyScales::kGroups;
    };
    const KeyScales of_keys = scales_of(p.k_scale, p.k_group), of_values = scales_of(p.v_scale, p.v_group);
    // Scores are multiplied by a scale that all keys have, which is then one for all columns.
    if (of_keys == KeyScales::kNone && is_present(p.k_scale) && p.k_scale.stride[3] != 0 && p.k_group < p.head_dim) return {};
    const AttentionStorage storage = attention_operand(p.k, p.head_dim).storage;
    const KeyScales scales = std::max(of_keys, of_values);
    const int64_t columns = p.head_dim <= 64 ? 64 : 128;
    if (p.head_dim > columns) return {};
    const bool is_plain = p.head_dim == columns && !attention_modifies_scores(p) && !is_present(p.key_starts) && !is_present(p.block_table);
    return is_plain ? attention_decode_narrow(storage, columns, scales, shared)
                    : attention_decode_narrow_any(storage, columns, scales, shared);
}

}  // namespace attile::gpu::sm80

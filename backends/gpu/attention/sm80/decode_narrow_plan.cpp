// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "attention/run.h"
#include "attention/sm80/decode_narrow.h"
#include "attention/tile_plan.h"
#include "host/sizes.h"

namespace attile::gpu::sm80 {
DecodeNarrowKernel plan_decode_narrow(const attile_attention_problem &p) {
    if (p.q.dtype == ATTILE_F32 || p.head_dim != p.head_dim_v || p.k.dtype != p.v.dtype) return {};
    if (p.k.dtype != ATTILE_I8 && p.k.dtype != ATTILE_F8_E4M3 && p.k.dtype != ATTILE_I4) return {};
    if (!lies_in_pieces(p.k) || !lies_in_pieces(p.v)) return {};
    const auto scales_of = [&p](const attile_operand &scale, int64_t group) {
        if (!attention_scales_by_key(p, scale)) return KeyScales::kNone;
        return scale.stride[3] == 0 || group >= p.head_dim ? KeyScales::kOne : KeyScales::kGroups;
    };
    const KeyScales of_keys = scales_of(p.k_scale, p.k_group), of_values = scales_of(p.v_scale, p.v_group);
    // Scores are multiplied by a scale that all keys have, which is then one for all columns.
    if (of_keys == KeyScales::kNone && is_present(p.k_scale) && p.k_scale.stride[3] != 0 && p.k_group < p.head_dim) return {};
    return attention_decode_narrow(attention_operand(p.k, p.head_dim).storage, p.head_dim, std::max(of_keys, of_values));
}

}  // namespace attile::gpu::sm80

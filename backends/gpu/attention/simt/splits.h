// SPDX-License-Identifier: Apache-2.0
// Results of splits of the keys put together within an attention kernel (attention/simt/combine.cu is one for nothing else): o = sum over
// splits of exp(lse_s - lse) o_s, lse = log sum exp(lse_s) and the sink's share.
#pragma once

#include "attention/output.h"

namespace attile::gpu::simt {

inline constexpr int kAttentionMostSplits = 256;

// As load_vec, of what another block wrote, once it has been published: not what this unit's cache remembers.
template <int kCount, class T>
ATTILE_LANE_FN Vec<T, kCount> load_vec_fresh(const T *address) {
#if defined(ATTILE_GPU_HIP)
    return load_vec<kCount>(address);  // The fence has emptied the cache.
#else
    using Raw = typename vec_detail::RawOf<T, kCount>::type;
    const Raw raw = __ldcg(reinterpret_cast<const Raw *>(address));
    Vec<T, kCount> value;
    copy_bits(value, raw);
    return value;
#endif
}

// Of one row, by a lane group: each split's weight relative to the largest log-sum-exp, which is `top`, and their sum. `own` is that of
// split lane_index(), which may have been loaded long before; lse_of loads others.
struct SplitWeights {
    float top, total;

    template <class Load>
    ATTILE_LANE_FN SplitWeights(float *weight, int splits, float own, Load lse_of) : top(-INFINITY), total(0) {
        const int lane = lane_index();
#pragma unroll 1
        for (int s = lane; s < splits; s += kLanes) {
            weight[s] = s == lane ? own : lse_of(s);
            top = max_nan(top, weight[s]);
        }
        top = lane_fold(top, [](float a, float b) { return max_nan(a, b); });
#pragma unroll 1
        for (int s = lane; s < splits; s += kLanes) {
            // A split that saw nothing must not take part at all: its weight of zero tells.
            const float w = weight[s] == -INFINITY ? 0.0f : expf(weight[s] - top);
            weight[s] = w;
            total += w;
        }
        total = lane_fold(total, [](float a, float b) { return a + b; });
    }
    SplitWeights() = default;

    ATTILE_LANE_FN RowResult result(const AttentionParams &p, int head) const {
        const bool has_sink = p.sinks.data != nullptr;
        return RowResult::of_parts(top, total, has_sink, has_sink ? load_number(p.sinks, head * p.sinks.stride[1]) : 0.0f);
    }
};

}  // namespace attile::gpu::simt

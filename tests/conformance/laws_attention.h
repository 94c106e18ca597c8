// SPDX-License-Identifier: Apache-2.0
// Attention calls for laws: contents, drawing, calling, and what rounding may do to the result.
#pragma once

#include "laws.h"

namespace attile::test {

/// The contents of a forward call. Axes of bias and allowed of extent 1 are broadcast.
struct Attention {
    std::int32_t dtype = ATTILE_F32, out_dtype = ATTILE_F32, bias_dtype = ATTILE_F32;
    double scale = 0, softcap = 0;
    std::int32_t mask = ATTILE_MASK_NONE;
    std::int64_t window_left = 0, window_right = 0;
    Values q, k, v;
    Values bias, allowed, slopes, sinks, key_lengths, cu_len_q, cu_len_k, block_table;  ///< without a shape where absent
    std::int64_t max_len_q = 0, max_len_k = 0;
    std::uint32_t flags = 0;

    std::int64_t batch() const { return q.shape[0]; }
    std::int64_t heads_q() const { return q.shape[1]; }
    std::int64_t heads_kv() const { return k.shape[1]; }
    std::int64_t len_q() const { return q.shape[2]; }
    std::int64_t len_k() const { return k.shape[2]; }
    std::int64_t head_dim() const { return q.shape[3]; }
    double factor() const;  ///< scale, or what stands for 0
};

struct AttentionResult {
    Values o, lse;
};

/// What a drawn problem may have.
struct AttentionExtras {
    bool mask = false, alibi = false, bias = true, allowed = true, sinks = true, softcap = true, lengths = false, types = true;
};

Attention draw_attention(Draw &draw, const AttentionExtras &extras);
AttentionResult run_attention(Draw &draw, const Attention &call);

/// The call on chosen indices of one axis of its problem: entries, key heads (their query heads with them), rows or keys.
Attention take_batch(const Attention &from, const std::vector<std::int64_t> &entries);
Attention take_heads(const Attention &from, const std::vector<std::int64_t> &heads_kv);
Attention take_rows(const Attention &from, const std::vector<std::int64_t> &rows);
Attention take_keys(const Attention &from, const std::vector<std::int64_t> &keys);
/// Bias or allowed in its full shape.
Values spread(const Values &values, const Attention &over);

/// How far two results of one problem may be apart.
struct AttentionBound {
    double o, lse;
    double weight;  ///< relative, of a probability
};
AttentionBound bound_of(const Attention &call);

testing::AssertionResult same_attention(const AttentionResult &got, const AttentionResult &want, const AttentionBound &bound);

struct Gradients {
    Values dq, dk, dv, dbias, dsinks;
};
/// In float32, or float64 for inputs of it.
Gradients run_backward(Draw &draw, const Attention &call, const AttentionResult &forward, const Values &dout);

/// How far gradients may be apart, each element of them.
struct GradientBound {
    double dq, dk, dv, dbias, dsinks;
};
GradientBound bound_of(const Attention &call, const Values &dout);

testing::AssertionResult same_gradients(const Gradients &got, const Gradients &want, const GradientBound &bound);

}  // namespace attile::test

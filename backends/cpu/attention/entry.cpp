// SPDX-License-Identifier: Apache-2.0
// Lengths, masks and pages of attention, one entry or row at a time.
#include <algorithm>

#include "attention/attention.h"
#include "attention/sequences.h"

namespace attile::cpu {
namespace {

int64_t load_i32(const attile_operand &x, int64_t i0, int64_t i1 = 0) {
    return static_cast<const int32_t *>(x.data)[i0 * x.stride[0] + i1 * x.stride[1]];
}

// Lengths are data that nobody could check beforehand, so any number is taken and clamped.
void packed_range(const attile_operand &cu_len, int64_t b, int64_t total, int64_t longest, int64_t *start, int64_t *count) {
    *start = std::clamp<int64_t>(load_i32(cu_len, b), 0, total);
    *count = std::min(std::clamp<int64_t>(load_i32(cu_len, b + 1), *start, total) - *start, longest);
}

}  // namespace

AttentionEntry attention_entry(const attile_attention_problem &p, int64_t b) {
    AttentionEntry entry{b, 0, p.len_q, 0, p.len_k, 0, 0, 0};
    if (p.cu_len_q.data != nullptr) packed_range(p.cu_len_q, b, p.total_q, p.len_q, &entry.q_start, &entry.len_q);
    if (p.cu_len_k.data != nullptr) packed_range(p.cu_len_k, b, p.total_k, p.len_k, &entry.k_start, &entry.len_k);
    if (p.key_lengths.data != nullptr) entry.len_k = std::clamp<int64_t>(load_i32(p.key_lengths, b), 0, entry.len_k);
    if (p.bottom_right != 0) entry.shift = entry.len_k - entry.len_q;
    if (p.alibi_bottom_right != 0) entry.alibi_shift = entry.len_k - entry.len_q;
    if (p.causal_offset.data != nullptr) {
        entry.shift = entry.alibi_shift =
            std::clamp<int64_t>(load_i32(p.causal_offset, b), -ATTILE_CAUSAL_OFFSET_LIMIT, ATTILE_CAUSAL_OFFSET_LIMIT);
    }
    if (p.key_starts.data != nullptr) entry.first_key = std::clamp<int64_t>(load_i32(p.key_starts, b), 0, entry.len_k);
    return entry;
}

bool sequences_meet(const attile_attention_problem &p) {
    for (const attile_operand *cu_len : {&p.cu_len_q, &p.cu_len_k}) {
        if (cu_len->data == nullptr || cu_len->stride[0] == 0) continue;
        for (int64_t b = 0; b < p.batch; ++b) {
            if (load_i32(*cu_len, b + 1) < load_i32(*cu_len, b)) return true;
        }
    }
    return false;
}

KeyRange visible_keys(const attile_attention_problem &p, const AttentionEntry &entry, int64_t i) {
    const int64_t diagonal = i + entry.shift;
    KeyRange range{entry.first_key, entry.len_k};
    // Written without sums of the window's size, which may be anything.
    if (p.window_left >= 0 && p.window_left < diagonal) {
        range.begin = std::max(std::min(diagonal - p.window_left, entry.len_k), entry.first_key);
    }
    if (p.window_right >= 0 && p.window_right < entry.len_k - diagonal) range.end = std::max<int64_t>(diagonal + p.window_right + 1, 0);
    range.end = std::max(range.begin, range.end);
    return range;
}

double visible_pairs(const attile_attention_problem &p) {
    const double rows = static_cast<double>(p.len_q), keys = static_cast<double>(p.len_k);
    // A query knows no offsets; most often the last row is the last key's, as in a chunk of a prompt.
    const double shift = p.bottom_right != 0 || p.causal_offset.dtype != 0 ? keys - rows : 0;
    // The sum of t clamped to 0 .. keys, over t up to x.
    const auto clamped_sum = [keys](double x) {
        if (x <= 0) return 0.0;
        const double inside = std::min(x, keys);
        return inside * (inside + 1) / 2 + (x - inside) * keys;
    };
    const auto pairs_below = [&](double offset) { return clamped_sum(rows + offset) - clamped_sum(offset); };
    const double right = p.window_right < 0 ? rows * keys : pairs_below(shift + static_cast<double>(p.window_right));
    const double left = p.window_left < 0 ? 0 : pairs_below(shift - static_cast<double>(p.window_left) - 1);
    return static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * std::max(0.0, right - left);
}

double attention_bytes(const attile_attention_problem &p) {
    const auto bytes = [](const attile_operand &x) { return static_cast<double>(dtype_bits(x.dtype)) / 8; };
    const double batch = static_cast<double>(p.batch);
    const double rows = static_cast<double>(p.heads_q) * static_cast<double>(p.total_q) * (p.cu_len_q.dtype != 0 ? 1 : batch);
    const double keys = static_cast<double>(p.heads_kv) * static_cast<double>(p.total_k) * (p.cu_len_k.dtype != 0 ? 1 : batch);
    const double d = static_cast<double>(p.head_dim), dv = static_cast<double>(p.head_dim_v);
    const auto scales = [&](const attile_operand &x, int64_t heads, int64_t tokens, double width, int64_t group) {
        double count = x.stride[3] != 0 ? width / static_cast<double>(group) : 1;
        if (x.stride[0] != 0) count *= batch;
        if (x.stride[1] != 0) count *= static_cast<double>(heads);
        if (x.stride[2] != 0) count *= static_cast<double>(tokens);
        return count * bytes(x);
    };
    return rows * (d * bytes(p.q) + dv * bytes(p.o) + bytes(p.lse)) + keys * (d * bytes(p.k) + dv * bytes(p.v)) +
           scales(p.q_scale, p.heads_q, p.total_q, d, p.q_group) + scales(p.k_scale, p.heads_kv, p.total_k, d, p.k_group) +
           scales(p.v_scale, p.heads_kv, p.total_k, dv, p.v_group) + scales(p.o_scale, p.heads_q, p.total_q, dv, p.o_group);
}

int64_t page_of(const attile_attention_problem &p, int64_t b, int64_t j) {
    const int64_t page = load_i32(p.block_table, b, j / p.page_size);
    return page >= 0 && page < p.pages ? page : -1;
}

}  // namespace attile::cpu

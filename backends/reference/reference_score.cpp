// SPDX-License-Identifier: Apache-2.0
// s_ij = softcap tanh(scale q.k / softcap) + bias - slope |j - i - shift|, or hidden; in the order attile.h gives.
#include "reference_score.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "reference_element.h"
#include "reference_exact.h"
#include "reference_row.h"

namespace attile::reference {
namespace {

struct Range {
    std::int64_t start, count;
};

// Lengths are data that nobody could check beforehand, so any number is taken and clamped.
Range packed_range(const attile_operand &cu_len, std::int64_t b, std::int64_t total, std::int64_t most) {
    const std::int64_t start = std::clamp<std::int64_t>(load_i32(cu_len, b), 0, total);
    const std::int64_t end = std::clamp<std::int64_t>(load_i32(cu_len, b + 1), start, total);
    return {start, std::min(end - start, most)};
}

bool mask_hides(const attile_attention_problem *p, const Entry &entry, std::int64_t i, std::int64_t j) {
    if (j < entry.first_key) return true;
    const std::int64_t distance = j - i - entry.shift;  // compared like this, the largest window cannot overflow
    if (p->window_left >= 0 && distance < -p->window_left) return true;
    return p->window_right >= 0 && distance > p->window_right;
}

// What masks of bytes hide.
bool bytes_hide(const attile_attention_problem *p, const Entry &entry, std::int64_t h, std::int64_t i, std::int64_t j) {
    if (present(p->allowed) && !load_byte(p->allowed, entry.b, h, i, j)) return true;
    if (present(p->block_mask) && !load_byte(p->block_mask, entry.b, h, i / ATTILE_MASK_BLOCK, j / ATTILE_MASK_BLOCK)) return true;
    const std::int64_t column = j - (entry.len_k - p->tree_keys);
    return present(p->tree_mask) && column >= 0 && !load_byte(p->tree_mask, entry.b, h, i, column);
}

// q.k, rounded once.
double exact_product(const attile_attention_problem *p, const Entry &entry, std::int64_t h, std::int64_t i, std::int64_t axis0,
                     std::int64_t axis2) {
    ExactSum sum;
    for (std::int64_t d = 0; d < p->head_dim; ++d)
        sum.add_product(load(p->q, entry.b, h, entry.q_start + i, d), load(p->k, axis0, kv_head(p, h), axis2, d));
    return sum.value();
}

}  // namespace

Entry entry_of(const attile_attention_problem *p, std::int64_t b) {
    Entry entry = {b, 0, p->len_q, 0, p->len_k, 0, 0, 0};
    if (present(p->cu_len_q)) {
        const Range rows = packed_range(p->cu_len_q, b, p->total_q, p->len_q);
        entry.q_start = rows.start;
        entry.len_q = rows.count;
    }
    if (present(p->cu_len_k)) {
        const Range keys = packed_range(p->cu_len_k, b, p->total_k, p->len_k);
        entry.k_start = keys.start;
        entry.len_k = keys.count;
    }
    if (present(p->key_lengths)) entry.len_k = std::clamp<std::int64_t>(load_i32(p->key_lengths, b), 0, entry.len_k);
    if (p->bottom_right != 0) entry.shift = entry.len_k - entry.len_q;
    if (p->alibi_bottom_right != 0) entry.alibi_shift = entry.len_k - entry.len_q;
    if (present(p->causal_offset)) {
        entry.shift = entry.alibi_shift =
            std::clamp<std::int64_t>(load_i32(p->causal_offset, b), -ATTILE_CAUSAL_OFFSET_LIMIT, ATTILE_CAUSAL_OFFSET_LIMIT);
    }
    if (present(p->key_starts)) entry.first_key = std::clamp<std::int64_t>(load_i32(p->key_starts, b), 0, entry.len_k);
    return entry;
}

bool locate_key(const attile_attention_problem *p, const Entry &entry, std::int64_t j, std::int64_t *axis0, std::int64_t *axis2) {
    if (!present(p->block_table)) {
        *axis0 = entry.b;  // packed keys have stride 0 on this axis
        *axis2 = entry.k_start + j;
        return true;
    }
    *axis0 = load_i32(p->block_table, entry.b, j / p->page_size);
    *axis2 = j % p->page_size;
    return *axis0 >= 0 && *axis0 < p->pages;
}

Score score(const attile_attention_problem *p, const Entry &entry, std::int64_t h, std::int64_t i, std::int64_t j) {
    const Score hidden = {kHidden, 0};
    if (mask_hides(p, entry, i, j)) return hidden;
    if (bytes_hide(p, entry, h, i, j)) return hidden;
    const double bias = present(p->bias) ? load(p->bias, entry.b, h, i, j) : 0;
    if (bias == kHidden) return hidden;
    std::int64_t axis0 = 0, axis2 = 0;
    if (!locate_key(p, entry, j, &axis0, &axis2)) return hidden;

    const std::int64_t g = kv_head(p, h);
    const Row key = scaled_row_of(p->k, p->k_scale, p->k_group, axis0, g, axis2);
    const Row query = scaled_row_of(p->q, p->q_scale, p->q_group, entry.b, h, entry.q_start + i);
    const double product = is_exact(p->launch) ? exact_product(p, entry, h, i, axis0, axis2) : dot(query, key, p->head_dim);
    Score s = {p->scale * product, 1};
    if (p->softcap != 0) {
        const double t = std::tanh(s.value / p->softcap);
        s = {p->softcap * t, 1 - t * t};
    }
    s.value += bias;
    if (present(p->alibi_slopes)) s.value -= load(p->alibi_slopes, entry.b, h) * static_cast<double>(std::abs(j - i - entry.alibi_shift));
    return s;
}

double visible_pairs(const attile_attention_problem *p) {
    const double rows = static_cast<double>(p->len_q), keys = static_cast<double>(p->len_k);
    const double shift = p->bottom_right != 0 ? keys - rows : 0;
    // sum over t <= x of t clamped to 0 .. keys
    const auto clamped_sum = [keys](double x) {
        if (x <= 0) return 0.0;
        return x <= keys ? x * (x + 1) / 2 : keys * (keys + 1) / 2 + (x - keys) * keys;
    };
    // pairs with j <= i + c
    const auto up_to = [&](double c) { return clamped_sum(rows + c) - clamped_sum(c); };
    const double right = p->window_right < 0 ? rows * keys : up_to(shift + static_cast<double>(p->window_right));
    const double left = p->window_left < 0 ? 0 : up_to(shift - static_cast<double>(p->window_left) - 1);
    return static_cast<double>(p->batch) * static_cast<double>(p->heads_q) * std::max(0.0, right - left);
}

double attention_bytes(const attile_attention_problem *p) {
    const bool packed_q = present(p->cu_len_q), packed_k = present(p->cu_len_k);
    const double rows = static_cast<double>(p->heads_q) * static_cast<double>(p->total_q) * (packed_q ? 1 : static_cast<double>(p->batch));
    const double keys = static_cast<double>(p->heads_kv) * static_cast<double>(p->total_k) * (packed_k ? 1 : static_cast<double>(p->batch));
    const double d = static_cast<double>(p->head_dim), dv = static_cast<double>(p->head_dim_v);
    const auto scales = [&](const attile_operand &x, std::int64_t heads, std::int64_t tokens, double width, std::int64_t group) {
        double count = x.stride[3] != 0 ? width / static_cast<double>(group) : 1;
        if (x.stride[0] != 0) count *= static_cast<double>(p->batch);
        if (x.stride[1] != 0) count *= static_cast<double>(heads);
        if (x.stride[2] != 0) count *= static_cast<double>(tokens);
        return count * bytes_of(x);
    };
    return rows * (d * bytes_of(p->q) + dv * bytes_of(p->o) + bytes_of(p->lse)) + keys * (d * bytes_of(p->k) + dv * bytes_of(p->v)) +
           scales(p->q_scale, p->heads_q, p->total_q, d, p->q_group) + scales(p->k_scale, p->heads_kv, p->total_k, d, p->k_group) +
           scales(p->v_scale, p->heads_kv, p->total_k, dv, p->v_group) + scales(p->o_scale, p->heads_q, p->total_q, dv, p->o_group);
}

}  // namespace attile::reference

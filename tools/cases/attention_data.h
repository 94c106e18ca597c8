// SPDX-License-Identifier: Apache-2.0
// The contents of an attention case: every operand drawn once, and NaN wherever no row may look.
#pragma once

#include <cstdint>
#include <vector>

#include "cases_attention.h"
#include "test_tensor.h"

namespace attile::test {

/// Rows and keys of one batch entry or packed sequence.
struct AttentionEntry {
    std::int64_t b, q_start, len_q, k_start, len_k, shift, alibi_shift, first_key;
};

struct AttentionData {
    /// Without contents the elements are 0; shapes and lengths are the same.
    explicit AttentionData(const AttentionCase &attention_case, bool with_contents = true);

    AttentionEntry entry(std::int64_t b) const;
    std::int64_t kv_head(std::int64_t h) const { return h / (c.heads_q / c.heads_kv); }
    /// Indices of axes 0 and 2 of k and v; false if the key's page does not exist.
    bool locate_key(const AttentionEntry &e, std::int64_t j, std::int64_t *axis0, std::int64_t *axis2) const;
    /// May row i of head h look at key j? A bias of -inf hides too.
    bool sees(const AttentionEntry &e, std::int64_t h, std::int64_t i, std::int64_t j) const;
    /// The element of bias that is added to a score.
    std::size_t bias_index(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;
    double bias_at(const AttentionEntry &e, std::int64_t h, std::int64_t i, std::int64_t j) const;
    double slope_at(std::int64_t b, std::int64_t h) const;
    double scale() const;
    std::vector<std::int64_t> q_shape(std::int64_t dim) const;
    Values o_divisors() const;  ///< of each number of o its scale; of empty shape where there is none

    AttentionCase c;
    std::int64_t max_len_q = 0, max_len_k = 0;  ///< extents of bias's last two axes
    std::int64_t total_q = 0, total_k = 0;      ///< extents of q's and k's third axis
    std::int64_t max_pages = 0, pages = 0;
    Values q, k, v;                                              ///< times their scales
    Values q_numbers, k_numbers, v_numbers;                      ///< as stored, of 8 bits; else of empty shape
    Values q_scale, k_scale, v_scale, o_scale;                   ///< of empty shape where there are none
    Values bias, allowed, block_mask, tree_mask, slopes, sinks;  ///< empty shape where absent
    Values key_lengths, cu_len_q, cu_len_k, block_table, key_starts, causal_offset;

  private:
    void draw_lengths();
    void draw_diagonals();
    void draw_pages();
    void draw_values();
    void apply_pattern();
    void spoil_cache();
    void draw_bias();
    void draw_allowed();
    void draw_block_mask();
    void draw_tree_mask();
    void draw_scale(const CacheStorage &storage, const Values &numbers, Values *scale);
    void draw_divisors();
    void scale_numbers(const CacheStorage &storage, const Values &used, Values *values, Values *numbers, Values *scale);
    void poison();
    Values drawn(std::vector<std::int64_t> shape, std::int32_t dtype, double factor = 1);

    class Random *random_ = nullptr;  // while the constructor runs
    bool with_contents_;
};

/// Copies index 0 along the axes whose bit is set: contents that a stride of 0 can carry.
void make_constant(Values &values, unsigned axes);

/// Elements that nobody used become NaN; where an axis has stride 0, one user keeps the whole line.
void poison_unused(Values &values, Values &used, unsigned broadcast);

/// A gradient case: the forward data, o and lse as a correct forward pass would have stored them, and dout.
struct BackwardData {
    explicit BackwardData(const BackwardCase &backward_case, bool with_contents = true);
    BackwardCase c;
    AttentionData forward;
    Values o, lse, dout, dlse;  ///< dlse of empty shape where absent
};

}  // namespace attile::test

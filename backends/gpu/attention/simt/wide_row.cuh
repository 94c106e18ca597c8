// SPDX-License-Identifier: Apache-2.0
// What kernels between products do to a score, one at a time, and where rows and keys are.
#pragma once

#include "attention/block.h"
#include "attention/numbers.h"
#include "attention/simt/head_slice.h"

namespace attile::gpu::simt {

// Row `index` of a slice, and where the problem has it.
struct SliceRow {
    int entry, head_kv, member, row;
    ATTILE_LANE_FN SliceRow(const HeadSlice &slice, uint32_t index) {
        const uint32_t item = quotient(index, slice.rows), of_head = quotient(item, slice.members),
                       of_entry = quotient(of_head, slice.heads);
        row = slice.first_row + static_cast<int>(remainder(index, slice.rows));
        member = slice.first_member + static_cast<int>(remainder(item, slice.members));
        head_kv = slice.first_head + static_cast<int>(remainder(of_head, slice.heads));
        entry = slice.first_entry + static_cast<int>(of_entry);
    }
    ATTILE_LANE_FN int head(const AttentionParams &p) const { return head_kv * static_cast<int>(p.group.divisor) + member; }
};

// One query row, its scores of type T; keys vary. kSparse: there is a mask of blocks or of a tree, which costs registers.
template <class T, bool kSparse>
class WideRow {
  public:
    ATTILE_LANE_FN WideRow(const AttentionParams &p, const AttentionEntry &entry, int head, int row)
        : p_(p),
          entry_(entry),
          range_(p, row, entry.shift, entry.first_key, row < entry.len_q ? entry.len_k : 0),
          head_(head),
          row_(row),
          bias_(entry.batch * p.bias.stride[0] + head * p.bias.stride[1] + row * p.bias.stride[2]),
          allowed_(entry.batch * p.allowed.stride[0] + head * p.allowed.stride[1] + row * p.allowed.stride[2]),
          slope_(0),
          diagonal_(row + entry.shift) {
        if (p.alibi_slopes.data)
            slope_ = load_as<T>(p.alibi_slopes, entry.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]);
    }
    // Keys that mask and lengths show; empty for a row past the last.
    ATTILE_LANE_FN const KeyRange &range() const { return range_; }

    // From scale q.k of a key in that range to its score. False: it takes no part. `slope` is the softcap's there.
    ATTILE_LANE_FN bool modify(int key, T &score, T &slope) const {
        slope = 1;
        if (kSparse && !sparse_mask_shows(p_, entry_, head_, row_, key)) return false;
        if (p_.allowed.data && static_cast<const uint8_t *>(p_.allowed.data)[allowed_ + key * p_.allowed.stride[3]] == 0) return false;
        if (p_.block_table && !has_page(key)) return false;
        if (p_.softcap != 0) {
            const T softcap = static_cast<T>(p_.softcap), t = tanh(score / softcap);
            score = softcap * t;
            slope = 1 - t * t;
        }
        if (p_.bias.data) {
            const T bias = load_as<T>(p_.bias, bias_ + key * p_.bias.stride[3]);
            if (bias == lowest<T>()) return false;
            score += bias;
        }
        if (p_.alibi_slopes.data) score -= slope_ * fabs(static_cast<T>(key - diagonal_));
        return score != lowest<T>();
    }

  private:
    ATTILE_LANE_FN bool has_page(int key) const {
        const int64_t page =
            p_.block_table[entry_.batch * p_.block_table_stride[0] + quotient(key, p_.page_size) * p_.block_table_stride[1]];
        return page >= 0 && page < p_.pages;
    }
    const AttentionParams &p_;
    const AttentionEntry &entry_;
    const KeyRange range_;
    const int head_, row_;
    const int64_t bias_, allowed_;
    T slope_;
    const int diagonal_;
};

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
// One score of attention: which rows and keys an entry of the batch has, what a row may see, and s_ij. Forward and backward share it.
#pragma once

#include <attile/attile_backend.h>

#include <cstdint>
#include <limits>

namespace attile::reference {

inline constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// Rows and keys of one batch entry or packed sequence, with lengths clamped to what there is.
struct Entry {
    std::int64_t b;
    std::int64_t q_start, len_q;  // its rows are q_start .. q_start + len_q - 1 of q, o and lse
    std::int64_t k_start, len_k;
    std::int64_t shift;        // the mask's diagonal is j = i + shift
    std::int64_t alibi_shift;  // ALiBi's likewise
    std::int64_t first_key;    // those before it are padding
};

Entry entry_of(const attile_attention_problem *p, std::int64_t b);

/// Where key j of an entry lies in k and v: indices of their axes 0 and 2. False: its page does not exist.
bool locate_key(const attile_attention_problem *p, const Entry &entry, std::int64_t j, std::int64_t *axis0, std::int64_t *axis2);

/// The key head that query head h uses.
inline std::int64_t kv_head(const attile_attention_problem *p, std::int64_t h) { return h / (p->heads_q / p->heads_kv); }

/// A score and the slope of what softcap did to it: d s / d (scale q.k).
struct Score {
    double value;  // kHidden: the pair takes no part, and neither k nor v was read unless the score came out as -inf
    double slope;
};

Score score(const attile_attention_problem *p, const Entry &entry, std::int64_t h, std::int64_t i, std::int64_t j);

/// Pairs of row and key that the mask leaves, were every entry of full length: counted in closed form.
double visible_pairs(const attile_attention_problem *p);

/// Bytes of q, k, v, o, lse, each once.
double attention_bytes(const attile_attention_problem *p);

}  // namespace attile::reference

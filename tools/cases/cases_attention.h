// SPDX-License-Identifier: Apache-2.0
// Cases of attention, forward and backward.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <vector>

#include "test_tensor.h"

namespace attile::test {

enum class AttentionPattern : std::uint8_t {
    kNormal,
    kTimes36,         ///< scores of some tens: a few keys dominate
    kTimes400,        ///< scores of some hundreds: exp must never see them unshifted
    kHugeLateKey,     ///< the maximum comes last and makes every earlier partial result tiny
    kAlternating,     ///< scores of alternating sign
    kConstant,        ///< every score equal
    kRising,          ///< every key block raises the maximum
    kTiny,            ///< values near the smallest numbers of the storage type
    kNanInCache,      ///< a number of k, and one of v, is NaN
    kNanInQuery,      ///< one row of q is NaN, and only that row of o may be
    kFarBelow,        ///< the first 130 keys' scores lie far below the others': nothing may stay rounded at their magnitude
    kFarBelowButOne,  ///< every key's scores but one late key's lie far below: one thread of a row alone sees it
    kExact,     ///< scores are whole numbers of -3 to 3 times the scale, with many equal ones: any scale that is a power of two is exact
    kUniform,   ///< q and k in [-3, 3]
    kOneAbove,  ///< the middle key's score is 0, all others' are -16.7
    kInfiniteKeys,  ///< every fifth key's score is -inf, and its values are NaN
};

enum class MaskBytes : std::uint8_t { kNone, kRandom, kNothing, kLeadingHidden };
enum class BiasKind : std::uint8_t { kNone, kNormal, kSomeHidden, kRowsHidden, kLowest };  ///< kLowest: finite ones that are meant to hide

/// How queries, keys or values are stored.
struct CacheStorage {
    std::int32_t dtype = 0;  ///< 0: the case's
    bool scaled = false;     ///< there is a tensor of scales
    std::int64_t group = 0;  ///< numbers of a row that share one; 0: all of them
    std::uint8_t axes = 7;   ///< bit per axis entry, head, token: scales have its full extent, else extent 1
    Layout scale_layout = {};
};

struct AttentionCase {
    std::int32_t dtype = ATTILE_F32;      ///< of q, k and v, unless their storage says another
    std::int32_t out_dtype = ATTILE_F32;  ///< of o
    std::int32_t bias_dtype = ATTILE_F32;
    std::int64_t batch = 2, heads_q = 4, heads_kv = 2, len_q = 7, len_k = 9, head_dim = 8, head_dim_v = 8;
    double scale = 0, softcap = 0;
    std::int32_t mask = ATTILE_MASK_NONE;
    std::int64_t window_left = 0, window_right = 0;
    BiasKind bias = BiasKind::kNone;
    std::uint8_t bias_axes = 15;  ///< bit per axis b, h, i, j: it has its full extent, else extent 1
    std::uint8_t bias_rank = 4;
    bool bias_poisoned = false;  ///< keys that bias alone hides hold NaN
    MaskBytes allowed = MaskBytes::kNone;
    std::uint8_t allowed_axes = 15;
    std::uint8_t allowed_rank = 4;
    MaskBytes block_mask = MaskBytes::kNone;
    std::uint8_t block_axes = 15;  ///< of entries, heads, blocks of rows, blocks of keys
    std::uint8_t block_rank = 4;
    std::int64_t tree_keys = 0;  ///< columns of the tree mask; 0: there is none
    std::uint8_t tree_axes = 7;  ///< of entries, heads, rows; columns have their full extent
    std::uint8_t tree_rank = 4;
    std::uint8_t alibi = 0;  ///< 1: a slope a head, 2: a slope an entry and head
    bool sinks = false;
    bool key_lengths = false;
    bool key_starts = false, causal_offset = false;
    bool packed_q = false, packed_k = false;  ///< batch counts sequences, len_q and len_k are the longest
    bool give_max_len = true;                 ///< packed: pass max_len, or leave it 0
    std::int64_t max_len_cut = 0;             ///< packed: max_len is so much shorter than the longest sequence
    std::int64_t page_size = 0;               ///< paged if not 0
    bool values_in_keys = false;              ///< v is the first columns of k, in memory too
    bool lse = true;
    AttentionPattern pattern = AttentionPattern::kNormal;
    Layout q_layout = {}, k_layout = {}, v_layout = {}, o_layout = {}, lse_layout = {}, bias_layout = {}, allowed_layout = {};
    CacheStorage q_storage = {}, k_storage = {}, v_storage = {};
    CacheStorage o_scales = {};  ///< of an o of 8 bits, whose type is not said here again
    std::int32_t type_of(const CacheStorage &storage) const { return storage.dtype != 0 ? storage.dtype : dtype; }
    Layout numbers_layout = {};  ///< of slopes, sinks, lengths, offsets and the page table; of dbias and dsinks
    std::uint32_t flags = 0;
    std::uint64_t seed = 1;
};

struct BackwardCase {
    AttentionCase forward;
    std::int32_t dout_dtype = ATTILE_F32;
    std::int32_t grad_dtype = ATTILE_F32;  ///< of dq, dk, dv
    std::int32_t dbias_dtype = ATTILE_F32;
    bool dbias = true, dsinks = true;  ///< where there is a bias, are sinks
    bool dlse = false;
};

struct Case;
enum class Tier;
void append_attention_cases(std::vector<Case> &list, Tier tier);
void append_backward_cases(std::vector<Case> &list, Tier tier);
AttentionCase random_attention(std::uint64_t seed);
AttentionCase random_cached_attention(std::uint64_t seed);
BackwardCase random_backward(std::uint64_t seed);
std::string describe(const AttentionCase &c);
std::string describe(const BackwardCase &c);

}  // namespace attile::test

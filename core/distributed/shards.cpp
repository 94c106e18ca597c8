// SPDX-License-Identifier: Apache-2.0
#include "distributed/shards.h"

#include <algorithm>

#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

// floor(part of * length / parts): both factors may be large.
int64_t share(int64_t length, int64_t part, int64_t parts) { return static_cast<int64_t>(static_cast<__int128>(length) * part / parts); }

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

Piece clip(const Piece &piece, const Segment &segment) {
    const auto index = [&](int64_t position) {
        return std::clamp<int64_t>(ceil_div(position - piece.first, piece.stride), 0, piece.count);
    };
    Piece part = piece;
    const int64_t first = index(segment.first);
    part.count = std::max<int64_t>(index(segment.end) - first, 0);
    part.first += first * piece.stride - segment.origin;
    part.local += first * piece.step;
    return part;
}

int64_t Shard::length() const {
    int64_t sum = 0;
    for (const Piece &piece : pieces) sum += piece.count;
    return sum;
}

int32_t parts_of(int32_t layout) { return layout == ATTILE_SHARDS_ZIGZAG ? 2 : 1; }

Piece shard_part(int32_t layout, int64_t length, int32_t rank, int32_t ranks, int32_t part) {
    Piece piece;
    if (layout == ATTILE_SHARDS_STRIPED) {
        piece.first = rank;
        piece.stride = ranks;
        piece.count = length > rank ? (length - rank - 1) / ranks + 1 : 0;
        return piece;
    }
    int64_t chunk = rank, chunks = ranks;
    if (layout == ATTILE_SHARDS_ZIGZAG) {
        chunks = 2 * static_cast<int64_t>(ranks);
        chunk = part == 0 ? rank : chunks - 1 - rank;
        if (part == 1) piece.local = shard_part(layout, length, rank, ranks, 0).count;
    }
    piece.first = share(length, chunk, chunks);
    piece.count = share(length, chunk + 1, chunks) - piece.first;
    return piece;
}

Shard cut_shard(int32_t layout, int64_t length, int32_t rank, int32_t ranks) {
    Shard shard;
    for (int32_t part = 0; part < parts_of(layout); ++part) shard.pieces.push_back(shard_part(layout, length, rank, ranks, part));
    return shard;
}

std::vector<Shard> contiguous_shards(const std::vector<int64_t> &lengths) {
    std::vector<Shard> shards;
    int64_t first = 0;
    for (const int64_t length : lengths) {
        shards.push_back({{{first, 1, length, 0, 1}}});
        first += length;
    }
    return shards;
}

int64_t longest_shard(const std::vector<Shard> &shards) {
    int64_t longest = 0;
    for (const Shard &shard : shards) longest = std::max(longest, shard.length());
    return longest;
}

Shard whole_shard(int32_t layout, int64_t length, int32_t ranks) {
    if (layout != ATTILE_SHARDS_STRIPED) return {{{0, 1, length, 0, 1}}};
    Shard shard;
    for (int32_t rank = 0; rank < ranks && rank < length; ++rank) {
        Piece piece = shard_part(layout, length, rank, ranks, 0);
        piece.local = rank;
        piece.step = ranks;
        shard.pieces.push_back(piece);
    }
    return shard;
}

Band make_band(const attile_attention_args &args, int64_t len_q, int64_t key_length, int64_t len_k) {
    Band band;
    band.keys = std::clamp<int64_t>(key_length, 0, len_k);
    const bool bottom_right = args.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT || args.mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    const int64_t shift = band.keys - len_q;
    const int64_t corner = bottom_right ? shift : 0;
    band.alibi_shift = bottom_right || args.mask == ATTILE_MASK_NONE ? shift : 0;
    if (args.mask == ATTILE_MASK_NONE) return band;
    const bool causal = args.mask == ATTILE_MASK_CAUSAL_TOP_LEFT || args.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    const int64_t left = causal ? -1 : args.window_left, right = causal ? 0 : args.window_right;
    // What reaches past every key is open.
    const int64_t enough = len_q + len_k;
    band.open_low = left < 0 || left >= enough;
    band.open_high = right < 0 || right >= enough;
    band.low = band.open_low ? 0 : corner - left;
    band.high = band.open_high ? 0 : corner + right;
    return band;
}

Pair make_pair(const Piece &q, const Piece &k, const Band &band) {
    Pair pair;
    pair.rows = q.count;
    pair.keys = std::min(k.count, band.keys > k.first ? (band.keys - k.first - 1) / k.stride + 1 : 0);
    if (pair.rows <= 0 || pair.keys <= 0) return pair;
    // The band in steps of this pair: low <= j - i <= high.
    const int64_t offset = k.first - q.first;
    int64_t low = band.open_low ? -pair.rows : ceil_div(band.low - offset, k.stride);
    int64_t high = band.open_high ? pair.keys : floor_div(band.high - offset, k.stride);
    if (low > high || low >= pair.keys || high <= -pair.rows) return pair;
    if (low > 0) {  // the first keys are seen by no row
        pair.key = low;
        pair.keys -= low;
        high -= low;
        low = 0;
    }
    if (high < 0) {  // the first rows see no key
        pair.row = -high;
        pair.rows += high;
        low -= high;
        high = 0;
    }
    pair.rows = std::min(pair.rows, pair.keys - low);
    pair.keys = std::min(pair.keys, pair.rows + high);
    if (pair.rows <= 0 || pair.keys <= 0) return pair;
    pair.hidden = false;
    pair.left = low <= -(pair.rows - 1) ? -1 : -low;
    pair.right = high >= pair.keys - 1 ? -1 : high;
    pair.diagonal = band.alibi_shift + (q.first + q.stride * pair.row) - (k.first + k.stride * pair.key);
    return pair;
}

}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_shard_part(int32_t layout, int64_t length, int32_t rank, int32_t ranks, int32_t part, int64_t *first, int64_t *count,
                          int64_t *stride) {
    return guarded([&]() -> int32_t {
        constexpr const char *kName = "shard_part";
        if (layout < ATTILE_SHARDS_CONTIGUOUS || layout > ATTILE_SHARDS_STRIPED) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: layout is %d; expected an ATTILE_SHARDS_ constant", kName, layout);
        }
        if (length < 0 || length > kMostPositions) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: length is %lld; expected 0 to 2^48", kName, static_cast<long long>(length));
        }
        if (ranks < 1) return fail(ATTILE_ERROR_INVALID_VALUE, "%s: ranks is %d; expected 1 or more", kName, ranks);
        if (rank < 0 || rank >= ranks) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: rank is %d; expected 0 to %d", kName, rank, ranks - 1);
        }
        if (part < 0 || part >= parts_of(layout)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: part is %d; expected 0 to %d for this layout", kName, part, parts_of(layout) - 1);
        }
        const Piece piece = shard_part(layout, length, rank, ranks, part);
        if (first != nullptr) *first = piece.first;
        if (count != nullptr) *count = piece.count;
        if (stride != nullptr) *stride = piece.stride;
        return ATTILE_OK;
    });
}

}  // extern "C"

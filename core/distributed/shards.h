// SPDX-License-Identifier: Apache-2.0
// How sequences are spread over ranks, and what one piece of rows sees of one piece of keys.
//
// A piece is a run of positions with a constant distance. All pieces of a call have the same distance, 1 or the number of ranks, so what
// the mask leaves of a pair of pieces is a band of diagonals j - i, which is a window about the pair's own corner: no mask has to be
// written out. Rows and keys at the ends that see nothing are left away, which also brings every band to a corner that a window can name.
#ifndef ATTILE_CORE_DISTRIBUTED_SHARDS_H
#define ATTILE_CORE_DISTRIBUTED_SHARDS_H

#include <attile/attile_distributed.h>

#include <vector>

namespace attile::core {

inline constexpr int64_t kMostPositions = int64_t{1} << 48;

struct Piece {
    int64_t first = 0;   // position of its first row
    int64_t stride = 1;  // between its rows' positions
    int64_t count = 0;
    int64_t local = 0;  // its first row's place in the shard
    int64_t step = 1;   // between its rows' places in the shard
};

// Positions from `first` up to `end`, counted from `origin`.
struct Segment {
    int64_t first = 0, end = kMostPositions, origin = 0;
};

// What a piece has of a segment, with positions counted as there.
Piece clip(const Piece &piece, const Segment &segment);

struct Shard {
    std::vector<Piece> pieces;
    int64_t length() const;
};

int32_t parts_of(int32_t layout);

// Of a valid layout, rank and part.
Piece shard_part(int32_t layout, int64_t length, int32_t rank, int32_t ranks, int32_t part);
Shard cut_shard(int32_t layout, int64_t length, int32_t rank, int32_t ranks);

// Rank after rank, with the lengths that they told.
std::vector<Shard> contiguous_shards(const std::vector<int64_t> &lengths);

int64_t longest_shard(const std::vector<Shard> &shards);

// All positions, as pieces whose distance is that of a layout's.
Shard whole_shard(int32_t layout, int64_t length, int32_t ranks);

// Which keys a row sees: those at distances low to high from it, kpos - qpos, before `keys`.
struct Band {
    int64_t low = 0, high = 0;
    bool open_low = true, open_high = true;
    int64_t keys = 0;
    int64_t alibi_shift = 0;
};

// Of entries with that key length; `len_q` is that of the whole sequence.
Band make_band(const attile_attention_args &args, int64_t len_q, int64_t key_length, int64_t len_k);

// What is to be computed of a pair of pieces: rows and keys counted within the pieces, and a window from the top left corner of what is
// left, -1 for an open side.
struct Pair {
    bool hidden = true;
    int64_t row = 0, rows = 0, key = 0, keys = 0;
    int64_t left = -1, right = -1;
    int64_t diagonal = 0;  // ALiBi: position distances are stride (j - i) - diagonal
};

Pair make_pair(const Piece &q, const Piece &k, const Band &band);

}  // namespace attile::core

#endif

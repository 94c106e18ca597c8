// SPDX-License-Identifier: Apache-2.0
// K and V on their way from global to shared memory, a chunk at a time, through a few staging registers of each thread.
//
// A key beyond the last is replaced by the last: its score is masked and its value is multiplied by an exact zero, so only the address
// matters.
#pragma once

#include "attention/block.h"
#include "attention/lanes.h"

namespace attile::gpu {

using Quad = Vec<float, 4>;

// Four elements of a row from column `col` on, those at `cols` and beyond as zeros. Any storage that computes in float, any stride.
ATTILE_LANE_FN Quad load_quad_any(const AttentionOperand &x, int64_t row_offset, int col, int cols) {
    Quad quad;
    const int64_t step = x.stride[3];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        quad[e] = 0;
        if (col + e >= cols) continue;
        const int64_t at = row_offset + (col + e) * step;
        if (x.storage == AttentionStorage::kF32)
            quad[e] = static_cast<const float *>(x.data)[at];
        else if (x.storage == AttentionStorage::kF16)
            quad[e] = to_compute(static_cast<const F16 *>(x.data)[at]);
        else
            quad[e] = to_compute(static_cast<const BF16 *>(x.data)[at]);
    }
    return quad;
}

// A thread's view of float rows: where row 0 begins and how far rows are apart, less than 2^31 bytes, which makes an address one wide
// multiply-add. Rows are whole quads, a multiple of them apart: what is not is rewritten beforehand (attention/simt/convert.cu). But all of
// them may lie beside 16-byte addresses, which the modified kind takes.
template <AttentionKind kKind>
struct KeyRows {
    const float *first;
    int row_bytes, last, cols;
    bool is_aligned;

    ATTILE_LANE_FN KeyRows(const AttentionParams &p, const AttentionBlock &block, const AttentionOperand &x, int columns)
        : row_bytes(x.row_bytes), last(max(block.entry.len_k - 1, 0)), cols(columns), is_aligned(x.vector != 0) {
        const int head = p.pack.divisor == 1 ? static_cast<int>(quotient(block.place.head, p.group)) : block.place.head;
        first =
            static_cast<const float *>(x.data) + block.place.batch * x.stride[0] + head * x.stride[1] + block.entry.first_k * x.stride[2];
    }
    ATTILE_LANE_FN const float *row(int key) const { return after(first, kKind == AttentionKind::kPlain ? key : min(key, last)); }
    ATTILE_LANE_FN Quad load(const float *from) const {
        if constexpr (kKind == AttentionKind::kModified) {
            if (!is_aligned)
                return Quad{{load_vec_const<1>(from)[0], load_vec_const<1>(from + 1)[0], load_vec_const<1>(from + 2)[0],
                             load_vec_const<1>(from + 3)[0]}};
        }
        return load_vec_const<4>(from);
    }
    // `rows` rows after an address.
    ATTILE_LANE_FN const float *after(const float *from, int rows) const {
        return reinterpret_cast<const float *>(reinterpret_cast<const char *>(from) + static_cast<int64_t>(rows) * row_bytes);
    }
};

// A chunk of kChunkDepth columns of kKeys * kLaneCols keys, stored depth-major. LaneKeys says which lane column owns which.
// Within a depth row a lane's keys lie in quads side by side; a swizzle by the column quad keeps the transposing stores free of bank
// conflicts without padding. Bit 1 of the swizzle exchanges registers of a fragment, which costs nothing; the other exchanges lane columns.
template <class C>
struct KeyChunk {
    static constexpr int kLaneCols = C::kLaneCols;
    static constexpr int kBlockKeys = C::kKeys * kLaneCols;
    static constexpr int kQuads = C::kChunkDepth / 4;
    static constexpr int kLoads = kQuads * kBlockKeys / C::kThreads;  // Quads a thread moves.
    static constexpr int kFloats = C::kChunkDepth * kBlockKeys;
    static_assert(kLoads * C::kThreads == kQuads * kBlockKeys, "every thread moves as many quads");
    static_assert(kQuads == 4 || (kQuads == 2 && kLaneCols > 4), "chunks with a swizzle that is free of conflicts");
    static_assert(kLaneCols > 4 || C::kKeys == 8, "likewise");

    // Quad number f of the chunk, by its bits: column quad first so that global reads are long, then what spreads a warp over the banks.
    static constexpr __host__ __device__ int col_quad(unsigned f) { return f % kQuads; }
    static constexpr __host__ __device__ int lane_key(unsigned f) {
        const unsigned g = f / kQuads;
        if (kLaneCols == 4) return (g & 1) | (g >> 4 & 1) << 1 | (g >> 2 & 1) << 2;
        return (g & 1) | (g / (2 * kLaneCols) & 1) << 1 | (g / (4 * kLaneCols) & 1) << 2;
    }
    static constexpr __host__ __device__ int lane_col(unsigned f) {
        const unsigned g = f / kQuads;
        if (kLaneCols == 4) return (g >> 1 & 1) | (g >> 3 & 1) << 1;
        return g / 2 % kLaneCols;
    }
    static constexpr __host__ __device__ int key(unsigned f) { return LaneKeys<C>::first(lane_col(f)) + LaneKeys<C>::after(lane_key(f)); }
    // Do a thread's later quads lie as many keys after its first as those of thread 0 do?
    static constexpr bool is_regular() {
        for (int f = 0; f < kLoads * C::kThreads; ++f)
            if (key(f) != key(f % C::kThreads) + key(f / C::kThreads * C::kThreads)) return false;
        return true;
    }
    static constexpr int kLaneSwizzle = kLaneCols == 4 ? 8 : 16;  // As an offset of a lane's first key.
    static constexpr __host__ __device__ bool swaps_registers(int depth) { return (depth >> 2 & 1) != 0; }
    static constexpr __host__ __device__ bool swaps_lanes(int depth) { return (depth >> 3 & 1) != 0; }
    static constexpr __host__ __device__ int position(unsigned f) {
        const int j = lane_key(f), depth = col_quad(f) * 4;
        return ((j >> 2) * 4 * kLaneCols + lane_col(f) * 4 + (j & 3)) ^ (swaps_registers(depth) ? 2 : 0) ^
               (swaps_lanes(depth) ? kLaneSwizzle : 0);
    }
};

// Do addresses move on from chunk to chunk? On AMD they are worked out anew: its compilers keep some 80 registers more over a loop with
// them.
template <AttentionKind kKind>
inline constexpr bool kMovesOn = kKind == AttentionKind::kPlain && !kSparesRegisters;

// What a lane wants once a tile, 4, 8 or 16 bytes: in registers or, if kShared, in shared memory.
template <class C, class T, bool kShared>
class LaneStore {
  public:
    static constexpr int kFloats = sizeof(T) / sizeof(float), kSharedFloats = kShared ? kFloats * C::kThreads : 0;
    ATTILE_LANE_FN explicit LaneStore(float *shared) : shared_(shared) {}
    ATTILE_LANE_FN void set(const T &value) {
        if constexpr (kShared) {
            Vec<float, kFloats> words;
            copy_bits(words, value);
            store_vec(shared_ + threadIdx.x * kFloats, words);
        } else {
            value_ = value;
        }
    }
    ATTILE_LANE_FN T get() const {
        if constexpr (kShared) {
            T value;
            copy_bits(value, load_vec<kFloats>(shared_ + fresh_thread() * kFloats));
            return value;
        } else {
            return value_;
        }
    }

  private:
    const SharedPointer<float> shared_;
    T value_;
};

// The plain kind keeps one address; the others follow from it.
template <class C, AttentionKind kKind>
class KeyStream {
  public:
    using Chunk = KeyChunk<C>;
    static constexpr bool kOneAddress = kKind == AttentionKind::kPlain;
    // Modified scores of 64 columns: 8 bytes of it, on sm_61, where offsets are worked out anew.
    static constexpr bool kSpills = has_bias(kKind) && !kSparesRegisters && C::kLaneCols == 8 && C::kCols == 8;
    static constexpr bool kStoresFirst = C::kFewRegisters && is_single(kKind);
    using FirstStore = LaneStore<C, const float *, kStoresFirst>;
    // memory: FirstStore::kSharedFloats of shared memory.
    ATTILE_LANE_FN KeyStream(const KeyRows<kKind> &rows, float *memory) : rows_(rows), first_(memory) {
        static_assert(!kOneAddress || Chunk::is_regular(), "one address serves for all");
        rows_.first += Chunk::col_quad(threadIdx.x) * 4;
        first_.set(rows_.first);
#pragma unroll
        for (int i = 0; i < Chunk::kLoads; ++i) {
            to_[i] = place(threadIdx.x + i * C::kThreads);
            if (kOneAddress || C::kLaneCols == 4 || kSpills) to_[i] = kept(to_[i]);  // The others come out slower with it.
        }
    }
    // Goes to the tile of keys that begins at `first_key`.
    ATTILE_LANE_FN void seek(int first_key) {
        const unsigned thread = thread_of<C>();
        KeyRows<kKind> rows = rows_;
        if constexpr (kStoresFirst) rows.first = first_.get();
#pragma unroll
        for (int i = 0; i < kAddresses; ++i) from_[i] = rows.row(first_key + Chunk::key(thread + i * C::kThreads));
    }
    // Where addresses move on, a step after a tile's last chunk: to the tile after it or, if there is none, to the same tile again.
    ATTILE_LANE_FN void next_tile(bool is_there, int depth) { from_[0] = rows_.after(from_[0], is_there ? Chunk::kBlockKeys : 0) - depth; }
    // To the next chunk, where addresses move on.
    ATTILE_LANE_FN void step() {
        if (kMovesOn<kKind>) from_[0] += C::kChunkDepth;
    }
    // The thread's quad number `part` of columns first_col .. first_col + kChunkDepth - 1; where addresses move on, of those where it is.
    ATTILE_LANE_FN Quad load(int part, int first_col) const {
        return rows_.load((kOneAddress ? at(part) : from_[part % kAddresses]) + (kMovesOn<kKind> ? 0 : first_col));
    }
    ATTILE_LANE_FN const float *at(int part) const { return rows_.after(from_[0], Chunk::key(part * C::kThreads)); }
    // A key's row, from its first column on.
    ATTILE_LANE_FN const float *row(int key) const {
        KeyRows<kKind> rows = rows_;
        if constexpr (kStoresFirst) rows.first = first_.get();
        return rows.row(key) - Chunk::col_quad(fresh_thread()) * 4;
    }
    ATTILE_LANE_FN void store(int part, float *buffer, const Quad &quad) const {
        const int to = kSparesRegisters ? place(fresh_thread() + part * C::kThreads) : to_[part];
#pragma unroll
        for (int e = 0; e < 4; ++e) buffer[to + e * Chunk::kBlockKeys] = quad[e];
    }

  private:
    static ATTILE_LANE_FN int place(unsigned f) { return Chunk::col_quad(f) * 4 * Chunk::kBlockKeys + Chunk::position(f); }

    static constexpr int kAddresses = kOneAddress ? 1 : Chunk::kLoads;
    KeyRows<kKind> rows_;
    FirstStore first_;  // rows_.first
    const float *from_[kAddresses];
    int to_[Chunk::kLoads];
};

// A chunk of kChunkKeys whole rows of V, as they are. The rows are padded to a power of two of quads, one thread each; threads of the
// padding repeat column 0, which nobody reads.
template <class C>
struct ValueChunk {
    static constexpr int kCols = C::kCols * C::kLaneCols;
    static constexpr int kRowQuads = kCols > 128 ? 64 : kCols > 64 ? 32 : kCols > 32 ? 16 : 8;
    static constexpr int kRow = 4 * kRowQuads;
    static constexpr int kKeysAtOnce = C::kThreads / kRowQuads;
    static constexpr int kLoads = C::kChunkKeys / kKeysAtOnce;
    static constexpr int kFloats = C::kChunkKeys * kRow;
    static_assert(kLoads * kKeysAtOnce == C::kChunkKeys, "every thread moves as many quads");
};

// Where addresses move on, the chunks are taken one after the other, from key `first_key` on.
template <class C, AttentionKind kKind>
class ValueStream {
  public:
    using Chunk = ValueChunk<C>;
    ATTILE_LANE_FN ValueStream(const KeyRows<kKind> &rows, int first_key) : rows_(rows) {
        rows_.first += column();
        if (kMovesOn<kKind>) rows_.first = rows_.row(first_key + static_cast<int>(threadIdx.x / Chunk::kRowQuads));
    }
    // The thread's quad number `part` of the kChunkKeys rows from `first_key` on; where addresses move on, of the next.
    ATTILE_LANE_FN Quad load(int part, int first_key) const {
        if (kMovesOn<kKind>) return rows_.load(at(part));
        const int key = first_key + static_cast<int>(thread_of<C>() / Chunk::kRowQuads);
        if constexpr (C::kKeyRuns) {
            // A strip's keys in the order of the lane columns that own them.
            static_assert(C::kLaneCols % Chunk::kKeysAtOnce == 0, "a part lies in a strip");
            constexpr int kTile = C::kKeys * C::kLaneCols;
            const int in_tile = first_key & (kTile - 1), at = in_tile + part * Chunk::kKeysAtOnce;
            const int own = (at & (C::kLaneCols - 1)) + (key - first_key);
            return rows_.load(rows_.row(first_key - in_tile + LaneKeys<C>::first(own) + LaneKeys<C>::after(at / C::kLaneCols)));
        }
        if (kKind == AttentionKind::kPlain) return rows_.load(rows_.after(rows_.row(key), part * Chunk::kKeysAtOnce));
        return rows_.load(rows_.row(key + part * Chunk::kKeysAtOnce));
    }
    ATTILE_LANE_FN const float *at(int part) const { return rows_.after(rows_.first, part * Chunk::kKeysAtOnce); }
    // To the next chunk, where addresses move on.
    ATTILE_LANE_FN void step() {
        if (kMovesOn<kKind>) rows_.first = rows_.after(rows_.first, C::kChunkKeys);
    }
    ATTILE_LANE_FN void store(int part, float *buffer, const Quad &quad) const {
        store_vec(buffer + (threadIdx.x + part * C::kThreads) * 4, quad);
    }

  private:
    ATTILE_LANE_FN int column() const {
        const int own = static_cast<int>(threadIdx.x) % Chunk::kRowQuads * 4;
        return own < rows_.cols ? own : 0;
    }
    KeyRows<kKind> rows_;
};

// The columns of O and V that a lane owns, in pieces of one shared-memory access: quads, then a pair, then a single, each kind side by side
// across lane columns.
template <class C>
struct LaneColumns {
    static constexpr int kPairAt = C::kCols / 4 * 4, kSingleAt = kPairAt + (C::kCols & 2);
    static constexpr int kPieces = C::kCols / 4 + (C::kCols >> 1 & 1) + (C::kCols & 1);
    static constexpr __host__ __device__ int begin(int piece) {
        return piece * 4 <= kPairAt ? piece * 4 : piece * 4 - 4 + 2 <= kSingleAt ? kSingleAt : C::kCols;
    }
    static ATTILE_LANE_FN int column(int lane_col, int x) {
        if (x < kPairAt) return x / 4 * 4 * C::kLaneCols + lane_col * 4 + x % 4;
        if (x < kSingleAt) return kPairAt * C::kLaneCols + lane_col * 2 + x % 2;
        return kSingleAt * C::kLaneCols + lane_col;
    }
    // A piece of a row in shared memory.
    template <int kPlaces>
    static ATTILE_LANE_FN void take(int piece, const float *row, int lane_col, float (&to)[kPlaces]) {
        const int x = begin(piece), count = begin(piece + 1) - x;
        const float *const from = row + column(lane_col, x);
        if (count == 4) {
            const Quad part = load_vec<4>(from);
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (x + e < C::kCols) to[x + e] = part[e];
        } else if (count == 2) {
            const Vec<float, 2> part = load_vec<2>(from);
#pragma unroll
            for (int e = 0; e < 2; ++e)
                if (x + e < C::kCols) to[x + e] = part[e];
        } else {
            to[x] = *from;
        }
    }
};

}  // namespace attile::gpu

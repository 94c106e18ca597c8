// SPDX-License-Identifier: Apache-2.0
// The epilogue of turned tiles, whose columns are rows of D. A warpgroup has 64 columns of D, lines of 128 bytes in 16 bits: its four warps
// pass their sums to each other through their strips, so that whole lines are stored. Plain: the sums are narrowed in registers, turned by
// stmatrix, and stored beside the next tile's first products. Fused: they are turned in float32, and C, bias and activation applied where a
// lane has four neighbours of a row of D; stored at once. The same operations in the same order as in fuse.cuh, so that a row's bits do not
// depend on how it leaves. No bank conflicts in either way.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/sm90/activate.cuh"
#include "gemm/sm90/arguments.h"
#include "gemm/sm90/fuse.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

template <class Config>
class GemmTurnedStore {
    using Element = typename Config::Element;
    static constexpr int kColumns = Config::kColumns;
    static constexpr int kPieceRows = gemm_turned_piece(Config::kRows);  // Of D; there are two places for narrowed pieces, one for others.
    static constexpr int kPieces = (kColumns + kPieceRows - 1) / kPieceRows, kPlaces = 2;
    static constexpr int kPlaceBytes = kPieceRows * 128;
    static constexpr int kGroupBytes = Config::kStripBytes * (kWarpgroupThreads / kWarpThreads);
    static constexpr int kLate = kPieces > kPlaces ? (kColumns - kPlaces * kPieceRows) / 4 : 1;
    static constexpr int kBiasBarrier = 2, kGroupBarrier = 3;  // Of all warpgroups, and of the first.
    static_assert(kPlaces * kPlaceBytes == kGroupBytes && kPieceRows * 64 * 4 == kGroupBytes, "a warpgroup's strips");
    static_assert(kPieces > 1 && kPieces <= 2 * kPlaces, "the strips are filled twice at most");
    static_assert(kColumns <= Config::kRows * 2, "a thread for the bias of each row of D");

  public:
    // All threads of the consumer warpgroups construct and call it together.
    __device__ __forceinline__ GemmTurnedStore(const GemmArguments &p, uint32_t strips, uint32_t /*stages*/, uint32_t /*rank*/)
        : p_(p), strips_(strips) {}

    // Of groups of rows, before begin(): where the tile's group ends.
    __device__ __forceinline__ void end_at(int32_t row) { group_end_ = row; }

    // Before a tile's first product: asks for C and the bias. row and col: the tile's first, in the tile's own orientation, here and below.
    __device__ __forceinline__ void begin(uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        if constexpr (Config::kFuses) {
            gemm_ask_c<Config, kColumns, Config::kRows>(p_, batch_x, batch_y, col, row);
            if ((p_.fused & (kFusedBiasColumns | kFusedBiasRows)) == 0) return;
            thread_ = fresh_thread();
            const int64_t first = batch_x * p_.bias.batch_x + batch_y * p_.bias.batch_y;
            if ((p_.fused & kFusedBiasRows) != 0) {
                const int mine = static_cast<int>(thread_) - kWarpgroupThreads;
                if (mine < kColumns && col + mine < p_.m) bias_[0] = ask_bias(p_.bias, first + (col + mine) * p_.bias.row);
            } else {
                const int64_t mine = row + group() * 64 + quad() * 4;
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (mine + v < p_.n) bias_[v] = ask_bias(p_.bias, first + (mine + v) * p_.bias.col);
                }
            }
        }
    }

    // After its last. If pending() is true afterwards, the sums are not stored yet.
    __device__ __forceinline__ void tile(float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        thread_ = fresh_thread();
        if constexpr (Config::kFuses) {
            fused(sums, batch_x, batch_y, row, col);
        } else {
            leave(sums, batch_x, batch_y, row, col);
        }
    }

    // Are there sums that tile() has left for later?
    __device__ __forceinline__ bool pending() const { return !Config::kFuses && pending_; }
    // Stores them by pieces, with a call of `between` before each.
    template <class Between>
    __device__ __forceinline__ void store_late(const Between &between) {
        if constexpr (!Config::kFuses) {
            between();
            meet();  // The strips are written.
            store_piece<0>();
            between();
            store_piece<1>();
            if constexpr (kPieces > kPlaces) {
                between();
                meet();  // They have been read.
#pragma unroll
                for (int i = 0; i < kLate; i += 4) write_narrow(i * 4, late_ + i);
                meet();
                store_piece<2>();
            }
            if constexpr (kPieces > kPlaces + 1) {
                between();
                store_piece<3>();
            }
            pending_ = false;
        }
    }

  private:
    __device__ __forceinline__ int64_t row_end() const {
        if constexpr (Config::kRowGroups) return group_end_;
        return p_.m;
    }
    __device__ __forceinline__ int lane() const { return static_cast<int>(thread_ % kWarpThreads); }
    // The warpgroup of the tile, and the warp of that.
    __device__ __forceinline__ int group() const { return static_cast<int>(thread_ / kWarpgroupThreads) - 1; }
    __device__ __forceinline__ int warp() const { return static_cast<int>(thread_ / kWarpThreads % (kWarpgroupThreads / kWarpThreads)); }
    __device__ __forceinline__ uint32_t strip() const { return strips_ + group() * kGroupBytes; }
    // The four columns of D that a lane has in float32.
    __device__ __forceinline__ int quad() const { return static_cast<int>(thread_ % 16); }
    __device__ __forceinline__ void meet() const { named_sync(kGroupBarrier + group(), kWarpgroupThreads); }

    // Writes 16 rows of D, of the warp's 16 columns, to the strips, from row `first` of them on: two rows of D to a register, of column
    // lane / 4 and of the one eight further, then of the next eight rows. A line is swizzled by its row's number.
    __device__ __forceinline__ void write_narrow(int first, const uint32_t *four) const {
        const int row = (lane() >> 4) * 8 + (lane() & 7), part = warp() * 2 + (lane() >> 3 & 1);
        store_matrices_turned(strip() + (first + row) * 128 + ((part ^ (row & 7)) << 4), four[0], four[1], four[2], four[3]);
    }

    // Keeps a warpgroup's narrowed sums for later, a piece of D's rows after the other: in the strips, and the rest in registers.
    __device__ __forceinline__ void leave(const float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        const float alpha = p_.alpha;
        const int r = warp() * 4 + lane() / 8;
        const int64_t c = row + group() * 64 + lane() % 8 * 8;
        rows_ = c < p_.n ? static_cast<int>(min(row_end() - col, int64_t{kColumns})) - r : 0;
        to_ = static_cast<uint16_t *>(p_.d.data) + batch_x * p_.d.batch_x + batch_y * p_.d.batch_y + (col + r) * p_.d.row + c;
        pending_ = true;
        meet();  // The strips have been read.
#pragma unroll
        for (int first = 0; first < kColumns; first += 16) {
            const float *const s = sums + first / 2;
            const uint32_t four[4] = {narrow_pair<Element>(alpha * s[0], alpha * s[1]), narrow_pair<Element>(alpha * s[2], alpha * s[3]),
                                      narrow_pair<Element>(alpha * s[4], alpha * s[5]), narrow_pair<Element>(alpha * s[6], alpha * s[7])};
            if (first < kPlaces * kPieceRows) {
                write_narrow(first, four);
            } else {
#pragma unroll
                for (int v = 0; v < 4; ++v) late_[(first - kPlaces * kPieceRows) / 4 + v] = four[v];
            }
        }
    }

    // Stores a piece's lines: a lane takes 16 bytes, a warp four lines of every 16.
    template <int kPiece>
    __device__ __forceinline__ void store_piece() {
        constexpr int kRound = 16, kFirst = kPiece * kPieceRows;
        constexpr int kRounds = (kColumns - kFirst < kPieceRows ? kColumns - kFirst : kPieceRows) / kRound;
        const int r = warp() * 4 + lane() / 8;
        const uint32_t from = strip() + kPiece % kPlaces * kPlaceBytes + r * 128 + (((lane() % 8) ^ (r & 7)) << 4);
        GemmFour part[kRounds];
#pragma unroll
        for (int round = 0; round < kRounds; ++round) part[round] = load_four(from + round * (kRound * 128));
#pragma unroll
        for (int round = 0; round < kRounds; ++round) {
            if (kFirst + round * kRound < rows_) store_four(to_, part[round]);
            to_ += kRound * p_.d.row;
        }
    }

    // What is fused, and any D, a piece of its rows at a time.
    __device__ __forceinline__ void fused(const float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        const uint32_t bias_of_rows = strips_ + Config::kStripsBytes;
        if ((p_.fused & kFusedBiasRows) != 0) {
            const int mine = static_cast<int>(thread_) - kWarpgroupThreads;
            named_sync(kBiasBarrier, Config::kRows * 2);  // The last tile's have been read.
            if (mine < kColumns) {
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(bias_of_rows + mine * 4), "f"(bias_value(p_.bias, bias_[0])) : "memory");
            }
            named_sync(kBiasBarrier, Config::kRows * 2);
        }
        const int r = warp() * 2 + lane() / 16;
        const int64_t c = row + group() * 64 + quad() * 4, d_row = col + r;
        Place place;
        place.c = static_cast<const char *>(p_.c.data) +
                  (batch_x * p_.c.batch_x + batch_y * p_.c.batch_y + d_row * p_.c.row + c) * gemm_storage_bytes(p_.c.dtype);
        place.d = static_cast<char *>(p_.d.data) +
                  (batch_x * p_.d.batch_x + batch_y * p_.d.batch_y + d_row * p_.d.row + c) * gemm_storage_bytes(p_.d.dtype);
        place.columns = static_cast<int>(min(max(p_.n - c, int64_t{0}), int64_t{4}));
        place.bias = bias_of_rows + r * 4;
        const int rows = place.columns > 0 ? static_cast<int>(min(row_end() - col, int64_t{kColumns})) - r : 0;
#pragma unroll 1
        for (int piece = 0; piece < kPieces; ++piece) {
            meet();  // The strips have been read.
            if (piece == 0) {
                write_wide<0>(sums);
            } else if (piece == 1) {
                write_wide<1>(sums);
            } else if (piece == 2) {
                write_wide<2>(sums);
            } else {
                write_wide<3>(sums);
            }
            meet();
            const int here = rows - piece * kPieceRows;
            const uint32_t from = strip() + r * 256 + (((quad() / 2) ^ warp()) << 5) + (quad() & 1) * 16;
#pragma unroll 1
            for (int round = 0; round < kPieceRows / kRoundRows; round += kRounds) {
                if (piece * kPieceRows + round * kRoundRows >= kColumns) break;
                store_rounds(place, from + round * (kRoundRows * 256), here - round * kRoundRows);
            }
        }
    }

    // Writes a piece in float32 to the strips: 64 columns of D a row, groups of eight of them swizzled by the pair of rows.
    template <int kPiece>
    __device__ __forceinline__ void write_wide(const float (&sums)[kColumns / 2]) const {
        constexpr int kFirst = kPiece * kPieceRows, kHere = kColumns - kFirst < kPieceRows ? kColumns - kFirst : kPieceRows;
        const uint32_t row = strip() + lane() % 4 * 512 + lane() / 4 * 4;
        const uint32_t to[2] = {row + (((warp() * 2) ^ (lane() % 4)) << 5), row + (((warp() * 2 + 1) ^ (lane() % 4)) << 5)};
#pragma unroll
        for (int i = 0; i < kHere / 8; ++i) {
#pragma unroll
            for (int v = 0; v < 4; ++v) {  // Two rows of D of one column, then of the column eight further.
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(to[v / 2] + i * 2048 + v % 2 * 256), "f"(sums[kFirst / 2 + 4 * i + v])
                             : "memory");
            }
        }
    }

    static constexpr int kRoundRows = 8, kRounds = kPieceRows / 16;  // Rows of D a round; rounds whose loads are under way together.
    struct Place {
        const char *c;
        char *d;        // Where this lane reads and writes next, eight rows further from round to round.
        uint32_t bias;  // In shared memory, likewise.
        int columns;    // Of its four, that D has.
    };
    // A lane's four columns of some rows of D. `rows`: where the lane's rows of D end, counted from its first.
    __device__ __forceinline__ void store_rounds(Place &place, uint32_t from, int rows) const {
        const bool whole = p_.vectorised != 0;
        const int64_t next_c = kRoundRows * p_.c.row * gemm_storage_bytes(p_.c.dtype);
        const int64_t next_d = kRoundRows * p_.d.row * gemm_storage_bytes(p_.d.dtype);
        float old[kRounds][4] = {};
        if ((p_.fused & kFusedC) != 0) {
#pragma unroll
            for (int i = 0; i < kRounds; ++i, place.c += next_c) {
                if (i * kRoundRows >= rows) continue;
                if (whole) {
                    gemm_read_vector(old[i], place.c, 0, p_.c.dtype);
                } else {
#pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        if (v < place.columns) old[i][v] = gemm_read<float>(place.c, v, p_.c.dtype);
                    }
                }
            }
        }
        float value[kRounds][4];
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
            const GemmFour four = load_four(from + i * (kRoundRows * 256));
            const uint32_t bits[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int v = 0; v < 4; ++v) value[i][v] = p_.alpha * __uint_as_float(bits[v]);
        }
        if ((p_.fused & kFusedC) != 0) {
            for_each(value, [&](float &x, int i, int v) { x = fused_multiply_add(p_.beta, old[i][v], x); });
        }
        if ((p_.fused & kFusedBiasColumns) != 0) {
            for_each(value, [&](float &x, int, int v) { x += bias_value(p_.bias, bias_[v]); });
        } else if ((p_.fused & kFusedBiasRows) != 0) {
#pragma unroll
            for (int i = 0; i < kRounds; ++i) {
                if (i * kRoundRows >= rows) continue;
                float bias;
                asm volatile("ld.shared.f32 %0, [%1];" : "=f"(bias) : "r"(place.bias + i * (kRoundRows * 4)) : "memory");
#pragma unroll
                for (float &x : value[i]) x += bias;
            }
        }
        with_activation(p_.activation,
                        [&](auto kind) { for_each(value, [](float &x, int, int) { x = fast_activate<decltype(kind)::value>(x); }); });
        const bool is_wide = p_.way == kGemmFloats;
#pragma unroll
        for (int i = 0; i < kRounds; ++i, place.d += next_d) {
            if (i * kRoundRows >= rows) continue;
            if (is_wide) {
                store_wide(place.d, value[i], whole ? 0 : place.columns);
            } else {
                store_narrow(place.d, value[i], whole ? 0 : place.columns);
            }
        }
        place.bias += kRounds * kRoundRows * 4;
    }
    template <class Step>
    static __device__ __forceinline__ void for_each(float (&values)[kRounds][4], const Step &step) {
#pragma unroll
        for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int v = 0; v < 4; ++v) step(values[i][v], i, v);
        }
    }

    // Four neighbours of a row of D, or, where `columns` is not 0, so many one by one.
    static __device__ __forceinline__ void store_wide(char *to, const float (&x)[4], int columns) {
        if (columns == 0) {
            store_four(to, {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])});
            return;
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (v < columns) reinterpret_cast<float *>(to)[v] = x[v];
        }
    }
    static __device__ __forceinline__ void store_narrow(char *to, const float (&x)[4], int columns) {
        const uint32_t pair[2] = {narrow_pair<Element>(x[0], x[1]), narrow_pair<Element>(x[2], x[3])};
        if (columns == 0) {
            asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(pair[0]), "r"(pair[1]) : "memory");
            return;
        }
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (v < columns) reinterpret_cast<uint16_t *>(to)[v] = static_cast<uint16_t>(pair[v / 2] >> v % 2 * 16);
        }
    }

    const GemmArguments &p_;
    const uint32_t strips_;
    unsigned thread_ = 0;              // Set again for every tile, as in GemmStore.
    uint32_t bias_[4] = {0, 0, 0, 0};  // Of the lane's four columns of D, or [0] of a row of D.
    uint32_t late_[kLate];             // Left for later: rows of D that the strips do not hold, in pairs,
    uint16_t *to_ = nullptr;           // where this lane stores next,
    int rows_ = 0;                     // and how many rows of D there are from its first on.
    bool pending_ = false;
    int32_t group_end_ = 0;
};

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
// The epilogue: from a warpgroup's sums to D, in one of four ways. Narrow: the sums are narrowed and pass through a strip of shared memory
// that each warp has, so that whole lines are stored. Wide: four bytes an element (wide_store.cuh). General: each warp passes 16 rows by up
// to 64 columns of sums through its strip, so that neighbouring lanes hold neighbours of a row of D, and applies bias, C and activation.
// Split: the same, after all blocks of the cluster have left their sums in shared memory; each block adds in order of rank, and stores a
// share of the tile. Kernels that fuse (GemmEnd) have the first two, after what is done to the sums in registers (fuse.cuh).
#pragma once

#include "gemm/epilogue.h"
#include "gemm/sm90/arguments.h"
#include "gemm/sm90/fuse.cuh"
#include "gemm/sm90/residues.cuh"
#include "gemm/sm90/wide_store.cuh"
#include "sm90/cluster.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

template <class Config>
class GemmStore {
    static constexpr int kColumns = Config::kColumns;
    static constexpr int kStripRows = 16;
    static constexpr int kStripColumns = kColumns < 64 ? kColumns : 64;
    static constexpr int kStrips = kColumns / kStripColumns;
    static_assert(kStripRows * kStripColumns * 4 <= kGemmStripBytes, "a warp's strip");

  public:
    // All threads of the consumer warpgroups construct and call it together.
    __device__ __forceinline__ GemmStore(const GemmArguments &p, uint32_t strips, uint32_t stages, uint32_t rank)
        : p_(p), fusion_(p, strips), strips_(strips), stages_(stages), rank_(rank) {}

    // Before a tile's first product. row and col: the tile's first, in the tile's own orientation.
    __device__ __forceinline__ void begin(uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        if constexpr (Config::kEnd == GemmEnd::kFused) fusion_.begin(batch_x, batch_y, row, col);
    }

    // After its last. If pending() is true afterwards, the sums are not stored yet.
    __device__ __forceinline__ void tile(float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        thread_ = fresh_thread();
        if constexpr (Config::kEnd == GemmEnd::kGeneral) {
            general(sums, batch_x, batch_y, row, col);
        } else if constexpr (Config::kEnd == GemmEnd::kFused) {
            fused(sums, batch_x, batch_y, row, col);
        } else if constexpr (kColumns >= 64) {  // Narrower ones leave by halves.
            leave(sums, p_.alpha, batch_x, batch_y, row, col, Left::kLines);
        }
    }

    // The same of sums of 8-bit floats, which are scaled first.
    __device__ __forceinline__ void tile_of_floats8(float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row,
                                                    int64_t col) {
        thread_ = fresh_thread();
        fusion_.scale(sums, sums, row, col);
        fused(sums, batch_x, batch_y, row, col);
    }

    // The same of exact sums, which scales or nothing are applied to.
    __device__ __forceinline__ void tile_of_integers(const int32_t (&whole)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row,
                                                     int64_t col) {
        thread_ = fresh_thread();
        if constexpr (Config::kResidues) return store_residues<kColumns>(p_, whole, batch_x, batch_y, row, col);
        if (p_.d.dtype == ATTILE_I32) return gemm_store_wide<Config>(p_, whole, 1, batch_x, batch_y, row, col, warp_of_tile(), strips_);
        float sums[kColumns / 2];
        fusion_.scale(whole, sums, row, col);
        fused(sums, batch_x, batch_y, row, col);
    }

    // For two blocks of a cluster that share a tile's depth: each takes half of the columns. The other block writes its sums of those into
    // this block's strips, and the mbarrier `met` counts their bytes. Both blocks must have initialised their mbarriers.
    static constexpr int kHalf = kColumns / 4;  // Sums of a thread in half a tile.
    static constexpr uint32_t kHalfBytes = kHalf * Config::kRows * 2 * 4;
    __device__ __forceinline__ void halves(const float (&sums)[kColumns / 2], uint32_t met, uint32_t batch_x, uint32_t batch_y, int64_t row,
                                           int64_t col) {
        static_assert(kHalfBytes <= Config::kStripsBytes, "the strips hold the other's sums");
        using Element = typename Config::Element;
        thread_ = fresh_thread();
        const uint32_t strips = strips_ + (thread_ - kWarpgroupThreads) * 16;
        float own[kHalf];
#pragma unroll
        for (int i = 0; i < kHalf; i += 4) {
            float away[4];
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                own[i + v] = rank_ != 0 ? sums[kHalf + i + v] : sums[i + v];
                away[v] = rank_ != 0 ? sums[i + v] : sums[kHalf + i + v];
            }
            cluster_store_four(strips + i / 4 * (Config::kRows * 32), met, rank_ ^ 1, away);
        }
        const int first_row = warp_of_tile() * kStripRows + lane() / 4,
                  first_col = static_cast<int>(rank_) * (kColumns / 2) + lane() % 4 * 2;
        const float alpha = p_.alpha;
        const bool turned = p_.transposed != 0;
        const int64_t d_row = turned ? col + first_col : row + first_row, d_col = turned ? row + first_row : col + first_col;
        uint16_t *const d = static_cast<uint16_t *>(p_.d.data) + batch_x * p_.d.batch_x + batch_y * p_.d.batch_y + d_row * p_.d.row + d_col;
        const int rows = static_cast<int>(min(p_.m - d_row, int64_t{kColumns + Config::kRows}));
        const int cols = static_cast<int>(min(p_.n - d_col, int64_t{kColumns + Config::kRows}));
        barrier_wait(met, 0);
#pragma unroll
        for (int i = 0; i < kHalf; i += 4) {
            const GemmFour other = load_four(strips + i / 4 * (Config::kRows * 32));
            const float theirs[4] = {__uint_as_float(other.x), __uint_as_float(other.y), __uint_as_float(other.z),
                                     __uint_as_float(other.w)};
            float sum[4];  // Two addends: their order does not matter.
#pragma unroll
            for (int v = 0; v < 4; ++v) sum[v] = alpha * (own[i + v] + theirs[v]);
            const uint32_t upper = narrow_pair<Element>(sum[0], sum[1]), lower = narrow_pair<Element>(sum[2], sum[3]);
            if (!turned) {
                uint16_t *const to = d + i * 2;
                if (i * 2 < cols && rows > 0) *reinterpret_cast<uint32_t *>(to) = upper;
                if (i * 2 < cols && rows > 8) *reinterpret_cast<uint32_t *>(to + 8 * p_.d.row) = lower;
            } else {
                uint16_t *const to = d + i * 2 * p_.d.row;
                if (i * 2 < rows && cols > 0) to[0] = static_cast<uint16_t>(upper);
                if (i * 2 < rows && cols > 8) to[8] = static_cast<uint16_t>(lower);
                if (i * 2 + 1 < rows && cols > 0) to[p_.d.row] = static_cast<uint16_t>(upper >> 16);
                if (i * 2 + 1 < rows && cols > 8) to[p_.d.row + 8] = static_cast<uint16_t>(lower >> 16);
            }
        }
    }

    // Are there sums that tile() has left for later?
    __device__ __forceinline__ bool pending() const { return Config::kEnd != GemmEnd::kGeneral && kColumns >= 64 && left_ != Left::kNone; }
    // Stores them by pieces, with a call of `between` before each. At the end of a tile all multiprocessors store at once and would wait
    // for the L2 cache; beside the next tile's products they do not.
    template <class Between>
    __device__ __forceinline__ void store_late(const Between &between) {
        if constexpr (Config::kEnd != GemmEnd::kGeneral && kColumns >= 64) {
            between();
            store_piece<0>();
            if constexpr (kPieces > 1) {
                between();
                store_piece<1>();
            }
            if constexpr (kPieces > 2) {
                static_assert(kPieces == 4, "these shapes");
                between();
                store_piece<2>();
                between();
                store_piece<3>();
            }
            left_ = Left::kNone;
        }
    }

  private:
    // How narrowed sums leave for D.
    enum class Left { kNone, kLines, kWords };
    static constexpr int kPieces = kColumns / 64, kPlaces = 2;
    static constexpr int kLate = kPieces > kPlaces ? (kPieces - kPlaces) * 16 : 1;
    __device__ __forceinline__ uint32_t place(int piece) const {
        return strips_ + warp_of_tile() * kGemmStripBytes + piece % kPlaces * (kStripRows * 128);
    }

    // What is fused, then D narrow or in float32.
    __device__ __forceinline__ void fused(float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
        static_assert(Config::kEnd != GemmEnd::kFused || kColumns >= 64, "narrower tiles leave by the general way");
        if (p_.way == kGemmNarrow) {
            const float alpha = fusion_.template finish<true>(sums, batch_x, batch_y, row, col) ? 1.0f : p_.alpha;
            const bool in_lines = p_.wide != 0 && (col + kColumns <= p_.n || p_.n % 8 == 0);
            leave(sums, alpha, batch_x, batch_y, row, col, in_lines ? Left::kLines : Left::kWords);
        } else {
            const float alpha = fusion_.template finish<false>(sums, batch_x, batch_y, row, col) ? 1.0f : p_.alpha;
            gemm_store_wide<Config>(p_, sums, alpha, batch_x, batch_y, row, col, warp_of_tile(), strips_);
        }
    }
    // By the operation's epilogue, through strips of shared memory; the blocks of a cluster that share a depth add their sums there.
    __device__ __forceinline__ void general(const float (&sums)[kColumns / 2], uint32_t batch_x, uint32_t batch_y, int64_t row,
                                            int64_t col) const {
        const float alpha = p_.alpha;
        const int warp = warp_of_tile();
        GemmOrigin origin;
        const int64_t d_row = p_.transposed != 0 ? col : row, d_col = p_.transposed != 0 ? row : col;
        origin.set(p_, batch_x, batch_y, d_row, d_col, 0);
        const GemmEpilogue<float, GemmArguments, true, FastActivation> epilogue(p_, origin);
        const int rows = static_cast<int>(min(p_.m - d_row, int64_t{Config::kRows + kColumns}));
        const int cols = static_cast<int>(min(p_.n - d_col, int64_t{Config::kRows + kColumns}));
        if (p_.splits == 1) {
            const uint32_t strip = strips_ + warp * kGemmStripBytes;
#pragma unroll
            for (int i = 0; i < kStrips; ++i) {
                __syncwarp();  // The strip has been read.
                write_strip(strip, sums, i * kStripColumns);
                __syncwarp();
                emit(epilogue, origin, strip, warp * kStripRows, i * kStripColumns, rows, cols, alpha, 0);
            }
            return;
        }
        named_sync(1, Config::kRows * 2);  // All warpgroups' products are done, and the stages free.
        const uint32_t mine = stages_ + warp * (kStripRows * kColumns * 4);
#pragma unroll
        for (int i = 0; i < kStrips; ++i) write_strip(mine + i * (kStripRows * kStripColumns * 4), sums, i * kStripColumns);
        cluster_sync();
#pragma unroll 1
        for (int i = 0; i < kStrips; ++i) {
            emit(epilogue, origin, mine + i * (kStripRows * kStripColumns * 4), warp * kStripRows, i * kStripColumns, rows, cols, alpha,
                 warp * kStrips + i);
        }
        cluster_sync();
    }

    __device__ __forceinline__ int lane() const { return static_cast<int>(thread_ % kWarpThreads); }
    __device__ __forceinline__ int warp_of_tile() const {
        return static_cast<int>(thread_ / kWarpThreads) - kWarpgroupThreads / kWarpThreads;
    }

    // Where a strip holds a sum, in bytes. GemmFour neighbours along a row of D stay together; groups of four are swizzled so that rows
    // (columns) that are written at once lie in different banks.
    __device__ __forceinline__ uint32_t strip_at(int row, int col) const {
        if (p_.transposed != 0) return static_cast<uint32_t>(col * kStripRows + (((row >> 2) ^ (col >> 1 & 3)) << 2 | (row & 3))) * 4;
        constexpr int kSwizzle = kStripColumns == 64 ? 7 : 0;
        return static_cast<uint32_t>(row * kStripColumns + (((col >> 3) ^ (row & kSwizzle)) << 3 | (col & 7))) * 4;
    }

    __device__ __forceinline__ void write_strip(uint32_t strip, const float (&sums)[kColumns / 2], int first_col) const {
        const int row = lane() / 4, col = lane() % 4 * 2;
#pragma unroll
        for (int i = 0; i < kStripColumns / 8; ++i) {
            const float *const from = sums + (first_col / 8 + i) * 4;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t to = strip + strip_at(row + 8 * half, 8 * i + col);
                if (p_.transposed == 0) {
                    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(from[2 * half]), "f"(from[2 * half + 1]) : "memory");
                } else {  // The next column is the next row of the strip.
                    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(from[2 * half]) : "memory");
                    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + kStripRows * 4), "f"(from[2 * half + 1]) : "memory");
                }
            }
        }
    }

    // The sum over the blocks of a cluster, in order of rank. All loads are issued before the first is used.
    template <int kSplits>
    static __device__ __forceinline__ void sum_of_splits(float (&sum)[4], uint32_t address) {
        float4 part[kSplits];
#pragma unroll
        for (int block = 0; block < kSplits; ++block) part[block] = cluster_load(address, block);
#pragma unroll
        for (int block = 0; block < kSplits; ++block) {
            const float four[4] = {part[block].x, part[block].y, part[block].z, part[block].w};
#pragma unroll
            for (int v = 0; v < 4; ++v) sum[v] = block == 0 ? four[v] : sum[v] + four[v];
        }
    }
    __device__ __forceinline__ void sum_four(float (&sum)[4], uint32_t address) const {
        if (p_.splits == 1) {
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                         : "r"(address)
                         : "memory");
        } else if (p_.splits == 2) {
            sum_of_splits<2>(sum, address);
        } else if (p_.splits == 3) {
            sum_of_splits<3>(sum, address);
        } else if (p_.splits == 4) {
            sum_of_splits<4>(sum, address);
        } else {
            static_assert(kGemmMaxSplits == 8, "the largest of these");
            sum_of_splits<8>(sum, address);
        }
    }

    // Stores one strip to D. row and col: its first in the tile. rows and cols: what D has from the tile's origin on. The blocks of a
    // cluster share the rounds among them.
    template <class Epilogue>
    __device__ __forceinline__ void emit(const Epilogue &epilogue, const GemmOrigin &origin, uint32_t strip, int row, int col, int rows,
                                         int cols, float alpha, int deal) const {
        const int d_row = p_.transposed != 0 ? col : row, d_col = p_.transposed != 0 ? row : col;
        const int width = p_.transposed != 0 ? kStripRows : kStripColumns;  // Of the strip's part of a row of D.
        if (p_.vectorised == 0 && p_.splits == 1) return emit_elements(epilogue, strip, d_row, d_col, rows, cols, alpha);
        constexpr int kVector = 4;
        const int across = width / kVector;
        const int rounds = kStripRows * kStripColumns / kVector / kWarpThreads;
        const int first = p_.splits > 1 ? (static_cast<int>(rank_) + deal * (p_.splits - 1) * rounds) % p_.splits : 0;
#pragma unroll 1
        for (int round = first; round < rounds; round += p_.splits) {
            const int index = round * kWarpThreads + lane();
            const int r = index / across, c = index % across * kVector;
            if (d_row + r >= rows || d_col + c >= cols) continue;
            const uint32_t from = strip + (p_.transposed == 0 ? strip_at(r, c) : strip_at(c, r));
            float value[4];
            sum_four(value, from);
#pragma unroll
            for (int v = 0; v < 4; ++v) value[v] *= alpha;
            if (p_.vectorised != 0 && p_.simple != 0) {  // A few instructions; the general epilogue has many, which may not be cached yet.
                gemm_write_vector(origin.d, (d_row + r) * p_.d.row + d_col + c, p_.d.dtype, value);
            } else if (p_.vectorised != 0) {
                epilogue.store_vector(d_row + r, d_col + c, value);
            } else {
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if (d_col + c + v < cols) epilogue.store(d_row + r, d_col + c + v, value[v]);
                }
            }
        }
    }

    // The same of single elements, where D or C is not in whole vectors. C of some rounds is on its way at once: one after the other, each
    // would wait for memory.
    template <class Epilogue>
    __device__ __forceinline__ void emit_elements(const Epilogue &epilogue, uint32_t strip, int d_row, int d_col, int rows, int cols,
                                                  float alpha) const {
        constexpr int kRounds = kStripRows * kStripColumns / kWarpThreads, kAtOnce = kRounds < 8 ? kRounds : 8;
        const int across = p_.transposed != 0 ? kStripRows : kStripColumns;  // Powers of 2.
        const int shift = 31 - __clz(across);
#pragma unroll 1
        for (int first = 0; first < kRounds; first += kAtOnce) {
            const auto element = [&](int i, const auto &take) {
                const int index = (first + i) * kWarpThreads + lane(), r = index >> shift, c = index & (across - 1);
                if (d_row + r < rows && d_col + c < cols) take(d_row + r, d_col + c);
            };
            float values[kAtOnce] = {};
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i)
                element(i, [&](int row, int col) {
                    const int r = row - d_row, c = col - d_col;
                    asm volatile("ld.shared.f32 %0, [%1];"
                                 : "=f"(values[i])
                                 : "r"(strip + (p_.transposed == 0 ? strip_at(r, c) : strip_at(c, r)))
                                 : "memory");
                    values[i] *= alpha;
                });
            epilogue.add_c(values, element);
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) element(i, [&](int row, int col) { epilogue.store_sum(row, col, values[i]); });
        }
    }

    // Where a lane writes its row of a pair of 8-column groups, the first of which is j.
    __device__ __forceinline__ uint32_t narrow_at(uint32_t row, int j) const { return row + (((j + (lane() >> 4)) ^ (lane() & 7)) << 4); }
    // Scales and narrows a pair of 8-column groups, from group j on, and writes it to a swizzled row of 128 bytes.
    __device__ __forceinline__ void write_narrow(uint32_t row, const float *s, int j, float alpha) const {
        using Element = typename Config::Element;
        store_matrices(narrow_at(row, j), narrow_pair<Element>(alpha * s[0], alpha * s[1]),
                       narrow_pair<Element>(alpha * s[2], alpha * s[3]), narrow_pair<Element>(alpha * s[4], alpha * s[5]),
                       narrow_pair<Element>(alpha * s[6], alpha * s[7]));
    }

    // Keeps a warp's narrowed sums for later, 64 columns at a time: in the halves of its strip, and the rest in registers.
    __device__ __forceinline__ void leave(const float (&sums)[kColumns / 2], float alpha, uint32_t batch_x, uint32_t batch_y, int64_t row,
                                          int64_t col, Left how) {
        using Element = typename Config::Element;
        const int warp = warp_of_tile(), r = how == Left::kLines ? lane() / 8 : 0, c = how == Left::kLines ? lane() % 8 * 8 : lane() * 2;
        rows_ = static_cast<int>(min(p_.m - row - warp * kStripRows, int64_t{kStripRows})) - r;
        cols_ = static_cast<int>(min(p_.n - col, int64_t{kColumns})) - c;
        to_ = static_cast<uint16_t *>(p_.d.data) + batch_x * p_.d.batch_x + batch_y * p_.d.batch_y +
              (row + warp * kStripRows + r) * p_.d.row + col + c;
        left_ = how;
        __syncwarp();  // The strip has been read.
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            if (i < kPlaces) {
#pragma unroll
                for (int j = 0; j < 8; j += 2) write_narrow(place(i) + (lane() & 15) * 128, sums + i * 32 + j * 4, j, alpha);
            } else {
#pragma unroll
                for (int j = 0; j < 16; ++j) {
                    const float *const two = sums + i * 32 + j * 2;
                    late_[(i - kPlaces) * 16 + j] = narrow_pair<Element>(alpha * two[0], alpha * two[1]);
                }
            }
        }
    }

    // Stores 64 columns to D: a lane takes 16 bytes, eight lanes a whole line.
    template <int kPiece>
    __device__ __forceinline__ void store_piece() {
        constexpr int kRoundRows = 4, kRounds = kStripRows / kRoundRows;
        if constexpr (kPiece >= kPlaces) {
            __syncwarp();  // The half of the strip has been read.
#pragma unroll
            for (int j = 0; j < 8; j += 2) {
                const uint32_t *const four = late_ + (kPiece - kPlaces) * 16 + j * 2;
                store_matrices(narrow_at(place(kPiece) + (lane() & 15) * 128, j), four[0], four[1], four[2], four[3]);
            }
        }
        __syncwarp();
        if constexpr (Config::kEnd == GemmEnd::kFused) {
            if (left_ == Left::kWords) return store_words<kPiece>();
        }
        const int r = lane() / 8;
        GemmFour part[kRounds];
#pragma unroll
        for (int round = 0; round < kRounds; ++round) {
            const int from = round * kRoundRows + r;
            part[round] = load_four(place(kPiece) + from * 128 + (((lane() % 8) ^ (from & 7)) << 4));
        }
        const int64_t next = kRoundRows * p_.d.row;
        uint16_t *to = to_ + kPiece * 64;
#pragma unroll
        for (int round = 0; round < kRounds; ++round) {
            if (round * kRoundRows < rows_ && kPiece * 64 < cols_) store_four(to, part[round]);
            to += next;
        }
    }

    // The same where D is not aligned, or its last columns do not fill 16 bytes: a word of four bytes a lane, neighbouring lanes
    // neighbouring words. In a row that begins between two words they begin an element before the 64 columns, in the strip's other half.
    template <int kPiece>
    __device__ __forceinline__ void store_words() const {
        static_assert(kPlaces == 2, "the other half has the piece before");
        constexpr int kRound = 4;  // Rows whose sums are read from the strip together.
        if (kPiece * 64 - lane() * 2 > cols_) return;
        const uint32_t word = place(kPiece) + lane() * 4, before = lane() > 0 ? word - 4 : place(kPiece + 1) + 124;
        uint16_t *to = to_ + kPiece * 64;
#pragma unroll 1
        for (int first = 0; first < rows_; first += kRound) {
            uint32_t own[kRound], last[kRound];
#pragma unroll
            for (int i = 0; i < kRound; ++i) {
                const uint32_t swizzle = ((first & 4) + i) << 4, row = (first + i) * 128;
                own[i] = load_word((word ^ swizzle) + row);
                last[i] = load_word((before ^ swizzle) + row);
            }
#pragma unroll
            for (int i = 0; i < kRound; ++i, to += p_.d.row) {
                const int odd = static_cast<int>(reinterpret_cast<uintptr_t>(to) >> 1 & 1);
                const int there = first + i < rows_ ? cols_ - kPiece * 64 + odd : 0;                // Columns of D from the word on.
                const bool begins = kPiece == 0 && odd != 0 && lane() == 0;                         // The word's first is not the tile's,
                const bool ends = kPiece == kPieces - 1 && odd != 0 && lane() == kWarpThreads - 1;  // or one more is.
                const uint32_t two = odd != 0 ? own[i] << 16 | last[i] >> 16 : own[i];
                if (there > 1 && !begins) *reinterpret_cast<uint32_t *>(to - odd) = two;
                if (there == 1 && !begins) to[-odd] = static_cast<uint16_t>(two);
                if (there > 1 && begins) to[0] = static_cast<uint16_t>(own[i]);
                if (there > 2 && ends) to[1] = static_cast<uint16_t>(own[i] >> 16);
            }
        }
    }
    static __device__ __forceinline__ uint32_t load_word(uint32_t from) {
        uint32_t word;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
        return word;
    }

    const GemmArguments &p_;
    GemmFusion<Config> fusion_;
    const uint32_t strips_, stages_, rank_;
    // Set again for every tile. Otherwise the compiler would compute the addresses of all kinds of stores before the first product; in a
    // kernel's first microseconds instructions come from memory, and each costs time.
    unsigned thread_ = 0;
    // Left for later: pairs of narrowed sums, where this lane stores, and how many rows and columns there are from there on.
    uint32_t late_[kLate];
    uint16_t *to_ = nullptr;
    int rows_ = 0, cols_ = 0;
    Left left_ = Left::kNone;
};

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
// Sums to a D of four bytes an element, float32 or int32. A thread has pairs of neighbours of two rows, as wgmma leaves them, and stores a
// pair at once. Where rows of D do not begin at multiples of 8 bytes it would take two stores, each of parts of sectors, which take the L2
// cache as long as whole ones; there sums pass through the warp's strip of shared memory, so that all lanes store neighbours of one row.
#pragma once

#include "gemm/sm90/arguments.h"
#include "mma/ptx.cuh"
#include "numeric.h"

namespace attile::gpu::sm90 {

template <class Config, class T>
class GemmWideStore {
    static constexpr int kColumns = Config::kColumns, kPairs = kColumns / 8, kStripRows = 16, kPiece = 64, kPair = 8;
    static_assert(kColumns % kPiece == 0, "narrower tiles leave by the general way");
    static_assert(kStripRows * kPiece * 4 <= kGemmStripBytes, "a warp's strip");

  public:
    // tile: where its first element lies in D, whose rows are `next` apart; rows and columns: of D from there on.
    __device__ __forceinline__ GemmWideStore(int64_t next, int64_t rows, int64_t columns, T *tile)
        : next_(next), rows_(rows), columns_(static_cast<int>(min(columns, int64_t{kColumns}))), tile_(tile) {}

    // warp: of the tile, of which it has 16 rows. strip: an address in shared memory.
    __device__ __forceinline__ void store(const T (&sums)[kColumns / 2], T alpha, int warp, uint32_t strip) const {
        const int first = warp * kStripRows, rows = static_cast<int>(min(rows_ - first, int64_t{kStripRows}));
        T *const to = tile_ + first * next_;
        if (((reinterpret_cast<uintptr_t>(tile_) | static_cast<uintptr_t>(next_ * 4)) & (kPair - 1)) != 0)
            store_through(sums, alpha, rows, to, strip);
        else if (rows == kStripRows && columns_ == kColumns)
            store_pairs<false>(sums, alpha, rows, to);
        else
            store_pairs<true>(sums, alpha, rows, to);
    }

  private:
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % mma::kWarpThreads; }

    template <bool kCuts>
    __device__ __forceinline__ void store_pairs(const T (&sums)[kColumns / 2], T alpha, int rows, T *to) const {
        const int row = lane() / 4, first = lane() % 4 * 2, columns = columns_ - first;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (kCuts && row + 8 * half >= rows) break;
            T *const line = to + (row + 8 * half) * next_ + first;
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                if (kCuts && 8 * i >= columns) break;
                const T value[2] = {alpha * sums[4 * i + 2 * half], alpha * sums[4 * i + 2 * half + 1]};
                if (kCuts && 8 * i + 1 >= columns) {
                    line[8 * i] = value[0];
                    break;
                }
                uint32_t bits[2];
                copy_bits(bits, value);
                asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(line + 8 * i)), "r"(bits[0]), "r"(bits[1])
                             : "memory");
            }
        }
    }

    // 64 columns at a time. Groups of eight are swizzled, so that the pairs of four rows, which are written at once, lie in different
    // banks.
    __device__ __forceinline__ void store_through(const T (&sums)[kColumns / 2], T alpha, int rows, T *to, uint32_t strip) const {
        const auto at = [&](int row, int column) { return strip + static_cast<uint32_t>(row * kPiece + (column ^ (row & 3) << 3)) * 4; };
        to += lane();
#pragma unroll
        for (int piece = 0; piece < kColumns / kPiece; ++piece) {
            __syncwarp();  // The strip has been read.
#pragma unroll
            for (int i = 0; i < kPiece / 8; ++i) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const T *const from = sums + (piece * (kPiece / 8) + i) * 4 + 2 * half;
                    const T value[2] = {alpha * from[0], alpha * from[1]};
                    uint32_t bits[2];
                    copy_bits(bits, value);
                    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at(lane() / 4 + 8 * half, 8 * i + lane() % 4 * 2)), "r"(bits[0]),
                                 "r"(bits[1])
                                 : "memory");
                }
            }
            __syncwarp();
            const int columns = columns_ - piece * kPiece - lane();
#pragma unroll 4
            for (int row = 0; row < rows; ++row) {
                T *const line = to + row * next_ + piece * kPiece;
#pragma unroll
                for (int c = 0; c < kPiece; c += mma::kWarpThreads) {
                    uint32_t bits;
                    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(bits) : "r"(at(row, c + lane())) : "memory");
                    if (c < columns) copy_bits(line[c], bits);
                }
            }
        }
    }

    const int64_t next_, rows_;
    const int columns_;
    T *const tile_;
};

// A tile whose first row and column of D these are. warp: of the tile; strips: those of its warps.
template <class Config, class T>
__device__ __forceinline__ void gemm_store_wide(const GemmArguments &p, const T (&sums)[Config::kColumns / 2], T alpha, uint32_t batch_x,
                                                uint32_t batch_y, int64_t row, int64_t col, int warp, uint32_t strips) {
    T *const tile = static_cast<T *>(p.d.data) + batch_x * p.d.batch_x + batch_y * p.d.batch_y + row * p.d.row + col;
    GemmWideStore<Config, T>(p.d.row, p.m - row, p.n - col, tile).store(sums, alpha, warp, strips + warp * kGemmStripBytes);
}

}  // namespace attile::gpu::sm90

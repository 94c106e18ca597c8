// SPDX-License-Identifier: Apache-2.0
// The tile scheduler and the producer of GEMM: which tiles a block makes, and the loads of their panels into shared memory.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/row_groups.cuh"
#include "gemm/sm90/arguments.h"
#include "gemm/sm90/block.cuh"
#include "numeric.h"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// What a block does at a time: a tile, or a part of its depth.
struct GemmWork {
    uint32_t tile;               // Of a cluster, if it shares a panel.
    int depth_first, depth_end;  // In blocks of kGemmDepth.
    bool is_part;
    template <class Config>
    __device__ __forceinline__ GemmWork(const GemmArguments &p, const GemmBlock<Config> &block, uint32_t unit)
        : tile(unit), depth_first(block.depth_first), depth_end(block.depth_end), is_part(unit >= p.whole) {
        if (!is_part) return;
        const uint32_t cut = quotient(unit - p.whole, p.parts);
        const int part = static_cast<int>(unit - p.whole - cut * p.parts.divisor);
        tile = p.whole + cut;
        depth_first = part * p.part_each + min(part, p.part_more);
        depth_end = depth_first + p.part_each + (part < p.part_more ? 1 : 0);
    }
};

// Where a tile lies.
struct GemmPlace {
    uint32_t a, b;  // Tiles along the rows and columns.
    uint32_t batch_x, batch_y;
    GemmPlace() = default;
    __device__ __forceinline__ GemmPlace(const GemmArguments &p, uint32_t tile, uint32_t rank) {
        const uint32_t batch = quotient(tile, p.entry), in_entry = tile - batch * p.entry.divisor;
        const uint32_t band = quotient(in_entry, p.band), in_band = in_entry - band * p.band.divisor;
        b = band < p.last_band ? quotient(in_band, p.rows) : quotient(in_band, p.last);
        a = band * p.rows.divisor + in_band - b * (band < p.last_band ? p.rows.divisor : p.last.divisor);
        batch_x = quotient(batch, p.batch_y);
        batch_y = batch - batch_x * p.batch_y.divisor;
        if (p.multicast > 1) {  // These are the tiles of all blocks that share a panel.
            const bool along_columns = p.shares_a != 0;
            a = along_columns ? a : a * kGemmMulticast + rank;
            b = along_columns ? b * kGemmMulticast + rank : b;
        }
    }
};

// A tile's first row and column, and where the rows of D end. Of groups of rows, which lie along the columns of turned tiles, a group's
// rows are cut into tiles of equal width; all tiles of a group come one after the other, those of the same rows of the tile together, so
// that they share the panel of the group's matrix in the L2 cache.
template <class Config>
struct GemmSite : GemmPlace {
    int32_t group_first, group_end, width;  // The tile's first row of D, where its rows end, and columns of it that are made.
    __device__ __forceinline__ GemmSite(const GemmArguments &p, uint32_t tile, uint32_t rank) {
        if constexpr (Config::kRowGroups) {
            const RowGroups &all = p.row_groups;
            const int32_t group = find_row_group(all, quotient(tile, p.of_group));
            const uint32_t first = static_cast<uint32_t>(all.first_tile[group]);
            const uint32_t tiles = static_cast<uint32_t>(all.first_tile[group + 1]) - first;
            const uint32_t in_group = tile - first * p.of_group.divisor;
            const int32_t first_row = all.first_row[group];
            const int32_t last_row = all.first_row[group + 1];
            a = in_group / tiles;
            width = gemm_width(static_cast<int>((static_cast<uint32_t>(last_row - first_row) + tiles - 1) / tiles));
            group_first = first_row + static_cast<int32_t>(in_group - a * tiles) * width;
            group_end = min(last_row, group_first + width);
            if (p.multicast > 1) a = a * kGemmMulticast + rank;  // They share the panel of the group's rows.
            batch_x = 0;
            batch_y = static_cast<uint32_t>(group);
        } else {
            static_cast<GemmPlace &>(*this) = GemmPlace(p, tile, rank);
        }
    }
    __device__ __forceinline__ int64_t row() const { return static_cast<int64_t>(a) * Config::kRows; }
    __device__ __forceinline__ int64_t col() const {
        if constexpr (Config::kRowGroups) return group_first;
        return static_cast<int64_t>(b) * Config::kColumns;
    }
};
// Of work. The tiles of groups are counted by the kernel ahead.
template <class Config>
__device__ __forceinline__ uint32_t gemm_units(const GemmArguments &p) {
    if constexpr (Config::kRowGroups) return static_cast<uint32_t>(p.row_groups.first_tile[p.row_groups.groups]) * p.of_group.divisor;
    return p.units;
}

// A tile's panels in the coordinates of the tensor maps. One thread loads them by TMA, a stage at a time, into shared memory at `to`; the
// mbarrier `full` counts the bytes.
template <class Config>
struct GemmPanels {
    static constexpr uint16_t kAll = (1 << kGemmMulticast) - 1;  // Blocks of a cluster that share a panel, a bit each.
    int row, col, ax, ay, bx, by;
    int width = Config::kColumns;  // Of B's panel, of groups of rows.

    GemmPanels() = default;
    // Makes the compiler compute them here, not where they are used.
    __device__ __forceinline__ void hold() const { asm volatile("" ::"r"(row), "r"(col), "r"(ax), "r"(ay), "r"(bx), "r"(by)); }
    __device__ __forceinline__ GemmPanels(const GemmArguments &p, uint32_t tile, uint32_t rank) {
        const GemmSite<Config> place(p, tile, rank);
        row = static_cast<int>(place.row());
        col = static_cast<int>(place.col());
        if constexpr (Config::kRowGroups) width = place.width;
        ax = static_cast<int>(place.batch_x) * p.a_batch_x;
        ay = static_cast<int>(place.batch_y) * p.a_batch_y;
        bx = static_cast<int>(place.batch_x) * p.b_batch_x;
        by = static_cast<int>(place.batch_y) * p.b_batch_y;
    }

    // Of a stage that loads into this block.
    __device__ __forceinline__ uint32_t bytes() const {
        if constexpr (Config::kRowGroups) return Config::kBytesA + static_cast<uint32_t>(width) * (kGemmDepth * 2);
        return Config::kStageBytes;
    }
    __device__ __forceinline__ void load_a(const GemmArguments &p, uint32_t to, uint32_t full, int depth) const {
#pragma unroll
        for (int i = 0; i < Config::kRows / kGemmPiece; ++i) {
            const int outer = row + i * kGemmPiece;
            tensor_load_4d(to + i * Config::kPieceBytes, &p.map_a, full, Config::kOuterA != 0 ? outer : depth,
                           Config::kOuterA != 0 ? depth : outer, ay, ax);
        }
    }
    __device__ __forceinline__ void load_b(const GemmArguments &p, uint32_t to, uint32_t full, int depth) const {
        if constexpr (Config::kRowGroups) {
            for (int i = 0; i < width; i += kGemmGroupPiece) {
                tensor_load_4d(to + i * (kGemmDepth * 2), &p.map_b, full, depth, col + i, by, bx);
            }
        } else if constexpr (Config::kTurned) {  // All rows at once.
            tensor_load_4d(to, &p.map_b, full, depth, col, by, bx);
        } else {
#pragma unroll
            for (int i = 0; i < Config::kPiecesB; ++i) {
                const int outer = col + i * kGemmPiece;
                tensor_load_4d(to + i * Config::kPieceBytes, &p.map_b, full, Config::kOuterB != 0 ? outer : depth,
                               Config::kOuterB != 0 ? depth : outer, by, bx);
            }
        }
    }
    // A share of A, half of each of its pieces, for all blocks of the cluster.
    __device__ __forceinline__ void load_share_of_a(const GemmArguments &p, uint32_t to, uint32_t full, int depth, uint32_t rank) const {
        constexpr int kHalf = kGemmPiece / kGemmMulticast;
        const int at = static_cast<int>(rank) * kHalf;
#pragma unroll
        for (int i = 0; i < Config::kRows / kGemmPiece; ++i) {
            const int outer = row + i * kGemmPiece;
            tensor_load_4d_multicast(to + i * Config::kPieceBytes + at * 128, &p.map_a, full, Config::kOuterA != 0 ? outer : depth,
                                     Config::kOuterA != 0 ? depth + at : outer + at, ay, ax, kAll);
        }
    }
    // A share of B, likewise; whole pieces where there are several, of a turned tile half of the rows.
    __device__ __forceinline__ void load_share_of_b(const GemmArguments &p, uint32_t to, uint32_t full, int depth, uint32_t rank) const {
        if constexpr (Config::kRowGroups) {  // Every other piece.
            for (int i = static_cast<int>(rank) * kGemmGroupPiece; i < width; i += kGemmMulticast * kGemmGroupPiece) {
                tensor_load_4d_multicast(to + i * (kGemmDepth * 2), &p.map_b, full, depth, col + i, by, bx, kAll);
            }
        } else if constexpr (Config::kTurned) {
            const int at = static_cast<int>(rank) * (Config::kColumns / kGemmMulticast);
            tensor_load_4d_multicast(to + at * 128, &p.map_b, full, depth, col + at, by, bx, kAll);
        } else if constexpr (Config::kPiecesB == 1) {  // Half a piece.
            constexpr int kHalf = kGemmPiece / kGemmMulticast;
            const int at = static_cast<int>(rank) * kHalf;
            tensor_load_4d_multicast(to + at * 128, &p.map_b, full, Config::kOuterB != 0 ? col : depth,
                                     Config::kOuterB != 0 ? depth + at : col + at, by, bx, kAll);
        } else {
#pragma unroll
            for (int i = 0; i < Config::kPiecesB / kGemmMulticast; ++i) {
                const int piece = static_cast<int>(rank) * (Config::kPiecesB / kGemmMulticast) + i;
                const int outer = col + piece * kGemmPiece;
                tensor_load_4d_multicast(to + piece * Config::kPieceBytes, &p.map_b, full, Config::kOuterB != 0 ? outer : depth,
                                         Config::kOuterB != 0 ? depth : outer, by, bx, kAll);
            }
        }
    }
};

// The first loads of a block's first tile, into all stages or as many as the depth fills; returns how many.
template <class Config>
__device__ __forceinline__ int gemm_fill(const GemmArguments &p, const GemmBlock<Config> &block, const GemmPanels<Config> &panels) {
    const GemmWork work(p, block, block.first_unit);
    const int filled = min(Config::kStages, work.depth_end - work.depth_first);
#pragma unroll 1
    for (int stage = 0; stage < filled; ++stage) {
        const int depth = (work.depth_first + stage) * kGemmDepth;
        barrier_arrive_expect(block.full(stage), Config::kStageBytes);
        panels.load_a(p, block.a(stage), block.full(stage), depth);
        panels.load_b(p, block.b(stage), block.full(stage), depth);
    }
    return filled;
}

// The producer's one thread: all loads of the block but the `filled` first ones.
template <class Config>
__device__ __forceinline__ void gemm_produce(const GemmArguments &p, const GemmBlock<Config> &block, int filled) {
    int stage = filled == Config::kStages ? 0 : filled;
    uint32_t parity = filled == Config::kStages ? 1 : 0;
#pragma unroll 1
    for (uint32_t unit = block.first_unit, units = gemm_units<Config>(p); unit < units; unit += block.units) {
        const GemmWork work(p, block, unit);
        const GemmPanels<Config> panels(p, work.tile, block.rank);
#pragma unroll 1
        for (int depth_block = work.depth_first + filled; depth_block < work.depth_end; ++depth_block) {
            const int depth = depth_block * kGemmDepth;
            barrier_wait(block.empty(stage), parity ^ 1);
            barrier_arrive_expect(block.full(stage), panels.bytes());
            if (Config::kColumns < kGemmPiece || !block.shares_a) {
                panels.load_a(p, block.a(stage), block.full(stage), depth);
            } else {
                panels.load_share_of_a(p, block.a(stage), block.full(stage), depth, block.rank);
            }
            if (Config::kColumns < kGemmPiece || !block.shares || block.shares_a) {
                panels.load_b(p, block.b(stage), block.full(stage), depth);
            } else {
                panels.load_share_of_b(p, block.b(stage), block.full(stage), depth, block.rank);
            }
            if (++stage == Config::kStages) {
                stage = 0;
                parity ^= 1;
            }
        }
        filled = 0;
    }
    // A block that shares a panel may not end before all arrivals of the other one's consumers are here. A relaxed barrier of the cluster
    // would not tell: it overtakes them where stores to memory hold them up.
    if (!block.shares) return;
#pragma unroll 1
    for (int i = 0; i < Config::kStages; ++i) {
        barrier_wait(block.empty(stage), parity ^ 1);
        if (++stage == Config::kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
}

}  // namespace attile::gpu::sm90

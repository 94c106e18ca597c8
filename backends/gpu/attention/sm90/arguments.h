// SPDX-License-Identifier: Apache-2.0
// The arguments of the sm_90a attention kernel, passed by value, and the shape of a tile. What all attention kernels are told is in
// AttentionParams.
#pragma once

#include <cstdint>

#include "attention/mma/task.h"
#include "tensor_map.h"

namespace attile::gpu::sm90 {

using namespace mma;

inline constexpr int kAttentionPanel = 64;       // Columns of an operand in shared memory: 128 bytes, the width of the swizzle.
inline constexpr int kAttentionStagedRows = 16;  // Of O that a warp stores by TMA at once.
inline constexpr int kAttentionSharedLimit = 227 * 1024;

struct AttentionArguments : AttentionTask {
    TensorMap map_q;  // Innermost axis first: column, head within the pack, row, pack of heads, batch entry.
    TensorMap map_k;  // Column, key, head, batch entry.
    TensorMap map_v;
    TensorMap map_o;  // Column, row, head, batch entry; where has_map_o: rows of whole O, of Q's type, one head's side by side.
    // 1 where a coordinate along the axis moves, 0 where the operand is broadcast along it or has one entry.
    int32_t q_batch, k_head, k_batch, v_head, v_batch, o_batch;
    int32_t has_map_o;
    int32_t page_rows;  // Paged: keys that are copied at a time, a whole page or a part of one; else 0.
    int32_t *counter;   // The next tile, zero at launch; null: block i takes tiles i, i + gridDim.x, and so on.
};

// A tile's shape; the kernel's shared memory follows from it.
struct AttentionShape {
    int depth;        // Most columns of Q and K; rounded up to whole panels in shared memory.
    int columns;      // Most columns of V; likewise.
    int keys;         // Of a tile.
    int warpgroups;   // Consumers, of 64 rows each; one producer warpgroup besides.
    int stages;       // Tiles of K, and of V, in shared memory.
    bool ping_pong;   // Warpgroups issue their products one after the other.
    bool apart;       // A warpgroup lets the next one go on when its scores are there, and issues the product with V after that.
    bool run_on;      // The first product of the next tile is issued with the last of this one; Q has two stages then.
    bool prediction;  // Steps may go without maxima; see attention/mma/softmax.cuh.
    bool modifies;    // Scores pass through more than a mask.
    int producer_registers, consumer_registers;

    constexpr int rows() const { return 64 * warpgroups; }
    constexpr int threads() const { return 128 * (warpgroups + 1); }
    constexpr int q_stages() const { return run_on ? 2 : 1; }
    constexpr int q_bytes() const { return rows() * panels(depth) * kAttentionPanel * 2; }
    constexpr int k_bytes() const { return keys * panels(depth) * kAttentionPanel * 2; }
    constexpr int v_bytes() const { return keys * panels(columns) * kAttentionPanel * 2; }
    // O goes out through shared memory; of other shapes there is no room, or nothing to gain.
    constexpr bool stages_o() const { return !modifies && warpgroups > 1 && depth == columns && (depth == 64 || depth == 128); }
    constexpr int o_bytes() const { return stages_o() ? rows() * columns * 2 : 0; }
    // Work tiles, Q, K, V, O and mbarriers, and what aligning Q to 1024 bytes may take.
    constexpr int plain_bytes() const { return 1024 + q_stages() * q_bytes() + stages * (k_bytes() + v_bytes()) + o_bytes() + 768; }
    // For a bias or boolean mask, one float for each score of a tile, where there is room.
    constexpr int strip_bytes() const {
        return modifies && plain_bytes() + rows() * keys * 4 <= kAttentionSharedLimit ? rows() * keys * 4 : 0;
    }
    constexpr int shared_bytes() const { return plain_bytes() + strip_bytes(); }
    static constexpr int panels(int width) { return (width + kAttentionPanel - 1) / kAttentionPanel; }
};

}  // namespace attile::gpu::sm90

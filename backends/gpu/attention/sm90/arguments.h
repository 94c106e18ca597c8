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
inline constexpr int kAttentionStripStages = 2;
inline constexpr int kAttentionSharedLimit = 227 * 1024;

struct AttentionArguments : AttentionTask {
    TensorMap map_q;  // Innermost axis first: column, head within the pack, row, pack of heads, batch entry.
    TensorMap map_k;  // Column, key, head, batch entry.
    TensorMap map_v;
    TensorMap map_o;  // Column, row, head, batch entry; where has_map_o: rows of whole O, of Q's type, one head's side by side.
    // 1 where a coordinate along the axis moves, 0 where the operand is broadcast along it or has one entry.
    // Bias: key, head within the pack, row, pack of heads, batch entry. A mask of bytes alike, two keys an element. Of kernels that load
    // strips.
    TensorMap map_scores;
    int32_t q_batch, k_head, k_batch, v_head, v_batch, o_batch, scores_head, scores_batch;
    int32_t has_map_o;
    int32_t page_rows;    // Paged: keys that are copied at a time, a whole page or a part of one; else 0.
    Divider scores_pack;  // So many rows of a tile, heads of a pack that share a bias or mask, have one row of a strip.
    int32_t *counter;     // The next tile, zero at launch; null: block i takes tiles i, i + gridDim.x, and so on.
};

// A tile's shape; the kernel's shared memory follows from it.
struct AttentionShape {
    int depth;        // Most columns of Q and K, of 8 bits half as many; rounded up to whole panels in shared memory.
    int columns;      // Most columns of V; likewise.
    int keys;         // Of a tile.
    int warpgroups;   // Consumers, of 64 rows each; one producer warpgroup besides.
    int stages;       // Tiles of K, and of V, in shared memory.
    bool ping_pong;   // Warpgroups issue their products one after the other.
    bool apart;       // A warpgroup lets the next one go on when its scores are there, and issues the product with V after that.
    bool run_on;      // The first product of the next tile is issued with the last of this one; Q has two stages then.
    bool prediction;  // Steps may go without maxima; see attention/mma/softmax.cuh.
    bool modifies;    // Scores pass through more than a mask. If none of the next four is set, through all that the problem says.
    bool bias_only, allowed_only, alibi_only, softcap_only;
    bool paged;   // K and V lie in pages, which kernels that modify scores find themselves.
    bool sparse;  // There is a mask of blocks or of a tree, and nothing else that modifies scores.
    bool bytes;   // Q, K and V have 8 bits; V lies transposed (attention/sm90/transpose.cuh), as such products want it.
    int producer_registers, consumer_registers;

    constexpr int rows() const { return 64 * warpgroups; }
    constexpr int threads() const { return 128 * (warpgroups + 1); }
    // Its lanes look up pages, or which blocks a mask shows.
    constexpr bool producer_is_warp() const { return paged || sparse; }
    constexpr int q_stages() const { return run_on ? 2 : 1; }
    constexpr int q_bytes() const { return rows() * panels(depth) * kAttentionPanel * 2; }
    constexpr int k_bytes() const { return keys * panels(depth) * kAttentionPanel * 2; }
    constexpr int v_bytes() const {
        return bytes ? columns * panels(keys / 2) * kAttentionPanel * 2 : keys * panels(columns) * kAttentionPanel * 2;
    }
    // Of a thread's probabilities, in registers.
    constexpr int p_words() const { return bytes ? keys / 8 : keys / 4; }
    // O goes out through shared memory; of other shapes there is no room, or nothing to gain.
    constexpr bool stages_o() const {
        return (!modifies || (is_fused() && !(bias_only && depth > 64))) && warpgroups > 1 &&
               (bytes ? columns <= 128 : depth == columns && (depth == 64 || depth == 128));
    }
    constexpr int o_bytes() const { return stages_o() ? rows() * columns * 2 : 0; }
    // Work tiles, Q, K, V, O and mbarriers, and what aligning Q to 1024 bytes may take.
    constexpr int plain_bytes() const { return 1024 + q_stages() * q_bytes() + stages * (k_bytes() + v_bytes()) + o_bytes() + 768; }
    // One change of scores, known to the kernel: attention/sm90/fused.cuh.
    constexpr bool is_fused() const { return bias_only || allowed_only || alibi_only || softcap_only; }
    // Of a bias or a boolean mask that the producer loads, in stages, a tile's strip each.
    constexpr bool loads_strips() const { return bias_only || allowed_only; }
    constexpr int fused_strip_bytes() const {
        return bias_only ? rows() * keys * 2 : allowed_only ? rows() * panels(keys / 2) * kAttentionPanel * 2 : 0;
    }
    // For a bias or boolean mask, one float for each score of a tile, where there is room.
    constexpr int strip_bytes() const {
        if (is_fused()) return kAttentionStripStages * fused_strip_bytes();
        return modifies && plain_bytes() + rows() * keys * 4 <= kAttentionSharedLimit ? rows() * keys * 4 : 0;
    }
    // ALiBi's operand, which has distances within a tile (fused.cuh).
    constexpr int distances_bytes() const { return alibi_only ? keys * kAttentionPanel * 2 : 0; }
    constexpr int shared_bytes() const { return plain_bytes() + strip_bytes() + distances_bytes(); }
    static constexpr int panels(int width) { return (width + kAttentionPanel - 1) / kAttentionPanel; }
};

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
// Attention by tiles: O = softmax(Q K^T) V for a block of rows of one head, K and V streaming through shared memory in chunks, Q in it for
// as long as the block lives. Tiles, budget and bound: attention/simt/configs.h. Record: docs/kernels/attention-simt.md.
#pragma once

#include "attention/output.h"
#include "attention/simt/tile_steps.cuh"

namespace attile::gpu::simt {

template <class C, AttentionKind kKind>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, blocks_per_unit<C>(kKind)) attention_tile_kernel(const AttentionParams p) {
    using Steps = TileSteps<C, kKind>;
    using Shape = AttentionShape<C>;
    using Lanes = typename Shape::Lanes;
    using Start = typename Steps::Start;
    using Loader = TileLoader<C, kKind>;
    constexpr bool kPlain = Steps::kPlain, kModifiers = Steps::kModifiers;
    constexpr int kBlockRows = Shape::kBlockRows, kBlockKeys = Shape::kBlockKeys, kGroupRows = Lanes::kGroupRows;
    constexpr int kKeyStore = Shape::kSharedFloats + Start::kSharedFloats;
    constexpr int kEndStore = kKeyStore + KeyStream<C, kKind>::FirstStore::kSharedFloats;
    using EndStore = LaneStore<C, int, C::kFewRegisters && is_single(kKind)>;
    constexpr int kSharedFloats = kEndStore + EndStore::kSharedFloats;
    static_assert(kSharedFloats * sizeof(float) <= 49152 && Shape::kSharedFloats % 4 == 0, "48 KB, and aligned stores");
    alignas(16) __shared__ float shared[kSharedFloats];

    // ---- What this block does, and where things lie in shared memory, in floats.
    const AttentionBlock block(p, kBlockRows, AttentionKindTag<kKind>{});
    if (block.first_row >= block.rows) return;
    const int lane_row = Lanes::lane_row(lane_index()), lane_col = Lanes::lane_col(lane_index());
    const int query_at = lane_group_index() * kGroupRows + lane_row * 4;  // [depth][kBlockRows]
    int buffer = Shape::kQueries, strip = Shape::kQueries + 2 * Shape::kChunk + lane_group_index() * 2 * Shape::kStrip;

    // ---- A lane's numbers.
    KeyStream<C, kKind> keys(KeyRows<kKind>(p, block, p.k, p.head_dim), shared + kKeyStore);
    ValueStream<C, kKind> values(KeyRows<kKind>(p, block, p.v, p.head_dim_v), block.place.first_tile(p) * kBlockKeys);
    typename Loader::Stage stage;
    const Loader loader = {shared, keys, values, stage};
    uint32_t state = block.first_row + lane_group_index() * kGroupRows < block.rows ? 0 : Steps::kNoRows;
    typename Steps::Scores score;
    typename Steps::Output out;
    typename Steps::Rows kept_reference, sum, tile_sum;
    const TilePhases walk(p, block, kBlockRows, kBlockKeys);
    const Start scores_start(p, block, shared + Shape::kSharedFloats);
    const TileReferences<C> references = {shared, query_at, kept_reference};
    typename TileFragments<C>::A a;
    typename TileFragments<C>::B b;
    const TileFragments<C> fragments = {shared, lane_row, lane_col, query_at, buffer, a, b};
    const Steps steps(p, shared, scores_start, loader, fragments, references, buffer, strip, state, score, out, kept_reference, sum,
                      tile_sum);

    steps.begin(block, walk);
    int tile = kPlain ? block.place.first_tile(p) : walk.first;
    EndStore phase_end(shared + kEndStore);
    phase_end.set(kPlain ? min(block.entry.len_k / kBlockKeys, block.place.end_tile(p)) : tile);
    loader.fetch(tile * kBlockKeys);
    scores_start.load_first(p, tile * kBlockKeys, score);
    load_queries<C>(p, block, shared);  // Scaled, depth-major, for as long as the block lives.
    steps.begin_tile();

    const int depth_chunks = p.depth / C::kChunkDepth;
#pragma unroll 1
    for (;; ++tile) {
        const int next = tile;
        if constexpr (kModifiers)
            if (p.block_mask.data) tile = steps.shown_tile(tile);
        bool is_end = kPlain && tile == phase_end.get();
        if (!kPlain && same_in_wave(kModifiers ? tile >= phase_end.get() : tile == phase_end.get())) {
            // A new phase: as many tiles as every row sees all of, or the others before or after them.
            const TilePhases phases(p, AttentionBlock(p, kBlockRows, AttentionKindTag<kKind>{}), kBlockRows, kBlockKeys);
            is_end = tile >= phases.end;
            if (!kSparesRegisters && is_end) break;  // Left from here, AMD's compilers keep two copies of O over the loop.
            state = !phases.is_full(tile) ? state | Steps::kMasked : state & ~Steps::kMasked;
            phase_end.set(phases.phase_end(tile));
        }
        if (is_end) break;
        if (kModifiers && tile != next) steps.go_to(tile * kBlockKeys);
        const int first_key = tile * kBlockKeys;
        if (!kPlain && same_in_wave(wave_any((state & (Steps::kMasked | Steps::kNoRows)) != 0))) {
            if (same_in_wave(steps.sees_none(first_key))) {
                steps.pass_tile(first_key, depth_chunks);
                continue;
            }
        }
        if (kModifiers) TileModifiers<C>(p, first_key).prefetch();

        const bool late = Start::kLate && (state & Steps::kFirst) != 0;
        steps.multiply_keys(first_key, depth_chunks, late);

        typename Steps::Rows minus_reference;
        steps.modify(first_key, minus_reference);
        const float top = steps.largest(minus_reference);
        constexpr uint32_t kLooks = kModifiers ? Steps::kUnset : Steps::kUnset | Steps::kMasked | Start::kFar;
        const bool needs = lane_any((state & kLooks) != 0 || top > kRescaleAbove);
        if (wave_any(needs))
            steps.raise_references(first_key, needs, late, top, minus_reference);
        else if (kModifiers)
            steps.add_references(minus_reference);

        steps.multiply_values(first_key, tile, phase_end.get());
    }

    // ---- O and lse.
    typename Steps::Rows minus_reference;
    references.get(minus_reference);
#pragma unroll
    for (int i = 0; i < C::kRows; ++i) sum[i] = Lanes::fold_row(sum[i], [](float x, float y) { return x + y; });
    if constexpr (Start::kLifts) Start::spoil_small_sums(state, sum, out);
    block_sync_counted<C::kThreads, kPlain>();  // O passes through where others read K, V and references.
    store_rows<C, kKind>(p, state, minus_reference, sum, out, shared);
}

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows over keys and values of 8 and 4 bits, on tensor cores: both products are mma.sync of float16, which holds
// every number of 8 bits exactly. SIMT's kernel (attention/simt/decode.cuh) widens each number and multiplies it for every row.
//
// Tile: eight rows, heads of a key head among them, of 64 or 128 columns; a warp takes steps of 16 or 32 keys, the warps of a block one
// after the other; split-KV goes as in SIMT's kernel. Numbers come out of a warp's stages by ldmatrix, as if they were of 16 bits: of K a
// lane has a word of neighbouring columns of a key, of V, transposed, neighbouring columns of two neighbouring keys, which is what an mma
// wants of its lanes, up to the order of columns. S and O are computed transposed: an mma's 16 rows are keys, or columns of V, its eight
// columns rows of Q; movmatrix transposes the probabilities. Lane 4 n + c: scores of keys n and n + 8, rows 2 c and 2 c + 1.
//
// Exactness, registers, bound (memory, from some 16000 keys on) and record: docs/kernels/attention-sm80.md.
#pragma once

#include "attention/sm80/decode_narrow_modify.cuh"
#include "attention/sm80/decode_narrow_products.cuh"
#include "early.h"

namespace attile::gpu::sm80 {

// The softmax of the lane's two rows over the keys so far.
template <class C>
struct NarrowSoftmax {
    using Products = NarrowProducts<C>;
    using Scores = typename Products::Scores;
    // Scores this far (in powers of two) above a row's reference make the reference move; probabilities stay within float16.
    static constexpr float kRaiseAbove = 8.0f, kUnset = C::kAny ? INFINITY : 0x1p100f;
    const typename Products::Factors &factors;
    // Minus the largest score, or a little less; of a row that saw no key kUnset. Of weights see Products::lift_weights().
    float minus_reference[2] = {kUnset, kUnset}, sum[2] = {}, lift[2] = {Products::kLargestLift, Products::kLargestLift};
    typename Products::Output out = {};
    typename Products::Biases biases = {};

    __device__ __forceinline__ explicit NarrowSoftmax(const typename Products::Factors &of_rows) : factors(of_rows) {}
    // A product as a score in units of log2.
    __device__ __forceinline__ float in_log2(float product, int r) const {
        return fused_multiply_add(product, factors.high[r], product * factors.low[r]);
    }
    // The same less the reference; kAny: of a product that modify() has made a score.
    __device__ __forceinline__ float relative(float product, int r) const {
        if constexpr (C::kAny) return product == -INFINITY ? -INFINITY : product + minus_reference[r];
        return fused_multiply_add(product, factors.high[r], fused_multiply_add(product, factors.low[r], minus_reference[r]));
    }
    // Products become scores in units of log2, with all that modifies and hides them. Returns: is one hidden?
    __device__ __forceinline__ bool modify(const NarrowModifiers<C> &modifiers, const typename NarrowModifiers<C>::Fetched &fetched,
                                           int first_key, bool is_whole, Scores &product, Scores &score) const {
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int e = 0; e < 4; ++e) product[b][e] = in_log2(product[b][e], e % 2);
        modifiers.apply(fetched, first_key, is_whole, product);
        bool vanishes = false;
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                score[b][e] = relative(product[b][e], e % 2);
                vanishes = vanishes || score[b][e] == -INFINITY;
            }
        return vanishes;
    }
    // Of products the relative scores, -inf of keys that a row does not see. Returns: are there any of these?
    __device__ __forceinline__ bool score_of(const DecodeRows<C> &at, const Products &products, int first_key, bool masked,
                                             const Scores &product, Scores &score) const {
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int e = 0; e < 4; ++e) score[b][e] = relative(product[b][e], e % 2);
        if (masked) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const KeyRange range = at.range_of(at.first_row + products.c * 2 + r);
#pragma unroll
                for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
                    for (int t = 0; t < 2; ++t)
                        if (!range.has(first_key + b * 16 + t * 8 + products.n)) score[b][t * 2 + r] = -INFINITY;
            }
        }
        bool vanishes = masked;
        if constexpr (C::kHasNan) {
#pragma unroll
            for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
                for (int e = 0; e < 4; ++e) vanishes = vanishes || score[b][e] == -INFINITY;
        }
        return vanishes;
    }
    static __device__ __forceinline__ bool needs_to_move(const Scores &score) {
        float highest = -INFINITY;
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int e = 0; e < 4; ++e) highest = fmaxf(highest, score[b][e]);
        return highest > kRaiseAbove;
    }
    __device__ __forceinline__ void move_references(const Scores &product, Scores &score) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float top = -INFINITY;
#pragma unroll
            for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
                for (int e = r; e < 4; e += 2)
                    if (score[b][e] != -INFINITY) top = fmaxf(top, C::kAny ? product[b][e] : in_log2(product[b][e], r));
#pragma unroll
            for (int lanes = 4; lanes < kLanes; lanes *= 2) top = fmaxf(top, shuffle_xor(top, lanes));
            const bool unset = minus_reference[r] == kUnset;
            const float before = -minus_reference[r], higher = top == -INFINITY ? before : unset ? top : fmaxf(top, before);
            const float factor = unset ? 1.0f : exp2_fast(before - higher);
            minus_reference[r] = -higher;
            sum[r] *= factor;
            Products::scale_output(out, biases, r, C::kByKey ? Products::relift(lift[r], factor) : factor);
#pragma unroll
            for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
                for (int e = r; e < 4; e += 2)
                    if (score[b][e] != -INFINITY) score[b][e] = relative(product[b][e], r);
        }
    }
    // Scores become probabilities. Of each 16 keys, bit 2 t + r of `seen`: row 2 c + r takes part of key n + 8 t.
    __device__ __forceinline__ void exponentiate(Scores &score, uint32_t (&seen)[C::kKeyBlocks]) {
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if constexpr (C::kHasNan) seen[b] |= (score[b][e] != -INFINITY ? 1u : 0u) << e;
                score[b][e] = exp2_fast(score[b][e]);
                sum[e % 2] += score[b][e];
            }
    }
    // ---- To shared memory, of all keys of the warp.
    __device__ __forceinline__ void keep(const DecodeOutput<C> &output, const Products &products, const uint8_t *poisoned) const {
        products.keep(output, out, biases, lift, poisoned);
        float total[2] = {sum[0], sum[1]};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
            for (int lanes = 4; lanes < kLanes; lanes *= 2) total[r] += shuffle_xor(total[r], lanes);
            if (products.n != 0) continue;
            float *const result = output.results + (output.at.group * C::kRows + products.c * 2 + r) * 2;
            // A row whose scores are NaN has no reference either, but its sum tells that it saw keys.
            result[0] = minus_reference[r] != kUnset ? -minus_reference[r] : total[r] == 0 ? -INFINITY : 0.0f;
            result[1] = total[r];
        }
    }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) attention_decode_narrow_kernel(const AttentionParams p) {
#if __CUDA_ARCH__ >= 800
    using Products = NarrowProducts<C>;
    extern __shared__ __align__(128) char shared[];
    uint8_t *const poisoned = reinterpret_cast<uint8_t *>(shared + C::kSharedBytes - C::kMarksBytes);
    const AttentionPlace place(p, blockIdx.x);
    // Lengths are in memory, which the kernel ahead may write; without them there is something to do meanwhile.
    const bool has_lengths = p.key_lengths || p.cu_len_q || p.cu_len_k || p.causal_offset;
    if (C::kAny || has_lengths) await_kernel_ahead(p);
    constexpr AttentionKind kKind = C::kAny ? AttentionKind::kModified : AttentionKind::kMasked;
    const AttentionEntry entry(p, place.batch, AttentionKindTag<kKind>{});
    const int rows = entry.len_q * static_cast<int>(p.pack.divisor);
    if (place.row_block * C::kRows >= rows) return;  // Of packed sequences, whose lengths were awaited.
    const DecodeRows<C> at(p, place, entry, rows);
    const NarrowStages<C> stages(at, shared);
    const Products products(at, stages);
    using Modifiers = std::conditional_t<C::kAny, NarrowModifiers<C>, NoNarrowModifiers>;
    const Modifiers modifiers(at);
    if constexpr (C::kHasNan) {
        for (int i = static_cast<int>(threadIdx.x); i < C::kMarksBytes; i += C::kThreads) poisoned[i] = 0;
        __syncthreads();
    }
    // The keys of this block, in steps of warps.
    const KeyRange first_range = at.range_of(at.first_row), last_range = at.range_of(at.first_row + C::kRows - 1);
    const int tile = first_range.low / C::kTile + place.split * p.split_tiles;  // Splits begin where the rows' window does.
    const int tile_end = min((last_range.high + C::kTile - 1) / C::kTile, tile + p.split_tiles);
    const int all_low = last_range.low, all_high = first_range.high;  // The keys that every row sees.

    int first_key = (tile * C::kGroups + at.group) * C::kStep;
    const int end_key = tile_end * C::kTile;
    if (!C::kAny && !has_lengths) await_kernel_ahead(p);
    typename Products::Stored stored;
    products.load_queries(stored);
    stages.begin_scales();
    stages.begin_pieces();
#pragma unroll
    for (int s = 0; s < C::kStages; ++s) {
        if (first_key + s * C::kTile < end_key) stages.copy(s, first_key + s * C::kTile);
        mma::copy_commit();
    }
    typename Products::Queries q;
    typename Products::Factors factors;
    products.take_queries(stored, q, factors);
    NarrowSoftmax<C> softmax(factors);

    int stage = 0;
#pragma unroll 1
    for (; first_key < end_key; first_key += C::kTile) {
        [[maybe_unused]] typename Modifiers::Fetched fetched;
        if constexpr (C::kAny) modifiers.fetch(first_key, fetched);
        mma::copy_wait<C::kStages - 1>();
        __syncwarp();
        const uint32_t from = stages.stage(stage);
        typename Products::Scores product, score, weights;
        if (Products::kIsBiased && factors.exact)
            products.template multiply_keys<true>(q, factors, from, product);
        else
            products.template multiply_keys<false>(q, factors, from, product);
        bool vanishes;
        const bool masked = first_key < all_low || first_key + C::kStep > all_high;
        if constexpr (C::kAny) {
            vanishes = softmax.modify(modifiers, fetched, first_key, !masked, product, score);
        } else {
            vanishes = softmax.score_of(at, products, first_key, masked, product, score);
        }
        if (lane_any(softmax.needs_to_move(score))) softmax.move_references(product, score);
        uint32_t seen[C::kKeyBlocks] = {};
        softmax.exponentiate(score, seen);
        bool carefully = C::kHasNan && (!kConvertsE4m3 || lane_any(vanishes));
        if constexpr (C::kByKey) {
            if (!products.weigh(score, from, softmax.lift, weights)) {
                products.lift_weights(score, from, softmax.lift, softmax.out, softmax.biases);
                if (!products.weigh(score, from, softmax.lift, weights)) carefully = true;
            }
        }
        const typename Products::Scores &used = C::kByKey ? weights : score;
        if (carefully)
            products.template multiply_values<true>(score, used, from, softmax.lift, softmax.out, softmax.biases, seen, poisoned);
        else
            products.template multiply_values<false>(score, used, from, softmax.lift, softmax.out, softmax.biases, seen, poisoned);
        __syncwarp();
        const int next_key = first_key + C::kStages * C::kTile;
        if (next_key < end_key) stages.copy(stage, next_key);
        mma::copy_commit();
        stage = stage + 1 == C::kStages ? 0 : stage + 1;
    }
    mma::copy_wait<0>();
    __syncthreads();  // Nobody reads stages or marks any more.
    const DecodeOutput<C> output(at, reinterpret_cast<float *>(shared));
    softmax.keep(output, products, poisoned);
    __syncthreads();
    output.template store<C::kAny>();
#endif
}

}  // namespace attile::gpu::sm80

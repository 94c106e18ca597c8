// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows (decode): K and V are streamed once, straight into registers, for all rows that share them; keys are split
// over blocks (split-KV) where there are fewer heads than the device runs at once, and attention_combine puts the parts together.
//
// Tile: one, four or eight rows and a step of keys a lane group; the eight groups of a block take steps in order, and put their results
// together in shared memory at the end. Registers: at most 128 where two blocks share a multiprocessor, no spills.
//
// Bound: memory, 2 FLOP a byte of K and V for each row. The next keys are loaded before this step's scores are summed, the next values
// after they were used: 64 KB are under way on a multiprocessor with two blocks of 256 threads. Record: docs/kernels/attention-simt.md.
#pragma once

#include <type_traits>

#include "attention/decode_output.h"
#include "attention/simt/decode_merge.cuh"
#include "attention/simt/decode_softmax.cuh"
#include "attention/simt/kernels.h"

namespace attile::gpu::simt {

// A lane group's results, to shared memory.
template <class C>
ATTILE_LANE_FN void keep_results(const DecodeOutput<C> &output, const float (&row_sum)[C::kRows], const float (&row_reference)[C::kRows],
                                 const float (&out)[C::kRows][C::kQuads * 4]) {
    constexpr int kRows = C::kRows;
    const DecodeRows<C> &at = output.at;
    if (at.key_col == 0) {
#pragma unroll
        for (int h = 0; h < C::kQuads; ++h) {
            const int col = C::quad_col(at.quad_lane, h);
            Quad scale = {{1, 1, 1, 1}};
            if constexpr (C::kHasScales) {
#pragma unroll
                for (int e = 0; e < 4; ++e) scale[e] = column_scale(at, at.p.v_scale, col + e, at.p.head_dim_v);
            }
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                Quad quad = {{out[r][h * 4], out[r][h * 4 + 1], out[r][h * 4 + 2], out[r][h * 4 + 3]}};
                if constexpr (C::kHasScales) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) quad[e] *= scale[e];
                }
                store_vec(output.outs + (at.group * kRows + r) * C::kCols + col, quad);
            }
        }
    }
    if (at.lane == 0) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            output.results[(at.group * kRows + r) * 2] = row_reference[r];
            output.results[(at.group * kRows + r) * 2 + 1] = row_sum[r];
        }
    }
}

// Floats of shared memory: strips of probabilities, then the groups' results, then what putting splits together wants.
template <class C, bool kMerges>
inline constexpr int kDecodeFloats = [] {
    constexpr int kResults = C::kGroups * C::kRows * (C::kCols + 2), kStrips = C::kGroups * C::kStrip;
    constexpr int kOwn = kResults > kStrips ? kResults : kStrips;
    return kMerges && kDecodeMergeFloats<C> > kOwn ? kDecodeMergeFloats<C> : kOwn;
}();

// kPlainRows: K and V in vectors, their rows' distance in 32 bits, no pages. kPlain: besides, no modified scores.
template <class C, bool kPlainRows, bool kPlain>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, (C::kHasScales && !kPlain ? 1 : C::kBlocksPerUnit)) decode_kernel(const DecodeParams p) {
    using Loader = DecodeLoader<C, kPlainRows>;
    using Softmax = DecodeSoftmax<C, kPlain>;
    constexpr int kTile = Loader::kTile, kHeld = C::kHeld;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr bool kMerges = false;  // Code that can bring up the kernel behind it early does (early.h).
#else
    constexpr bool kMerges = kPlain && decode_merges(std::is_same<typename C::Element, float>::value, C::kRows, C::kCols);
#endif
    alignas(16) __shared__ float shared[kDecodeFloats<C, kMerges>];
    static_assert(sizeof shared <= 49152, "48 KB");

    const AttentionPlace place(p, blockIdx.x);
    constexpr AttentionKind kKind = kPlain ? AttentionKind::kMasked : AttentionKind::kModified;
    const AttentionEntry entry(p, place.batch, AttentionKindTag<kKind>{});
    const int rows = entry.len_q * static_cast<int>(p.pack.divisor);
    if (place.row_block * C::kRows >= rows) return;
    const DecodeRows<C> at(p, place, entry, rows);

    // The keys of this block, in steps of lane groups.
    const KeyRange first_range = at.range_of(at.first_row), last_range = at.range_of(at.first_row + C::kRows - 1);
    const int tile = first_range.low / kTile + place.split * p.split_tiles;  // Splits begin where the rows' window does.
    const int tile_end = min((last_range.high + kTile - 1) / kTile, tile + p.split_tiles);
    const int all_low = last_range.low, all_high = first_range.high;  // The keys that every row sees.
    const Softmax softmax = {at, at.quad_lane / C::kCopies * kHeld};
    const typename Softmax::Rows held(at, softmax.first_score);
    // A lane's numbers. The compiler sees to registers in this order; others cost instances for bfloat16 up to four.
    typename Softmax::Output out = {};
    float row_sum[C::kRows], row_reference[C::kRows];  // Of the group, at the end.
    float sum[kHeld], minus_reference[kHeld];          // minus_reference: minus row_max, or a little less.
    bool unset[kHeld];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
        minus_reference[h] = sum[h] = 0;
        unset[h] = true;
    }
    Loader loader(at);
    float *const strip = shared + at.group * C::kStrip;  // Of probabilities, the group's own.
    typename Loader::Step keys, values;
    typename Loader::Scales key_scales, value_scales;
    int first_key = (tile * C::kGroups + at.group) * C::kStep;
    const int end_key = tile_end * kTile;
    loader.begin(first_key);
    if (first_key < end_key) {
        loader.load_keys(keys, key_scales, first_key);
        loader.load_values(values, value_scales, first_key);
        softmax.prefetch(held, first_key);
    }
    // The row block's word.
    const auto count = [&] { return p.counts + (entry.batch * p.heads.divisor + place.head) * p.row_blocks.divisor + place.row_block; };
    if (kMerges && p.counts && threadIdx.x == 0) open_decode_count(count(), p.call);
    typename Softmax::Output q;
    load_decode_queries(at, q);

#pragma unroll 1
    for (; first_key < end_key; first_key += kTile) {
        float score[C::kScores];
        softmax.multiply_keys(q, keys, key_scales, score);
        const uint32_t missing = loader.no_page;
        if (first_key + kTile < end_key) {
            loader.load_keys(keys, key_scales, first_key + kTile);
            softmax.prefetch(held, first_key + kTile);
        }
        softmax.add_lanes(score);
        const bool masked = (!kPlain && p.modifiers != 0) || first_key < all_low || first_key + C::kStep > all_high;
        bool hidden[kHeld];
        softmax.modify(held, masked, first_key, missing, score, hidden);
        bool needs = false, vanishes = false;
        softmax.look(score, minus_reference, unset, hidden, needs, vanishes);
        const bool skips = masked || lane_any(vanishes);
        if (lane_any(needs)) softmax.raise_references(score, minus_reference, sum, unset, out);
        softmax.exponentiate(score, hidden, minus_reference, sum, strip);
        lane_sync();
        if (skips)
            softmax.template multiply_values<true>(strip, values, value_scales, out);
        else
            softmax.template multiply_values<false>(strip, values, value_scales, out);
        lane_sync();
        if (first_key + kTile < end_key) loader.load_values(values, value_scales, first_key + kTile);
    }

    softmax.total(minus_reference, sum, unset, out, row_sum, row_reference);
    __syncthreads();
    const DecodeOutput<C> output(at, shared);
    keep_results(output, row_sum, row_reference, out);
    __syncthreads();
    output.template store<!kPlain>();
    if constexpr (kMerges) {
        if (!p.counts) return;
        __shared__ bool is_last;
#if defined(ATTILE_GPU_HIP)
        __threadfence();  // A barrier need not wait for what other waves store.
#endif
        __syncthreads();
        if (threadIdx.x == 0) is_last = is_last_arrival(count(), p.splits.divisor);
        __syncthreads();
        if (is_last) merge_decode_splits<C>(p, place, entry, at.first_row, rows, shared);
    }
}

template <class C>
AttentionDecodeKernel decode_instance(const char *name, AttentionStorage storage) {
    // Of 8 bits the kernel for any rows serves modified scores, too.
    constexpr bool kModifiedPlainRows = !C::kHasScales;
#if defined(ATTILE_GPU_EMULATED)
    emulation::know(&decode_kernel<C, false, false>);
    emulation::know(&decode_kernel<C, kModifiedPlainRows, false>);
    emulation::know(&decode_kernel<C, true, true>);
#endif
    return {name,
            reinterpret_cast<const void *>(&decode_kernel<C, false, false>),
            reinterpret_cast<const void *>(&decode_kernel<C, kModifiedPlainRows, false>),
            reinterpret_cast<const void *>(&decode_kernel<C, true, true>),
            storage,
            C::kRows,
            C::kCols,
            C::kStep,
            C::kThreads};
}

// Every instance for a type of K and V, whose loads for one row take this many elements at once.
template <class T, int kLoads>
struct DecodeInstances {
    AttentionDecodeKernel all[8];

    DecodeInstances(AttentionStorage storage, const char *const (&names)[8])
        : all{decode_instance<DecodeConfig<T, 16, 1, 1, kLoads>>(names[0], storage),
              decode_instance<DecodeConfig<T, 16, 1, 4, 4>>(names[1], storage),
              decode_instance<DecodeConfig<T, 16, 1, 8, 4>>(names[2], storage),
              decode_instance<DecodeConfig<T, 32, 1, 1, kLoads>>(names[3], storage),
              decode_instance<DecodeConfig<T, 32, 1, 4, 4>>(names[4], storage),
              decode_instance<DecodeConfig<T, 32, 1, 8, 4>>(names[5], storage),
              decode_instance<DecodeConfig<T, 32, 2, 1, 4>>(names[6], storage),
              decode_instance<DecodeConfig<T, 32, 2, 4, 2>>(names[7], storage)} {}
};
// Loads of a step of four rows of 8 bits: AMD's compilers put more into scratch memory.
#if defined(ATTILE_GPU_HIP)
inline constexpr int kDecodeByteLoads = 4;
#else
inline constexpr int kDecodeByteLoads = 8;
#endif
// The same for numbers of 8 bits; more rows than four are several blocks', for which there are no registers.
template <class T>
struct DecodeBytesInstances {
    AttentionDecodeKernel all[6];

    DecodeBytesInstances(AttentionStorage storage, const char *const (&names)[8])
        : all{decode_instance<DecodeConfig<T, 8, 2, 1, 8>>(names[0], storage),
              decode_instance<DecodeConfig<T, 8, 2, 4, 4>>(names[1], storage),
              decode_instance<DecodeConfig<T, 16, 2, 1, 8>>(names[3], storage),
              decode_instance<DecodeConfig<T, 16, 2, 4, kDecodeByteLoads>>(names[4], storage),
              decode_instance<DecodeConfig<T, 32, 2, 1, 8>>(names[6], storage),
              decode_instance<DecodeConfig<T, 32, 2, 4, kDecodeByteLoads>>(names[7], storage)} {}
};
#define ATTILE_DECODE_NAMES(suffix)                                                                                          \
    {                                                                                                                        \
        "decode_64x1_" suffix, "decode_64x4_" suffix, "decode_64x8_" suffix, "decode_128x1_" suffix, "decode_128x4_" suffix, \
            "decode_128x8_" suffix, "decode_256x1_" suffix, "decode_256x4_" suffix                                           \
    }

}  // namespace attile::gpu::simt

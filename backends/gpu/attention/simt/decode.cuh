// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows: K and V are streamed once, straight into registers, for all rows that share them; keys are split over blocks
// where there are fewer heads than the device runs at once, and attention_combine puts the parts together.
//
// Bound by memory: 2 FLOP a byte of K and V for each row. The next keys are loaded before this step's scores are summed, the next values
// after they were used: 64 KB are under way on a unit with two blocks of 256 threads.
//
// Measured (H200, compute_61 PTX, float32, 128 columns, us alone with a cold L2 cache; GB/s), in brackets reading K and V and nothing else:
// 32/8 heads, 4096 keys 21.5 (1560) [14.7], 32768 keys 79.4 (3380) [71.5], 16 x 4096 keys 137.5 (3904) [129]; 32/32 heads, 32768 keys 251
// (4280) [245]. Those are with attention_combine. Beside it in one process, the last block putting splits together: 4096 keys 21.7 to 21.0,
// 16 such calls in a row 226 to 223, 32768 keys 79.8 to 79.0, 4 x 4096 keys 50.2 to 48.2; without putting together 17.4, 166, 75.1, 45.4.
// Of a last block's way, in clocks: the count 2100, the weights 2200, the sums 1450, the output 650; a first block that fetches that code
// before gained nothing. To measure again: tools/compare_peers.py --groups decode. What mattered: no branch between vectors and scalars,
// and none for pages, beside a load; with them each load was copied behind its branch, so a thread waited for one after the other (96 to 84
// us at 32768 keys, 172 to 145 at 16 x 4096; 1800 instructions in the loop to 450); all rows of Q sent for before the first is waited for
// (1 us), one branch for hidden keys instead of one a key (0.5 to 1.5 us), addresses of loads as sums (1 to 3 us). What lost: such sums
// where a load that finds no key leaves its registers as they are (4 rows: slower than products, since loads are then copied at the end of
// the loop; 16 x 4096 144); prefetches into the L2 cache, one step or two ahead (82 and 90 us at 32768 keys instead of 78); two rounds of
// half as long splits (82 to 88 us).
#pragma once

#include <type_traits>

#include "attention/simt/decode_merge.cuh"
#include "attention/simt/kernels.h"

namespace attile::gpu::simt {

// What a decode instance is: kQuadLanes lanes x kQuads quads cover a row of K or V; a step is kLoads rows for each of the group's key
// columns.
template <class T, int kQuadLanesIn, int kQuadsIn, int kRowsIn, int kLoadsIn>
struct DecodeConfig {
    using Element = T;
    static constexpr int kQuadLanes = kQuadLanesIn, kQuads = kQuadsIn, kRows = kRowsIn, kLoads = kLoadsIn;
    static constexpr int kThreads = 256, kGroups = kThreads / kLanes;
    // Two blocks leave 128 registers a thread, which has to do without a spill.
    static constexpr bool kIsLarge = kRowsIn * kQuadsIn >= 8 || kQuadsIn * kLoadsIn >= 8 || (kRowsIn == 4 && kQuadLanesIn == 16);
    static constexpr int kBlocksPerUnit = kIsLarge ? 1 : 2;
    static constexpr int kKeyCols = kLanes / kQuadLanes;  // Keys that one load of a lane group covers.
    static constexpr int kStep = kLoads * kKeyCols;
    static constexpr int kCols = kQuadLanes * kQuads * 4;
    static constexpr int kScores = kLoads * kRows;                                   // Of a key column and step.
    static constexpr int kHeld = kScores > kQuadLanes ? kScores / kQuadLanes : 1;    // Scores a lane holds after they are summed.
    static constexpr int kCopies = kScores > kQuadLanes ? 1 : kQuadLanes / kScores;  // Lanes that hold the same score.
    static constexpr int kStrip = kKeyCols * kScores;
    static_assert((kScores & (kScores - 1)) == 0 && kScores >= 4, "scores are summed by halves and read as vectors");
};

// Four elements of a row from column `col` on, as they are stored; those at `cols` and beyond are zeros. Not converted yet, since that
// would wait for memory.
template <class Element, bool kVectors>
ATTILE_LANE_FN Vec<Element, 4> load_stored(const AttentionOperand &x, int64_t row_offset, int col, int cols) {
    const Element *const from = static_cast<const Element *>(x.data) + row_offset;
    Vec<Element, 4> quad = {};
    if (kVectors || x.vector) {
        if (col < cols) quad = load_vec_const<4>(from + col);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (col + e < cols) quad[e] = load_vec_const<1>(from + (col + e) * x.stride[3])[0];
    }
    return quad;
}

// kPlain: K and V in vectors, their rows' distance in 32 bits, no pages, no modified scores.
template <class C, bool kPlain>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, C::kBlocksPerUnit) decode_kernel(const DecodeParams p) {
    using Element = typename C::Element;
    constexpr int kRows = C::kRows, kLoads = C::kLoads, kQuads = C::kQuads, kScores = C::kScores, kHeld = C::kHeld;
    constexpr int kMergeFloats = C::kGroups * kRows * (C::kCols + 2);
    constexpr int kStripFloats = C::kGroups * C::kStrip;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr bool kMerges = false;  // Code that can bring up the kernel behind it early does (early.h).
#else
    constexpr bool kMerges = kPlain && decode_merges(std::is_same<Element, float>::value, kRows, C::kCols);
#endif
    constexpr int kFloats = kMergeFloats > kStripFloats ? kMergeFloats : kStripFloats;
    alignas(16) __shared__ float shared[kMerges && kDecodeMergeFloats<C> > kFloats ? kDecodeMergeFloats<C> : kFloats];
    static_assert(sizeof shared <= 49152, "48 KB");

    const AttentionPlace place(p, blockIdx.x);
    const AttentionEntry entry(p, place.batch);
    const int rows = entry.len_q * static_cast<int>(p.pack.divisor), first_row = place.row_block * kRows;
    if (first_row >= rows) return;
    const int lane = lane_index(), group = lane_group_index(), quad_lane = lane % C::kQuadLanes, key_col = lane / C::kQuadLanes;

    // The keys of this block, in steps of lane groups; all_low .. all_high are those that every row sees.
    const auto range_of = [&](int row) { return KeyRange(p, query_row(p, min(row, rows - 1)), entry.shift, entry.len_k); };
    const KeyRange first_range = range_of(first_row), last_range = range_of(first_row + kRows - 1);
    constexpr int kTile = C::kStep * C::kGroups;
    const int tile = max(first_range.low / kTile, place.split * p.split_tiles);
    const int tile_end =
        min((last_range.high + kTile - 1) / kTile,
            static_cast<int>(min(static_cast<int64_t>(place.split + 1) * p.split_tiles, static_cast<int64_t>(kAttentionMaxLength))));
    const int all_low = last_range.low, all_high = first_range.high, last_key = max(entry.len_k - 1, 0);

    // Scores that this lane holds: number held * (its share) + h, kRows to a key.
    const int first_score = quad_lane / C::kCopies * kHeld;
    float minus_reference[kHeld], sum[kHeld];
    bool unset[kHeld];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
        minus_reference[h] = sum[h] = 0;
        unset[h] = true;
    }
    float out[kRows][kQuads * 4] = {};
    float *const strip = shared + group * C::kStrip;

    const int64_t head_offset_k = place.head * p.k.stride[1], head_offset_v = place.head * p.v.stride[1];
    Vec<Element, 4> keys[kLoads][kQuads], values[kLoads][kQuads];
    uint32_t no_page = 0;
    const auto load = [&](Vec<Element, 4>(&to)[kLoads][kQuads], const AttentionOperand &x, int64_t head_offset, int cols, int first_key) {
#pragma unroll
        for (int t = 0; t < kLoads; ++t) {
            const int key = min(first_key + t * C::kKeyCols + key_col, last_key);
            int64_t outer = entry.batch, row = entry.first_k + key;
            if (p.block_table) {
                outer = p.block_table[entry.batch * p.block_table_stride[0] + quotient(key, p.page_size) * p.block_table_stride[1]];
                row = remainder(key, p.page_size);
                const bool exists = outer >= 0 && outer < p.pages;
                no_page = exists ? no_page & ~(1u << t) : no_page | 1u << t;
                if (!exists) outer = 0;
            }
            const int64_t at = outer * x.stride[0] + head_offset + row * x.stride[2];
#pragma unroll
            for (int h = 0; h < kQuads; ++h) to[t][h] = load_stored<Element, false>(x, at, (h * C::kQuadLanes + quad_lane) * 4, cols);
        }
    };
    // Plain rows: `from` is this lane's first quad of the step's first key in its key column, and goes on to the next step's.
    const auto load_plain = [&](Vec<Element, 4>(&to)[kLoads][kQuads], const char *&from, int row_bytes, int cols, int first_key) {
        const int last = last_key - first_key - key_col;
#pragma unroll
        for (int t = 0; t < kLoads; ++t) {
            const char *const row = from + static_cast<int64_t>(min(t * C::kKeyCols, last)) * row_bytes;
#pragma unroll
            for (int h = 0; h < kQuads; ++h) {
                Vec<Element, 4> quad = {};
                if ((h * C::kQuadLanes + quad_lane) * 4 < cols)
                    quad = load_vec_const<4>(reinterpret_cast<const Element *>(row) + h * C::kQuadLanes * 4);
                to[t][h] = quad;
            }
        }
        from += static_cast<int64_t>(kTile) * row_bytes;
    };

    int first_key = (tile * C::kGroups + group) * C::kStep;
    const int end_key = tile_end * kTile;
    const auto begin_of = [&](const AttentionOperand &x, int64_t head_offset) {
        const int64_t at = entry.batch * x.stride[0] + head_offset + (entry.first_k + first_key + key_col) * x.stride[2] + quad_lane * 4;
        return reinterpret_cast<const char *>(static_cast<const Element *>(x.data) + at);
    };
    const char *next_keys = kPlain ? begin_of(p.k, head_offset_k) : nullptr;
    const char *next_values = kPlain ? begin_of(p.v, head_offset_v) : nullptr;
    const auto load_keys = [&](int first) {
        if constexpr (kPlain)
            load_plain(keys, next_keys, p.k.row_bytes, p.head_dim, first);
        else
            load(keys, p.k, head_offset_k, p.head_dim, first);
    };
    const auto load_values = [&](int first) {
        if constexpr (kPlain)
            load_plain(values, next_values, p.v.row_bytes, p.head_dim_v, first);
        else
            load(values, p.v, head_offset_v, p.head_dim_v, first);
    };
    if (first_key < end_key) {
        load_keys(first_key);
        load_values(first_key);
    }
    // The row block's word.
    const auto count = [&] { return p.counts + (entry.batch * p.heads.divisor + place.head) * p.row_blocks.divisor + place.row_block; };
    if (kMerges && p.counts && threadIdx.x == 0) open_decode_count(count(), p.call);

    // Q: all of the block's rows in every key column's lanes.
    float q[kRows][kQuads * 4];
    {
        Vec<Element, 4> stored[kRows][kQuads];  // All rows are sent for before the first is waited for.
        const auto load_queries = [&](auto in_vectors) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const int row = min(first_row + r, rows - 1);
                const int64_t at = entry.batch * p.q.stride[0] + query_head(p, place.head, row) * p.q.stride[1] +
                                   (entry.first_q + query_row(p, row)) * p.q.stride[2];
#pragma unroll
                for (int h = 0; h < kQuads; ++h)
                    stored[r][h] =
                        load_stored<Element, decltype(in_vectors)::value>(p.q, at, (h * C::kQuadLanes + quad_lane) * 4, p.head_dim);
            }
        };
        if (p.q.vector)
            load_queries(std::true_type());
        else
            load_queries(std::false_type());
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
            for (int x = 0; x < kQuads * 4; ++x) q[r][x] = scaled_query(p, to_compute(stored[r][x / 4][x % 4]));
    }

#pragma unroll 1
    for (; first_key < end_key; first_key += kTile) {
        // Partial products, then sums over the lanes of a row by halves: each exchange halves what a lane is left with.
        float score[kScores];
#pragma unroll
        for (int t = 0; t < kLoads; ++t)
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                float dot = 0;
#pragma unroll
                for (int x = 0; x < kQuads * 4; ++x) dot = fused_multiply_add(q[r][x], to_compute(keys[t][x / 4][x % 4]), dot);
                score[t * kRows + r] = dot;
            }
        const uint32_t missing = no_page;
        if (first_key + kTile < end_key) load_keys(first_key + kTile);
        int left = kScores;
#pragma unroll
        for (int step = C::kQuadLanes / 2; step > 0; step /= 2) {
            if (left > 1) {
                left /= 2;
                const bool upper = (lane & step) != 0;
#pragma unroll
                for (int s = 0; s < kScores / 2; ++s) {
                    if (s >= left) continue;
                    score[s] = pick(upper, score[s + left], score[s]) + shuffle_xor(pick(upper, score[s], score[s + left]), step);
                }
            } else {
                score[0] += shuffle_xor(score[0], step);
            }
        }

        const bool masked = (!kPlain && p.modifiers != 0) || first_key < all_low || first_key + C::kStep > all_high;
        bool hidden[kHeld];
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
            hidden[h] = false;
            if (masked) {
                const int t = (first_score + h) / kRows, row = min(first_row + (first_score + h) % kRows, rows - 1);
                const int key = first_key + t * C::kKeyCols + key_col;
                hidden[h] = !range_of(row).has(key) || (!kPlain && (missing >> t & 1) != 0);
                if (!kPlain && !hidden[h] && p.modifiers) {
                    const ScoreModifiers modifiers(p, entry, query_head(p, place.head, row), query_row(p, row));
                    hidden[h] = !modifiers.shows(key);
                    score[h] = modifiers.apply(score[h], key);
                }
                if (hidden[h]) score[h] = -INFINITY;
            }
        }
        // References: of each row, the same in all lanes that hold its scores.
        bool need = false, vanishes = false;  // A score of -inf takes no part.
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
            vanishes = vanishes || score[h] == -INFINITY;
            hidden[h] = hidden[h] || score[h] == -INFINITY;
            need = need || (unset[h] && score[h] != -INFINITY) || score[h] + minus_reference[h] > 16.0f;
        }
        const bool skips = masked || lane_any(vanishes);
        if (lane_any(need)) {
#pragma unroll
            for (int h = 0; h < kHeld; ++h) {
                float top = score[h];
                if (kHeld > kRows) {
#pragma unroll
                    for (int other = 0; other < kHeld; ++other)
                        if (other % kRows == h % kRows) top = fmaxf(top, score[other]);
                }
                // Lanes whose numbers differ in these bits hold the same row's scores of other keys.
                constexpr int kRowStep = (kRows > kHeld ? kRows / kHeld : 1) * C::kCopies;
#pragma unroll
                for (int step = kRowStep; step < kLanes; step *= 2) top = fmaxf(top, shuffle_xor(top, step));
                const float before = -minus_reference[h];
                const float higher = top == -INFINITY ? before : unset[h] ? top : fmaxf(top, before);
                const float factor = unset[h] ? 1.0f : exp2_fast(before - higher);
                if (top != -INFINITY) unset[h] = false;
                minus_reference[h] = -higher;
                sum[h] *= factor;
                // Every lane needs the factors of all rows.
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    if (kHeld < kRows ? (r % kHeld != h) : (h != r)) continue;
                    const float row_factor = shuffle(factor, r / kHeld * C::kCopies);
#pragma unroll
                    for (int x = 0; x < kQuads * 4; ++x) out[r][x] *= row_factor;
                }
            }
        }
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
            const float probability = exp2_fast(score[h] + minus_reference[h]);
            sum[h] += probability;
            // A negative one marks a key that the row does not see: zero times what V holds there might be NaN.
            strip[key_col * kScores + first_score + h] = hidden[h] ? -1.0f : probability;
        }
        lane_sync();
        const auto add_values = [&](auto skips_hidden) {
#pragma unroll
            for (int t = 0; t < kLoads; ++t) {
                float probability[kRows];
#pragma unroll
                for (int r = 0; r < kRows; ++r) probability[r] = strip[key_col * kScores + t * kRows + r];
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    if (decltype(skips_hidden)::value && probability[r] < 0) continue;
#pragma unroll
                    for (int x = 0; x < kQuads * 4; ++x)
                        out[r][x] = fused_multiply_add(probability[r], to_compute(values[t][x / 4][x % 4]), out[r][x]);
                }
            }
        };
        if (skips)
            add_values(std::true_type());
        else
            add_values(std::false_type());
        lane_sync();
        if (first_key + kTile < end_key) load_values(first_key + kTile);
    }

    // Each lane group's result: sums over lanes, O over key columns.
    float row_sum[kRows], row_reference[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        // The lanes that hold row r differ in the bits above kRowStep; all get the total, and the first of them passes it on.
        const int h = kHeld < kRows ? r % kHeld : r;
        float total = 0;
#pragma unroll
        for (int other = 0; other < kHeld; ++other)
            if (other % kRows == h % kRows) total += sum[other];
        constexpr int kRowStep = (kRows > kHeld ? kRows / kHeld : 1) * C::kCopies;
#pragma unroll
        for (int step = kRowStep; step < kLanes; step *= 2) total += shuffle_xor(total, step);
        const int holder = (kHeld < kRows ? r / kHeld : 0) * C::kCopies;
        row_sum[r] = shuffle(total, holder);
        // A row whose scores are NaN, and hidden besides, has no reference either, but its sum tells that it saw keys.
        row_reference[r] = shuffle(unset[h] && total == 0 ? -INFINITY : -minus_reference[h], holder);
#pragma unroll
        for (int x = 0; x < kQuads * 4; ++x)
#pragma unroll
            for (int step = C::kQuadLanes; step < kLanes; step *= 2) out[r][x] += shuffle_xor(out[r][x], step);
    }
    __syncthreads();
    float *const outs = shared, *const results = shared + C::kGroups * kRows * C::kCols;  // [group][row][col], [group][row][2]
    if (key_col == 0) {
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
            for (int h = 0; h < kQuads; ++h)
                store_vec(outs + (group * kRows + r) * C::kCols + (h * C::kQuadLanes + quad_lane) * 4,
                          Quad{{out[r][h * 4], out[r][h * 4 + 1], out[r][h * 4 + 2], out[r][h * 4 + 3]}});
    }
    if (lane == 0) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            results[(group * kRows + r) * 2] = row_reference[r];
            results[(group * kRows + r) * 2 + 1] = row_sum[r];
        }
    }
    __syncthreads();

    const bool partial = p.part_o != nullptr;
    const int64_t part = (static_cast<int64_t>(place.split) * p.part_batch + entry.batch) * p.heads.divisor * p.pack.divisor;
#pragma unroll 1
    for (int f = static_cast<int>(threadIdx.x); f < kRows * C::kCols; f += C::kThreads) {
        const int r = f / C::kCols, col = f % C::kCols, packed_row = first_row + r;
        if (packed_row >= rows) break;
        if (col >= p.head_dim_v && col > 0) continue;
        float top = -INFINITY, total = 0, value = 0;
#pragma unroll
        for (int g = 0; g < C::kGroups; ++g) top = max_nan(top, results[(g * kRows + r) * 2]);
#pragma unroll
        for (int g = 0; g < C::kGroups; ++g) {
            const float reference = results[(g * kRows + r) * 2];
            if (reference == -INFINITY) continue;
            const float weight = exp2_fast(reference - top);
            total = fused_multiply_add(weight, results[(g * kRows + r) * 2 + 1], total);
            value = fused_multiply_add(weight, outs[(g * kRows + r) * C::kCols + col], value);
        }
        const int head = query_head(p, place.head, packed_row), row = query_row(p, packed_row);
        const bool has_sink = !partial && p.sinks.data != nullptr, saw_key = top != -INFINITY;
        const RowResult result(std::bool_constant<!kPlain>(), saw_key, top, total, has_sink,
                               has_sink ? load_number(p.sinks, head * p.sinks.stride[1]) : 0.0f);
        const float scaled = saw_key ? value * result.factor : 0.0f;
        const int64_t part_row = (part + head) * p.len_q + row;
        if (col < p.head_dim_v) {
            if (partial)
                p.part_o[part_row * p.head_dim_v + col] = scaled;
            else
                store_number(
                    p.o, entry.batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2] + col * p.o.stride[3],
                    scaled);
        }
        if (col != 0) continue;
        if (partial)
            store_part<!kPlain>(p, part_row, result, top, total);
        else if (p.lse.data)
            store_number(p.lse, entry.batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + row) * p.lse.stride[2],
                         result.lse);
    }
    if constexpr (kMerges) {
        if (!p.counts) return;
        __shared__ bool is_last;
#if defined(ATTILE_GPU_HIP)
        __threadfence();  // A barrier need not wait for what other waves store.
#endif
        __syncthreads();
        if (threadIdx.x == 0) is_last = is_last_arrival(count(), p.splits.divisor);
        __syncthreads();
        if (is_last) merge_decode_splits<C>(p, place, entry, first_row, rows, shared);
    }
}

template <class C>
AttentionDecodeKernel decode_instance(const char *name, AttentionStorage storage) {
#if defined(ATTILE_GPU_EMULATED)
    emulation::know(&decode_kernel<C, false>);
    emulation::know(&decode_kernel<C, true>);
#endif
    return {name,
            reinterpret_cast<const void *>(&decode_kernel<C, false>),
            reinterpret_cast<const void *>(&decode_kernel<C, true>),
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
#define ATTILE_DECODE_NAMES(suffix)                                                                                          \
    {                                                                                                                        \
        "decode_64x1_" suffix, "decode_64x4_" suffix, "decode_64x8_" suffix, "decode_128x1_" suffix, "decode_128x4_" suffix, \
            "decode_128x8_" suffix, "decode_256x1_" suffix, "decode_256x4_" suffix                                           \
    }

}  // namespace attile::gpu::simt

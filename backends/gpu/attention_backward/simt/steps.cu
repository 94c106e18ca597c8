// SPDX-License-Identifier: Apache-2.0
// What comes before and after the tile kernel of attention's gradients and the unfused kernels: row numbers, sums of parts in a fixed
// order, dbias, dsinks, bound by memory and small beside them; and the kernels that take rows and keys one by one, for any head dim and for
// whatever holds NaN or infinity. 128 threads, no shared memory but for one number a lane group in `sinks`.
#include "attention_backward/simt/kernels.h"
#include "attention_backward/simt/prepare.cuh"
#include "attention_backward/simt/tasks.cuh"
#include "attention_backward/tiles.h"
#include "early.h"

namespace attile::gpu::simt {
namespace {

constexpr int kThreads = kBackwardThreads;

__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_gather(const AttentionBackwardParams p) {
    const AttentionParams &f = p.forward;
    const int quads = p.depth / 4, units = p.end_unit - p.first_unit;
    const int64_t total = static_cast<int64_t>(p.block_rows) * quads * units * p.pairs.divisor;
    for (int64_t task = first_task(); task < total; task += task_step()) {
        const Parts of_quads(task, quads), of_rows(of_quads.quotient, p.block_rows), of_units(of_rows.quotient, units);
        const int col = of_quads.rest * 4, row_of_tile = of_rows.rest;
        const int unit = p.first_unit + of_units.rest, pair = static_cast<int>(of_units.quotient);
        const int64_t batch_head = p.first_pair + pair;
        if (is_irregular(p, pair) || col >= f.head_dim) continue;
        const AttentionEntry entry = entry_of_thread(f, quotient(static_cast<uint32_t>(batch_head), p.heads_kv));
        const int first_row = unit_row(p, unit), row = first_row + row_of_tile;
        if (row >= entry.len_q) continue;
        const Span blocks = p.probabilities != nullptr ? Span{0, 1} : key_blocks_of(p, entry, first_row);
        const float *from = p.part_q + part_q_at(p, pair, blocks.first, unit) + row_of_tile * p.depth + col;
        const int64_t step = part_q_at(p, 0, 1, p.first_unit);
        const int head_kv = static_cast<int>(remainder(static_cast<uint32_t>(batch_head), p.heads_kv));
        Quad sum = {};
        const auto add = [&] {
            const Quad quad = load_vec_last<4>(from);
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[e] += quad[e];
        };
        if (f.block_mask.data && p.probabilities == nullptr) {
#pragma unroll 1
            for (int block = blocks.first; block < blocks.end; ++block, from += step)
                if (tile_is_made(p, entry, unit_head(p, head_kv, unit), first_row, block)) add();
        } else {
#pragma unroll 4
            for (int block = blocks.first; block < blocks.end; ++block, from += step) add();
        }
        const int head = unit_head(p, head_kv, unit);
        store_quad(p.dq, entry.batch * p.dq.stride[0] + head * p.dq.stride[1] + (entry.first_q + row) * p.dq.stride[2], col, f.head_dim,
                   sum, p.scale);
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_finish(const AttentionBackwardParams p) {
    const AttentionParams &f = p.forward;
    const int quads = p.depth / 4, splits = static_cast<int>(p.splits.divisor);
    const int64_t total = static_cast<int64_t>(p.pairs.divisor) * f.len_k * quads;
    for (int64_t task = first_task(); task < total; task += task_step()) {
        const Parts of_quads(task, quads), of_keys(of_quads.quotient, f.len_k);
        const int col = of_quads.rest * 4, key = of_keys.rest, pair = static_cast<int>(of_keys.quotient);
        if (is_irregular(p, pair)) continue;
        const uint32_t batch_head = p.first_pair + pair;
        const AttentionEntry entry = entry_of_thread(f, quotient(batch_head, p.heads_kv));
        if (f.cu_len_k && key >= entry.len_k) continue;
        Quad k = {}, v = {};
        if (key < entry.len_k) {
            for (int split = 0; split < splits; ++split) {
                const int64_t at = sum_at(p, split, pair, key) + col;
                const Quad more_k = load_vec<4>(p.sum_k + at), more_v = load_vec<4>(p.sum_v + at);
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    k[e] += more_k[e];
                    v[e] += more_v[e];
                }
            }
        }
        const int64_t head = remainder(batch_head, p.heads_kv);
        const auto row = [&](const AttentionOperand &x) {
            return entry.batch * x.stride[0] + head * x.stride[1] + (entry.first_k + key) * x.stride[2];
        };
        store_quad(p.dk, row(p.dk), col, f.head_dim, k, p.scale);
        store_quad(p.dv, row(p.dv), col, f.head_dim_v, v, 1.0f);
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_clear(const AttentionBackwardParams p) {
    const AttentionParams &f = p.forward;
    const auto clear = [&](const AttentionOperand &x, bool is_packed, int64_t heads, int64_t rows, int64_t cols) {
        const int64_t total = (is_packed ? 1 : p.batch) * heads * rows * cols;
        for (int64_t task = first_task(); task < total; task += task_step()) {
            const int64_t col = task % cols, row = task / cols % rows, head = task / cols / rows % heads,
                          batch = task / cols / rows / heads;
            store_as<double>(x, batch * x.stride[0] + head * x.stride[1] + row * x.stride[2] + col * x.stride[3], 0.0);
        }
    };
    clear(p.dq, f.cu_len_q != nullptr, f.heads.divisor, f.total_q, f.head_dim);
    clear(p.dk, f.cu_len_k != nullptr, p.heads_kv.divisor, f.total_k, f.head_dim);
    clear(p.dv, f.cu_len_k != nullptr, p.heads_kv.divisor, f.total_k, f.head_dim_v);
}

// Elements of sum_bias: over the launch's pairs, heads, rows and keys in that order. A thread takes some keys of a row, apart so that
// threads side by side read keys side by side, and finds out once for all of them which tiles count; or one key of all rows; or a lane
// group takes one element where keys are summed.
template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_add_bias(const AttentionBackwardParams p) {
    constexpr int kKeys = 8;
    const AttentionParams &f = p.forward;
    const int64_t *const extent = p.bias_extent;
    const int rows = static_cast<int>(extent[2]), keys = static_cast<int>(extent[3]), heads = static_cast<int>(extent[1]);
    const bool sums_keys = keys == 1;
    // No fewer threads than there are, for want of elements (an eighth of them may have none); and from a thread's key to its next.
    const int64_t elements = extent[0] * heads * rows * keys;
    const int64_t each = sums_keys || rows == 1 ? 1 : min((elements + task_step() / 8) / task_step(), int64_t{kKeys});
    const int apart = each > 1 ? (keys + static_cast<int>(each) - 1) / static_cast<int>(each) : keys;
    const int64_t total = extent[0] * heads * rows * apart;
    const int lane = sums_keys ? lane_index() : 0, lanes = sums_keys ? kLanes : 1;
    const int64_t step = sums_keys ? group_step() : task_step();
    for (int64_t task = sums_keys ? first_group() : first_task(); task < total; task += step) {
        const Parts of_keys(task, apart), of_rows(of_keys.quotient, rows), of_heads(of_rows.quotient, heads);
        const int at_key = of_keys.rest, at_row = of_rows.rest, at_head = of_heads.rest;
        T sums[kKeys] = {};
        // Of the units, which are tiles of rows of one head after the other, the first from `first` on that has the element's row.
        const int tiles = static_cast<int>(p.row_tiles.divisor);
        const auto first_of_row = [&](int first) {
            if (rows == 1) return first;
            const int before = at_row / p.block_rows - static_cast<int>(remainder(static_cast<uint32_t>(first), p.row_tiles));
            return first + (before < 0 ? before + tiles : before);
        };
        // Most slices have few rows of a long sum.
        if (heads == 1 && first_of_row(p.first_unit) >= p.end_unit) continue;
        for (int pair = 0; pair < static_cast<int>(p.pairs.divisor); ++pair) {
            const uint32_t batch_head = p.first_pair + pair;
            const int batch = static_cast<int>(quotient(batch_head, p.heads_kv));
            if (extent[0] != 1 && batch != of_heads.quotient) continue;
            const AttentionEntry entry = entry_of_thread(f, batch);
            // The units of the element's head, and of its row.
            const int group = static_cast<int>(f.group.divisor), unit_step = rows == 1 ? 1 : tiles;
            int first_unit = p.first_unit, end_unit = p.end_unit;
            if (heads != 1) {
                const int head = at_head - static_cast<int>(remainder(batch_head, p.heads_kv)) * group;
                if (head < 0 || head >= group) continue;
                first_unit = max(first_unit, head * tiles);
                end_unit = min(end_unit, head * tiles + tiles);
            }
            for (int unit = first_of_row(first_unit); unit < end_unit; unit += unit_step) {
                const int first_row = unit_row(p, unit), end_row = min(first_row + p.block_rows, entry.len_q);
                const int first = rows == 1 ? first_row : max(first_row, at_row), end = rows == 1 ? end_row : min(end_row, at_row + 1);
                for (int row = first; row < end; ++row) {
                    const KeyRange range(f, row, entry);
                    const T *const gradients =
                        static_cast<const T *>(p.part_bias) + (part_of_unit(p, pair, unit) * p.block_rows + row - first_row) * f.len_k;
                    if (sums_keys) {
                        for (int key = range.low + lane; key < range.high; key += lanes) sums[0] += gradients[key];
                        continue;
                    }
#pragma unroll
                    for (int j = 0; j < kKeys; ++j) {
                        const int key = at_key + j * apart;
                        if (key < keys && range.has(key)) sums[j] += gradients[key];
                    }
                }
            }
        }
        if (sums_keys) sums[0] = lane_fold(sums[0], [](T x, T y) { return x + y; });
        T *const to = static_cast<T *>(p.sum_bias) + of_keys.quotient * keys + at_key;
#pragma unroll
        for (int j = 0; j < kKeys; ++j)
            if (at_key + j * apart < keys && lane == 0) to[j * apart] += sums[j];
    }
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_store_bias(const AttentionBackwardParams p) {
    const int64_t *const extent = p.bias_extent;
    const int64_t total = extent[0] * extent[1] * extent[2] * extent[3];
    for (int64_t element = first_task(); element < total; element += task_step()) {
        int64_t at = 0, rest = element;
        for (int axis = 3; axis >= 0; --axis) {
            const Parts of_axis(rest, static_cast<int>(extent[axis]));
            at += of_axis.rest * p.dbias.stride[axis];
            rest = of_axis.quotient;
        }
        store_as<T>(p.dbias, at, static_cast<const T *>(p.sum_bias)[element]);
    }
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_sinks(const AttentionBackwardParams p) {
    __shared__ T sums[kThreads / kLanes];
    const AttentionParams &f = p.forward;
    const int64_t head = blockIdx.x;
    const T sink = load_as<T>(f.sinks, head * f.sinks.stride[1]);
    const int64_t rows = static_cast<int64_t>(p.batch) * p.rows_allotted;
    T sum = 0;
    for (int64_t task = threadIdx.x; task < rows && sink != lowest<T>(); task += kThreads) {
        const int64_t batch = task / p.rows_allotted, row = task % p.rows_allotted;
        const BackwardRow<T> numbers =
            static_cast<const BackwardRow<T> *>(p.rows)[(batch * f.heads.divisor + head) * p.rows_allotted + row];
        sum -= exp(sink - numbers.lse) * numbers.delta;
    }
    sum = lane_fold(sum, [](T x, T y) { return x + y; });
    if (lane_index() == 0) sums[lane_group_index()] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    T total = 0;
    for (const T part : sums) total += part;
    store_as<T>(p.dsinks, head * p.dsinks.stride[1], total);
}

template <class T>
struct ScorePair {
    T probability, gradient, through;  // P, the score's gradient, and that of scale q.k.
};

// False: hidden, and then neither key nor value counts.
template <class T>
ATTILE_LANE_FN bool score_pair(const AttentionBackwardParams &p, const AttentionEntry &entry, int head, int head_k, int row, int key,
                               const BackwardRow<T> &numbers, ScorePair<T> &pair) {
    const AttentionParams &f = p.forward;
    pair = {0, 0, 0};
    const auto at_score = [&](const AttentionOperand &x) {
        return entry.batch * x.stride[0] + head * x.stride[1] + row * x.stride[2] + key * x.stride[3];
    };
    if (f.allowed.data && static_cast<const uint8_t *>(f.allowed.data)[at_score(f.allowed)] == 0) return false;
    if (has_sparse_mask(f) && !sparse_mask_shows(f, entry, fresh_of_lane(head), fresh_of_lane(row), key)) return false;
    const T bias = f.bias.data ? load_as<T>(f.bias, at_score(f.bias)) : T(0);
    if (bias == lowest<T>()) return false;
    const auto at_row = [&](const AttentionOperand &x) {
        return entry.batch * x.stride[0] + head * x.stride[1] + (entry.first_q + row) * x.stride[2];
    };
    const auto at_key = [&](const AttentionOperand &x) {
        return entry.batch * x.stride[0] + head_k * x.stride[1] + (entry.first_k + key) * x.stride[2];
    };
    const auto dot = [](const AttentionOperand &x, int64_t x_at, const AttentionOperand &y, int64_t y_at, int cols) {
        T sum = 0;
        for (int d = 0; d < cols; ++d)
            sum = fused_multiply_add(load_as<T>(x, x_at + d * x.stride[3]), load_as<T>(y, y_at + d * y.stride[3]), sum);
        return sum;
    };
    const AttentionOperand &q = p.original_q, &k = p.original_k, &v = p.original_v, &dout = p.original_dout;
    T s = dot(q, at_row(q), k, at_key(k), f.head_dim) * static_cast<T>(f.scale), slope = 1;
    if (f.softcap != 0) {
        const T t = tanh(s / static_cast<T>(f.softcap));
        s = static_cast<T>(f.softcap) * t;
        slope = T(1) - t * t;
    }
    s += bias;
    if (f.alibi_slopes.data) {
        s -= load_as<T>(f.alibi_slopes, entry.batch * f.alibi_slopes.stride[0] + head * f.alibi_slopes.stride[1]) *
             fabs(static_cast<T>(key - row - entry.shift));
    }
    if (s == lowest<T>()) return false;
    pair.probability = exp(s - numbers.lse);
    pair.gradient = pair.probability * (dot(dout, at_row(dout), v, at_key(v), f.head_dim_v) - numbers.delta);
    pair.through = pair.gradient * slope;
    return true;
}

// Columns of a row that a lane group sums at a time, a lane every 32nd.
constexpr int kColumns = 8, kGroupColumns = kColumns * kLanes;

// Adds weight times a row of x to a lane's columns from first_col on.
template <class T>
ATTILE_LANE_FN void add_row(T (&sums)[kColumns], T weight, const AttentionOperand &x, int64_t at, int first_col, int cols) {
    const int my_col = recomputed(first_col + lane_index());
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
        const int col = my_col + c * kLanes;
        if (col < cols) sums[c] = fused_multiply_add(weight, load_as<T>(x, at + col * x.stride[3]), sums[c]);
    }
}
template <class T>
ATTILE_LANE_FN void store_row(const T (&sums)[kColumns], T factor, const AttentionOperand &x, int64_t at, int first_col, int cols) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
        const int col = first_col + c * kLanes + lane_index();
        if (col < cols) store_as<T>(x, at + col * x.stride[3], sums[c] * factor);
    }
}

template <class T>
ATTILE_LANE_FN void take_rows(const AttentionBackwardParams &p) {
    const AttentionParams &f = p.forward;
    const int units = p.end_unit - p.first_unit;
    const int64_t total = static_cast<int64_t>(p.pairs.divisor) * units * p.block_rows;
    for (int64_t task = first_group(); task < total; task += group_step()) {
        const Parts of_rows(task, p.block_rows), of_units(of_rows.quotient, units);
        const int unit = p.first_unit + of_units.rest, pair = static_cast<int>(of_units.quotient);
        if (p.irregular_only && !is_irregular(p, pair)) continue;
        const uint32_t batch_head = p.first_pair + pair;
        const AttentionEntry entry = entry_of_thread(f, quotient(batch_head, p.heads_kv));
        const int row = unit_row(p, unit) + of_rows.rest;
        if (row >= entry.len_q) continue;
        const int head_kv = static_cast<int>(remainder(batch_head, p.heads_kv)), head = unit_head(p, head_kv, unit),
                  head_k = head_of_keys(p, head_kv);
        const KeyRange range(f, row, entry);
        const BackwardRow<T> numbers = static_cast<const BackwardRow<T> *>(
            p.rows)[(static_cast<int64_t>(entry.batch) * f.heads.divisor + head) * p.rows_allotted + row];
        T *const gradients = p.part_bias ? static_cast<T *>(p.part_bias) + task * f.len_k : nullptr;
        const AttentionOperand &k = p.original_k;
        const int64_t k_at = entry.batch * k.stride[0] + head_k * k.stride[1] + entry.first_k * k.stride[2];
        int first_col = 0;
        do {
            T sums[kColumns] = {};
            for (int base = range.low; base < range.high; base += kLanes) {
                const int key = base + lane_index();
                ScorePair<T> mine = {0, 0, 0};
                const bool sees = key < range.high && score_pair(p, entry, head, head_k, row, key, numbers, mine);
                if (gradients && key < range.high) gradients[key] = mine.gradient;
                const uint32_t seen = lane_ballot(sees);
                for (int j = 0; j < kLanes; ++j) {
                    const T weight = shuffle(mine.through, j);
                    if (seen >> j & 1) add_row(sums, weight, k, k_at + (base + j) * k.stride[2], first_col, f.head_dim);
                }
            }
            store_row(sums, static_cast<T>(f.scale), p.dq,
                      entry.batch * p.dq.stride[0] + head * p.dq.stride[1] + (entry.first_q + row) * p.dq.stride[2], first_col, f.head_dim);
            first_col += kGroupColumns;
        } while (first_col < f.head_dim);
    }
}

template <class T>
ATTILE_LANE_FN void take_keys(const AttentionBackwardParams &p) {
    const AttentionParams &f = p.forward;
    const int64_t total = static_cast<int64_t>(p.pairs.divisor) * f.len_k;
    for (int64_t task = first_group(); task < total; task += group_step()) {
        const Parts of_keys(task, f.len_k);
        const int pair = static_cast<int>(of_keys.quotient), key = of_keys.rest;
        if (p.irregular_only && !is_irregular(p, pair)) continue;
        const uint32_t batch_head = p.first_pair + pair;
        const AttentionEntry entry = entry_of_thread(f, quotient(batch_head, p.heads_kv));
        if (f.cu_len_k && key >= entry.len_k) continue;
        const int head_kv = static_cast<int>(remainder(batch_head, p.heads_kv)), group = static_cast<int>(f.group.divisor),
                  head_k = head_of_keys(p, head_kv);
        const int first_row = max(key - entry.shift - f.window_right, 0);
        const int end_row = key >= entry.first_key && key < entry.len_k ? min(key - entry.shift + f.window_left + 1, entry.len_q) : 0;
        const AttentionOperand &q = p.original_q, &dout = p.original_dout;
        int first_col = 0;
        do {
            T sums_k[kColumns] = {}, sums_v[kColumns] = {};
            for (int head = head_kv * group; head < (head_kv + 1) * group; ++head) {
                const BackwardRow<T> *const rows = static_cast<const BackwardRow<T> *>(p.rows) +
                                                   (static_cast<int64_t>(entry.batch) * f.heads.divisor + head) * p.rows_allotted;
                const int64_t q_at = entry.batch * q.stride[0] + head * q.stride[1] + entry.first_q * q.stride[2];
                const int64_t dout_at = entry.batch * dout.stride[0] + head * dout.stride[1] + entry.first_q * dout.stride[2];
                for (int base = first_row; base < end_row; base += kLanes) {
                    const int row = base + lane_index();
                    ScorePair<T> mine = {0, 0, 0};
                    const bool sees = row < end_row && score_pair(p, entry, head, head_k, row, key, rows[row], mine);
                    const uint32_t seen = lane_ballot(sees);
                    for (int i = 0; i < kLanes; ++i) {
                        const T through = shuffle(mine.through, i), probability = shuffle(mine.probability, i);
                        if ((seen >> i & 1) == 0) continue;
                        add_row(sums_k, through, q, q_at + (base + i) * q.stride[2], first_col, f.head_dim);
                        add_row(sums_v, probability, dout, dout_at + (base + i) * dout.stride[2], first_col, f.head_dim_v);
                    }
                }
            }
            const auto at = [&](const AttentionOperand &x) {
                return entry.batch * x.stride[0] + head_kv * x.stride[1] + (entry.first_k + key) * x.stride[2];
            };
            store_row(sums_k, static_cast<T>(f.scale), p.dk, at(p.dk), first_col, f.head_dim);
            store_row(sums_v, T(1), p.dv, at(p.dv), first_col, f.head_dim_v);
            first_col += kGroupColumns;
        } while (first_col < max(f.head_dim, f.head_dim_v));
    }
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_any_rows(const AttentionBackwardParams p) {
    if (p.irregular_only && any_irregular(p) == 0) return;
    take_rows<T>(p);
}
template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_any_keys(const AttentionBackwardParams p) {
    if (p.irregular_only && any_irregular(p) == 0) return;
    take_keys<T>(p);
}
// Both in one launch, which mostly finds nothing to do.
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_backward_irregular(const AttentionBackwardParams p) {
    await_kernel_ahead();
    if (any_irregular(p) == 0) return;
    take_rows<float>(p);
    take_keys<float>(p);
}

template <class T>
AttentionBackwardSteps steps() {
    return {&attention_backward_prepare<T>,  &attention_backward_any_rows<T>,   &attention_backward_any_keys<T>,
            &attention_backward_add_bias<T>, &attention_backward_store_bias<T>, &attention_backward_sinks<T>};
}

}  // namespace

AttentionBackwardSteps attention_backward_steps_f32() { return steps<float>(); }
AttentionBackwardSteps attention_backward_steps_f64() { return steps<double>(); }
AttentionBackwardKernel attention_backward_clear_kernel() { return &attention_backward_clear; }
AttentionBackwardKernel attention_backward_gather_kernel() { return &attention_backward_gather; }
AttentionBackwardKernel attention_backward_finish_kernel() { return &attention_backward_finish; }
AttentionBackwardKernel attention_backward_irregular_kernel() { return &attention_backward_irregular; }

}  // namespace attile::gpu::simt

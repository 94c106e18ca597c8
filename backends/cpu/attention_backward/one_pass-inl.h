// SPDX-License-Identifier: Apache-2.0
// Attention backward in one pass: a piece's keys are the lanes of panels, as in the pass over keys, and a tile's gradients of scores, rows
// of the thin operand there, meet keys as rows for dq.
#if defined(ATTILE_CPU_BACKWARD_ONE_PASS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_BACKWARD_ONE_PASS_INL_H
#undef ATTILE_CPU_BACKWARD_ONE_PASS_INL_H
#else
#define ATTILE_CPU_BACKWARD_ONE_PASS_INL_H
#endif

#include <algorithm>
#include <array>

#include "attention/keys-inl.h"
#include "attention/tile-inl.h"
#include "attention_backward/attention_backward.h"
#include "attention_backward/rows-inl.h"
#include "attention_backward/two_passes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Elements of a tile of gradients of scores: a block of rows and a panel of keys.
template <class T>
inline constexpr int64_t kGradientTile = kBlockKeys *kPanel<T>;

// A piece's scratch memory.
template <class T>
struct PieceScratch {
    RowBlock<T> rows;
    PairTiles<T> tiles;
    KeyPanels<T> panels;
    int64_t *offset;
    T *ones, *key_rows, *gradients;  // keys [key][columns in whole panels], a tile of gradients for each panel

    PieceScratch(Cutter &cutter, const attile_attention_problem &p) : rows(cutter, p), tiles(cutter), panels(cutter, p, kBackwardPanels) {
        offset = cutter.cut<int64_t>(kPanel<T>);
        ones = cutter.cut<T>(kPanel<T>);
        key_rows = cutter.cut<T>(kBackwardPanels, kPanel<T>, Size(p.head_dim).rounded_up(kPanel<T>));
        gradients = cutter.cut<T>(kBackwardPanels, kGradientTile<T>);
    }
};

// Sums of a piece's rows and keys become 0, and lse and delta of its rows are found.
template <class T>
void begin_sums(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece,
                const HeadSums<T> &sums, RowBlock<T> &rows) {
    const attile_attention_problem &p = *problem.forward;
    const int64_t group = p.heads_q / p.heads_kv, keys_begin = piece.key_begin, keys_end = round_up(piece.key_end, kPanel<T>);
    // Of a piece without keys the panel at its end is another's.
    if (piece.key_begin < piece.key_end) {
        const int64_t value_step = round_up(p.head_dim_v, kPanel<T>);
        std::fill_n(sums.dk + keys_begin * sums.row_step, (keys_end - keys_begin) * sums.row_step, T{0});
        std::fill_n(sums.dv + keys_begin * value_step, (keys_end - keys_begin) * value_step, T{0});
    }
    sums.left[piece.index] = 0;
    for (int64_t g = 0; g < group && piece.row_begin < piece.row_end; ++g) {
        const int64_t at = g * sums.head_rows;
        std::fill_n(sums.dq + (at + piece.row_begin) * sums.row_step, (piece.row_end - piece.row_begin) * sums.row_step, T{0});
        for (int64_t i = piece.row_begin; i < piece.row_end; i += kBlockKeys) {
            rows.place(p, entry, kv_head * group + g, i, least(kBlockKeys, piece.row_end - i));
            rows.copy(problem, entry);
            rows.find_numbers(problem, entry, sums.lse + at + i, sums.delta + at + i);
        }
    }
}

static_assert(kBlockKeys % kTileRows == 0);

// Whether some of the rows may see some of the keys: those that rows see move up from row to row, so a block's ends tell.
inline bool may_see(const attile_attention_problem &p, const AttentionEntry &entry, int64_t row, int64_t rows, int64_t key_begin,
                    int64_t key_end) {
    return visible_keys(p, entry, row + rows - 1).end > key_begin && visible_keys(p, entry, row).begin < key_end;
}

// sums[r][c] += sum over panels n and their keys of gradients[n][r][key] keys[n][key][c], for a panel of columns.
template <class T, int kRows>
HWY_NOINLINE void query_tile(int64_t panels, const T *gradients, const T *keys, int64_t step, T *sums) {
    const Tag<T> d;
    Vec<T> acc[kRows][2];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) acc[i][0] = acc[i][1] = hn::Zero(d);
    for (int64_t n = 0; n < panels; ++n, gradients += kGradientTile<T>, keys += kPanel<T> * step) {
        accumulate_rows<T, kRows, 2>(kPanel<T>, gradients, kPanel<T>, keys, step, acc);
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < 2; ++v) {
            T *sum = sums + i * step + v * kLanes<T>;
            hn::Store(hn::Add(hn::Load(d, sum), acc[i][v]), d, sum);
        }
    }
}

template <class T>
void add_to_queries(int64_t rows, int64_t panels, const T *gradients, const T *keys, int64_t step, T *sums) {
    using TileFn = void (*)(int64_t, const T *, const T *, int64_t, T *);
    static constexpr auto kTable = []<int... kRow>(std::integer_sequence<int, kRow...>) {
        return std::array<TileFn, sizeof...(kRow)>{&query_tile<T, kRow + 1>...};
    }
    (std::make_integer_sequence<int, kTileRows>{});
    const int64_t tiles = tile_count(rows);
    for (int64_t c = 0; c < step; c += kPanel<T>) {
        for (int64_t t = 0; t < tiles; ++t) {
            const int64_t r = tile_begin(rows, tiles, t), count = tile_begin(rows, tiles, t + 1) - r;
            kTable[static_cast<size_t>(count - 1)](panels, gradients + r * kPanel<T>, keys + c, step, sums + r * step + c);
        }
    }
}

// A block of rows and a run of panels.
template <class T>
void gradient_block(const attile_attention_problem &p, const AttentionEntry &entry, const PieceScratch<T> &scratch, T *dq, T *dk, T *dv) {
    const Tag<T> d;
    const RowBlock<T> &rows = scratch.rows;
    const int64_t key_size = round_up(p.head_dim, kPanel<T>) * kPanel<T>, value_size = round_up(p.head_dim_v, kPanel<T>) * kPanel<T>;
    int64_t first_panel = scratch.panels.count(), last_panel = 0, first_row = rows.count, last_row = 0;
    for (int64_t n = 0; n < scratch.panels.count(); ++n) {
        const KeyPanel<T> panel = scratch.panels.at(n);
        const KeyRange seen = rows_that_see<T>(p, entry, rows, panel);
        const int64_t from = seen.begin, count = seen.end - seen.begin;
        T *const tile = scratch.gradients + n * kGradientTile<T>;
        std::fill_n(tile, count <= 0 ? rows.count * kPanel<T> : from * kPanel<T>, T{0});
        if (count <= 0) continue;
        std::fill(tile + seen.end * kPanel<T>, tile + rows.count * kPanel<T>, T{0});
        first_panel = least(first_panel, n);
        last_panel = n + 1;
        first_row = least(first_row, from);
        last_row = most(last_row, seen.end);
        PairTiles<T> tiles = scratch.tiles;
        tiles.gradients = tile + from * kPanel<T>;
        pair_tiles<T>(p, entry, rows, from, count, panel, tiles);
        for (int64_t i = 0; p.softcap != 0 && i < count * kPanel<T>; i += kLanes<T>) {
            const Vec<T> gradient = hn::Load(d, tiles.gradients + i), slope = hn::Load(d, tiles.slopes + i);
            hn::Store(through_cap<T>(hn::Load(d, tiles.marks + i), gradient, slope), d, tiles.gradients + i);
        }
        add_values<T, 2>(p.head_dim_v, rows.douts + from * p.head_dim_v, p.head_dim_v, count, tiles.weights, scratch.ones,
                         dv + n * value_size);
        add_values<T, 2>(p.head_dim, rows.queries + from * p.head_dim, p.head_dim, count, tiles.gradients, scratch.ones, dk + n * key_size);
    }
    if (first_panel >= last_panel) return;
    const int64_t step = round_up(p.head_dim, kPanel<T>);
    add_to_queries<T>(last_row - first_row, last_panel - first_panel,
                      scratch.gradients + first_panel * kGradientTile<T> + first_row * kPanel<T>,
                      scratch.key_rows + first_panel * kPanel<T> * step, step, dq + first_row * step);
}

template <class T>
void gradient_piece(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece,
                    const HeadSums<T> &sums, char *memory) {
    const attile_attention_problem &p = *problem.forward;
    Cutter cutter(memory);
    PieceScratch<T> scratch(cutter, p);
    if (piece.begins) begin_sums<T>(problem, entry, kv_head, piece, sums, scratch.rows);
    std::fill_n(scratch.ones, kPanel<T>, T{1});
    const int64_t group = p.heads_q / p.heads_kv, value_step = round_up(p.head_dim_v, kPanel<T>);
    // Blocks are nearly equal, of whole tiles.
    const int64_t rows = piece.row_end - piece.row_begin;
    const int64_t a_block = round_up(ceil_div(rows, most(1, ceil_div(rows, kBlockKeys))), kTileRows);
    const SubnormalResults flushed(p);
    for (int64_t key = piece.key_begin; key < piece.key_end; key += kBackwardPanels * kPanel<T>) {
        const int64_t key_end = least(piece.key_end, key + kBackwardPanels * kPanel<T>);
        bool loaded = false;
        for (int64_t g = 0; g < group; ++g) {
            for (int64_t i = piece.row_begin; i < piece.row_end; i += a_block) {
                const int64_t count = least(a_block, piece.row_end - i);
                if (!may_see(p, entry, i, count, key, key_end)) continue;
                if (!loaded) {
                    loaded = true;
                    scratch.panels.place(key, key_end);
                    scratch.panels.load(entry, kv_head, scratch.offset);
                    std::fill_n(scratch.key_rows, scratch.panels.count() * kPanel<T> * sums.row_step, T{0});
                    for (int64_t j = key; j < key_end; ++j) {
                        with_storage<T>(p.k.dtype, [&](auto s) HWY_ATTR {
                            copy_row<T, decltype(s)>(operand_at<decltype(s)>(p.k, entry.b, kv_head, entry.k_start + j), p.k.stride[3],
                                                     p.head_dim, scratch.key_rows + (j - key) * sums.row_step);
                        });
                    }
                }
                scratch.rows.place(p, entry, kv_head * group + g, i, count, sums);
                scratch.rows.copy(problem, entry);
                gradient_block<T>(p, entry, scratch, sums.dq + (g * sums.head_rows + i) * sums.row_step, sums.dk + key * sums.row_step,
                                  sums.dv + key * value_step);
            }
        }
    }
    flushed.end();
}

// A row of dq, scaled.
template <class T>
void write_query_row(const attile_operand &x, int64_t at, int64_t head_dim, T scale, const T *sums) {
    const Tag<T> d;
    with_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
        using S = decltype(s);
        S *const to = static_cast<S *>(x.data) + at;
        if (x.stride[3] == 1) {
            for (int64_t c = 0; c < head_dim; c += kLanes<T>) {
                store_as(d, hn::Mul(hn::Load(d, sums + c), hn::Set(d, scale)), to + c, head_dim - c);
            }
        } else {
            for (int64_t c = 0; c < head_dim; ++c) to[c * x.stride[3]] = to_storage<S>(sums[c] * scale);
        }
    });
}

// Two passes for a piece's rows, and for its keys.
template <class T>
void queries_of_piece(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece,
                      char *memory) {
    const int64_t group = problem.forward->heads_q / problem.forward->heads_kv;
    for (int64_t r = piece.row_begin * group; r < piece.row_end * group; r += kBackwardPanels * kPanel<T>) {
        const AttentionRows rows{entry, kv_head, kv_head * group, group, r, least(piece.row_end * group, r + kBackwardPanels * kPanel<T>)};
        backward_queries<T>(problem, rows, memory);
    }
}
template <class T>
void keys_of_piece(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece, char *memory) {
    for (int64_t j = piece.key_begin; j < piece.key_end; j += kBackwardPanels * kPanel<T>) {
        backward_keys<T>(problem, entry, kv_head, j, least(piece.key_end, j + kBackwardPanels * kPanel<T>), memory);
    }
}

template <class T>
void finish_piece(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece, int64_t rounds,
                  const HeadSums<T> &sums, char *memory) {
    const attile_attention_problem &p = *problem.forward;
    const int64_t group = p.heads_q / p.heads_kv, rows = piece.row_end - piece.row_begin, value_step = round_up(p.head_dim_v, kPanel<T>);
    const int64_t keys = round_up(piece.key_end, kPanel<T>) - piece.key_begin;
    bool whole = true, rows_whole = true, keys_whole = true;
    for (int64_t n = 0; n < rounds; ++n) whole = whole && sums.left[n] == 0;
    for (int64_t g = 0; g < group && rows > 0; ++g) {
        rows_whole = rows_whole && whole &&
                     all_finite(sums.dq + (g * sums.head_rows + piece.row_begin) * sums.row_step, sums.row_step, rows, p.head_dim);
    }
    if (!rows_whole) {
        queries_of_piece<T>(problem, entry, kv_head, piece, memory);
    } else {
        for (int64_t g = 0; g < group; ++g) {
            for (int64_t i = piece.row_begin; i < piece.row_end; ++i) {
                write_query_row<T>(problem.dq, offset_of(problem.dq, entry.b, kv_head * group + g, entry.q_start + i), p.head_dim,
                                   static_cast<T>(p.scale), sums.dq + (g * sums.head_rows + i) * sums.row_step);
            }
        }
    }
    if (piece.key_begin >= piece.key_end) return;
    T *const dk = sums.dk + piece.key_begin * sums.row_step;
    T *const dv = sums.dv + piece.key_begin * value_step;
    keys_whole = whole && all_finite(dk, sums.row_step, keys, sums.row_step) && all_finite(dv, value_step, keys, value_step);
    if (!keys_whole) return keys_of_piece<T>(problem, entry, kv_head, piece, memory);
    int64_t *const offset = reinterpret_cast<int64_t *>(memory);
    for (int64_t n = 0; n < keys / kPanel<T>; ++n) {
        const int64_t j = piece.key_begin + n * kPanel<T>;
        const KeySpan span{j, least(kPanel<T>, piece.key_end - j)};
        write_key_panel<T>(problem, entry, kv_head, span, dk + n * kPanel<T> * sums.row_step, dv + n * kPanel<T> * value_step, offset);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

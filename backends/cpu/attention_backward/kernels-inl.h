// SPDX-License-Identifier: Apache-2.0
// Attention backward, for sums of type T: the table of kernels, and gradients of bias and sinks.
#if defined(ATTILE_CPU_ATTENTION_BACKWARD_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_BACKWARD_KERNELS_INL_H
#undef ATTILE_CPU_ATTENTION_BACKWARD_KERNELS_INL_H
#else
#define ATTILE_CPU_ATTENTION_BACKWARD_KERNELS_INL_H
#endif

#include "attention/keys-inl.h"
#include "attention_backward/attention_backward.h"
#include "attention_backward/one_pass-inl.h"
#include "attention_backward/tile_gradients-inl.h"
#include "attention_backward/two_passes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T>
void backward_bias(const BackwardProblem &problem, const BiasPiece &piece, char *memory) {
    const attile_attention_problem &p = *problem.forward;
    Cutter cutter(memory);
    RowBlock<T> rows(cutter, p);
    const PairTiles<T> tiles(cutter);
    KeyPanel<T> panel(cutter, p);
    int64_t *const offset = cutter.cut<int64_t>(kPanel<T>);
    T *const sums = cutter.cut<T>(kBlockKeys, kPanel<T>);
    const int64_t rows_out = piece.sum_rows ? 1 : piece.row_end - piece.row_begin;
    const int64_t keys_out = piece.sum_keys ? 1 : piece.key_end - piece.key_begin;
    fill<T>(sums, rows_out * kPanel<T>, 0);
    const int64_t group = p.heads_q / p.heads_kv;
    const SubnormalResults flushed(p);
    for (int64_t b = piece.b_begin; b < piece.b_end; ++b) {
        const AttentionEntry entry = attention_entry(p, b);
        const int64_t row_end = least(piece.row_end, entry.len_q), key_end = least(piece.key_end, entry.len_k);
        for (int64_t h = piece.h_begin; h < piece.h_end; ++h) {
            for (int64_t first = piece.row_begin; first < row_end; first += kBlockKeys) {
                rows.load(problem, entry, h, first, least(kBlockKeys, row_end - first));
                for (int64_t key = piece.key_begin; key < key_end; key += kPanel<T>) {
                    panel.load(p, entry, h / group, key, least(key + kPanel<T>, key_end), offset);
                    pair_tiles<T>(p, entry, rows, 0, rows.count, panel, tiles);
                    // A tile is summed on its own first: shorter chains of additions have smaller errors.
                    if (piece.sum_rows) {
                        for (int64_t r = 1; r < rows.count; ++r) {
                            for (int64_t w = 0; w < kPanel<T>; ++w) tiles.gradients[w] += tiles.gradients[r * kPanel<T> + w];
                        }
                    }
                    for (int64_t r = 0; r < (piece.sum_rows ? 1 : rows.count); ++r) {
                        T *from = tiles.gradients + r * kPanel<T>;
                        for (int64_t w = 1; piece.sum_keys && w < panel.count; ++w) from[0] += from[w];
                        for (int64_t w = 0; w < (piece.sum_keys ? 1 : panel.count); ++w) sums[r * kPanel<T> + w] += from[w];
                    }
                }
            }
        }
    }
    flushed.end();
    const attile_operand &x = problem.dbias;
    for (int64_t r = 0; r < rows_out; ++r) {
        for (int64_t w = 0; w < keys_out; ++w) {
            store_element<T>(x.data, x.dtype, offset_of(x, piece.at[0], piece.at[1], piece.at[2] + r, piece.at[3] + w),
                             sums[r * kPanel<T> + w]);
        }
    }
}

template <class T>
void backward_sink(const BackwardProblem &problem, int64_t head, char *memory) {
    const attile_attention_problem &p = *problem.forward;
    Cutter cutter(memory);
    T *const dout = cutter.cut<T>(p.head_dim_v);
    T *const row = cutter.cut<T>(p.head_dim_v);
    const T sink = load_element<T>(p.sinks.data, p.sinks.dtype, offset_of(p.sinks, 0, head));
    double sum = 0;
    for (int64_t b = 0; b < p.batch && sink != kMinusInfinity<T>; ++b) {
        const AttentionEntry entry = attention_entry(p, b);
        for (int64_t i = 0; i < entry.len_q; ++i) {
            with_storage<T>(problem.dout.dtype, [&](auto s) HWY_ATTR {
                copy_row<T, decltype(s)>(operand_at<decltype(s)>(problem.dout, b, head, entry.q_start + i), problem.dout.stride[3],
                                         p.head_dim_v, dout);
            });
            const T lse = load_element<T>(p.lse.data, p.lse.dtype, offset_of(p.lse, b, head, entry.q_start + i));
            sum -= static_cast<double>(std::exp(sink - lse) * row_delta<T>(problem, entry, head, i, dout, row));
        }
    }
    store_element<T>(problem.dsinks.data, problem.dsinks.dtype, offset_of(problem.dsinks, 0, head), static_cast<T>(sum));
}

// The largest of what the passes cut from a task's scratch.
template <class T>
int64_t backward_scratch_bytes(const attile_attention_problem &p, [[maybe_unused]] bool by_tiles) {
    Cutter over_queries(nullptr), over_keys(nullptr), over_pieces(nullptr), over_tiles(nullptr);
    static_cast<void>(QueryScratch<T>(over_queries, p));
    static_cast<void>(KeyScratch<T>(over_keys, p));
    static_cast<void>(PieceScratch<T>(over_pieces, p));
#if ATTILE_CPU_TILES
    if (by_tiles) static_cast<void>(TileGradients(over_tiles, p));
#endif
    return most(most(over_queries.used(), over_keys.used()), most(over_pieces.used(), over_tiles.used()));
}

// NULL where sums are no floats, or a processor of the target cannot have the instruction.
template <class T>
inline constexpr decltype(BackwardKernels<T>::piece_of_tiles) kPieceOfTiles = nullptr;
#if ATTILE_CPU_TILES
template <>
inline constexpr decltype(BackwardKernels<float>::piece_of_tiles) kPieceOfTiles<float> = &gradient_piece_of_tiles;
#endif

template <class T>
const BackwardKernels<T> &kernels() {
    static constexpr BackwardKernels<T> kTable = {kPanel<T>,         &backward_scratch_bytes<T>, &backward_queries<T>,
                                                  &backward_keys<T>, &gradient_piece<T>,         kPieceOfTiles<T>,
                                                  &finish_piece<T>,  &backward_bias<T>,          &backward_sink<T>};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target

// SPDX-License-Identifier: Apache-2.0
// Attention backward inside the backend: what the front and the kernels of each target agree on.
//
// One pass over pieces, rows of queries times keys of a key head: each pair's score and probability is computed once and serves dq, dk and
// dv. Pieces of one round share neither rows nor keys, and rounds follow one another, so every sum has one order, whoever takes a piece.
//
// Two passes where one has too few pieces for threads, where a row's bits must not depend on its batch, and for what one pass leaves, as
// rows and keys whose sums are not finite. Each computes scores and probabilities anew, so that every gradient has one owner: query rows
// as lanes for dq, keys as lanes for dk and dv. Where dbias is asked for, there is another with its elements as owners.
#ifndef ATTILE_CPU_BACKWARD_H
#define ATTILE_CPU_BACKWARD_H

#include "attention/attention.h"

namespace attile::cpu {

using BackwardProblem = attile_attention_backward_problem;

// Panels that a task of either pass takes at most.
inline constexpr int64_t kBackwardPanels = 8;

// One pass: pieces that there should be at a time, for threads; the fewest that are enough for one; and the least rows and keys of each.
inline constexpr int64_t kPiecesForThreads = 32, kLeastPieces = 4, kLeastPiece = 128;

// Pieces begin at multiples of it: whole panels of every target.
inline constexpr int64_t kPieceUnit = 32;

// A piece of one pass. index: of its rows, below the number of rounds. begins: it is the first of its rows and of its keys.
struct GradientPiece {
    int64_t row_begin, row_end, key_begin, key_end;
    int64_t index;
    bool begins;
};

// What the pieces of a key head share. Rows are those of all heads of its group, [heads][head_rows]; what lies behind the last row of a
// head may be written by who has that row.
template <class T>
struct HeadSums {
    int64_t head_rows;  // len_q in whole units of pieces
    int64_t row_step;   // of dq: head_dim in whole panels
    T *dq;              // [rows][row_step]
    T *dk, *dv;         // [panels of keys][head_dim or head_dim_v in whole panels][panel]
    T *lse, *delta;     // [rows]
    uint8_t *left;      // for each index of a piece: is the head left to two passes?

    HeadSums(Cutter &cutter, const attile_attention_problem &p, int64_t panel, int64_t rounds) {
        head_rows = Size(p.len_q).rounded_up(kPieceUnit).value();
        const Size rows = Size(head_rows) * (p.heads_q / p.heads_kv), keys = Size(p.len_k).rounded_up(panel);
        row_step = Size(p.head_dim).rounded_up(panel).value();
        dq = cutter.cut<T>(rows, row_step);
        dk = cutter.cut<T>(keys, row_step);
        dv = cutter.cut<T>(keys, Size(p.head_dim_v).rounded_up(panel));
        lse = cutter.cut<T>(rows);
        delta = cutter.cut<T>(rows);
        left = cutter.cut<uint8_t>(rounds);
    }
};

// A piece of dbias: entry b and head h of it, rows and keys from .. to; a summed axis is its whole extent of the scores.
struct BiasPiece {
    int64_t b_begin, b_end, h_begin, h_end, row_begin, row_end, key_begin, key_end;
    bool sum_rows, sum_keys;
    int64_t at[4];  // of the first element
};

template <class T>
struct BackwardKernels {
    int panel;
    int64_t (*scratch_bytes)(const attile_attention_problem &p, bool by_tiles);
    // dq of some rows.
    void (*queries)(const BackwardProblem &problem, const AttentionRows &rows, char *scratch);
    // dk and dv of keys begin .. end of a key head.
    void (*keys)(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, int64_t begin, int64_t end, char *scratch);
    // A piece of one pass joins the sums of its head.
    void (*piece)(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece,
                  const HeadSums<T> &sums, char *scratch);
    // As piece, of bfloat16 whose products go by tiles: Target::kAmxBf16. NULL: none.
    void (*piece_of_tiles)(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece,
                           const HeadSums<T> &sums, char *scratch);
    // dq of a piece's rows, dk and dv of its keys, when all pieces of the head have joined.
    void (*finish)(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const GradientPiece &piece, int64_t rounds,
                   const HeadSums<T> &sums, char *scratch);
    // One piece of dbias: at most kBlockKeys rows unless summed, at most a panel of keys unless summed.
    void (*bias)(const BackwardProblem &problem, const BiasPiece &piece, char *scratch);
    // dsinks of a head.
    void (*sink)(const BackwardProblem &problem, int64_t head, char *scratch);
};

template <class T>
const BackwardKernels<T> &backward_kernels(Target target);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_BACKWARD_H

// SPDX-License-Identifier: Apache-2.0
// Attention backward inside the backend: what the front and the kernels of each target agree on.
//
// Two passes, each computing scores and probabilities anew, so that every gradient has one owner and nothing depends on the order of
// threads: query rows as lanes for dq, keys as lanes for dk and dv. Where dbias is asked for, a third with its elements as owners.
#ifndef ATTILE_CPU_BACKWARD_H
#define ATTILE_CPU_BACKWARD_H

#include "attention/attention.h"

namespace attile::cpu {

using BackwardProblem = attile_attention_backward_problem;

// Panels that a task of either pass takes at most.
inline constexpr int64_t kBackwardPanels = 8;

// A piece of dbias: entry b and head h of it, rows and keys from .. to; a summed axis is its whole extent of the scores.
struct BiasPiece {
    int64_t b_begin, b_end, h_begin, h_end, row_begin, row_end, key_begin, key_end;
    bool sum_rows, sum_keys;
    int64_t at[4];  // of the first element
};

template <class T>
struct BackwardKernels {
    int panel;
    int64_t (*scratch_bytes)(const attile_attention_problem &p);
    // dq of some rows.
    void (*queries)(const BackwardProblem &problem, const AttentionRows &rows, char *scratch);
    // dk and dv of keys begin .. end of a key head.
    void (*keys)(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, int64_t begin, int64_t end, char *scratch);
    // One piece of dbias: at most kBlockKeys rows unless summed, at most a panel of keys unless summed.
    void (*bias)(const BackwardProblem &problem, const BiasPiece &piece, char *scratch);
    // dsinks of a head.
    void (*sink)(const BackwardProblem &problem, int64_t head, char *scratch);
};

template <class T>
const BackwardKernels<T> &backward_kernels(Target target);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_BACKWARD_H

// SPDX-License-Identifier: Apache-2.0
// Attention backward: tasks and the interface.
#include "attention_backward/attention_backward.h"

#include <cmath>
#include <cstdio>

#include "amx/amx.h"
#include "attention/sequences.h"
#include "element.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr double kFlopsForThreads = 4.0e5;
// From here on a head may be more than one piece.
constexpr double kFlopsForPieces = 2.0e7;
// Bytes of a key head's sums in one pass, of which each thread or each head has its own; longer sequences take two passes.
constexpr int64_t kMostHeadSums = int64_t{64} << 20;
constexpr double kMostScaleOfTiles = 16;
constexpr char kNoPages[] = "cpu: attention_backward: gradients of paged keys and values are not defined";

double backward_flops(const attile_attention_problem &p) {
    // Scores again, dp, dv, dq and dk.
    return 2 * visible_pairs(p) * (3 * static_cast<double>(p.head_dim) + 2 * static_cast<double>(p.head_dim_v));
}

struct BackwardPlan {
    int threads = 1;
    int64_t query_rows = 0, query_blocks = 0;  // of a key head's rows
    int64_t keys = 0, key_blocks = 0;
    bool one_pass = false;
    bool tiles = false;             // of bfloat16
    const char *refusal = nullptr;  // why not
    int64_t rounds = 0;             // of pieces: 1 if a head is a piece
    int64_t piece_rows = 0, piece_keys = 0;
    int64_t sums_bytes = 0, sums = 0;  // of a head; and heads that have them at a time
    int64_t scratch_bytes = 0, workspace_bytes = 0;
};

// Rounds of pieces; 0: two passes. By the problem's shape alone, since the order of sums depends on it.
int64_t rounds_for(const attile_attention_problem &p) {
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return 0;
    if (backward_flops(p) < kFlopsForPieces) return 1;
    const int64_t heads = most(1, (Size(p.batch) * p.heads_kv).value()), wanted = ceil_div(kPiecesForThreads, heads);
    // Where there are rounds all heads have sums at a time, and of packed entries each may be far shorter than the longest.
    const bool packed = p.cu_len_q.dtype != 0 || p.cu_len_k.dtype != 0;  // A query may have no data.
    const int64_t most_pieces = packed && p.batch > 1 ? 1 : wanted;
    const int64_t rows = least(most_pieces, ceil_div(p.len_q, kLeastPiece)), keys = least(most_pieces, ceil_div(p.len_k, kLeastPiece));
    if ((Size(heads) * least(rows, keys)).value() < kLeastPieces) return 0;
    return most(rows, keys);
}

template <class T>
BackwardPlan plan_for(const State &state, const BackwardProblem &problem) {
    const attile_attention_problem &p = *problem.forward;
    const BackwardKernels<T> &kernels = backward_kernels<T>(state.target);
    BackwardPlan plan;
    plan.threads = backward_flops(p) < kFlopsForThreads ? 1 : state.threads;
    const int64_t heads = (Size(p.batch) * p.heads_kv).value();
    // Panels of a task: as many as there may be, unless threads would go without.
    const auto panels_for = [&](int64_t extent) {
        const int64_t panels = most(1, ceil_div(extent, kernels.panel));
        return most(1, least(kBackwardPanels, (Size(panels) * heads).value() / (plan.threads == 1 ? 1 : 4 * plan.threads)));
    };
    const int64_t rows = (Size(p.len_q) * (p.heads_q / p.heads_kv)).value();
    plan.query_rows = panels_for(rows) * kernels.panel;
    plan.query_blocks = ceil_div(rows, plan.query_rows);
    plan.keys = panels_for(p.len_k) * kernels.panel;
    plan.key_blocks = ceil_div(p.len_k, plan.keys);
    plan.rounds = rounds_for(p);
    if (plan.rounds > 0) {
        Cutter cutter(nullptr);
        static_cast<void>(HeadSums<T>(cutter, p, kernels.panel, plan.rounds));
        plan.sums_bytes = cutter.used();
        if (plan.sums_bytes > kMostHeadSums) plan.rounds = 0;
    }
    plan.one_pass = plan.rounds > 0;
    const auto is_brain = [](const attile_operand &x) { return x.dtype == ATTILE_BF16; };
    // Tiles flush small sums, which a large scale would bring back.
    if (plan.one_pass && kernels.piece_of_tiles != nullptr && state.target == Target::kAmxBf16 && std::fabs(p.scale) <= kMostScaleOfTiles &&
        is_brain(p.q) && is_brain(p.k) && is_brain(p.v) && is_brain(problem.dout)) {
        plan.refusal = amx_refusal();
        plan.tiles = plan.refusal == nullptr;
    }
    if (plan.one_pass) {
        plan.sums = plan.rounds == 1 ? least(plan.threads, heads) : heads;
        plan.piece_rows = Size(ceil_div(p.len_q, plan.rounds)).rounded_up(kPieceUnit).value();
        plan.piece_keys = Size(ceil_div(p.len_k, plan.rounds)).rounded_up(kPieceUnit).value();
    }
    plan.scratch_bytes = kernels.scratch_bytes(p, plan.tiles);
    plan.workspace_bytes = (Size(plan.threads) * plan.scratch_bytes + Size(plan.sums) * plan.sums_bytes).value();
    return plan;
}

BackwardPlan backward_plan(const State &state, const BackwardProblem &problem) {
    return problem.forward->compute == ATTILE_F64 ? plan_for<double>(state, problem) : plan_for<float>(state, problem);
}

// Rows and keys that belong to no sequence, or lie past a length, get 0.
template <class T>
void clear(const attile_operand &x, int64_t i0, int64_t i1, int64_t e2, int64_t e3) {
    for (int64_t i2 = 0; i2 < e2; ++i2) {
        for (int64_t i3 = 0; i3 < e3; ++i3) store_element<T>(x.data, x.dtype, offset_of(x, i0, i1, i2, i3), T{0});
    }
}

// The tiles that the gradient of the bias is computed in. An axis of extent 1 is summed over the scores' extent; where that is 1 too it is
// the same.
struct BiasTiles {
    int64_t rows = 0, keys = 0, count = 0;
};
BiasTiles bias_tiles(const BackwardProblem &problem, int64_t panel) {
    if (problem.dbias.data == nullptr) return {};
    const int64_t *extent = problem.bias_extent;
    const int64_t rows = extent[2] == 1 ? 1 : ceil_div(extent[2], kBlockKeys), keys = extent[3] == 1 ? 1 : ceil_div(extent[3], panel);
    return {rows, keys, extent[0] * extent[1] * rows * keys};
}

template <class T>
void run_bias(const BackwardKernels<T> &kernels, const BackwardProblem &problem, const BiasTiles &tiles, int64_t task, char *scratch) {
    const attile_attention_problem &p = *problem.forward;
    const int64_t *extent = problem.bias_extent;
    BiasPiece piece{};
    const int64_t key_tile = task % tiles.keys, row_tile = task / tiles.keys % tiles.rows;
    const int64_t h = task / tiles.keys / tiles.rows % extent[1], b = task / tiles.keys / tiles.rows / extent[1];
    piece.b_begin = b;
    piece.b_end = extent[0] == 1 ? p.batch : b + 1;
    piece.h_begin = h;
    piece.h_end = extent[1] == 1 ? p.heads_q : h + 1;
    piece.sum_rows = extent[2] == 1;
    piece.sum_keys = extent[3] == 1;
    piece.row_begin = piece.sum_rows ? 0 : row_tile * kBlockKeys;
    piece.row_end = piece.sum_rows ? p.len_q : least(extent[2], piece.row_begin + kBlockKeys);
    piece.key_begin = piece.sum_keys ? 0 : key_tile * kernels.panel;
    piece.key_end = piece.sum_keys ? p.len_k : least(extent[3], piece.key_begin + kernels.panel);
    piece.at[0] = b;
    piece.at[1] = h;
    piece.at[2] = piece.sum_rows ? 0 : piece.row_begin;
    piece.at[3] = piece.sum_keys ? 0 : piece.key_begin;
    kernels.bias(problem, piece, scratch);
}

// One pass: rounds of pieces, rows times keys of a head, and the end of each head.
template <class T>
void run_pieces(const State &state, const BackwardPlan &plan, const BackwardProblem &problem, char *workspace) {
    const BackwardKernels<T> &kernels = backward_kernels<T>(state.target);
    const attile_attention_problem &p = *problem.forward;
    const int64_t heads = p.batch * p.heads_kv, rounds = plan.rounds;
    char *const sums0 = workspace + plan.threads * plan.scratch_bytes;
    // The piece n of a round: rows n, and keys that no other piece of the round has.
    const auto piece_of = [&](const AttentionEntry &entry, int64_t round, int64_t n) {
        const int64_t j = (n + round) % rounds;
        return GradientPiece{least(entry.len_q, n * plan.piece_rows),
                             least(entry.len_q, (n + 1) * plan.piece_rows),
                             least(entry.len_k, j * plan.piece_keys),
                             least(entry.len_k, (j + 1) * plan.piece_keys),
                             n,
                             round == 0};
    };
    auto do_piece = [&](const Piece &piece) {
        const int64_t head = piece.index / rounds, n = piece.index % rounds, kv_head = head % p.heads_kv;
        char *const scratch = workspace + piece.rank * plan.scratch_bytes;
        Cutter cutter(sums0 + (rounds == 1 ? piece.rank : head) * plan.sums_bytes);
        const HeadSums<T> sums(cutter, p, kernels.panel, rounds);
        const AttentionEntry entry = attention_entry(p, head / p.heads_kv);
        const bool ends = piece.round == rounds;
        const GradientPiece part = piece_of(entry, ends ? 0 : piece.round, n);
        if (!ends) (plan.tiles ? kernels.piece_of_tiles : kernels.piece)(problem, entry, kv_head, part, sums, scratch);
        if (ends || rounds == 1) kernels.finish(problem, entry, kv_head, part, rounds, sums, scratch);
    };
    Work work;
    work.rounds = rounds == 1 ? 1 : rounds + 1;
    work.pieces[0] = heads * rounds;
    parallel_phases(least(plan.threads, work.pieces[0]), work, do_piece);
}

template <class T>
void run_plan(const State &state, const BackwardPlan &plan, const BackwardProblem &problem, char *workspace) {
    const BackwardKernels<T> &kernels = backward_kernels<T>(state.target);
    const attile_attention_problem &p = *problem.forward;
    const bool packed_q = p.cu_len_q.data != nullptr, packed_k = p.cu_len_k.data != nullptr;
    const int64_t cleared_q = packed_q ? p.heads_q : 0;
    const int64_t cleared_k = packed_k ? p.heads_kv : p.key_lengths.data != nullptr ? p.batch * p.heads_kv : 0;
    const auto clear_head = [&](int64_t index, int) {
        if (index < cleared_q) return clear<T>(problem.dq, 0, index, p.total_q, p.head_dim);
        index -= cleared_q;
        clear<T>(problem.dk, index / p.heads_kv, index % p.heads_kv, p.total_k, p.head_dim);
        clear<T>(problem.dv, index / p.heads_kv, index % p.heads_kv, p.total_k, p.head_dim_v);
    };
    const int64_t heads = p.batch * p.heads_kv, group = p.heads_q / p.heads_kv;
    const int64_t query_tasks = heads * plan.query_blocks, key_tasks = heads * plan.key_blocks;
    const auto do_task = [&](int64_t task, int rank) {
        char *scratch = workspace + rank * plan.scratch_bytes;
        const bool over_keys = task < key_tasks;
        if (!over_keys) task -= key_tasks;
        const int64_t head = task % heads, b = head / p.heads_kv, kv_head = head % p.heads_kv;
        const AttentionEntry entry = attention_entry(p, b);
        if (over_keys) {
            const int64_t begin = task / heads * plan.keys, end = least(entry.len_k, begin + plan.keys);
            if (begin < end) kernels.keys(problem, entry, kv_head, begin, end, scratch);
            return;
        }
        AttentionRows rows{entry, kv_head, kv_head * group, group, 0, 0};
        rows.begin = (plan.query_blocks - 1 - task / heads) * plan.query_rows;
        rows.end = least(entry.len_q * group, rows.begin + plan.query_rows);
        if (rows.begin < rows.end) kernels.queries(problem, rows, scratch);
    };
    int64_t clears = cleared_q + cleared_k, tasks = query_tasks + key_tasks;
    if (sequences_meet(p)) {
        for (int64_t index = 0; index < clears; ++index) clear_head(index, 0);
        for (int64_t b = 0; b < p.batch; ++b) {
            for (int64_t first = 0; first < tasks; first += heads) {
                for (int64_t head = 0; head < p.heads_kv; ++head) do_task(first + b * p.heads_kv + head, 0);
            }
        }
        clears = tasks = 0;
    }
    if (plan.one_pass && tasks > 0) {
        parallel_for(plan.threads, clears, clear_head);
        run_pieces<T>(state, plan, problem, workspace);
        clears = tasks = 0;
    }
    const BiasTiles tiles = bias_tiles(problem, kernels.panel);
    parallel_in_turn(
        plan.threads, Loop{clears, clear_head}, Loop{tasks, do_task},
        Loop{tiles.count, [&](int64_t task, int rank) { run_bias(kernels, problem, tiles, task, workspace + rank * plan.scratch_bytes); }},
        Loop{problem.dsinks.data == nullptr ? 0 : p.heads_q,
             [&](int64_t head, int rank) { kernels.sink(problem, head, workspace + rank * plan.scratch_bytes); }});
}

int32_t query(void *opaque, const BackwardProblem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const attile_attention_problem &p = *problem->forward;
    if (p.block_table.dtype != 0) {
        support->level = ATTILE_SUPPORT_NONE;
        support->status = ATTILE_ERROR_UNSUPPORTED_FEATURE;
        std::snprintf(support->text, sizeof support->text, "%s", kNoPages);
        return ATTILE_OK;
    }
    const BackwardPlan plan = backward_plan(state, *problem);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    const char *const type = p.compute == ATTILE_F64 ? "f64" : plan.tiles ? "bf16" : "f32";
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_attention_backward_%s%s_%s", plan.one_pass ? "" : "two_passes_", type,
                  plan.tiles ? target_name(Target::kAmxBf16) : kernel_target_name(state.target));
    if (!plan.tiles && plan.refusal != nullptr) std::snprintf(support->text, sizeof support->text, "%s", plan.refusal);
    support->flops = backward_flops(p);
    support->bytes = 2 * attention_bytes(p);
    support->tile_m = reported(plan.one_pass ? plan.piece_rows : plan.query_rows);
    support->tile_n = reported(plan.one_pass ? plan.piece_keys : plan.keys);
    support->tile_k = reported(p.head_dim);
    support->threads = 1;
    support->splits = reported(most(1, plan.rounds));
    const Size tasks = plan.one_pass ? Size(plan.rounds) * plan.rounds : Size(plan.query_blocks) + plan.key_blocks;
    support->blocks = (Size(p.batch) * p.heads_kv * tasks).value();
    return ATTILE_OK;
}

int32_t run(void *opaque, const BackwardProblem *problem) {
    State &state = *static_cast<State *>(opaque);
    const attile_attention_problem &p = *problem->forward;
    if (p.block_table.dtype != 0) return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, kNoPages);
    const BackwardPlan plan = backward_plan(state, *problem);
    const Workspace workspace(state, p.launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    if (p.compute == ATTILE_F64) {
        run_plan<double>(state, plan, *problem, workspace.data());
    } else {
        run_plan<float>(state, plan, *problem, workspace.data());
    }
    return ATTILE_OK;
}

}  // namespace

const attile_attention_backward_interface g_attention_backward_interface = {sizeof(attile_attention_backward_interface), 2, query, run};

}  // namespace attile::cpu

// SPDX-License-Identifier: Apache-2.0
#include "attention/exact.h"

#include <cstdio>
#include <cstdlib>

#include "attention/attention.h"
#include "attention/sequences.h"
#include "rows/exact.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

using Problem = attile_attention_problem;

constexpr double kPairsForThreads = 64;

struct Plan {
    int64_t rows = 0, thread_bytes = 0, workspace_bytes = 0;  // rows of all heads and entries
    int threads = 1;
};

Plan plan_of(const State &state, const Problem &p) {
    Plan plan;
    plan.rows = (Size(p.batch) * p.heads_q * p.len_q).value();
    plan.threads = visible_pairs(p) < kPairsForThreads ? 1 : state.threads;
    plan.thread_bytes = (bytes_for<double>(p.len_k) + bytes_for<double>(p.head_dim) + bytes_for<double>(p.head_dim)).value();
    plan.workspace_bytes = (Size(plan.threads) * plan.thread_bytes).value();
    return plan;
}

// A row of one head, and what it sees.
class Row {
  public:
    Row(const ExactRowKernels<double> &kernels, const Problem &p, const AttentionEntry &entry, int64_t h, int64_t i, char *memory)
        : kernels_(kernels), p_(p), entry_(entry), h_(h), g_(h / (p.heads_q / p.heads_kv)), i_(i) {
        Cutter cutter(memory);
        scores_ = cutter.cut<double>(p.len_k);
        query_ = cutter.cut<double>(p.head_dim);
        key_ = cutter.cut<double>(p.head_dim);
    }
    void attend() {
        const KeyRange seen = visible_keys(p_, entry_, i_);
        double top = kNoNumber, sink = kNoNumber;
        if (p_.sinks.data != nullptr) sink = top = number(p_.sinks, entry_.b * p_.sinks.stride[0] + h_ * p_.sinks.stride[1]);
        widen_row(p_.q, entry_.b, h_, entry_.q_start + i_, p_.head_dim, query_);
        for (int64_t j = seen.begin; j < seen.end; ++j) {
            scores_[j] = score(j);
            top = larger(top, scores_[j]);
        }
        ExactSum sum;
        double z = 1;
        if (has_weights(top)) {
            kernels_.weigh(&sink, 1, top, &sink);
            sum.add(sink);
            weigh(seen, top, &sum);
            z = sum.take();
        }
        const int64_t o_offset = entry_.b * p_.o.stride[0] + h_ * p_.o.stride[1] + (entry_.q_start + i_) * p_.o.stride[2];
        WeightedSums sums;
        for (int64_t d = 0; d < p_.head_dim_v; d += WeightedSums::kMost) {
            const int64_t width = least(WeightedSums::kMost, p_.head_dim_v - d);
            for (int64_t j = seen.begin; j < seen.end && has_weights(top); ++j) {
                if (scores_[j] < 0) continue;
                int64_t outer = 0, key = 0;
                locate(j, &outer, &key);
                const int64_t offset = outer * p_.v.stride[0] + g_ * p_.v.stride[1] + key * p_.v.stride[2] + d * p_.v.stride[3];
                sums.add(scores_[j], p_.v, offset, p_.v.stride[3], width);
            }
            for (int64_t c = 0; c < width; ++c) {
                store_exact(p_.o, o_offset + (d + c) * p_.o.stride[3], has_weights(top) ? sums.take(c) / z : without_weights(top));
            }
        }
        if (p_.lse.data == nullptr) return;
        const int64_t lse_offset = entry_.b * p_.lse.stride[0] + h_ * p_.lse.stride[1] + (entry_.q_start + i_) * p_.lse.stride[2];
        store_exact(p_.lse, lse_offset, has_weights(top) ? top + log_by_steps(z) : without_weights(top) + top);
    }

  private:
    static double number(const attile_operand &x, int64_t offset) {
        double value;
        widen_exactly(x, offset, 1, 1, &value);
        return value;
    }
    static void widen_row(const attile_operand &x, int64_t i0, int64_t i1, int64_t i2, int64_t count, double *to) {
        widen_exactly(x, i0 * x.stride[0] + i1 * x.stride[1] + i2 * x.stride[2], x.stride[3], count, to);
    }
    int64_t offset_of_pair(const attile_operand &x, int64_t i, int64_t j) const {
        return entry_.b * x.stride[0] + h_ * x.stride[1] + i * x.stride[2] + j * x.stride[3];
    }
    bool is_zero(const attile_operand &bytes, int64_t i, int64_t j) const {
        return bytes.data != nullptr && static_cast<const uint8_t *>(bytes.data)[offset_of_pair(bytes, i, j)] == 0;
    }
    // Where a key lies in k and v; false: its page does not exist.
    bool locate(int64_t j, int64_t *outer, int64_t *key) const {
        const bool is_paged = p_.block_table.data != nullptr;
        *outer = is_paged ? page_of(p_, entry_.b, j) : entry_.b;
        *key = is_paged ? j % p_.page_size : entry_.k_start + j;
        return *outer >= 0;
    }
    // Of a key that the window shows; minus infinity if something else hides it.
    double score(int64_t j) {
        const int64_t column = j - (entry_.len_k - p_.tree_keys);
        if (is_zero(p_.allowed, i_, j) || is_zero(p_.block_mask, i_ / ATTILE_MASK_BLOCK, j / ATTILE_MASK_BLOCK) ||
            (column >= 0 && is_zero(p_.tree_mask, i_, column)))
            return kNoNumber;
        const double bias = p_.bias.data != nullptr ? number(p_.bias, offset_of_pair(p_.bias, i_, j)) : 0;
        int64_t outer = 0, key = 0;
        if (bias == kNoNumber || !locate(j, &outer, &key)) return kNoNumber;
        widen_row(p_.k, outer, g_, key, p_.head_dim, key_);
        for (int64_t d = 0; d < p_.head_dim; ++d) product_.add_product(query_[d], key_[d]);
        double s = p_.scale * product_.take() + bias;
        if (p_.alibi_slopes.data != nullptr) {
            const double slope = number(p_.alibi_slopes, entry_.b * p_.alibi_slopes.stride[0] + h_ * p_.alibi_slopes.stride[1]);
            s -= slope * static_cast<double>(std::abs(j - i_ - entry_.alibi_shift));
        }
        return s;
    }
    // Scores become weights, those of hidden keys -1.
    void weigh(const KeyRange &seen, double top, ExactSum *sum) {
        for (int64_t first = seen.begin; first < seen.end; first += kExactPiece) {
            const int64_t count = least(kExactPiece, seen.end - first);
            double piece[kExactPiece];
            kernels_.weigh(scores_ + first, count, top, piece);
            for (int64_t i = 0; i < count; ++i) {
                double &score = scores_[first + i];
                const bool counts = score != kNoNumber;
                if (counts) sum->add(piece[i]);
                score = counts ? piece[i] : -1;
            }
        }
    }

    const ExactRowKernels<double> &kernels_;
    const Problem &p_;
    const AttentionEntry &entry_;
    int64_t h_, g_, i_;
    double *scores_, *query_, *key_;
    ExactSum product_;
};

}  // namespace

int32_t exact_attention_query(const State &state, const Problem &p, attile_support *support) {
    const Plan plan = plan_of(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_attention_exact_%s", kernel_target_name(state.target));
    support->flops = 2 * visible_pairs(p) * (static_cast<double>(p.head_dim) + static_cast<double>(p.head_dim_v));
    support->bytes = attention_bytes(p);
    support->tile_m = 1;
    support->tile_n = reported(p.len_k);
    support->tile_k = reported(p.head_dim);
    support->threads = 1;
    support->splits = 1;
    support->blocks = plan.rows;
    return ATTILE_OK;
}

int32_t exact_attention_run(State &state, const Problem &p) {
    const Plan plan = plan_of(state, p);
    const Workspace workspace(state, p.launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    const ExactRowKernels<double> &kernels = exact_row_kernels<double>(state.target);
    // Sequences that share rows go in order, so that the last one's results stay.
    const int threads = sequences_meet(p) ? 1 : plan.threads;
    parallel_for(threads, plan.rows, [&](int64_t row, int rank) {
        const int64_t i = row % p.len_q, h = row / p.len_q % p.heads_q;
        const AttentionEntry entry = attention_entry(p, row / p.len_q / p.heads_q);
        if (i < entry.len_q) Row(kernels, p, entry, h, i, workspace.data() + rank * plan.thread_bytes).attend();
    });
    return ATTILE_OK;
}

}  // namespace attile::cpu

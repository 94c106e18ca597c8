// SPDX-License-Identifier: Apache-2.0
// Exact attention: a lane group for each row. Its lanes make the products of a key's score together, key by key, and then share the keys
// out for each column of the result; scores and weights of the row are kept in the workspace. 256 threads, 5 KB of shared memory. Bound:
// integer arithmetic of the sums.
#include <algorithm>
#include <cstdio>

#include "attention/exact/plan.h"
#include "attention/numbers.h"
#include "attention/run.h"
#include "host/sizes.h"
#include "host/status.h"
#include "rows/exact/sums.h"

namespace attile::gpu::exact {
namespace {

constexpr int kGroups = kRowThreads / kLanes;
constexpr int64_t kScoreBytes = int64_t{256} << 20;  // Of all rows that are under way, unless a block's alone take more.
constexpr double kHidden = -1;                       // In place of a weight.

struct ExactParams {
    AttentionParams attention;
    double *scores;
    int64_t pitch, rows;
    int32_t dtype, o_dtype, lse_dtype, reserved;
};
static_assert(sizeof(ExactParams) <= 4096, "kernel parameters");

// A row of a head, and what it sees.
class Row {
  public:
    using Threads = RowThreads<kLanes>;

    ATTILE_LANE_FN Row(const ExactParams &params, const Threads &threads, int64_t row)
        : params_(params),
          p_(params.attention),
          threads_(threads),
          row_(static_cast<int>(divide(row, p_.len_q).remainder)),
          head_(static_cast<int>(divide(divide(row, p_.len_q).quotient, heads()).remainder)),
          entry_(entry_of_thread(p_, divide(divide(row, p_.len_q).quotient, heads()).quotient)),
          range_(p_, row_, entry_) {
        const int64_t slot = static_cast<int64_t>(blockIdx.x) * kGroups + threads.row();
        scores_ = params.scores + slot * params.pitch;
    }
    ATTILE_LANE_FN bool is_there() const { return row_ < entry_.len_q; }

    ATTILE_LANE_FN void attend() {
        const int64_t keys = range_.high > range_.low ? range_.high - range_.low : 0;
        const double sink =
            p_.sinks.data ? load_as<double>(p_.sinks, entry_.batch * p_.sinks.stride[0] + head_ * p_.sinks.stride[1]) : minus_infinity();
        Weights weights;
        weights.add(sink);
        for (int64_t i = 0; i < keys; ++i) {
            const double s = score(range_.low + static_cast<int>(i));
            weights.add(s);
            if (threads_.is_first()) scores_[i] = s;
        }
        lane_sync();
        const bool has = has_weights(weights.top);
        double z = 1;
        if (has) {
            z = weights.sum(threads_, keys + 1, [&](int64_t i) { return i < keys ? scores_[i] : sink; });
            for (int64_t i = threads_.index(); i < keys; i += kLanes)
                scores_[i] = scores_[i] == minus_infinity() ? kHidden : weights.of(scores_[i]);
        }
        lane_sync();
        const int64_t o = offset(p_.o, entry_.first_q + row_);
        for (int column = 0; column < p_.head_dim_v; ++column) {
            const double result = has ? rounded_quotient(sum_of_column(column, keys), z) : without_weights(weights.top);
            if (threads_.is_first()) store_exact(const_cast<void *>(p_.o.data), o + column * p_.o.stride[3], params_.o_dtype, result);
        }
        if (p_.lse.data && threads_.is_first()) {
            const double lse = has ? rounded_sum(weights.top, log_by_steps(z)) : without_weights(weights.top) + weights.top;
            store_exact(const_cast<void *>(p_.lse.data), offset(p_.lse, entry_.first_q + row_), params_.lse_dtype, lse);
        }
        lane_sync();  // The scores are read: the next row's may come.
    }

  private:
    ATTILE_LANE_FN int64_t heads() const { return static_cast<int64_t>(p_.heads.divisor) * p_.pack.divisor; }
    ATTILE_LANE_FN int64_t offset(const AttentionOperand &x, int64_t row) const {
        return entry_.batch * x.stride[0] + head_ * x.stride[1] + row * x.stride[2];
    }
    ATTILE_LANE_FN int64_t key_offset(const AttentionOperand &x, int64_t outer, int64_t key) const {
        return outer * x.stride[0] + static_cast<int64_t>(head_ / static_cast<int>(p_.group.divisor)) * x.stride[1] + key * x.stride[2];
    }
    // Of a key that the window shows; minus infinity if something else hides it.
    ATTILE_LANE_FN double score(int key) const {
        if (!sparse_mask_shows(p_, entry_, head_, row_, key)) return minus_infinity();
        if (p_.allowed.data && static_cast<const uint8_t *>(p_.allowed.data)[offset(p_.allowed, row_) + key * p_.allowed.stride[3]] == 0)
            return minus_infinity();
        const double bias = p_.bias.data ? load_as<double>(p_.bias, offset(p_.bias, row_) + key * p_.bias.stride[3]) : 0.0;
        int64_t outer, k_row;
        if (bias == minus_infinity() || !locate_key(p_, entry_, key, outer, k_row)) return minus_infinity();
        const int64_t q = offset(p_.q, entry_.first_q + row_), k = key_offset(p_.k, outer, k_row);
        const auto for_columns = [&](auto use) {
            for (int d = threads_.index(); d < p_.head_dim; d += kLanes)
                use(Number(load_exact(p_.q.data, q + d * p_.q.stride[3], params_.dtype)),
                    Number(load_exact(p_.k.data, k + d * p_.k.stride[3], params_.dtype)));
        };
        double s = rounded_sum(rounded_product(p_.scale, sum_of(p_.head_dim, for_columns)), bias);
        if (p_.alibi_slopes.data) {
            const double slope = load_as<double>(p_.alibi_slopes, offset(p_.alibi_slopes, 0));
            const int64_t distance = int64_t{key} - row_ - entry_.shift;
            s = rounded_sum(s, -rounded_product(slope, static_cast<double>(distance < 0 ? -distance : distance)));
        }
        return s;
    }
    ATTILE_LANE_FN double sum_of_column(int column, int64_t keys) const {
        return sum_of(keys, [&](auto use) {
            for (int64_t i = threads_.index(); i < keys; i += kLanes) {
                const double weight = scores_[i];
                int64_t outer, v_row;
                if (weight == kHidden || !locate_key(p_, entry_, range_.low + static_cast<int>(i), outer, v_row)) continue;
                use(Number(weight), Number(load_exact(p_.v.data, key_offset(p_.v, outer, v_row) + column * p_.v.stride[3], params_.dtype)));
            }
        });
    }
    // The exact sum of the products that for_products hands out to the lanes, rounded.
    template <class ForProducts>
    ATTILE_LANE_FN double sum_of(int64_t count, ForProducts for_products) const {
        Reach reach;
        for_products([&](const Number &x, const Number &y) { reach.add_product(x, y); });
        reach.share(threads_, count);
        return threads_.sum(reach.lowest, reach.highest, reach.kinds, [&](int base, int64_t(&sums)[kWindowWords]) {
            for_products([&](const Number &x, const Number &y) { add_product(x, y, base, sums); });
        });
    }

    const ExactParams &params_;
    const AttentionParams &p_;
    const Threads &threads_;
    const int row_, head_;
    const AttentionEntry entry_;
    const KeyRange range_;
    double *scores_;
};

__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 2) attend_exactly(const ExactParams parameter) {
    const ExactParams &params = kernel_parameter(parameter);
    __shared__ RowMemory<kLanes> memory;
    const RowThreads<kLanes> threads(memory);
    for (int64_t at = int64_t{blockIdx.x} * kGroups + threads.row(); at < params.rows; at += int64_t{gridDim.x} * kGroups) {
        Row row(params, threads, at);
        if (row.is_there()) row.attend();
    }
}

struct ExactAttention {
    const attile_attention_problem *problem;
    int64_t rows, pitch, blocks;

    void move_to(const attile_attention_problem &to) { problem = &to; }
    int32_t describe(Device &device, attile_support &support) const {
        const attile_attention_problem &p = *problem;
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "attention_exact_lanes");
        support.flops = 2 * attention_visible_pairs(p) * static_cast<double>(p.head_dim + p.head_dim_v);
        support.bytes = attention_bytes(p);
        support.tile_m = kGroups;
        support.tile_n = 1;
        support.splits = 1;
        support.blocks = blocks;
        const int32_t status = fill_resources(device, reinterpret_cast<const void *>(&attend_exactly), kRowThreads, support);
        support.predicted_share = 0;  // Integer arithmetic bounds it, of which no peak is known.
        return status;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        if (rows == 0) return ATTILE_OK;
        AttentionPlan plan;
        plan.row_blocks = 1;
        ExactParams params{};
        params.attention = attention_params(*problem, plan);
        params.scores = workspace.take<double>(blocks * kGroups * pitch);
        if (params.scores == nullptr)
            return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "attention: the workspace is smaller than the query said");
        params.pitch = pitch;
        params.rows = rows;
        params.dtype = problem->q.dtype;
        params.o_dtype = problem->o.dtype;
        params.lse_dtype = problem->lse.dtype;
        return gpu::launch(device, &attend_exactly, Dim3{static_cast<uint32_t>(blocks)}, Dim3{kRowThreads}, 0, stream, params);
    }
};

}  // namespace

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem) {
    const attile_attention_problem &p = problem;
    if ((p.launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) == 0) return {};
    if (p.len_q > kAttentionMaxLength || p.len_k > kAttentionMaxLength)
        return Planned<attile_attention_problem>::refused(
            ATTILE_ERROR_UNSUPPORTED_SHAPE, "attention: %lld rows and %lld keys: at most %lld of each", static_cast<long long>(p.len_q),
            static_cast<long long>(p.len_k), static_cast<long long>(kAttentionMaxLength));
    ExactAttention plan{};
    plan.problem = &problem;
    plan.rows = p.batch * p.heads_q * p.len_q;
    plan.pitch = std::max<int64_t>(p.len_k, 1);
    const int64_t fit = kScoreBytes / (static_cast<int64_t>(sizeof(double)) * kGroups * plan.pitch);
    const int64_t wanted = std::min<int64_t>(ceil_div(plan.rows, kGroups), 8 * std::max(device.properties().compute_units, 1));
    plan.blocks = std::max<int64_t>(std::min(fit, wanted), 1);
    return Planned<attile_attention_problem>(plan,
                                             workspace_piece(plan.blocks * kGroups * plan.pitch * static_cast<int64_t>(sizeof(double))));
}

}  // namespace attile::gpu::exact

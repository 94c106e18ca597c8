// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/mma/group_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "attention/plan.h"
#include "attention/run.h"
#include "attention_backward/mma/add_parts.h"
#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

// Parts of dk and dv: at most this share of the device's memory, and this much, as of what the kernels keep.
constexpr int64_t kPartsShare = 64, kMostParts = 512ll << 20;
// Of the expected time of whole groups what parts may take: expectations err.
constexpr double kGain = 0.9;

// Entries of dk and dv.
int64_t key_entries(const attile_attention_problem &p) { return is_present(p.cu_len_k) ? 1 : p.batch; }

// Seconds that the kernel of dk and dv takes with groups cut into some parts, and what adds these up.
class PartsTime {
  public:
    PartsTime(const DeviceProperties &device, const attile_attention_problem &p, const BackwardChoice &whole, double slots)
        : pairs_(static_cast<double>(whole.plan.pairs)),
          blocks_(static_cast<double>(whole.plan.key_blocks)),
          at_once_(whole.pairs_at_once),
          heads_(static_cast<double>(p.heads_q / p.heads_kv)),
          slots_(slots) {
        const AttentionBackwardPlan &plan = whole.plan;
        // Most sequences are shorter than the longest, for which there are blocks.
        if (is_present(p.cu_len_k))
            blocks_ =
                std::min(blocks_, 1 + static_cast<double>(p.total_k) / (static_cast<double>(p.batch) * static_cast<double>(plan.keys)));
        // Rows that a block computes of a head: on average, and of the block that most rows see.
        const double rows = static_cast<double>(p.len_q), keys = static_cast<double>(p.len_k);
        const int edges = (p.window_left >= 0) + (p.window_right >= 0);
        average_ = std::min(rows, attention_visible_pairs(p) / (static_cast<double>(p.batch * p.heads_q) * keys) + edges * plan.keys / 2.0);
        longest_ = edges == 2 ? std::min(rows, static_cast<double>(p.window_left) + static_cast<double>(p.window_right) + plan.keys) : rows;
        row_ = 10.0 * plan.keys * plan.depth * slots_ / (kRate * (device.peak_flops_f16 > 0 ? device.peak_flops_f16 : kAnyPeak));
        // Written and read.
        byte_ = 2 / (device.peak_bandwidth > 0 ? device.peak_bandwidth : kAnyBandwidth);
        part_bytes_ = 4.0 * static_cast<double>(key_entries(p) * p.heads_kv) * static_cast<double>(p.total_k) *
                      static_cast<double>(p.head_dim + p.head_dim_v);
    }
    // Blocks of one launch.
    double blocks(int64_t parts) const { return pairs(parts) * blocks_; }
    double of(int64_t parts) const {
        const double heads = heads_ / static_cast<double>(parts);
        if (pairs(parts) < 1) return std::numeric_limits<double>::infinity();
        const double launches = std::ceil(pairs_ * static_cast<double>(parts) / pairs(parts)), waves = std::ceil(blocks(parts) / slots_);
        const double rows = launches * (std::max(heads * longest_, waves * heads * average_) + waves * kEndRows);
        return row_ * rows + (parts > 1 ? part_bytes_ * static_cast<double>(parts) * byte_ + kLaunch : 0);
    }

  private:
    // Of the tensor cores' peak; what else a block takes, in rows; seconds of one more launch.
    static constexpr double kRate = 0.5, kEndRows = 128, kLaunch = 4e-6;
    static constexpr double kAnyPeak = 3e14, kAnyBandwidth = 1.5e12;  // Where a device does not say.

    // Pairs of one launch.
    double pairs(int64_t parts) const {
        return std::min(pairs_ * static_cast<double>(parts), std::floor(at_once_ * static_cast<double>(parts)));
    }

    double pairs_, blocks_, at_once_, heads_, slots_, average_, longest_, row_, byte_, part_bytes_;
};

}  // namespace

BackwardParts backward_parts(Device &device, const attile_attention_backward_problem &problem, const BackwardChoice &whole) {
    const attile_attention_problem &p = *problem.forward;
    const DeviceProperties &properties = device.properties();
    const int64_t group = p.heads_q / p.heads_kv, keys = key_entries(p) * p.heads_kv * p.total_k;
    BackwardParts found;
    // What an entry gets must not depend on how many there are.
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return found;
    const int64_t slots = static_cast<int64_t>(std::max(properties.compute_units, 1)) * std::max(whole.usual_blocks, 1);
    const PartsTime time(properties, p, whole, static_cast<double>(slots));
    if (time.blocks(1) >= static_cast<double>(slots)) return found;
    const int64_t of_all = keys * (p.head_dim + p.head_dim_v), budget = std::min(kMostParts, properties.memory_total / kPartsShare);
    double best = kGain * time.of(1);
    for (int64_t parts = 2; parts <= group && 4 * of_all * parts <= budget; ++parts) {
        if (group % parts != 0) continue;
        const double seconds = time.of(parts);
        if (seconds >= best) continue;
        best = seconds;
        found.count = parts;
    }
    found.elements = found.count * keys * p.head_dim;
    found.elements_v = found.count * keys * p.head_dim_v;
    return found;
}

void backward_name_parts(attile_support &support, const BackwardParts &parts) {
    const std::size_t used = std::strlen(support.text);
    std::snprintf(support.text + used, sizeof support.text - used, "; groups of heads in %lld parts", static_cast<long long>(parts.count));
}

void BackwardParts::plan_for(const attile_attention_backward_problem &problem, BackwardProblems &to) const {
    to.copy(problem);
    attile_attention_problem &p = to.forward;
    p.heads_kv *= count;
    const auto lay = [&](attile_operand &x, int64_t columns) {
        x.data = nullptr;
        x.dtype = ATTILE_F32;
        const int64_t head = p.total_k * columns, entry = is_present(p.cu_len_k) ? 0 : p.heads_kv * head;
        const int64_t stride[] = {entry, head, columns, 1};
        std::copy(stride, stride + 4, x.stride);
    };
    lay(to.backward.dk, p.head_dim);
    lay(to.backward.dv, p.head_dim_v);
}

bool BackwardParts::place(const attile_attention_backward_problem &problem, BackwardProblems &to, Workspace &workspace) const {
    plan_for(problem, to);
    to.backward.dk.data = workspace.take<float>(elements);
    to.backward.dv.data = workspace.take<float>(elements_v);
    return to.backward.dk.data != nullptr && to.backward.dv.data != nullptr;
}

int32_t BackwardParts::clear(Device &device, const BackwardProblems &parted, Stream stream) const {
    if (!is_present(parted.forward.cu_len_q) && !is_present(parted.forward.cu_len_k)) return ATTILE_OK;
    const int32_t status = device.fill_zero(parted.backward.dk.data, 4 * elements, stream);
    return status == ATTILE_OK ? device.fill_zero(parted.backward.dv.data, 4 * elements_v, stream) : status;
}

int32_t BackwardParts::add(Device &device, const attile_attention_backward_problem &problem, const BackwardProblems &parted,
                           Stream stream) const {
    const attile_attention_problem &p = *problem.forward;
    BackwardPartSums sums = {};
    sums.dk = backward_part_sum(problem.dk, static_cast<const float *>(parted.backward.dk.data), p.total_k, p.head_dim);
    sums.dv = backward_part_sum(problem.dv, static_cast<const float *>(parted.backward.dv.data), p.total_k, p.head_dim_v);
    sums.parts = static_cast<int32_t>(count);
    sums.rows = static_cast<int32_t>(p.total_k);
    sums.heads = static_cast<int32_t>(p.heads_kv);
    sums.all_rows = key_entries(p) * p.heads_kv * p.total_k;
    return add_backward_parts(device, p.q.dtype, sums, stream);
}

}  // namespace attile::gpu::mma

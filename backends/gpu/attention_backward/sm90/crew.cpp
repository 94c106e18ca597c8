// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm90/crew.h"

#include <algorithm>
#include <cmath>

#include "host/sizes.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kTogether = 4;        // Blocks of the same pair, as many as wait for each other's sums at the start alone.
constexpr int64_t kMaskedTogether = 8;  // Under a mask, where rows by far do not fit the L2 cache.
constexpr int64_t kNear = 2;            // Steps between the starts of two of a gang whose rows do not fit the L2 cache.
constexpr double kAnyPeak = 9e14, kAnyBandwidth = 3e12;  // Where a device does not say.

bool is_masked(const attile_attention_problem &p) { return p.window_left >= 0 || p.window_right >= 0 || is_present(p.block_mask); }
bool is_invariant(const attile_attention_problem &p) { return (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0; }

// Tiles of rows that a block of keys sees, of all heads of the group.
int64_t steps_of(const attile_attention_problem &p, const AttentionBackwardPlan &plan, const BackwardShape &shape) {
    return p.heads_q / p.heads_kv * plan.row_tiles * plan.rows / shape.rows;
}
// Seconds of a step, at this share of the tensor cores' peak.
double step_seconds(const DeviceProperties &device, const BackwardShape &shape, double share) {
    const double peak = device.peak_flops_f16 > 0 ? device.peak_flops_f16 : kAnyPeak;
    return 10.0 * shape.keys * shape.rows * shape.depth * std::max(device.compute_units, 1) / (share * peak);
}

class Crews {
  public:
    Crews(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan, const BackwardShape &shape,
          int64_t pairs)
        : device_(device),
          units_(std::max(device.compute_units, 1)),
          pairs_(pairs),
          key_blocks_(plan.key_blocks),
          steps_(steps_of(p, plan, shape)),
          most_(units_ * plan.blocks_per_unit),
          row_bytes_(shape.rows * shape.depth * 4),
          step_(step_seconds(device, shape, 0.57)) {}

    // As many pairs at once as have so many blocks each.
    BackwardCrew of(int64_t together) const {
        BackwardCrew crew;
        const int64_t chunks = ceil_div(pairs_, std::max<int64_t>(units_ / together, 1));
        crew.blocks = std::min(pairs_ * key_blocks_, most_);
        crew.chunk = ceil_div(pairs_, chunks);
        crew.together = std::min(crew.blocks / crew.chunk, key_blocks_);
        crew.levels = key_blocks_;
        return crew;
    }
    // Bytes of Q, dO and sums of dQ, over which all pairs at work walk at once where their blocks are not near each other.
    int64_t walked(const BackwardCrew &crew) const { return crew.chunk * steps_ * row_bytes_ * 2; }
    bool is_far(const BackwardCrew &crew) const { return walked(crew) > device_.l2_bytes / 2; }

    // Blocks begin with different rows, so that none waits at the start.
    void make_gang(BackwardCrew &crew) const {
        const bool is_gang = crew.together > kTogether && steps_ < kMostBackwardBlocks / crew.together;
        if (!is_gang) return;
        crew.gang = crew.together;
        crew.apart = std::max<int64_t>(steps_, 1);
        if (!is_far(crew)) return;
        crew.is_near = true;
        crew.apart = kNear;
        crew.levels = ceil_div(key_blocks_, crew.gang) * crew.gang;  // A gang begins at once.
        crew.blocks = crew.chunk * crew.gang;
    }
    // The gang that is expected to be fastest, where rows do not fit the L2 cache: blocks that are not in one do not stay near each other.
    BackwardCrew fastest(const BackwardCrew &usual) const {
        BackwardCrew best = usual;
        double least = seconds(usual);
        int64_t chunk = usual.chunk;
        for (int64_t together = kTogether + 1; together <= units_ / kTogether; ++together) {
            const BackwardCrew crew = of(together);
            if (crew.chunk == chunk || steps_ < kNear * crew.together) continue;
            chunk = crew.chunk;
            if (seconds(crew) >= least) continue;
            least = seconds(crew);
            best = crew;
        }
        return best;
    }

  private:
    // Fitted to forced timings on an H100: docs/kernels/attention-backward-sm90.md.
    double seconds(const BackwardCrew &crew) const {
        constexpr double kEnds = 3e-6, kShown = 0.35, kRate = 0.86, kInCache = 0.7;
        const double walk = static_cast<double>(steps_ * row_bytes_) * 3,
                     bandwidth = device_.peak_bandwidth > 0 ? device_.peak_bandwidth : kAnyBandwidth,
                     block = static_cast<double>(steps_) * step_ + kEnds;
        const int64_t gangs = ceil_div(key_blocks_, crew.together);
        double blocks, walks;  // One after the other; of each pair's rows.
        if (crew.together > kTogether) {
            blocks = static_cast<double>(ceil_div(pairs_, crew.chunk) * gangs);
            walks = static_cast<double>(gangs);
        } else {
            blocks = static_cast<double>(ceil_div(pairs_ * key_blocks_, most_));
            walks = static_cast<double>(key_blocks_) *
                    std::max(0.0, 1 - kInCache * static_cast<double>(device_.l2_bytes) / static_cast<double>(walked(crew)));
        }
        return blocks * block + kShown * static_cast<double>(pairs_) * walk * walks / (kRate * bandwidth);
    }

    const DeviceProperties &device_;
    const int64_t units_, pairs_, key_blocks_, steps_, most_, row_bytes_;
    const double step_;
};

}  // namespace

BackwardCrew backward_crew(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan,
                           const BackwardShape &shape, int64_t pairs, bool is_summed) {
    const Crews crews(device, p, plan, shape, pairs);
    BackwardCrew crew = crews.of(kTogether);
    if (!is_summed) return crew;
    // Under a mask blocks see different rows, and the order of the keys lets the longest go first. Where the order may not depend on how
    // many pairs there are, it is that of the keys, too.
    if (is_masked(p)) {
        const bool is_long = crews.walked(crew) > 2 * device.l2_bytes && plan.key_blocks >= 4 * kMaskedTogether;
        return is_long ? crews.of(kMaskedTogether) : crew;
    }
    if (is_invariant(p)) return crew;
    if (crews.is_far(crew)) crew = crews.fastest(crew);
    crews.make_gang(crew);
    return crew;
}

int64_t backward_chains(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan,
                        const BackwardShape &shape, int64_t words, int64_t most) {
    if (is_invariant(p) || is_present(p.block_mask)) return 1;
    // Seconds: a block's part of a sum; its start and end; a sum read. Fitted to forced timings on an H100, as above.
    constexpr double kAdd = 5e-6, kEnds = 5e-6, kRead = 1.5e-6, kBandwidth = 1.5e12, kLeastGain = 2e-6;
    const BackwardCrew crew = backward_crew(device, p, plan, shape, plan.pairs, true);
    // Those of a gang that fits in between the rows come to a tile one after the other.
    if (crew.gang > 1 && steps_of(p, plan, shape) >= kNear * crew.together) return 1;
    const double together = static_cast<double>(crew.together), steps = static_cast<double>(steps_of(p, plan, shape)),
                 pairs = static_cast<double>(plan.pairs), block = steps * step_seconds(device, shape, 0.7) + kEnds;
    const double adds = static_cast<double>(ceil_div(plan.pairs, crew.chunk) * plan.key_blocks),
                 waves = std::ceil(pairs * steps / (4.0 * std::max(device.compute_units, 1))),
                 reading = std::max(kRead * waves, 8.0 * pairs * static_cast<double>(words) / kBandwidth);
    const auto seconds = [&](int64_t chains) {
        const double sums = static_cast<double>(chains), at_start = crew.gang > 1 ? 0 : (std::ceil(together / sums) - 1) * kAdd;
        return at_start + adds * std::max(0.0, kAdd / sums - block / together) + (sums - 1) * reading;
    };
    int64_t best = 1;
    double least = seconds(1) - kLeastGain;
    for (int64_t chains = 2; chains <= std::min({plan.key_blocks, crew.together, most / (plan.pairs * words)}); ++chains) {
        if (seconds(chains) >= least) continue;
        least = seconds(chains);
        best = chains;
    }
    return best;
}

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/head_cut.h"

#include <algorithm>
#include <cmath>

#include "host/sizes.h"

namespace attile::gpu::simt {
namespace {

// Scores and copies of a slice: at most this share of the device's memory, and this much.
constexpr int64_t kSliceShare = 64, kMostSlice = 256ll << 20;
constexpr int64_t kRowStep = 64;    // Slices of more rows have a multiple of it.
constexpr int64_t kKeyStep = 16;    // Slices' keys begin at multiples of it: a line of memory.
constexpr int64_t kMostSeen = 256;  // Slices that the model of time looks at, of many.
// The model, counted and not measured: shares of the device's peaks, seconds of a launch, rows that products take together.
constexpr double kProductShare = 0.65, kMemoryShare = 0.8, kLaunchSeconds = 4e-6;
constexpr int64_t kProductRows = 32;
constexpr double kRowsLost = 32;  // To the ends of a slice's products.

bool has_unknown_lengths(const attile_attention_problem &p) {
    return is_present(p.key_lengths) || is_present(p.cu_len_q) || is_present(p.cu_len_k);
}
bool has_unknown_diagonal(const attile_attention_problem &p) {
    return (p.bottom_right != 0 && has_unknown_lengths(p)) || is_present(p.causal_offset);
}
bool is_invariant(const attile_attention_problem &p) { return (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0; }

bool is_f64(const attile_attention_problem &p) { return p.compute == ATTILE_F64; }

// Operations a second that multiply-adds could make.
double roof_of(const DeviceProperties &device, const attile_attention_problem &p) {
    const double peak = is_f64(p) ? device.peak_flops_f64 : device.peak_flops_f32;
    return peak > 0 ? peak : 1e12;
}

// Operations a second of products. Tensor cores of these capabilities multiply float64 twice as fast (gemm/sm80).
double product_rate(const DeviceProperties &device, const attile_attention_problem &p) {
    const bool is_like = device.capability == 80 || device.capability == 90;
    const bool has_cores = is_like && device.device_type == ATTILE_DEVICE_CUDA && is_f64(p) && !is_invariant(p);
    return kProductShare * roof_of(device, p) * (has_cores ? 2 : 1);
}

// As many of the pairs of entry and head as fit; false: none does.
bool fit_pairs(const attile_attention_problem &p, const CutCosts &costs, int64_t budget, HeadCut &cut) {
    cut.entries = cut.heads = 1;
    const int64_t copies = costs.key_numbers * p.len_k + costs.row_numbers * cut.members * cut.rows;
    const int64_t kept =
        costs.tile_numbers > 0 ? costs.tile_numbers * cut.members * ceil_div(cut.rows, costs.tile_rows) * costs.tile_rows : 0;
    const int64_t bytes = number_bytes(p) * (copies + kept + costs.buffers * most_scores(p, cut));
    const int64_t fits = budget / std::max<int64_t>(bytes, 1);
    if (fits < 1) return false;
    const auto even = [](int64_t all, int64_t most) { return ceil_div(all, ceil_div(all, std::min(all, most))); };
    cut.heads = even(p.heads_kv, fits);
    if (fits >= p.heads_kv) cut.entries = even(p.batch, fits / p.heads_kv);
    return true;
}

double seconds_of(const DeviceProperties &device, const attile_attention_problem &p, const CutCosts &costs, const HeadCut &cut) {
    const double rate = product_rate(device, p);
    const double bandwidth = kMemoryShare * (device.peak_bandwidth > 0 ? device.peak_bandwidth : 5e11);
    const double pairs = static_cast<double>(cut.entries * cut.heads), heads = pairs * static_cast<double>(cut.members);
    const int64_t slices = ceil_div(p.len_q, cut.rows), step = ceil_div(slices, kMostSeen);
    double seconds = 0;
    SlicePlace at = {};
    for (int64_t i = 0; i < slices; i += step) {
        at.row = i * cut.rows;
        at.rows = std::min(cut.rows, p.len_q - at.row);
        find_keys(p, at);
        const double keys = static_cast<double>(at.keys), scores = heads * static_cast<double>(at.rows) * keys;
        const double whole_rows = static_cast<double>(ceil_div(at.rows, kProductRows) * kProductRows) + kRowsLost;
        const double key_bytes = costs.key_bytes + costs.member_bytes * static_cast<double>(cut.members);
        const double products =
            std::max(costs.flops * heads * whole_rows * keys / rate, (costs.product_bytes * scores + key_bytes * pairs * keys) / bandwidth);
        seconds += static_cast<double>(std::min(step, slices - i)) *
                   (products + costs.score_bytes * scores / bandwidth +
                    kLaunchSeconds * static_cast<double>(costs.launches + costs.member_launches * cut.members));
    }
    const double group = static_cast<double>(ceil_div(p.heads_q / p.heads_kv, cut.members));
    return seconds * group * std::ceil(static_cast<double>(p.batch) / static_cast<double>(cut.entries)) *
           std::ceil(static_cast<double>(p.heads_kv) / static_cast<double>(cut.heads));
}

}  // namespace

int32_t number_type(const attile_attention_problem &p) { return is_f64(p) ? ATTILE_F64 : ATTILE_F32; }
int64_t number_bytes(const attile_attention_problem &p) { return is_f64(p) ? sizeof(double) : sizeof(float); }

void find_keys(const attile_attention_problem &p, SlicePlace &slice) {
    slice.key = 0;
    slice.keys = p.len_k;
    // Where lengths are known to the device alone, so is the lower right corner. A row's bits must not depend on the rows beside it.
    if (has_unknown_diagonal(p) || is_invariant(p)) return;
    const int64_t shift = p.bottom_right != 0 ? p.len_k - p.len_q : 0;
    const int64_t left = std::min(p.window_left, kAttentionMaxLength), right = std::min(p.window_right, kAttentionMaxLength);
    const int64_t low = left < 0 ? 0 : std::max<int64_t>(slice.row + shift - left, 0);
    const int64_t high = right < 0 ? p.len_k : std::min(slice.row + slice.rows + shift + right, p.len_k);
    if (low >= high) {  // Nothing is seen, which is to be written all the same.
        slice.keys = std::min(p.len_k, kKeyStep);
        return;
    }
    slice.key = low / kKeyStep * kKeyStep;
    slice.keys = high - slice.key;
}

int64_t pitch_of(const SlicePlace &slice) { return ceil_div(slice.keys, kKeyStep) * kKeyStep; }

int64_t most_scores(const attile_attention_problem &p, const HeadCut &cut) {
    const bool has_both = p.window_left >= 0 && p.window_right >= 0;
    SlicePlace whole = {};
    whole.rows = p.len_q;
    find_keys(p, whole);
    int64_t keys = whole.keys;
    const bool is_cut = !is_invariant(p) && !has_unknown_diagonal(p);
    if (is_cut && has_both)
        keys = std::min(keys,
                        std::min(p.window_left, kAttentionMaxLength) + std::min(p.window_right, kAttentionMaxLength) + cut.rows + kKeyStep);
    whole.keys = keys;
    return cut.entries * cut.heads * cut.members * cut.rows * pitch_of(whole);
}

bool find_cut(const DeviceProperties &device, const attile_attention_problem &p, const CutCosts &costs, HeadCut &cut) {
    const int64_t budget = std::min(kMostSlice, device.memory_total > 0 ? device.memory_total / kSliceShare : kMostSlice);
    const int64_t group = p.heads_q / p.heads_kv;
    // Sums over rows are cut where slices are: with BATCH_INVARIANT not by how many heads there are.
    attile_attention_problem asked = p;
    if (is_invariant(p)) {
        asked.batch = 1;
        asked.heads_q = asked.heads_kv = 1;
    }
    bool is_found = false;
    for (int64_t slices = 1;; slices += ceil_div(slices, 2)) {
        const int64_t even = ceil_div(asked.len_q, slices), step = even > kRowStep ? kRowStep : costs.least_rows;
        HeadCut candidate;
        candidate.rows = std::min(ceil_div(even, step) * step, asked.len_q);
        for (const int64_t members : {asked.heads_q / asked.heads_kv, int64_t{1}}) {
            if (members > 1 && candidate.rows < asked.len_q) continue;
            candidate.members = members;
            if (!fit_pairs(asked, costs, budget, candidate)) continue;
            candidate.seconds = seconds_of(device, asked, costs, candidate);
            if (is_found && candidate.seconds >= cut.seconds) continue;
            cut = candidate;
            is_found = true;
        }
        if (even <= costs.least_rows) break;
    }
    if (!is_found || !is_invariant(p)) return is_found;
    cut.members = cut.rows == p.len_q ? group : 1;
    if (!fit_pairs(p, costs, budget, cut)) {
        cut.members = 1;
        if (!fit_pairs(p, costs, budget, cut)) return false;
    }
    cut.seconds = seconds_of(device, p, costs, cut);
    return true;
}

attile_attention_problem lone_head(const attile_attention_problem &p) {
    constexpr int64_t kUsualRows = 256;
    attile_attention_problem lone = p;
    lone.batch = lone.heads_q = lone.heads_kv = 1;
    lone.len_q = lone.total_q = kUsualRows;
    return lone;
}

double wide_seconds(const DeviceProperties &device, const attile_attention_problem &p, double flops, double share) {
    return flops / (share * roof_of(device, p));
}

double wide_share(const DeviceProperties &device, const attile_attention_problem &p, double flops, double bytes, double seconds) {
    const double peak = is_f64(p) ? device.peak_flops_f64 : device.peak_flops_f32;
    if (!(peak > 0) || !(device.peak_bandwidth > 0)) return 0;
    return std::min(1.0, std::max(flops / peak, bytes / device.peak_bandwidth) / seconds);
}

SlicePlace first_slice(const attile_attention_problem &p, const HeadCut &cut) {
    SlicePlace at = {};
    at.entries = cut.entries;
    at.heads = cut.heads;
    at.members = cut.members;
    at.rows = cut.rows;
    find_keys(p, at);
    return at;
}

HeadSlice head_slice(const SlicePlace &slice) {
    HeadSlice to = {};
    to.pitch = pitch_of(slice);
    to.first_entry = static_cast<int32_t>(slice.entry);
    to.first_head = static_cast<int32_t>(slice.head);
    to.first_member = static_cast<int32_t>(slice.member);
    to.first_row = static_cast<int32_t>(slice.row);
    to.first_key = static_cast<int32_t>(slice.key);
    to.keys = static_cast<int32_t>(slice.keys);
    to.heads = Divider(slice.heads);
    to.members = Divider(slice.members);
    to.rows = Divider(slice.rows);
    to.total = static_cast<uint32_t>(slice.entries * slice.heads * slice.members * slice.rows);
    return to;
}

}  // namespace attile::gpu::simt

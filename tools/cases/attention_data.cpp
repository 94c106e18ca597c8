// SPDX-License-Identifier: Apache-2.0
// Drawing the operands of attention cases.
#include "attention_data.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "honest.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kHidden = -std::numeric_limits<double>::infinity();

// Applies f(index, index with the given axes' coordinates set to 0).
template <class F>
void for_each_pair(const Values &values, unsigned axes, F f) {
    std::int64_t extent[4] = {1, 1, 1, 1};
    for (std::size_t axis = 0; axis < values.shape.size(); ++axis) extent[axis] = values.shape[axis];
    const auto keep = [axes](int axis, std::int64_t i) { return (axes >> axis & 1u) != 0 ? 0 : i; };
    for (std::int64_t i = 0; i < extent[0]; ++i)
        for (std::int64_t j = 0; j < extent[1]; ++j)
            for (std::int64_t k = 0; k < extent[2]; ++k)
                for (std::int64_t l = 0; l < extent[3]; ++l)
                    f(static_cast<std::size_t>(values.offset(i, j, k, l)),
                      static_cast<std::size_t>(values.offset(keep(0, i), keep(1, j), keep(2, k), keep(3, l))));
}

}  // namespace

void poison_unused(Values &values, Values &used, unsigned broadcast) {
    for_each_pair(values, broadcast, [&](std::size_t at, std::size_t first) { used.at[first] = std::max(used.at[first], used.at[at]); });
    for_each_pair(values, broadcast, [&](std::size_t at, std::size_t first) {
        if (used.at[first] == 0) values.at[at] = kNan;
    });
}

namespace {

// Axes and extents of a bias or mask of the given rank: those not asked for have extent 1.
std::vector<std::int64_t> score_shape(const AttentionData &data, std::int64_t rows, std::int64_t columns, unsigned axes, int rank) {
    const std::int64_t full[4] = {data.c.batch, data.c.heads_q, rows, columns};
    std::vector<std::int64_t> shape;
    for (int axis = 4 - rank; axis < 4; ++axis) shape.push_back((axes >> axis & 1u) != 0 ? full[axis] : 1);
    return shape;
}

std::size_t score_index(const Values &values, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    const std::int64_t full[4] = {b, h, i, j};
    const std::size_t rank = values.shape.size();
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) at = at * values.shape[axis] + (values.shape[axis] == 1 ? 0 : full[axis + 4 - rank]);
    return static_cast<std::size_t>(at);
}

}  // namespace

void make_constant(Values &values, unsigned axes) {
    if (axes == 0 || values.shape.empty()) return;  // absent operands have no axes
    for_each_pair(values, axes, [&](std::size_t at, std::size_t first) { values.at[at] = values.at[first]; });
}

AttentionData::AttentionData(const AttentionCase &attention_case, bool with_contents) : c(attention_case), with_contents_(with_contents) {
    Random random(c.seed * 0x1234567ull + 99);
    random_ = &random;
    draw_lengths();
    draw_diagonals();
    draw_pages();
    draw_values();
    if (with_contents) apply_pattern();
    draw_bias();
    draw_allowed();
    draw_block_mask();
    draw_tree_mask();
    if (c.alibi != 0) {
        slopes = Values(c.alibi == 2 ? std::vector<std::int64_t>{c.batch, c.heads_q} : std::vector<std::int64_t>{c.heads_q});
        const std::int32_t type = c.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
        for (double &x : slopes.at) x = round_to(type, std::ldexp(1.0, -static_cast<int>(random.between(0, 8))) * (0.5 + random.uniform()));
    }
    if (c.sinks) sinks = drawn({c.heads_q}, c.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32);
    random_ = nullptr;
    if (!with_contents) return;
    make_constant(q, c.q_layout.broadcast);
    make_constant(k, c.k_layout.broadcast);
    make_constant(v, c.v_layout.broadcast);
    const auto dim = static_cast<std::size_t>(c.head_dim), dim_v = static_cast<std::size_t>(c.head_dim_v);
    for (std::size_t at = 0; c.values_in_keys && at < v.at.size(); ++at) v.at[at] = k.at[at / dim_v * dim + at % dim_v];
    make_constant(bias, c.bias_layout.broadcast);
    for (Values *mask : {&allowed, &block_mask, &tree_mask}) make_constant(*mask, c.allowed_layout.broadcast);
    poison();
}

Values AttentionData::drawn(std::vector<std::int64_t> shape, std::int32_t dtype, double factor) {
    Values values(std::move(shape));
    if (!with_contents_) return values;
    for (double &x : values.at) x = round_to(dtype, factor * random_->normal());
    return values;
}

void AttentionData::draw_lengths() {
    const auto packed = [&](Values &cu, std::int64_t longest) {
        cu = Values({c.batch + 1});
        std::int64_t at = random_->between(0, 2);  // what lies before the first sequence belongs to nobody
        for (std::int64_t b = 0; b <= c.batch; ++b) {
            cu.at[static_cast<std::size_t>(b)] = static_cast<double>(at);
            if (b < c.batch) at += b == c.batch / 2 ? longest : random_->between(0, longest);
        }
        return at + random_->between(0, 3);  // nor does what lies behind the last
    };
    max_len_q = total_q = c.len_q;
    max_len_k = total_k = c.len_k;
    if (c.packed_q) {
        total_q = packed(cu_len_q, c.len_q);
        max_len_q = !c.give_max_len || c.len_q == 0 ? total_q : c.len_q - c.max_len_cut;  // max_len 0 means all
    }
    if (c.packed_k) {
        total_k = packed(cu_len_k, c.len_k);
        max_len_k = !c.give_max_len || c.len_k == 0 ? total_k : c.len_k - c.max_len_cut;
    }
    if (c.key_lengths || c.page_size != 0) {
        key_lengths = Values({c.batch});
        for (double &x : key_lengths.at) x = static_cast<double>(random_->between(0, c.len_k));
        if (c.batch > 1) key_lengths.at[1] = static_cast<double>(c.len_k + 3);  // more than there are: all there are
        if (c.batch > 2) key_lengths.at[2] = -1;
        if (c.batch > 3) key_lengths.at[3] = static_cast<double>(c.len_k);
    }
}

// Where an entry's keys and its diagonal begin: also outside of what there is, which is clamped.
void AttentionData::draw_diagonals() {
    if (c.key_starts) {
        key_starts = Values({c.batch});
        for (double &x : key_starts.at) x = static_cast<double>(random_->between(0, c.len_k * 3 / 4));
        if (c.batch > 1) key_starts.at[1] = 0;
        if (c.batch > 2) key_starts.at[2] = -7;
        if (c.batch > 3) key_starts.at[3] = static_cast<double>(c.len_k + 2);  // none is seen
    }
    if (c.causal_offset) {
        causal_offset = Values({c.batch});
        for (double &x : causal_offset.at) x = static_cast<double>(random_->between(-c.len_q / 2, c.len_k));
        if (c.batch > 1) causal_offset.at[1] = 2e9;
        if (c.batch > 2) causal_offset.at[2] = -2e9;
        // ALiBi's distances of such diagonals leave nothing of other scores.
        for (double &x : causal_offset.at)
            if (c.alibi != 0) x = std::clamp<double>(x, -100, 100);
    }
}

void AttentionData::draw_pages() {
    if (c.page_size == 0) return;
    max_pages = (c.len_k + c.page_size - 1) / c.page_size;
    max_len_k = max_pages * c.page_size;
    pages = c.batch * max_pages + 2;
    total_k = c.page_size;
    block_table = Values({c.batch, max_pages});
    std::vector<std::int64_t> free(static_cast<std::size_t>(pages));
    for (std::size_t page = 0; page < free.size(); ++page) free[page] = static_cast<std::int64_t>(page);
    for (std::int64_t b = 0; b < c.batch; ++b) {
        const std::int64_t length = std::clamp<std::int64_t>(static_cast<std::int64_t>(key_lengths(b)), 0, max_len_k);
        for (std::int64_t run = 0; run < max_pages; ++run) {
            const auto pick = static_cast<std::size_t>(random_->between(0, static_cast<std::int64_t>(free.size()) - 1));
            block_table(b, run) = static_cast<double>(free[pick]);
            free.erase(free.begin() + static_cast<std::ptrdiff_t>(pick));
            // Past the length, and before the first key, the table may hold anything; a page that does not exist hides its keys, also one
            // next to those that do.
            const bool is_padding = !key_starts.shape.empty() && (run + 1) * c.page_size <= static_cast<std::int64_t>(key_starts(b));
            if (run * c.page_size < length && !is_padding && !random_->chance(0.05)) continue;
            const bool next_to = run % 2 != 0;
            block_table(b, run) = random_->chance(0.5) ? (next_to ? -1 : -1e9) : next_to ? static_cast<double>(pages) : 1e9;
        }
    }
}

void AttentionData::apply_pattern() {
    const auto type_of = [&](const Values &x) { return c.type_of(&x == &k ? c.k_storage : &x == &v ? c.v_storage : c.q_storage); };
    const auto each = [&](Values &values, auto f) {  // f(value, position along the third axis)
        const std::int64_t dim = values.shape[3], len = values.shape[2];
        for (std::size_t at = 0; at < values.at.size(); ++at)
            values.at[at] = round_to(type_of(values), f(values.at[at], static_cast<std::int64_t>(at) / dim % len));
    };
    // Column `only` becomes f(...), all others 0.
    const auto each_column = [&](Values &values, auto f, std::int64_t only) {
        const std::int64_t dim = values.shape[3], len = values.shape[2];
        for (std::size_t at = 0; at < values.at.size(); ++at) {
            const auto place = static_cast<std::int64_t>(at);
            values.at[at] = place % dim == only ? round_to(type_of(values), f(values.at[at], place / dim % len)) : 0;
        }
    };
    switch (c.pattern) {
        case AttentionPattern::kTimes36:
            each(q, [](double x, std::int64_t) { return 36 * x; });
            break;
        case AttentionPattern::kTimes400:
            each(q, [](double x, std::int64_t) { return 400 * x; });
            break;
        case AttentionPattern::kHugeLateKey:
            for (std::int64_t e = 0; e < k.shape[0] && total_k > 0 && total_q > 0 && q.shape[0] > 0; ++e)
                for (std::int64_t g = 0; g < c.heads_kv; ++g)
                    for (std::int64_t d = 0; d < c.head_dim; ++d)
                        k(e, g, total_k - 1, d) =
                            round_to(type_of(k), 10 * q(std::min(e, q.shape[0] - 1), g * (c.heads_q / c.heads_kv), total_q - 1, d));
            break;
        case AttentionPattern::kAlternating:
            each(q, [](double x, std::int64_t) { return 2 * std::fabs(x); });
            each(k, [](double x, std::int64_t l) { return l % 2 == 0 ? std::fabs(x) : -std::fabs(x); });
            break;
        case AttentionPattern::kConstant:
            make_constant(k, 4);
            break;
        case AttentionPattern::kRising:
            each(q, [](double x, std::int64_t) { return std::fabs(x); });
            each(k, [&](double x, std::int64_t l) { return std::fabs(x) * 6 * static_cast<double>(l + 1) / static_cast<double>(total_k); });
            break;
        case AttentionPattern::kTiny: {
            const double smallest = c.dtype == ATTILE_F16 ? 1e-6 : c.dtype == ATTILE_F64 ? 1e-300 : 1e-36;
            each(v, [&](double x, std::int64_t) { return smallest * x; });
            break;
        }
        case AttentionPattern::kNanInCache:
            spoil_cache();
            break;
        case AttentionPattern::kNanInQuery:
            if (!q.at.empty()) q(0, 0, total_q / 2, 0) = kNan;
            break;
        case AttentionPattern::kFarBelowButOne:
        case AttentionPattern::kFarBelow: {
            const std::int64_t ordinary = c.pattern == AttentionPattern::kFarBelow ? -1 : 257, far = ordinary < 0 ? 130 : c.len_k;
            std::size_t at = 0;
            for (double &x : q.at)
                if (at++ % static_cast<std::size_t>(c.head_dim) == 0) x = 8;
            each(k, [=, at = std::size_t{0}, dim = static_cast<std::size_t>(c.head_dim)](double x, std::int64_t l) mutable {
                return at++ % dim == 0 && l < far && l != ordinary ? -6e4 : x;
            });
            break;
        }
        case AttentionPattern::kExact:
            each_column(
                q, [&](double, std::int64_t) { return random_->chance(0.5) ? 1.0 : -1.0; }, 0);
            each_column(
                k, [&](double, std::int64_t) { return static_cast<double>(random_->between(-3, 3)); }, 0);
            break;
        case AttentionPattern::kUniform:
            each(q, [&](double, std::int64_t) { return 6 * random_->uniform() - 3; });
            each(k, [&](double, std::int64_t) { return 6 * random_->uniform() - 3; });
            break;
        case AttentionPattern::kOneAbove:
            each_column(
                q, [](double, std::int64_t) { return 1.0; }, 0);
            each_column(
                k, [&](double, std::int64_t l) { return l == total_k / 2 ? 0.0 : -16.7; }, 0);
            break;
        case AttentionPattern::kInfiniteKeys: {
            const auto column = [&](Values &values, auto f) {
                const std::int64_t dim = values.shape[3];
                for (std::size_t at = 0; at < values.at.size(); at += static_cast<std::size_t>(dim))
                    values.at[at] = round_to(c.dtype, f(values.at[at], static_cast<std::int64_t>(at) / dim % values.shape[2]));
            };
            column(q, [](double x, std::int64_t) { return 0.5 + std::fabs(x); });
            column(k, [](double x, std::int64_t l) { return l % 5 == 1 ? kHidden : x; });
            each(v, [](double x, std::int64_t l) { return l % 5 == 1 ? kNan : x; });
            break;
        }
        case AttentionPattern::kNormal:
            break;
    }
}

void AttentionData::draw_bias() {
    if (c.bias == BiasKind::kNone) return;
    bias = drawn(score_shape(*this, max_len_q, max_len_k, c.bias_axes, c.bias_rank), c.bias_dtype);
    if (!with_contents_) return;
    const std::int64_t keys = bias.length(), rows = bias.shape.size() >= 2 ? bias.shape[bias.shape.size() - 2] : 1;
    for (std::size_t at = 0; c.bias == BiasKind::kLowest && at < bias.at.size(); ++at) {
        const std::int64_t row = keys > 0 ? static_cast<std::int64_t>(at) / keys % std::max<std::int64_t>(rows, 1) : 0;
        if (row % 3 == 0 || (row % 3 == 1 && random_->chance(0.3))) bias.at[at] = -precision_of(c.bias_dtype).largest;
    }
    if (c.bias == BiasKind::kLowest) return;
    for (std::size_t at = 0; at < bias.at.size(); ++at) {
        const bool row_hidden = c.bias == BiasKind::kRowsHidden && rows > 1 && static_cast<std::int64_t>(at) / keys % rows % 3 == 0;
        if (row_hidden || (c.bias != BiasKind::kNormal && random_->chance(0.3))) bias.at[at] = kHidden;
    }
}

void AttentionData::draw_allowed() {
    if (c.allowed == MaskBytes::kNone) return;
    allowed = Values(score_shape(*this, max_len_q, max_len_k, c.allowed_axes, c.allowed_rank));
    if (!with_contents_) return;
    const std::int64_t keys = allowed.length();
    for (std::size_t at = 0; at < allowed.at.size(); ++at) {
        const std::int64_t j = static_cast<std::int64_t>(at) % std::max<std::int64_t>(keys, 1);
        const bool may =
            c.allowed == MaskBytes::kRandom ? random_->chance(0.6) : c.allowed == MaskBytes::kLeadingHidden && (j >= keys - 3 || keys == 1);
        allowed.at[at] = may ? static_cast<double>(random_->between(1, 255)) : 0;  // anything but 0 allows
    }
}

void AttentionData::draw_block_mask() {
    if (c.block_mask == MaskBytes::kNone) return;
    const auto blocks = [](std::int64_t length) { return (length + ATTILE_MASK_BLOCK - 1) / ATTILE_MASK_BLOCK; };
    block_mask = Values(score_shape(*this, blocks(max_len_q), blocks(max_len_k), c.block_axes, c.block_rank));
    if (!with_contents_) return;
    const std::int64_t columns = std::max<std::int64_t>(block_mask.length(), 1);
    for (std::size_t at = 0; at < block_mask.at.size(); ++at) {
        const bool is_last = static_cast<std::int64_t>(at) % columns == columns - 1;
        const bool may = c.block_mask == MaskBytes::kRandom ? random_->chance(0.5) : c.block_mask == MaskBytes::kLeadingHidden && is_last;
        block_mask.at[at] = may ? static_cast<double>(random_->between(1, 255)) : 0;
    }
}

void AttentionData::draw_tree_mask() {
    if (c.tree_keys == 0) return;
    tree_mask = Values(score_shape(*this, max_len_q, c.tree_keys, c.tree_axes | 8u, c.tree_rank));
    if (!with_contents_) return;
    for (double &x : tree_mask.at) x = random_->chance(0.5) ? static_cast<double>(random_->between(1, 255)) : 0;
}

AttentionEntry AttentionData::entry(std::int64_t b) const {
    AttentionEntry e = {b, 0, max_len_q, 0, max_len_k, 0, 0, 0};
    if (c.packed_q) {
        e.q_start = static_cast<std::int64_t>(cu_len_q(b));
        e.len_q = std::min(static_cast<std::int64_t>(cu_len_q(b + 1)) - e.q_start, max_len_q);
    }
    if (c.packed_k) {
        e.k_start = static_cast<std::int64_t>(cu_len_k(b));
        e.len_k = std::min(static_cast<std::int64_t>(cu_len_k(b + 1)) - e.k_start, max_len_k);
    }
    if (!key_lengths.shape.empty()) e.len_k = std::clamp<std::int64_t>(static_cast<std::int64_t>(key_lengths(b)), 0, e.len_k);
    const bool bottom = c.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT || c.mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    e.shift = bottom ? e.len_k - e.len_q : 0;
    e.alibi_shift = bottom || c.mask == ATTILE_MASK_NONE ? e.len_k - e.len_q : 0;
    if (!causal_offset.shape.empty()) {
        constexpr std::int64_t kMost = std::int64_t{1} << 28;
        e.shift = e.alibi_shift = std::clamp<std::int64_t>(static_cast<std::int64_t>(causal_offset(b)), -kMost, kMost);
    }
    if (!key_starts.shape.empty()) e.first_key = std::clamp<std::int64_t>(static_cast<std::int64_t>(key_starts(b)), 0, e.len_k);
    return e;
}

bool AttentionData::locate_key(const AttentionEntry &e, std::int64_t j, std::int64_t *axis0, std::int64_t *axis2) const {
    if (c.page_size == 0) {
        *axis0 = c.packed_k ? 0 : e.b;
        *axis2 = e.k_start + j;
        return true;
    }
    *axis0 = static_cast<std::int64_t>(block_table(e.b, j / c.page_size));
    *axis2 = j % c.page_size;
    return *axis0 >= 0 && *axis0 < pages;
}

bool AttentionData::sees(const AttentionEntry &e, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (j < e.first_key) return false;
    const std::int64_t distance = j - i - e.shift;
    const bool causal = c.mask == ATTILE_MASK_CAUSAL_TOP_LEFT || c.mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    if (causal && distance > 0) return false;
    if (c.mask >= ATTILE_MASK_WINDOW_TOP_LEFT) {
        if (c.window_left >= 0 && -distance > c.window_left) return false;
        if (c.window_right >= 0 && distance > c.window_right) return false;
    }
    if (!allowed.shape.empty() && allowed.at[score_index(allowed, e.b, h, i, j)] == 0) return false;
    if (!block_mask.shape.empty() && block_mask.at[score_index(block_mask, e.b, h, i / ATTILE_MASK_BLOCK, j / ATTILE_MASK_BLOCK)] == 0)
        return false;
    const std::int64_t column = j - (e.len_k - c.tree_keys);
    if (!tree_mask.shape.empty() && column >= 0 && tree_mask.at[score_index(tree_mask, e.b, h, i, column)] == 0) return false;
    if (bias_at(e, h, i, j) == kHidden) return false;
    std::int64_t axis0 = 0, axis2 = 0;
    return locate_key(e, j, &axis0, &axis2);
}

std::size_t AttentionData::bias_index(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return score_index(bias, b, h, i, j);
}

double AttentionData::bias_at(const AttentionEntry &e, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return bias.shape.empty() ? 0 : bias.at[bias_index(e.b, h, i, j)];
}

double AttentionData::slope_at(std::int64_t b, std::int64_t h) const {
    return slopes.shape.empty() ? 0 : slopes.shape.size() == 2 ? slopes(b, h) : slopes(h);
}

double AttentionData::scale() const {
    if (c.scale != 0) return c.scale;
    return c.head_dim > 0 ? 1 / std::sqrt(static_cast<double>(c.head_dim)) : 1;
}

void AttentionData::poison() {
    Values q_used(q.shape), k_used(k.shape), v_used(v.shape), bias_used(bias.shape);
    for (std::int64_t b = 0; b < c.batch; ++b) {
        const AttentionEntry e = entry(b);
        for (std::int64_t h = 0; h < c.heads_q; ++h)
            for (std::int64_t i = 0; i < e.len_q; ++i)
                for (std::int64_t j = 0; j < e.len_k; ++j) {
                    const bool sees_it = sees(e, h, i, j);
                    const bool only_bias_hides = !c.bias_poisoned && bias_at(e, h, i, j) == kHidden;
                    if (!sees_it && !only_bias_hides) continue;
                    std::int64_t axis0 = 0, axis2 = 0;
                    if (!locate_key(e, j, &axis0, &axis2)) continue;
                    const std::int64_t g = kv_head(h);
                    if (c.head_dim > 0) q_used(c.packed_q ? 0 : b, h, e.q_start + i, 0) = 1;
                    if (c.head_dim > 0) k_used(axis0, g, axis2, 0) = 1;
                    if (c.head_dim_v > 0) v_used(axis0, g, axis2, 0) = 1;
                    if (!bias.shape.empty()) bias_used.at[bias_index(b, h, i, j)] = 1;
                }
    }
    // A used row is used along the whole of its last axis.
    for (Values *used : {&q_used, &k_used, &v_used})
        if (used->shape[3] > 0) make_constant(*used, 8);
    scale_numbers(c.q_storage, q_used, &q, &q_numbers, &q_scale);
    scale_numbers(c.k_storage, k_used, &k, &k_numbers, &k_scale);
    scale_numbers(c.v_storage, v_used, &v, &v_numbers, &v_scale);
    poison_unused(q, q_used, c.q_layout.broadcast);
    poison_unused(k, k_used, c.k_layout.broadcast);
    poison_unused(v, v_used, c.v_layout.broadcast);
    if (bias.shape.empty()) return;
    // What bias itself hides keeps its -inf: that is what hides it.
    for (std::size_t at = 0; at < bias.at.size(); ++at)
        if (bias.at[at] == kHidden) bias_used.at[at] = 1;
    poison_unused(bias, bias_used, c.bias_layout.broadcast);
}

BackwardData::BackwardData(const BackwardCase &backward_case, bool with_contents) : c(backward_case), forward(c.forward, with_contents) {
    if (!with_contents) {
        dout = o = Values(forward.q_shape(c.forward.head_dim_v));
        lse = Values({o.shape[0], o.shape[1], o.shape[2]});
        if (c.dlse) dlse = lse;
        return;
    }
    exact_attention(forward, &o, &lse);
    for (double &x : o.at) x = round_to(c.forward.out_dtype, x);
    for (double &x : lse.at) x = round_to(c.forward.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, x);
    Random random(c.forward.seed * 0x7654321ull + 5);
    dout = Values(o.shape);
    for (std::size_t at = 0; at < dout.at.size(); ++at) {
        const double x = round_to(c.dout_dtype, random.normal());
        dout.at[at] = std::isnan(o.at[at]) && c.forward.pattern != AttentionPattern::kNanInQuery ? kNan : x;  // rows of no sequence
    }
    if (!c.dlse) return;
    dlse = Values(lse.shape);
    for (std::size_t at = 0; at < dlse.at.size(); ++at) {
        const double x = round_to(c.forward.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, random.normal());
        dlse.at[at] = std::isnan(lse.at[at]) && c.forward.pattern != AttentionPattern::kNanInQuery ? kNan : x;
    }
}

}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of an attention case, those of 8 and 4 bits with their scales.
#include <cstddef>
#include <limits>

#include "attention_data.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {

namespace {

// A scale that makes numbers of a type some units.
double unit_of(std::int32_t dtype) { return dtype == ATTILE_I8 ? 1.0 / 40 : is_four_bits(dtype) ? 1.0 / 4 : 1; }
bool is_integer(std::int32_t dtype) { return is_quantised(dtype) && !is_float8(dtype); }

// The scale that belongs to number `at`.
std::size_t place_of_scale(const std::vector<std::int64_t> &numbers, const std::vector<std::int64_t> &of_scales, std::size_t at) {
    std::size_t place = 0, rest = at, step = 1;
    for (std::size_t axis = 4; axis-- > 0;) {
        const auto extent = static_cast<std::size_t>(numbers[axis]), scales = static_cast<std::size_t>(of_scales[axis]);
        const std::size_t index = rest % extent;
        rest /= extent;
        if (axis == 3) {
            place += index / (extent / scales);
        } else if (scales != 1) {
            place += index * step;
        }
        step *= scales;
    }
    return place;
}

}  // namespace

std::vector<std::int64_t> AttentionData::q_shape(std::int64_t dim) const { return {c.packed_q ? 1 : c.batch, c.heads_q, total_q, dim}; }

void AttentionData::draw_values() {
    const auto factor = [](std::int32_t dtype) { return is_quantised(dtype) ? 1 / unit_of(dtype) : 1; };
    q = drawn(q_shape(c.head_dim), c.type_of(c.q_storage), factor(c.type_of(c.q_storage)));
    const std::int64_t entries = c.page_size != 0 ? pages : c.packed_k ? 1 : c.batch;
    const auto drawn_as = [&](const CacheStorage &storage, std::int64_t width) {
        const std::int32_t dtype = c.type_of(storage);
        return drawn({entries, c.heads_kv, total_k, width}, dtype, factor(dtype));
    };
    k = drawn_as(c.k_storage, c.head_dim);
    v = drawn_as(c.v_storage, c.head_dim_v);
    draw_scale(c.q_storage, q, &q_scale);
    draw_scale(c.k_storage, k, &k_scale);
    draw_scale(c.v_storage, v, &v_scale);
    draw_divisors();
}

void AttentionData::spoil_cache() {
    const auto has_nan = [&](const CacheStorage &storage) { return !is_integer(c.type_of(storage)); };
    if (has_nan(c.k_storage)) k(0, 0, total_k / 2, c.head_dim - 1) = std::numeric_limits<double>::quiet_NaN();
    if (has_nan(c.v_storage)) v(v.shape[0] - 1, c.heads_kv - 1, total_k / 3, c.head_dim_v / 2) = std::numeric_limits<double>::quiet_NaN();
}

// Scales of both signs, such that scaled numbers are of some units.
void AttentionData::draw_scale(const CacheStorage &storage, const Values &numbers, Values *scale) {
    if (!storage.scaled) return;
    std::vector<std::int64_t> shape = numbers.shape;
    for (std::size_t axis = 0; axis < 3; ++axis)
        if ((storage.axes >> axis & 1) == 0) shape[axis] = 1;
    shape[3] = storage.group == 0 ? 1 : shape[3] / storage.group;
    *scale = Values(shape);
    if (!with_contents_) return;
    const double typical = unit_of(storage.dtype);
    for (double &x : scale->at) x = round_to(ATTILE_F32, typical * (0.3 + 1.4 * random_->uniform()) * (random_->chance(0.2) ? -1 : 1));
}

// What o is over, such that some results are beyond what it holds; of many a zero and a NaN.
void AttentionData::draw_divisors() {
    if (!c.o_scales.scaled) return;
    CacheStorage storage = c.o_scales;
    storage.dtype = c.out_dtype;
    draw_scale(storage, Values(q_shape(c.head_dim_v)), &o_scale);
    if (!with_contents_) return;
    for (double &x : o_scale.at) {
        if (c.out_dtype == ATTILE_F8_E4M3) x *= power_of_two(-9);
        if (c.out_dtype == ATTILE_F8_E5M2) x *= power_of_two(-16);
    }
    if (o_scale.at.size() < 8) return;
    o_scale.at.back() = 0;
    o_scale.at[o_scale.at.size() / 2] = std::numeric_limits<double>::quiet_NaN();
    make_constant(o_scale, c.o_scales.scale_layout.broadcast);
}

Values AttentionData::o_divisors() const {
    if (o_scale.shape.empty()) return {};
    Values all(q_shape(c.head_dim_v));
    for (std::size_t at = 0; at < all.at.size(); ++at) all.at[at] = o_scale.at[place_of_scale(all.shape, o_scale.shape, at)];
    return all;
}

// The numbers that are stored, with something that nobody may look at where no row does, and what they stand for.
void AttentionData::scale_numbers(const CacheStorage &storage, const Values &used, Values *values, Values *numbers, Values *scale) {
    if (!is_quantised(storage.dtype)) return;
    *numbers = *values;
    Values scale_used(scale->shape);
    const auto scale_at = [&](std::size_t at) { return place_of_scale(values->shape, scale->shape, at); };
    for (std::size_t at = 0; at < values->at.size(); ++at) {
        if (used.at[at] == 0) {
            numbers->at[at] = is_integer(storage.dtype) ? integer_range(storage.dtype).largest : std::numeric_limits<double>::quiet_NaN();
            continue;
        }
        if (!storage.scaled) continue;
        values->at[at] *= scale->at[scale_at(at)];
        scale_used.at[scale_at(at)] = 1;
    }
    if (storage.scaled) poison_unused(*scale, scale_used, storage.scale_layout.broadcast);
}

}  // namespace attile::test

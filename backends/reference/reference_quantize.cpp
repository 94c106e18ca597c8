// SPDX-License-Identifier: Apache-2.0
// Quantisation and back. Every step is a defined operation of float32: other backends give these bits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference_backend.h"
#include "reference_element.h"
#include "reference_quantised.h"

namespace attile::reference {
namespace {

constexpr std::int64_t kMostRotated = 512;

using Index = std::int64_t[4];

bool is_float(std::int32_t dtype) { return dtype == ATTILE_F32 || dtype == ATTILE_F16 || dtype == ATTILE_BF16; }

// A scale or a zero point.
float *of_block(const attile_quantize_problem *p, const attile_operand &tensor, const Index &at, std::int64_t run) {
    return static_cast<float *>(tensor.data) +
           offset_of(tensor, at[0] / p->group[0], at[1] / p->group[1], at[2] / p->group[2], (at[3] + run) / p->group[3]);
}
float given_scale(const attile_quantize_problem *p, const Index &at, std::int64_t run) {
    return present(p->scale) ? *of_block(p, p->scale, at, run) : 1.0f;
}
float given_zero(const attile_quantize_problem *p, const Index &at, std::int64_t run) {
    return present(p->zero) ? *of_block(p, p->zero, at, run) : 0.0f;
}

// Sums and differences of neighbours, then of those two apart, and so on; then 1 / sqrt(count).
void rotate(float *x, std::int64_t count) {
    for (std::int64_t apart = 1; apart < count; apart *= 2)
        for (std::int64_t i = 0; i < count; ++i) {
            if ((i & apart) != 0) continue;
            const float a = x[i], b = x[i + apart];
            x[i] = a + b;
            x[i + apart] = a - b;
        }
    const float factor = 1.0f / std::sqrt(static_cast<float>(count));
    for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

// The key that row `row` of entry `batch` is; without lengths they are counted from 0.
std::int64_t key_of(const attile_quantize_problem *p, std::int64_t batch, std::int64_t row) {
    return present(p->key_lengths) ? load_i32(p->key_lengths, batch) - p->shape[2] + row : row;
}

// Where a row of x goes in q, scale and zero; false: nowhere.
bool find_place(const attile_quantize_problem *p, const Index &at, Index &to) {
    std::copy(at, at + 4, to);
    if (p->append == 0) return true;
    const std::int64_t key = key_of(p, at[0], at[2]);
    if (key < 0 || key >= p->len_k) return false;
    to[2] = key;
    if (p->page_size == 0) return true;
    to[0] = load_i32(p->block_table, at[0], key / p->page_size);
    to[2] = key % p->page_size;
    return to[0] >= 0 && to[0] < p->pages;
}

// A number of x, of a pair that is rotated the rotated one: two products, each rounded, and their sum.
float load_rotated(const attile_quantize_problem *p, const Index &at, std::int64_t run) {
    const std::int64_t column = at[3] + run, pairs = p->rope_pairs;
    const auto x = [&](std::int64_t i) { return static_cast<float>(load(p->x, at[0], at[1], at[2], i)); };
    if (p->rope_positions == 0 || column >= 2 * pairs) return x(column);
    const bool halves = p->rope_layout == ATTILE_ROPE_HALVES;
    const std::int64_t first = halves ? column % pairs : column / 2 * 2, second = halves ? first + pairs : first + 1;
    const std::int64_t pair = halves ? first : first / 2;
    const std::int64_t asked = present(p->positions) ? load_integer(p->positions, at[0], at[2]) : key_of(p, at[0], at[2]);
    const std::int64_t position = std::clamp<std::int64_t>(asked, 0, p->rope_positions - 1);
    const float cosine = static_cast<float>(load(p->rope_cos, position, pair));
    const float sine = static_cast<float>(load(p->rope_sin, position, pair));
    const float along = x(column) * cosine, across = x(column == first ? second : first) * sine;
    return column == first ? along - across : along + across;
}

// Calls visit(to, values, count) with the numbers that are rotated together, or with each alone, loaded by `load_one`, and where they go in
// q; not with those that go nowhere.
template <class Load, class Visit>
void for_runs(const attile_quantize_problem *p, Load &&load_one, Visit &&visit) {
    const std::int64_t count = p->hadamard != 0 ? p->hadamard : 1;
    float values[kMostRotated];
    Index at, to;
    for (at[0] = 0; at[0] < p->shape[0]; ++at[0])
        for (at[1] = 0; at[1] < p->shape[1]; ++at[1])
            for (at[2] = 0; at[2] < p->shape[2]; ++at[2])
                for (at[3] = 0; at[3] < p->shape[3]; at[3] += count) {
                    if (!find_place(p, at, to)) continue;
                    for (std::int64_t r = 0; r < count; ++r) values[r] = load_one(at, r);
                    if (count > 1) rotate(values, count);
                    visit(to, values, count);
                }
}

void store_number(const attile_operand &q, float x, float scale, float zero, const Index &at, std::int64_t run) {
    if (is_float(q.dtype)) return store(q, static_cast<double>(x), at[0], at[1], at[2], at[3] + run);
    store_quantised(q, x, scale, zero, offset_of(q, at[0], at[1], at[2], at[3] + run));
}

// The largest magnitude of a block becomes its scale, of u4 the ends of its range the scale and the zero point. Until then they are kept in
// their places.
void find_scales(const attile_quantize_problem *p) {
    const auto x = [&](const Index &at, std::int64_t r) { return load_rotated(p, at, r); };
    float none = 0;
    const auto zero_of = [&](const Index &at, std::int64_t r) { return present(p->zero) ? of_block(p, p->zero, at, r) : &none; };
    const auto for_blocks = [&](auto &&change) {
        Index at, to;
        for (at[0] = 0; at[0] < p->shape[0]; at[0] += p->group[0])
            for (at[1] = 0; at[1] < p->shape[1]; at[1] += p->group[1])
                for (at[2] = 0; at[2] < p->shape[2]; at[2] += p->group[2])
                    for (at[3] = 0; at[3] < p->shape[3]; at[3] += p->group[3])
                        if (find_place(p, at, to)) change(of_block(p, p->scale, to, 0), zero_of(to, 0));
    };
    for_blocks([](float *scale, float *zero) { *scale = *zero = 0; });
    for_runs(p, x, [&](const Index &at, const float *values, std::int64_t count) {
        for (std::int64_t r = 0; r < count; ++r) {
            float *const scale = of_block(p, p->scale, at, r), *const zero = zero_of(at, r);
            const float value = values[r], magnitude = std::fabs(value);
            if (!std::isfinite(magnitude)) *scale = std::numeric_limits<float>::quiet_NaN();
            const float above = present(p->zero) ? value : magnitude;
            if (above > *scale) *scale = above;  // never of a NaN
            if (present(p->zero) && value < *zero) *zero = value;
        }
    });
    const float most = largest_number(p->q.dtype);
    for_blocks([&](float *scale, float *zero) {
        if (!std::isnan(*scale)) *scale = *scale / most - *zero / most;
        const bool has_range = !std::isnan(*scale) && *scale != 0;
        *zero = has_range ? static_cast<float>(round_to_integer(static_cast<double>(-*zero / *scale))) : 0;
    });
}

std::int32_t run(void *, const attile_quantize_problem *p) {
    if (p->back != 0) {
        const auto value = [&](const Index &at, std::int64_t r) {
            const float number = static_cast<float>(load(p->q, at[0], at[1], at[2], at[3] + r));
            return given_scale(p, at, r) * (number - given_zero(p, at, r));
        };
        for_runs(p, value, [&](const Index &at, const float *values, std::int64_t count) {
            for (std::int64_t r = 0; r < count; ++r) store(p->x, static_cast<double>(values[r]), at[0], at[1], at[2], at[3] + r);
        });
        return ATTILE_OK;
    }
    if (p->scale_given == 0) find_scales(p);
    const auto x = [&](const Index &at, std::int64_t r) { return load_rotated(p, at, r); };
    for_runs(p, x, [&](const Index &at, const float *values, std::int64_t count) {
        for (std::int64_t r = 0; r < count; ++r) store_number(p->q, values[r], given_scale(p, at, r), given_zero(p, at, r), at, r);
    });
    return ATTILE_OK;
}

std::int32_t query(void *, const attile_quantize_problem *p, attile_support *support) {
    double count = 1, blocks = 1;
    for (int axis = 0; axis < 4; ++axis) {
        count *= static_cast<double>(p->shape[axis]);
        blocks *= static_cast<double>(p->shape[axis] / p->group[axis]);
    }
    // A comparison and a quotient, or a product; the sums of a rotation.
    double steps = p->back != 0 || p->scale_given != 0 ? 1 : 2;
    for (std::int32_t apart = 1; apart < p->hadamard; apart *= 2) steps += 1;
    if (p->rope_positions != 0) steps += 6.0 * static_cast<double>(p->rope_pairs) / static_cast<double>(p->shape[3]);
    answer(support, p->back != 0 ? "reference_dequantize" : "reference_quantize", 0, steps * count,
           count * (bytes_of(p->x) + bytes_of(p->q)) + blocks * (bytes_of(p->scale) + bytes_of(p->zero)));
    return ATTILE_OK;
}

}  // namespace

const attile_quantize_interface quantize_interface = {sizeof(attile_quantize_interface), 1, query, run};

}  // namespace attile::reference

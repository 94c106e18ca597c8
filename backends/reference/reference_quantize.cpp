// SPDX-License-Identifier: Apache-2.0
// Quantisation and back. Every step is a defined operation of float32: other backends give these bits.
#include <cmath>
#include <limits>

#include "reference_backend.h"
#include "reference_element.h"

namespace attile::reference {
namespace {

constexpr std::int64_t kMostRotated = 512;

using Index = std::int64_t[4];

float largest_number(std::int32_t dtype) { return dtype == ATTILE_I8 ? 127.0f : dtype == ATTILE_F8_E4M3 ? 448.0f : 57344.0f; }

float *scale_of(const attile_quantize_problem *p, const Index &at, std::int64_t run) {
    return static_cast<float *>(p->scale.data) +
           offset_of(p->scale, at[0] / p->group[0], at[1] / p->group[1], at[2] / p->group[2], (at[3] + run) / p->group[3]);
}
float given_scale(const attile_quantize_problem *p, const Index &at, std::int64_t run) {
    return present(p->scale) ? *scale_of(p, at, run) : 1.0f;
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

// Calls visit(at, values, count) with the numbers that are rotated together, or with each alone, loaded by `load_one`.
template <class Load, class Visit>
void for_runs(const attile_quantize_problem *p, Load &&load_one, Visit &&visit) {
    const std::int64_t count = p->hadamard != 0 ? p->hadamard : 1;
    float values[kMostRotated];
    Index at;
    for (at[0] = 0; at[0] < p->shape[0]; ++at[0])
        for (at[1] = 0; at[1] < p->shape[1]; ++at[1])
            for (at[2] = 0; at[2] < p->shape[2]; ++at[2])
                for (at[3] = 0; at[3] < p->shape[3]; at[3] += count) {
                    for (std::int64_t r = 0; r < count; ++r) values[r] = load_one(at, r);
                    if (count > 1) rotate(values, count);
                    visit(at, values, count);
                }
}

// Of two ways in the middle the even one, whatever the rounding mode.
std::int8_t round_to_i8(double x) {
    const double low = std::floor(x), rest = x - low;
    const int below = static_cast<int>(low);
    return static_cast<std::int8_t>(rest > 0.5 || (rest == 0.5 && below % 2 != 0) ? below + 1 : below);
}

void store_number(const attile_operand &q, float x, float scale, const Index &at, std::int64_t run) {
    const std::int64_t to = offset_of(q, at[0], at[1], at[2], at[3] + run);
    const float largest = largest_number(q.dtype);
    const float ratio = x / scale;
    const double number = scale == 0 ? 0.0 : static_cast<double>(ratio > largest ? largest : ratio < -largest ? -largest : ratio);
    const bool nan = std::isnan(number);
    if (q.dtype == ATTILE_I8) {
        static_cast<std::int8_t *>(q.data)[to] = nan ? std::int8_t{0} : round_to_i8(number);
    } else if (q.dtype == ATTILE_F8_E4M3) {
        static_cast<std::uint8_t *>(q.data)[to] = nan ? std::uint8_t{0x7f} : encode_8<3>(number);
    } else {
        static_cast<std::uint8_t *>(q.data)[to] = nan ? std::uint8_t{0x7e} : encode_8<2>(number);
    }
}

void find_scales(const attile_quantize_problem *p) {
    const auto x = [&](const Index &at, std::int64_t r) { return static_cast<float>(load(p->x, at[0], at[1], at[2], at[3] + r)); };
    const auto for_blocks = [&](auto &&change) {
        Index at;
        for (at[0] = 0; at[0] < p->shape[0]; at[0] += p->group[0])
            for (at[1] = 0; at[1] < p->shape[1]; at[1] += p->group[1])
                for (at[2] = 0; at[2] < p->shape[2]; at[2] += p->group[2])
                    for (at[3] = 0; at[3] < p->shape[3]; at[3] += p->group[3]) change(scale_of(p, at, 0));
    };
    for_blocks([](float *scale) { *scale = 0; });
    for_runs(p, x, [&](const Index &at, const float *values, std::int64_t count) {
        for (std::int64_t r = 0; r < count; ++r) {
            float *const scale = scale_of(p, at, r);
            const float magnitude = std::fabs(values[r]);
            if (!std::isfinite(magnitude)) *scale = std::numeric_limits<float>::quiet_NaN();
            if (magnitude > *scale) *scale = magnitude;  // never of a NaN
        }
    });
    for_blocks([&](float *scale) { *scale = std::isnan(*scale) ? *scale : *scale / largest_number(p->q.dtype); });
}

std::int32_t run(void *, const attile_quantize_problem *p) {
    if (p->back != 0) {
        const auto value = [&](const Index &at, std::int64_t r) {
            return given_scale(p, at, r) * static_cast<float>(load(p->q, at[0], at[1], at[2], at[3] + r));
        };
        for_runs(p, value, [&](const Index &at, const float *values, std::int64_t count) {
            for (std::int64_t r = 0; r < count; ++r) store(p->x, static_cast<double>(values[r]), at[0], at[1], at[2], at[3] + r);
        });
        return ATTILE_OK;
    }
    if (p->scale_given == 0) find_scales(p);
    const auto x = [&](const Index &at, std::int64_t r) { return static_cast<float>(load(p->x, at[0], at[1], at[2], at[3] + r)); };
    for_runs(p, x, [&](const Index &at, const float *values, std::int64_t count) {
        for (std::int64_t r = 0; r < count; ++r) store_number(p->q, values[r], given_scale(p, at, r), at, r);
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
    answer(support, p->back != 0 ? "reference_dequantize" : "reference_quantize", 0, steps * count,
           count * (bytes_of(p->x) + bytes_of(p->q)) + blocks * bytes_of(p->scale));
    return ATTILE_OK;
}

}  // namespace

const attile_quantize_interface quantize_interface = {sizeof(attile_quantize_interface), 1, query, run};

}  // namespace attile::reference

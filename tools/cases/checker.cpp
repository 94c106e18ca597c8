// SPDX-License-Identifier: Apache-2.0
// Judging results row by row.
#include "checker.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "test_element.h"

namespace attile::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What an honest computation missed by; 0 where it overflowed or NaN is expected, which says nothing about rounding.
double honest_error(const Honest &honest, double expected, std::size_t at) {
    if (!std::isfinite(expected)) return 0;
    double error = 0;
    for (const Values *way : {&honest.first, &honest.second}) {
        const double e = std::fabs(way->at[at] - expected);
        if (std::isfinite(e)) error = std::max(error, e);
    }
    return error;
}

// What 95 of 100 honest errors stay below, in units of the magnitude: twice their root mean square.
double typical_share(const Values &expected, const Honest &honest) {
    double sum = 0;
    double count = 0;
    for (std::size_t at = 0; at < expected.at.size(); ++at) {
        const double magnitude = honest.magnitude.at[at];
        if (!std::isfinite(expected.at[at]) || !(magnitude > 0) || !std::isfinite(magnitude)) continue;
        const double share = honest_error(honest, expected.at[at], at) / magnitude;
        sum += share * share;
        count += 1;
    }
    return count > 0 ? 2 * std::sqrt(sum / count) : 0;
}

std::string index_text(const Values &values, std::size_t at) {
    std::string text;
    auto rest = static_cast<std::int64_t>(at);
    for (std::size_t axis = values.shape.size(); axis-- > 0;) {
        text = std::to_string(rest % values.shape[axis]) + (text.empty() ? "" : ", " + text);
        rest /= values.shape[axis];
    }
    return "[" + text + "]";
}

// Results that are defined bit by bit; what is expected is in float64, from which the definition rounds.
Verdict check_bits(const Values &got, const Values &expected, std::int32_t stored_dtype) {
    Verdict verdict;
    std::int64_t wrong = 0;
    for (std::size_t at = 0; at < expected.at.size(); ++at) {
        const double have = got.at[at], rounded = round_to(stored_dtype, expected.at[at]);
        if (std::isnan(rounded) ? std::isnan(have) : have == rounded && std::signbit(have) == std::signbit(rounded)) continue;
        if (++wrong > 1) continue;
        char text[256];
        std::snprintf(text, sizeof text, "%s is %.17g, expected exactly %.17g", index_text(expected, at).c_str(), have, rounded);
        verdict.message = text;
    }
    verdict.passed = wrong == 0;
    verdict.worst = verdict.passed ? 0 : kInfinity;
    if (wrong > 1) verdict.message += "; " + std::to_string(wrong) + " of " + std::to_string(expected.at.size()) + " elements are wrong";
    return verdict;
}

// The number of 8 bits nearest to x, as quantisation has it.
double nearest_number(std::int32_t dtype, double x) {
    const double most = dtype == ATTILE_I8 ? 127 : precision_of(dtype).largest;
    if (std::isnan(x)) return dtype == ATTILE_I8 ? 0 : x;
    return round_to(dtype, std::clamp(x, -most, most));
}

// A result of 8 bits: one of the numbers that what is allowed around the exact result over its divisor rounds to.
bool is_narrow_right(std::int32_t dtype, double have, double want, double divisor, double computed) {
    if (divisor == 0) return have == 0;
    const double quotient = want / divisor, around = (std::fabs(want) * 0x1p-22 + computed) / std::fabs(divisor);
    const double low = nearest_number(dtype, quotient - (std::isfinite(quotient) ? around : 0));
    const double high = nearest_number(dtype, quotient + (std::isfinite(quotient) ? around : 0));
    if (std::isnan(low) || std::isnan(high)) return std::isnan(have) && std::isnan(quotient);
    return have >= low && have <= high;
}

}  // namespace

Verdict check_values(const Values &got, const Values &expected, const Honest &honest, std::int32_t stored_dtype,
                     std::int32_t compute_dtype) {
    Verdict verdict;
    if (got.shape != expected.shape || got.at.size() != honest.first.at.size()) return {false, kInfinity, "the shapes differ"};
    if (honest.to_the_bit) return check_bits(got, expected, stored_dtype);
    const Precision compute = precision_of(compute_dtype);
    Precision stored = precision_of(stored_dtype);
    if (honest.as_exact_as != 0) stored.unit = precision_of(honest.as_exact_as).unit;
    const double typical = typical_share(expected, honest);
    const double roundings = compute_dtype == ATTILE_F64 ? 2 : 1;  // in float64 what is expected was rounded on its way as well
    std::int64_t wrong = 0;
    const auto length = static_cast<std::size_t>(expected.length());
    for (std::size_t row = 0; row < expected.at.size(); row += std::max<std::size_t>(length, 1)) {
        double row_error = 0;
        for (std::size_t at = row; at < row + length; ++at) row_error = std::max(row_error, honest_error(honest, expected.at[at], at));
        for (std::size_t at = row; at < row + length; ++at) {
            const double want = expected.at[at], have = got.at[at];
            const double magnitude = std::isfinite(honest.magnitude.at[at]) ? honest.magnitude.at[at] : 0;
            const double computed = 2 * std::max(row_error, typical * magnitude) + roundings * compute.unit * magnitude + compute.tiny;
            const double allowed = computed + stored.unit * (std::fabs(want) + computed) + stored.tiny;
            double share = 0;
            if (is_quantised(stored_dtype)) {
                // Where nobody wrote, others tell.
                const double divisor = honest.divisors.at.empty() ? 1 : honest.divisors.at[at];
                share = is_unwritten(want) || is_narrow_right(stored_dtype, have, want, divisor, computed) ? 0 : kInfinity;
            } else if (std::isnan(want) || std::isnan(have)) {
                share = std::isnan(want) && std::isnan(have) ? 0 : kInfinity;
            } else if (std::isinf(want)) {
                share = have == want ? 0 : kInfinity;
            } else if (std::isinf(have)) {
                // Rounding to storage may overflow: fine if what was to be stored reaches half a step beyond the largest number.
                const double limit = stored.largest * (1 + stored.unit / 2);
                share = std::signbit(have) == std::signbit(want) && std::fabs(want) + computed >= limit ? 0 : kInfinity;
            } else {
                const double error = std::fabs(have - want);
                share = error == 0 ? 0 : error / allowed;  // allowed may be 0: infinite share
                if (!(share <= kInfinity)) share = kInfinity;
            }
            verdict.worst = std::max(verdict.worst, share);
            if (share <= 1) continue;
            if (++wrong > 1) continue;
            char text[256];
            std::snprintf(text, sizeof text, "%s is %.9g, expected %.9g, off by %.3g where %.3g is allowed",
                          index_text(expected, at).c_str(), have, want, std::fabs(have - want), allowed);
            verdict.message = text;
        }
    }
    verdict.passed = wrong == 0;
    if (wrong > 1) verdict.message += "; " + std::to_string(wrong) + " of " + std::to_string(expected.at.size()) + " elements are wrong";
    return verdict;
}

}  // namespace attile::test

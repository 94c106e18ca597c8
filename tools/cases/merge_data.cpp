// SPDX-License-Identifier: Apache-2.0
#include "merge_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_data.h"
#include "problem.h"
#include "test_element.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kEmpty = -std::numeric_limits<double>::infinity();

}  // namespace

MergeParts draw_merge_parts(const MergeCase &c, Random &random) {
    MergeParts parts;
    const bool constant = c.in_place < 0;
    for (std::int64_t part = 0; part < c.parts; ++part) {
        Values o({c.batch, c.heads, c.len, c.head_dim_v}), lse({c.batch, c.heads, c.len});
        for (double &x : o.at) x = round_to(c.dtype, random.normal());
        for (double &x : lse.at) x = round_to(compute_type(c.dtype), c.spread * random.normal());
        for (std::size_t row = 0; row < lse.at.size(); ++row)
            if (random.chance(c.empty_share)) lse.at[row] = kEmpty;
        for (std::size_t row = 0; row < lse.at.size() && c.nan_share > 0; ++row)
            if (random.chance(c.nan_share)) lse.at[row] = kNan;
        if (constant) {
            make_constant(o, c.part_layout.broadcast);
            make_constant(lse, c.part_layout.broadcast);
        }
        // What a part without keys holds does not matter; a line of stride 0 is shared with rows that do have keys.
        for (std::size_t row = 0; row < lse.at.size() && c.part_layout.broadcast == 0; ++row)
            if (lse.at[row] == kEmpty) std::fill_n(o.at.begin() + static_cast<std::ptrdiff_t>(row) * c.head_dim_v, c.head_dim_v, kNan);
        parts.o.push_back(std::move(o));
        parts.lse.push_back(std::move(lse));
    }
    return parts;
}

template <class T>
MergedValues merge_plainly(const MergeParts &parts, bool backwards, bool magnitude) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const std::size_t length = static_cast<std::size_t>(parts.o[0].length());
    MergedValues result = {Values(parts.o[0].shape), Values(parts.lse[0].shape)};
    for (std::size_t row = 0; row < parts.lse[0].at.size(); ++row) {
        T max = kHidden;
        for (const Values &lse : parts.lse) max = std::max(max, static_cast<T>(lse.at[row]));
        const bool has_nan = std::any_of(parts.lse.begin(), parts.lse.end(), [&](const Values &lse) { return std::isnan(lse.at[row]); });
        if (max == kHidden && !has_nan) {
            result.lse.at[row] = magnitude ? 0 : kEmpty;
            continue;
        }
        std::vector<T> o(length);
        T sum = 0, size = 0;
        for (std::size_t step = 0; step < parts.o.size(); ++step) {
            const std::size_t part = backwards ? parts.o.size() - 1 - step : step;
            const T lse = static_cast<T>(parts.lse[part].at[row]);
            if (lse == kHidden) continue;
            const T weight = std::exp(lse - max);
            sum += weight;
            // A weight's rounding grows with the numbers that were subtracted to make it.
            const T factor = magnitude ? weight * (1 + std::fabs(lse) + std::fabs(max)) : weight;
            size += factor;
            for (std::size_t d = 0; d < length; ++d) {
                const T x = static_cast<T>(parts.o[part].at[row * length + d]);
                o[d] += factor * (magnitude ? std::fabs(x) : x);
            }
        }
        const T lse = max + std::log(sum);
        result.lse.at[row] = static_cast<double>(magnitude ? size / sum + std::fabs(lse) : lse);
        for (std::size_t d = 0; d < length; ++d) result.o.at[row * length + d] = static_cast<double>(o[d] / sum);
    }
    return result;
}

template MergedValues merge_plainly<float>(const MergeParts &parts, bool backwards, bool magnitude);
template MergedValues merge_plainly<double>(const MergeParts &parts, bool backwards, bool magnitude);

}  // namespace attile::test

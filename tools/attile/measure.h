// SPDX-License-Identifier: Apache-2.0
// Timing of a repeatable piece of work: medians, since the mean of a shared machine tells of its other users.
#pragma once

#include <functional>
#include <vector>

namespace attile::cli {

struct Timing {
    double median = 0;  // Seconds a call.
    double best = 0;
    double spread = 0;  // Distance between the quartiles, as a share of the median.
    int samples = 0;

    // Does it tell how long a larger piece of work takes? A short call mostly tells what a call costs.
    bool tells_rate() const { return median >= 1e-4; }
};

// Of seconds a call, not empty.
Timing timing_of(std::vector<double> samples);

// `work(n)` does the work n times and returns when all of it is finished. Warms up once, then takes samples of at least a few milliseconds
// until `seconds` are spent, no fewer than three and no more than 50.
Timing measure(const std::function<void(int)> &work, double seconds);

}  // namespace attile::cli

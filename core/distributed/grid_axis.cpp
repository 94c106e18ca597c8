// SPDX-License-Identifier: Apache-2.0
#include "distributed/grid_axis.h"

#include <algorithm>
#include <numeric>

namespace attile::core {

int64_t GridAxis::whole_below(int32_t rank, int64_t lines) const {
    if (has_all()) return lines;
    const int64_t blocks = lines / block, behind = (coordinate(rank) - source + ranks) % ranks;
    const int64_t rounds = blocks / ranks, rest = blocks % ranks;
    return rounds * block + (behind < rest ? block : behind == rest ? lines % block : 0);
}

Range GridAxis::next(int32_t rank, int64_t index) const {
    if (index >= extent) return {extent, extent};
    if (has_all()) return {index, extent};
    const int64_t line = origin + index, number = line / block;
    const int64_t owner = (number + source) % ranks, ahead = (coordinate(rank) - owner + ranks) % ranks;
    const int64_t begin = (ahead == 0 ? line : (number + ahead) * block) - origin;
    const int64_t end = (number + ahead + 1) * block - origin;
    return {std::min(begin, extent), std::min(end, extent)};
}

GridAxis GridAxis::unshared() const {
    if (!replicated()) return *this;
    GridAxis cut = *this;
    cut.origin = 0;
    cut.block = std::max<int64_t>(1, (extent + ranks - 1) / ranks);
    cut.source = 0;
    return cut;
}

namespace {

// Whether blocks lie alike: then two ranks have the same indices, or none in common.
bool lie_alike(const GridAxis &one, const GridAxis &other) {
    return one.origin == other.origin && one.block == other.block && one.source == other.source && one.ranks == other.ranks;
}

// The least common multiple, or `most` where it is larger.
int64_t common_multiple(int64_t one, int64_t other, int64_t most) {
    const int64_t times = one / std::gcd(one, other);
    return times > most / other ? most : times * other;
}

}  // namespace

void common_runs(const GridAxis &from, int32_t sender, const GridAxis &to, int32_t receiver, Range range, std::vector<Run> *runs) {
    runs->clear();
    if (lie_alike(from, to) && !from.replicated()) {
        const int64_t first = from.below(sender, range.begin), count = from.below(sender, range.end) - first;
        if (count != 0 && from.coordinate(sender) == to.coordinate(receiver)) runs->push_back({first, first, count});
        return;
    }
    for (int64_t index = range.begin; index < range.end;) {
        const Range one = from.next(sender, index), other = to.next(receiver, index);
        const int64_t begin = std::max(one.begin, other.begin), end = std::min({one.end, other.end, range.end});
        index = std::max(begin, end);
        if (begin >= end) continue;  // the one's blocks end before the other's begin
        const Run run = {from.below(sender, begin), to.below(receiver, begin), end - begin};
        if (!runs->empty() && runs->back().from + runs->back().count == run.from && runs->back().to + runs->back().count == run.to) {
            runs->back().count += run.count;
        } else {
            runs->push_back(run);
        }
    }
}

int64_t count_common(const GridAxis &from, const GridAxis &to, int32_t rank) {
    if (from.has_all()) return to.count(rank);
    if (to.has_all()) return from.count(rank);
    if (from.extent == 0) return 0;
    // Both together repeat after a common multiple of their rounds. Until then the longer blocks are few: no more than the shorter round
    // has indices, and than fit into the extent, so at most 2^20.
    const bool longer = from.round() >= to.round();
    const GridAxis &few = longer ? from : to, &many = longer ? to : from;
    const auto count_below = [&](int64_t end) {  // up to the extent
        int64_t count = 0;
        for (Range block = few.next(rank, 0); block.begin < end; block = few.next(rank, block.end)) {
            count += many.below(rank, std::min(block.end, end)) - many.below(rank, block.begin);
        }
        return count;
    };
    const int64_t extent = from.extent, period = common_multiple(from.round(), to.round(), extent);
    return extent / period * count_below(period) + count_below(extent % period);
}

int64_t count_runs(const std::vector<Run> &runs) {
    int64_t count = 0;
    for (const Run &run : runs) count += run.count;
    return count;
}

}  // namespace attile::core

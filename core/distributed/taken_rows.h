// SPDX-License-Identifier: Apache-2.0
// Rows of packed sequences that have an owner. Where offsets decrease several sequences have a row, and the first one gets it.
#ifndef ATTILE_CORE_DISTRIBUTED_TAKEN_ROWS_H
#define ATTILE_CORE_DISTRIBUTED_TAKEN_ROWS_H

#include <algorithm>
#include <iterator>
#include <map>

#include "distributed/rows.h"

namespace attile::core {

class TakenRows {
  public:
    // Takes what nobody has of these rows; `give` gets each run of it, in order. Every run that was met becomes part of one, so that all
    // sequences together take little more time than sorted ones, whose runs come behind all others.
    template <typename Give>
    void take(const Range &rows, const Give &give) {
        if (rows.count() <= 0) return;
        Range whole = rows;
        int64_t free = rows.begin;
        auto at = ends_before(rows.begin) ? taken_.end() : taken_.upper_bound(rows.begin);
        if (at != taken_.begin() && std::prev(at)->second >= rows.begin) --at;
        while (at != taken_.end() && at->first <= rows.end) {
            if (free < at->first) give(Range{free, at->first});
            free = std::max(free, at->second);
            whole = {std::min(whole.begin, at->first), std::max(whole.end, at->second)};
            at = taken_.erase(at);
        }
        if (free < rows.end) give(Range{free, rows.end});
        taken_.emplace_hint(at, whole.begin, whole.end);
    }

  private:
    bool ends_before(int64_t row) const { return taken_.empty() || taken_.rbegin()->second <= row; }

    std::map<int64_t, int64_t> taken_;  // first rows and ends of runs that do not touch
};

}  // namespace attile::core

#endif

// SPDX-License-Identifier: Apache-2.0
// The steps of a ring over ranks. Those of a backward call end with the sums' way home.
#include "ring_facts.h"

#include <algorithm>

#include "cli.h"
#include "table.h"

namespace attile::cli {

std::vector<RingSteps> ring_steps(const bench::BenchCase &one, double flops, int64_t ranks) {
    const auto shard = [&](int64_t element_bytes) {
        return 2.0 * static_cast<double>(one.batch * one.heads_kv * one.head_dim * element_bytes) * static_cast<double>(one.len_k) /
               static_cast<double>(ranks);
    };
    const int64_t element = (one.dtype & 0xff) / 8;
    const double keys = shard(element), sums = shard(std::max<int64_t>(4, element));
    const double step = flops / static_cast<double>(ranks * ranks);
    std::vector<RingSteps> steps;
    const auto add = [&](int64_t first, int64_t last, double of_step, double bytes, const char *sent) {
        if (first <= last) steps.push_back({first, last, of_step, bytes, sent});
    };
    if (one.operation == bench::Operation::kAttention || ranks == 1) {
        add(0, ranks - 2, step, keys, "keys and values");
        add(ranks - 1, ranks - 1, step, 0, "");
        return steps;
    }
    add(0, std::min<int64_t>(1, ranks - 2), step, keys, "keys and values");
    add(2, ranks - 2, step, keys + sums, "keys and values, sums of dk and dv");
    add(ranks - 1, ranks - 1, step, ranks > 2 ? sums : 0, ranks > 2 ? "sums of dk and dv" : "");
    add(ranks, ranks, 0, sums, "sums of dk and dv, home");
    return steps;
}

std::string ring_facts(const bench::BenchCase &one, double flops, int64_t ranks, double link, double peak_flops) {
    Table table({"steps", ">arithmetic", ">link", "sent meanwhile", ">bytes"});
    double all = 0, computing = 0;
    for (const RingSteps &steps : ring_steps(one, flops, ranks)) {
        const double arithmetic = steps.flops / peak_flops, travel = steps.bytes / link;
        const double count = static_cast<double>(steps.last - steps.first + 1);
        all += count * std::max(arithmetic, travel);
        computing += count * arithmetic;
        const std::string name = std::to_string(steps.first) + (steps.last > steps.first ? " to " + std::to_string(steps.last) : "");
        table.row({name, seconds_text(arithmetic), seconds_text(travel), steps.sent, bytes_text(steps.bytes)});
    }
    Facts facts;
    facts.add("ranks", text("%lld on a ring, even %s shards", static_cast<long long>(ranks),
                            one.mask == ATTILE_MASK_NONE ? "contiguous" : "zigzag"));
    facts.add("link", byte_rate_text(link) + " a rank, in each direction (given)");
    facts.add("time", text("%s, of which arithmetic takes %s at the peak", seconds_text(all).c_str(), seconds_text(computing).c_str()));
    facts.add("efficiency", text("%.1f %% of what the ranks would do without a link", all > 0 ? 100 * computing / all : 100));
    return facts.str() + "\n" + table.str();
}

}  // namespace attile::cli

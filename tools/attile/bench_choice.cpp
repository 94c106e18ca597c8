// SPDX-License-Identifier: Apache-2.0
#include "bench_choice.h"

#include <string>

#include "case_filter.h"
#include "cli.h"

namespace attile::cli {

using bench::BenchCase;
using bench::Size;

std::vector<BenchCase> choose_bench_cases(const BenchOptions &options, const attile_context_info &info) {
    std::string size = options.size;
    const bool named = !size.empty();
    if (!named) size = info.device_type == ATTILE_DEVICE_CPU ? "medium" : "large";
    const CaseFilter filter(options.filter);
    std::vector<BenchCase> chosen;
    for (BenchCase &one : bench::bench_cases()) {
        // Tiny cases go with the device's own: they tell what a call costs.
        const bool fits = bench::size_name(one.size) == size || (!named && one.size == Size::kTiny);
        if (fits && filter.matches(one.id)) chosen.push_back(std::move(one));
    }
    if (chosen.empty())
        throw Failure("no case" + (options.filter.empty() ? std::string() : " matches '" + options.filter + "'") +
                      " (attile bench --list shows them)");
    return chosen;
}

std::vector<BenchCase> exact_pairs(attile_context *context, const std::vector<BenchCase> &cases) {
    std::vector<BenchCase> pairs;
    for (const BenchCase &one : cases) {
        if (one.exact || one.fast) continue;
        BenchCase with = bench::exact(one);
        if (one.operation == bench::Operation::kGemmGrouped) continue;  // has no such flag
        attile_support support;
        if (bench::BenchRun(context, with).query(support) != ATTILE_OK || support.level == ATTILE_SUPPORT_NONE) continue;
        pairs.push_back(one);
        pairs.push_back(std::move(with));
    }
    if (pairs.empty()) throw Failure("none of these cases is served with ATTILE_FLAG_EXACT_PRODUCTS");
    return pairs;
}

}  // namespace attile::cli

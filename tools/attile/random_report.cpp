// SPDX-License-Identifier: Apache-2.0
// Distributions of drawn problems.
#include "random_report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cli.h"
#include "json.h"
#include "table.h"

namespace attile::cli {
namespace {

constexpr double kLongEnough = 20e-6;  // Shorter ones tell of the launch; they are not among the worst.
constexpr size_t kWorst = 30;

// Shares of the roofline, sorted.
using Shares = std::vector<double>;

double quantile(const Shares &sorted, double q) {
    return sorted[std::min(sorted.size() - 1, static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

struct Row {
    std::string kind, key;
    Shares shares;
    double over_plain = 0;  // Median over the plain ones'; 0: none to compare with.
};

struct Distribution {
    Shares all;
    std::vector<Row> rows;
    int refused = 0, left_out = 0, behind = 0;
};

Distribution distribution_of(const std::vector<Outcome> &outcomes) {
    Distribution result;
    std::vector<std::string> kinds;  // In the order in which a problem names them.
    std::map<std::tuple<size_t, int64_t, std::string>, Shares> shares;
    for (const Outcome &one : outcomes) {
        if (!one.why.empty()) {
            ++(one.refused ? result.refused : result.left_out);
            continue;
        }
        if (!one.clocked.ahead) ++result.behind;
        result.all.push_back(one.share());
        for (const Group &group : groups_of(one.problem)) {
            const size_t kind = static_cast<size_t>(std::find(kinds.begin(), kinds.end(), group.kind) - kinds.begin());
            if (kind == kinds.size()) kinds.push_back(group.kind);
            shares[{kind, group.order, group.key}].push_back(one.share());
        }
    }
    std::sort(result.all.begin(), result.all.end());
    double plain = 0;
    for (auto &[key, values] : shares) {
        std::sort(values.begin(), values.end());
        if (std::get<2>(key) == kPlain) plain = quantile(values, 0.5);
    }
    for (const auto &[key, values] : shares) {
        const bool option = kinds[std::get<0>(key)] == "option";
        result.rows.push_back({kinds[std::get<0>(key)], std::get<2>(key), values, option && plain > 0 ? quantile(values, 0.5) / plain : 0});
    }
    return result;
}

std::string rate(const Roof &roof, const Outcome &one) {
    if (roof.by_memory(one.work, one.problem.dtype)) return byte_rate_text(one.work.bytes / one.clocked.seconds);
    return flop_rate_text(one.work.flops / one.clocked.seconds);
}

}  // namespace

std::string report(const std::vector<Outcome> &outcomes, const Roof &roof) {
    const Distribution found = distribution_of(outcomes);
    const std::string name(bench::operation_name(outcomes.front().problem.operation));
    std::string result = name + ": " + std::to_string(found.all.size()) + (found.all.size() == 1 ? " problem" : " problems");
    if (found.refused > 0) result += ", " + std::to_string(found.refused) + " that the backend does not have";
    if (found.left_out > 0) result += ", " + std::to_string(found.left_out) + " left out";
    if (found.behind > 0) result += ", " + std::to_string(found.behind) + " with the host behind";
    if (found.all.empty()) return result + "\n\n";
    result += text("; share of the roofline: median %.2f, lowest tenth %.2f\n", quantile(found.all, 0.5), quantile(found.all, 0.1));
    Table table({"by", "", ">problems", ">median", ">lowest tenth", ">over plain"});
    std::string kind;
    for (const Row &row : found.rows) {
        table.row({row.kind == kind ? "" : row.kind, row.key, std::to_string(row.shares.size()), text("%.3f", quantile(row.shares, 0.5)),
                   text("%.3f", quantile(row.shares, 0.1)), row.over_plain > 0 ? text("%.2f", row.over_plain) : ""});
        kind = row.kind;
    }
    result += table.str();

    std::vector<const Outcome *> worst;
    for (const Outcome &one : outcomes)
        if (one.why.empty() && one.clocked.seconds >= kLongEnough) worst.push_back(&one);
    std::stable_sort(worst.begin(), worst.end(), [](const Outcome *a, const Outcome *b) { return a->share() < b->share(); });
    worst.resize(std::min(worst.size(), kWorst));
    result += "\nthe worst that take 20 us or more (attile bench --problem ID runs one again)\n";
    Table list({">share", ">time", ">rate", "problem", "kernel"});
    for (const Outcome *one : worst)
        list.row({text("%.3f", one->share()), seconds_text(one->clocked.seconds), rate(roof, *one), one->id, one->kernel});
    return result + list.str() + "\n";
}

std::string table_of(const std::vector<Outcome> &outcomes, const Roof &roof) {
    Table table({"problem", ">time", ">spread", ">roofline", ">share", ">rate", "kernel"});
    for (const Outcome &one : outcomes) {
        if (one.why.empty())
            table.row({one.id, seconds_text(one.clocked.seconds), text("%.1f %%", 100 * one.clocked.spread), seconds_text(one.floor),
                       text("%.3f", one.share()), rate(roof, one), one.kernel});
        else
            table.row({one.id, "", "", "", "", "", one.why});
    }
    return table.str();
}

std::string distribution_json(Operation operation, const std::vector<Outcome> &outcomes) {
    const Distribution found = distribution_of(outcomes);
    const auto quantiles = [](const Shares &shares) {
        std::string list;
        for (double q : {0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0})
            list += (list.empty() ? "[" : ", ") + text("%.4f", quantile(shares, q));
        return list + "]";
    };
    JsonObject object;
    object.add("operation", std::string(bench::operation_name(operation))).add("problems", static_cast<double>(found.all.size()));
    object.add("refused", found.refused).add("left_out", found.left_out).add("host_behind", found.behind);
    std::string rows;
    if (!found.all.empty()) {
        object.add("median", quantile(found.all, 0.5)).add("lowest_tenth", quantile(found.all, 0.1)).raw("quantiles", quantiles(found.all));
        for (const Row &row : found.rows) {
            JsonObject line;
            line.add("by", row.kind).add("key", row.key).add("problems", static_cast<double>(row.shares.size()));
            line.add("median", quantile(row.shares, 0.5))
                .add("lowest_tenth", quantile(row.shares, 0.1))
                .raw("quantiles", quantiles(row.shares));
            if (row.over_plain > 0) line.add("over_plain", row.over_plain);
            rows += (rows.empty() ? "\n     " : ",\n     ") + line.str();
        }
    }
    return object.raw("groups", "[" + rows + "]").str();
}

std::string outcome_json(const Outcome &one) {
    JsonObject object;
    object.add("problem", one.id).add("kernel", one.kernel);
    if (!one.why.empty()) return object.add("not_run", one.why).str();
    object.add("seconds", one.clocked.seconds).add("spread", one.clocked.spread).add("calls", static_cast<double>(one.clocked.calls));
    object.add("roofline_seconds", one.floor).add("share", one.share()).add("flops", one.work.flops).add("bytes", one.work.bytes);
    if (!one.clocked.ahead) object.raw("host_behind", "true");
    return object.str();
}

std::string roof_json(const Roof &roof) {
    JsonObject object;
    for (const auto &[dtype, rate] : roof.flops) object.add((std::string(bench::dtype_name(dtype)) + "_flops").c_str(), rate);
    return object.add("bandwidth", roof.bandwidth).add("launch_seconds", roof.launch).add("from", roof.from).str();
}

}  // namespace attile::cli

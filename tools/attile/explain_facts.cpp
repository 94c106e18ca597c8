// SPDX-License-Identifier: Apache-2.0
#include "explain_facts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli.h"
#include "table.h"
#include "test_element.h"

namespace attile::cli {
namespace {

using bench::BenchCase;
using bench::Operation;

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// Only on a GPU is a block many threads.
bool has_blocks(const attile_support &support) { return support.threads > 1; }

model::BlockNeeds needs_of(const attile_support &support) { return {support.threads, support.registers, support.shared_bytes}; }

// "sm_90" is capability 90; other makers' names are none.
int capability_of(const attile_context_info &info) {
    return std::strncmp(info.arch, "sm_", 3) == 0 ? model::parse_capability(info.arch + 3) : 0;
}

double peak_of(const attile_context_info &device, int32_t dtype) {
    if (dtype == ATTILE_F64) return device.peak_flops_f64;
    if ((dtype == ATTILE_F16 || dtype == ATTILE_BF16) && device.peak_flops_f16 > 0) return device.peak_flops_f16;
    return device.peak_flops_f32;
}

const char *const kLimitNames[model::kLimits] = {"threads", "blocks", "registers", "shared memory"};

std::string limiters(const model::Occupancy &occupancy) {
    std::string names;
    for (int limit = 0; limit < model::kLimits; ++limit)
        if (occupancy.is_limited_by(static_cast<model::Limit>(limit)))
            names += (names.empty() ? "" : " and ") + std::string(kLimitNames[limit]);
    return names;
}

std::string verdict(const model::Occupancy &occupancy, const model::UnitLimits &unit) {
    if (occupancy.blocks == model::kNoLimit) return "any number of blocks: no limit is known";
    const std::string blocks = text("%s block%s", grouped_text(occupancy.blocks).c_str(), occupancy.blocks == 1 ? "" : "s");
    const std::string why = "limited by " + limiters(occupancy);
    if (occupancy.blocks == 0) return "none: a block needs more " + limiters(occupancy) + " than a unit has";
    if (unit.threads == 0) return blocks + ", " + why;
    const std::string threads = text("%s, %s of %s threads, occupancy %.3g %%", blocks.c_str(), grouped_text(occupancy.threads).c_str(),
                                     grouped_text(unit.threads).c_str(), 100 * occupancy.share);
    return threads + (occupancy.share >= 1 ? ": full" : ", " + why);
}

std::string blocks_cell(int64_t blocks) { return blocks == model::kNoLimit ? "any" : grouped_text(blocks); }
std::string count_cell(int64_t count) { return count > 0 ? grouped_text(count) : "not known"; }

}  // namespace

std::string elements_text(double count) {
    return count < kExactIntegers && count == std::floor(count) ? grouped_text(static_cast<int64_t>(count)) : text("%.4g", count);
}

std::string reads_text(double reads, double untiled, int64_t bytes, double flops, const Roofs &roofs) {
    std::string line = elements_text(reads) + text(" elements of %lld B", static_cast<long long>(bytes));
    if (reads < untiled) line += text(", 1/%.4g of them", untiled / reads);
    if (!(reads > 0)) return line;
    line += text(": %.3g FLOP/B", flops / (reads * static_cast<double>(bytes)));
    if (!roofs.known()) return line;
    const model::Roofline one = model::roofline(flops, reads * static_cast<double>(bytes), roofs.peak_flops, roofs.bandwidth);
    return line +
           (one.is_compute_bound() ? ", arithmetic binds" : text(", memory binds: %.4g ms if it answers each", one.memory_seconds * 1e3));
}

Roofs roofs_of(double given_peak, double given_bandwidth, const attile_context_info *device, int32_t dtype) {
    Roofs roofs;
    roofs.given = given_peak > 0 || given_bandwidth > 0;
    roofs.peak_flops = given_peak > 0 ? given_peak : device != nullptr ? peak_of(*device, dtype) : 0;
    roofs.bandwidth = given_bandwidth > 0 ? given_bandwidth : device != nullptr ? device->peak_bandwidth : 0;
    return roofs;
}

std::string bound_text(const model::Roofline &line) {
    const double share = line.intensity / line.balance;
    return line.is_compute_bound() ? text("arithmetic: the intensity is %.3g times the balance point", share)
                                   : text("memory: the intensity is %.3g of the balance point", share);
}

std::string roof_facts(const attile_support &support, const Roofs &roofs) {
    const auto assumed = roofs.given ? " (given)" : "";
    Facts facts;
    facts.add("operations", count_text(support.flops, "FLOP"));
    facts.add("memory traffic", bytes_text(support.bytes) + ", each input read once and each output written once");
    facts.add("intensity", text("%.2f FLOP/B", support.bytes > 0 ? support.flops / support.bytes : 0));
    facts.add("peak", roofs.peak_flops > 0 ? flop_rate_text(roofs.peak_flops) + assumed
                                           : "not known for this device (--device-peak-flops gives one)");
    facts.add("bandwidth",
              roofs.bandwidth > 0 ? byte_rate_text(roofs.bandwidth) + assumed : "not known for this device (--device-bandwidth gives one)");
    if (roofs.known()) {
        const model::Roofline line = model::roofline(support.flops, support.bytes, roofs.peak_flops, roofs.bandwidth);
        facts.add("balance point", text("%.2f FLOP/B", line.balance));
        facts.add("bound by", bound_text(line));
        facts.add("floor", text("%.4g ms (arithmetic %.4g ms, memory %.4g ms)", std::max(line.compute_seconds, line.memory_seconds) * 1e3,
                                line.compute_seconds * 1e3, line.memory_seconds * 1e3));
    }
    return facts.str();
}

std::string kernel_facts(const attile_support &support, const Roofs &roofs) {
    static const char *const levels[] = {"none", "emulated", "native"};
    Facts facts;
    facts.add("support", support.level >= 0 && support.level <= 2 ? levels[support.level] : "");
    facts.add("kernel", support.kernel);
    facts.add("note", support.text);
    if (support.tile_m > 0 || support.tile_n > 0)
        facts.add("tile", text("%d x %d", support.tile_m, support.tile_n) + (support.tile_k > 0 ? text(", %d deep", support.tile_k) : ""));
    if (has_blocks(support)) facts.add("threads a block", std::to_string(support.threads));
    if (support.registers > 0) facts.add("registers a thread", std::to_string(support.registers));
    if (support.shared_bytes > 0) facts.add("shared memory a block", bytes_text(support.shared_bytes));
    if (support.blocks_per_unit > 0) facts.add("blocks a unit", std::to_string(support.blocks_per_unit));
    if (support.blocks > 0) facts.add("blocks", grouped_text(support.blocks));
    if (support.splits > 1) facts.add("splits", std::to_string(support.splits));
    facts.add("workspace", support.workspace_bytes > 0 ? bytes_text(static_cast<double>(support.workspace_bytes)) : "none");
    if (support.predicted_share > 0) {
        std::string predicted = text("%.0f %% of the bound", 100 * support.predicted_share);
        if (roofs.known()) {
            const model::Roofline line = model::roofline(support.flops, support.bytes, roofs.peak_flops, roofs.bandwidth);
            predicted += text(", %.4g ms", std::max(line.compute_seconds, line.memory_seconds) / support.predicted_share * 1e3);
        }
        facts.add("predicted", predicted);
    }
    return facts.str();
}

std::string reads_facts(const attile_support &support, const BenchCase &one, const Roofs &roofs) {
    if (!has_blocks(support) || support.tile_m < 1 || support.tile_n < 1) return "";
    double untiled = 0, tiled = 0;
    if (one.operation == Operation::kGemm) {
        const model::Product product = {one.m, one.n, one.k};
        const double batch = static_cast<double>(one.batch);
        untiled = batch * model::reads_without_tile(product);
        tiled = batch * model::reads_with_tile(product, support.tile_m, support.tile_n);
    } else if (one.operation == Operation::kAttention) {
        const model::Attention attention = {
            one.batch, one.heads_q, one.heads_kv, one.len_q, one.len_k, one.head_dim, one.mask != ATTILE_MASK_NONE};
        model::AttentionTile tile;
        tile.rows = support.tile_m;
        tile.keys = support.tile_n;
        tile.splits = std::max(support.splits, 1);
        // Fewer blocks than heads have tiles: the heads of a group are packed. Several times as many: the columns of V are divided.
        const int64_t blocks = one.batch * one.heads_q * ((one.len_q + tile.rows - 1) / tile.rows) * tile.splits;
        if (support.blocks < blocks) tile.packed = one.heads_q / std::max<int64_t>(one.heads_kv, 1);
        tile.column_blocks = std::max<int64_t>(support.blocks / std::max<int64_t>(blocks, 1), 1);
        untiled = model::reads_without_tile(attention);
        tiled = model::reads_with_tile(attention, tile);
    }
    if (!(untiled > 0)) return "";
    const int64_t bytes = test::element_bytes(one.dtype);
    Facts facts;
    facts.add("reads without a tile", reads_text(untiled, untiled, bytes, support.flops, roofs));
    facts.add("reads with this tile", reads_text(tiled, untiled, bytes, support.flops, roofs));
    return facts.str();
}

std::string occupancy_text(const model::BlockNeeds &block, const model::UnitLimits &unit,
                           const std::optional<model::AllocationUnits> &allocation) {
    const model::AllocationUnits units = allocation.value_or(model::AllocationUnits());
    const model::BlockResources asked = model::allocated(block), taken = model::allocated(block, units);
    const model::Occupancy plain = model::occupancy(block, unit), real = model::occupancy(block, unit, units);
    const int64_t holds[] = {unit.threads, unit.blocks, unit.registers, unit.shared_bytes};
    const int64_t needed[] = {asked.threads, 1, asked.registers, asked.shared_bytes};
    const int64_t allocated[] = {taken.threads, 1, taken.registers, taken.shared_bytes};
    std::vector<std::string> heads = {"limit", ">a unit holds", ">a block needs", ">blocks"};
    if (allocation) heads.insert(heads.end(), {">allocated to it", ">blocks"});
    Table table(heads);
    for (int limit = 0; limit < model::kLimits; ++limit) {
        const bool bytes = limit == model::kByShared;
        const std::string needs = bytes ? grouped_text(needed[limit]) : count_cell(needed[limit]);
        std::vector<std::string> cells = {std::string(kLimitNames[limit]) + (bytes ? ", bytes" : ""), count_cell(holds[limit]), needs,
                                          blocks_cell(plain.blocks_by[static_cast<size_t>(limit)])};
        if (allocation) {
            cells.push_back(needs == "not known" ? needs : grouped_text(allocated[limit]));
            cells.push_back(blocks_cell(real.blocks_by[static_cast<size_t>(limit)]));
        }
        table.row(cells);
    }
    Facts facts;
    facts.add(allocation ? "in plain numbers" : "a unit holds", verdict(plain, unit));
    if (allocation) {
        facts.add("as allocated", verdict(real, unit));
        const auto number = [](int64_t value) { return std::to_string(value); };
        facts.add("allocation",
                  number(units.registers) + " registers at a time to a warp of " + number(units.warp) + ", in " + number(units.partitions) +
                      " partitions; " + number(units.shared_bytes) + " bytes of shared memory at a time" +
                      (units.shared_reserved > 0 ? ", " + number(units.shared_reserved) + " more a block for the system" : ""));
    }
    return table.str() + "\n" + facts.str();
}

std::string occupancy_facts(const attile_support &support, const attile_context_info &info) {
    const model::UnitLimits unit = {info.max_threads_per_unit, info.max_blocks_per_unit, info.registers_per_unit, info.shared_per_unit};
    if (!has_blocks(support) || unit.threads <= 0) return "";
    const auto allocation = model::allocation_units(capability_of(info));
    std::string result = occupancy_text(needs_of(support), unit, allocation);
    const model::Occupancy reckoned = model::occupancy(needs_of(support), unit, allocation.value_or(model::AllocationUnits()));
    if (support.blocks_per_unit > 0 && support.blocks_per_unit != reckoned.blocks)
        result += text("\nThe device itself counts %d: it also knows what is not in this arithmetic.\n", support.blocks_per_unit);
    return result;
}

}  // namespace attile::cli

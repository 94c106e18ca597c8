// SPDX-License-Identifier: Apache-2.0
// attile explain occupancy, roofline and tiling: the questions that textbooks ask about a kernel, answered for numbers that are given.
// Where a device is named its own ways are told beside the plain arithmetic.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli.h"
#include "commands.h"
#include "explain_facts.h"
#include "table.h"

namespace attile::cli {
namespace {

std::string capability_name(int capability) { return text("compute capability %d.%d", capability / 10, capability % 10); }

// What a device allows no block to have, whatever else is free.
void expect_block_fits(const model::BlockNeeds &block, int capability) {
    const std::string device = capability_name(capability);
    const auto expect = [&](int64_t value, int64_t most, const char *what) {
        if (value > most)
            throw Failure(text("%s are at most %lld on %s; here are %lld", what, static_cast<long long>(most), device.c_str(),
                               static_cast<long long>(value)));
    };
    expect(block.threads, model::kThreadsPerBlock, "threads a block");
    expect(block.registers, model::kRegistersPerThread, "registers a thread");
    if (model::unit_limits(capability)) expect(block.shared_bytes, model::shared_per_block(capability), "bytes of shared memory a block");
}

std::string extents(int64_t a, int64_t b) { return grouped_text(a) + " x " + grouped_text(b); }

}  // namespace

int run_occupancy(const OccupancyOptions &options) {
    const model::BlockNeeds block = {options.threads, options.registers, static_cast<int64_t>(options.shared)};
    model::UnitLimits unit;
    std::optional<model::AllocationUnits> allocation;
    std::string device;
    if (!options.capability.empty()) {
        const int capability = model::parse_capability(options.capability.c_str());
        if (capability == 0) throw Failure("'" + options.capability + "' is not a compute capability such as 6.1");
        unit = model::unit_limits(capability).value_or(unit);
        allocation = model::allocation_units(capability);
        device = capability_name(capability);
        expect_block_fits(block, capability);
    }
    if (options.unit_threads > 0) unit.threads = options.unit_threads;
    if (options.unit_blocks > 0) unit.blocks = options.unit_blocks;
    if (options.unit_registers > 0) unit.registers = static_cast<int64_t>(options.unit_registers);
    if (options.unit_shared > 0) unit.shared_bytes = static_cast<int64_t>(options.unit_shared);
    if (unit.threads == 0)
        throw Failure(
            (device.empty() ? "what does a multiprocessor hold?" : "what a multiprocessor of " + device + " holds is not known here;") +
            std::string(" --sm-threads and its like say it, or --capability, e.g. 6.1"));
    Facts facts;
    facts.add("device", device);
    std::string needs = grouped_text(block.threads) + " threads";
    if (block.registers > 0) needs += ", " + grouped_text(block.registers) + " registers a thread";
    facts.add("block", needs + ", " + grouped_text(block.shared_bytes) + " bytes of shared memory");
    if (!allocation) facts.add("allocation", "as a textbook has it, to the byte; --capability adds the units in which a device allocates");
    std::printf("%s\n%s", facts.str().c_str(), occupancy_text(block, unit, allocation).c_str());
    return 0;
}

int run_roofline(const RooflineOptions &options) {
    Facts facts;
    Roofs roofs = roofs_of(options.peak_flops, options.bandwidth, nullptr, ATTILE_F32);
    if (!roofs.known()) {
        const Context context(options.backend);
        roofs = roofs_of(options.peak_flops, options.bandwidth, &context.info(), ATTILE_F32);
        if (!roofs.known())
            throw Failure("peak and bandwidth of " + context.description() + " are not known: --flops and --bandwidth give them");
        facts.add("backend", context.description());
    }
    const model::Roofline line = model::roofline(options.flops, options.bytes, roofs.peak_flops, roofs.bandwidth);
    facts.add("work", text("%.6g FLOP for %.6g bytes", options.flops, options.bytes));
    facts.add("intensity", text("%.4g FLOP/B", line.intensity));
    facts.add("peak", flop_rate_text(roofs.peak_flops));
    facts.add("bandwidth", byte_rate_text(roofs.bandwidth));
    facts.add("balance point", text("%.4g FLOP/B", line.balance));
    facts.add("bound by", bound_text(line));
    facts.add("at most", flop_rate_text(line.rate) + text(", %.3g %% of the peak, at ", 100 * line.rate / roofs.peak_flops) +
                             byte_rate_text(line.rate / line.intensity));
    std::fputs(facts.str().c_str(), stdout);
    return 0;
}

int run_tiling(const TilingOptions &options) {
    const int64_t n = options.n;
    const model::Product product = {options.m > 0 ? options.m : n, n, options.k > 0 ? options.k : n};
    const int64_t tile_m = options.tile.front(), tile_n = options.tile.back();
    const double flops = model::reads_without_tile(product);  // A multiply-add reads two operands, and is two operations.
    const double untiled = flops, tiled = model::reads_with_tile(product, tile_m, tile_n);
    const auto times = [](int64_t before, int64_t extent, int64_t tile) {
        return grouped_text(before) + " times without a tile, " + grouped_text((extent + tile - 1) / tile) + " times with it";
    };
    const Roofs roofs = roofs_of(options.peak_flops, options.bandwidth, nullptr, ATTILE_F32);
    Facts facts;
    facts.add("product", text("M = %s, N = %s, K = %s: ", grouped_text(product.m).c_str(), grouped_text(product.n).c_str(),
                              grouped_text(product.k).c_str()) +
                             count_text(flops, "FLOP"));
    facts.add("tile", extents(tile_m, tile_n) + " of the output");
    facts.add("reads without a tile", reads_text(untiled, untiled, options.element_bytes, flops, roofs));
    facts.add("reads with this tile", reads_text(tiled, untiled, options.element_bytes, flops, roofs));
    facts.add("an element of A", times(product.n, product.n, tile_n));
    facts.add("an element of B", times(product.m, product.m, tile_m));
    if (tile_m == tile_n)
        facts.add("shared memory", grouped_text(2 * tile_m * tile_m * options.element_bytes) +
                                       " bytes a block, were the tiles of A and B as deep as they are wide; shallow ones read the same");
    if (roofs.known()) {
        const double balance = roofs.peak_flops / roofs.bandwidth;
        facts.add("balance point", text("%.4g FLOP/B: square tiles from %.0f on leave it to arithmetic", balance,
                                        std::ceil(balance * static_cast<double>(options.element_bytes))));
    }
    std::fputs(facts.str().c_str(), stdout);
    return 0;
}

}  // namespace attile::cli

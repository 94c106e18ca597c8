// SPDX-License-Identifier: Apache-2.0
#include "kernel_model.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace attile::model {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

constexpr int64_t kKiB = 1024;

struct KnownUnit {
    int capability;
    UnitLimits limits;
};
// From NVIDIA's table of technical specifications per compute capability.
constexpr KnownUnit kKnownUnits[] = {
    {52, {2048, 32, 65536, 96 * kKiB}},  {60, {2048, 32, 65536, 64 * kKiB}},   {61, {2048, 32, 65536, 96 * kKiB}},
    {70, {2048, 32, 65536, 96 * kKiB}},  {75, {1024, 16, 65536, 64 * kKiB}},   {80, {2048, 32, 65536, 164 * kKiB}},
    {86, {1536, 16, 65536, 100 * kKiB}}, {87, {1536, 16, 65536, 164 * kKiB}},  {89, {1536, 24, 65536, 100 * kKiB}},
    {90, {2048, 32, 65536, 228 * kKiB}}, {100, {2048, 32, 65536, 228 * kKiB}}, {120, {1536, 24, 65536, 100 * kKiB}},
};

}  // namespace

BlockResources allocated(const BlockNeeds &block, const AllocationUnits &allocation) {
    const int64_t warps = ceil_div(block.threads, allocation.warp);
    BlockResources taken;
    taken.threads = warps * allocation.warp;
    taken.registers = warps * round_up(block.registers * allocation.warp, allocation.registers);
    taken.shared_bytes = round_up(block.shared_bytes + allocation.shared_reserved, allocation.shared_bytes);
    return taken;
}

Occupancy occupancy(const BlockNeeds &block, const UnitLimits &unit, const AllocationUnits &allocation) {
    const BlockResources taken = allocated(block, allocation);
    Occupancy result;
    result.blocks_by.fill(kNoLimit);
    if (unit.threads > 0) result.blocks_by[kByThreads] = unit.threads / taken.threads;
    if (unit.blocks > 0) result.blocks_by[kByBlocks] = unit.blocks;
    if (unit.registers > 0 && taken.registers > 0) {
        const int64_t warps = taken.threads / allocation.warp, per_warp = taken.registers / warps;
        // A partition holds whole warps, so that what is left of each is lost.
        const auto blocks_of = [&](int64_t partitions) { return unit.registers / partitions / per_warp * partitions / warps; };
        result.blocks_by[kByRegisters] = blocks_of(allocation.least_partitions) > 0 ? blocks_of(allocation.partitions) : 0;
    }
    if (unit.shared_bytes > 0 && taken.shared_bytes > 0) result.blocks_by[kByShared] = unit.shared_bytes / taken.shared_bytes;
    result.blocks = *std::min_element(result.blocks_by.begin(), result.blocks_by.end());
    if (result.blocks == kNoLimit) return result;
    result.threads = result.blocks * taken.threads;
    if (unit.threads > 0) result.share = static_cast<double>(result.threads) / static_cast<double>(unit.threads);
    return result;
}

std::optional<UnitLimits> unit_limits(int capability) {
    for (const KnownUnit &known : kKnownUnits)
        if (known.capability == capability) return known.limits;
    return std::nullopt;
}

std::optional<AllocationUnits> allocation_units(int capability) {
    if (capability < 50 || capability >= 130) return std::nullopt;
    AllocationUnits units;
    units.warp = 32;
    units.registers = 256;
    units.partitions = capability == 60 ? 2 : 4;  // A GP100 has two, and yet runs only what its siblings can.
    units.least_partitions = 4;
    units.shared_bytes = capability < 80 ? 256 : 128;
    units.shared_reserved = capability < 80 ? 0 : kKiB;
    return units;
}

int64_t shared_per_block(int capability) {
    const auto unit = unit_limits(capability);
    const auto allocation = allocation_units(capability);
    if (!unit || !allocation) return 0;
    return capability < 70 ? 48 * kKiB : unit->shared_bytes - allocation->shared_reserved;
}

int parse_capability(const char *text) {
    char *end = nullptr;
    const long major = std::strtol(text, &end, 10);
    if (end == text || *text < '0' || *text > '9' || major < 1 || major > 999) return 0;
    if (*end == '\0') return major >= 10 ? static_cast<int>(major) : 0;
    if (*end != '.' || end[1] < '0' || end[1] > '9' || end[2] != '\0' || major > 99) return 0;
    return static_cast<int>(10 * major + (end[1] - '0'));
}

Roofline roofline(double flops, double bytes, double peak_flops, double bandwidth) {
    Roofline result;
    result.intensity = bytes > 0 ? flops / bytes : std::numeric_limits<double>::infinity();
    result.balance = peak_flops / bandwidth;
    result.rate = std::min(peak_flops, result.intensity * bandwidth);
    result.compute_seconds = flops / peak_flops;
    result.memory_seconds = bytes / bandwidth;
    return result;
}

double reads_without_tile(const Product &product) {
    return 2 * static_cast<double>(product.m) * static_cast<double>(product.n) * static_cast<double>(product.k);
}

double reads_with_tile(const Product &product, int64_t tile_m, int64_t tile_n) {
    const double m = static_cast<double>(product.m), n = static_cast<double>(product.n), k = static_cast<double>(product.k);
    return k * (m * static_cast<double>(ceil_div(product.n, tile_n)) + n * static_cast<double>(ceil_div(product.m, tile_m)));
}

namespace {

// Keys that row i sees.
int64_t visible_keys(const Attention &attention, int64_t row) {
    if (!attention.causal) return attention.len_k;
    return std::clamp<int64_t>(row + 1 + attention.len_k - attention.len_q, 0, attention.len_k);
}

double pairs(const Attention &attention) {
    const double rows = static_cast<double>(attention.len_q), keys = static_cast<double>(attention.len_k);
    double count = rows * keys;
    // A triangle hides the keys above the diagonal; with fewer keys than rows it has lost its corner, whose rows see no key.
    if (attention.causal) count = keys < rows ? keys * (keys + 1) / 2 : count - rows * (rows - 1) / 2;
    return static_cast<double>(attention.batch) * static_cast<double>(attention.heads_q) * count;
}

}  // namespace

double reads_without_tile(const Attention &attention) { return 4 * pairs(attention) * static_cast<double>(attention.head_dim); }

double reads_with_tile(const Attention &attention, const AttentionTile &tile) {
    const int64_t rows = attention.len_q * tile.packed;  // Of heads that are packed, row by row, into one.
    double keys = 0;
    for (int64_t first = 0; first < rows; first += tile.rows) {
        const int64_t last = std::min(first + tile.rows, rows) - 1;
        const int64_t seen = visible_keys(attention, last / tile.packed);
        keys += static_cast<double>(std::min(round_up(seen, tile.keys), attention.len_k));
    }
    const double heads = static_cast<double>(attention.batch) * static_cast<double>(attention.heads_q),
                 repeated = static_cast<double>(tile.column_blocks);
    const double of_q = heads * static_cast<double>(attention.len_q) * static_cast<double>(tile.splits) * repeated;
    const double of_k = heads / static_cast<double>(tile.packed) * keys * repeated, of_v = of_k / repeated;
    return static_cast<double>(attention.head_dim) * (of_q + of_k + of_v);
}

}  // namespace attile::model

// SPDX-License-Identifier: Apache-2.0
// The arithmetic by which a kernel is judged before it runs: how many blocks a compute unit holds and what limits them, which of two roofs
// binds, and what is read of global memory with and without a tile. Plain numbers in and out; no device and no library is asked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace attile::model {

// ---- Occupancy: how many blocks a compute unit (a streaming multiprocessor, SM) holds at once.

inline constexpr int64_t kNoLimit = INT64_MAX;

// What a compute unit holds at most. 0: not known, and then no limit.
struct UnitLimits {
    int64_t threads = 0;
    int64_t blocks = 0;
    int64_t registers = 0;
    int64_t shared_bytes = 0;
};

// In what units a device allocates. As they are here it allocates what is asked for and no more, as textbooks reckon.
struct AllocationUnits {
    int64_t warp = 1;              // Threads and registers are given to whole warps.
    int64_t registers = 1;         // A warp's registers are rounded up to a multiple of it.
    int64_t partitions = 1;        // Of the unit; each has its share of the registers, and a warp's lie in one of them.
    int64_t least_partitions = 1;  // A block that a unit of so many partitions could not hold is refused, whatever this one could.
    int64_t shared_bytes = 1;      // A block's shared memory is rounded up to a multiple of it,
    int64_t shared_reserved = 0;   // and that much goes to the system first.
};

struct BlockNeeds {
    int64_t threads = 1;       // A block.
    int64_t registers = 0;     // A thread. 0: not known, and then no limit.
    int64_t shared_bytes = 0;  // A block.
};

// What is allocated to a block for what it needs.
struct BlockResources {
    int64_t threads = 0;
    int64_t registers = 0;  // Of the whole block.
    int64_t shared_bytes = 0;
};
BlockResources allocated(const BlockNeeds &block, const AllocationUnits &allocation = {});

enum Limit { kByThreads, kByBlocks, kByRegisters, kByShared, kLimits };

struct Occupancy {
    std::array<int64_t, kLimits> blocks_by = {};  // Blocks that a limit allows by itself; kNoLimit if it allows any number.
    int64_t blocks = 0;                           // The least of them.
    int64_t threads = 0;                          // Of those blocks, as the device counts them: in whole warps.
    double share = 0;  // Of the threads that the unit holds: the occupancy, 0 to 1. 0 if the unit's are not known.

    bool is_limited_by(Limit limit) const { return blocks_by[limit] == blocks && blocks != kNoLimit; }
};

// block.threads is at least 1. Extents up to 2^30 do not overflow.
Occupancy occupancy(const BlockNeeds &block, const UnitLimits &unit, const AllocationUnits &allocation = {});

// NVIDIA's devices by compute capability, 61 meaning 6.1: what a multiprocessor holds, and how it allocates. The latter goes by generation,
// so it is known of more devices.
std::optional<UnitLimits> unit_limits(int capability);
std::optional<AllocationUnits> allocation_units(int capability);

// What one block may have at most, and a thread.
inline constexpr int64_t kThreadsPerBlock = 1024;
inline constexpr int64_t kRegistersPerThread = 255;
int64_t shared_per_block(int capability);  // For a device whose limits are known.

// "6.1" or "61" as 61; 0 if it is neither.
int parse_capability(const char *text);

// ---- Roofline: of arithmetic and memory, the one that takes longer binds.

struct Roofline {
    double intensity = 0;  // FLOP a byte. Infinite without memory traffic.
    double balance = 0;    // The intensity at which both take the same time.
    double rate = 0;       // FLOP a second at most.
    double compute_seconds = 0;
    double memory_seconds = 0;

    bool is_compute_bound() const { return compute_seconds >= memory_seconds; }
};

// Of work with `flops` operations and `bytes` of memory traffic, on a device with these peaks, both above 0.
Roofline roofline(double flops, double bytes, double peak_flops, double bandwidth);

// ---- Reads of global memory, in elements.

// C (m x n) = A (m x k) B (k x n). Without a tile each multiply-add reads both of its operands: 2 m n k. With a tile, each block of tile_m
// x tile_n outputs reads its rows of A and its columns of B once: 2 n^3 / tile for squares that the tile divides.
struct Product {
    int64_t m = 0, n = 0, k = 0;
};
double reads_without_tile(const Product &product);
double reads_with_tile(const Product &product, int64_t tile_m, int64_t tile_n);

// softmax(Q K^T) V, with Dv = head_dim. The mask, if any, lets row i see keys up to i + len_k - len_q.
struct Attention {
    int64_t batch = 1, heads_q = 1, heads_kv = 1, len_q = 0, len_k = 0, head_dim = 0;
    bool causal = false;
};
// A block takes `rows` rows of Q, and goes over K and V `keys` keys at a time.
struct AttentionTile {
    int64_t rows = 1;
    int64_t keys = 1;
    int64_t packed = 1;         // Query heads whose rows one block may hold: they share their key head.
    int64_t splits = 1;         // Blocks among which the keys of the same rows are divided: each reads those rows.
    int64_t column_blocks = 1;  // Blocks among which the columns of V are divided: each reads those rows, and K.
};
// Each multiply-add of the two products reads both of its operands.
double reads_without_tile(const Attention &attention);
// Takes time in proportion to the number of row blocks of a head.
double reads_with_tile(const Attention &attention, const AttentionTile &tile);

}  // namespace attile::model

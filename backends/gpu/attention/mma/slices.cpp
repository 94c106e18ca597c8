// SPDX-License-Identifier: Apache-2.0
#include "attention/mma/slices.h"

#include <cstdio>
#include <cstring>

#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kMostCopied = int64_t{1} << 30, kCopiedShare = 16;  // Bytes, and of the device's memory.
// Slices may fill so little of the room: extents without small divisors have few or many. At 1 GiB, and more than 16 rows of a key head, a
// slice still has 2^27 products, which take longer than its launches where no tensor cores take them.
constexpr int64_t kLeastFilled = 64;

}  // namespace

int64_t attention_copies_room(const Device &device) { return std::min(kMostCopied, device.properties().memory_total / kCopiedShare); }

int64_t most_slices(const Device &device, int64_t bytes) {
    return kLeastFilled * ceil_div(bytes, std::max<int64_t>(attention_copies_room(device), 1));
}

void name_slices(attile_support &support, const AttentionSlices &slices) {
    if (slices.count() == 1) return;
    const std::size_t used = std::strlen(support.text);
    std::snprintf(support.text + used, sizeof support.text - used, "; in %lld slices", static_cast<long long>(slices.count()));
    support.blocks *= slices.count();
}

}  // namespace attile::gpu::mma

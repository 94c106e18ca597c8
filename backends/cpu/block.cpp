// SPDX-License-Identifier: Apache-2.0
#include "block.h"

#include "size.h"
#include "system.h"

namespace attile::cpu {

void *allocate_block(int64_t bytes) {
    const int64_t alignment = bytes < kHugePage ? kBlockAlignment : kHugePage;
    // A multiple of the alignment is asked for; beyond this the sum would wrap.
    if (bytes > INT64_MAX - alignment) return nullptr;
    void *block = allocate_aligned(static_cast<size_t>(alignment), static_cast<size_t>(round_up(bytes, alignment)));
    if (block != nullptr && bytes >= kHugePage) want_huge_pages(block, static_cast<size_t>(bytes / kHugePage * kHugePage));
    return block;
}

void free_block(void *block) { free_aligned(block); }

}  // namespace attile::cpu

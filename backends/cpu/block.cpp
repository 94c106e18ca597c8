// SPDX-License-Identifier: Apache-2.0
#include "block.h"

#include <sys/mman.h>

#include <cstdlib>

#include "size.h"

namespace attile::cpu {

void *allocate_block(int64_t bytes) {
    const int64_t alignment = bytes < kHugePage ? kBlockAlignment : kHugePage;
    // aligned_alloc wants a multiple of the alignment; beyond this the sum would wrap.
    if (bytes > INT64_MAX - alignment) return nullptr;
    void *block = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(round_up(bytes, alignment)));
#if defined(MADV_HUGEPAGE)
    if (block != nullptr && bytes >= kHugePage) madvise(block, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
#endif
    return block;
}

}  // namespace attile::cpu

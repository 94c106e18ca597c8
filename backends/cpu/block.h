// SPDX-License-Identifier: Apache-2.0
// Blocks of memory for large arrays.
#ifndef ATTILE_CPU_BLOCK_H
#define ATTILE_CPU_BLOCK_H

#include <cstdint>

namespace attile::cpu {

constexpr int64_t kBlockAlignment = 256;
constexpr int64_t kHugePage = int64_t{2} << 20;

// `bytes` of memory, 256-byte aligned, not initialised, for free_block(); NULL when memory is exhausted. From a huge page on the block
// begins with one, and the system is asked for huge pages as far as they are whole: they spare the translation of addresses where an array
// is walked through, and a part of one would hold memory that nobody uses.
void *allocate_block(int64_t bytes);

void free_block(void *block);  // NULL is fine

}  // namespace attile::cpu

#endif  // ATTILE_CPU_BLOCK_H

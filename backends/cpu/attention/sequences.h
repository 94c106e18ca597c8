// SPDX-License-Identifier: Apache-2.0
// Packed sequences whose offsets are no offsets.
#ifndef ATTILE_CPU_SEQUENCES_H
#define ATTILE_CPU_SEQUENCES_H

#include <attile/attile_backend.h>

namespace attile::cpu {

// Whether offsets decrease somewhere, so that sequences share rows or keys. What they share holds the last one's results: then the batch is
// gone through in order, by one thread.
bool sequences_meet(const attile_attention_problem &p);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_SEQUENCES_H

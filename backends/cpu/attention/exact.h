// SPDX-License-Identifier: Apache-2.0
// Attention with EXACT_PRODUCTS: a row after the other, scores and sums in fixed point, exp and log as of exact rows.
#ifndef ATTILE_CPU_ATTENTION_EXACT_H
#define ATTILE_CPU_ATTENTION_EXACT_H

#include <attile/attile_backend.h>

#include <cstdint>

#include "state.h"

namespace attile::cpu {

int32_t exact_attention_query(const State &state, const attile_attention_problem &p, attile_support *support);
int32_t exact_attention_run(State &state, const attile_attention_problem &p);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_ATTENTION_EXACT_H

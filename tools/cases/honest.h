// SPDX-License-Identifier: Apache-2.0
// What an honest computation makes: plain loops in the working precision, without tricks, in two different orders, and the size of the
// numbers that were rounded on the way. The checker measures a backend's error against theirs.
//
// f16 and bf16 problems round the probabilities (and their gradients) to the storage type, as a matrix unit's operand would be.
#pragma once

#include <vector>

#include "attention_data.h"
#include "test_tensor.h"

namespace attile::test {

/// Terms that an honest sum takes by themselves before they join it. One chain over everything is what careless code does: its error grows
/// with the length, and would allow all others theirs.
inline constexpr std::int64_t kHonestTerms = 128;
/// The same of a matrix product, whose sums stay in registers over a block of k.
inline constexpr std::int64_t kHonestSteps = 1024;

struct Honest {
    Values exact;                  ///< in double; never what a backend is judged by
    Values first;                  ///< in the working precision, one order
    Values second;                 ///< and another
    Values magnitude;              ///< sum of the absolute values that make the element: one rounding of it is the floor
    bool to_the_bit = false;       ///< what is expected is defined bit by bit: no error is allowed
    Values divisors = {};          ///< of results of 8 bits: what each is over; of no shape: 1
    std::int32_t as_exact_as = 0;  ///< the type that a result is allowed the rounding of; 0: the one it is stored in
};

/// o and lse in double, as `exact` below has them: what the data of gradients is made of.
void exact_attention(const AttentionData &data, Values *o, Values *lse);

/// o and lse. Rows of no sequence are NaN.
std::vector<Honest> honest_attention(const AttentionData &data);

/// dq, dk, dv, and dbias and dsinks if they are asked for. Without `exact`: no case has gradients among its data.
std::vector<Honest> honest_backward(const BackwardData &data);

}  // namespace attile::test

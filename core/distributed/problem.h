// SPDX-License-Identifier: Apache-2.0
// From the arguments of a call over ranks to its problem, and what ranks tell each other of it.
#ifndef ATTILE_CORE_DISTRIBUTED_PROBLEM_H
#define ATTILE_CORE_DISTRIBUTED_PROBLEM_H

#include "distributed/attention.h"
#include "distributed/comm.h"

namespace attile::core {

// Reads and validates this rank's own arguments. `unsupported`: they are right, and what they ask for is not to be had; a query answers
// with it.
int32_t read_problem(const CommState &comm, const attile_attention_distributed_args *args, bool query, DistributedAttention *problem,
                     bool *unsupported);
int32_t read_problem(const CommState &comm, const attile_attention_backward_distributed_args *args, bool query,
                     DistributedAttention *problem, bool *unsupported);

// Everything that must be the same on all ranks. Reads lengths, slopes and sinks, wherever they lie.
int32_t describe(DistributedAttention *problem, Announcement *announcement);

// The shards of all ranks, as this rank's own arguments have them. False: they do not say.
bool foresee_shards(DistributedAttention *problem);
// The same from what all announced.
int32_t spread(const Agreement &agreement, DistributedAttention *problem);

}  // namespace attile::core

#endif

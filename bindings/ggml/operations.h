// SPDX-License-Identifier: Apache-2.0
// What a node of ggml's graph is in calls of Attile. The same code asks whether it can be served and serves it, so both answers agree.
#ifndef ATTILE_GGML_OPERATIONS_H
#define ATTILE_GGML_OPERATIONS_H

#include "tensors.h"

namespace attile::ggml {

// Copies that one node needs at the same time.
struct Copies {
    Scratch operand, mask;
};

// Where the calls go. Without copies they are queries, which know no addresses.
struct Target {
    attile_context *context;
    Copies *copies;
};

// Whether ggml computes nothing for this node: views of memory that is there already.
bool is_view(const ggml_tensor &node);

// Serves a node, or says whether it would be served.
// Returns ATTILE_OK; ATTILE_ERROR_UNSUPPORTED_OPERATION, _DTYPE, _SHAPE or _FEATURE: not served, nothing was written;
// ATTILE_ERROR_OUT_OF_HOST_MEMORY: no memory for a copy; else the status of Attile's call.
int32_t serve(const ggml_tensor &node, const Target &target);

}  // namespace attile::ggml

#endif

// SPDX-License-Identifier: Apache-2.0
// A context: one backend on one device, and what the core keeps beside the backend's own state.
#ifndef ATTILE_CORE_CONTEXT_H
#define ATTILE_CORE_CONTEXT_H

#include <attile/attile_backend.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace attile::core {

// The registry owns what these point to: full-size copies of the backend's tables, in which an entry that lies beyond the
// backend's own table is NULL. The pointer of an interface that the backend lacks is NULL.
struct Interfaces {
    const attile_device_interface *device;
    const attile_memory_interface *memory;
    const attile_gemm_interface *gemm;
    const attile_attention_interface *attention;
    const attile_attention_backward_interface *attention_backward;
    const attile_attention_merge_interface *attention_merge;
    const attile_reduce_interface *reduce;
    const attile_softmax_interface *softmax;
};

struct Backend;

}  // namespace attile::core

struct attile_context {
    std::atomic<uint64_t> magic{0};  // kLiveContext from creation to destruction
    void *state = nullptr;           // the backend's
    attile::core::Interfaces interfaces{};
    char backend_name[32] = {};
    const attile::core::Backend *backend = nullptr;
    uint64_t process = 0;  // process_generation() at creation
    int32_t device = 0;

    std::mutex owned;                                 // guards the two tables below
    std::unordered_map<void *, int32_t> allocations;  // pointer to ATTILE_MEMORY_ kind
    std::unordered_set<void *> streams;
    attile_context *next_free = nullptr;  // while destroyed
};

namespace attile::core {

// ATTILE_OK, or the failure to return, its sentence set: NULL, destroyed, no context at all, or one of the process that this one was
// forked from. Takes no lock, so that it answers in a forked child whatever the other threads of the parent were doing.
int32_t check_context(attile_context *context);

}  // namespace attile::core

#endif

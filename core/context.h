// SPDX-License-Identifier: Apache-2.0
// A context: one backend on one device, and what the core keeps beside the backend's own state.
//
// What a program holds is no address but a number, see handle_table.h.
#ifndef ATTILE_CORE_CONTEXT_H
#define ATTILE_CORE_CONTEXT_H

#include <attile/attile_backend.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "guard.h"
#include "handle_table.h"
#include "status.h"

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
    const attile_attention_merge_backward_interface *attention_merge_backward;
    const attile_reduce_interface *reduce;
    const attile_softmax_interface *softmax;
    const attile_quantize_interface *quantize;
    const attile_gemm_grouped_interface *gemm_grouped;
    const attile_repack_interface *repack;
};

struct Backend;

struct Context : Handled<Context> {
    void *state = nullptr;  // the backend's
    Interfaces interfaces{};
    char backend_name[32] = {};
    const Backend *backend = nullptr;
    uint64_t process = 0;  // process_generation() at creation
    int32_t device = 0;
    uint32_t blas_flags = 0;  // ATTILE_FLAG_ bits of calls by the BLAS names

    std::mutex owned;                                 // guards the two tables below
    std::unordered_map<void *, int32_t> allocations;  // pointer to ATTILE_MEMORY_ kind
    std::unordered_set<void *> streams;
};

// ATTILE_OK and the context, or the failure to return, its sentence set: NULL, destroyed, no context at all, or one of the process that
// this one was forked from. Takes no lock, so that it answers in a forked child whatever the other threads of the parent were doing.
int32_t find_context(attile_context *handle, Context **context);

// The body of a public function that works on a context.
template <typename Body>
int32_t on_context(attile_context *handle, Body &&body) {
    return guarded([&]() -> int32_t {
        Context *context = nullptr;
        ATTILE_TRY(find_context(handle, &context));
        return body(context);
    });
}

// The place of a context that is none yet, or NULL where as many as can be are open. Contexts are kept for later ones, the oldest first,
// and never given back: it costs as much as the contexts that were alive at once, half a kilobyte each.
Context *take_context();
void give_context(Context *context);

// Makes the context what its new handle finds.
attile_context *publish_context(Context *context);

// Ends the handle: of several threads that try, one gets the context.
Context *withdraw_context(attile_context *handle);

}  // namespace attile::core

#endif

// SPDX-License-Identifier: Apache-2.0
// Handles of contexts.
#include "context.h"
#include "fork.h"
#include "process.h"
#include "status.h"

namespace attile::core {
namespace {

constinit HandleTable<Context, 0x6174> context_table;

uint64_t number_of(const attile_context *handle) { return reinterpret_cast<uint64_t>(handle); }

[[gnu::noinline, gnu::cold]] int32_t refuse_handle(attile_context *handle) {
    if (handle == nullptr) return fail(ATTILE_ERROR_INVALID_CONTEXT, "the context is NULL");
    return fail(ATTILE_ERROR_INVALID_CONTEXT,
                context_table.was_live(number_of(handle)) ? "the context %p was destroyed" : "context is %p, which is not a context",
                static_cast<void *>(handle));
}

}  // namespace

int32_t find_context(attile_context *handle, Context **context) {
    *context = context_table.live(number_of(handle));
    if (*context == nullptr) return refuse_handle(handle);
    if ((*context)->process != process_generation()) {
        return fail(ATTILE_ERROR_AFTER_FORK, "the context belongs to the process this one was forked from; make a new one");
    }
    return ATTILE_OK;
}

Context *take_context() { return context_table.take(locks.contexts); }

void give_context(Context *context) { context_table.give(context, locks.contexts); }

attile_context *publish_context(Context *context) { return reinterpret_cast<attile_context *>(context_table.publish(context)); }

Context *withdraw_context(attile_context *handle) { return context_table.withdraw(number_of(handle)); }

}  // namespace attile::core

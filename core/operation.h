// SPDX-License-Identifier: Apache-2.0
// What every operation's front shares: its launch, and the last step, which hands a normalised problem to the backend and holds the
// backend to the contract.
#ifndef ATTILE_CORE_OPERATION_H
#define ATTILE_CORE_OPERATION_H

#include <attile/attile_backend.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "args_head.h"
#include "context.h"
#include "guard.h"
#include "message.h"
#include "status.h"
#include "surroundings.h"
#include "tensor.h"

// The size of a struct whose last field is `field`. First sizes are given by the last field of the first release, so that they stay when
// the struct grows.
#define ATTILE_SIZE_UP_TO(type, field) \
    static_cast<uint32_t>((offsetof(type, field) + sizeof(type::field) + alignof(type) - 1) / alignof(type) * alignof(type))

namespace attile::core {

inline constexpr uint32_t kSupportFirstSize = ATTILE_SIZE_UP_TO(attile_support, predicted_share);

// What an args struct says about where to run, checked.
int32_t make_launch(const Call &call, void *stream, void *workspace, int64_t workspace_bytes, uint32_t flags, attile_launch *launch);

// A workspace must not touch any tensor of the call.
int32_t check_workspace_apart(const Call &call, const attile_launch &launch, const View *const *views, int32_t count);

// Makes what a backend's function returned this call's failure: its words become the sentence; a code that is none, or one without words,
// is made good.
int32_t check_answer(const Call &call, const Context *context, int32_t status);

// Notes that a backend left the floating-point mode changed; it has been put back.
void note_changed_mode(const Call &call, const Context *context);

// Checks what a backend's query filled in.
int32_t check_support(const Call &call, const Context *context, attile_support *support);

// Answers that need no backend.
int32_t fail_unsupported_operation(const Call &call, const Context *context);
int32_t fail_workspace(const Call &call, const attile_launch &launch, int64_t needed);
void describe_unsupported(int32_t status, const char *text, attile_support *support);
void describe_nothing_to_do(attile_support *support);

// Calls a function of the backend, keeps what it throws from going further, and the floating-point mode what it was.
template <typename Function>
int32_t invoke_backend(const Call &call, const Context *context, Function &&function) {
    forget_backend_words();
    const FloatingPointMode mode;
    int32_t status = ATTILE_OK;
    try {
        status = function();
    }
    ATTILE_LET_THREADS_END
    catch (const std::bad_alloc &) {
        mode.put_back();
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%s: the backend '%s' ran out of host memory", call.operation, context->backend_name);
    }
    catch (...) {
        mode.put_back();
        return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: the backend '%s' threw an exception", call.operation, context->backend_name);
    }
    if (!mode.put_back()) [[unlikely]]
        note_changed_mode(call, context);
    return status == ATTILE_OK ? ATTILE_OK : check_answer(call, context, status);
}

// Fills a full-size support. A backend may also answer with a code of block 2xxx, which means the same as level NONE.
template <typename Interface, typename Problem>
int32_t ask_backend(const Call &call, const Context *context, const Interface *interface, const Problem &problem, attile_support *support) {
    const KeptError before;
    *support = {};
    support->struct_size = sizeof *support;
    const int32_t status = invoke_backend(call, context, [&] { return interface->query(context->state, &problem, support); });
    if (status / 1000 == 2) {
        describe_unsupported(status, error_text(), support);
    } else {
        ATTILE_TRY(status);
        ATTILE_TRY(check_support(call, context, support));
    }
    before.put_back();
    return ATTILE_OK;
}

// A backend whose interface is older than `version` knows no exact results of the operation, and is not asked for them.
inline constexpr uint32_t kExactVersion = 2;  // of reduce, softmax and merge
inline bool is_exact(uint32_t flags) { return (flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0; }
int32_t fail_exact_unknown(const Call &call, const Context *context);
template <typename Interface>
int32_t check_exact_known(const Call &call, const Context *context, const Interface *interface, const attile_launch &launch,
                          uint32_t version) {
    return !is_exact(launch.flags) || interface == nullptr || interface->version >= version ? ATTILE_OK : fail_exact_unknown(call, context);
}

template <typename Interface>
bool is_implemented(const Interface *interface) {
    return interface != nullptr && interface->run != nullptr && interface->query != nullptr;
}

// Runs a validated problem. `nothing_to_do`: no output has an element. The backend is only asked for its workspace if that can matter.
template <typename Interface, typename Problem>
int32_t run_problem(const Call &call, const Context *context, const Interface *interface, const Problem &problem,
                    const attile_launch &launch, bool nothing_to_do) {
    if (!is_implemented(interface)) return fail_unsupported_operation(call, context);
    if (nothing_to_do) return ATTILE_OK;
    if (launch.workspace != nullptr || (launch.flags & ATTILE_FLAG_NO_ALLOC) != 0) {
        attile_support support;
        ATTILE_TRY(ask_backend(call, context, interface, problem, &support));
        if (support.level == ATTILE_SUPPORT_NONE) return fail(support.status, "%s", support.text);
        if (launch.workspace_bytes < support.workspace_bytes) return fail_workspace(call, launch, support.workspace_bytes);
    }
    return invoke_backend(call, context, [&] { return interface->run(context->state, &problem); });
}

// Answers a query if the call would fail like this, with a code of block 2xxx.
template <typename Check>
bool answer_failure(Check &&check, attile_support *answer) {
    const KeptError before;
    const int32_t status = check();
    if (status == ATTILE_OK) return false;
    attile_support support;
    describe_unsupported(status, error_text(), &support);
    before.put_back();
    write_output(support, answer);
    return true;
}

// Answers a query about a validated problem.
template <typename Interface, typename Problem>
int32_t query_problem(const Call &call, const Context *context, const Interface *interface, const Problem &problem, bool nothing_to_do,
                      attile_support *answer) {
    if (!is_implemented(interface)) {
        answer_failure([&] { return fail_unsupported_operation(call, context); }, answer);
        return ATTILE_OK;
    }
    attile_support support;
    if (nothing_to_do) {
        describe_nothing_to_do(&support);
    } else {
        ATTILE_TRY(ask_backend(call, context, interface, problem, &support));
    }
    write_output(support, answer);
    return ATTILE_OK;
}

}  // namespace attile::core

#endif

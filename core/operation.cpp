// SPDX-License-Identifier: Apache-2.0
// Launches, and what becomes of a backend's answers.
#include "operation.h"

#include <cmath>
#include <cstdio>

#include "log.h"

namespace attile::core {

int32_t make_launch(const Call &call, void *stream, void *workspace, int64_t workspace_bytes, uint32_t flags, attile_launch *launch) {
    if (log_level() >= ATTILE_LOG_DEBUG) log(ATTILE_LOG_DEBUG, "%s%s", call.operation, call.query ? " query" : "");
    if (workspace_bytes < 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: workspace_bytes is %lld; expected 0 or more", call.operation,
                    static_cast<long long>(workspace_bytes));
    }
    constexpr uintptr_t kAlignment = 256;
    if (reinterpret_cast<uintptr_t>(workspace) % kAlignment != 0) {
        return fail(ATTILE_ERROR_MISALIGNED, "%s: workspace is %p; expected a multiple of 256 bytes", call.operation, workspace);
    }
    *launch = {};
    launch->stream = stream;
    launch->flags = flags;
    // A query must not depend on a workspace whose size it is about to tell; and bytes of no workspace are none.
    if (!call.query && workspace != nullptr) {
        launch->workspace = workspace;
        launch->workspace_bytes = workspace_bytes;
    }
    return ATTILE_OK;
}

int32_t check_workspace_apart(const Call &call, const attile_launch &launch, const View *const *views, int32_t count) {
    if (launch.workspace == nullptr || launch.workspace_bytes == 0) return ATTILE_OK;
    const uintptr_t low = reinterpret_cast<uintptr_t>(launch.workspace);
    uintptr_t high = 0;
    if (__builtin_add_overflow(low, static_cast<uintptr_t>(launch.workspace_bytes), &high)) {
        return fail(ATTILE_ERROR_OVERFLOW, "%s: workspace and workspace_bytes reach beyond the end of the address space", call.operation);
    }
    for (int32_t i = 0; i < count; ++i) {
        const View &view = *views[i];
        if (!view.located || view.high <= low || high <= view.low) continue;
        return fail(ATTILE_ERROR_ALIASING, "%s: the workspace at %p shares memory with %s at %p", call.operation, launch.workspace,
                    NameText({call.operation, call.query, view.prefix}, view.name).text, view.tensor->data);
    }
    return ATTILE_OK;
}

int32_t check_answer(const Call &call, const Context *context, int32_t status) {
    const char *words = backend_words();
    if (!is_status_code(status)) {
        return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: the backend '%s' returned %d, which is not a status code%s%s", call.operation,
                    context->backend_name, status, words[0] != '\0' ? "; it says: " : "", words);
    }
    if (words[0] != '\0') {
        set_error_text(words);
        return status;
    }
    return fail(status, "%s: the backend '%s' answered %s and gave no reason", call.operation, context->backend_name,
                attile_status_name(status));
}

void note_changed_mode(const Call &call, const Context *context) {
    log(ATTILE_LOG_WARN, "%s: the backend '%s' changed the floating-point mode; that was put back", call.operation, context->backend_name);
}

int32_t check_support(const Call &call, const Context *context, attile_support *support) {
    support->kernel[sizeof support->kernel - 1] = '\0';
    support->text[sizeof support->text - 1] = '\0';
    make_printable(support->kernel);
    make_printable(support->text);
    const bool none = support->level == ATTILE_SUPPORT_NONE;
    const bool known = none || support->level == ATTILE_SUPPORT_EMULATED || support->level == ATTILE_SUPPORT_NATIVE;
    const bool status_fits = none ? support->status / 1000 == 2 && is_status_code(support->status) : support->status == ATTILE_OK;
    if (!known || !status_fits || support->workspace_bytes < 0) {
        return fail(ATTILE_ERROR_BACKEND_CONTRACT,
                    "%s: the backend '%s' answered a query with level %d, status %d and %lld workspace bytes", call.operation,
                    context->backend_name, support->level, support->status, static_cast<long long>(support->workspace_bytes));
    }
    const int64_t counts[] = {support->tile_m,       support->tile_n,          support->tile_k, support->threads, support->registers,
                              support->shared_bytes, support->blocks_per_unit, support->splits, support->blocks};
    bool possible = std::isfinite(support->flops) && support->flops >= 0 && std::isfinite(support->bytes) && support->bytes >= 0 &&
                    std::isfinite(support->predicted_share) && support->predicted_share >= 0;
    for (const int64_t count : counts) possible = possible && count >= 0;
    if (!possible) {
        return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: the backend '%s' answered a query with a number that is negative or not finite",
                    call.operation, context->backend_name);
    }
    if (none && support->text[0] == '\0') {
        std::snprintf(support->text, sizeof support->text, "the backend '%s' gave no reason", context->backend_name);
    }
    return ATTILE_OK;
}

int32_t fail_unsupported_operation(const Call &call, const Context *context) {
    return fail(ATTILE_ERROR_UNSUPPORTED_OPERATION, "%s: the backend '%s' does not have this operation", call.operation,
                context->backend_name);
}

int32_t fail_exact_unknown(const Call &call, const Context *context) {
    return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, "%s: the backend '%s' is too old to know EXACT_PRODUCTS", call.operation,
                context->backend_name);
}

int32_t fail_workspace(const Call &call, const attile_launch &launch, int64_t needed) {
    if (launch.workspace == nullptr) {
        return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "%s: ATTILE_FLAG_NO_ALLOC is set and workspace is NULL; expected %lld bytes",
                    call.operation, static_cast<long long>(needed));
    }
    return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "%s: workspace_bytes is %lld; expected at least %lld", call.operation,
                static_cast<long long>(launch.workspace_bytes), static_cast<long long>(needed));
}

void describe_unsupported(int32_t status, const char *text, attile_support *support) {
    *support = {};
    support->struct_size = sizeof *support;
    support->level = ATTILE_SUPPORT_NONE;
    support->status = status;
    std::snprintf(support->text, sizeof support->text, "%s", text);
}

void describe_nothing_to_do(attile_support *support) {
    *support = {};
    support->struct_size = sizeof *support;
    support->level = ATTILE_SUPPORT_NATIVE;
    std::snprintf(support->text, sizeof support->text, "no output has an element: nothing to do");
}

}  // namespace attile::core

// SPDX-License-Identifier: Apache-2.0
// Contexts: choosing a backend and opening its device; closing it.
#include "context.h"

#include <attile/attile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "args_head.h"
#include "backend_call.h"
#include "build_config.h"
#include "environment.h"
#include "fork.h"
#include "guard.h"
#include "log.h"
#include "message.h"
#include "operation.h"
#include "process.h"
#include "registry.h"
#include "report.h"
#include "selection.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr uint32_t kOptionsFirstSize = ATTILE_SIZE_UP_TO(attile_context_options, pool_bytes);
constexpr uint32_t kInfoFirstSize = ATTILE_SIZE_UP_TO(attile_context_info, peak_bandwidth);
constexpr const char *kSelectionVariable = "ATTILE_BACKEND";
constexpr const char *kGemmVariable = "ATTILE_GEMM";

std::string label_of(const Choice &choice) { return choice.device == 0 ? choice.name : choice.name + ":" + std::to_string(choice.device); }

// Asks the backend whether it can run on the device, then opens that. `state` is the backend's.
int32_t open_device(const Backend &backend, int32_t device, const attile_context_options &options, void **state, std::string *why) {
    attile_backend_probe found{};
    found.struct_size = sizeof found;
    int32_t status = call_backend(why, [&] { return backend.root.probe(device, &found); });
    if (status != ATTILE_OK) {
        // Whatever kept it from running, the caller's question is answered by one code; a breach of the contract keeps its own.
        return status == ATTILE_ERROR_BACKEND_CONTRACT ? status : ATTILE_ERROR_BACKEND_REFUSED;
    }
    if (device >= found.device_count) {
        *why = "device " + std::to_string(device) + " is asked for, there are " + std::to_string(found.device_count);
        return ATTILE_ERROR_BACKEND_REFUSED;
    }
    attile_backend_options wanted{};
    wanted.struct_size = sizeof wanted;
    wanted.device = device;
    wanted.threads = options.threads;
    wanted.pool_bytes = options.pool_bytes;
    why->clear();
    return call_backend(why, [&] { return backend.root.context_create(&wanted, state); });
}

int32_t open_choice(const Choice &choice, const attile_context_options &options, Context **context, std::string *why) {
    const std::string label = label_of(choice);
    report_forget(label);
    const Backend *backend = nullptr;
    int32_t status = find_backend(choice.name, label, &backend, why);  // reports what it refuses
    if (status != ATTILE_OK) return status;

    // Before the device is opened, for nothing that can fail may come after.
    std::unique_ptr<Context, void (*)(Context *)> made(take_context(), give_context);
    if (made == nullptr) {
        *why = "65536 contexts are open";
        return ATTILE_ERROR_OUT_OF_HOST_MEMORY;
    }
    void *state = nullptr;
    {
        Surroundings surroundings;
        status = open_device(*backend, choice.device, options, &state, why);
        surroundings.put_back(backend->name);
    }
    if (status != ATTILE_OK) {
        report_candidate(label, backend->where, status, *why);
        return status;
    }
    made->state = state;
    made->interfaces = backend->interfaces;
    std::memcpy(made->backend_name, backend->name.c_str(), backend->name.size() + 1);
    made->backend = backend;
    made->device = choice.device;
    made->process = process_generation();
    *context = made.release();
    return ATTILE_OK;
}

// The chosen one is noted by a call that may run out of memory, which must not cost the caller the context.
void note_choice(const Choice &choice, const Context &context) {
    try {
        report_candidate(label_of(choice), context.backend->where, ATTILE_OK, "version " + context.backend->version);
    }
    ATTILE_LET_THREADS_END
    catch (...) {
    }
    log(ATTILE_LOG_INFO, "backend '%s' %s chosen, device %d (%s)", context.backend_name, context.backend->version.c_str(), choice.device,
        context.backend->where.c_str());
}

int32_t read_options(const attile_context_options *given, attile_context_options *options) {
    *options = {};
    if (given == nullptr) return ATTILE_OK;
    const int32_t status = read_args("context_create", "options", kOptionsFirstSize, 0, given, options);
    if (status != ATTILE_OK) return status;
    if (options->threads < 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "context_create: options->threads is %d, expected 0 or more", options->threads);
    }
    if (options->reserved != 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "context_create: options->reserved is %d, expected 0", options->reserved);
    }
    if (options->pool_bytes < 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "context_create: options->pool_bytes is %lld, expected 0 or more",
                    static_cast<long long>(options->pool_bytes));
    }
    return ATTILE_OK;
}

int32_t read_selection(const attile_context_options &options, std::vector<Choice> *choices) {
    if (environment_ignored(kSelectionVariable)) report_remark(std::string(kSelectionVariable) + " is ignored: the process is privileged");
    const char *source = "options->backend";
    const char *text = options.backend;
    if (text == nullptr) {
        source = kSelectionVariable;
        text = environment(kSelectionVariable);
        if (text == nullptr || text[0] == '\0') text = "auto";
    }
    std::string error;
    if (!parse_selection(text, auto_order, choices, &error)) {
        return fail(ATTILE_ERROR_BACKEND_SELECTION, "context_create: %s: %s", source, error.c_str());
    }
    return ATTILE_OK;
}

// What calls by the BLAS names ask for: these have no flags of their own.
int32_t read_blas_flags(uint32_t *flags) {
    const char *text = environment(kGemmVariable);
    *flags = 0;
    if (text == nullptr || text[0] == '\0') return ATTILE_OK;
    if (std::strcmp(text, "exact") != 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "context_create: %s is '%s', expected 'exact', or no such variable", kGemmVariable, text);
    }
    *flags = ATTILE_FLAG_EXACT_PRODUCTS;
    return ATTILE_OK;
}

int32_t create(const attile_context_options *given, attile_context **context) {
    if (context == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "context_create: context is NULL");
    *context = nullptr;
    attile_context_options options;
    std::vector<Choice> choices;
    int32_t status = read_options(given, &options);
    uint32_t blas_flags = 0;
    if (status == ATTILE_OK) status = read_blas_flags(&blas_flags);
    if (status == ATTILE_OK) status = read_selection(options, &choices);
    if (status != ATTILE_OK) return status;
    if (!fork_is_safe()) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "context_create: out of host memory");
    std::string reasons;
    for (const Choice &choice : choices) {
        std::string why;
        Context *made = nullptr;
        status = open_choice(choice, options, &made, &why);
        if (status == ATTILE_OK) {
            made->blas_flags = blas_flags;
            *context = publish_context(made);  // nothing that follows can lose it
            note_choice(choice, *made);
            return status;
        }
        const std::string label = label_of(choice);
        log(choice.automatic ? ATTILE_LOG_INFO : ATTILE_LOG_WARN, "backend '%s' not used: %s", label.c_str(), why.c_str());
        if (!reasons.empty()) reasons += "; ";
        reasons.append(label).append(": ").append(why);
    }
    log(ATTILE_LOG_ERROR, "no backend can be used: %s", reasons.c_str());
    return fail(status, "context_create: no backend can be used: %s", reasons.c_str());
}

// One step of closing a context. Its errors are of no more interest to anybody, want of memory to word them included: the next step
// follows.
template <typename Step>
void close_step(Step &&step) {
    try {
        std::string ignored;
        (void)call_backend(&ignored, step);
    }
    ATTILE_LET_THREADS_END
    catch (...) {
    }
}

// Waits for what was queued, then gives back what the program left behind.
void release_owned(Context *context) {
    const Interfaces &call = context->interfaces;
    void *state = context->state;
    const auto synchronize = [&](void *stream) {
        if (call.device->synchronize != nullptr) close_step([&] { return call.device->synchronize(state, stream); });
    };
    if (!context->allocations.empty()) synchronize(nullptr);
    for (void *stream : context->streams) {
        synchronize(stream);
        close_step([&] { return call.device->stream_destroy(state, stream); });
    }
    for (const auto &[pointer, kind] : context->allocations) {
        close_step([&, pointer = pointer, kind = kind] { return call.memory->free(state, kind, pointer); });
    }
    close_step([&] {
        context->backend->root.context_destroy(state);
        return ATTILE_OK;
    });
}

// Whether what a backend told of itself can be: what is unknown is 0.
bool possible_numbers(const attile_context_info &info) {
    const int64_t counts[] = {info.device_type,  info.device_index,         info.compute_units,       info.threads,
                              info.lane_width,   info.max_threads_per_unit, info.max_blocks_per_unit, info.registers_per_unit,
                              info.memory_total, info.memory_free,          info.shared_per_block,    info.shared_per_unit,
                              info.l2_bytes};
    const double rates[] = {info.clock_hz, info.peak_flops_f32, info.peak_flops_f64, info.peak_flops_f16, info.peak_bandwidth};
    return std::all_of(std::begin(counts), std::end(counts), [](int64_t count) { return count >= 0; }) &&
           std::all_of(std::begin(rates), std::end(rates), [](double rate) { return std::isfinite(rate) && rate >= 0; });
}

}  // namespace
}  // namespace attile::core

extern "C" {

int32_t attile_context_create(const attile_context_options *options, attile_context **context) {
    return attile::core::guarded([&] { return attile::core::create(options, context); });
}

void attile_context_destroy(attile_context *handle) {
    using namespace attile::core;
    (void)guarded([&]() -> int32_t {
        Context *context = withdraw_context(handle);
        // In a forked child the device, the threads and perhaps the locks of this context are gone: it is left alone.
        if (context == nullptr || context->process != process_generation()) return ATTILE_OK;
        release_owned(context);
        context->allocations.clear();
        context->streams.clear();
        context->state = nullptr;
        give_context(context);
        return ATTILE_OK;
    });
}

int32_t attile_context_get_info(attile_context *handle, attile_context_info *info) {
    using namespace attile::core;
    return guarded([&]() -> int32_t {
        Context *context = nullptr;
        int32_t status = find_context(handle, &context);
        if (status == ATTILE_OK) status = check_output("context_get_info", "info", kInfoFirstSize, info);
        if (status != ATTILE_OK) return status;
        attile_context_info full{};
        full.struct_size = sizeof full;
        const auto fill = context->interfaces.device->info;
        if (fill != nullptr) {
            std::string why;
            status = call_backend(&why, [&] { return fill(context->state, &full); });
            if (status != ATTILE_OK) return fail(status, "context_get_info: backend '%s': %s", context->backend_name, why.c_str());
        }
        // The core knows these for certain. The other texts are the backend's and are made sure to end.
        std::memset(full.backend, 0, sizeof full.backend);
        std::memset(full.backend_version, 0, sizeof full.backend_version);
        std::memcpy(full.backend, context->backend->name.c_str(), context->backend->name.size());
        std::memcpy(full.backend_version, context->backend->version.c_str(), context->backend->version.size());
        full.device_name[sizeof full.device_name - 1] = '\0';
        full.arch[sizeof full.arch - 1] = '\0';
        make_printable(full.device_name);
        make_printable(full.arch);
        if (!possible_numbers(full)) {
            return fail(ATTILE_ERROR_BACKEND_CONTRACT, "context_get_info: backend '%s' gave a number that is negative or not finite",
                        context->backend_name);
        }
        write_output(full, info);
        return ATTILE_OK;
    });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// The tables by which ggml knows a backend: one device, of the kind that works on ggml's own host memory beside its CPU backend.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "operations.h"

namespace attile::ggml {
namespace {

constexpr char kName[] = "Attile";

// Why something of Attile failed, through ggml's logger.
void log_failure(const char *what) {
    char sentence[1024];
    (void)attile_last_error(sentence, sizeof sentence);
    GGML_LOG_ERROR("%s: %s: %s\n", kName, what, sentence);
}

// The variable ATTILE_BACKEND, and where it is unset the cpu backend: the tensors are in host memory, and a GPU would have to copy the
// weights for every product.
const char *backend_choice() {
    const char *chosen = std::getenv("ATTILE_BACKEND");
    return chosen != nullptr && chosen[0] != '\0' ? nullptr : "cpu";
}

// NULL, and a line of log, if there is none. threads: 0 for Attile's default.
attile_context *open_context(int threads) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend_choice();
    options.threads = threads;
    attile_context *context = nullptr;
    if (attile_context_create(&options, &context) != ATTILE_OK) log_failure("no backend");
    return context;
}

// What the process has of it. Its context answers queries and serves backends that were not told a number of threads; it is never closed,
// as ggml's devices are not.
struct Device {
    attile_context *context = open_context(0);
    bool on_cpu = true;
    char description[128] = "";

    Device() {
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        if (context == nullptr || attile_context_get_info(context, &info) != ATTILE_OK) return;
        on_cpu = info.device_type == ATTILE_DEVICE_CPU;
        (void)std::snprintf(description, sizeof description, "attention and GEMM by Attile's %s, %s", info.backend, info.arch);
    }
};

const Device &device() {
    static const Device only;
    return only;
}

// A context for a number of threads.
struct Team {
    int threads = 0;
    attile_context *context = nullptr;
};

// A backend of ggml, which one thread uses at a time.
struct Worker {
    attile_context *context = device().context;
    Team teams[2];  // llama.cpp has two numbers of threads, one for prompts and one for single tokens.
    int oldest = 0;
    Copies copies;

    ~Worker() {
        for (const Team &team : teams) attile_context_destroy(team.context);
    }
};

Worker *worker_of(ggml_backend_t backend) { return static_cast<Worker *>(backend->context); }

void set_threads(ggml_backend_t backend, int threads) {
    Worker *worker = worker_of(backend);
    if (!device().on_cpu || threads < 1) return;
    for (const Team &team : worker->teams) {
        if (team.threads == threads) {
            worker->context = team.context;
            return;
        }
    }
    attile_context *made = open_context(threads);
    if (made == nullptr) return;  // It goes on with the threads that it has.
    Team &team = worker->teams[worker->oldest];
    worker->oldest = 1 - worker->oldest;
    attile_context_destroy(team.context);
    team = {threads, made};
    worker->context = made;
}

const char *backend_name(ggml_backend_t) { return kName; }

void backend_free(ggml_backend_t backend) {
    delete worker_of(backend);
    delete backend;
}

ggml_status failed(const ggml_tensor &node, int32_t status) {
    char what[160];
    (void)std::snprintf(what, sizeof what, "%s '%s'", ggml_op_desc(&node), node.name);
    if (status / 1000 == 2) {
        GGML_LOG_ERROR("%s: %s: supports_op refuses it, and it was given all the same\n", kName, what);
    } else if (status == ATTILE_ERROR_OUT_OF_HOST_MEMORY) {  // Of a copy, or of Attile.
        GGML_LOG_ERROR("%s: %s: no host memory\n", kName, what);
    } else {
        log_failure(what);
    }
    return status / 1000 == 4 ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_FAILED;
}

ggml_status compute(ggml_backend_t backend, ggml_cgraph *graph) {
    Worker *worker = worker_of(backend);
    const Target target = {worker->context, &worker->copies};
    for (int i = 0; i < graph->n_nodes; ++i) {
        const ggml_tensor &node = *graph->nodes[i];
        if ((node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0 || is_view(node) || ggml_is_empty(&node)) continue;
        const int32_t status = serve(node, target);
        if (status != ATTILE_OK) return failed(node, status);
    }
    // Calls of a GPU on pinned or managed memory may still be under way.
    if (!device().on_cpu && attile_synchronize(worker->context, nullptr) != ATTILE_OK) {
        log_failure("graph");
        return GGML_STATUS_FAILED;
    }
    return GGML_STATUS_SUCCESS;
}

ggml_guid_t guid() {
    static ggml_guid bytes = {0x3b, 0x7e, 0x51, 0xc8, 0x09, 0xd4, 0x4f, 0x16, 0xa2, 0x6d, 0xe5, 0x90, 0x1c, 0x83, 0x47, 0xfa};
    return &bytes;
}

const char *device_name(ggml_backend_dev_t) { return kName; }
const char *device_description(ggml_backend_dev_t) { return device().description; }

void device_memory(ggml_backend_dev_t, size_t *free, size_t *total) { *free = *total = 0; }  // It has none of its own.

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }

void device_properties(ggml_backend_dev_t dev, ggml_backend_dev_props *properties) {
    *properties = {};
    properties->name = kName;
    properties->description = device_description(dev);
    properties->type = device_type(dev);
    properties->caps.buffer_from_host_ptr = true;
}

ggml_backend_t device_backend(ggml_backend_dev_t dev, const char *) {
    auto *worker = new (std::nothrow) Worker;
    auto *backend = new (std::nothrow) ggml_backend{};
    if (worker == nullptr || backend == nullptr) {
        GGML_LOG_ERROR("%s: no memory for a backend\n", kName);
        delete worker;
        delete backend;
        return nullptr;
    }
    backend->guid = guid();
    backend->iface.get_name = backend_name;
    backend->iface.free = backend_free;
    backend->iface.graph_compute = compute;
    backend->device = dev;
    backend->context = worker;
    return backend;
}

const char *buffer_name(ggml_backend_buffer_type_t) { return kName; }

// The CPU backend's host memory under another name. llama.cpp puts a weight into the memory of the first device that can multiply it, but
// skips a device whose memory is the CPU backend's. That backend then packs some weights so that only it can read them.
ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t dev) {
    static ggml_backend_buffer_type only = [dev] {
        ggml_backend_buffer_type made = *ggml_backend_cpu_buffer_type();
        made.iface.get_name = buffer_name;
        made.device = dev;
        return made;
    }();
    return &only;
}

ggml_backend_buffer_t device_buffer_from_host(ggml_backend_dev_t dev, void *data, size_t size, size_t) {
    ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(data, size);
    if (buffer != nullptr) buffer->buft = device_buffer_type(dev);
    return buffer;
}

// Why a node that Attile has is refused; NULL if the library has said why.
const char *reason_of(int32_t status) {
    switch (status) {
        case ATTILE_ERROR_UNSUPPORTED_DTYPE:
            return "these types are not served";
        case ATTILE_ERROR_UNSUPPORTED_SHAPE:
            return "these extents or strides are not served";
        case ATTILE_ERROR_UNSUPPORTED_FEATURE:
            return "an option is not served";
        default:
            return nullptr;
    }
}

// A line of log for the first node of an operation that is refused by a status: ggml asks often, and says nothing itself when another
// backend takes a node.
void say_refused(const ggml_tensor &node, int32_t status) {
    static std::atomic<unsigned> said{0};  // a bit for an operation and a reason: three statuses, which differ modulo 4, or the library's
    constexpr unsigned kReasons = 4;
    const unsigned operation = node.op == GGML_OP_MUL_MAT ? 0 : node.op == GGML_OP_FLASH_ATTN_EXT ? 1 : 2;
    const unsigned bit = 1U << (operation * kReasons + (reason_of(status) != nullptr ? static_cast<unsigned>(status) % kReasons : 1));
    if ((said.fetch_or(bit) & bit) != 0) return;
    char sentence[1024] = "", types[128] = "";
    (void)attile_last_error(sentence, sizeof sentence);
    for (const ggml_tensor *source : node.src) {
        const size_t used = std::strlen(types);
        if (source != nullptr)
            (void)std::snprintf(types + used, sizeof types - used, "%s%s", used > 0 ? ", " : "", ggml_type_name(source->type));
    }
    GGML_LOG_WARN("%s: %s '%s' of %s is left to another backend: %s; this is said once\n", kName, ggml_op_desc(&node), node.name, types,
                  reason_of(status) != nullptr ? reason_of(status) : sentence);
}

bool device_supports_op(ggml_backend_dev_t, const ggml_tensor *node) {
    if (is_view(*node)) return true;
    const int32_t status = serve(*node, {device().context, nullptr});
    if (status != ATTILE_OK && status != ATTILE_ERROR_UNSUPPORTED_OPERATION && !ggml_is_empty(node)) say_refused(*node, status);
    return status == ATTILE_OK;
}

bool device_supports_buffers(ggml_backend_dev_t, ggml_backend_buffer_type_t type) { return ggml_backend_buft_is_host(type); }

const char *registry_name(ggml_backend_reg_t) { return kName; }

// None where Attile has no backend: ggml goes on with its own.
size_t registry_device_count(ggml_backend_reg_t) { return device().context != nullptr ? 1 : 0; }

ggml_backend_dev_t registry_device(ggml_backend_reg_t registry, size_t) {
    static ggml_backend_device only = [registry] {
        ggml_backend_device made{};
        made.iface.get_name = device_name;
        made.iface.get_description = device_description;
        made.iface.get_memory = device_memory;
        made.iface.get_type = device_type;
        made.iface.get_props = device_properties;
        made.iface.init_backend = device_backend;
        made.iface.get_buffer_type = device_buffer_type;
        made.iface.buffer_from_host_ptr = device_buffer_from_host;
        made.iface.supports_op = device_supports_op;
        made.iface.supports_buft = device_supports_buffers;
        made.reg = registry;
        return made;
    }();
    return &only;
}

void *registry_function(ggml_backend_reg_t, const char *name) {
    return std::strcmp(name, "ggml_backend_set_n_threads") == 0 ? reinterpret_cast<void *>(set_threads) : nullptr;
}

// ggml's structures and the numbers of its operations may change from one minor version to the next, so this library fits the one whose
// headers it was compiled with.
bool fits_ggml() {
    constexpr char fitting[] = ATTILE_GGML_SERIES ".";
    const char *found = ggml_version();
    if (std::strncmp(found, fitting, sizeof fitting - 1) == 0) return true;
    GGML_LOG_ERROR("%s: ggml is version %s, expected " ATTILE_GGML_SERIES ".x, which this library was built for\n", kName, found);
    return false;
}

ggml_backend_reg_t registry() {
    static ggml_backend_reg only = {
        GGML_BACKEND_API_VERSION, {registry_name, registry_device_count, registry_device, registry_function}, nullptr};
    return fits_ggml() ? &only : nullptr;
}

}  // namespace
}  // namespace attile::ggml

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) { return attile::ggml::registry(); }

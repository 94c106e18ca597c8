// SPDX-License-Identifier: Apache-2.0
// A backend for tests, with one fault or none, chosen by macros: see CMakeLists.txt. Memory is malloc's; it computes nothing.
#include <attile/attile_backend.h>

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cfenv>
#include <chrono>
#include <clocale>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "portable.h"

#ifndef FAKE_NAME
#error "FAKE_NAME names the backend"
#endif
#ifndef FAKE_VERSION
#define FAKE_VERSION "1.2.3"
#endif
#ifndef FAKE_ABI_MAJOR
#define FAKE_ABI_MAJOR ATTILE_BACKEND_ABI_MAJOR
#endif
#ifndef FAKE_ABI_MINOR
#define FAKE_ABI_MINOR ATTILE_BACKEND_ABI_MINOR
#endif
#ifndef FAKE_HOST_MINOR_MIN
#define FAKE_HOST_MINOR_MIN 0
#endif
#ifndef FAKE_ROOT_SIZE
#define FAKE_ROOT_SIZE sizeof(attile_backend_v1)
#endif
#ifndef FAKE_MEMORY_SIZE
#define FAKE_MEMORY_SIZE sizeof(attile_memory_interface)
#endif
#ifndef FAKE_TABLE_VERSION
#define FAKE_TABLE_VERSION 1
#endif
#ifndef FAKE_DEVICES
#define FAKE_DEVICES 2
#endif
#ifndef FAKE_ENTRY
#define FAKE_ENTRY attile_backend_entry_v1
#endif
// What one function returns instead of doing its work, without a word.
#ifndef FAKE_PROBE_STATUS
#define FAKE_PROBE_STATUS ATTILE_OK
#endif
#ifndef FAKE_CREATE_STATUS
#define FAKE_CREATE_STATUS ATTILE_OK
#endif
#ifndef FAKE_COPY_STATUS
#define FAKE_COPY_STATUS ATTILE_OK
#endif
#ifndef FAKE_RUN_STATUS
#define FAKE_RUN_STATUS ATTILE_OK
#endif
#ifndef FAKE_QUERY_STATUS
#define FAKE_QUERY_STATUS ATTILE_OK
#endif
#ifndef FAKE_MEMORY_KIND
#define FAKE_MEMORY_KIND ATTILE_MEMORY_DEVICE
#endif
// Byte by which a pointer from alloc is off.
#ifndef FAKE_MISALIGNMENT
#define FAKE_MISALIGNMENT 0
#endif
// Where it throws: entry, probe, query_interface, context_create, context_destroy, calls (everything on a context).
#ifdef FAKE_THROWS
#define FAKE_STRING_(x) #x
#define FAKE_STRING(x) FAKE_STRING_(x)
#define MAYBE_THROW(place) \
    if (std::strcmp(place, FAKE_STRING(FAKE_THROWS)) == 0) throw std::runtime_error("from a fake backend")
#else
#define MAYBE_THROW(place) static_cast<void>(0)
#endif

// Fails where the test that loads it says so, see fault_injection.h.
#ifdef FAKE_FAULTS
extern "C" __attribute__((weak)) int attile_fault_hit(uint32_t kind);
#define MAYBE_FAIL() \
    if (attile_fault_hit != nullptr && attile_fault_hit(16) != 0) return complain(ATTILE_ERROR_DEVICE_RUNTIME, "an injected fault")
#else
#define MAYBE_FAIL() static_cast<void>(0)
#endif

#ifdef FAKE_UNRESOLVED
extern "C" int attile_test_symbol_that_nobody_defines(void);
#endif
#ifdef FAKE_DEPENDENCY
extern "C" int attile_test_dependency(void);
#endif

// Some faults consist in leaving functions out of the tables.
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-const-variable"

namespace {

const attile_host_v1 *host = nullptr;

#ifdef FAKE_CONSTRUCTOR
#ifndef _WIN32
inline void fork_once() {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
}
#endif

inline void change_mode() {
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040U);  // denormals are flushed
#endif
}

inline void change_locale() {
    if (std::setlocale(LC_ALL, "C.UTF-8") == nullptr) std::setlocale(LC_ALL, "POSIX");
}

__attribute__((constructor)) void when_loaded() { FAKE_CONSTRUCTOR; }
#endif

struct State {
    std::atomic<int> allocations{0};
    std::atomic<int> streams{0};
};

int32_t complain(int32_t status, const char *text) {
#if defined(FAKE_NULL_SENTENCE)
    static_cast<void>(text);
    host->set_error(nullptr);
#elif !defined(FAKE_SILENT)
    host->set_error(text);
#else
    static_cast<void>(text);
#endif
    return status;
}

int32_t info(void *, attile_context_info *out) {
    MAYBE_FAIL();
    MAYBE_THROW("calls");
    std::snprintf(out->device_name, sizeof out->device_name, "fake device");
    // Without an end, to see that the core puts one.
    std::memset(out->arch, 'x', sizeof out->arch);
    std::memset(out->backend, 'x', sizeof out->backend);
    return ATTILE_OK;
}

int32_t stream_create(void *state, void **stream) {
    MAYBE_FAIL();
    MAYBE_THROW("calls");
    *stream = std::malloc(1);
    ++static_cast<State *>(state)->streams;
    return *stream != nullptr ? ATTILE_OK : complain(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no stream");
}

int32_t stream_destroy(void *state, void *stream) {
    std::free(stream);
    --static_cast<State *>(state)->streams;
    MAYBE_FAIL();
    MAYBE_THROW("calls");
    return ATTILE_OK;
}

int32_t synchronize(void *, void *) {
    MAYBE_FAIL();
    MAYBE_THROW("calls");
    return ATTILE_OK;
}

int32_t alloc(void *state, int32_t, int64_t bytes, void **pointer) {
    MAYBE_FAIL();
    MAYBE_THROW("calls");
    constexpr size_t kAlign = 256;
    void *made = attile::test::aligned_block(kAlign, static_cast<size_t>(bytes) + FAKE_MISALIGNMENT);
    if (made == nullptr) return complain(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, "the fake device is full");
    ++static_cast<State *>(state)->allocations;
    *pointer = static_cast<char *>(made) + FAKE_MISALIGNMENT;
    return ATTILE_OK;
}

int32_t release(void *state, int32_t, void *pointer) {
    attile::test::free_aligned_block(static_cast<char *>(pointer) - FAKE_MISALIGNMENT);
    --static_cast<State *>(state)->allocations;
    MAYBE_FAIL();
    return ATTILE_OK;
}

int32_t copy(void *, void *destination, const void *source, int64_t bytes, void *) {
    MAYBE_FAIL();
    MAYBE_THROW("calls");
    if (FAKE_COPY_STATUS != ATTILE_OK) return complain(FAKE_COPY_STATUS, "the fake copy fails");
    std::memcpy(destination, source, static_cast<size_t>(bytes));
    return ATTILE_OK;
}

int32_t prefetch(void *, const void *, int64_t, int32_t, void *) {
    MAYBE_FAIL();
    return ATTILE_OK;
}

int32_t memory_kind(void *, const void *, int32_t *kind) {
    MAYBE_FAIL();
    *kind = FAKE_MEMORY_KIND;
    return ATTILE_OK;
}

#ifdef FAKE_NULL_ENTRIES
const attile_device_interface device_table = {sizeof device_table, FAKE_TABLE_VERSION, nullptr, nullptr, nullptr, nullptr};
const attile_memory_interface memory_table = {FAKE_MEMORY_SIZE, FAKE_TABLE_VERSION, nullptr, nullptr, nullptr, nullptr, nullptr};
const attile_gemm_interface gemm_table = {sizeof gemm_table, 1, nullptr, nullptr};
#else
const attile_device_interface device_table = {sizeof device_table, FAKE_TABLE_VERSION, info, stream_create, stream_destroy, synchronize};

// With room for entries that this version of the contract does not know.
struct GrownMemoryTable {
    attile_memory_interface known;
    void *later[4];
};
const GrownMemoryTable memory_table = {{FAKE_MEMORY_SIZE, FAKE_TABLE_VERSION, alloc, release, copy, prefetch, memory_kind},
                                       {&host, &host, &host, &host}};

int32_t gemm_query(void *, const attile_gemm_problem *, attile_support *support) {
    MAYBE_FAIL();
    MAYBE_THROW("calls");
    support->level = FAKE_QUERY_STATUS == ATTILE_OK ? ATTILE_SUPPORT_NATIVE : ATTILE_SUPPORT_NONE;
    support->status = FAKE_QUERY_STATUS;
    return ATTILE_OK;
}
int32_t gemm_run(void *, const attile_gemm_problem *) {
    MAYBE_FAIL();
    MAYBE_THROW("calls");
#ifdef FAKE_TALKS
    host->set_error("said beside a success");
#endif
#ifdef FAKE_CALLS_CHANGE_MODE
    change_mode();
#endif
    return FAKE_RUN_STATUS == ATTILE_OK ? ATTILE_OK : complain(FAKE_RUN_STATUS, "the fake run fails");
}
const attile_gemm_interface gemm_table = {sizeof gemm_table, 1, gemm_query, gemm_run};
#endif

int32_t probe(int32_t device, attile_backend_probe *found) {
    MAYBE_FAIL();
    MAYBE_THROW("probe");
    if (FAKE_PROBE_STATUS != ATTILE_OK) return complain(FAKE_PROBE_STATUS, "no driver of the fake kind");
    found->device_count = FAKE_DEVICES;
    std::snprintf(found->device_name, sizeof found->device_name, "fake device %d", device);
    return ATTILE_OK;
}

int32_t context_create(const attile_backend_options *options, void **state) {
    MAYBE_FAIL();
    MAYBE_THROW("context_create");
    if (FAKE_CREATE_STATUS != ATTILE_OK) return complain(FAKE_CREATE_STATUS, "the fake device is busy");
    char text[128];
    std::snprintf(text, sizeof text, "fake create: device %d threads %d pool %lld", options->device, options->threads,
                  static_cast<long long>(options->pool_bytes));
    host->log(ATTILE_LOG_INFO, text);
    *state = new State;
    return ATTILE_OK;
}

void context_destroy(void *state) {
    State *const own = static_cast<State *>(state);
    char text[128];
    std::snprintf(text, sizeof text, "fake destroy: %d allocations, %d streams left", own->allocations.load(), own->streams.load());
    host->log(ATTILE_LOG_INFO, text);
    delete own;
    MAYBE_THROW("context_destroy");
}

const void *query_interface(uint32_t id, uint32_t) {
    MAYBE_THROW("query_interface");
    switch (id) {
        case ATTILE_INTERFACE_DEVICE:
            return &device_table;
#ifndef FAKE_NO_MEMORY_INTERFACE
        case ATTILE_INTERFACE_MEMORY:
            return &memory_table;
#endif
        case ATTILE_INTERFACE_GEMM:
            return &gemm_table;
        default:
            return nullptr;
    }
}

#ifdef FAKE_NULL_PROBE
constexpr auto kProbe = nullptr;
#else
constexpr auto kProbe = probe;
#endif

struct GrownRoot {
    attile_backend_v1 known;
    const void *later[4];
};
const GrownRoot root = {{FAKE_ROOT_SIZE, FAKE_ABI_MAJOR, FAKE_ABI_MINOR, FAKE_HOST_MINOR_MIN, FAKE_NAME, FAKE_VERSION, kProbe,
                         context_create, context_destroy, query_interface},
                        {&host, &host, &host, &host}};

}  // namespace

#ifndef FAKE_NO_ENTRY
extern "C" ATTILE_ENTRY_EXPORT const attile_backend_v1 *FAKE_ENTRY(const attile_host_v1 *given);
extern "C" const attile_backend_v1 *FAKE_ENTRY(const attile_host_v1 *given) {
    host = given;
    MAYBE_THROW("entry");
#ifdef FAKE_UNRESOLVED
    if (attile_test_symbol_that_nobody_defines() != 0) return nullptr;
#endif
#ifdef FAKE_DEPENDENCY
    if (attile_test_dependency() != 0) return nullptr;
#endif
#ifdef FAKE_ENTRY_NULL
    host->set_error("this fake works with no host");
    return nullptr;
#else
    host->log(ATTILE_LOG_DEBUG, "fake entry called");
    return &root.known;
#endif
}
#else
extern "C" __attribute__((visibility("default"))) const void *attile_test_other_symbol(void);
extern "C" const void *attile_test_other_symbol(void) { return &root; }
#endif

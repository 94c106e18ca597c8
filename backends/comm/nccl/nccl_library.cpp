// SPDX-License-Identifier: Apache-2.0
#include "nccl/nccl_library.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace attile::nccl {

const attile_host_v1 *host = nullptr;

namespace {

constexpr int kOldest = 21800;  // the first with a split

struct Known {
    int32_t device_type;
    const char *name, *file;
    Library library;
    bool found;
};
constinit std::mutex lock;  // of `known`
constinit Known known[] = {{ATTILE_DEVICE_CUDA, "NCCL", "libnccl.so.2", {}, false},
                           {ATTILE_DEVICE_ROCM, "RCCL", "librccl.so.1", {}, false}};

void split_version(int version, int parts[3]) {
    const int unit = version < 10000 ? 1000 : 10000;  // 2.8 and older have one digit less
    parts[0] = version / unit;
    parts[1] = version % unit / 100;
    parts[2] = version % 100;
}

template <typename Function>
bool resolve(void *handle, const char *name, Function **function, const char **missing) {
    *function = reinterpret_cast<Function *>(dlsym(handle, name));
    if (*function == nullptr && *missing == nullptr) *missing = name;
    return *function != nullptr;
}

int32_t open_library(Known *one) {
    void *handle = dlopen(one->file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) {
        return refuse(ATTILE_ERROR_BACKEND_REFUSED, "the process has not loaded %s (%s), whose communicator the program passes", one->file,
                      one->name);
    }
    Library &library = one->library;
    library.file = one->file;
    const char *missing = nullptr;
    int (*get_version)(int *) = nullptr;
    if (!resolve(handle, "ncclGetVersion", &get_version, &missing) || get_version(&library.version) != kSuccess) library.version = 0;
    if (missing == nullptr && library.version < kOldest) {
        int parts[3];
        split_version(library.version, parts);
        (void)dlclose(handle);
        return refuse(ATTILE_ERROR_BACKEND_REFUSED, "%s is version %d.%d.%d; expected 2.18.0 or newer", one->file, parts[0], parts[1],
                      parts[2]);
    }
    (void)resolve(handle, "ncclGetErrorString", &library.error_string, &missing);
    (void)resolve(handle, "ncclGetLastError", &library.last_error, &missing);
    (void)resolve(handle, "ncclCommCount", &library.count, &missing);
    (void)resolve(handle, "ncclCommUserRank", &library.user_rank, &missing);
    (void)resolve(handle, "ncclCommCuDevice", &library.device, &missing);
    (void)resolve(handle, "ncclCommGetAsyncError", &library.async_error, &missing);
    (void)resolve(handle, "ncclCommSplit", &library.split, &missing);
    (void)resolve(handle, "ncclCommFinalize", &library.finalize, &missing);
    (void)resolve(handle, "ncclCommDestroy", &library.destroy, &missing);
    (void)resolve(handle, "ncclCommAbort", &library.abort, &missing);
    (void)resolve(handle, "ncclGroupStart", &library.group_start, &missing);
    (void)resolve(handle, "ncclGroupEnd", &library.group_end, &missing);
    (void)resolve(handle, "ncclSend", &library.send, &missing);
    (void)resolve(handle, "ncclRecv", &library.receive, &missing);
    if (missing != nullptr) {
        (void)dlclose(handle);
        return refuse(ATTILE_ERROR_BACKEND_REFUSED, "%s has no function %s", one->file, missing);
    }
    one->found = true;  // the handle keeps it in the process
    return ATTILE_OK;
}

int32_t find(Known *one) {
    const std::lock_guard<std::mutex> hold(lock);
    return one->found ? ATTILE_OK : open_library(one);
}

}  // namespace

int32_t refuse(int32_t status, const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    host->set_error(text);
    return status;
}

int32_t refuse_result(const Library &library, const char *what, int result) {
    const char *words = library.error_string(result), *last = library.last_error(nullptr);
    const bool says_more = last != nullptr && last[0] != '\0';
    return refuse(ATTILE_ERROR_TRANSPORT, "%s failed: %s%s%.300s", what, words != nullptr ? words : "unknown error", says_more ? ": " : "",
                  says_more ? last : "");
}

int32_t find_library(int32_t device_type, const Library **library) {
    for (Known &one : known) {
        if (one.device_type != device_type) continue;
        const int32_t status = find(&one);
        *library = &one.library;
        return status;
    }
    return refuse(ATTILE_ERROR_BACKEND_REFUSED, "the context's device is of type %d; expected CUDA (2, by NCCL) or ROCm (10, by RCCL)",
                  device_type);
}

// The sentence is NCCL's where neither can be used, or RCCL's if that is there.
int32_t find_any_library() {
    if (find(&known[1]) == ATTILE_OK) return ATTILE_OK;
    void *rccl = dlopen(known[1].file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    const int32_t status = find(&known[0]);
    if (rccl == nullptr) return status;
    (void)dlclose(rccl);
    return status == ATTILE_OK ? status : find(&known[1]);
}

}  // namespace attile::nccl

// SPDX-License-Identifier: Apache-2.0
// A thread that was there before the library was loaded, and for which the system has no byte more: each first use is a status or a result,
// never the end of the process. The first argument is the library's path.
#include <attile/attile.h>
#include <dlfcn.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "fault_injection.h"

namespace {

void expect(bool condition, const char *what) {
    if (condition) return;
    std::printf("%s\n", what);
    std::fflush(stdout);
    _exit(1);
}

std::mutex lock;
std::condition_variable changed;
void *library = nullptr;
attile_context *context = nullptr;

template <typename Function>
Function *find(const char *name, Function *) {
    return reinterpret_cast<Function *>(dlsym(library, name));
}

void work() {
    {
        std::unique_lock<std::mutex> guard(lock);
        changed.wait(guard, [] { return library != nullptr; });
    }
    const auto create = find("attile_context_create", attile_context_create);
    const auto destroy = find("attile_context_destroy", attile_context_destroy);
    const auto sgemm = find("attile_sgemm", attile_sgemm);
    const auto last_error = find("attile_last_error", attile_last_error);
    const auto report = find("attile_backend_report", attile_backend_report);
    float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1}, c[4] = {0, 0, 0, 0};
    char text[1024] = {}, lines[1024] = {};
    attile_context *own = nullptr;
    attile_fault_arm(ATTILE_FAULT_MEMORY | ATTILE_FAULT_MAPPING | ATTILE_FAULT_THIS_THREAD, 1, INT64_MAX);
    const int32_t refused = sgemm(nullptr, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    const int64_t words = last_error(text, sizeof text);
    const int32_t created = create(nullptr, &own);
    report(lines, sizeof lines);
    const int32_t done = sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    destroy(own);
    attile_fault_disarm();
    expect(refused == ATTILE_ERROR_INVALID_CONTEXT, "a call on no context");
    expect(words > 1 && text[0] != '\0', "no sentence");
    expect(created != ATTILE_OK && own == nullptr, "a context was made of nothing");
    expect(done == ATTILE_OK ? std::memcmp(a, c, sizeof a) == 0 : done == ATTILE_ERROR_OUT_OF_HOST_MEMORY && c[0] == 0, "the product");
    const int32_t again = sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    expect(again == ATTILE_OK && std::memcmp(a, c, sizeof a) == 0, "the next call");
    expect(create(nullptr, &own) == ATTILE_OK, "the next context");
    destroy(own);
}

}  // namespace

int main(int, char **argv) {
    std::thread bare(work);
    void *loaded = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    expect(loaded != nullptr, "dlopen");
    {
        const std::lock_guard<std::mutex> guard(lock);
        library = loaded;
        expect(find("attile_context_create", attile_context_create)(nullptr, &context) == ATTILE_OK, "context");
    }
    changed.notify_one();
    bare.join();
    find("attile_context_destroy", attile_context_destroy)(context);
    return 0;
}

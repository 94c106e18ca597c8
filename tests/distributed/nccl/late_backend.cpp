// SPDX-License-Identifier: Apache-2.0
// The emulated backend, where numbers of four bytes come late to pinned memory: so a mark behind a device's work is not there yet when a
// rank first looks for it. Everything else is done when it is called, and synchronize() waits for the stream's numbers, too.
#include <attile/attile_backend.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

namespace {

constexpr useconds_t kLate = 300;  // microseconds

const attile_backend_v1 *emulated = nullptr;

const attile_memory_interface &memory() {
    return *static_cast<const attile_memory_interface *>(emulated->query_interface(ATTILE_INTERFACE_MEMORY, 1));
}
const attile_device_interface &device() {
    return *static_cast<const attile_device_interface *>(emulated->query_interface(ATTILE_INTERFACE_DEVICE, 1));
}

struct Number {
    void *state, *stream;
    std::uint32_t *to, value;
};

// Never destroyed, as its thread.
class LateNumbers {
  public:
    static LateNumbers &instance() {
        static LateNumbers &made = *new LateNumbers;
        return made;
    }
    void put(const Number &number) {
        const std::lock_guard<std::mutex> hold(lock_);
        numbers_.push_back(number);
        changed_.notify_all();
    }
    void wait_for(void *state, void *stream) {
        std::unique_lock<std::mutex> hold(lock_);
        changed_.wait(hold, [&] {
            return std::none_of(numbers_.begin(), numbers_.end(),
                                [&](const Number &number) { return number.state == state && number.stream == stream; });
        });
    }

  private:
    LateNumbers() {
        std::thread([this] { work(); }).detach();
    }
    [[noreturn]] void work() {
        for (;;) {
            std::unique_lock<std::mutex> hold(lock_);
            changed_.wait(hold, [&] { return !numbers_.empty(); });
            const Number first = numbers_.front();
            hold.unlock();
            usleep(kLate);
            std::atomic_ref(*first.to).store(first.value, std::memory_order_release);
            hold.lock();
            numbers_.pop_front();
            changed_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<Number> numbers_;
};

std::int32_t copy(void *state, void *to, const void *from, std::int64_t bytes, void *stream) {
    std::int32_t kind = ATTILE_MEMORY_HOST;
    std::int32_t status = memory().memory_kind(state, to, &kind);
    if (status != ATTILE_OK) return status;
    if (kind != ATTILE_MEMORY_PINNED || bytes != sizeof(std::uint32_t)) {
        LateNumbers::instance().wait_for(state, stream);
        return memory().copy(state, to, from, bytes, stream);
    }
    Number number = {state, stream, static_cast<std::uint32_t *>(to), 0};
    std::memcpy(&number.value, from, sizeof number.value);
    LateNumbers::instance().put(number);
    return ATTILE_OK;
}

std::int32_t synchronize(void *state, void *stream) {
    LateNumbers::instance().wait_for(state, stream);
    return device().synchronize(state, stream);
}

const void *query_interface(std::uint32_t id, std::uint32_t version) {
    static attile_memory_interface late_memory;
    static attile_device_interface late_device;
    static std::once_flag once;
    std::call_once(once, [] {
        late_memory = memory();
        late_memory.copy = copy;
        late_device = device();
        late_device.synchronize = synchronize;
    });
    if (id == ATTILE_INTERFACE_MEMORY) return &late_memory;
    if (id == ATTILE_INTERFACE_DEVICE) return &late_device;
    return emulated->query_interface(id, version);
}

}  // namespace

extern "C" ATTILE_ENTRY_EXPORT const attile_backend_v1 *attile_backend_entry_v1(const attile_host_v1 *host);
extern "C" const attile_backend_v1 *attile_backend_entry_v1(const attile_host_v1 *host) {
    static attile_backend_v1 root;
    void *file = dlopen(EMULATED, RTLD_NOW | RTLD_LOCAL);
    const auto entry = file != nullptr ? reinterpret_cast<attile_backend_entry_fn>(dlsym(file, ATTILE_BACKEND_ENTRY)) : nullptr;
    if (entry == nullptr) {
        host->set_error(dlerror());
        return nullptr;
    }
    emulated = entry(host);
    root = *emulated;
    root.name = "late";
    root.query_interface = query_interface;
    return &root;
}

// SPDX-License-Identifier: Apache-2.0
// The handlers. They are registered when the library is loaded, before any lock can be held, and stay valid: the library is never unloaded.
#include "fork.h"

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "process.h"
#include "this_thread.h"

namespace attile::core {

// A constant wherever std::mutex can be one. MinGW's cannot: it is set when the library is loaded, before anybody can call.
Locks locks;

namespace {

// Loading takes milliseconds; a constructor that waits for the very thread that forks would wait for ever.
constexpr std::chrono::milliseconds kMostWait{2000};

// Who holds the registry's lock. Only compared with the own thread, so that a value of a moment ago will do.
constinit std::atomic<uintptr_t> registry_owner{0};
constinit std::atomic<bool> registry_owned{false};
constinit std::atomic<bool> cut_off{false};
constinit std::atomic<bool> registered{false};

// Of the thread that forks, between the handlers. One thread at a time: the C library serialises them no better than `contexts` does.
constinit bool took_registry = false, is_inside_registry = false;

bool owns_registry() {
    return registry_owned.load(std::memory_order_relaxed) && registry_owner.load(std::memory_order_relaxed) == this_thread_number();
}

bool try_registry() {
    const auto latest = std::chrono::steady_clock::now() + kMostWait;
    while (!locks.registry.try_lock()) {
        if (std::chrono::steady_clock::now() >= latest) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

void before_fork() {
    const bool inside = owns_registry();
    const bool took = !inside && try_registry();
    locks.contexts.lock();
    locks.report.lock();
    locks.log.lock();
    is_inside_registry = inside;
    took_registry = took;
}

void release() {
    locks.log.unlock();
    locks.report.unlock();
    locks.contexts.unlock();
}

void in_parent() {
    const bool took = took_registry;
    release();
    if (took) locks.registry.unlock();
}

void in_child() {
    forget_generation();
    const bool took = took_registry, inside = is_inside_registry;
    release();
    if (took) {
        locks.registry.unlock();
    } else if (!inside) {
        new (&locks.registry) std::mutex;
        registry_owned.store(false);
        cut_off.store(true);
    }
}

__attribute__((constructor)) void register_at_load() { (void)fork_is_safe(); }

}  // namespace

RegistryHold::RegistryHold() : held_(!owns_registry()) {
    if (!held_) return;
    locks.registry.lock();
    registry_owner.store(this_thread_number(), std::memory_order_relaxed);
    registry_owned.store(true, std::memory_order_relaxed);
}

RegistryHold::~RegistryHold() {
    if (!held_) return;
    registry_owned.store(false, std::memory_order_relaxed);
    locks.registry.unlock();
}

bool loading_was_cut_off() { return cut_off.load(std::memory_order_relaxed); }

bool fork_is_safe() {
    if (registered.load()) return true;
    bool expected = false;
    if (!registered.compare_exchange_strong(expected, true)) return true;
    if (call_at_fork(before_fork, in_parent, in_child)) return true;
    registered.store(false);
    return false;
}

}  // namespace attile::core

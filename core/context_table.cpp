// SPDX-License-Identifier: Apache-2.0
// Handles of contexts. From the lowest bit: four of zero, so that a handle looks aligned; the place; the generation; a mark that no
// address of a program has.
#include <new>

#include "context.h"
#include "fork.h"
#include "process.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr int kPlaceShift = 4, kPlaceBits = 16, kGenerationShift = kPlaceShift + kPlaceBits, kGenerationBits = 28;
constexpr int kMarkShift = kGenerationShift + kGenerationBits;
constexpr uint64_t kPlaces = uint64_t{1} << kPlaceBits, kGenerations = uint64_t{1} << kGenerationBits, kMark = 0x6174;
static_assert(sizeof(void *) == 8, "handles take 64 bits");

// Pages of it that no context lies in are never touched. Entries are set once; the lock of `locks.contexts` is for what follows.
constinit std::atomic<Context *> table[kPlaces] = {};
constinit uint64_t places_used = 0;
constinit Context *first_free = nullptr, *last_free = nullptr;

uint64_t number_of(const attile_context *handle) { return reinterpret_cast<uint64_t>(handle); }
uint64_t place_of(uint64_t number) { return number >> kPlaceShift & (kPlaces - 1); }
uint64_t generation_of(uint64_t number) { return number >> kGenerationShift & (kGenerations - 1); }

// The context of a live handle, else NULL.
Context *live_context(uint64_t number) {
    Context *context = table[place_of(number)].load(std::memory_order_acquire);
    return context != nullptr && number != 0 && context->handle.load(std::memory_order_acquire) == number ? context : nullptr;
}

// Whether the number was a handle once.
bool was_live(uint64_t number) {
    if (number >> kMarkShift != kMark || (number & ((1U << kPlaceShift) - 1)) != 0) return false;
    const Context *context = table[place_of(number)].load(std::memory_order_acquire);
    const uint64_t generation = generation_of(number);
    return context != nullptr && generation != 0 && generation <= context->generation.load(std::memory_order_acquire);
}

[[gnu::noinline, gnu::cold]] int32_t refuse_handle(attile_context *handle) {
    if (handle == nullptr) return fail(ATTILE_ERROR_INVALID_CONTEXT, "the context is NULL");
    return fail(ATTILE_ERROR_INVALID_CONTEXT,
                was_live(number_of(handle)) ? "the context %p was destroyed" : "the context is no context: %p",
                static_cast<void *>(handle));
}

}  // namespace

int32_t find_context(attile_context *handle, Context **context) {
    *context = live_context(number_of(handle));
    if (*context == nullptr) return refuse_handle(handle);
    if ((*context)->process != process_generation()) {
        return fail(ATTILE_ERROR_AFTER_FORK, "the context belongs to the process this one was forked from; make a new one");
    }
    return ATTILE_OK;
}

Context *take_context() {
    const std::lock_guard<std::mutex> hold(locks.contexts);
    Context *context = first_free;
    if (context != nullptr) {
        first_free = context->next_free;
        if (first_free == nullptr) last_free = nullptr;
        context->next_free = nullptr;
        return context;
    }
    if (places_used == kPlaces) return nullptr;
    context = new Context;
    context->place = places_used;
    table[places_used++].store(context, std::memory_order_release);
    return context;
}

void give_context(Context *context) {
    // A place whose numbers are used up stays empty.
    if (context->generation == kGenerations - 1) return;
    const std::lock_guard<std::mutex> hold(locks.contexts);
    (last_free == nullptr ? first_free : last_free->next_free) = context;
    last_free = context;
}

attile_context *publish_context(Context *context) {
    const uint64_t generation = context->generation.fetch_add(1, std::memory_order_acq_rel) + 1;
    const uint64_t number = kMark << kMarkShift | generation << kGenerationShift | context->place << kPlaceShift;
    context->handle.store(number, std::memory_order_release);
    return reinterpret_cast<attile_context *>(number);
}

Context *withdraw_context(attile_context *handle) {
    uint64_t number = number_of(handle);
    Context *context = live_context(number);
    return context != nullptr && context->handle.compare_exchange_strong(number, 0, std::memory_order_acq_rel) ? context : nullptr;
}

}  // namespace attile::core

// SPDX-License-Identifier: Apache-2.0
// Handles that are numbers: the place of what they stand for in a table, and its generation, which nothing else at that place ever has. So
// a handle that was destroyed stays dead for good, whatever was made since, and nothing is read behind a handle that is none. From the
// lowest bit: four of zero, so that a handle looks aligned; the place; the generation; a mark that no address of a program has.
#ifndef ATTILE_CORE_HANDLE_TABLE_H
#define ATTILE_CORE_HANDLE_TABLE_H

#include <atomic>
#include <cstdint>
#include <mutex>

namespace attile::core {

// What a table knows of each of its entries, which derive from it.
template <typename Entry>
struct Handled {
    std::atomic<uint64_t> handle{0};      // the live one's; 0 before it is published and after it is withdrawn
    uint64_t place = 0;                   // in the table
    std::atomic<uint64_t> generation{0};  // of the handle given out last
    Entry *next_free = nullptr;           // while nobody has it
};

// Constant-initialised, and without a destructor. Entries are kept for later ones, the oldest first, and never given back: it costs as much
// as those that were alive at once.
template <typename Entry, uint64_t kMark>
class HandleTable {
  public:
    // The entry of a live handle, else NULL. Takes no lock, so that it answers in a forked child whatever the other threads of the parent
    // were doing.
    Entry *live(uint64_t number) const {
        Entry *entry = table_[place_of(number)].load(std::memory_order_acquire);
        return entry != nullptr && number != 0 && entry->handle.load(std::memory_order_acquire) == number ? entry : nullptr;
    }

    // Whether the number was a handle once.
    bool was_live(uint64_t number) const {
        if (number >> kMarkShift != kMark || (number & ((1U << kPlaceShift) - 1)) != 0) return false;
        const Entry *entry = table_[place_of(number)].load(std::memory_order_acquire);
        const uint64_t generation = generation_of(number);
        return entry != nullptr && generation != 0 && generation <= entry->generation.load(std::memory_order_acquire);
    }

    // An entry that has no handle yet, or NULL where as many as can be are alive.
    Entry *take(std::mutex &lock) {
        const std::lock_guard<std::mutex> hold(lock);
        Entry *entry = first_free_;
        if (entry != nullptr) {
            first_free_ = entry->next_free;
            if (first_free_ == nullptr) last_free_ = nullptr;
            entry->next_free = nullptr;
            return entry;
        }
        if (places_used_ == kPlaces) return nullptr;
        entry = new Entry;
        entry->place = places_used_;
        table_[places_used_++].store(entry, std::memory_order_release);
        return entry;
    }

    void give(Entry *entry, std::mutex &lock) {
        // A place whose numbers are used up stays empty.
        if (entry->generation == kGenerations - 1) return;
        const std::lock_guard<std::mutex> hold(lock);
        (last_free_ == nullptr ? first_free_ : last_free_->next_free) = entry;
        last_free_ = entry;
    }

    // Makes the entry what its new handle finds.
    static uint64_t publish(Entry *entry) {
        const uint64_t generation = entry->generation.fetch_add(1, std::memory_order_acq_rel) + 1;
        const uint64_t number = kMark << kMarkShift | generation << kGenerationShift | entry->place << kPlaceShift;
        entry->handle.store(number, std::memory_order_release);
        return number;
    }

    // Ends the handle: of several threads that try, one gets the entry.
    Entry *withdraw(uint64_t number) const {
        Entry *entry = live(number);
        return entry != nullptr && entry->handle.compare_exchange_strong(number, 0, std::memory_order_acq_rel) ? entry : nullptr;
    }

  private:
    static constexpr int kPlaceShift = 4, kPlaceBits = 16, kGenerationShift = kPlaceShift + kPlaceBits, kGenerationBits = 28;
    static constexpr int kMarkShift = kGenerationShift + kGenerationBits;
    static constexpr uint64_t kPlaces = uint64_t{1} << kPlaceBits, kGenerations = uint64_t{1} << kGenerationBits;
    static_assert(sizeof(void *) == 8, "handles take 64 bits");

    static uint64_t place_of(uint64_t number) { return number >> kPlaceShift & (kPlaces - 1); }
    static uint64_t generation_of(uint64_t number) { return number >> kGenerationShift & (kGenerations - 1); }

    // Pages of it that no entry lies in are never touched. Entries are set once; the caller's lock is for what follows.
    std::atomic<Entry *> table_[kPlaces] = {};
    uint64_t places_used_ = 0;
    Entry *first_free_ = nullptr, *last_free_ = nullptr;
};

}  // namespace attile::core

#endif

// SPDX-License-Identifier: Apache-2.0
// The plans that a context made for its latest calls. A call that differs from one of them in nothing but stream, workspace and where its
// operands are gets that plan. Nobody waits: where another thread is at a place, the call plans as if nothing were there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "host/family.h"
#include "host/operands.h"

namespace attile::gpu {

// What a plan is made for and found by: the problem without what no plan depends on.
template <class Problem>
struct PlanKey {
    Problem problem;

    explicit PlanKey(const Problem &from) : problem(from) {
        let_addresses_stand_in(problem);
        problem.launch.stream = problem.launch.workspace = nullptr;
        problem.launch.workspace_bytes = 0;
    }
    // As families are asked; lives as long as the key.
    const Problem &asked() { return problem; }
};
template <>
struct PlanKey<attile_attention_backward_problem> {
    attile_attention_backward_problem problem, whole;
    attile_attention_problem forward;

    explicit PlanKey(const attile_attention_backward_problem &from)
        : problem(from), forward(PlanKey<attile_attention_problem>(*from.forward).problem) {
        let_addresses_stand_in(problem);
        problem.forward = nullptr;  // Keys are compared byte by byte.
        whole = problem;
    }
    const attile_attention_backward_problem &asked() {
        whole.forward = &forward;
        return whole;
    }
};

// Problems have no padding that could differ; where one did after all, a call would plan anew.
template <class Problem>
bool is_same(const Problem &a, const Problem &b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}
template <class Problem>
bool is_same_key(const PlanKey<Problem> &a, const PlanKey<Problem> &b) {
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) {
        return is_same(a.problem, b.problem) && is_same(a.forward, b.forward);
    } else {
        return is_same(a.problem, b.problem);
    }
}

template <class Plain>
uint64_t hash_of(const Plain &value, uint64_t hash = 0) {
    static_assert(sizeof value % sizeof(uint64_t) == 0, "whole words");
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
    constexpr std::size_t kLanes = 4, kWords = sizeof value / sizeof(uint64_t);  // So that products need not wait for one another.
    uint64_t lane[kLanes] = {hash, 1, 2, 3}, words[kLanes] = {};
    const char *const bytes = reinterpret_cast<const char *>(&value);
    // All lanes in each round, so that they are registers; the last round's words beyond the value are zero.
    for (std::size_t first = 0; first < kWords; first += kLanes) {
        if (first + kLanes <= kWords) {
            std::memcpy(words, bytes + first * sizeof(uint64_t), sizeof words);
        } else {
            std::memset(words, 0, sizeof words);
            std::memcpy(words, bytes + first * sizeof(uint64_t), kWords % kLanes * sizeof(uint64_t));
        }
        for (std::size_t i = 0; i < kLanes; ++i) {
            lane[i] = (lane[i] ^ words[i]) * kFactor;
            lane[i] ^= lane[i] >> 29;
        }
    }
    for (int i = 1; i < 4; ++i) lane[0] = (lane[0] ^ lane[i]) * kFactor;
    return lane[0] ^ lane[0] >> 32;
}
template <class Problem>
uint64_t hash_of_key(const PlanKey<Problem> &key) {
    const uint64_t hash = hash_of(key.problem);
    if constexpr (std::is_same_v<Problem, attile_attention_backward_problem>) return hash_of(key.forward, hash);
    return hash;
}

template <class Problem>
class PlanCache {
  public:
    PlanCache() = default;
    ~PlanCache() {
        for (std::atomic<Place *> &place : places_) delete place.load(std::memory_order_acquire);
    }
    PlanCache(const PlanCache &) = delete;
    PlanCache &operator=(const PlanCache &) = delete;

    // Gives the plan that is kept under the key; false: there is none, or another thread is at its place.
    bool find(const PlanKey<Problem> &key, uint64_t hash, Planned<Problem> &planned) {
        for (std::size_t way = 0; way < kWays; ++way) {
            Place *const place = place_of(hash, way).load(std::memory_order_acquire);
            if (place == nullptr || place->hash.load(std::memory_order_relaxed) != hash) continue;
            const Held held(*place);
            if (!held || !is_same_key(place->key, key)) continue;
            planned = place->planned;
            return true;
        }
        return false;
    }
    // Keeps a plan, perhaps in place of another. Only a place's first plan takes memory; without it nothing is kept.
    void keep(const PlanKey<Problem> &key, uint64_t hash, const Planned<Problem> &planned) {
        std::size_t way = 0;
        while (way < kWays && place_of(hash, way).load(std::memory_order_acquire) != nullptr) ++way;
        if (way < kWays) {
            Place *const made = new (std::nothrow) Place{{}, hash, key, planned};
            Place *none = nullptr;
            if (made != nullptr && !place_of(hash, way).compare_exchange_strong(none, made, std::memory_order_acq_rel)) delete made;
            return;
        }
        Place &place = *place_of(hash, next_.fetch_add(1, std::memory_order_relaxed) % kWays).load(std::memory_order_acquire);
        const Held held(place);
        if (!held) return;
        place.hash.store(hash, std::memory_order_relaxed);
        place.key = key;
        place.planned = planned;
    }

  private:
    struct Place {
        std::atomic_flag is_taken = ATOMIC_FLAG_INIT;
        std::atomic<uint64_t> hash;
        PlanKey<Problem> key;
        Planned<Problem> planned;
    };
    // A place that no other thread touches meanwhile, unless one already does.
    class Held {
      public:
        explicit Held(Place &place) : place_(place), is_held_(!place.is_taken.test_and_set(std::memory_order_acquire)) {}
        ~Held() {
            if (is_held_) place_.is_taken.clear(std::memory_order_release);
        }
        Held(const Held &) = delete;
        Held &operator=(const Held &) = delete;
        explicit operator bool() const { return is_held_; }

      private:
        Place &place_;
        const bool is_held_;
    };

    static constexpr std::size_t kSets = 32, kWays = 2;
    std::atomic<Place *> &place_of(uint64_t hash, std::size_t way) { return places_[hash % kSets * kWays + way]; }

    std::array<std::atomic<Place *>, kSets *kWays> places_ = {};
    std::atomic<std::size_t> next_{0};
};

// Those of the operations whose planning takes longer than finding a plan.
struct PlanCaches {
    PlanCache<attile_gemm_problem> gemm;
    PlanCache<attile_attention_problem> attention;
    PlanCache<attile_attention_backward_problem> attention_backward;
};

template <class Problem>
inline constexpr bool kKeepsPlans = std::is_same_v<Problem, attile_gemm_problem> || std::is_same_v<Problem, attile_attention_problem> ||
                                    std::is_same_v<Problem, attile_attention_backward_problem>;
template <class Problem>
PlanCache<Problem> &plan_cache(PlanCaches &caches) {
    static_assert(kKeepsPlans<Problem>, "an operation that keeps plans");
    if constexpr (std::is_same_v<Problem, attile_gemm_problem>) {
        return caches.gemm;
    } else if constexpr (std::is_same_v<Problem, attile_attention_problem>) {
        return caches.attention;
    } else {
        return caches.attention_backward;
    }
}

}  // namespace attile::gpu

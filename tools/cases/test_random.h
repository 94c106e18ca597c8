// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine and compiler: the standard library's distributions are not.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace attile::test {

/// SplitMix64.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return z ^ z >> 31;
    }
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    /// Near enough to a normal deviate, and made of additions only: the sum of four uniform ones, of variance 1.
    double normal() { return (uniform() + uniform() + uniform() + uniform() - 2) * 1.7320508075688772; }
    /// low .. high, both included.
    std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool chance(double probability) { return uniform() < probability; }
    template <class T>
    T pick(std::initializer_list<T> choices) {
        return choices.begin()[bits() % choices.size()];
    }

  private:
    std::uint64_t state_;
};

}  // namespace attile::test

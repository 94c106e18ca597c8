// SPDX-License-Identifier: Apache-2.0
// The fuzzer's bytes, taken one after another; past their end everything is zero, so that every input means something.
#ifndef ATTILE_TESTS_FUZZ_INPUT_H
#define ATTILE_TESTS_FUZZ_INPUT_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace attile_test {

class FuzzInput {
  public:
    FuzzInput(const uint8_t *data, size_t size) : data_(data), left_(size) {}

    bool empty() const { return left_ == 0; }

    uint8_t byte() {
        if (left_ == 0) return 0;
        --left_;
        return *data_++;
    }

    // 0 to bound - 1.
    int64_t below(int64_t bound) { return byte() % bound; }

    // True once in `in`.
    bool rarely(int in = 16) { return byte() % in == in - 1; }

    template <typename Value>
    Value raw() {
        unsigned char bytes[sizeof(Value)];
        for (unsigned char &b : bytes) b = byte();
        Value value;
        std::memcpy(&value, bytes, sizeof value);
        return value;
    }

  private:
    const uint8_t *data_;
    size_t left_;
};

// What must hold whatever the input.
#define ATTILE_FUZZ_CHECK(condition)                                                           \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                      \
        }                                                                                      \
    } while (false)

}  // namespace attile_test

#endif

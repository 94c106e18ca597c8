// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: failing with a sentence, contexts that close themselves, printf into a string.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace attile::cli {

// Ends a command: main() prints it as one line on stderr and returns 1. Only the program throws; the library never does.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Throws Failure with the library's own sentence unless status is ATTILE_OK.
void check(int32_t status);

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...);

// The library's texts of any length.
std::string last_error();
std::string backend_report();

// A library version as printed, from the number.
std::string version_text(int32_t version);

// An open context. An empty backend is what ATTILE_BACKEND says; threads 0 is the library's choice.
class Context {
  public:
    explicit Context(const std::string &backend, int threads = 0);
    ~Context();
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    operator attile_context *() const { return context_; }
    const attile_context_info &info() const { return info_; }

    // "cpu on AMD EPYC 7B13 (AVX2, 8 threads)"
    std::string description() const;

  private:
    attile_context *context_ = nullptr;
    attile_context_info info_;
};

}  // namespace attile::cli

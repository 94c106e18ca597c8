// SPDX-License-Identifier: Apache-2.0
// Contexts of the cpu backend on a chosen instruction set, and problems whose results can be compared bit by bit.
#ifndef ATTILE_TESTS_CPU_CONTEXTS_H
#define ATTILE_TESTS_CPU_CONTEXTS_H

#include <attile/attile.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attile::test {

struct CloseContext {
    void operator()(attile_context *context) const { attile_context_destroy(context); }
};
using CpuContext = std::unique_ptr<attile_context, CloseContext>;

// target: what ATTILE_CPU_TARGET says while the context is made; "" leaves the choice to the backend. NULL with the sentence in `why`.
CpuContext open_cpu(const std::string &target, int threads, std::string *why = nullptr);
// Names of the instruction sets that this build has and this processor runs.
std::vector<std::string> targets_here();
std::string last_error();

// A problem with inputs of its own: run() returns the bytes of everything it computed. One for each way of sharing out work that the
// backend has.
struct BitProblem {
    std::string name;
    std::function<std::vector<unsigned char>(attile_context *)> run;
};
std::vector<BitProblem> bit_problems();

}  // namespace attile::test

#endif  // ATTILE_TESTS_CPU_CONTEXTS_H

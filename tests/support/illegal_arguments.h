// SPDX-License-Identifier: Apache-2.0
// Every way of calling an operation wrongly: how to break a valid call, the status that must follow, and a word that the last error must
// hold. One table for the core's unit tests, for backends and for bindings.
#ifndef ATTILE_TESTS_ILLEGAL_ARGUMENTS_H
#define ATTILE_TESTS_ILLEGAL_ARGUMENTS_H

#include <functional>
#include <string>
#include <vector>

#include "call_arguments.h"

namespace attile_test {

struct IllegalArgument {
    std::string id;  // "gemm/a/rank_0"
    Operation operation;
    std::function<void(CallArguments &)> spoil;
    int32_t status;
    std::string word;
    bool only_run = false;  // a query accepts it
};

const std::vector<IllegalArgument> &illegal_arguments();

}  // namespace attile_test

#endif

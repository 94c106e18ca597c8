// SPDX-License-Identifier: Apache-2.0
// The tensors of every args struct, and the part of the table of illegal arguments that is the same for each of them.
#ifndef ATTILE_TESTS_ILLEGAL_TENSORS_H
#define ATTILE_TESTS_ILLEGAL_TENSORS_H

#include <string>
#include <vector>

#include "illegal_arguments.h"

namespace attile_test {

// A tensor of a call.
struct TensorField {
    Operation operation;
    std::string name;  // as messages give it: "forward->q"
    std::function<attile_tensor &(CallArguments &)> get;
    bool required;
    bool output;
};

const std::vector<TensorField> &tensor_fields();

// Data types, ranks, extents, strides, pointers and overlap of each.
void append_illegal_tensors(std::vector<IllegalArgument> *table);

}  // namespace attile_test

#endif

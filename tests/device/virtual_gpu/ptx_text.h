// SPDX-License-Identifier: Apache-2.0
// Words, numbers and variables of PTX.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptx_machine.h"

namespace attile::virtual_gpu {

using Text = std::string_view;

Text trimmed(Text text);
Text next_word(Text *text);                          // Takes the next word, spaces before it included.
std::vector<Text> split(Text text, char separator);  // Parts between separators that are in no brackets.
int64_t number_of(Text text);

struct Type {
    Kind kind;
    int bytes;
};
Type type_of(Text name);

// A variable: ".align 8 .b8 name[352]", ".u64 name", ".b8 name[4] = {1, 2, 3, 4}".
struct Variable {
    std::string name;
    std::size_t bytes = 0, alignment = 1;
    bool is_open = false;  // "name[]"
    std::vector<unsigned char> value;
};
Variable read_variable(Text text);

inline std::size_t aligned(std::size_t at, std::size_t alignment) { return (at + alignment - 1) / alignment * alignment; }

// What kernels may call: what stands in parentheses before and after its name, and its body.
struct Function {
    Text results, parameters, body;
};
// What a module declares for all its kernels.
struct Declared {
    std::unordered_map<std::string, uint64_t> globals;
    std::vector<Variable> open_shared;
    std::map<std::string, Function, std::less<>> functions;
};
// Makes a kernel of its text: what stands in parentheses, between them and the body, and the body.
void read_kernel(Kernel *kernel, const Declared &declared, Text parameters, Text directives, Text body);

}  // namespace attile::virtual_gpu

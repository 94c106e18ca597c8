// SPDX-License-Identifier: Apache-2.0
// The selection string: "cuda", "cuda:1", "cuda,cpu", "auto".
#ifndef ATTILE_CORE_SELECTION_H
#define ATTILE_CORE_SELECTION_H

#include <cstdint>
#include <string>
#include <vector>

namespace attile::core {

constexpr size_t kMaxSelectionBytes = 255;
constexpr size_t kMaxBackendName = 31;

struct Choice {
    std::string name;
    int32_t device = 0;
    bool automatic = false;  // stands for "auto": its being unusable is nothing to worry about
};

// A name as the contract allows it: lower-case letters, digits, '_', '-'. Anything else, a path above all, is none.
bool valid_backend_name(const char *name);

// Splits `text` into choices in the order to try; "auto" becomes the members of `auto_order`. False, and a sentence in `error`, if it is
// malformed.
bool parse_selection(const char *text, const char *auto_order, std::vector<Choice> *choices, std::string *error);

}  // namespace attile::core

#endif

// SPDX-License-Identifier: Apache-2.0
// The selection string: anything at all is taken apart into names and devices that are possible, or refused with a sentence.
#include "selection.h"

#include <attile/attile.h>

#include <algorithm>

#include "fuzz_input.h"

namespace {

using attile::core::Choice;

void check_choices(const std::vector<Choice> &choices) {
    ATTILE_FUZZ_CHECK(!choices.empty());
    for (const Choice &choice : choices) {
        ATTILE_FUZZ_CHECK(attile::core::valid_backend_name(choice.name.c_str()));
        ATTILE_FUZZ_CHECK(choice.name.size() <= attile::core::kMaxBackendName);
        ATTILE_FUZZ_CHECK(choice.name.find_first_of("/. \\") == std::string::npos);
        ATTILE_FUZZ_CHECK(choice.device >= 0);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string text(reinterpret_cast<const char *>(data), size);
    std::vector<Choice> choices;
    std::string error;
    const bool accepted = attile::core::parse_selection(text.c_str(), "cuda,cpu,reference", &choices, &error);
    if (accepted) {
        check_choices(choices);
        ATTILE_FUZZ_CHECK(std::strlen(text.c_str()) <= attile::core::kMaxSelectionBytes);
    } else {
        ATTILE_FUZZ_CHECK(!error.empty());
    }
    // Through the front door too, where that needs no search for files: what is malformed, and what is built in.
    const bool built_in = accepted && std::all_of(choices.begin(), choices.end(), [](const Choice &c) { return c.name == "reference"; });
    if (accepted && !built_in) return 0;
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = text.c_str();
    attile_context *context = nullptr;
    const int32_t status = attile_context_create(&options, &context);
    if (accepted) {
        ATTILE_FUZZ_CHECK(status == ATTILE_OK || status == ATTILE_ERROR_BACKEND_REFUSED);
    } else {
        ATTILE_FUZZ_CHECK(status == ATTILE_ERROR_BACKEND_SELECTION);
    }
    ATTILE_FUZZ_CHECK((status == ATTILE_OK) == (context != nullptr));
    attile_context_destroy(context);
    return 0;
}

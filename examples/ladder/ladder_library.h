// SPDX-License-Identifier: Apache-2.0
// The end of each ladder: the library's own kernel, called through its C interface with device pointers.
#pragma once

#include <attile/attile.h>

#include "ladder.h"

#ifndef LADDER_BACKEND
#define LADDER_BACKEND "cuda"
#endif

namespace ladder {

inline std::string last_error() {
    char text[512];
    attile_last_error(text, sizeof text);
    return text;
}

inline void require_attile(int32_t status, const char *call) {
    if (status != ATTILE_OK) throw std::runtime_error(std::string(call) + ": " + last_error());
}
#define LADDER_ATTILE(call) ladder::require_attile((call), #call)

// One context for all steps; without the backend they are left out.
inline attile_context *library() {
    static attile_context *const context = [] {
        attile_context *made = nullptr;
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        options.backend = LADDER_BACKEND;
        if (attile_context_create(&options, &made) != ATTILE_OK)
            throw LeftOut("the library's " LADDER_BACKEND " backend is not here: " + last_error());
        return made;
    }();
    return context;
}

inline attile_tensor tensor(const float *data, std::vector<int64_t> shape) {
    attile_tensor result;
    LADDER_ATTILE(attile_tensor_init(&result, const_cast<float *>(data), ATTILE_F32, static_cast<int32_t>(shape.size()), shape.data()));
    return result;
}

inline attile_support new_support() {
    attile_support support;
    attile_support_init(&support, sizeof support);
    return support;
}

}  // namespace ladder

// SPDX-License-Identifier: Apache-2.0
// What a backend calls the core with: error sentences, log lines, environment variables.
#include "backend_call.h"

#include <cstring>

#include "environment.h"
#include "log.h"
#include "status.h"

namespace attile::core {
namespace {

// A pointer, so that the thread has nothing to destroy.
thread_local std::string *captured = nullptr;

void host_set_error(const char *text) {
    if (captured == nullptr) {
        set_error_text(text);
        return;
    }
    try {
        *captured = text != nullptr ? text : "";
    } catch (...) {
        // Out of memory: the status will have to do. Nothing may be thrown into a backend.
    }
}

constexpr attile_host_v1 kHost = {
    sizeof(attile_host_v1), ATTILE_BACKEND_ABI_MINOR, host_set_error, log_text, log_level, environment,
};

}  // namespace

void prepare_to_catch() {
    static const bool thrown_once = [] {
        try {
            throw 0;
        } catch (int) {
            return true;
        }
    }();
    (void)thrown_once;
}

const attile_host_v1 *host_table() { return &kHost; }

SentenceCapture::SentenceCapture(std::string *sentence) : outer_(captured) { captured = sentence; }
SentenceCapture::~SentenceCapture() { captured = outer_; }

int32_t checked_status(int32_t status, std::string *sentence) {
    if (std::strcmp(attile_status_name(status), "ATTILE_ERROR_UNKNOWN") == 0) {
        *sentence = "the backend returned " + std::to_string(status) + ", which is no status code" +
                    (sentence->empty() ? "" : "; it says: " + *sentence);
        return ATTILE_ERROR_BACKEND_CONTRACT;
    }
    if (sentence->empty()) *sentence = "the backend gave no reason";
    return status;
}

}  // namespace attile::core

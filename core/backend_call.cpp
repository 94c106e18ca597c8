// SPDX-License-Identifier: Apache-2.0
// What a backend calls the core with: error sentences, log lines, environment variables.
#include "backend_call.h"

#include <atomic>

#include "environment.h"
#include "log.h"
#include "message.h"
#include "status.h"

namespace attile::core {
namespace {

// A pointer, so that the thread has nothing to destroy.
constinit thread_local std::string *captured = nullptr;

void host_set_error(const char *text) {
    if (captured == nullptr) {
        set_backend_words(text);
        return;
    }
    try {
        *captured = text != nullptr ? text : "";
        make_printable(captured->data());
    } catch (...) {
        // Out of memory: the status will have to do. Nothing may be thrown into a backend.
    }
}

constexpr attile_host_v1 kHost = {
    sizeof(attile_host_v1), ATTILE_BACKEND_ABI_MINOR, host_set_error, log_text, log_level, environment,
};

}  // namespace

void prepare_to_catch() {
    static constinit std::atomic<bool> done{false};  // twice does no harm
    if (done.load(std::memory_order_relaxed)) return;
    try {
        throw 0;
    } catch (int) {
        done.store(true, std::memory_order_relaxed);
    }
}

const attile_host_v1 *host_table() { return &kHost; }

SentenceCapture::SentenceCapture(std::string *sentence) : outer_(captured) { captured = sentence; }
SentenceCapture::~SentenceCapture() { captured = outer_; }

int32_t checked_status(int32_t status, std::string *sentence) {
    if (!is_status_code(status)) {
        *sentence = "the backend returned " + std::to_string(status) + ", which is not a status code" +
                    (sentence->empty() ? "" : "; it says: " + *sentence);
        return ATTILE_ERROR_BACKEND_CONTRACT;
    }
    if (sentence->empty()) *sentence = "the backend gave no reason";
    return status;
}

}  // namespace attile::core

// SPDX-License-Identifier: Apache-2.0
#include "distributed/link.h"

#include <chrono>
#include <cstdio>
#include <cstring>

#include "guard.h"
#include "status.h"
#include "surroundings.h"

namespace attile::core {
namespace {

constexpr int32_t kThrew = -1;  // what an exception of the transport's counts as

}  // namespace

Link::Link(const Transport &transport, const char *kind, int32_t rank, int32_t ranks, double timeout)
    : transport_(transport), kind_(kind), rank_(rank), ranks_(ranks), timeout_(timeout) {
    started_.reserve(static_cast<size_t>(kMostMessages) * static_cast<size_t>(ranks));
}

Link::~Link() {
    end_started();
    if (transport_.close != nullptr) transport_.close(transport_.call.user);
}

// Nothing that the transport throws or changes goes further.
template <typename Function>
int32_t Link::invoke(Function &&function) const {
    forget_backend_words();
    const FloatingPointMode mode;
    const auto start = std::chrono::steady_clock::now();
    int32_t answer = ATTILE_OK;
    try {
        answer = function(transport_.call);
    }
    ATTILE_LET_THREADS_END
    catch (...) {
        answer = kThrew;
        set_backend_words("it threw an exception");
    }
    mode.put_back();
    nanoseconds_ += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    return answer;
}

int32_t Link::fail_link(const char *what, int32_t peer, int32_t answer) const {
    char words[kErrorCapacity];
    std::snprintf(words, sizeof words, "%s", backend_words());
    const bool said = words[0] != '\0';
    // A transport that knows more of a rank that is late than which message is waited for says it.
    const bool of_ranks = answer == ATTILE_ERROR_RANK_FAILED || answer == ATTILE_ERROR_RANK_LATE;
    if (of_ranks && said) return fail(answer, "%s: %s", operation_, words);
    if (answer == ATTILE_ERROR_RANK_LATE) {
        if (peer < 0) return fail(answer, "%s: not all ranks came within %g s (%s)", operation_, timeout_, what);
        return fail(answer, "%s: rank %d did not come within %g s (this rank waits to %s it)", operation_, peer, timeout_, what);
    }
    char whom[32] = "";
    if (peer >= 0) std::snprintf(whom, sizeof whom, " rank %d", peer);
    return fail(ATTILE_ERROR_TRANSPORT, "%s: the transport '%s' could not %s%s: it returned %d%s%s", operation_, kind_, what, whom, answer,
                said ? "; " : "", words);
}

template <typename Function>
int32_t Link::start(int32_t peer, bool sending, Function &&function) {
    if (started_.size() == started_.capacity()) {
        end_started();
        return fail(ATTILE_ERROR_INTERNAL, "%s: more messages are under way than there is room for", operation_);
    }
    void *request = nullptr;
    const int32_t answer = invoke([&](const attile_comm_callbacks &call) { return function(call, &request); });
    if (answer != ATTILE_OK) {
        const int32_t status = fail_link(sending ? "send to" : "receive from", peer, answer);
        end_started();
        return status;
    }
    started_.push_back({request, peer, sending});
    return ATTILE_OK;
}

int32_t Link::send(const void *data, int64_t bytes, int32_t to) {
    if (bytes == 0) return ATTILE_OK;
    return start(to, true,
                 [&](const attile_comm_callbacks &call, void **request) { return call.send(call.user, data, bytes, to, request); });
}

int32_t Link::receive(void *data, int64_t bytes, int32_t from) {
    if (bytes == 0) return ATTILE_OK;
    return start(from, false,
                 [&](const attile_comm_callbacks &call, void **request) { return call.receive(call.user, data, bytes, from, request); });
}

int32_t Link::flush() {
    if (transport_.flush == nullptr || started_.empty()) return ATTILE_OK;
    const int32_t answer = invoke([&](const attile_comm_callbacks &call) { return transport_.flush(call.user, timeout_); });
    if (answer == ATTILE_OK) return ATTILE_OK;
    const int32_t status = fail_link("begin messages with all ranks", -1, answer);
    end_started();
    return status;
}

int32_t Link::finish() {
    const Ending ending(*this);
    int32_t status = ATTILE_OK;
    for (size_t i = 0; i < started_.size() && status == ATTILE_OK; ++i) {
        Started &one = started_[i];
        const Started waited = one;
        one.peer = -1;  // over, whatever the answer is
        const int32_t answer = invoke([&](const attile_comm_callbacks &call) { return call.wait(call.user, waited.request, timeout_); });
        if (answer != ATTILE_OK) status = fail_link(waited.sending ? "send to" : "receive from", waited.peer, answer);
    }
    return status;
}

void Link::end_started() {
    for (const Started &one : started_) {
        if (one.peer < 0) continue;
        (void)invoke([&](const attile_comm_callbacks &call) { return call.wait(call.user, one.request, 0.0); });
    }
    started_.clear();
}

int32_t Link::all_gather(const void *own, void *all, int64_t bytes) {
    if (bytes == 0) return ATTILE_OK;
    if (transport_.call.all_gather != nullptr) {
        const int32_t answer =
            invoke([&](const attile_comm_callbacks &call) { return call.all_gather(call.user, own, all, bytes, timeout_); });
        return answer == ATTILE_OK ? ATTILE_OK : fail_link("gather from all ranks", -1, answer);
    }
    const Ending ending(*this);
    char *target = static_cast<char *>(all);
    std::memcpy(target + rank_ * bytes, own, static_cast<size_t>(bytes));
    for (int32_t step = 1; step < ranks_; ++step) {
        const int32_t from = (rank_ + ranks_ - step) % ranks_;
        ATTILE_TRY(receive(target + from * bytes, bytes, from));
    }
    for (int32_t step = 1; step < ranks_; ++step) ATTILE_TRY(send(own, bytes, (rank_ + step) % ranks_));
    return finish();
}

int32_t Link::all_to_all(const void *send_data, const int64_t *send_bytes, const int64_t *send_offsets, void *receive_data,
                         const int64_t *receive_bytes, const int64_t *receive_offsets) {
    if (transport_.call.all_to_all != nullptr) {
        const int32_t answer = invoke([&](const attile_comm_callbacks &call) {
            return call.all_to_all(call.user, send_data, send_bytes, send_offsets, receive_data, receive_bytes, receive_offsets, timeout_);
        });
        return answer == ATTILE_OK ? ATTILE_OK : fail_link("exchange with all ranks", -1, answer);
    }
    const Ending ending(*this);
    const char *source = static_cast<const char *>(send_data);
    char *target = static_cast<char *>(receive_data);
    if (send_bytes[rank_] != 0) {
        std::memcpy(target + receive_offsets[rank_], source + send_offsets[rank_], static_cast<size_t>(send_bytes[rank_]));
    }
    for (int32_t step = 1; step < ranks_; ++step) {
        const int32_t from = (rank_ + ranks_ - step) % ranks_;
        ATTILE_TRY(receive(target + receive_offsets[from], receive_bytes[from], from));
    }
    for (int32_t step = 1; step < ranks_; ++step) {
        const int32_t to = (rank_ + step) % ranks_;
        ATTILE_TRY(send(source + send_offsets[to], send_bytes[to], to));
    }
    return finish();
}

void Link::give_up(int32_t status, const char *why) const {
    if (transport_.call.give_up == nullptr) return;
    char sentence[512];
    if (transport_.tells_why) {
        std::snprintf(sentence, sizeof sentence, "rank %d failed with %s: %s", rank_, attile_status_name(status), why);
        why = sentence;
    }
    (void)invoke([&](const attile_comm_callbacks &call) {
        call.give_up(call.user, status, why);
        return ATTILE_OK;
    });
}

}  // namespace attile::core

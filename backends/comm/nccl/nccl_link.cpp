// SPDX-License-Identifier: Apache-2.0
#include "nccl/nccl_link.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace attile::nccl {
namespace {

constexpr uint32_t kNumbers = 256;                   // groups that can be told apart; far fewer are under way
constexpr uint32_t kDrained = ~uint32_t{0};          // behind them in the memory
constexpr int64_t kMostUnused = int64_t{256} << 20;  // bytes of device memory that are kept for the next messages
constexpr int64_t kLeastBlock = 4096;
constexpr double kMostLeaving = 10.0;  // seconds, for others that have yet to read the last messages
constexpr double kMostDraining = 10.0;

// Ranks that are threads of a process give back their communicators one after the other: where several did at once, NCCL was seen to free
// memory twice.
int destroy(const Library &library, Comm comm) {
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    return library.destroy(comm);
}

// Messages of a step are one group, which does not tell whose is not there.
int32_t refuse_late(double seconds) {
    return refuse(ATTILE_ERROR_RANK_LATE, "within %g s not all of the ranks came that this one exchanges messages with in a step", seconds);
}

int32_t refuse_given_up() { return refuse(ATTILE_ERROR_RANK_FAILED, "this rank gave up while its messages were under way"); }

}  // namespace

int32_t Link::prepare() {
    void *pinned = nullptr, *numbers = nullptr;
    int32_t status = device_.stream_create(device_.context, &stream_);
    if (status == ATTILE_OK) status = device_.stream_create(device_.context, &copies_);
    if (status == ATTILE_OK) status = device_.alloc(device_.context, ATTILE_MEMORY_PINNED, sizeof *reached_, &pinned);
    if (status == ATTILE_OK) status = device_.alloc(device_.context, ATTILE_MEMORY_DEVICE, (kNumbers + 1) * sizeof(uint32_t), &numbers);
    reached_ = static_cast<uint32_t *>(pinned);
    numbers_ = static_cast<unsigned char *>(numbers);
    if (status == ATTILE_OK) status = stage_.prepare(device_);
    if (status != ATTILE_OK) return status;
    *reached_ = 0;
    uint32_t numbered[kNumbers + 1];
    for (uint32_t i = 0; i < kNumbers; ++i) numbered[i] = i;
    numbered[kNumbers] = kDrained;
    return device_.copy(device_.context, numbers_, numbered, sizeof numbered, copies_);
}

int32_t Link::join(Comm parent, bool takes_part, double seconds) {
    return split(library_, parent, takes_part, rank_, ranks_, seconds, &comm_);
}

void Link::release(Message *messages) const {
    while (messages != nullptr) {
        Message *next = messages->next;
        if (messages->block != nullptr) (void)device_.free(device_.context, messages->block);
        std::free(messages);
        messages = next;
    }
}

// A message that nobody uses, with a block for so many bytes or without one.
int32_t Link::take(int64_t bytes, bool has_block, Message **taken) {
    Message **fits = nullptr;
    for (Message **at = &unused_; *at != nullptr; at = &(*at)->next) {
        const int64_t capacity = (*at)->capacity;
        const bool right = has_block ? capacity >= bytes && (capacity / 4 <= bytes || capacity == kLeastBlock) : capacity == 0;
        if (right && (fits == nullptr || capacity < (*fits)->capacity)) fits = at;
    }
    if (fits != nullptr) {
        *taken = *fits;
        *fits = (*fits)->next;
        unused_bytes_ -= (*taken)->capacity;
        return ATTILE_OK;
    }
    Message *message = static_cast<Message *>(std::calloc(1, sizeof *message));
    if (message == nullptr) return refuse(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    if (has_block) {
        message->capacity = bytes > kLeastBlock ? bytes : kLeastBlock;
        const int32_t status = device_.alloc(device_.context, ATTILE_MEMORY_DEVICE, message->capacity, &message->block);
        if (status != ATTILE_OK) {
            std::free(message);
            return status;
        }
    }
    *taken = message;
    return ATTILE_OK;
}

void Link::give(Message *message) {
    if (message->way == Way::kStage) stage_.give();
    message->next = nullptr;
    if (unused_bytes_ + message->capacity > kMostUnused) {
        release(message);
        return;
    }
    message->next = unused_;
    unused_ = message;
    unused_bytes_ += message->capacity;
}

int32_t Link::choose_way(bool sending, const void *data, int64_t bytes, Way *way, int64_t *place) {
    *way = Way::kStage;
    *place = sending ? stage_.find_sent(data, bytes) : Stage::kNone;
    if (*place != Stage::kNone) return ATTILE_OK;
    int32_t kind = ATTILE_MEMORY_HOST;
    const int32_t status = device_.memory_kind(device_.context, data, &kind);
    // The host does not touch managed memory: some devices do not allow it while they are at work.
    const bool is_hosts = kind == ATTILE_MEMORY_HOST || kind == ATTILE_MEMORY_PINNED;
    if (status == ATTILE_OK && is_hosts && bytes <= Stage::kMostBytes) *place = stage_.take(sending, data, bytes);
    if (*place != Stage::kNone) return status;
    *way = kind == ATTILE_MEMORY_DEVICE ? Way::kInPlace : kind == ATTILE_MEMORY_HOST ? Way::kCopied : Way::kQueued;
    return status;
}

int32_t Link::start(bool sending, void *data, int64_t bytes, int32_t peer, Message **started) {
    if (ended_ != ATTILE_OK) return refuse_ended();
    Way way = Way::kInPlace;
    int64_t place = Stage::kNone;
    int32_t status = choose_way(sending, data, bytes, &way, &place);
    if (status != ATTILE_OK) return status;
    const bool has_block = way == Way::kCopied || way == Way::kQueued;
    Message *message = nullptr;
    status = take(bytes, has_block, &message);
    if (status != ATTILE_OK) {
        if (way == Way::kStage) stage_.give();
        return status;
    }
    message->next = nullptr;
    message->sending = sending;
    message->way = way;
    message->peer = peer;
    message->bytes = bytes;
    message->group = 0;
    message->data = data;
    message->place = place;
    // A copy of ordinary memory waits for its stream, which must not be the one that waits for other ranks.
    if (has_block && sending) status = device_.copy(device_.context, message->block, data, bytes, way == Way::kCopied ? copies_ : stream_);
    if (status != ATTILE_OK) {
        give(message);
        return status;
    }
    *last_pending_ = message;
    last_pending_ = &message->next;
    *started = message;
    return ATTILE_OK;
}

void *Link::memory_of(const Message &message) const {
    if (message.way == Way::kInPlace) return message.data;
    return message.way == Way::kStage ? stage_.device_memory(message.place) : message.block;
}

// Ends the communicator, for the reason whose sentence is set.
int32_t Link::end(int32_t status) {
    ended_ = status;
    pending_ = last_group_ = nullptr;
    last_pending_ = &pending_;
    if (comm_ == nullptr) return status;
    (void)library_.abort(comm_);
    comm_ = nullptr;
    // What runs on the stream sees the abort, and ends; a copy behind it says when.
    const Deadline deadline(kMostDraining);
    is_stuck_ = device_.copy(device_.context, reached_, numbers_ + kNumbers * sizeof(uint32_t), sizeof(uint32_t), stream_) != ATTILE_OK;
    for (Patience patience; !is_stuck_ && std::atomic_ref(*reached_).load(std::memory_order_acquire) != kDrained; patience.ask_again()) {
        is_stuck_ = deadline.over();
    }
    return status;
}

int32_t Link::refuse_ended() const { return refuse(ended_, "the communicator was aborted when an earlier message failed"); }

int32_t Link::enqueue(Message *messages) {
    const int32_t sent_off = stage_.send_off(device_, stream_);
    if (sent_off != ATTILE_OK) return end(sent_off);
    int result = library_.group_start();
    if (result != kSuccess) return end(refuse_result(library_, "ncclGroupStart", result));
    const char *failed = nullptr;
    for (Message *message = messages; message != nullptr && failed == nullptr; message = message->next) {
        void *memory = memory_of(*message);
        const size_t bytes = static_cast<size_t>(message->bytes);
        result = message->sending ? library_.send(memory, bytes, kByte, message->peer, comm_, stream_)
                                  : library_.receive(memory, bytes, kByte, message->peer, comm_, stream_);
        if (result != kSuccess && result != kInProgress) failed = message->sending ? "ncclSend" : "ncclRecv";
    }
    const int closed = library_.group_end();
    if (failed == nullptr && closed != kSuccess && closed != kInProgress) {
        failed = "ncclGroupEnd";
        result = closed;
    }
    return failed == nullptr ? ATTILE_OK : end(refuse_result(library_, failed, result));
}

// What the last group received, on the stream behind it, to the host memory that is written without waiting.
int32_t Link::bring_back() {
    int32_t status = stage_.bring_back(device_, stream_);
    for (Message *message = last_group_; message != nullptr && status == ATTILE_OK; message = message->next) {
        if (message->way != Way::kQueued || message->sending) continue;
        status = device_.copy(device_.context, message->data, message->block, message->bytes, stream_);
    }
    last_group_ = nullptr;
    return status;
}

// Asks NCCL, and looks how far the stream has come.
int32_t Link::advance() {
    if (ended_ != ATTILE_OK) return refuse_ended();
    int now = kSuccess;
    const int asked = library_.async_error(comm_, &now);
    if (asked != kSuccess) now = asked;
    if (now == kInProgress) return ATTILE_OK;
    if (now != kSuccess) return end(refuse_result(library_, "a message", now));
    if (launching_) {
        launching_ = false;
        int32_t status = bring_back();
        if (status == ATTILE_OK)
            status = device_.copy(device_.context, reached_, numbers_ + launched_ % kNumbers * sizeof(uint32_t), sizeof(uint32_t), stream_);
        if (status != ATTILE_OK) return end(status);
    }
    const uint64_t ahead = (std::atomic_ref(*reached_).load(std::memory_order_acquire) - over_) % kNumbers;
    if (ahead <= launched_ - over_) over_ += ahead;
    return ATTILE_OK;
}

int32_t Link::wait_for_launch(double seconds) {
    const Deadline deadline(seconds);
    for (Patience patience; launching_; patience.ask_again()) {
        const int32_t status = advance();
        if (status != ATTILE_OK) return status;
        if (!launching_) break;
        if (gave_up_.load()) return end(refuse_given_up());
        if (deadline.over()) return end(refuse_late(seconds));
    }
    return ATTILE_OK;
}

int32_t Link::flush(double seconds) {
    if (ended_ != ATTILE_OK) return refuse_ended();
    if (pending_ == nullptr) return ATTILE_OK;
    const int32_t status = wait_for_launch(seconds);
    if (status != ATTILE_OK) return status;
    Message *messages = last_group_ = pending_;
    pending_ = nullptr;
    last_pending_ = &pending_;
    ++launched_;
    for (Message *message = messages; message != nullptr; message = message->next) message->group = launched_;
    launching_ = true;
    return enqueue(messages);
}

int32_t Link::wait(Message *message, double seconds) {
    const Deadline deadline(seconds);
    int32_t status = ended_ != ATTILE_OK ? refuse_ended() : ATTILE_OK;
    if (status == ATTILE_OK && message->group == 0) status = seconds > 0 ? flush(seconds) : end(ATTILE_ERROR_RANK_LATE);
    for (Patience patience; status == ATTILE_OK; patience.ask_again()) {
        status = advance();
        if (status != ATTILE_OK || message->group <= over_) break;
        if (gave_up_.load()) {
            status = end(refuse_given_up());
        } else if (deadline.over()) {
            status = end(refuse_late(seconds));
        }
    }
    if (status == ATTILE_OK && !message->sending) {
        if (message->way == Way::kStage) {
            std::memcpy(message->data, stage_.host_memory(message->place), static_cast<size_t>(message->bytes));
        } else if (message->way == Way::kCopied) {
            status = device_.copy(device_.context, message->data, message->block, message->bytes, copies_);
        }
    }
    give(message);
    return status;
}

// Whether the communicator has come to a regular end.
bool Link::finalize() {
    const Deadline deadline(kMostLeaving);
    int now = library_.finalize(comm_);
    for (Patience patience; now == kInProgress && !deadline.over(); patience.ask_again()) {
        const int asked = library_.async_error(comm_, &now);
        if (asked != kSuccess) now = asked;
    }
    return now == kSuccess;
}

void Link::leave() {
    if (comm_ != nullptr) {
        const bool idle = pending_ == nullptr && !launching_ && over_ == launched_;
        if (idle && finalize()) {
            (void)destroy(library_, comm_);
            comm_ = nullptr;
        } else {
            (void)end(ATTILE_ERROR_TRANSPORT);
        }
    }
    if (is_stuck_) return;  // the device uses that memory yet
    release(unused_);
    unused_ = nullptr;
    stage_.release(device_);
    (void)device_.free(device_.context, numbers_);
    (void)device_.free(device_.context, reached_);
    (void)device_.stream_destroy(device_.context, copies_);
    (void)device_.stream_destroy(device_.context, stream_);
}

}  // namespace attile::nccl

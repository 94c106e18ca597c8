// SPDX-License-Identifier: Apache-2.0
#include "mpi/mpi_link.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mpi/mpi_errors.h"

namespace attile::mpi {

const attile_host_v1 *host = nullptr;

namespace {

constexpr int kData = 1, kFailure = 2;                           // tags
constexpr int64_t kMostPiece = int64_t{1} << 30;                 // MPI counts in int
constexpr int64_t kMostUnused = int64_t{1} << 30;                // bytes that are kept for the next messages
constexpr std::chrono::milliseconds kGrace{250};                 // for messages that were sent before somebody failed
constexpr double kMostTelling = 0.1;                             // seconds
constexpr const char *kPieceVariable = "ATTILE_COMM_MPI_PIECE";  // bytes; for tests of messages of several pieces

// Of a loop that asks MPI: now and then another thread of this processor goes first, a rank perhaps that is waited for.
class Patience {
  public:
    void ask_again() {
        if (++asked_ % 64 == 0) sched_yield();
    }

  private:
    unsigned asked_ = 0;
};

bool cancel(MPI_Request *request) {
    int over = 0;
    if (MPI_Cancel(request) == MPI_SUCCESS) (void)MPI_Test(request, &over, MPI_STATUS_IGNORE);
    return over != 0;
}

int64_t piece_bytes() {
    const char *text = host->environment(kPieceVariable);
    const int64_t wanted = text != nullptr ? std::strtoll(text, nullptr, 10) : 0;
    return wanted > 0 && wanted < kMostPiece ? wanted : kMostPiece;
}

void release(Message *message) {
    while (message != nullptr) {
        Message *next = message->next;
        std::free(message->memory);
        std::free(message->requests);
        std::free(message);
        message = next;
    }
}

}  // namespace

int32_t refuse(int32_t status, const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    host->set_error(text);
    return status;
}

Link::~Link() {
    release(unused_);
    std::free(telling_);
}

int32_t Link::fail_mpi(const char *what, int error) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(error, words, &length) != MPI_SUCCESS) words[0] = '\0';
    record_failure(ATTILE_ERROR_TRANSPORT, words);
    return refuse(ATTILE_ERROR_TRANSPORT, "%s failed: %s", what, words);
}

// The first failure stays.
void Link::record_failure(int32_t status, const char *why) {
    sound_ = false;
    if (failure_ != ATTILE_OK) return;
    failure_ = status;
    failed_at_ = Clock::now();
    std::snprintf(why_, sizeof why_, "%s", why);
}

int32_t Link::check_thread() const {
    if (finalised()) return refuse(ATTILE_ERROR_TRANSPORT, "the program has ended MPI");
    int yes = 1;
    if (level_ < MPI_THREAD_SERIALIZED) (void)MPI_Is_thread_main(&yes);
    if (yes != 0) return ATTILE_OK;
    return refuse(ATTILE_ERROR_TRANSPORT, "MPI was initialised with MPI_THREAD_FUNNELED, and this is not its main thread");
}

int32_t Link::wait_to_join(MPI_Request *request, const Deadline &deadline, const char *what) {
    for (Patience patience;; patience.ask_again()) {
        int over = 0;
        const int error = MPI_Test(request, &over, MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS) return fail_mpi(what, error);
        if (over != 0) return ATTILE_OK;
        if (deadline.over()) break;
    }
    record_failure(ATTILE_ERROR_RANK_LATE, what);
    return ATTILE_ERROR_RANK_LATE;
}

int32_t Link::join(MPI_Comm parent, double seconds) {
    const Deadline deadline(seconds);
    const bool one_of_all = parent == MPI_COMM_WORLD || parent == MPI_COMM_SELF;
    const ReturnedErrors returned(one_of_all ? MPI_COMM_NULL : parent);
    telling_ = static_cast<MPI_Request *>(std::malloc(static_cast<size_t>(ranks_) * sizeof *telling_));
    if (telling_ == nullptr) return refuse(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    std::fill_n(telling_, ranks_, MPI_REQUEST_NULL);
    greeting_.mark = (static_cast<int64_t>(Clock::now().time_since_epoch().count()) ^ (static_cast<int64_t>(getpid()) << 32U)) | 1;
    greeting_.piece = piece_bytes();
    int error = MPI_Comm_idup(parent, &comm_, &joining_);
    if (error != MPI_SUCCESS) return fail_mpi("MPI_Comm_idup", error);
    int32_t status = wait_to_join(&joining_, deadline, "MPI_Comm_idup");
    if (status == ATTILE_OK) {
        error = MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
        if (error == MPI_SUCCESS) error = MPI_Ibcast(&greeting_, sizeof greeting_, MPI_BYTE, 0, comm_, &joining_);
        if (error != MPI_SUCCESS) return fail_mpi("MPI_Ibcast", error);
        status = wait_to_join(&joining_, deadline, "MPI_Ibcast");
    }
    if (status == ATTILE_ERROR_RANK_LATE) {
        return refuse(status, "within %g s not all ranks of the MPI communicator came; this is rank %d of %d", seconds, rank_, ranks_);
    }
    if (status != ATTILE_OK) return status;
    error = listen();
    return error == MPI_SUCCESS ? ATTILE_OK : fail_mpi("MPI_Irecv", error);
}

// A message that nobody uses, with room for so many bytes; NULL: no memory.
Message *Link::take(int64_t bytes) {
    Message **fits = nullptr;
    for (Message **at = &unused_; *at != nullptr; at = &(*at)->next) {
        if ((*at)->capacity >= bytes && (fits == nullptr || (*at)->capacity < (*fits)->capacity)) fits = at;
    }
    if (fits != nullptr && (*fits)->capacity / 4 > bytes && (*fits)->capacity > 65536) fits = nullptr;  // left for a larger one
    const int64_t pieces = (bytes + greeting_.piece - 1) / greeting_.piece;
    Message *message = nullptr;
    if (fits != nullptr) {
        message = *fits;
        *fits = message->next;
        unused_bytes_ -= message->capacity;
    } else {
        message = static_cast<Message *>(std::calloc(1, sizeof *message));
        if (message == nullptr) return nullptr;
        message->memory = static_cast<char *>(std::malloc(static_cast<size_t>(bytes)));
        message->capacity = bytes;
    }
    message->next = nullptr;
    if (message->most_pieces < pieces) {
        std::free(message->requests);
        message->requests = static_cast<MPI_Request *>(std::malloc(static_cast<size_t>(pieces) * sizeof *message->requests));
        message->most_pieces = message->requests != nullptr ? static_cast<int32_t>(pieces) : 0;
    }
    if (message->memory == nullptr || message->requests == nullptr) {
        release(message);
        return nullptr;
    }
    message->bytes = bytes;
    message->pieces = message->over = 0;
    return message;
}

void Link::give(Message *message) {
    message->next = nullptr;
    if (unused_bytes_ + message->capacity > kMostUnused) {
        release(message);
        return;
    }
    message->next = unused_;
    unused_ = message;
    unused_bytes_ += message->capacity;
}

int32_t Link::start(bool sending, void *data, int64_t bytes, int32_t peer, Message **started) {
    const std::lock_guard<std::mutex> hold(lock_);
    const int32_t status = check_thread();
    if (status != ATTILE_OK) return status;
    Message *message = take(bytes);
    if (message == nullptr) {
        return refuse(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for a message of %lld bytes", static_cast<long long>(bytes));
    }
    message->sending = sending;
    message->target = data;
    if (sending) std::memcpy(message->memory, data, static_cast<size_t>(bytes));
    for (int64_t at = 0; at < bytes; at += greeting_.piece) {
        const int count = static_cast<int>(std::min(bytes - at, greeting_.piece));
        MPI_Request *request = &message->requests[message->pieces];
        const int error = sending ? MPI_Isend(message->memory + at, count, MPI_BYTE, peer, kData, comm_, request)
                                  : MPI_Irecv(message->memory + at, count, MPI_BYTE, peer, kData, comm_, request);
        if (error != MPI_SUCCESS) {
            abandon(message);
            return fail_mpi(sending ? "MPI_Isend" : "MPI_Irecv", error);
        }
        ++message->pieces;
    }
    *started = message;
    return ATTILE_OK;
}

// Whether all of the message is over. An error of MPI's, else MPI_SUCCESS.
int Link::test(Message *message, bool *over) {
    *over = false;
    for (; message->over < message->pieces; ++message->over) {
        int done = 0, count = 0;
        MPI_Status status;
        int error = MPI_Test(&message->requests[message->over], &done, &status);
        if (error == MPI_SUCCESS && done == 0) return error;
        if (error == MPI_SUCCESS && !message->sending) error = MPI_Get_count(&status, MPI_BYTE, &count);
        if (error == MPI_SUCCESS && !message->sending) {
            const int64_t before = message->over * greeting_.piece;
            if (count != std::min(message->bytes - before, greeting_.piece)) error = MPI_ERR_TRUNCATE;
        }
        if (error != MPI_SUCCESS) return error;
    }
    *over = true;
    return MPI_SUCCESS;
}

// The message's end, whatever became of it; its memory is kept where MPI does not let go of it. Sends cannot be cancelled.
void Link::abandon(Message *message) {
    sound_ = false;
    bool all = true;
    for (int32_t piece = 0; piece < message->pieces; ++piece) {
        MPI_Request *request = &message->requests[piece];
        int over = 1;
        if (*request != MPI_REQUEST_NULL) (void)MPI_Test(request, &over, MPI_STATUS_IGNORE);
        if (over != 0 || *request == MPI_REQUEST_NULL || (!message->sending && cancel(request))) continue;
        all = false;
    }
    if (all) {
        give(message);
    } else {
        keep(message);
    }
}

void Link::keep(Message *message) {
    sound_ = false;
    message->next = kept_;
    kept_ = message;
}

int32_t Link::wait(Message *message, double seconds) {
    const Deadline deadline(seconds);
    const int32_t status = check_thread();
    if (status != ATTILE_OK) {  // MPI cannot be asked: its memory is kept
        const std::lock_guard<std::mutex> hold(lock_);
        keep(message);
        return status;
    }
    const ReturnedErrorsOfAll returned;
    for (Patience patience;; patience.ask_again()) {
        const std::lock_guard<std::mutex> hold(lock_);
        bool over = false;
        const int error = test(message, &over);
        if (error != MPI_SUCCESS) {
            abandon(message);
            return fail_mpi(message->sending ? "sending" : "receiving", error);
        }
        if (over) {
            if (!message->sending) std::memcpy(message->target, message->memory, static_cast<size_t>(message->bytes));
            give(message);
            return ATTILE_OK;
        }
        hear();
        if (owes_) tell();
        const bool failed = failure_ != ATTILE_OK && Clock::now() - failed_at_ >= kGrace;
        if (!failed && !deadline.over()) continue;
        abandon(message);
        return failed ? refuse(failure_, "%s", why_) : ATTILE_ERROR_RANK_LATE;
    }
}

int Link::listen() {
    if (ranks_ == 1) return MPI_SUCCESS;
    return MPI_Irecv(&heard_, sizeof heard_, MPI_BYTE, MPI_ANY_SOURCE, kFailure, comm_, &hearing_);
}

// Whether another rank has given up.
void Link::hear() {
    if (hearing_ == MPI_REQUEST_NULL) return;
    int over = 0;
    int error = MPI_Test(&hearing_, &over, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS && over == 0) return;
    if (error == MPI_SUCCESS && heard_.mark != greeting_.mark) {
        error = listen();
        if (error == MPI_SUCCESS) return;
    }
    if (error != MPI_SUCCESS) {
        (void)fail_mpi("receiving from any rank", error);
        return;
    }
    heard_.why[sizeof heard_.why - 1] = '\0';
    record_failure(ATTILE_ERROR_RANK_FAILED, heard_.why);
}

// Tells all other ranks of the failure. They have posted a receive for one that tells them; the message is small, and goes at once.
void Link::tell() {
    owes_ = false;
    for (int32_t rank = 0; rank < ranks_; ++rank) {
        if (rank == rank_) continue;
        if (MPI_Isend(&told_, sizeof told_, MPI_BYTE, rank, kFailure, comm_, &telling_[rank]) != MPI_SUCCESS)
            telling_[rank] = MPI_REQUEST_NULL;
    }
    const Deadline deadline(kMostTelling);
    for (int over = 0; over == 0 && !deadline.over(); sched_yield()) {
        if (MPI_Testall(ranks_, telling_, &over, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return;
    }
}

void Link::give_up(const char *why) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (told_.mark != 0) return;
    told_.mark = greeting_.mark;
    std::snprintf(told_.why, sizeof told_.why, "%s", why);
    record_failure(ATTILE_ERROR_RANK_FAILED, why);
    owes_ = true;
    if (check_thread() != ATTILE_OK) return;
    const ReturnedErrorsOfAll returned;
    tell();
}

// A communicator on which a message was ended is left to MPI: the message may come yet, and nobody else is to get it, as happens where MPI
// gives the number of a communicator to another.
bool Link::leave() {
    const std::lock_guard<std::mutex> hold(lock_);
    if (check_thread() != ATTILE_OK || comm_ == MPI_COMM_NULL || joining_ != MPI_REQUEST_NULL) return false;
    const ReturnedErrorsOfAll returned;
    Message *kept = kept_;
    kept_ = nullptr;
    while (kept != nullptr) {
        Message *message = kept;
        kept = message->next;
        abandon(message);
    }
    bool free = kept_ == nullptr;
    if (hearing_ != MPI_REQUEST_NULL) free = cancel(&hearing_) && free;
    int over = 1;
    if (told_.mark != 0 && MPI_Testall(ranks_, telling_, &over, MPI_STATUSES_IGNORE) != MPI_SUCCESS) over = 0;
    if (free && sound_) (void)MPI_Comm_free(&comm_);
    return free && over != 0;
}

}  // namespace attile::mpi

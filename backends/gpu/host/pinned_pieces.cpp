// SPDX-License-Identifier: Apache-2.0
#include "host/pinned_pieces.h"

#include <algorithm>
#include <thread>

namespace attile::gpu {
namespace {

constexpr int64_t kTeamGrain = 512 << 10;  // Bytes a thread takes at a time.

int64_t piece_elements(const StridedBlock &block) { return PinnedPiece::kBytes / block.element_bytes; }

}  // namespace

int32_t PinnedPieces::start() {
    int32_t status = ATTILE_OK;
    for (PinnedPiece &piece : pieces_) {
        if (status == ATTILE_OK) status = device_.alloc(ATTILE_MEMORY_PINNED, PinnedPiece::kBytes, &piece.memory);
        if (status == ATTILE_OK) status = device_.event_create(false, &piece.done);
    }
    return status;
}

void PinnedPieces::stop() {
    for (PinnedPiece &piece : pieces_) {
        if (piece.done != nullptr) device_.event_destroy(piece.done);
        if (piece.memory != nullptr) device_.free(ATTILE_MEMORY_PINNED, piece.memory);
        piece.done = piece.memory = nullptr;
    }
}

void PinnedDownloads::add(const Image &image) { waiting_.push_back({image, image.block.count(), 0, 0}); }

int32_t PinnedDownloads::advance(Stream stream) {
    // Images and pieces are both in order: the piece emptied first belongs to the image that waits longest.
    for (; emptied_ < arrived_ && team_.is_done(piece(emptied_).task); ++emptied_) {
        Waiting &oldest = waiting_.front();
        oldest.home += piece(emptied_).task.total;
        if (oldest.home == oldest.elements) waiting_.pop_front();
    }
    int32_t status = ATTILE_OK;
    for (; arrived_ < sent_; ++arrived_) {
        bool is_there = false;
        status = device_.event_done(piece(arrived_).done, &is_there);
        if (status != ATTILE_OK) return status;
        if (!is_there) break;
        team_.begin(piece(arrived_).task);
    }
    for (Waiting &waiting : waiting_) {
        const Image &image = waiting.image;
        const StridedBlock &block = image.block;
        while (waiting.sent < waiting.elements) {
            if (sent_ - emptied_ == PinnedPiece::kCount) return status;
            if (waiting.sent == 0) status = device_.event_wait(stream, image.ready);
            PinnedPiece &to = piece(sent_);
            const int64_t first = waiting.sent, count = std::min(piece_elements(block), waiting.elements - first);
            if (status == ATTILE_OK)
                status = device_.copy(to.memory, static_cast<const char *>(image.from) + first * block.element_bytes,
                                      count * block.element_bytes, stream);
            if (status == ATTILE_OK) status = device_.event_record(to.done, stream);
            if (status == ATTILE_OK && first + count == waiting.elements) status = device_.event_record(image.emptied, stream);
            if (status != ATTILE_OK) return status;
            to.task.total = count;
            to.task.grain = kTeamGrain / block.element_bytes;
            to.task.work = [&image, &to, first](int64_t from, int64_t length) {
                scatter(image.base, static_cast<const char *>(to.memory) + from * image.block.element_bytes, image.block, first + from,
                        length);
            };
            waiting.sent += count;
            ++sent_;
        }
    }
    return status;
}

int32_t PinnedDownloads::wait_for_oldest() {
    if (emptied_ < arrived_) {
        team_.finish(piece(emptied_).task);
        return ATTILE_OK;
    }
    return device_.event_synchronize(piece(arrived_).done);
}

int32_t PinnedDownloads::send(const void *from, Stream stream) {
    for (;;) {
        const int32_t status = advance(stream);
        if (status != ATTILE_OK) return status;
        const bool is_sent = std::none_of(waiting_.begin(), waiting_.end(), [&](const Waiting &waiting) {
            return waiting.image.from == from && waiting.sent < waiting.elements;
        });
        if (is_sent) return status;
        const int32_t waited = wait_for_oldest();
        if (waited != ATTILE_OK) return waited;
    }
}

int32_t PinnedDownloads::finish(Stream stream) {
    for (;;) {
        const int32_t status = advance(stream);
        if (status != ATTILE_OK || waiting_.empty()) return status;
        const int32_t waited = wait_for_oldest();
        if (waited != ATTILE_OK) return waited;
    }
}

void PinnedDownloads::drop() {
    for (; emptied_ < arrived_; ++emptied_) team_.finish(piece(emptied_).task);
    emptied_ = arrived_ = sent_;
    waiting_.clear();
}

int32_t PinnedUploads::send(void *to, const char *base, const StridedBlock &block, Stream stream, Stream stream_back) {
    const int64_t elements = block.count(), step = piece_elements(block);
    for (int64_t first = 0; first < elements; first += step) {
        PinnedPiece &next = piece(next_);
        for (bool is_free = false; !is_free;) {
            int32_t status = downloads_.is_busy() ? device_.event_done(next.done, &is_free) : device_.event_synchronize(next.done);
            if (status == ATTILE_OK && downloads_.is_busy()) {
                status = downloads_.advance(stream_back);
                if (!is_free) std::this_thread::yield();
            } else {
                is_free = true;
            }
            if (status != ATTILE_OK) return status;
        }
        ++next_;
        next.task.total = std::min(step, elements - first);
        next.task.grain = kTeamGrain / block.element_bytes;
        next.task.work = [&next, &block, base, first](int64_t from, int64_t length) {
            gather(static_cast<char *>(next.memory) + from * block.element_bytes, base, block, first + from, length);
        };
        team_.begin(next.task);
        const int32_t status = flush(stream);  // Of the piece before, while this one is filled.
        filling_ = &next;
        filling_to_ = static_cast<char *>(to) + first * block.element_bytes;
        filling_bytes_ = next.task.total * block.element_bytes;
        if (status != ATTILE_OK) return status;
    }
    return ATTILE_OK;
}

int32_t PinnedUploads::flush(Stream stream) {
    if (filling_ == nullptr) return ATTILE_OK;
    PinnedPiece &filled = *filling_;
    filling_ = nullptr;
    team_.finish(filled.task);
    const int32_t status = device_.copy(filling_to_, filled.memory, filling_bytes_, stream);
    return status == ATTILE_OK ? device_.event_record(filled.done, stream) : status;
}

void PinnedUploads::drop() {
    if (filling_ != nullptr) team_.finish(filling_->task);
    filling_ = nullptr;
}

}  // namespace attile::gpu

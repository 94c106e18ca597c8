// SPDX-License-Identifier: Apache-2.0
// Ordinary host memory on its way to the device and back, through pinned pieces. A team of threads fills and empties them while copies of
// other pieces are under way; the calling thread keeps both going and waits for nothing that it could do something beside.
#pragma once

#include <deque>

#include "device.h"
#include "host/strided_copy.h"
#include "host/team.h"

namespace attile::gpu {

struct PinnedPiece {
    static constexpr int64_t kBytes = 8 << 20;
    static constexpr int kCount = 4;  // In each direction.

    void *memory = nullptr;
    Event done = nullptr;  // The copy that used it last is over.
    HostTask task;         // Fills or empties it.
};

class PinnedPieces {
  public:
    PinnedPieces(Device &device, HostTeam &team) : device_(device), team_(team) {}
    PinnedPieces(const PinnedPieces &) = delete;
    PinnedPieces &operator=(const PinnedPieces &) = delete;
    int32_t start();
    void stop();  // What was started; nothing is under way.

  protected:
    PinnedPiece &piece(int64_t number) { return pieces_[number % PinnedPiece::kCount]; }

    Device &device_;
    HostTeam &team_;

  private:
    PinnedPiece pieces_[PinnedPiece::kCount];
};

class PinnedDownloads : public PinnedPieces {
  public:
    using PinnedPieces::PinnedPieces;

    // A dense image on the device, to be taken to `base` when it is `ready`; `emptied` is recorded behind the last copy from it.
    struct Image {
        const void *from;
        char *base;
        StridedBlock block;
        Event ready, emptied;
    };
    void add(const Image &image);
    int32_t advance(Stream stream);                 // As far as it goes without waiting.
    int32_t send(const void *from, Stream stream);  // Until all copies from the image are queued.
    int32_t finish(Stream stream);                  // Until everything is in place.
    bool is_busy() const { return !waiting_.empty(); }
    void drop();  // After a failure, the stream being idle: no thread uses the images' memory from then on.

  private:
    struct Waiting {
        Image image;
        int64_t elements, sent, home;  // Of the image; those whose copies are queued; those in place.
    };
    int32_t wait_for_oldest();

    std::deque<Waiting> waiting_;
    int64_t sent_ = 0, arrived_ = 0, emptied_ = 0;  // Pieces, ever: copied into, begun to be emptied, emptied.
};

class PinnedUploads : public PinnedPieces {
  public:
    PinnedUploads(Device &device, HostTeam &team, PinnedDownloads &downloads) : PinnedPieces(device, team), downloads_(downloads) {}

    // Queues copies that make the dense image `to` of the block at `base`. The last of them waits for flush(), and the block has to stay
    // until then. What goes on beside are downloads.
    int32_t send(void *to, const char *base, const StridedBlock &block, Stream stream, Stream stream_back);
    int32_t flush(Stream stream);
    void drop();  // After a failure: no thread uses the caller's memory from then on.

  private:
    PinnedDownloads &downloads_;
    int64_t next_ = 0;
    PinnedPiece *filling_ = nullptr;  // The piece that is being filled, and where its copy goes.
    void *filling_to_ = nullptr;
    int64_t filling_bytes_ = 0;
};

}  // namespace attile::gpu

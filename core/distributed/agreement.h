// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other around a call: before it what they were called with, after it how it went. Each gets all, so that all come to
// the same end.
#ifndef ATTILE_CORE_DISTRIBUTED_AGREEMENT_H
#define ATTILE_CORE_DISTRIBUTED_AGREEMENT_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "distributed/link.h"
#include "status.h"

namespace attile::core {

// How a value is shown in a sentence.
enum class Shown : int32_t { kNumber, kDtype, kReal, kContents, kPresence };

// One thing that must be the same on every rank. Names are literals, and the list is the same on all ranks of one version.
struct Matter {
    const char *name;
    Shown shown;
    int64_t value;
};

inline int64_t real_bits(double value) {
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// FNV-1a.
int64_t hash_bytes(const void *data, size_t bytes);

struct Announcement {
    static constexpr int32_t kMostMatters = 56;
    int32_t status = ATTILE_OK;  // this rank's own, before anything travels
    const char *why = "";        // its sentence
    const char *backend = "";    // "": does not matter
    int64_t call = 0;
    int64_t len_q = 0, len_k = 0;  // need not be the same
    int64_t bias_rows = 0;         // nor this: what a rank says of the rows of dbias
    int64_t summed_axes = 0;       // nor these: the set of axes that dbias sums over, and of those that a rank says nothing of
    int64_t unknown_axes = 0;
    int64_t fast_axes = 0;  // nor this: how a rank's matrices lie in its memory
    bool prepared = false;  // nor this: whether the rank has what its method needs, if all ranks agree
    std::vector<Matter> matters;
};

// This rank's own failure, kept while other steps follow. Takes no memory.
class OwnStatus {
  public:
    bool sound() const { return status_ == ATTILE_OK; }
    int32_t status() const { return status_; }
    const char *why() const { return why_; }
    // What a step came to, with the thread's sentence. The first failure stays.
    void take(int32_t status);
    // Makes the sentence the thread's again.
    int32_t fail_again() const;

  private:
    int32_t status_ = ATTILE_OK;
    char why_[kErrorCapacity] = "";
};

// The exchanges of one communicator. Their memory is taken when it is made: a rank that has none left can still say so.
class Agreement {
  public:
    explicit Agreement(int32_t ranks) : announced_(static_cast<size_t>(ranks)), outcomes_(static_cast<size_t>(ranks)) {}

    // Exchanges what was announced. Where every rank failed by itself the status is this rank's own, and the fallout none. `fallout` stays
    // as it is where the exchange itself failed.
    int32_t agree(Link &link, const char *operation, const Announcement &own, Fallout *fallout);
    // Of what a rank announced last.
    int64_t len_q(int32_t rank) const { return announced_[static_cast<size_t>(rank)].len_q; }
    int64_t len_k(int32_t rank) const { return announced_[static_cast<size_t>(rank)].len_k; }
    int64_t bias_rows(int32_t rank) const { return announced_[static_cast<size_t>(rank)].bias_rows; }
    int64_t summed_axes(int32_t rank) const { return announced_[static_cast<size_t>(rank)].summed_axes; }
    int64_t unknown_axes(int32_t rank) const { return announced_[static_cast<size_t>(rank)].unknown_axes; }
    bool all_prepared() const {
        return std::all_of(announced_.begin(), announced_.end(), [](const Announced &one) { return one.prepared != 0; });
    }
    int64_t fast_axes(int32_t rank) const { return announced_[static_cast<size_t>(rank)].fast_axes; }

    // Exchanges how something went. All ranks fail if one did.
    int32_t conclude(Link &link, const char *operation, const OwnStatus &own, Fallout *fallout);

  private:
    // As they travel: fixed-size, without padding, the same on every rank of one version and byte order.
    struct Announced {
        int64_t mark;
        int64_t version;
        int64_t call;
        int64_t status;
        int64_t len_q, len_k, bias_rows, summed_axes, unknown_axes, fast_axes, prepared;
        int64_t values[Announcement::kMostMatters];
        char operation[32];
        char backend[32];
        char why[256];
    };
    struct Outcome {
        int64_t mark;
        int64_t status;
        char why[256];
    };

    int32_t compare(const char *operation, const Announcement &own, int32_t rank) const;

    std::vector<Announced> announced_;
    std::vector<Outcome> outcomes_;
};

}  // namespace attile::core

#endif

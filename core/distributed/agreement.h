// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other around a call: before it what they were called with, after it how it went. Each gets all, so that all come to
// the same end.
#ifndef ATTILE_CORE_DISTRIBUTED_AGREEMENT_H
#define ATTILE_CORE_DISTRIBUTED_AGREEMENT_H

#include <cstdint>
#include <cstring>
#include <vector>

#include "distributed/link.h"

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
    static constexpr int32_t kMostMatters = 48;
    int32_t status = ATTILE_OK;  // this rank's own, before anything travels
    const char *why = "";        // its sentence
    const char *backend = "";    // "": does not matter
    int64_t call = 0;
    int64_t len_q = 0, len_k = 0;  // need not be the same
    std::vector<Matter> matters;
};

struct ShardLengths {
    std::vector<int64_t> q, k;
};

// Exchanges what was announced. Where every rank failed by itself the status is this rank's own, and the fallout none. `fallout` stays as
// it is where the exchange itself failed.
int32_t agree(Link &link, const char *operation, const Announcement &own, ShardLengths *lengths, Fallout *fallout);

// Exchanges how something went, this rank's own failure with its sentence. All ranks fail if one did.
int32_t conclude(Link &link, const char *operation, int32_t status, const char *why, Fallout *fallout);

}  // namespace attile::core

#endif

// SPDX-License-Identifier: Apache-2.0
#include "distributed/agreement.h"

#include <cstdio>
#include <string>

#include "message.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr int64_t kMark = 0x31656c6974746121;  // of this layout

// As it travels: fixed-size, without padding, the same on every rank of one version and byte order.
struct Packed {
    int64_t mark;
    int64_t version;
    int64_t call;
    int64_t status;
    int64_t len_q, len_k;
    int64_t count;
    int64_t values[Announcement::kMostMatters];
    char backend[32];
    char why[256];
};

struct Outcome {
    int64_t mark;
    int64_t status;
    char why[256];
};

void put_text(char *target, size_t capacity, const char *text) {
    std::snprintf(target, capacity, "%s", text);
    make_printable(target);
}

std::string shown(Shown how, int64_t value) {
    char text[64];
    switch (how) {
        case Shown::kDtype:
            return value == 0 ? "absent" : DtypeText(static_cast<int32_t>(value)).text;
        case Shown::kReal: {
            double real = 0;
            std::memcpy(&real, &value, sizeof real);
            std::snprintf(text, sizeof text, "%.17g", real);
            return text;
        }
        case Shown::kContents:
            std::snprintf(text, sizeof text, "contents with hash %016llx", static_cast<unsigned long long>(value));
            return text;
        case Shown::kPresence:
            return value != 0 ? "given" : "absent";
        case Shown::kNumber:
            break;
    }
    return std::to_string(value);
}

int32_t fail_disagreement(const char *operation, int32_t rank, const char *what, const std::string &theirs, const std::string &first) {
    return fail(ATTILE_ERROR_RANKS_DISAGREE, "%s: ranks disagree: %s is %s on rank %d and %s on rank 0", operation, what, theirs.c_str(),
                rank, first.c_str());
}

int32_t fail_of(const char *operation, int32_t rank, int64_t status, const char *why) {
    return fail(ATTILE_ERROR_RANK_FAILED, "%s: rank %d failed with %s: %s", operation, rank,
                attile_status_name(static_cast<int32_t>(status)), why);
}

int32_t compare(const char *operation, const Announcement &own, const Packed &first, const Packed &other, int32_t rank) {
    if (other.mark != first.mark || other.version != first.version || other.count != first.count) {
        return fail_disagreement(operation, rank, "the library's version", std::to_string(other.version), std::to_string(first.version));
    }
    if (other.call != first.call) {
        return fail_disagreement(operation, rank, "the number of calls so far", std::to_string(other.call), std::to_string(first.call));
    }
    if (std::strncmp(other.backend, first.backend, sizeof other.backend) != 0) {
        return fail_disagreement(operation, rank, "the backend (ATTILE_COMM_ALLOW_MIXED_BACKENDS is not set)", other.backend,
                                 first.backend);
    }
    for (size_t i = 0; i < own.matters.size(); ++i) {
        if (other.values[i] == first.values[i]) continue;
        const Matter &matter = own.matters[i];
        return fail_disagreement(operation, rank, matter.name, shown(matter.shown, other.values[i]), shown(matter.shown, first.values[i]));
    }
    return ATTILE_OK;
}

}  // namespace

int64_t hash_bytes(const void *data, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3U;
    return static_cast<int64_t>(hash);
}

int32_t agree(Link &link, const char *operation, const Announcement &own, ShardLengths *lengths, Fallout *fallout) {
    Packed packed{};
    packed.mark = kMark;
    packed.version = attile_version();
    packed.call = own.call;
    packed.status = own.status;
    packed.len_q = own.len_q;
    packed.len_k = own.len_k;
    packed.count = static_cast<int64_t>(own.matters.size());
    for (size_t i = 0; i < own.matters.size(); ++i) packed.values[i] = own.matters[i].value;
    put_text(packed.backend, sizeof packed.backend, own.backend);
    put_text(packed.why, sizeof packed.why, own.why);
    const size_t ranks = static_cast<size_t>(link.ranks());
    std::vector<Packed> all(ranks);
    lengths->q.resize(ranks);
    lengths->k.resize(ranks);
    ATTILE_TRY(link.all_gather(&packed, all.data(), sizeof packed));
    *fallout = Fallout::kNone;
    int32_t failed = -1;
    for (int32_t rank = link.ranks() - 1; rank >= 0; --rank) {
        Packed &one = all[static_cast<size_t>(rank)];
        one.why[sizeof one.why - 1] = one.backend[sizeof one.backend - 1] = '\0';
        if (one.mark == kMark && one.status != ATTILE_OK) {
            failed = rank;
        } else {
            *fallout = Fallout::kShared;
        }
        lengths->q[static_cast<size_t>(rank)] = one.len_q;
        lengths->k[static_cast<size_t>(rank)] = one.len_k;
    }
    if (own.status != ATTILE_OK) {
        set_error_text(own.why);
        return own.status;
    }
    if (failed >= 0) {
        const Packed &one = all[static_cast<size_t>(failed)];
        return fail_of(operation, failed, one.status, one.why);
    }
    for (int32_t rank = 1; rank < link.ranks(); ++rank) {
        ATTILE_TRY(compare(operation, own, all[0], all[static_cast<size_t>(rank)], rank));
    }
    return ATTILE_OK;
}

int32_t conclude(Link &link, const char *operation, int32_t status, const char *why, Fallout *fallout) {
    Outcome own{};
    own.mark = kMark;
    own.status = status;
    put_text(own.why, sizeof own.why, why);
    std::vector<Outcome> all(static_cast<size_t>(link.ranks()));
    const std::string kept = why;  // the link's own failure would take its place
    const int32_t exchanged = link.all_gather(&own, all.data(), sizeof own);
    if (exchanged == ATTILE_OK) *fallout = Fallout::kShared;
    if (status != ATTILE_OK) {
        set_error_text(kept.c_str());
        return status;
    }
    ATTILE_TRY(exchanged);
    for (int32_t rank = 0; rank < link.ranks(); ++rank) {
        Outcome &one = all[static_cast<size_t>(rank)];
        one.why[sizeof one.why - 1] = '\0';
        if (one.mark != kMark) return fail(ATTILE_ERROR_TRANSPORT, "%s: rank %d sent something else at the end of a call", operation, rank);
        if (one.status != ATTILE_OK) return fail_of(operation, rank, one.status, one.why);
    }
    return ATTILE_OK;
}

}  // namespace attile::core

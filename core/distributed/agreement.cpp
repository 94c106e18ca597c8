// SPDX-License-Identifier: Apache-2.0
#include "distributed/agreement.h"

#include <cstdio>
#include <string>

#include "message.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr int64_t kMark = 0x34656c6974746121;  // of this layout

void put_text(char *target, size_t capacity, const char *text) {
    const size_t length = strnlen(text, capacity - 1);
    std::memcpy(target, text, length);
    target[length] = '\0';
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

}  // namespace

int64_t hash_bytes(const void *data, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3U;
    return static_cast<int64_t>(hash);
}

void OwnStatus::take(int32_t status) {
    if (status == ATTILE_OK || !sound()) return;
    status_ = status;
    std::snprintf(why_, sizeof why_, "%s", error_text());
}

int32_t OwnStatus::fail_again() const {
    set_error_text(why_);
    return status_;
}

int32_t Agreement::compare(const char *operation, const Announcement &own, int32_t rank) const {
    const Announced &first = announced_[0], &other = announced_[static_cast<size_t>(rank)];
    if (other.mark != first.mark || other.version != first.version) {
        return fail_disagreement(operation, rank, "the library's version", std::to_string(other.version), std::to_string(first.version));
    }
    if (std::strncmp(other.operation, first.operation, sizeof other.operation) != 0) {
        return fail_disagreement(operation, rank, "the call", other.operation, first.operation);
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

int32_t Agreement::agree(Link &link, const char *operation, const Announcement &own, Fallout *fallout) {
    Announced packed{};
    packed.mark = kMark;
    packed.version = attile_version();
    packed.call = own.call;
    packed.status = own.status;
    packed.len_q = own.len_q;
    packed.len_k = own.len_k;
    packed.bias_rows = own.bias_rows;
    packed.summed_axes = own.summed_axes;
    packed.unknown_axes = own.unknown_axes;
    packed.fast_axes = own.fast_axes;
    packed.prepared = own.prepared ? 1 : 0;
    for (size_t i = 0; i < own.matters.size(); ++i) packed.values[i] = own.matters[i].value;
    put_text(packed.operation, sizeof packed.operation, operation);
    put_text(packed.backend, sizeof packed.backend, own.backend);
    put_text(packed.why, sizeof packed.why, own.why);
    ATTILE_TRY(link.all_gather(&packed, announced_.data(), sizeof packed));
    *fallout = Fallout::kNone;
    int32_t failed = -1;
    for (int32_t rank = link.ranks() - 1; rank >= 0; --rank) {
        Announced &one = announced_[static_cast<size_t>(rank)];
        one.why[sizeof one.why - 1] = one.backend[sizeof one.backend - 1] = one.operation[sizeof one.operation - 1] = '\0';
        if (one.mark == kMark && one.status != ATTILE_OK) {
            failed = rank;
        } else {
            *fallout = Fallout::kShared;
        }
    }
    if (own.status != ATTILE_OK) {
        set_error_text(own.why);
        return own.status;
    }
    if (failed >= 0) {
        const Announced &one = announced_[static_cast<size_t>(failed)];
        return fail_of(operation, failed, one.status, one.why);
    }
    for (int32_t rank = 1; rank < link.ranks(); ++rank) ATTILE_TRY(compare(operation, own, rank));
    return ATTILE_OK;
}

int32_t Agreement::conclude(Link &link, const char *operation, const OwnStatus &own, Fallout *fallout) {
    Outcome outcome{};
    outcome.mark = kMark;
    outcome.status = own.status();
    put_text(outcome.why, sizeof outcome.why, own.why());
    const int32_t exchanged = link.all_gather(&outcome, outcomes_.data(), sizeof outcome);
    if (exchanged == ATTILE_OK) *fallout = Fallout::kShared;
    if (!own.sound()) return own.fail_again();  // whatever the link said since
    ATTILE_TRY(exchanged);
    for (int32_t rank = 0; rank < link.ranks(); ++rank) {
        Outcome &one = outcomes_[static_cast<size_t>(rank)];
        one.why[sizeof one.why - 1] = '\0';
        if (one.mark != kMark) return fail(ATTILE_ERROR_TRANSPORT, "%s: rank %d sent something else at the end of a call", operation, rank);
        if (one.status != ATTILE_OK) return fail_of(operation, rank, one.status, one.why);
    }
    return ATTILE_OK;
}

}  // namespace attile::core

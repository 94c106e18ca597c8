// SPDX-License-Identifier: Apache-2.0
// What every call over ranks goes through: agree on the arguments, run a method, agree on how it went.
#ifndef ATTILE_CORE_DISTRIBUTED_SESSION_H
#define ATTILE_CORE_DISTRIBUTED_SESSION_H

#include <memory>

#include "distributed/agreement.h"
#include "distributed/comm.h"
#include "distributed/link.h"
#include "guard.h"
#include "operation.h"
#include "status.h"

namespace attile::core {

// Of the answer of every query over ranks.
inline constexpr uint32_t kDistributedSupportFirstSize = ATTILE_SIZE_UP_TO(attile_distributed_support, flops);

// How a call goes on this rank. A rank whose own work failed goes on sending where the transport cannot tell the others the reason at once.
class Session {
  public:
    explicit Session(Link &link) : link_(link) {}
    Link &link() { return link_; }
    const OwnStatus &own() const { return own_; }
    bool sound() const { return own_.sound(); }
    // What a step of this rank's own work came to. A failure is returned only if the call is to end at once.
    int32_t take(int32_t status);

  private:
    Link &link_;
    OwnStatus own_;
};

// One way to compute a problem over ranks.
class Method {
  public:
    Method() = default;
    virtual ~Method() = default;
    Method(const Method &) = delete;
    Method &operator=(const Method &) = delete;
    // Memory, and whatever else can fail before data travels.
    virtual int32_t prepare() = 0;
    // Returns what the link failed with, and what the session says ends the call. What else can fail is given to the session.
    virtual int32_t run(Session &session) = 0;
};

// Makes and prepares a method. A failure leaves none.
template <typename Make>
int32_t prepare_method(Make &&make, std::unique_ptr<Method> *method) {
    const int32_t status = guarded([&]() -> int32_t {
        ATTILE_TRY(make(method));
        return *method != nullptr ? (*method)->prepare() : ATTILE_OK;
    });
    if (status != ATTILE_OK) method->reset();
    return status;
}

// The steps of a call, each the work of this rank alone:
// - read(): the arguments, validated
// - alone(): the call where there is one rank
// - describe(Announcement *): what must be the same on all ranks
// - foresee(std::unique_ptr<Method> *): the method that make() will give if the ranks agree and each foresees one, or none. It saves the
//   exchange of whether all have their memory
// - make(std::unique_ptr<Method> *): the method, from what all announced
template <typename Read, typename Alone, typename Describe, typename Foresee, typename Make>
int32_t run_over_ranks(CommState &comm, const char *operation, Read &&read, Alone &&alone, Describe &&describe, Foresee &&foresee,
                       Make &&make, Fallout *fallout) {
    Announcement announcement;
    OwnStatus own;
    own.take(guarded(read));
    Link &link = comm.link;
    announcement.call = ++comm.calls;
    if (link.ranks() == 1) {
        *fallout = Fallout::kNone;
        if (!own.sound()) return own.status();
        return alone();
    }
    if (own.sound()) own.take(guarded([&] { return describe(&announcement); }));
    std::unique_ptr<Method> method;
    if (own.sound()) {
        // What fails here fails again below, if it matters.
        const KeptError before;
        announcement.prepared = prepare_method(foresee, &method) == ATTILE_OK && method != nullptr;
        before.put_back();
    }
    announcement.status = own.status();
    announcement.why = own.why();
    announcement.backend = (comm.flags & ATTILE_COMM_ALLOW_MIXED_BACKENDS) != 0 ? "" : comm.backend;
    ATTILE_TRY(comm.agreement.agree(link, operation, announcement, fallout));
    *fallout = Fallout::kUntold;

    // From here on every failure of this rank's own reaches the others through conclude(), at the latest.
    Session session(link);
    if (!comm.agreement.all_prepared()) {
        method.reset();
        own.take(prepare_method(make, &method));
        ATTILE_TRY(comm.agreement.conclude(link, operation, own, fallout));
        *fallout = Fallout::kUntold;
    }
    const Link::Ending ending(link);
    ATTILE_TRY(method->run(session));
    return comm.agreement.conclude(link, operation, session.own(), fallout);
}

}  // namespace attile::core

#endif

// SPDX-License-Identifier: Apache-2.0
// The core's locks, and what becomes of them when the process forks.
//
// A child has one thread; a lock that another thread of the parent held would be held in it for ever, over a half-built state. So the
// thread that forks takes all of them first: what a child sees is whole. Chosen over locks that a child takes by force, which would have
// to be backed by state that is whole at every instant, the system's loader included. Under all locks but the registry's nothing is called
// but the C library, so taking them cannot wait for long or close a circle. Under the registry's, libraries are loaded: their constructors
// may do anything. It is therefore waited for only so long; where that was in vain, the child may use the backends that are there and load
// none.
#ifndef ATTILE_CORE_FORK_H
#define ATTILE_CORE_FORK_H

#include <mutex>

namespace attile::core {

// In the order in which they may be taken, one inside another.
struct Locks {
    std::mutex registry;  // through RegistryHold
    std::mutex contexts;  // and prepared calls, communicators, groups of ranks that form
    std::mutex report;
    std::mutex log;
};
extern Locks locks;

// Holds the registry's lock; not if this thread holds it already, because a backend that is being loaded, or the log's receiver, calls
// back.
class RegistryHold {
  public:
    RegistryHold();
    ~RegistryHold();
    RegistryHold(const RegistryHold &) = delete;
    RegistryHold &operator=(const RegistryHold &) = delete;
    bool held() const { return held_; }

  private:
    const bool held_;
};

// Whether this process was forked while another thread of its parent was loading a backend, and did not finish in time.
bool loading_was_cut_off();

// False if the system did not take the handlers, for lack of memory: asked for again where it matters.
bool fork_is_safe();

}  // namespace attile::core

#endif

// SPDX-License-Identifier: Apache-2.0
// Runs a program as a child with an environment of the test's own making and keeps all it writes.
#ifndef ATTILE_TESTS_CHILD_PROCESS_H
#define ATTILE_TESTS_CHILD_PROCESS_H

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace attile::test {

struct Child {
    std::vector<std::string> command;                // an absolute path, then its arguments
    std::map<std::string, std::string> environment;  // added to the parent's, from which everything of Attile's is taken out
    std::string directory;                           // "": the parent's
    uid_t user = 0;                                  // not 0: switch to this user and group
    int limit_s = ATTILE_CHILD_LIMIT_S;              // killed after that
};

struct Outcome {
    bool exited = false;  // false: ended by a signal, or by the limit
    int code = -1;        // exit status, or the signal's number
    std::string out;
    std::string err;
};

Outcome run_child(const Child &child);

}  // namespace attile::test

#endif

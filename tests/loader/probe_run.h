// SPDX-License-Identifier: Apache-2.0
// Running loader_probe, and looking into what it printed.
#ifndef ATTILE_TESTS_PROBE_RUN_H
#define ATTILE_TESTS_PROBE_RUN_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "child_process.h"

namespace attile::test {

inline const std::string kFakes = FAKES;
inline const std::string kAll = kFakes + "/all";

inline ::testing::AssertionResult has(const std::string &text, const std::string &part) {
    if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "no '" << part << "' in:\n" << text;
}

inline ::testing::AssertionResult lacks(const std::string &text, const std::string &part) {
    if (text.find(part) == std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "'" << part << "' in:\n" << text;
}

// The child's standard output. It must end well and the library must not have printed anything.
inline std::string probe(const std::vector<std::string> &words, const std::map<std::string, std::string> &environment = {},
                         const std::string &directory = "") {
    Child child;
    child.command = {LOADER_PROBE};
    child.command.insert(child.command.end(), words.begin(), words.end());
    child.environment = environment;
    child.directory = directory;
    const Outcome outcome = run_child(child);
    EXPECT_TRUE(outcome.exited && outcome.code == 0) << "exited " << outcome.exited << " code " << outcome.code << "\n" << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
}

// A directory of the test's own, removed with what is in it.
class ScratchDirectory {
  public:
    ScratchDirectory();
    ~ScratchDirectory();
    ScratchDirectory(const ScratchDirectory &) = delete;
    ScratchDirectory &operator=(const ScratchDirectory &) = delete;
    const std::string &path() const { return path_; }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace attile::test

#endif

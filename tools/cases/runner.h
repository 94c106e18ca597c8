// SPDX-License-Identifier: Apache-2.0
// Running a case on a backend and judging all of it. For GoogleTest, `attile verify` and benches alike; needs libattile and nothing else.
#pragma once

#include <attile/attile.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cases.h"
#include "test_tensor.h"

namespace attile::test {

enum class Outcome {
    kPassed,
    kFailed,
    kUnsupported,  ///< The query said NONE, the call failed with the same code, and nothing was written.
};

struct Report {
    std::string id, description;
    Outcome outcome = Outcome::kFailed;
    std::string message;  ///< Of a failure, or why it is not supported.
    std::string kernel;   ///< As the query names it.
    double worst = 0;     ///< Largest error as a share of what is allowed.
    double seconds = 0;   ///< The first run alone.
};

struct Answer;  ///< What every output of a case should be, and how far off it may be.

/// Answers by the ids of their cases, for whoever runs a case on several backends or in several kinds of memory. What comes when `bytes`
/// are taken is not kept.
class KnownAnswers {
  public:
    explicit KnownAnswers(std::size_t bytes) : left_(bytes) {}
    std::shared_ptr<const Answer> find(const std::string &id) const;
    void keep(const std::string &id, const std::shared_ptr<const Answer> &answer);

  private:
    std::map<std::string, std::shared_ptr<const Answer>> answers_;
    std::size_t left_;
};

struct RunOptions {
    Placement placement = Placement::kHost;
    bool rerun = true;              ///< Run again with a caller's workspace, then prepared, and want the same bits.
    int rerun_each = 1;             ///< verify_backend: one case in so many is run again.
    double most_work = 0;           ///< verify_backend: cases of more multiply-adds are left out; 0: none is.
    KnownAnswers *known = nullptr;  ///< Looked into and added to.
};

/// Checks on `context`: query and call agree; results, judged against `reference`, a context of the reference backend; NaN and infinities
/// where they belong and nowhere else; memory around outputs and workspace, inputs and padding unchanged; a second run gives the same bits.
void run_case(attile_context *context, attile_context *reference, const Case &test_case, const RunOptions &options, Report &report);

struct VerifySummary {
    int passed = 0, failed = 0, unsupported = 0;
    double worst = 0;
    std::string worst_id;
};

/// Every case whose id contains `filter`, on one context; `progress` hears each report as it comes, with its number and how many there are.
/// Throws std::runtime_error if the reference backend cannot be opened.
VerifySummary verify_backend(attile_context *context, Tier tier, const std::string &filter, const RunOptions &options,
                             const std::function<void(const Report &, int number, int total)> &progress);

}  // namespace attile::test

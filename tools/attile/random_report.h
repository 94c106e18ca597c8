// SPDX-License-Identifier: Apache-2.0
// What became of drawn problems: tables for people, JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "random_clock.h"
#include "random_problem.h"

namespace attile::cli {

struct Outcome {
    std::string id;
    Problem problem;
    std::string kernel;
    std::string why;       // Not empty: not run.
    bool refused = false;  // Not run because the backend does not have it.
    Work work;
    double floor = 0;  // Seconds by the roofline.
    Clocked clocked;

    double share() const { return floor / clocked.seconds; }
};

// The distributions of one operation, and its thirty worst.
std::string report(const std::vector<Outcome> &outcomes, const Roof &roof);

// Problems that were named: each with its time.
std::string table_of(const std::vector<Outcome> &outcomes, const Roof &roof);

// The distributions of one operation as an object of JSON, and an outcome as one.
std::string distribution_json(Operation operation, const std::vector<Outcome> &outcomes);
std::string outcome_json(const Outcome &outcome);
std::string roof_json(const Roof &roof);

}  // namespace attile::cli

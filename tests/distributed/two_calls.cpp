// SPDX-License-Identifier: Apache-2.0
#include "two_calls.h"

namespace attile::test {

std::vector<Result> call_twice(const RanksOptions &options, const std::function<void(Rank &, Problem &)> &prepare) {
    std::vector<Result> results(static_cast<std::size_t>(options.ranks));
    run_ranks(options, [&](Rank &rank) {
        Result &result = results[static_cast<std::size_t>(rank.rank)];
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        Problem problem(options.ranks);
        prepare(rank, problem);
        result.status = attile_attention_distributed(rank.comm, &problem.args);
        if (result.status != ATTILE_OK) result.why = last_error();
        Problem right(options.ranks);
        result.afterwards = attile_attention_distributed(rank.comm, &right.args);
        if (result.afterwards != ATTILE_OK) result.why_afterwards = last_error();
    });
    return results;
}

std::string name_of(const testing::TestParamInfo<Kind> &given) {
    constexpr const char *kNames[] = {"threads", "callbacks", "bare_callbacks"};
    return kNames[static_cast<int>(given.param)];
}

}  // namespace attile::test

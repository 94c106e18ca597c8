// SPDX-License-Identifier: Apache-2.0
// Cases of merging partial attention results, and of the gradients of that.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <vector>

#include "test_tensor.h"

namespace attile::test {

struct MergeCase {
    std::int32_t dtype = ATTILE_F32;
    std::int32_t out_dtype = ATTILE_F32;
    std::int64_t batch = 2, heads = 3, len = 5, head_dim_v = 8, parts = 2;
    double spread = 5;           ///< how far apart the parts' lse lie
    double empty_share = 0;      ///< share of the rows of a part that saw no key: lse -inf, and o full of NaN
    double nan_share = 0;        ///< share of the rows of a part whose lse is NaN
    bool lse = true;             ///< is the merged lse wanted
    std::int32_t in_place = -1;  ///< o and lse are this part's
    Layout part_layout = {}, o_layout = {}, lse_layout = {};
    std::uint32_t flags = 0;
    std::uint64_t seed = 1;
};

/// Its gradients. o, lse and the layouts of the parts are the forward case's, which asks for lse and is not in place.
struct MergeBackwardCase {
    MergeCase forward = {};
    std::int32_t dout_dtype = ATTILE_F32;
    std::int32_t grad_dtype = ATTILE_F32;  ///< of the gradients of the parts' o
    bool dlse = true;                      ///< is there a gradient of lse
    Layout dout_layout = {}, grad_layout = {};
};

struct Case;
enum class Tier;
void append_merge_cases(std::vector<Case> &list, Tier tier);
MergeCase random_merge(std::uint64_t seed);
std::string describe(const MergeCase &c);
void append_merge_backward_cases(std::vector<Case> &list, Tier tier);
MergeBackwardCase random_merge_backward(std::uint64_t seed);
std::string describe(const MergeBackwardCase &c);

}  // namespace attile::test

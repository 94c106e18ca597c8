// SPDX-License-Identifier: Apache-2.0
// Cases of reductions and softmax.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <vector>

#include "test_tensor.h"

namespace attile::test {

enum class RowPattern : std::uint8_t {
    kNormal,
    kPositive,
    kLarge,          ///< values of some hundreds: exp would overflow
    kMinusInfinity,  ///< some -inf, some rows of nothing else
    kNan,
    kInfinity,
    kSpread,      ///< over as many binary orders as the type has, halved
    kCancelling,  ///< sums of 0, or of the least number, of what lies over many orders
    kSubnormal,
    kZeros,  ///< of both signs
};

struct ReduceCase {
    std::int32_t dtype = ATTILE_F32, out_dtype = ATTILE_F32;
    std::vector<std::int64_t> shape;
    std::int32_t axis = -1;
    std::int32_t op = ATTILE_REDUCE_SUM;
    RowPattern pattern = RowPattern::kNormal;
    Layout x_layout = {}, y_layout = {};
    std::uint32_t flags = 0;
    std::uint64_t seed = 1;
};

struct SoftmaxCase {
    std::int32_t dtype = ATTILE_F32, out_dtype = ATTILE_F32;
    std::vector<std::int64_t> shape;
    std::int32_t axis = -1;
    RowPattern pattern = RowPattern::kNormal;
    bool in_place = false;
    Layout x_layout = {}, y_layout = {};
    std::uint32_t flags = 0;
    std::uint64_t seed = 1;
};

struct Case;
enum class Tier;
void append_reduce_cases(std::vector<Case> &list, Tier tier);
void append_softmax_cases(std::vector<Case> &list, Tier tier);
ReduceCase random_reduce(std::uint64_t seed);
SoftmaxCase random_softmax(std::uint64_t seed);
std::string describe(const ReduceCase &c);
std::string describe(const SoftmaxCase &c);

}  // namespace attile::test

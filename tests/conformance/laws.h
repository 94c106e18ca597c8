// SPDX-License-Identifier: Apache-2.0
// Laws: what must hold between a call and another made from it, whatever the right answer is. Problems are drawn at random from a seed;
// types, layouts and kinds of memory are drawn for each call anew. What rounding may do is bounded by norms of the operands, so no oracle
// is needed.
//
// Environment: ATTILE_LAW_SEEDS=first-last (1-8) are the problems that each law is held against, ATTILE_LAW_WORK (300000) about how many
// multiply-adds a call of theirs may take. A failure prints the line that reruns it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "properties.h"
#include "test_element.h"
#include "test_random.h"
#include "test_tensor.h"

namespace attile::test {

/// Thrown by a call whose query says NONE: the law says nothing about this problem.
struct NotSupported {};

/// One problem of a law on one backend.
class Draw {
  public:
    Draw(attile_context *on, std::uint64_t seed, const char *law, std::int64_t allowed_work);

    /// An operand, in a layout drawn for it; absent if it has no shape.
    TestTensor input(std::int32_t dtype, const Values &values);
    TestTensor output(std::int32_t dtype, const std::vector<std::int64_t> &shape);
    TestTensor in_place(std::int32_t dtype, const Values &values);
    /// Normal deviates times a factor, as the type holds them.
    Values normal(std::int32_t dtype, std::vector<std::int64_t> shape, double factor = 1);
    Values uniform(std::int32_t dtype, std::vector<std::int64_t> shape, double low, double high);
    std::vector<std::int64_t> permutation(std::int64_t count);
    /// One of the usual extents, at most `most`.
    std::int64_t extent(std::int64_t most);

    Random random;
    attile_context *context;
    std::int64_t work;  ///< multiply-adds that a call may take
    std::string story;  ///< The calls made so far, for a failure's message.

  private:
    Placement place();
    std::vector<Placement> places_;
};

/// Queries and runs a call, and throws std::runtime_error where the two disagree. `tensors` are fetched and must be undamaged.
template <class Args>
void perform(Draw &draw, const char *what, const Args &args, std::int32_t (*query)(attile_context *, const Args *, attile_support *),
             std::int32_t (*run)(attile_context *, const Args *), const std::vector<TestTensor *> &tensors);

std::int32_t wide(std::int32_t dtype);  ///< The type of lse and of sums.

/// Index i of an axis of the result is index indices[i] of the source's. An axis of extent 1 is one that broadcasts, and stays.
Values take(const Values &from, std::size_t axis, const std::vector<std::int64_t> &indices, bool broadcasts = false);
Values slice(const Values &from, std::size_t axis, std::int64_t begin, std::int64_t end, bool broadcasts = false);
Values join(const std::vector<Values> &parts, std::size_t axis);
Values times(const Values &values, double factor);
Values swapped(const Values &matrix, std::size_t axis = 0);  ///< Axes `axis` and `axis` + 1 change places.
std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end);
double max_abs(const Values &values);          ///< Of the finite ones.
double max_norm(const Values &values);         ///< Largest Euclidean length along the last axis.
double max_norm_across(const Values &values);  ///< Along the last axis but one.

/// Every element within `bound` plus `relative` of its size; infinities in the same places; NaN never passes.
testing::AssertionResult close(const Values &got, const Values &want, double bound, double relative = 0);
/// Equal, but where numbers this small were rounded in storage.
testing::AssertionResult equal(const Values &got, const Values &want, std::int32_t dtype, double factor = 1);

void hold_law(const char *name, void (*law)(Draw &));

#define ATTILE_LAW(name)                                \
    static void law_##name(Draw &draw);                 \
    TEST_F(Laws, name) { hold_law(#name, law_##name); } \
    static void law_##name(Draw &draw)

using Laws = PropertyTest;

}  // namespace attile::test

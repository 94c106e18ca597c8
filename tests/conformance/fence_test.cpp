// SPDX-License-Identifier: Apache-2.0
// The guarded tensors themselves: they must lie in memory as asked, and see every byte that is written where none may be.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "case_text.h"
#include "cases.h"
#include "test_tensor.h"

namespace attile::test {
namespace {

Values counting(std::vector<std::int64_t> shape) {
    Values values(std::move(shape));
    for (std::size_t i = 0; i < values.at.size(); ++i) values.at[i] = static_cast<double>(i);
    return values;
}

const Layout kLayouts[] = {
    {}, {.order = Order::kFortran, .pad = 3}, {.order = Order::kHeadsInside, .offset = 1}, {.step = 2, .reversed = 5}};

float *element(const TestTensor &tensor, std::int64_t i, std::int64_t j, std::int64_t k) {
    const attile_tensor &view = tensor.view();
    return static_cast<float *>(view.data) + i * view.stride[0] + j * view.stride[1] + k * view.stride[2];
}

TEST(TestTensor, LiesAsItsStridesSay) {
    const Values values = counting({2, 3, 5});
    for (const Layout &layout : kLayouts) {
        TestTensor tensor(nullptr, Placement::kHost, ATTILE_F32, values, layout);
        for (std::int64_t i = 0; i < 2; ++i)
            for (std::int64_t j = 0; j < 3; ++j)
                for (std::int64_t k = 0; k < 5; ++k) EXPECT_EQ(*element(tensor, i, j, k), values(i, j, k)) << describe(layout);
        tensor.fetch();
        EXPECT_EQ(tensor.values().at, values.at);
        EXPECT_EQ(tensor.damage(), "");
    }
}

TEST(TestTensor, AnInputSeesAnyWrite) {
    TestTensor tensor(nullptr, Placement::kHost, ATTILE_F32, counting({2, 3, 5}));
    *element(tensor, 1, 2, 4) = 0.5F;
    tensor.fetch();
    EXPECT_NE(tensor.damage(), "");
    tensor.reset();
    tensor.fetch();
    EXPECT_EQ(tensor.damage(), "");
}

TEST(TestTensor, AnOutputSeesWritesAroundIt) {
    for (const Layout &layout : kLayouts) {
        TestTensor tensor = TestTensor::output(nullptr, Placement::kHost, ATTILE_F32, {2, 3, 5}, layout);
        for (std::int64_t i = 0; i < 2; ++i)
            for (std::int64_t j = 0; j < 3; ++j)
                for (std::int64_t k = 0; k < 5; ++k) *element(tensor, i, j, k) = 1;
        tensor.fetch();
        EXPECT_EQ(tensor.damage(), "") << describe(layout);
        const std::int64_t last = layout.order == Order::kFortran ? 0 : 2;
        *(static_cast<float *>(tensor.view().data) + 5 * 3 * 2 * 4 + last) = 1;  // beyond every layout's elements
        tensor.fetch();
        EXPECT_NE(tensor.damage(), "") << describe(layout);
    }
}

TEST(TestTensor, KnowsWhatNobodyWrote) {
    TestTensor tensor = TestTensor::output(nullptr, Placement::kHost, ATTILE_BF16, {4});
    static_cast<std::uint16_t *>(tensor.view().data)[2] = 0x7fc0;
    tensor.fetch();
    EXPECT_EQ(tensor.untouched(), (std::vector<bool>{true, true, false, true}));
    EXPECT_TRUE(std::isnan(tensor.values().at[0]));
}

TEST(TestTensor, AWorkspaceSeesWritesAroundIt) {
    const TestWorkspace workspace(nullptr, Placement::kHost, 100);
    std::memset(workspace.data(), 0, 100);
    EXPECT_EQ(workspace.damage(), "");
    static_cast<char *>(workspace.data())[100] = 0;
    EXPECT_NE(workspace.damage(), "");
    const TestWorkspace before(nullptr, Placement::kHost, 100);
    static_cast<char *>(before.data())[-1] = 0;
    EXPECT_NE(before.damage(), "");
}

TEST(Cases, EveryIdIsUniqueAndFindsItsCase) {
    std::set<std::string> ids;
    for (const Case &each : list_cases(Tier::kFull)) EXPECT_TRUE(ids.insert(each.id).second) << each.id;
    for (const char *id : {"gemm.random.77777", "attention.random.4", "softmax.reversed.bf16", "attention_merge.one_part.f64"}) {
        const auto found = find_case(id);
        ASSERT_TRUE(found.has_value()) << id;
        EXPECT_EQ(found->id, id);
        EXPECT_EQ(describe(*found), describe(*find_case(id)));
    }
    for (const char *id : {"", "gemm", "gemm.random.", "gemm.random.x", "gemm.random.1x", "nothing.random.1", "gemm.nosuch.f32"})
        EXPECT_FALSE(find_case(id).has_value()) << id;
}

TEST(Cases, TheQuickListIsPartOfTheFullOne) {
    std::set<std::string> ids;
    for (const Case &each : list_cases(Tier::kFull)) ids.insert(each.id);
    for (const Case &each : list_cases(Tier::kQuick)) EXPECT_TRUE(ids.count(each.id) == 1) << each.id;
}

}  // namespace
}  // namespace attile::test

// SPDX-License-Identifier: Apache-2.0
// Plans that are kept: found by what they depend on and by nothing else, moved to the call's operands, never mixed up between threads.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "host/plan_cache.h"
#include "memory_device.h"

namespace attile::gpu {
namespace {

void *at(uintptr_t address) { return reinterpret_cast<void *>(address); }

attile_gemm_problem problem_of(int64_t m) {
    attile_gemm_problem problem = {};
    problem.struct_size = sizeof problem;
    problem.batch[0] = problem.batch[1] = 1;
    problem.m = m;
    problem.n = problem.k = 8;
    problem.a = {at(0x10000), ATTILE_F32, 0, {0, 0, 8, 1}};
    problem.b = {at(0x20000), ATTILE_F32, 0, {0, 0, 8, 1}};
    problem.d = {at(0x30000), ATTILE_F32, 0, {0, 0, 8, 1}};
    problem.alpha = 1;
    return problem;
}

// Remembers what it was made for, and fills all that a plan may.
struct Plan {
    const attile_gemm_problem *problem;
    int64_t m[32];

    int32_t describe(Device &, attile_support &) const { return ATTILE_OK; }
    void move_to(const attile_gemm_problem &to) { problem = &to; }
    int32_t launch(Device &, Workspace &, Stream) const {
        for (const int64_t each : m)
            if (each != problem->m) return ATTILE_ERROR_INTERNAL;
        return ATTILE_OK;
    }
};
Planned<attile_gemm_problem> plan_of(const attile_gemm_problem &problem) {
    Plan plan = {&problem, {}};
    for (int64_t &each : plan.m) each = problem.m;
    return Planned<attile_gemm_problem>(plan, problem.m);
}

class Caller {
  public:
    explicit Caller(PlanCache<attile_gemm_problem> &cache) : cache_(cache) {}
    // As run_on_device() does; what a launch of the plan gives.
    int32_t call(const attile_gemm_problem &problem, bool *was_found) {
        PlanKey<attile_gemm_problem> key(problem);
        const uint64_t hash = hash_of_key(key);
        Planned<attile_gemm_problem> planned;
        *was_found = cache_.find(key, hash, planned);
        if (!*was_found) {
            planned = plan_of(key.asked());
            cache_.keep(key, hash, planned);
        }
        planned.move_to(problem);
        Workspace workspace;
        if (planned.workspace_bytes() != problem.m) return ATTILE_ERROR_INTERNAL;
        return planned.launch(device_, workspace, nullptr);
    }

  private:
    PlanCache<attile_gemm_problem> &cache_;
    test::MemoryDevice device_{0};
};

TEST(PlanCache, FindsByWhatPlansDependOn) {
    PlanCache<attile_gemm_problem> cache;
    Caller caller(cache);
    bool was_found = true;
    const attile_gemm_problem first = problem_of(5);
    EXPECT_EQ(caller.call(first, &was_found), ATTILE_OK);
    EXPECT_FALSE(was_found);
    attile_gemm_problem same = first;
    same.a.data = at(0x50040);
    same.d.data = at(0x60000);
    same.launch.stream = at(1);
    same.launch.workspace = at(256);
    same.launch.workspace_bytes = 99;
    EXPECT_EQ(caller.call(same, &was_found), ATTILE_OK);
    EXPECT_TRUE(was_found);
    const auto differs = [&](const char *what, auto change) {
        attile_gemm_problem other = first;
        change(other);
        EXPECT_EQ(caller.call(other, &was_found), ATTILE_OK);
        EXPECT_FALSE(was_found) << what;
    };
    differs("alignment", [](attile_gemm_problem &p) { p.a.data = at(0x10010); });
    differs("rows", [](attile_gemm_problem &p) { p.m = 6; });
    differs("stride", [](attile_gemm_problem &p) { p.b.stride[2] = 9; });
    differs("flags", [](attile_gemm_problem &p) { p.launch.flags = ATTILE_FLAG_BATCH_INVARIANT; });
    differs("factor", [](attile_gemm_problem &p) { p.alpha = 2; });
    differs("operand", [](attile_gemm_problem &p) { p.c = p.d; });
}

TEST(PlanCache, AddressesStandForTheirOperands) {
    attile_gemm_problem problem = problem_of(5);
    problem.b.data = problem.a.data;  // A product with itself.
    const PlanKey<attile_gemm_problem> key(problem);
    EXPECT_EQ(operand_of(key.problem.a.data), 0);
    EXPECT_EQ(operand_of(key.problem.b.data), 1);
    EXPECT_EQ(key.problem.c.data, nullptr);
    EXPECT_EQ(operand_of(key.problem.d.data), 3);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(stand_in(2, at(0x12345))) % kSeenAlignment, uintptr_t{0x12345} % kSeenAlignment);
}

// More shapes than there are places, so that plans are replaced all the time.
TEST(PlanCache, ThreadsNeverGetAnothersPlan) {
    constexpr int kThreads = 4, kCalls = 20000;
    constexpr int64_t kShapes = 150;
    PlanCache<attile_gemm_problem> cache;
    std::atomic<int> wrong{0}, found{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            Caller caller(cache);
            uint32_t random = static_cast<uint32_t>(thread) + 1;
            for (int i = 0; i < kCalls; ++i) {
                random = random * 1664525 + 1013904223;
                bool was_found = false;
                if (caller.call(problem_of(1 + (random >> 16) % kShapes), &was_found) != ATTILE_OK) ++wrong;
                found += was_found ? 1 : 0;
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace attile::gpu

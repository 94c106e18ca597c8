// SPDX-License-Identifier: Apache-2.0
// gpu's host layer without a GPU: strided copies, cuts into chunks, the stager, the stream-ordered cache, the team of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "host/staged_problems.h"
#include "host/staging.h"
#include "host/staging_plan.h"
#include "host/stream_cache.h"
#include "host/strided_copy.h"
#include "host/team.h"
#include "memory_device.h"

namespace attile::test {
namespace {

using gpu::kStagedDims;

TEST(StridedCopy, GathersAndScattersAnyRange) {
    struct Case {
        int64_t extent[4], stride[4];
    };
    const Case cases[] = {
        {{2, 3, 4, 5}, {60, 20, 5, 1}},    // Dense.
        {{2, 3, 4, 5}, {70, 22, 5, 1}},    // Gaps between outer axes.
        {{2, 3, 4, 5}, {60, 5, 15, 1}},    // Heads inside.
        {{2, 3, 4, 5}, {1, 2, 6, 24}},     // First axis innermost.
        {{2, 3, 4, 5}, {200, 50, 12, 2}},  // Nothing contiguous.
        {{1, 3, 1, 5}, {0, 7, 0, 1}},      // Axes of extent 1.
        {{4, 3, 2, 5}, {0, 5, 15, 1}},     // A broadcast axis.
        {{1, 1, 1, 1}, {0, 0, 0, 0}},
    };
    for (const Case &c : cases) {
        std::vector<int32_t> memory(512);
        std::iota(memory.begin(), memory.end(), 0);
        int64_t dense_stride[4];
        const gpu::StridedBlock block = gpu::strided_block(c.extent, c.stride, 4, dense_stride);
        const int64_t count = block.count();
        for (int64_t step : {int64_t{1}, int64_t{3}, int64_t{7}, count}) {
            std::vector<int32_t> dense(static_cast<std::size_t>(count), -1);
            for (int64_t first = 0; first < count; first += step) {
                gpu::gather(dense.data() + first, memory.data(), block, first, std::min(step, count - first));
            }
            for (int64_t i = 0; i < c.extent[0]; ++i)
                for (int64_t j = 0; j < c.extent[1]; ++j)
                    for (int64_t k = 0; k < c.extent[2]; ++k)
                        for (int64_t l = 0; l < c.extent[3]; ++l) {
                            const int64_t from = i * c.stride[0] + j * c.stride[1] + k * c.stride[2] + l * c.stride[3];
                            const int64_t at = i * dense_stride[0] + j * dense_stride[1] + k * dense_stride[2] + l * dense_stride[3];
                            ASSERT_EQ(dense[static_cast<std::size_t>(at)], from) << "step " << step;
                        }
            std::vector<int32_t> again(512, -7);
            for (int64_t first = 0; first < count; first += step) {
                gpu::scatter(again.data(), dense.data() + first, block, first, std::min(step, count - first));
            }
            int64_t written = 0;
            for (std::size_t i = 0; i < again.size(); ++i) {
                if (again[i] == -7) continue;
                ASSERT_EQ(again[i], memory[i]);
                ++written;
            }
            ASSERT_EQ(written, count);
        }
    }
}

TEST(StridedCopy, NegativeStridesAndEveryElementSize) {
    const int64_t extent[4] = {3, 1, 2, 4}, stride[4] = {-8, 0, 4, -1};
    for (const int32_t bytes : {1, 2, 4, 8}) {
        std::vector<unsigned char> memory(static_cast<std::size_t>(24 * bytes));
        std::iota(memory.begin(), memory.end(), static_cast<unsigned char>(0));
        unsigned char *base = memory.data() + (16 + 3) * bytes;
        int64_t dense_stride[4];
        const gpu::StridedBlock block = gpu::strided_block(extent, stride, bytes, dense_stride);
        std::vector<unsigned char> dense(memory.size());
        gpu::gather(dense.data(), base, block, 0, block.count());
        for (int64_t i = 0; i < 3; ++i)
            for (int64_t k = 0; k < 2; ++k)
                for (int64_t l = 0; l < 4; ++l) {
                    const int64_t at = i * dense_stride[0] + k * dense_stride[2] + l * dense_stride[3];
                    ASSERT_EQ(std::memcmp(&dense[static_cast<std::size_t>(at * bytes)], base + (i * -8 + k * 4 - l) * bytes,
                                          static_cast<std::size_t>(bytes)),
                              0);
                }
        std::vector<unsigned char> again(memory.size());
        gpu::scatter(again.data() + (16 + 3) * bytes, dense.data(), block, 0, block.count());
        EXPECT_EQ(again, memory);
    }
}

TEST(HostTeam, CoversEveryElementOnce) {
    gpu::HostTeam team(4);
    for (const int64_t count : {0, 1, 9, 1000, 100003}) {
        std::vector<std::atomic<int>> touched(static_cast<std::size_t>(count));
        gpu::HostTask tasks[3];
        for (gpu::HostTask &task : tasks) {
            task.total = count;
            task.grain = 100;
            task.work = [&](int64_t first, int64_t length) {
                for (int64_t i = first; i < first + length; ++i) touched[static_cast<std::size_t>(i)].fetch_add(1);
            };
            team.begin(task);
        }
        for (gpu::HostTask &task : tasks) {
            team.finish(task);
            EXPECT_TRUE(team.is_done(task));
        }
        EXPECT_TRUE(std::all_of(touched.begin(), touched.end(), [](const std::atomic<int> &t) { return t.load() == 3; }));
    }
}

attile_operand operand_of(std::vector<float> &data, std::initializer_list<int64_t> strides) {
    attile_operand operand = {};
    operand.data = data.data();
    operand.dtype = ATTILE_F32;
    std::copy(strides.begin(), strides.end(), operand.stride);
    return operand;
}

// Softmax of rows of 100.
attile_softmax_problem softmax_of_rows(int64_t rows, std::vector<float> &x, std::vector<float> &y) {
    attile_softmax_problem problem = {};
    problem.shape[0] = rows;
    problem.shape[1] = problem.shape[2] = 1;
    problem.shape[3] = 100;
    problem.x = operand_of(x, {100, 0, 0, 1});
    problem.y = operand_of(y, {100, 0, 0, 1});
    return problem;
}

std::vector<float> random_floats(int64_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values) value = draw(engine);
    return values;
}

// Row i of a gemm problem as plain loops over whatever the stager made of it.
void plain_gemm(const attile_gemm_problem &p) {
    const auto at = [](const attile_operand &o, int64_t x, int64_t y, int64_t r, int64_t c) -> float & {
        return static_cast<float *>(o.data)[x * o.stride[0] + y * o.stride[1] + r * o.stride[2] + c * o.stride[3]];
    };
    for (int64_t x = 0; x < p.batch[0]; ++x)
        for (int64_t y = 0; y < p.batch[1]; ++y)
            for (int64_t m = 0; m < p.m; ++m)
                for (int64_t n = 0; n < p.n; ++n) {
                    double sum = 0;
                    for (int64_t k = 0; k < p.k; ++k) sum += double{at(p.a, x, y, m, k)} * at(p.b, x, y, k, n);
                    sum = p.alpha * sum + (p.c.dtype != 0 ? p.beta * at(p.c, x, y, m, n) : 0.0);
                    if (p.bias.dtype != 0) sum += at(p.bias, x, y, m, n);
                    at(p.d, x, y, m, n) = static_cast<float>(sum);
                }
}

struct GemmShape {
    int64_t x, y, m, n, k;
    int64_t device_bytes;
};

class StagedGemm : public testing::TestWithParam<GemmShape> {};

TEST_P(StagedGemm, EqualsTheWhole) {
    const GemmShape s = GetParam();
    std::vector<float> a = random_floats(s.x * s.m * s.k, 1), b = random_floats(s.y * s.k * s.n, 2), bias = random_floats(s.n, 3);
    std::vector<float> d(static_cast<std::size_t>(s.x * s.y * s.m * (s.n + 3)), std::numeric_limits<float>::quiet_NaN());
    std::vector<float> c = random_floats(static_cast<int64_t>(d.size()), 4), expected = d;
    attile_gemm_problem problem = {};
    problem.batch[0] = s.x;
    problem.batch[1] = s.y;
    problem.m = s.m;
    problem.n = s.n;
    problem.k = s.k;
    problem.alpha = 0.5;
    problem.beta = 2;
    problem.a = operand_of(a, {s.x == 1 ? 0 : s.m * s.k, 0, 1, s.m});  // Column-major, broadcast over y.
    problem.b = operand_of(b, {0, s.y == 1 ? 0 : s.k * s.n, s.n, 1});  // Broadcast over x.
    problem.bias = operand_of(bias, {0, 0, 0, 1});
    const int64_t row = s.n + 3;  // A gap after each row of C and D.
    problem.c = operand_of(c, {s.x == 1 ? 0 : s.y * s.m * row, s.y == 1 ? 0 : s.m * row, row, 1});
    problem.d = problem.c;
    problem.d.data = expected.data();
    plain_gemm(problem);
    problem.d.data = d.data();

    MemoryDevice device(s.device_bytes);
    std::size_t chunks = 0;
    {
        gpu::Stager stager(device, 3);
        gpu::StagedProblem<attile_gemm_problem> staged(problem);
        staged.call.run = [&](const int64_t count[kStagedDims], gpu::Stream) {
            staged.resize(count);
            ++chunks;
            plain_gemm(staged.problem);
            return ATTILE_OK;
        };
        ASSERT_EQ(stager.run(staged.call, nullptr), ATTILE_OK);
    }
    EXPECT_EQ(std::memcmp(d.data(), expected.data(), d.size() * sizeof(float)), 0);  // Gaps included: NaN bits must be as they were.
    EXPECT_LE(device.peak(), s.device_bytes);
    EXPECT_EQ(device.blocks(), 0U);
    EXPECT_EQ(device.events(), 0);
    const int64_t all = 4 * static_cast<int64_t>(a.size() + b.size() + 2 * d.size());
    if (s.device_bytes < all) {
        EXPECT_GT(chunks, 1U);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, StagedGemm,
                         testing::Values(GemmShape{1, 1, 3, 5, 7, 1 << 20}, GemmShape{3, 2, 17, 9, 5, 1 << 20},
                                         GemmShape{64, 3, 40, 30, 8, 200000},      // Cut along the batch,
                                         GemmShape{1, 1, 5000, 40, 8, 400000},     // rows,
                                         GemmShape{1, 1, 3000, 2600, 4, 6000000},  // rows and columns.
                                         GemmShape{2, 3, 600, 700, 3, 3000000}, GemmShape{2, 2, 5, 6, 0, 1 << 20}));

TEST(Stager, SaysWhenNotEvenOneChunkFits) {
    std::vector<float> a(1000), d(1000);
    attile_softmax_problem problem = {};
    problem.shape[0] = problem.shape[1] = problem.shape[2] = 1;
    problem.shape[3] = 1000;
    problem.x = operand_of(a, {0, 0, 0, 1});
    problem.y = operand_of(d, {0, 0, 0, 1});
    MemoryDevice device(4000);
    gpu::Stager stager(device, 1);
    gpu::StagedProblem<attile_softmax_problem> staged(problem);
    staged.call.run = [](const int64_t *, gpu::Stream) { return ATTILE_OK; };
    EXPECT_EQ(stager.run(staged.call, nullptr), ATTILE_ERROR_OUT_OF_DEVICE_MEMORY);
    device.is_capturing = true;
    EXPECT_EQ(stager.run(staged.call, nullptr), ATTILE_ERROR_UNSUPPORTED_MEMORY);
}

TEST(Stager, LeaksNothingWhereverItFails) {
    std::vector<float> x = random_floats(64 * 100, 1), y(x.size());
    for (int failing = 1; failing < 8; ++failing) {
        MemoryDevice device(20000);
        {
            gpu::Stager stager(device, 1);
            attile_softmax_problem problem = softmax_of_rows(64, x, y);
            gpu::StagedProblem<attile_softmax_problem> staged(problem);
            staged.call.run = [](const int64_t *, gpu::Stream) { return ATTILE_OK; };
            device.fail_copies_from(failing);
            EXPECT_EQ(stager.run(staged.call, nullptr), ATTILE_ERROR_DEVICE_FAULT);
        }
        EXPECT_EQ(device.blocks(), 0U);
        EXPECT_EQ(device.events(), 0);
    }
}

TEST(Stager, MemoryThatRunsOutBetweenChunksIsAnErrorOfTheDevice) {
    const std::vector<float> x = random_floats(64 * 100, 1);
    for (const int failing : {1, 2, 3}) {
        std::vector<float> from = x, y(x.size(), std::numeric_limits<float>::quiet_NaN());
        MemoryDevice device(20000);
        gpu::Stager stager(device, 1);
        attile_softmax_problem problem = softmax_of_rows(64, from, y);
        gpu::StagedProblem<attile_softmax_problem> staged(problem);
        int chunk = 0;
        staged.call.run = [&](const int64_t *, gpu::Stream) { return ++chunk == failing ? ATTILE_ERROR_OUT_OF_DEVICE_MEMORY : ATTILE_OK; };
        EXPECT_EQ(stager.run(staged.call, nullptr), failing == 1 ? ATTILE_ERROR_OUT_OF_DEVICE_MEMORY : ATTILE_ERROR_DEVICE_RUNTIME);
        EXPECT_EQ(chunk, failing);
        const bool is_untouched = std::all_of(y.begin(), y.end(), [](float value) { return std::isnan(value); });
        EXPECT_TRUE(is_untouched || failing > 1);
    }
}

// A row that cannot be cut takes more pinned pieces than there are, in both directions, and copies are over late.
TEST(Stager, ManyPiecesOfOneImage) {
    const int64_t length = 6 * gpu::PinnedPiece::kBytes / 4 + 1234567;
    std::vector<float> x = random_floats(length, 1), y(x.size());
    for (const int64_t step : {int64_t{1}, int64_t{2}}) {  // One run, and single elements.
        attile_softmax_problem problem = {};
        problem.shape[0] = problem.shape[1] = problem.shape[2] = 1;
        problem.shape[3] = length / step;
        problem.x = operand_of(x, {0, 0, 0, step});
        problem.y = operand_of(y, {0, 0, 0, step});
        std::fill(y.begin(), y.end(), -7.0f);
        MemoryDevice device(1 << 30);
        device.times_not_done = 2;
        {
            gpu::Stager stager(device, 3);
            gpu::StagedProblem<attile_softmax_problem> staged(problem);
            staged.call.run = [&](const int64_t count[kStagedDims], gpu::Stream) {
                staged.resize(count);
                std::memcpy(staged.problem.y.data, staged.problem.x.data, static_cast<std::size_t>(length / step) * sizeof(float));
                return ATTILE_OK;
            };
            for (int call = 0; call < 2; ++call) ASSERT_EQ(stager.run(staged.call, nullptr), ATTILE_OK);
        }
        bool is_right = true;
        for (std::size_t i = 0; i < y.size(); ++i)
            is_right =
                is_right && y[i] == (i % static_cast<std::size_t>(step) == 0 && static_cast<int64_t>(i) / step < length / step ? x[i] : -7);
        EXPECT_TRUE(is_right) << step;
        EXPECT_EQ(device.blocks(), 0U);
        EXPECT_EQ(device.events(), 0);
    }
}

// The last chunks get smaller, so that little is left to do when the last of them has been sent.
TEST(Stager, LastChunksAreSmaller) {
    std::vector<float> x = random_floats(100 * 1000, 1), y(x.size());
    attile_softmax_problem problem = softmax_of_rows(1000, x, y);
    MemoryDevice device(400000);  // Half of both.
    gpu::Stager stager(device, 1);
    gpu::StagedProblem<attile_softmax_problem> staged(problem);
    std::vector<int64_t> counts;
    staged.call.run = [&](const int64_t count[kStagedDims], gpu::Stream) {
        counts.push_back(count[0]);
        return ATTILE_OK;
    };
    ASSERT_EQ(stager.run(staged.call, nullptr), ATTILE_OK);
    ASSERT_GT(counts.size(), 3U);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 1000);
    EXPECT_TRUE(std::is_sorted(counts.rbegin(), counts.rend()));
    EXPECT_LE(counts.back(), counts.front() / 4);
}

// Rows behind the last packed sequence belong to no sequence: the caller's memory there must stay as it is, whatever the device's held.
TEST(Stager, RowsOfNoSequenceStayAsTheyAre) {
    constexpr int64_t kHeads = 3, kRows = 7, kUsed = 5, kDim = 4;
    std::vector<float> q = random_floats(kHeads * kRows * kDim, 1), o = random_floats(kHeads * kRows * kDim, 2);
    const std::vector<float> before = o;
    std::vector<int32_t> starts = {0, kUsed};
    attile_attention_problem problem = {};
    problem.batch = 1;
    problem.heads_q = problem.heads_kv = kHeads;
    problem.total_q = kRows;
    problem.len_q = kUsed;
    problem.len_k = kRows;
    problem.head_dim = problem.head_dim_v = kDim;
    problem.q = operand_of(q, {0, kRows * kDim, kDim, 1});
    problem.k = problem.v = problem.q;
    problem.o = operand_of(o, {0, kRows * kDim, kDim, 1});
    problem.cu_len_q.data = starts.data();
    problem.cu_len_q.dtype = ATTILE_I32;
    problem.cu_len_q.stride[0] = 1;
    MemoryDevice device(1 << 20);
    gpu::Stager stager(device, 1);
    gpu::StagedProblem<attile_attention_problem> staged(problem);
    staged.call.run = [&](const int64_t count[kStagedDims], gpu::Stream) {
        staged.resize(count);
        const attile_operand &to = staged.problem.o;
        for (int64_t h = 0; h < staged.problem.heads_q; ++h)
            for (int64_t i = 0; i < kUsed; ++i)
                for (int64_t d = 0; d < kDim; ++d)
                    static_cast<float *>(to.data)[h * to.stride[1] + i * to.stride[2] + d * to.stride[3]] = 9;
        return ATTILE_OK;
    };
    ASSERT_EQ(stager.run(staged.call, nullptr), ATTILE_OK);
    for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t i = 0; i < kRows; ++i)
            for (int64_t d = 0; d < kDim; ++d) {
                const auto at = static_cast<std::size_t>((h * kRows + i) * kDim + d);
                EXPECT_EQ(o[at], i < kUsed ? 9 : before[at]) << h << ' ' << i << ' ' << d;
            }
}

TEST(StagingPlan, AttentionIsCutByGroupsOfHeads) {
    attile_attention_problem problem = {};
    problem.batch = 1;
    problem.heads_q = 8;
    problem.heads_kv = 2;
    problem.len_q = problem.len_k = 1 << 16;
    problem.head_dim = problem.head_dim_v = 64;
    std::vector<float> dummy(1);
    for (attile_operand *operand : {&problem.q, &problem.k, &problem.v, &problem.o}) {
        *operand = operand_of(dummy, {0, int64_t{1} << 22, 64, 1});
    }
    gpu::StagedProblem<attile_attention_problem> staged(problem);
    gpu::ChunkPlan plan;
    ASSERT_TRUE(gpu::plan_chunks(staged.call, std::vector<bool>(staged.call.operands.size(), true), int64_t{1} << 33, &plan));
    EXPECT_EQ(plan.count[1], 1);
    staged.resize(plan.count);
    EXPECT_EQ(staged.problem.heads_kv, 1);
    EXPECT_EQ(staged.problem.heads_q, 4);
}

TEST(StreamCache, ReusesInStreamOrderAndTrims) {
    MemoryDevice device(1 << 20);
    gpu::StreamCache cache(device);
    cache.keep(4096);
    int one = 0, two = 0;
    void *first = nullptr, *second = nullptr;
    ASSERT_EQ(cache.alloc(1000, &one, &first), ATTILE_OK);
    ASSERT_EQ(cache.free(first, &one), ATTILE_OK);
    ASSERT_EQ(cache.alloc(900, &one, &second), ATTILE_OK);
    EXPECT_EQ(first, second);
    EXPECT_EQ(device.waits, 0);
    ASSERT_EQ(cache.free(second, &one), ATTILE_OK);
    ASSERT_EQ(cache.alloc(900, &two, &second), ATTILE_OK);
    EXPECT_EQ(first, second);
    EXPECT_EQ(device.waits, 1);  // The other stream's work comes first.
    ASSERT_EQ(cache.free(second, &two), ATTILE_OK);
    void *large = nullptr;
    ASSERT_EQ(cache.alloc(100000, &one, &large), ATTILE_OK);
    ASSERT_EQ(cache.free(large, &one), ATTILE_OK);
    EXPECT_LE(device.blocks(), 1U);  // More than is to be kept went back.
    EXPECT_EQ(cache.alloc(2 << 20, &one, &large), ATTILE_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_EQ(cache.free(&one, &one), ATTILE_ERROR_INTERNAL);
    device.is_capturing = true;
    EXPECT_EQ(cache.alloc(10, &one, &large), ATTILE_ERROR_WORKSPACE_TOO_SMALL);
}

}  // namespace
}  // namespace attile::test

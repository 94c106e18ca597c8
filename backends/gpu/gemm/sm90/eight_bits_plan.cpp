// SPDX-License-Identifier: Apache-2.0
// gemm of int8, and of e4m3 with FAST_ACCUMULATION, by wgmma: to TMA and to the plan, two numbers are an element of 16 bits, and the depth
// is half as long. Scales are applied to sums in registers. What is to be rewritten first, has other groups along the depth or
// has another epilogue is left to the plans for numbers of 8 bits, which come back here for what they have rewritten, or for exact sums.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "gemm/sm90/plan.h"
#include "host/status.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kMostExactDepth = 131071;  // (2^31 - 1) / 128^2
constexpr int64_t kGroup = 2 * kGemmDepth;   // Along the depth: a stage.

// The problem of pairs. Its type is D's, if that has 16 bits.
attile_gemm_problem of_pairs(const attile_gemm_problem &p) {
    attile_gemm_problem pairs = p;
    pairs.k = p.k / 2;
    pairs.a.dtype = pairs.b.dtype = p.d.dtype == ATTILE_F16 ? ATTILE_F16 : ATTILE_BF16;
    for (const int axis : {0, 1, 2}) pairs.a.stride[axis] /= 2;
    for (const int axis : {0, 1, 3}) pairs.b.stride[axis] /= 2;
    return pairs;
}

bool is_constant(const attile_operand &scale, int64_t group, int64_t k) { return scale.dtype == 0 || group >= k; }

bool are_constant(const attile_gemm_problem &p) {
    return is_constant(p.a_scale, p.a_group[1], p.k) && is_constant(p.b_scale, p.b_group[0], p.k);
}

// Rows along the depth that TMA reaches.
bool is_for_tiles(const attile_gemm_problem &p) {
    const auto is_whole = [](int64_t stride) { return stride % 16 == 0; };
    return p.k >= 2 && p.k % 2 == 0 && p.a.stride[3] == 1 && p.b.stride[2] == 1 && is_whole(p.a.stride[0]) && is_whole(p.a.stride[1]) &&
           is_whole(p.a.stride[2]) && is_whole(p.b.stride[0]) && is_whole(p.b.stride[1]) && is_whole(p.b.stride[3]);
}

// Batch entries may become rows, which scales do not follow: such products are made one after the other.
bool are_by_themselves(const attile_gemm_problem &p) {
    return p.batch[0] * p.batch[1] > 1 && (p.a_scale.dtype != 0 || p.b_scale.dtype != 0);
}
attile_gemm_problem entry_of(const attile_gemm_problem &p, int64_t x, int64_t y) {
    attile_gemm_problem entry = p;
    entry.batch[0] = entry.batch[1] = 1;
    for (attile_operand *const of : {&entry.a, &entry.b, &entry.c, &entry.d, &entry.bias, &entry.a_scale, &entry.b_scale}) {
        if (of->data != nullptr)
            of->data = static_cast<char *>(of->data) + (x * of->stride[0] + y * of->stride[1]) * ((of->dtype & 0xff) / 8);
        of->stride[0] = of->stride[1] = 0;
    }
    return entry;
}

// Can a kernel follow the scales along the depth, a stage at a time, by offsets of 32 bits?
bool are_stages(const attile_gemm_problem &p) {
    const auto is_near = [&](const attile_operand &x, int axis, int64_t extent) {
        const int64_t steps = p.k / kGroup, limit = 0x7fffffff / 2;
        return x.dtype == 0 || (std::abs(x.stride[axis]) <= limit / std::max<int64_t>(extent, 1) &&
                                std::abs(x.stride[5 - axis]) <= limit / std::max<int64_t>(steps, 1));
    };
    const auto goes = [&](const attile_operand &x, int64_t group) { return is_constant(x, group, p.k) || group == kGroup; };
    return goes(p.a_scale, p.a_group[1]) && goes(p.b_scale, p.b_group[0]) && is_near(p.a_scale, 2, p.m) && is_near(p.b_scale, 3, p.n);
}

// Are A and B exchanged, so that D is contiguous along its columns?
bool is_swapped(const attile_gemm_problem &pairs) {
    attile_gemm_problem told_apart = pairs;
    told_apart.a.data = reinterpret_cast<void *>(uintptr_t{1} << 12);
    told_apart.b.data = reinterpret_cast<void *>(uintptr_t{2} << 12);
    return gemm_operands(told_apart).params.a.data == told_apart.b.data;
}

// The sides of the tile's scales: of which axis, and of the depth's.
GemmScales scales(const attile_operand &x, int axis, int64_t group, int64_t depth_group, int64_t k) {
    if (x.dtype == 0) return {};
    return {static_cast<const float *>(x.data), x.stride[axis], Divider(std::max<int64_t>(group, 1)),
            is_constant(x, depth_group, k) ? 0 : x.stride[5 - axis]};
}

// Which numbers the kernels multiply as they are; kHalves: none of these.
GemmSource source_of(const attile_gemm_problem &p) {
    const bool is_constant_along = are_constant(p);
    if (p.a.dtype == ATTILE_I8 && p.b.dtype == ATTILE_I8 && is_constant_along && p.k <= kMostExactDepth) return GemmSource::kInt8;
    const bool may_be_fast = (p.launch.flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0;
    if (!may_be_fast || p.a.dtype != ATTILE_F8_E4M3 || p.b.dtype != ATTILE_F8_E4M3) return GemmSource::kHalves;
    return is_constant_along ? GemmSource::kFloat8 : are_stages(p) ? GemmSource::kFloat8Groups : GemmSource::kHalves;
}

// In the tile's orientation.
TileScales scales_of_tile(const attile_gemm_problem &p, bool swapped) {
    TileScales of = {scales(p.a_scale, 2, p.a_group[0], p.a_group[1], p.k), scales(p.b_scale, 3, p.b_group[1], p.b_group[0], p.k)};
    if (swapped) std::swap(of.rows, of.columns);
    of.columns_first = swapped;
    of.grouped = !are_constant(p);
    return of;
}

GemmPlan plan_of(const DeviceProperties &properties, const attile_gemm_problem &p, bool swapped) {
    GemmPlan plan = gemm_plan(properties, of_pairs(p), source_of(p));
    plan.column_scales = swapped ? p.a_scale.dtype != 0 && p.a_group[0] == 1 : p.b_scale.dtype != 0 && p.b_group[1] == 1;
    return plan;
}

struct EightBitsGemm {
    const attile_gemm_problem *problem;
    GemmPlan plan;  // Of the first entry where entries are by themselves.
    bool swapped;

    int32_t describe(Device &device, attile_support &support) const {
        const bool is_first = are_by_themselves(*problem);
        const int32_t status = describe_tiles(device, of_pairs(is_first ? entry_of(*problem, 0, 0) : *problem), plan, support);
        gemm_work(*problem, support);
        support.tile_k = 2 * kGemmDepth;
        return status;
    }
    void move_to(const attile_gemm_problem &to) {
        problem = &to;
        gemm_move(plan.params, to);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        const attile_gemm_problem &p = *problem;
        const int32_t dtype = of_pairs(p).a.dtype;
        if (!are_by_themselves(p)) return launch_tiles(device, plan, dtype, scales_of_tile(p, swapped), workspace, stream);
        int32_t status = ATTILE_OK;
        for (int64_t entry = 0; entry < p.batch[0] * p.batch[1] && status == ATTILE_OK; ++entry) {
            const attile_gemm_problem one = entry_of(p, entry / p.batch[1], entry % p.batch[1]);
            Workspace same = workspace;  // Launches follow each other.
            status = launch_tiles(device, plan_of(device.properties(), one, swapped), dtype, scales_of_tile(one, swapped), same, stream);
        }
        return status;
    }
};

struct ResiduesGemm {
    const ResidueSums *problem;
    GemmPlan plan;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = describe_tiles(device, of_pairs(problem->sums), plan, support);
        gemm_work(problem->sums, support);
        support.tile_k = 2 * kGemmDepth;
        return status;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        GemmModuli moduli = {Divider(plan.batches / problem->sums.batch[0]), {}};
        std::copy(std::begin(problem->largest), std::end(problem->largest), moduli.largest);
        return launch_tiles(device, plan, ATTILE_BF16, {}, workspace, stream, nullptr, &moduli);
    }
};

}  // namespace

Planned<attile_gemm_problem> plan_gemm_eight_bits(Device &device, const attile_gemm_problem &p) {
    // Declined without a word: the plans for numbers of 8 bits come back for sums, by these kernels after all.
    const GemmSource source = source_of(p);
    if (source == GemmSource::kHalves || !is_for_tiles(p)) return {};
    // Exact sums may as well be scaled elsewhere.
    const bool by_themselves = are_by_themselves(p);
    if (by_themselves && source == GemmSource::kInt8) return {};
    const attile_gemm_problem first = by_themselves ? entry_of(p, 0, 0) : p;
    const bool swapped = is_swapped(of_pairs(first));
    const GemmPlan plan = plan_of(device.properties(), first, swapped);
    if (plan.declined[0] != '\0' || plan.pack_a || plan.pack_b) return {};
    return Planned<attile_gemm_problem>(EightBitsGemm{&p, plan, swapped}, plan.workspace_bytes);
}

// Entries of the inner batch axis may become rows; those of one modulus follow each other in any case.
Planned<ResidueSums> plan_residues(Device &device, const ResidueSums &problem) {
    const attile_gemm_problem &sums = problem.sums;
    if (sums.k > kMostExactDepth || !is_for_tiles(sums)) return {};
    const GemmPlan plan = gemm_plan(device.properties(), of_pairs(sums), GemmSource::kResidues);
    if (plan.declined[0] != '\0' || plan.pack_a || plan.pack_b) return {};
    return Planned<ResidueSums>(ResiduesGemm{&problem, plan}, plan.workspace_bytes);
}

}  // namespace attile::gpu::sm90

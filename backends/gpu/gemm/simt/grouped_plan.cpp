// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "gemm/groups.h"
#include "gemm/narrow_operands.h"
#include "gemm/simt/grouped.h"
#include "gemm/simt/plan.h"
#include "host/sizes.h"

namespace attile::gpu::simt {
namespace {

constexpr double kPeakShare = 0.6;     // Of the peak, where all rows of tiles are used.
constexpr int64_t kRowsForLarge = 96;  // A group has on average, for the larger tile.

struct GroupedGemm {
    const attile_gemm_grouped_problem *problem;
    GemmShape shape;
    const GemmGroupedTile *tile;
    const void *kernel;
    const char *variant;
    int64_t row_tiles;

    int64_t column_tiles() const { return ceil_div(shape.params.n, tile->n); }

    int32_t describe(Device &device, attile_support &support) const {
        gemm_groups_work(*problem, support);
        support.level = shape.unit_strides ? ATTILE_SUPPORT_NATIVE : ATTILE_SUPPORT_EMULATED;
        support.status = ATTILE_OK;
        std::snprintf(support.kernel, sizeof support.kernel, "%s_%s", tile->name, variant);
        if (!shape.unit_strides)
            std::snprintf(support.text, sizeof support.text, "A or B has unit stride along neither axis: elements are read one by one");
        else if (is_narrow(problem->product->b.dtype))
            std::snprintf(support.text, sizeof support.text, "numbers of B become float32 in each tile of rows");
        support.tile_m = tile->m;
        support.tile_n = tile->n;
        support.tile_k = 8;
        support.threads = tile->threads;
        support.splits = 1;
        support.blocks = row_tiles * column_tiles();
        KernelResources resources;
        int32_t status = device.resources(kernel, &resources);
        if (status == ATTILE_OK) status = device.occupancy(kernel, tile->threads, 0, &support.blocks_per_unit);
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static;
        const DeviceProperties &properties = device.properties();
        const double peak = shape.dtype == ATTILE_F64 ? properties.peak_flops_f64 : properties.peak_flops_f32;
        if (peak > 0 && properties.peak_bandwidth > 0) {
            const double rows = static_cast<double>(problem->product->m), made = static_cast<double>(row_tiles) * tile->m;
            const double floor = std::max(support.flops / peak, support.bytes / properties.peak_bandwidth);
            const double seconds = std::max(support.flops / (kPeakShare * peak) * made / rows, floor);
            support.predicted_share = seconds > 0 ? floor / seconds : 1;
        }
        count_matrix_units(properties, shape.dtype, support);
        return status;
    }

    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        GemmGroupedNarrowParams all = {};
        const attile_gemm_problem &product = *problem->product;
        all.narrow = {scales_of(product.b_scale, 3, 2, product.b_group[1], product.b_group[0]),
                      scales_of(product.b_zero, 3, 2, product.b_group[1], product.b_group[0]), product.b.dtype, 0};
        GemmGroupedParams &p = all.grouped;  // All that kernels of one type take.
        const int32_t found = launch_row_groups(device, *problem, tile->m, workspace, stream, &p.groups);
        if (found != ATTILE_OK) return found;
        p.product = shape.params;
        p.product.splits = 1;
        p.product.tiles_n = static_cast<uint32_t>(column_tiles());
        p.product.columns = p.product.n;
        p.product.vectorised = gemm_vectorised(p.product) ? 1 : 0;
        void *arguments[] = {&all, nullptr};
        const int64_t at_once = kMaxGridX / column_tiles();
        for (int64_t first = 0; first < row_tiles; first += at_once) {
            p.first_tile = static_cast<uint32_t>(first);
            const int64_t blocks = std::min(at_once, row_tiles - first) * column_tiles();
            const int32_t status = device.launch(kernel, Dim3{static_cast<uint32_t>(blocks)}, Dim3{static_cast<uint32_t>(tile->threads)}, 0,
                                                 arguments, stream);
            if (status != ATTILE_OK) return status;
        }
        if (shape.dtype != ATTILE_F64 || p.product.activation == ATTILE_ACTIVATION_NONE) return ATTILE_OK;
        const int64_t wanted = ceil_div(product.m, kGemmGroupedActivateThreads) * p.product.n;
        const int64_t blocks = std::clamp<int64_t>(wanted, 1, int64_t{16} * std::max(1, device.properties().compute_units));
        return device.launch(gemm_grouped_activate_f64(), Dim3{static_cast<uint32_t>(blocks)}, Dim3{kGemmGroupedActivateThreads}, 0,
                             arguments, stream);
    }
};

}  // namespace

Planned<attile_gemm_grouped_problem> plan_gemm_grouped(Device &, const attile_gemm_grouped_problem &problem) {
    const attile_gemm_problem &product = *problem.product;
    const auto refuse = Planned<attile_gemm_grouped_problem>::refused;
    const bool narrow = is_narrow(product.b.dtype);
    if (narrow && std::max(product.n, product.k) > kMostExtent) {
        return refuse(ATTILE_ERROR_UNSUPPORTED_SHAPE, "gemm_grouped: b of 8 or 4 bits is %lld x %lld; extents of such are below 2^31",
                      static_cast<long long>(product.k), static_cast<long long>(product.n));
    }
    GroupedGemm plan = {};
    plan.problem = &problem;
    plan.shape = gemm_shape_of_groups(product);
    const bool vectors = plan.shape.a_vectors && plan.shape.b_vectors;
    plan.variant = !plan.shape.unit_strides ? "strided" : vectors ? "aligned" : "unaligned";
    if (narrow) {
        plan.tile = gemm_grouped_narrow_tile(product.a.dtype);
        plan.kernel = plan.shape.a_vectors ? plan.tile->vectors : plan.tile->strided;
        plan.variant = plan.shape.a_vectors ? "aligned" : "strided";
    } else {
        const GemmGroupedTile *const tiles = gemm_grouped_tiles(product.a.dtype);
        const bool large = vectors && tiles[1].name != nullptr && product.m >= kRowsForLarge * product.batch[1];
        plan.tile = &tiles[tiles[1].name != nullptr && !large ? 1 : 0];
        plan.kernel = !plan.shape.unit_strides ? plan.tile->strided : vectors ? plan.tile->vectors : plan.tile->unaligned;
    }
    plan.row_tiles = most_row_tiles(problem, plan.tile->m);
    if (!row_groups_fit(problem, plan.tile->m) || plan.column_tiles() > kMaxGridX) {
        return refuse(ATTILE_ERROR_UNSUPPORTED_SHAPE, "gemm_grouped: %lld rows in %lld groups are more than a GPU's kernels count",
                      static_cast<long long>(product.m), static_cast<long long>(product.batch[1]));
    }
    return Planned<attile_gemm_grouped_problem>(plan, row_groups_bytes(problem));
}

}  // namespace attile::gpu::simt

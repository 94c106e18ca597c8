// SPDX-License-Identifier: Apache-2.0
#include "gemm/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "host/sizes.h"
#include "host/workspace.h"

namespace attile::gpu {
namespace {

constexpr GemmTileModel kModelsF32[] = {
    {simt::kGemmTile64x128, "gemm_f32_64x128x8", 64, 128, 128, 4, 0.770, 0.66, 1.0e-6, 1.5},
    {simt::kGemmTile128x128, "gemm_f32_128x128x8", 128, 128, 256, 2, 0.775, 0.66, 1.6e-6, 1.5},
    {simt::kGemmTile64x64, "gemm_f32_64x64x8", 64, 64, 64, 6, 0.72, 0.57, 1.0e-6, 1.5},
    {simt::kGemmTile32x32, "gemm_f32_32x32x8", 32, 32, 32, 16, 0.50, 0.45, 1.0e-6, 7},
    {},
};
constexpr GemmTileModel kModelsHalf[] = {
    {simt::kGemmTile128x128, "gemm_16bit_128x128x8", 128, 128, 256, 2, 0.75, 0.66, 1.6e-6, 1.5},
    {simt::kGemmTile64x64, "gemm_16bit_64x64x8", 64, 64, 64, 6, 0.69, 0.60, 1.0e-6, 1.5},
    {simt::kGemmTile32x32, "gemm_16bit_32x32x8", 32, 32, 32, 16, 0.45, 0.40, 1.0e-6, 7},
    {},
};
constexpr GemmTileModel kModelsF64[] = {
    {simt::kGemmTile64x64, "gemm_f64_64x64x8", 64, 64, 128, 3, 0.68, 0.64, 1.2e-6, 1.5},
    {simt::kGemmTile32x32, "gemm_f64_32x32x8", 32, 32, 64, 6, 0.45, 0.40, 1.0e-6, 7},
    {},
};

constexpr double kLaunchSeconds = 2.0e-6;  // A kernel that waits for the one before it.
constexpr double kChunkSeconds = 0.75e-6;  // From a chunk of depth to the next, if a block waits for memory at each.
constexpr double kSkinnySeconds = 2.4e-6;  // The start and end of a skinny block.
constexpr double kCombineSeconds = 3.0e-6;
constexpr double kCombineShare = 0.4;  // Of the peak bandwidth; short, and each thread waits for few loads.
constexpr double kCombinePlainSeconds = 1.5e-6;
constexpr double kCombinePlainShare = 0.9;
constexpr double kRoundSeconds = 0.1e-6;   // One more partial result in a combining thread.
constexpr double kMemoryShare = 0.85;      // Of the peak bandwidth that streaming kernels reach.
constexpr double kUnalignedIdleWarps = 2;  // More that idle where elements are read one by one.
constexpr double kPays = 0.997;            // What is tried later is taken if it takes less than this part of the time.
constexpr int kGemmDepth = 8;              // Of the tile kernels' chunks.
constexpr int64_t kMinSplitDepth = 32;     // Below it a split costs more than it brings.
constexpr int kMaxSplits = 256;
constexpr int64_t kMaxPartialBytes = int64_t{1} << 30;
constexpr int64_t kInvariantRows = 256;  // The row count that a batch-invariant plan is made for, whatever it is.
// A batch-invariant product adds at most so many terms one after the other, as long as a row's partial results are at most so many: with
// longer chains the rounding of a sum of one sign grows, and few rows do not have the splits that few outputs have otherwise.
constexpr int64_t kInvariantChain = 2048;
constexpr int64_t kMostInvariantPartials = 65536;

// The device in the units of the model; a property the device does not tell is set to something sober.
struct Rates {
    double units, flops, bandwidth;
};

Rates rates_of(const DeviceProperties &device, bool f64) {
    Rates rates;
    rates.units = std::max(1, device.compute_units);
    rates.flops = f64 ? device.peak_flops_f64 : device.peak_flops_f32;
    if (!(rates.flops > 0)) rates.flops = 1e13;
    rates.bandwidth = device.peak_bandwidth > 0 ? device.peak_bandwidth : 5e11;
    return rates;
}

// Share of what a unit could do that so many resident warps reach.
double occupancy_share(const GemmTileModel &model, double blocks, bool unaligned) {
    const double warps = blocks * model.threads / 32;
    return warps / (warps + model.idle_warps + (unaligned ? kUnalignedIdleWarps : 0));
}

// By strides alone: a query knows no addresses, and the workspace must be what the run will want.
double model_rate(const GemmTileModel &model, const GemmShape &shape) {
    if (!shape.unit_strides) return 0.8 * model.unaligned;
    if (!shape.vector_strides) return model.unaligned;
    return model.rate;
}

// That tile has kernels for the plain epilogue without C, and for a B contiguous along columns: of the other its threads read half lines.
bool suits_64x128(const GemmShape &shape) {
    return shape.direct_strides && shape.vector_strides && shape.params.c.dtype == 0 && shape.params.b.along_depth == 0;
}

struct Split {
    int count;
    int64_t depth;
};

Split split_of(int64_t k, int count, int64_t granule) {
    const int64_t depth = ceil_div(ceil_div(k, count), granule) * granule;
    return {static_cast<int>(ceil_div(k, depth)), depth};
}

double combine_seconds(const Rates &rates, double outputs, int splits, int bytes, bool plain) {
    if (plain) return kCombinePlainSeconds + outputs * (splits + 1) * bytes / (kCombinePlainShare * rates.bandwidth);
    const double rounds = splits < simt::kGemmCombineWays ? splits : std::ceil(static_cast<double>(splits) / simt::kGemmCombineWays);
    return kCombineSeconds + outputs * (splits + 1) * bytes / (kCombineShare * rates.bandwidth) + rounds * kRoundSeconds;
}

double tile_seconds(const Rates &rates, const GemmTileModel &model, int64_t m, int64_t n, int64_t k, int64_t batches, double rate,
                    const Split &split, int out_bytes, bool unaligned) {
    const double blocks =
        static_cast<double>(ceil_div(m, model.m)) * static_cast<double>(ceil_div(n, model.n)) * static_cast<double>(batches) * split.count;
    const double busiest = std::ceil(blocks / rates.units);  // Blocks of the unit that has the most.
    const double depth = static_cast<double>(std::min(split.depth, k));
    const double block_flops = 2.0 * model.m * model.n * depth;
    const double rounds = std::floor(busiest / model.resident);
    const double rest = busiest - rounds * model.resident;
    const double full = occupancy_share(model, model.resident, unaligned);
    const double unit_rate = rates.flops / rates.units * rate;
    const double block_bytes = static_cast<double>(model.m) * model.n * out_bytes;
    double seconds = kLaunchSeconds;
    const double chunks = std::ceil(depth / kGemmDepth);
    const auto add_round = [&](double resident) {
        const double arithmetic = resident * block_flops * full / (unit_rate * occupancy_share(model, resident, unaligned));
        seconds += std::max(arithmetic, chunks * kChunkSeconds) + model.round_seconds +
                   resident * block_bytes * rates.units / (kMemoryShare * rates.bandwidth);
    };
    if (rounds > 0) {
        const double before = seconds;
        add_round(model.resident);
        seconds = before + (seconds - before) * rounds;
    }
    if (rest > 0) add_round(rest);
    return seconds;
}

struct Best {
    const GemmTileModel *model = nullptr;
    const simt::GemmSkinnyKernels *skinny = nullptr;
    Split split = {1, 0};
    double seconds = 1e300;
};

const simt::GemmKernels &kernels_of(int32_t dtype) {
    switch (dtype) {
        case ATTILE_F64:
            return simt::gemm_kernels_f64();
        case ATTILE_F16:
            return simt::gemm_kernels_f16();
        case ATTILE_BF16:
            return simt::gemm_kernels_bf16();
        default:
            return simt::gemm_kernels_f32();
    }
}

// Of a batch-invariant product the splits alone decide its bits, whatever the tile: they are chosen for a fixed number of rows.
int splits_of_columns(const Rates &rates, const GemmTileModel *models, const GemmShape &shape, int bytes) {
    const GemmParams &p = shape.params;
    const int64_t columns = shape.transposed ? p.m : p.n;
    const GemmTileModel *model = models;
    while (model->id != simt::kGemmTile64x64) ++model;
    int best = 1;
    double best_seconds = 1e300;
    for (int count = 1; count <= 8 && (count == 1 || p.k >= count * kMinSplitDepth); ++count) {
        const Split split = split_of(p.k, count, 16);
        double seconds = tile_seconds(rates, *model, kInvariantRows, columns, p.k, 1, model->rate, split, bytes, false);
        if (count > 1) {
            seconds +=
                combine_seconds(rates, static_cast<double>(kInvariantRows) * static_cast<double>(columns), split.count, bytes, false);
        }
        if (seconds < 0.98 * best_seconds) {
            best = count;
            best_seconds = seconds;
        }
    }
    const int64_t accurate =
        std::min({ceil_div(p.k, kInvariantChain), kMostInvariantPartials / std::max<int64_t>(columns, 1), int64_t{kMaxSplits}});
    return std::max(best, static_cast<int>(accurate));
}

// Does all that the kernel of unaligned rows reads lie between an operand's first and last element? It reads B as far as its tile's columns
// reach and A up to three depths ahead, none of both of the last depths, which are left over. Their order of summation is its own.
bool reads_unaligned_rows(const GemmPlan &plan, const GemmShape &shape) {
    constexpr int64_t kTileColumns = 128, kVector = 4;
    const GemmParams &p = shape.params;
    if (shape.dtype != ATTILE_F32 || p.a.along_depth == 0 || p.b.along_depth != 0) return false;
    if (p.a.outer < kVector || p.b.depth < kTileColumns || p.b.depth * kGemmDepth * 4 > INT32_MAX) return false;
    const int64_t begin = (plan.splits - 1) * plan.split_depth, left_over = (p.k - begin - 1) % kGemmDepth + 1;
    if (left_over >= kVector - 1) return true;
    const auto last_row = reinterpret_cast<uintptr_t>(p.a.data) / 4 + static_cast<uintptr_t>((p.m - 1) * p.a.outer + begin);
    const auto ahead = static_cast<int64_t>((0 - last_row) % kVector);
    return p.a.batch_x % kVector == 0 && p.a.batch_y % kVector == 0 && ahead <= left_over;
}

// The kernel of a tile for the operands as they are. Where a tile has none, the nearest tile that has takes over: which bits come out does
// not depend on the tile.
void resolve_tile(GemmPlan &plan, const GemmShape &shape, const GemmTileModel *models, const GemmTileModel *wanted, bool batch_invariant) {
    const simt::GemmKernels &kernels = kernels_of(shape.dtype);
    const bool aligned = shape.a_vectors && shape.b_vectors;
    const bool reads_c =
        shape.params.c.dtype != 0 && shape.params.a.along_depth != 0 && shape.params.b.along_depth != 0;  // No such kernel.
    const bool direct = plan.combine || (shape.direct && !reads_c);
    const auto kernel_of = [&](const GemmTileModel &model) -> const void * {
        const simt::GemmTileKernels &tile = kernels.tiles[model.id];
        if (!shape.unit_strides) {
            plan.variant = "strided";
            return tile.strided;
        }
        if (!aligned) {
            const bool rows = !batch_invariant && tile.unaligned_rows != nullptr && reads_unaligned_rows(plan, shape);
            plan.variant = "unaligned";
            return rows ? tile.unaligned_rows : tile.unaligned;
        }
        plan.variant = "direct";
        const void *kernel = tile.direct[shape.params.a.along_depth][shape.params.b.along_depth];
        if (direct && kernel != nullptr) return kernel;
        plan.variant = "aligned";
        return tile.aligned;
    };
    const GemmTileModel *model = wanted;
    plan.kernel = kernel_of(*model);
    for (const GemmTileModel *other = models; plan.kernel == nullptr && other->name != nullptr; ++other) {
        model = other;
        plan.kernel = kernel_of(*other);
    }
    plan.name = model->name;
    plan.tile_m = model->m;
    plan.tile_n = model->n;
    plan.tile_k = kGemmDepth;
    plan.threads = model->threads;
    plan.tiles_m = ceil_div(shape.params.m, model->m);
    plan.tiles_n = ceil_div(shape.params.n, model->n);
}

}  // namespace

const GemmTileModel *gemm_tile_models(int bytes) { return bytes == 8 ? kModelsF64 : bytes == 2 ? kModelsHalf : kModelsF32; }

bool gemm_combines_plainly(const GemmProduct &product, int splits) {
    const GemmParams &p = product.params;
    constexpr int64_t kMost = int64_t{1} << 31;
    return product.batches == 1 && splits > 0 && splits <= simt::kGemmCombineWays && p.c.dtype == 0 && !gemm_has_epilogue(p) &&
           product.dtype != ATTILE_F64 && p.d.dtype == ATTILE_F32 && p.d.col == 1 && p.m < kMost && p.m * (p.n + 3) < kMost;
}

GemmPlan gemm_plan(const DeviceProperties &device, const GemmShape &shape, bool batch_invariant) {
    GemmPlan plan;
    const GemmParams &p = shape.params;
    const bool f64 = shape.dtype == ATTILE_F64;
    const int bytes = (shape.dtype & 0xff) / 8;
    const int sum_bytes = f64 ? 8 : 4;
    plan.partial_row = ceil_div(p.n, 4) * 4;
    if (p.k == 0) {
        plan.name = "gemm_combine";
        plan.threads = simt::kGemmCombineThreads;
        plan.splits = 0;
        plan.combine = true;
        return plan;
    }
    const Rates rates = rates_of(device, f64);
    const bool must_combine = f64 && p.activation != ATTILE_ACTIVATION_NONE;
    const int64_t real_outputs = shape.batches * p.m * plan.partial_row;
    const double outputs = static_cast<double>(real_outputs);
    const double a_bytes =
        static_cast<double>(p.m) * static_cast<double>(p.k) * static_cast<double>(p.a.batch_y != 0 ? shape.batches : 1) * bytes;
    const double b_bytes =
        static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.b.batch_y != 0 ? shape.batches : 1) * bytes;
    const double read_seconds = (a_bytes + b_bytes) / (kMemoryShare * rates.bandwidth);
    const GemmTileModel *const models = gemm_tile_models(bytes);
    const int invariant_splits = batch_invariant ? splits_of_columns(rates, models, shape, sum_bytes) : 0;

    Best best;
    const auto worth = [&](int count) {
        if (batch_invariant) return count <= invariant_splits;
        return count == 1 || (p.k >= count * kMinSplitDepth && real_outputs <= kMaxPartialBytes / sum_bytes / count);
    };
    for (const GemmTileModel *model = models; model->name != nullptr; ++model) {
        if (model->id == simt::kGemmTile64x128 && !suits_64x128(shape)) continue;
        if (!shape.unit_strides && model->id != simt::kGemmTile64x64) continue;
        const double rate = model_rate(*model, shape);
        for (int count = batch_invariant ? invariant_splits : 1; count <= kMaxSplits && worth(count); count += count < 8 ? 1 : count / 4) {
            const Split split = split_of(p.k, count, 16);
            double seconds = std::max(
                tile_seconds(rates, *model, p.m, p.n, p.k, shape.batches, rate, split, sum_bytes, !shape.vector_strides), read_seconds);
            if (split.count > 1 || must_combine)
                seconds += combine_seconds(rates, outputs, split.count, sum_bytes, gemm_combines_plainly(shape, split.count));
            if (seconds < kPays * best.seconds) best = {model, nullptr, split, seconds};
        }
    }
    if (!batch_invariant && shape.unit_strides && p.m <= 16) {
        for (const simt::GemmSkinnyKernels &skinny : kernels_of(shape.dtype).skinny) {
            if (skinny.rows < p.m || (skinny.rows <= simt::kGemmSkinnyRegisterRows && p.a.depth != 1)) continue;
            const int64_t blocks = ceil_div(p.n, simt::kGemmSkinnyColumns) * shape.batches;
            for (int count = 1; count <= kMaxSplits && worth(count); count *= 2) {
                if (count > 1 && p.k < int64_t{count} * 2 * simt::kGemmSkinnyStep) break;
                const Split split = split_of(p.k, count, simt::kGemmSkinnyStep);
                const double rounds = std::ceil(static_cast<double>(blocks * split.count) / rates.units);
                const double steps = static_cast<double>(ceil_div(std::min(split.depth, p.k), simt::kGemmSkinnyStep));
                const double step_bytes = static_cast<double>(simt::kGemmSkinnyColumns) * simt::kGemmSkinnyStep * bytes;
                const double step_flops = 2.0 * skinny.rows * simt::kGemmSkinnyColumns * simt::kGemmSkinnyStep;
                const double step =
                    std::max(step_bytes * rates.units / (kMemoryShare * rates.bandwidth), step_flops * rates.units / (0.5 * rates.flops));
                double seconds = kLaunchSeconds + rounds * (kSkinnySeconds + steps * step);
                if (split.count > 1 || must_combine)
                    seconds += combine_seconds(rates, outputs, split.count, sum_bytes, gemm_combines_plainly(shape, split.count));
                if (seconds < kPays * best.seconds) best = {nullptr, &skinny, split, seconds};
            }
            break;
        }
    }

    plan.splits = best.split.count;
    plan.split_depth = best.split.depth;
    plan.combine = plan.splits > 1 || must_combine;
    plan.seconds = best.seconds;
    if (plan.combine) plan.workspace_bytes = workspace_piece(real_outputs * plan.splits * sum_bytes);
    if (best.skinny != nullptr) {
        const simt::GemmSkinnyKernels *skinny = best.skinny;
        const bool is_large = device.l2_bytes > 0 && b_bytes > static_cast<double>(device.l2_bytes);
        plan.kernel = (is_large && skinny->once[0] != nullptr ? skinny->once : skinny->vectors)[p.b.along_depth];
        if (!shape.b_quads) {
            while (skinny->scalars[p.b.along_depth] == nullptr) ++skinny;  // The kernel of most rows has them.
            plan.kernel = skinny->scalars[p.b.along_depth];
        }
        plan.name = f64 ? "gemm_f64_skinny" : bytes == 2 ? "gemm_16bit_skinny" : "gemm_f32_skinny";
        plan.variant = shape.b_quads ? "aligned" : "unaligned";
        plan.tile_m = skinny->rows;
        plan.tile_n = simt::kGemmSkinnyColumns;
        plan.tile_k = simt::kGemmSkinnyStep;
        plan.threads = simt::kGemmSkinnyThreads;
        plan.tiles_m = 1;
        plan.tiles_n = ceil_div(p.n, simt::kGemmSkinnyColumns);
    } else {
        resolve_tile(plan, shape, models, best.model, batch_invariant);
    }
    return plan;
}

}  // namespace attile::gpu

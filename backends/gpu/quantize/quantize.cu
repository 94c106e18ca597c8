// SPDX-License-Identifier: Apache-2.0
// quantize: its axes in an order that suits memory, merged where they can be; which kernels; the launches. They are in
// quantize/simt/quantize.cuh.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "host/sizes.h"
#include "host/status.h"
#include "quantize/simt/plan.h"
#include "quantize/simt/quantize.cuh"

namespace attile::gpu {
namespace {

constexpr int64_t kBlocksPerUnit = 4;      // Fewer blocks of scales are cut into parts,
constexpr int64_t kWholeBlock = 32 << 10;  // unless they have no more numbers than this,
constexpr int64_t kWholeColumn = 128;      // or columns no more rows;
constexpr int64_t kRowsOfPart = 32;        // parts of columns have this many at least,
constexpr int64_t kThreadsPerUnit = 1024;  // and there are more of them than so many for each unit.

// What a call does to x.
enum class QuantizePath { kNumbers, kBlocks, kColumns, kMaxima, kMaximaAny, kBack };

struct QuantizePlan {
    QuantizePath path = QuantizePath::kNumbers;
    bool has_two_launches = false;
    bool is_plain = false;  // Whole aligned vectors of rows of one axis, a scale for each.
    simt::QuantizeArguments arguments;
    int64_t maxima = 0;                      // Numbers in the workspace.
    int64_t blocks = 1, numbers_blocks = 1;  // Thread blocks: of the path's kernel, and of quantize_numbers behind it.
};

struct QuantizeAxis {
    int64_t extent, group, x, q, scale, zero;
};

bool is_whole(const QuantizeAxis &axis) { return axis.group == axis.extent; }

// Two neighbours as one: contiguous in x and q, and blocks either have all of both, or follow one another. Groups are then still 1, 32, 64
// or 128 or the whole extent.
bool merge(QuantizeAxis &slow, const QuantizeAxis &fast) {
    if (fast.extent == 1 || slow.extent == 1) {
        if (slow.extent == 1) slow = fast;
        return true;
    }
    if (slow.x != fast.x * fast.extent || slow.q != fast.q * fast.extent) return false;
    const int64_t blocks = fast.extent / fast.group;
    const bool follows = slow.group == 1 && !is_whole(fast) && slow.scale == fast.scale * blocks && slow.zero == fast.zero * blocks;
    if (!follows && !(is_whole(slow) && is_whole(fast))) return false;
    const int64_t extent = slow.extent * fast.extent, group = follows ? fast.group : extent;
    slow = fast;
    slow.extent = extent;
    slow.group = group;
    return true;
}

// Whether rows are more than numbers: what they are depends on where they are.
bool has_places(const attile_quantize_problem &p) { return p.rope_positions != 0 || p.append != 0; }

// The problem's axes, as few as they can be, in front of which some of extent 1 are left. Whatever is rotated or shares a byte stays last.
void place_axes(const attile_quantize_problem &p, QuantizeAxis (&axes)[4]) {
    for (int i = 0; i < 4; ++i) {
        axes[i] = {p.shape[i], p.group[i], p.x.stride[i], p.q.stride[i], p.scale.stride[i], p.zero.stride[i]};
        if (p.scale_given != 0 && axes[i].scale == 0 && axes[i].zero == 0) axes[i].group = axes[i].extent;
    }
    if (has_places(p)) return;
    if (p.hadamard == 0 && dtype_bits(p.q.dtype) == 8) {
        int last = 3;
        while (last > 0 && (axes[last].extent == 1 || axes[last].x != 1)) --last;
        if (axes[last].extent > 1 && axes[last].x == 1) std::rotate(axes + last, axes + last + 1, axes + 4);
    }
    int used = 3;
    for (int i = 2; i >= 0; --i) {
        if (merge(axes[i], axes[used])) {
            axes[used] = axes[i];
        } else {
            axes[--used] = axes[i];
        }
    }
    while (used > 0) axes[--used] = {1, 1, 0, 0, 0, 0};
}

void fill_places(const attile_quantize_problem &p, simt::RowPlaces &places) {
    places.angle_rows = p.rope_positions;
    places.pairs = p.rope_positions != 0 ? p.rope_pairs : 0;
    places.rows = p.shape[2];
    places.keys = p.len_k;
    places.page_size = p.page_size;
    places.pages = p.pages;
    places.is_interleaved = p.rope_layout == ATTILE_ROPE_INTERLEAVED;
    places.are_positions_long = p.positions.dtype == ATTILE_I64;
    places.appends = p.append != 0;
    places.length_stride = p.key_lengths.stride[0];
    for (int i = 0; i < 2; ++i) {
        places.cosine_stride[i] = p.rope_cos.stride[i];
        places.sine_stride[i] = p.rope_sin.stride[i];
        places.position_stride[i] = p.positions.stride[i];
        places.table_stride[i] = p.block_table.stride[i];
    }
}

// Everything but the path.
void fill_arguments(const attile_quantize_problem &p, simt::QuantizeArguments &a) {
    QuantizeAxis axes[4];
    place_axes(p, axes);
    const int64_t vec = 128 / dtype_bits(p.x.dtype);
    simt::set_numbers(p.q.dtype, a);
    a.has_two_ends = a.kind == simt::NumberKind::kU4 && p.scale_given == 0;
    fill_places(p, a.places);
    a.hadamard = p.hadamard;
    a.rotation = p.hadamard != 0 ? 1.0f / std::sqrt(static_cast<float>(p.hadamard)) : 1.0f;
    a.x_vector = is_aligned(p.x.data, 16) && axes[3].x == 1;
    a.q_vector = is_aligned(p.q.data, static_cast<int>(vec * dtype_bits(p.q.dtype) / 8)) && axes[3].q == 1;
    for (int i = 0; i < 4; ++i) {
        const QuantizeAxis &axis = axes[i];
        a.extent[i] = axis.extent;
        a.group[i] = axis.group;
        a.blocks[i] = axis.extent / axis.group;
        a.x_stride[i] = axis.x;
        a.q_stride[i] = axis.q;
        a.scale_stride[i] = axis.scale;
        a.zero_stride[i] = axis.zero;
        a.shift[i] = 63;
        if (!is_whole(axis) || axis.group == 1) {  // An axis of x of extent 1 may be longer in a cache.
            a.shift[i] = 0;
            while (int64_t{1} << a.shift[i] < axis.group) ++a.shift[i];
        }
        if (i < 3) a.x_vector = a.x_vector && axis.x % vec == 0;
        if (i < 3) a.q_vector = a.q_vector && axis.q % vec == 0;
    }
    int64_t stride = 1;
    for (int i = 3; i >= 0; --i) {
        a.maxima_stride[i] = stride;
        stride *= a.blocks[i];
    }
    a.rows = a.extent[0] * a.extent[1] * a.extent[2];
    a.vectors = ceil_div(a.extent[3], vec);
    a.each_column = a.group[3] == 1 && a.extent[3] > 1;
    a.from = p.scale_given == 0 ? simt::ScaleFrom::kMaxima : is_present(p.scale) ? simt::ScaleFrom::kTensor : simt::ScaleFrom::kNone;
    if (a.from == simt::ScaleFrom::kNone) a.each_column = false;
}

int64_t power_of_two(int64_t least) {
    int64_t power = 1;
    while (power < least) power *= 2;
    return power;
}

// How blocks' scales are found.
void choose_path(int64_t units, int64_t vec, bool has_places, QuantizePlan &plan) {
    simt::QuantizeArguments &a = plan.arguments;
    const int64_t rows = a.group[0] * a.group[1] * a.group[2], count = a.blocks[0] * a.blocks[1] * a.blocks[2] * a.blocks[3];
    const int64_t block_vectors = rows * ceil_div(a.group[3], vec);
    if (a.each_column && a.hadamard == 0 && !has_places) {
        plan.path = QuantizePath::kColumns;
        const int64_t threads = count / a.blocks[3] * a.vectors, wanted = units * kThreadsPerUnit;
        if (rows > kWholeColumn && threads < wanted) a.parts = std::min(ceil_div(wanted, threads), ceil_div(rows, kRowsOfPart));
        plan.has_two_launches = a.parts > 1;
        if (!plan.has_two_launches) a.from = simt::ScaleFrom::kLanes;
        return;
    }
    if (rows == 1 && a.group[3] <= simt::kQuantizeTile && !a.each_column) {
        plan.path = QuantizePath::kNumbers;
        a.from = simt::ScaleFrom::kLanes;
        a.width = static_cast<int32_t>(power_of_two(block_vectors));
        if (a.blocks[3] == 1) a.vectors = a.width;
        return;
    }
    if (a.each_column || a.hadamard > a.group[3]) {
        plan.path = QuantizePath::kMaximaAny;
        plan.has_two_launches = true;
        return;
    }
    const int64_t held = simt::kQuantizeHeld / vec, most_rotated = std::max<int64_t>(1, a.hadamard / (kLanes * vec));
    a.each = static_cast<int32_t>(std::clamp(power_of_two(ceil_div(block_vectors, simt::kQuantizeThreads)), most_rotated, held));
    plan.path = QuantizePath::kBlocks;
    if (count >= kBlocksPerUnit * units || rows * a.group[3] <= kWholeBlock) return;
    plan.path = QuantizePath::kMaxima;
    plan.has_two_launches = true;
    a.parts = std::min(ceil_div(2 * kBlocksPerUnit * units, count), ceil_div(block_vectors, a.each * simt::kQuantizeThreads));
}

QuantizePlan make_plan(const Device &device, const attile_quantize_problem &p) {
    QuantizePlan plan;
    simt::QuantizeArguments &a = plan.arguments;
    fill_arguments(p, a);
    const int64_t vec = 128 / dtype_bits(p.x.dtype), tile_vectors = simt::kQuantizeTile / vec;
    if (p.back != 0)
        plan.path = QuantizePath::kBack;
    else if (p.scale_given == 0)
        choose_path(std::max(device.properties().compute_units, 1), vec, has_places(p), plan);
    plan.is_plain = a.x_vector && a.q_vector && a.rows == a.extent[2] && a.extent[3] % vec == 0 && !a.each_column && !has_places(p) &&
                    a.kind < simt::NumberKind::kF32;
    if (a.vectors < tile_vectors) a.row_vectors = Divider(a.vectors);
    const int64_t count = a.blocks[0] * a.blocks[1] * a.blocks[2] * a.blocks[3];
    if (plan.has_two_launches) plan.maxima = count * (a.has_two_ends ? 2 : 1);
    plan.numbers_blocks = row_grid(device, ceil_div(a.rows * a.vectors, tile_vectors), simt::kQuantizeThreads / kLanes);
    plan.blocks = plan.path == QuantizePath::kColumns ? row_grid(device, count / a.blocks[3] * a.vectors * a.parts, simt::kQuantizeThreads)
                  : plan.path == QuantizePath::kBlocks || plan.path == QuantizePath::kMaxima ? row_grid(device, count * a.parts, 1)
                                                                                             : plan.numbers_blocks;
    return plan;
}

using QuantizeKernel = void (*)(simt::QuantizeArguments);

struct QuantizeKernels {
    QuantizeKernel first = nullptr, numbers = nullptr;
};

template <class T, bool kPlain>
QuantizeKernels kernels_of(QuantizePath path) {
    const QuantizeKernel numbers = simt::quantize_numbers<T, kPlain>;
    switch (path) {
        case QuantizePath::kBlocks:
            return {simt::quantize_blocks<T, kPlain>, numbers};
        case QuantizePath::kColumns:
            return {simt::quantize_columns<T>, numbers};
        case QuantizePath::kMaxima:
            return {simt::quantize_maxima<T>, numbers};
        case QuantizePath::kMaximaAny:
            return {simt::quantize_maxima_any<T>, numbers};
        case QuantizePath::kBack:
            return {simt::dequantize<T, kPlain>, numbers};
        default:
            return {numbers, numbers};
    }
}

template <class T>
QuantizeKernels kernels_of(const QuantizePlan &plan) {
    return plan.is_plain ? kernels_of<T, true>(plan.path) : kernels_of<T, false>(plan.path);
}

QuantizeKernels kernels_for(int32_t dtype, const QuantizePlan &plan) {
    return dtype == ATTILE_F32    ? kernels_of<float>(plan)
           : dtype == ATTILE_F16  ? kernels_of<F16>(plan)
           : dtype == ATTILE_BF16 ? kernels_of<BF16>(plan)
                                  : QuantizeKernels{};
}

const char *name_of(QuantizePath path) {
    switch (path) {
        case QuantizePath::kBlocks:
            return "quantize_blocks";
        case QuantizePath::kColumns:
            return "quantize_columns";
        case QuantizePath::kMaxima:
            return "quantize_maxima";
        case QuantizePath::kMaximaAny:
            return "quantize_maxima_any";
        case QuantizePath::kBack:
            return "dequantize";
        default:
            return "quantize_numbers";
    }
}

struct QuantizeCall {
    const attile_quantize_problem *problem;
    QuantizePlan plan;
    QuantizeKernels kernels;

    int32_t describe(Device &device, attile_support &support) const {
        const attile_quantize_problem &p = *problem;
        const simt::QuantizeArguments &a = plan.arguments;
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "simt_%s%s", name_of(plan.path), a.x_vector && a.q_vector ? "" : "_scalar");
        double count = 1, blocks = 1;
        for (int axis = 0; axis < 4; ++axis) {
            count *= static_cast<double>(p.shape[axis]);
            blocks *= static_cast<double>(p.shape[axis] / p.group[axis]);
        }
        // A comparison and a quotient, or a product; the sums of a rotation.
        double steps = p.scale_given == 0 ? 2 : 1;
        for (int32_t apart = 1; apart < p.hadamard; apart *= 2) steps += 1;
        if (p.rope_positions != 0) steps += 6.0 * static_cast<double>(p.rope_pairs) / static_cast<double>(p.shape[3]);
        support.flops = steps * count;
        support.bytes = (count * static_cast<double>(dtype_bits(p.x.dtype) + dtype_bits(p.q.dtype)) +
                         blocks * static_cast<double>(dtype_bits(p.scale.dtype) + dtype_bits(p.zero.dtype))) /
                        8;
        support.splits = static_cast<int32_t>(std::min<int64_t>(a.parts, 1 << 30));
        support.blocks = plan.blocks;
        return fill_resources(device, reinterpret_cast<const void *>(kernels.first), simt::kQuantizeThreads, support);
    }

    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        simt::QuantizeArguments a = plan.arguments;
        a.x = problem->x.data;
        a.q = problem->q.data;
        a.scale = static_cast<float *>(problem->scale.data);
        a.zero = static_cast<float *>(problem->zero.data);
        a.places.cosines = static_cast<const float *>(problem->rope_cos.data);
        a.places.sines = static_cast<const float *>(problem->rope_sin.data);
        a.places.positions = problem->positions.data;
        a.places.key_lengths = static_cast<const int32_t *>(problem->key_lengths.data);
        a.places.block_table = static_cast<const int32_t *>(problem->block_table.data);
        if (plan.maxima > 0) {
            a.maxima = workspace.take<int32_t>(plan.maxima);
            if (a.maxima == nullptr)
                return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "quantize: the workspace is smaller than the query said");
            const int32_t zeroed = device.fill_zero(a.maxima, plan.maxima * static_cast<int64_t>(sizeof(int32_t)), stream);
            if (zeroed != ATTILE_OK) return zeroed;
        }
        const Dim3 grid{static_cast<uint32_t>(plan.blocks)}, block{simt::kQuantizeThreads};
        const int32_t status = gpu::launch(device, kernels.first, grid, block, 0, stream, a);
        if (status != ATTILE_OK || !plan.has_two_launches) return status;
        return gpu::launch(device, kernels.numbers, Dim3{static_cast<uint32_t>(plan.numbers_blocks)}, block, 0, stream, a);
    }
};

}  // namespace

Planned<attile_quantize_problem> simt::plan_quantize(Device &device, const attile_quantize_problem &problem) {
    const QuantizePlan plan = make_plan(device, problem);
    const QuantizeKernels kernels = kernels_for(problem.x.dtype, plan);
    if (kernels.first == nullptr)
        return Planned<attile_quantize_problem>::refused(ATTILE_ERROR_UNSUPPORTED_DTYPE, "%s: data type 0x%04x of x",
                                                         problem.back != 0 ? "dequantize" : "quantize",
                                                         static_cast<unsigned>(problem.x.dtype));
    return Planned<attile_quantize_problem>(QuantizeCall{&problem, plan, kernels},
                                            plan.maxima > 0 ? workspace_piece(plan.maxima * static_cast<int64_t>(sizeof(int32_t))) : 0);
}

}  // namespace attile::gpu

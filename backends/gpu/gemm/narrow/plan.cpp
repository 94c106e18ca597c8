// SPDX-License-Identifier: Apache-2.0
#include "gemm/narrow/plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "gemm/families.h"
#include "gemm/narrow/few_rows.h"
#include "gemm/narrow/kernels.h"
#include "gemm/narrow/rewritten.h"
#include "gemm/narrow_operands.h"
#include "gemm/problem.h"
#include "host/status.h"

namespace attile::gpu::narrow {
namespace {

constexpr int64_t kMostSplitBytes = int64_t{1} << 28, kMostSplits = 64;  // Of all parts' sums.
constexpr int64_t kFewestChunks = 8;                                     // Of a part.
constexpr int64_t kFewRows = 16;

// What becomes of A and B.
// Bytes: e4m3 with FAST_ACCUMULATION, which another family multiplies as they are, once they lie as it wants them.
// In parts: a of 16 bits, and b scaled, cut in parts of bf16, whose products are one along a depth several times as long.
enum class Path { kIntegers, kHalves, kBytes, kParts, kFloats };

// All that follows from the problem's types, extents and strides. `a` lies along the rows of what is computed: D, or its transpose.
struct Cut {
    Path path;
    bool swapped = false;
    Side a, b;
    int64_t m, n;
    Rewritten new_a, new_b;
    int64_t sum_row = 0;
    const ProductTile *tile = nullptr;
    int64_t parts = 1, chunks_each = 0;
    bool grouped = false;
    bool by_family = false;  // Sums of int8 are another family's, in one part; products of bytes are.

    // wherever: as if no operand lay as kernels for 8-bit floats want it.
    Cut(Device &device, const attile_gemm_problem &p, bool wherever = false);
    bool takes_bytes(Device &device, const attile_gemm_problem &p, bool wherever);
    bool has_sums() const { return path == Path::kIntegers || path == Path::kHalves; }  // In the workspace, to be finished.
    int64_t sum_batch() const { return m * sum_row; }
    int64_t sum_bytes(const attile_gemm_problem &p) const { return parts * p.batch[0] * p.batch[1] * sum_batch() * 4; }
    int64_t blocks(const attile_gemm_problem &p) const {
        return ceil_div(m, tile->rows) * ceil_div(n, tile->columns) * parts * p.batch[0] * p.batch[1];
    }
    int64_t copies() const { return new_a.workspace() + new_b.workspace(); }
    attile_gemm_problem inner(const attile_gemm_problem &p, void *copy_a, void *copy_b, void *sums) const;
    // The plan of what inner() makes, which may be a refusal.
    Planned<attile_gemm_problem> plan(Device &device, const attile_gemm_problem &inner) const;
};

// The type that tensor cores multiply both in, without a scale; 0: there is none.
int32_t half_type(const attile_gemm_problem &p) {
    const int32_t a = p.a.dtype;
    if (a == ATTILE_F16 || a == ATTILE_BF16) return a;
    return is_narrow(a) ? ATTILE_F16 : 0;
}

// Rows along the depth that the kernel for int8 reads where they lie, but for their address.
bool has_whole_rows(const attile_gemm_problem &p, const Side &side) {
    return side.depth_stride == 1 && p.k % 16 == 0 && side.outer_stride % 16 == 0 && side.x->stride[0] % 16 == 0 &&
           side.x->stride[1] % 16 == 0;
}

// Sums of int8 by kernels for units that not every device has, if any takes them.
Planned<attile_gemm_problem> plan_sums(Device &device, const attile_gemm_problem &sums) {
    for (const Family<attile_gemm_problem> &family : kGemmFamilies) {
        if (family.set == nullptr || !device.runs(*family.set)) continue;
        const Planned<attile_gemm_problem> planned = family.plan(device, sums);
        if (planned.has_plan()) return planned;
    }
    return {};
}

// Rows of whole bytes along the depth, at addresses that TMA reaches.
bool has_rows_of_bytes(const attile_gemm_problem &p, const Side &side) {
    return p.k % 2 == 0 && side.depth_stride == 1 && reinterpret_cast<uintptr_t>(side.x->data) % 16 == 0 && side.outer_stride % 16 == 0 &&
           side.x->stride[0] % 16 == 0 && side.x->stride[1] % 16 == 0;
}

bool Cut::takes_bytes(Device &device, const attile_gemm_problem &p, bool wherever) {
    const bool may_be_fast = (p.launch.flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0;
    if (!may_be_fast || p.a.dtype != ATTILE_F8_E4M3 || p.b.dtype != ATTILE_F8_E4M3 || p.k == 0) return false;
    const auto rewrite = [&](const Side &side) {
        return !wherever && has_rows_of_bytes(p, side) ? Rewritten() : Rewritten(p, side, ATTILE_F8_E4M3, false);
    };
    path = Path::kBytes;
    by_family = true;
    new_a = rewrite(a);
    new_b = rewrite(b);
    if ((new_a.is_made() || new_b.is_made()) && plan_sums(device, inner(p, nullptr, nullptr, nullptr)).has_plan()) return true;
    by_family = false;
    new_a = new_b = {};
    return false;
}

Cut::Cut(Device &device, const attile_gemm_problem &p, bool wherever) : a(side_a(p)), b(side_b(p)), m(p.m), n(p.n) {
    if (takes_bytes(device, p, wherever)) return;
    const bool along_depth = a.is_scaled_along_depth(p.k) || b.is_scaled_along_depth(p.k) || b.zero.data != nullptr;
    const int32_t half = half_type(p);
    const bool has_matrix_units = device.properties().peak_flops_f16 > device.properties().peak_flops_f32;
    const bool of_half = p.a.dtype == ATTILE_F16 || p.a.dtype == ATTILE_BF16;
    path = Path::kFloats;
    if (p.a.dtype == ATTILE_I8 && p.b.dtype == ATTILE_I8)
        path = Path::kIntegers;
    else if (half != 0 && !along_depth && p.k > 0 && has_matrix_units)
        path = Path::kHalves;
    else if (of_half && p.k > 0 && has_matrix_units && p.k <= kMostExtent / kMostParts)
        path = Path::kParts;
    if (path == Path::kParts) {
        // bf16 is a part by itself, f16 has two. The small come first: so few roundings are of the whole sum.
        const bool is_f16 = p.a.dtype == ATTILE_F16;
        new_a = is_f16 ? Rewritten(p, a, ATTILE_BF16, false, {1, 1, 1, 0, 0, 0}) : Rewritten(p, a, ATTILE_BF16, false, {0, 0, 0});
        new_b = is_f16 ? Rewritten(p, b, ATTILE_BF16, true, {2, 1, 0, 2, 1, 0}) : Rewritten(p, b, ATTILE_BF16, true, {2, 1, 0});
        return;
    }
    if (path == Path::kFloats) {
        new_a = p.a.dtype == ATTILE_F32 ? Rewritten() : Rewritten(p, a, ATTILE_F32, true);
        new_b = Rewritten(p, b, ATTILE_F32, true);
        return;
    }
    // Sums lie as D does. Few columns are rows of the transpose, for which there is a kernel.
    swapped = p.d.stride[3] != 1 && (p.d.stride[2] == 1 || p.n == 1);
    if (path == Path::kIntegers && std::min(m, n) <= kFewRows) swapped = n < m;
    if (swapped) {
        std::swap(a, b);
        std::swap(m, n);
    }
    sum_row = ceil_div(n, 4) * 4;
    if (path == Path::kHalves) {
        const auto rewrite = [&](const Side &side) { return side.x->dtype == half ? Rewritten() : Rewritten(p, side, half, false); };
        new_a = rewrite(a);
        new_b = rewrite(b);
        return;
    }
    if (!has_whole_rows(p, a)) new_a = Rewritten(p, a, ATTILE_I8, false);
    if (!has_whole_rows(p, b)) new_b = Rewritten(p, b, ATTILE_I8, false);
    const int64_t chunks = ceil_div(p.k, kProductChunk);
    grouped = along_depth || p.k > kMostExactDepth;
    tile = product_tiles() + (m <= kFewRows ? 0 : 1);
    by_family = !grouped && plan_sums(device, inner(p, nullptr, nullptr, nullptr)).has_plan();
    // As many parts as fill the device twice. Those of groups, whose sums are rounded, are not to depend on the rows.
    const int64_t wanted = int64_t{4} * std::max(1, device.properties().compute_units), whole = blocks(p);
    const bool is_invariant = grouped && (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    if (whole < wanted && !is_invariant) {
        const int64_t room = kMostSplitBytes / std::max<int64_t>(p.batch[0] * p.batch[1] * sum_batch() * 4, 1);
        parts = std::max<int64_t>(std::min({ceil_div(wanted, whole), chunks / kFewestChunks, kMostSplits, room}), 1);
    }
    chunks_each = std::max<int64_t>(ceil_div(chunks, parts), 1);
    if (grouped) {  // Whole groups.
        const int64_t group = ceil_div(int64_t{128}, kProductChunk);
        chunks_each = ceil_div(chunks_each, group) * group;
    }
    parts = std::max<int64_t>(ceil_div(chunks, chunks_each), 1);
}

// What the other families are given.
attile_gemm_problem Cut::inner(const attile_gemm_problem &p, void *copy_a, void *copy_b, void *sums) const {
    attile_gemm_problem q = p;
    const auto put = [&](const Rewritten &made, const Side &side, void *copy) {
        const bool is_a = side.x == &p.a;
        if (made.is_made()) (is_a ? q.a : q.b) = made.operand(side, copy, is_a ? 2 : 3);
    };
    put(new_a, a, copy_a);
    put(new_b, b, copy_b);
    if (path == Path::kBytes) {  // Rows that are rewritten end with zeros.
        q.k += q.k % 2;
        if (p.a_group[1] >= p.k) q.a_group[1] = q.k;
        if (p.b_group[0] >= p.k) q.b_group[0] = q.k;
        return q;
    }
    q.a_scale = q.b_scale = q.b_zero = {};
    q.a_group[0] = q.a_group[1] = q.b_group[0] = q.b_group[1] = 0;
    q.compute = path == Path::kIntegers ? ATTILE_I32 : ATTILE_F32;
    if (path == Path::kParts) q.k = new_a.line();
    if (path == Path::kFloats || path == Path::kParts) return q;
    q.c = q.bias = {};
    q.alpha = 1;
    q.beta = 0;
    q.activation = ATTILE_ACTIVATION_NONE;
    q.d = {};
    q.d.data = sums;
    q.d.dtype = path == Path::kIntegers ? ATTILE_I32 : ATTILE_F32;
    q.d.stride[0] = p.batch[0] > 1 ? p.batch[1] * sum_batch() : 0;
    q.d.stride[1] = p.batch[1] > 1 ? sum_batch() : 0;
    q.d.stride[swapped ? 3 : 2] = sum_row;
    q.d.stride[swapped ? 2 : 3] = 1;
    return q;
}

Planned<attile_gemm_problem> Cut::plan(Device &device, const attile_gemm_problem &inner) const {
    return by_family ? plan_sums(device, inner) : plan_step(device, inner, kGemmFamilies);
}

int32_t launch_products(Device &device, const attile_gemm_problem &p, const Cut &cut, const void *copy_a, const void *copy_b, void *sums,
                        Stream stream) {
    ProductParams params = {};
    const auto place = [&](const Side &side, const Rewritten &made, const void *copy, const int8_t **data, int32_t *is_aligned,
                           int64_t *row, int64_t *batch_x, int64_t *batch_y) {
        const bool is_a = side.x == &p.a;
        const attile_operand x = made.is_made() ? made.operand(side, const_cast<void *>(copy), is_a ? 2 : 3) : *side.x;
        *data = static_cast<const int8_t *>(x.data);
        *is_aligned = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 ? 1 : 0;
        *row = x.stride[is_a ? 2 : 3];
        *batch_x = x.stride[0];
        *batch_y = x.stride[1];
    };
    place(cut.a, cut.new_a, copy_a, &params.a, &params.a_aligned, &params.a_row, &params.a_batch_x, &params.a_batch_y);
    place(cut.b, cut.new_b, copy_b, &params.b, &params.b_aligned, &params.b_row, &params.b_batch_x, &params.b_batch_y);
    params.m = cut.m;
    params.n = cut.n;
    params.k = ceil_div(p.k, 16) * 16;  // Rewritten rows have zeros there.
    params.sums = sums;
    params.sum_row = cut.sum_row;
    params.sum_batch = cut.sum_batch();
    params.sum_part = p.batch[0] * p.batch[1] * cut.sum_batch();
    params.chunks_each = static_cast<int32_t>(cut.chunks_each);
    params.is_swapped = cut.swapped ? 1 : 0;
    if (cut.grouped) {
        params.group_chunks = kMostExactChunks;
        for (const Side *side : {&cut.a, &cut.b}) {
            const int64_t group = side->is_scaled_along_depth(p.k) ? side->scale.depth_group.divisor / kProductChunk : kMostExactChunks;
            params.group_chunks = static_cast<int32_t>(std::min<int64_t>(params.group_chunks, group));
        }
        params.a_scale = cut.a.scale;
        params.b_scale = cut.b.scale;
    }
    const int64_t tiles_n = ceil_div(cut.n, cut.tile->columns);
    params.tiles = Divider(ceil_div(cut.m, cut.tile->rows) * tiles_n);
    params.tiles_n = Divider(tiles_n);
    params.parts = Divider(cut.parts);
    params.batch_y = Divider(p.batch[1]);
    void *arguments[] = {&params, nullptr};
    return device.launch(cut.grouped ? cut.tile->grouped : cut.tile->kernel, Dim3{static_cast<uint32_t>(cut.blocks(p)), 1, 1},
                         Dim3{kProductThreads, 1, 1}, 0, arguments, stream);
}

int32_t launch_finish(Device &device, const attile_gemm_problem &p, const Cut &cut, const void *sums, Stream stream) {
    GemmParams outputs = {};  // As gemm_vectorised() takes them.
    const auto output = [&](const attile_operand &x) {
        const int row = cut.swapped ? 3 : 2;
        return GemmOutput{x.data, x.stride[0], x.stride[1], x.stride[row], x.stride[5 - row], x.dtype, 0};
    };
    if (p.beta != 0) outputs.c = output(p.c);
    outputs.d = output(p.d);
    outputs.bias = output(p.bias);
    outputs.n = cut.n;
    FinishParams params = {};
    params.sums = sums;
    params.sum_row = cut.sum_row;
    params.sum_batch = cut.sum_batch();
    params.batches = p.batch[0] * p.batch[1];
    params.sum_part = params.batches * cut.sum_batch();
    params.c = outputs.c;
    params.d = outputs.d;
    params.bias = outputs.bias;
    params.m = cut.m;
    params.n = cut.n;
    params.batch_y = p.batch[1];
    params.alpha = static_cast<float>(p.alpha);
    params.beta = static_cast<float>(p.beta);
    params.parts = cut.by_family ? 1 : static_cast<int32_t>(cut.parts);
    params.is_integer = cut.path == Path::kIntegers && !cut.grouped ? 1 : 0;
    params.vectorised = p.d.dtype != ATTILE_I32 && gemm_vectorised(outputs) ? 1 : 0;
    params.activation = p.activation;
    params.is_swapped = cut.swapped ? 1 : 0;
    if (!cut.grouped) {
        params.a_scale = cut.a.scale;
        params.b_scale = cut.b.scale;
    }
    const int64_t quads = ceil_div(cut.n, 4) * cut.m * params.batches, most = int64_t{64} * std::max(1, device.properties().compute_units);
    void *arguments[] = {&params, nullptr};
    return device.launch(finish_kernel(), Dim3{static_cast<uint32_t>(std::min(ceil_div(quads, kFinishThreads), most)), 1, 1},
                         Dim3{kFinishThreads, 1, 1}, 0, arguments, stream);
}

const char *name_of(int32_t dtype) {
    return dtype == ATTILE_F32 ? "f32" : dtype == ATTILE_F16 ? "f16" : dtype == ATTILE_BF16 ? "bf16" : dtype == ATTILE_I8 ? "i8" : "e4m3";
}

struct NarrowGemm {
    const attile_gemm_problem *problem;

    int32_t describe(Device &device, attile_support &support) const {
        const attile_gemm_problem &p = *problem;
        const Cut cut(device, p);
        char rewritten[96];
        const char *const of_a = cut.new_a.is_made() ? cut.swapped ? "B" : "A" : "", *const of_b =
                                                                                         cut.new_b.is_made() ? cut.swapped ? "A" : "B" : "";
        std::snprintf(rewritten, sizeof rewritten, "%s%s%s rewritten as %s%s", of_a, *of_a != '\0' && *of_b != '\0' ? " and " : "", of_b,
                      name_of(cut.new_a.is_made() ? cut.new_a.dtype : cut.new_b.dtype),
                      cut.path == Path::kParts    ? ", in parts"
                      : cut.path == Path::kFloats ? ", scaled"
                                                  : "");
        if (cut.path != Path::kIntegers || cut.by_family) {
            const attile_gemm_problem inner = cut.inner(p, nullptr, nullptr, nullptr);
            const int32_t status = cut.plan(device, inner).describe(device, support);
            const double flops = support.flops, bytes = support.bytes;
            gemm_work(p, support);
            if (support.bytes > 0 && bytes > 0 && flops > 0) support.predicted_share *= std::min(1.0, support.bytes / bytes);
            char text[sizeof support.text];
            std::memcpy(text, support.text, sizeof text);
            std::snprintf(support.text, sizeof support.text, "%s%s%.150s", cut.copies() > 0 ? rewritten : "", cut.copies() > 0 ? "; " : "",
                          text);
            return status;
        }
        gemm_work(p, support);
        support.level = ATTILE_SUPPORT_NATIVE;
        support.status = ATTILE_OK;
        support.tile_m = cut.swapped ? cut.tile->columns : cut.tile->rows;
        support.tile_n = cut.swapped ? cut.tile->rows : cut.tile->columns;
        support.tile_k = kProductChunk;
        support.threads = kProductThreads;
        support.splits = static_cast<int32_t>(cut.parts);
        support.blocks = cut.blocks(p);
        const void *const kernel = cut.grouped ? cut.tile->grouped : cut.tile->kernel;
        KernelResources resources;
        int32_t status = device.resources(kernel, &resources);
        if (status == ATTILE_OK) status = device.occupancy(kernel, kProductThreads, 0, &support.blocks_per_unit);
        if (status != ATTILE_OK) return status;
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static;
        support.predicted_share = 0.5;
        std::snprintf(support.kernel, sizeof support.kernel, "%s%s", cut.tile->name, cut.grouped ? "_groups" : "");
        std::snprintf(support.text, sizeof support.text, "%d splits of the depth; %lld blocks on %d units%s%s", support.splits,
                      static_cast<long long>(support.blocks), device.properties().compute_units, cut.copies() > 0 ? "; " : "",
                      cut.copies() > 0 ? rewritten : "");
        return ATTILE_OK;
    }
    void move_to(const attile_gemm_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        const attile_gemm_problem &p = *problem;
        const Cut cut(device, p);
        int32_t status = ATTILE_OK;
        bool has_room = true;
        const auto rewrite = [&](const Rewritten &made, const Side &side) -> void * {
            if (!made.is_made() || status != ATTILE_OK || !has_room) return nullptr;
            void *const copy = workspace.take<char>(made.bytes);
            has_room = copy != nullptr;
            if (has_room) status = made.launch(device, p, side, copy, stream);
            return copy;
        };
        void *const copy_a = rewrite(cut.new_a, cut.a), *const copy_b = rewrite(cut.new_b, cut.b);
        void *sums = nullptr;
        if (cut.has_sums() && has_room) {
            sums = workspace.take<char>(cut.sum_bytes(p));
            has_room = sums != nullptr;
        }
        if (!has_room) return fail(ATTILE_ERROR_INTERNAL, "gemm: the workspace is smaller than the query asked for");
        if (status != ATTILE_OK) return status;
        if (cut.path == Path::kIntegers && !cut.by_family) {
            status = launch_products(device, p, cut, copy_a, copy_b, sums, stream);
        } else {
            const attile_gemm_problem inner = cut.inner(p, copy_a, copy_b, sums);
            const Planned<attile_gemm_problem> planned = cut.plan(device, inner);
            if (planned.refusal() != ATTILE_OK) return fail(planned.refusal(), "%s", planned.sentence());
            status = planned.launch(device, workspace, stream);
        }
        return status == ATTILE_OK && cut.has_sums() ? launch_finish(device, p, cut, sums, stream) : status;
    }
};

Planned<attile_gemm_problem> plan_rewritten(Device &device, const attile_gemm_problem &p) {
    const auto refuse = [&] {
        return Planned<attile_gemm_problem>::refused(
            ATTILE_ERROR_UNSUPPORTED_SHAPE, "gemm: %lld x %lld x %lld: extents of products of 8 bits are below 2^31, and so are blocks",
            static_cast<long long>(p.m), static_cast<long long>(p.n), static_cast<long long>(p.k));
    };
    if (std::max({p.m, p.n, p.k, p.batch[0], p.batch[1]}) > kMostExtent) return refuse();
    const Cut cut(device, p);
    // Addresses that are not known yet may be such that both operands are rewritten.
    int64_t workspace = cut.copies(), elsewhere = 0;
    if (p.a.data == nullptr || p.b.data == nullptr) {
        const Cut other(device, p, true);
        if (other.path == Path::kBytes) {
            const attile_gemm_problem bytes = other.inner(p, nullptr, nullptr, nullptr);
            elsewhere = other.copies() + other.plan(device, bytes).workspace_bytes();
        }
    }
    if (cut.path == Path::kIntegers) {
        if (cut.blocks(p) > kMaxGridX) return refuse();
        return Planned<attile_gemm_problem>(NarrowGemm{&p}, workspace + workspace_piece(cut.sum_bytes(p)));
    }
    const attile_gemm_problem inner = cut.inner(p, nullptr, nullptr, nullptr);
    if (cut.path == Path::kBytes)
        return Planned<attile_gemm_problem>(NarrowGemm{&p}, std::max(workspace + cut.plan(device, inner).workspace_bytes(), elsewhere));
    const Planned<attile_gemm_problem> planned = plan_step(device, inner, kGemmFamilies);
    if (planned.refusal() != ATTILE_OK) return Planned<attile_gemm_problem>::refused(planned.refusal(), "%s", planned.sentence());
    if (cut.path == Path::kHalves) workspace += workspace_piece(cut.sum_bytes(p));
    return Planned<attile_gemm_problem>(NarrowGemm{&p}, std::max(workspace + step_workspace(device, inner, kGemmFamilies), elsewhere));
}

}  // namespace

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &p) {
    if (!is_narrow(p.a.dtype) && !is_narrow(p.b.dtype)) return {};
    const int64_t elsewhere = p.b.data == nullptr ? plan_rewritten(device, p).workspace_bytes() : 0;
    const Planned<attile_gemm_problem> few = plan_few_rows(device, p, elsewhere);
    return few.has_plan() ? few : plan_rewritten(device, p);
}

}  // namespace attile::gpu::narrow

// SPDX-License-Identifier: Apache-2.0
#include "sm90_attention_plan.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <numeric>

#include "plan/attention_run.h"
#include "simt_status.h"
#include "sm90_attention_table.h"

namespace attile::sm90 {
namespace {

using KernelFn = AttentionKernel (*)();
// Scores under a mask alone, and scores with more to them.
constexpr KernelFn kKernelsBF16[] = {attention_bf16_cols64, attention_bf16_cols96, attention_bf16_cols128, attention_bf16_cols192,
                                     attention_bf16_cols256};
constexpr KernelFn kKernelsF16[] = {attention_f16_cols64, attention_f16_cols96, attention_f16_cols128, attention_f16_cols192,
                                    attention_f16_cols256};

constexpr KernelFn kModifiedBF16[] = {attention_bf16_cols64_modified, attention_bf16_cols96_modified, attention_bf16_cols128_modified,
                                      attention_bf16_cols192_modified, attention_bf16_cols256_modified};
constexpr KernelFn kModifiedF16[] = {attention_f16_cols64_modified, attention_f16_cols96_modified, attention_f16_cols128_modified,
                                     attention_f16_cols192_modified, attention_f16_cols256_modified};
static_assert(std::size(kKernelsBF16) == std::size(kModifiedBF16) && std::size(kKernelsF16) == std::size(kModifiedF16));

constexpr int64_t kL2Bytes = 32ll << 20;        // Of K and V that tiles walked together may touch.
constexpr int64_t kInvariantSplitKeys = 16384;  // With BATCH_INVARIANT splits depend on the length alone.
constexpr int64_t kFewestSplitTiles = 2;
constexpr int64_t kMostSplits = 128;
constexpr int64_t kMostTiles = int64_t{1} << 30;
// What a block does besides its key tiles, and what putting splits together takes, in key tiles.
constexpr int64_t kTileStart = 2, kCombineStart = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
bool present(const attile_operand &x) { return x.dtype != 0; }

AttentionChoice decline(const char *format, ...) ATTILE_SIMT_PRINTF(1, 2);
AttentionChoice decline(const char *format, ...) {
    AttentionChoice choice;
    va_list list;
    va_start(list, format);
    std::vsnprintf(choice.declined.text, sizeof choice.declined.text, format, list);
    va_end(list);
    return choice;
}

// Why the copy engine or the vector stores cannot reach an operand; null: they can.
const char *unreachable(const attile_operand &x, int64_t columns, int64_t bytes) {
    if (x.stride[3] != 1 && columns > 1) return "is not contiguous along the head's columns";
    if (!is_reachable(x.data, x.stride, 3, bytes)) return "is not aligned to 16 bytes, or a stride is no multiple of them or negative";
    return nullptr;
}

// Splits of the keys where there are fewer row blocks than multiprocessors.
void choose_splits(const attile_attention_problem &p, const simt::DeviceProperties &device, simt::AttentionPlan &plan) {
    const int64_t units = std::max(device.compute_units, 1), key_tiles = ceil_div(p.len_k, plan.keys);
    const int64_t base = p.batch * (p.heads_q / plan.pack) * plan.row_blocks;
    plan.splits = 1;
    plan.split_tiles = key_tiles;
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) {
        plan.split_tiles = kInvariantSplitKeys / plan.keys;
        plan.splits = static_cast<int32_t>(ceil_div(key_tiles, plan.split_tiles));
        return;
    }
    int64_t best = -1;
    for (int64_t splits = 1; splits <= kMostSplits; ++splits) {
        const int64_t split_tiles = std::max(ceil_div(key_tiles, splits), kFewestSplitTiles), count = ceil_div(key_tiles, split_tiles);
        const int64_t cost = ceil_div(base * count, units) * (split_tiles + kTileStart) + (count > 1 ? kCombineStart + count / 8 : 0);
        // Partial results of rows that fill the device anyway would only be traffic.
        if (count > 1 && base > 2 * units) break;
        if (best < 0 || cost < best) {
            best = cost;
            plan.split_tiles = split_tiles;
            plan.splits = static_cast<int32_t>(count);
        }
    }
}

}  // namespace

AttentionChoice choose_attention(simt::Device &device, const attile_attention_problem &p) {
    if (p.q.dtype != ATTILE_F16 && p.q.dtype != ATTILE_BF16) return {};
    if (p.batch < 1 || p.heads_q < 1 || p.len_q < 1 || p.len_k < 1 || p.total_q < 1 || p.total_k < 1 || p.head_dim < 1 || p.head_dim_v < 1)
        return {};
    const bool paged = present(p.block_table);
    // Kernels of the plain kind take maxima before the scale, which must not turn them around.
    const bool modifies = p.softcap != 0 || present(p.bias) || present(p.allowed) || present(p.alibi_slopes) || paged || !(p.scale > 0);
    if (p.head_dim_v % 8 != 0) return decline("head_dim_v is %lld, no multiple of 8", static_cast<long long>(p.head_dim_v));
    const int64_t longest = simt::kAttentionMaxLength;
    if (paged && (p.pages < 1 || p.pages > longest)) return {};
    if (p.len_q * (p.heads_q / p.heads_kv) > longest || p.len_k > longest || p.total_q > longest || p.total_k > longest) return {};
    const int64_t keys = paged ? p.page_size : p.total_k;
    struct Named {
        const char *name;
        const attile_operand &operand;
        int64_t columns, heads, rows;
    };
    for (const Named &x : {Named{"q", p.q, p.head_dim, p.heads_q, p.total_q}, Named{"k", p.k, p.head_dim, 1, keys},
                           Named{"v", p.v, p.head_dim_v, 1, keys}, Named{"o", p.o, p.head_dim_v, 1, 1}}) {
        if (const char *why = unreachable(x.operand, x.columns, x.operand.dtype == ATTILE_F32 ? 4 : 2))
            return decline("%s %s", x.name, why);
        if ((x.operand.stride[1] == 0 && x.heads > 1) || (x.operand.stride[2] == 0 && x.rows > 1))
            return decline("%s is broadcast along its heads or rows", x.name);
    }
    if (paged && p.pages > 1 && (p.k.stride[0] == 0 || p.v.stride[0] == 0)) return decline("K or V is broadcast along its pages");
    const bool is_f16 = p.q.dtype == ATTILE_F16;
    const KernelFn *const kernels = modifies ? (is_f16 ? kModifiedF16 : kModifiedBF16) : is_f16 ? kKernelsF16 : kKernelsBF16;
    AttentionKernel kernel;
    for (std::size_t i = 0; i < std::size(kKernelsBF16) && kernel.kernel == nullptr; ++i) {
        const AttentionKernel found = kernels[i]();
        if (found.shape->depth >= p.head_dim && found.shape->columns >= p.head_dim_v) kernel = found;
    }
    if (kernel.kernel == nullptr)
        return decline("head_dim %lld or head_dim_v %lld is above 256", static_cast<long long>(p.head_dim),
                       static_cast<long long>(p.head_dim_v));

    AttentionChoice choice;
    simt::AttentionPlan &plan = choice.plan;
    const AttentionShape &shape = *kernel.shape;
    if (paged) {
        choice.page_rows = static_cast<int32_t>(std::gcd(p.page_size, int64_t{shape.keys}));
        // Rows of the swizzle come in groups of eight.
        if (choice.page_rows % 8 != 0) return decline("page_size is %lld, no multiple of 8", static_cast<long long>(p.page_size));
    }
    plan.modifiers = modifies;
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    plan.path = simt::AttentionPath::kTile;
    plan.name = kernel.name;
    plan.kernel = kernel.kernel;
    plan.rows = shape.rows();
    plan.keys = shape.keys;
    plan.depth = shape.depth;
    plan.threads = shape.threads();
    plan.shared = static_cast<std::size_t>(shape.shared_bytes());
    const int64_t group = p.heads_q / p.heads_kv;
    const bool packs =
        group > 1 && !invariant && plan.rows % group == 0 && ceil_div(p.len_q * group, plan.rows) < group * ceil_div(p.len_q, plan.rows);
    plan.pack = packs ? static_cast<int32_t>(group) : 1;
    plan.rows_per_head = p.len_q * plan.pack;
    plan.row_blocks = ceil_div(plan.rows_per_head, plan.rows);
    choose_splits(p, device.properties(), plan);
    plan.longest_first = (p.window_left >= 0 || p.window_right >= 0) && plan.splits == 1;
    plan.slice = p.batch * (p.heads_q / plan.pack);
    plan.slices = 1;
    choice.tiles = plan.slice * plan.row_blocks * plan.splits;
    if (choice.tiles > kMostTiles) return {};
    if (device.occupancy(plan.kernel, plan.threads, plan.shared, &plan.blocks_per_unit) != ATTILE_OK || plan.blocks_per_unit < 1)
        return decline("the device does not take the kernel's %zu bytes of shared memory", plan.shared);
    choice.grid = static_cast<int32_t>(
        std::min<int64_t>(choice.tiles, static_cast<int64_t>(std::max(device.properties().compute_units, 1)) * plan.blocks_per_unit));
    choice.has_counter = choice.tiles > choice.grid;
    if (choice.has_counter) plan.workspace += simt::workspace_piece(sizeof(int32_t));
    if (plan.splits > 1) {
        plan.part_rows = plan.splits * p.batch * p.heads_q * p.len_q;
        plan.workspace += simt::workspace_piece(plan.part_rows * p.head_dim_v * 4) + simt::workspace_piece(plan.part_rows * 4);
    }
    choice.taken = true;
    return choice;
}

int32_t attention_query(simt::Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                        simt::Declined &declined) {
    const AttentionChoice choice = choose_attention(device, problem);
    taken = choice.taken;
    declined = choice.declined;
    if (taken) simt::attention_report(device, problem, choice.plan, support);
    return ATTILE_OK;
}

int32_t attention_run(simt::Device &device, const TensorMaps &maps, const attile_attention_problem &p, simt::Workspace &workspace,
                      simt::Stream stream) {
    const AttentionChoice choice = choose_attention(device, p);
    if (!choice.taken) return simt::fail(ATTILE_ERROR_INTERNAL, "attention: %s", choice.declined.text);
    const simt::AttentionPlan &plan = choice.plan;
    AttentionArguments a = {};
    a.p = simt::attention_params(p, plan);
    const bool packed_q = present(p.cu_len_q), packed_k = present(p.cu_len_k), paged = present(p.block_table);
    const int64_t pack = plan.pack;

    TensorMapShape q;
    q.axes = 5;
    const int64_t q_extent[] = {p.head_dim, pack, p.total_q, p.heads_q / pack, packed_q || p.q.stride[0] == 0 ? 1 : p.batch};
    const int64_t q_stride[] = {1, p.q.stride[1], p.q.stride[2], p.q.stride[1] * pack, p.q.stride[0]};
    const int32_t q_box[] = {kAttentionPanel, plan.pack, plan.rows / plan.pack, 1, 1};
    std::copy(q_extent, q_extent + 5, q.extent);
    std::copy(q_stride, q_stride + 5, q.stride);
    std::copy(q_box, q_box + 5, q.box);
    a.q_batch = q_extent[4] > 1;
    int32_t status = maps.make(p.q.data, p.q.dtype, q, &a.map_q);
    const auto make_keys = [&](const attile_operand &x, int64_t columns, int32_t &head_moves, int32_t &batch_moves, CUtensorMap *map) {
        if (status != ATTILE_OK) return;
        TensorMapShape shape;
        shape.axes = 4;
        const int64_t entries = packed_k || x.stride[0] == 0 ? 1 : p.batch;
        const int64_t extent[] = {columns, paged ? p.page_size : p.total_k, x.stride[1] == 0 ? 1 : p.heads_kv, paged ? p.pages : entries};
        const int64_t stride[] = {1, x.stride[2], x.stride[1], x.stride[0]};
        const int32_t box[] = {kAttentionPanel, paged ? choice.page_rows : plan.keys, 1, 1};
        std::copy(extent, extent + 4, shape.extent);
        std::copy(stride, stride + 4, shape.stride);
        std::copy(box, box + 4, shape.box);
        head_moves = extent[2] > 1;
        batch_moves = extent[3] > 1;
        status = maps.make(x.data, x.dtype, shape, map);
    };
    make_keys(p.k, p.head_dim, a.k_head, a.k_batch, &a.map_k);
    make_keys(p.v, p.head_dim_v, a.v_head, a.v_batch, &a.map_v);
    if (status != ATTILE_OK) return status;

    a.tiles = static_cast<int32_t>(choice.tiles);
    a.heads = static_cast<int32_t>(plan.slice);
    const int64_t head_bytes = std::max<int64_t>(2 * p.len_k * (p.head_dim + p.head_dim_v), 1);
    a.chunk = static_cast<int32_t>(std::clamp<int64_t>(kL2Bytes / head_bytes * (p.heads_q / p.heads_kv / pack), 1, plan.slice));
    a.page_rows = choice.page_rows;
    // A float output would show the rounding of the largest probability, where it is not 1.
    a.exact_only = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0 || p.o.dtype == ATTILE_F32;
    if (choice.has_counter) {
        a.counter = workspace.take<int32_t>(1);
        if (a.counter == nullptr) return simt::fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        status = device.fill_zero(a.counter, sizeof(int32_t), stream);
        if (status != ATTILE_OK) return status;
    }
    if (plan.splits > 1) {
        a.p.part_o = workspace.take<float>(plan.part_rows * p.head_dim_v);
        a.p.part_lse = workspace.take<float>(plan.part_rows);
        if (a.p.part_o == nullptr || a.p.part_lse == nullptr)
            return simt::fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    }
    simt::Dim3 grid, block;
    grid.x = static_cast<uint32_t>(choice.grid);
    block.x = static_cast<uint32_t>(plan.threads);
    void *arguments[] = {&a};
    status = device.launch(plan.kernel, grid, block, plan.shared, arguments, stream);
    if (status != ATTILE_OK || plan.splits == 1) return status;
    return simt::attention_combine(device, a.p, p, stream);
}

}  // namespace attile::sm90

// SPDX-License-Identifier: Apache-2.0
// Attention by SIMT: its plan described and launched; and what launches of other families' plans have in common with it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "attention/run.h"
#include "attention/simt/decode_params.h"
#include "attention/simt/plan.h"
#include "host/status.h"

namespace attile::gpu {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
// What a few rows by the decode kernel take: its launches, and this share of the memory's rate.
constexpr double kDecodeSeconds = 1e-5, kDecodeShare = 0.7;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
bool present(const attile_operand &x) { return x.dtype != 0; }
int64_t bytes_of(const attile_operand &x) { return (x.dtype & 0xff) / 8; }

AttentionStorage storage_of(int32_t dtype) {
    switch (dtype) {
        case ATTILE_F16:
            return AttentionStorage::kF16;
        case ATTILE_BF16:
            return AttentionStorage::kBF16;
        case ATTILE_F64:
            return AttentionStorage::kF64;
        case ATTILE_F32:
            return AttentionStorage::kF32;
        default:
            return AttentionStorage::kU8;
    }
}

}  // namespace

// Whole vectors: four elements side by side, each row's first at a multiple of four of them.
AttentionOperand attention_operand(const attile_operand &x, int64_t cols) {
    AttentionOperand to = {};
    to.data = x.dtype != 0 ? x.data : nullptr;
    std::copy(x.stride, x.stride + 4, to.stride);
    to.storage = storage_of(x.dtype);
    const int64_t vector_bytes = 4 * std::max<int64_t>(bytes_of(x), 1);
    to.vector = cols % 4 == 0 && x.stride[3] == 1 && x.stride[0] % 4 == 0 && x.stride[1] % 4 == 0 && x.stride[2] % 4 == 0 &&
                reinterpret_cast<uintptr_t>(x.data) % static_cast<uintptr_t>(vector_bytes) == 0;
    to.row_bytes = static_cast<int32_t>(x.stride[2] * bytes_of(x));
    return to;
}

AttentionParams attention_params(const attile_attention_problem &p, const AttentionPlan &plan) {
    AttentionParams to = {};
    to.q = attention_operand(p.q, p.head_dim);
    to.k = attention_operand(p.k, p.head_dim);
    to.v = attention_operand(p.v, p.head_dim_v);
    to.o = attention_operand(p.o, p.head_dim_v);
    to.lse = attention_operand(p.lse, 1);
    to.bias = attention_operand(p.bias, 1);
    to.allowed = attention_operand(p.allowed, 1);
    to.alibi_slopes = attention_operand(p.alibi_slopes, 1);
    to.sinks = attention_operand(p.sinks, 1);
    to.key_lengths = present(p.key_lengths) ? static_cast<const int32_t *>(p.key_lengths.data) : nullptr;
    to.cu_len_q = present(p.cu_len_q) ? static_cast<const int32_t *>(p.cu_len_q.data) : nullptr;
    to.cu_len_k = present(p.cu_len_k) ? static_cast<const int32_t *>(p.cu_len_k.data) : nullptr;
    to.block_table = present(p.block_table) ? static_cast<const int32_t *>(p.block_table.data) : nullptr;
    to.key_lengths_stride = p.key_lengths.stride[0];
    to.cu_len_q_stride = p.cu_len_q.stride[0];
    to.cu_len_k_stride = p.cu_len_k.stride[0];
    to.block_table_stride[0] = p.block_table.stride[0];
    to.block_table_stride[1] = p.block_table.stride[1];
    to.total_q = p.total_q;
    to.total_k = p.total_k;
    to.pages = p.pages;
    to.page_size = Divider(std::max<int64_t>(std::min<int64_t>(p.page_size, kAttentionMaxLength), 1));
    to.len_q = static_cast<int32_t>(p.len_q);
    to.len_k = static_cast<int32_t>(present(p.block_table) && p.pages < 1 ? 0 : p.len_k);
    to.head_dim = static_cast<int32_t>(p.head_dim);
    to.head_dim_v = static_cast<int32_t>(p.head_dim_v);
    // Without heads there is nothing to divide; a gradient of a bias that is broadcast over them is still to be set to zero.
    to.group = Divider(std::max<int64_t>(p.heads_q / p.heads_kv, 1));
    to.pack = Divider(plan.pack);
    to.heads = Divider(std::max<int64_t>(p.heads_q / plan.pack, 1));
    const auto window = [](int64_t keys) {
        return static_cast<int32_t>(keys < 0 ? kAttentionMaxLength : std::min(keys, kAttentionMaxLength));
    };
    to.window_left = window(p.window_left);
    to.window_right = window(p.window_right);
    to.bottom_right = p.bottom_right;
    to.alibi_bottom_right = p.alibi_bottom_right;
    to.scale = p.scale;
    to.softcap = attention_softcap(p);
    const double scale_log2 = p.scale * kLog2E;
    to.scale_log2 = to.query_scale = static_cast<float>(scale_log2);
    if (std::fabs(static_cast<double>(to.query_scale)) >= std::fabs(scale_log2)) to.query_scale = std::nextafterf(to.query_scale, 0.0f);
    to.query_scale_low = static_cast<float>(scale_log2 - static_cast<double>(to.query_scale));
    to.softcap_log2 = static_cast<float>(to.softcap * kLog2E);
    to.modifiers = attention_modifies_scores(p) || present(p.block_table);
    to.row_blocks = Divider(plan.row_blocks);
    to.splits = Divider(plan.splits);
    to.split_tiles = static_cast<int32_t>(std::min<int64_t>(plan.split_tiles, kAttentionMaxLength));
    to.longest_first = plan.longest_first;
    to.shortest_last = plan.shortest_last;
    to.depth = plan.depth;
    to.part_batch = p.batch;
    to.part_rows = p.batch * p.heads_q * p.len_q - plan.first_part;
    to.first_part = static_cast<uint32_t>(plan.first_part);
    to.whole_blocks = plan.splits > 1 ? static_cast<uint32_t>(plan.whole_blocks) : UINT32_MAX;
    return to;
}

int32_t attention_densify(Device &device, const attile_operand &from, const DenseCut &cut, float *copy, AttentionOperand &operand,
                          Stream stream) {
    simt::AttentionConvertParams params = {};
    params.from = attention_operand(from, cut.cols);
    params.to = copy;
    if (cut.paged != nullptr) {
        const attile_operand &table = cut.paged->block_table;
        params.block_table = static_cast<const int32_t *>(table.data);
        params.block_table_stride[0] = table.stride[0];
        params.block_table_stride[1] = table.stride[1];
        params.pages = cut.paged->pages;
    }
    params.page_size = std::max<int64_t>(cut.paged != nullptr ? cut.paged->page_size : 0, 1);
    params.first = cut.packed ? 0 : cut.first;
    params.count = cut.packed ? cut.heads : cut.count;
    params.heads = cut.heads;
    params.rows = cut.rows;
    params.cols = static_cast<int32_t>(cut.cols);
    params.padded_cols = static_cast<int32_t>(cut.padded_cols);
    const int64_t quads = params.count * params.rows * (params.padded_cols / 4);
    if (quads > 0) {
        void *arguments[] = {&params};
        Dim3 grid, block;
        grid.x = static_cast<uint32_t>(std::min<int64_t>(ceil_div(quads, 4 * simt::kAttentionConvertThreads), 1 << 20));
        block.x = simt::kAttentionConvertThreads;
        const int32_t status = device.launch(simt::attention_convert_kernel(), grid, block, 0, arguments, stream);
        if (status != ATTILE_OK) return status;
    }
    const int64_t head = params.rows * params.padded_cols;
    operand.storage = AttentionStorage::kF32;
    operand.vector = 1;
    operand.stride[0] = cut.packed ? 0 : cut.heads * head;
    operand.stride[1] = head;
    operand.stride[2] = params.padded_cols;
    operand.stride[3] = 1;
    operand.row_bytes = params.padded_cols * 4;
    operand.data = reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(copy) - static_cast<uintptr_t>(params.first * head * 4));
    return ATTILE_OK;
}

int32_t attention_combine(Device &device, const AttentionParams &params, const attile_attention_problem &p, Stream stream) {
    AttentionParams copy = params;
    void *arguments[] = {&copy};
    const int64_t rows = params.part_rows;
    Dim3 grid, block;
    if (rows > kMaxGridX)
        return fail(ATTILE_ERROR_UNSUPPORTED_SHAPE, "attention: %lld rows, whose keys are split, are more than a grid holds",
                    static_cast<long long>(rows));
    grid.x = static_cast<uint32_t>(rows);
    block.x = simt::kAttentionCombineThreads;
    return device.launch_early(simt::attention_combine_kernel(p.head_dim_v, params.part_sum != nullptr), grid, block, 0, arguments, stream);
}

double attention_bytes(const attile_attention_problem &p) {
    const double d = static_cast<double>(p.head_dim), dv = static_cast<double>(p.head_dim_v);
    const double rows =
        static_cast<double>(p.heads_q) * static_cast<double>(p.total_q) * (present(p.cu_len_q) ? 1 : static_cast<double>(p.batch));
    const double keys =
        static_cast<double>(p.heads_kv) * static_cast<double>(p.total_k) * (present(p.cu_len_k) ? 1 : static_cast<double>(p.batch));
    return rows *
               (d * static_cast<double>(bytes_of(p.q)) + dv * static_cast<double>(bytes_of(p.o)) + static_cast<double>(bytes_of(p.lse))) +
           keys * (d * static_cast<double>(bytes_of(p.k)) + dv * static_cast<double>(bytes_of(p.v)));
}

void attention_report(Device &device, const attile_attention_problem &p, const AttentionPlan &plan, attile_support &support) {
    support.level = plan.convert || plan.path == AttentionPath::kAny ? ATTILE_SUPPORT_EMULATED : ATTILE_SUPPORT_NATIVE;
    support.status = ATTILE_OK;
    std::snprintf(support.kernel, sizeof support.kernel, "%s", plan.name);
    print_plan(plan, support.text, sizeof support.text);
    const double d = static_cast<double>(p.head_dim), dv = static_cast<double>(p.head_dim_v);
    support.flops = 2 * attention_visible_pairs(p) * (d + dv);
    support.bytes = attention_bytes(p);
    if (plan.path == AttentionPath::kNothing) return;
    support.tile_m = plan.rows;
    support.tile_n = plan.keys;
    support.tile_k = plan.depth;
    support.threads = plan.threads;
    support.splits = plan.splits;
    support.blocks = plan.blocks() * plan.slices;
    support.blocks_per_unit = plan.blocks_per_unit;
    support.predicted_share = plan.share;
    KernelResources resources;
    if (device.resources(plan.kernel, &resources) == ATTILE_OK) {
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static + static_cast<int32_t>(plan.shared);
    }
}

namespace {

// Rows that are whole blocks but for a few, cut in two. A block of few rows takes most of the time of a full one, and often a wave of its
// own; the decode kernel takes what reading K and V does.
struct CutRows {
    attile_attention_problem problem[2];
    AttentionPlan plan[2];
    bool is_cut = false;
    int64_t workspace = 0;  // Of the parts, or of the rows uncut.

    CutRows(Device &device, const attile_attention_problem &p, const AttentionPlan &uncut) : workspace(uncut.workspace) {
        const int64_t few = uncut.rows > 0 ? p.len_q % uncut.rows : 0;
        const bool sees_all = p.window_left < 0 && p.window_right < 0 && !present(p.alibi_slopes);  // Nothing counts rows from the first.
        if (uncut.path != AttentionPath::kTile || uncut.pack != 1 || uncut.convert || few == 0 || few == p.len_q || !sees_all ||
            present(p.cu_len_q) || (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0)
            return;
        for (attile_attention_problem &part : problem) part = p;
        problem[0].len_q = problem[0].total_q = p.len_q - few;
        problem[1].len_q = problem[1].total_q = few;
        for (attile_operand *x : {&problem[1].q, &problem[1].o, &problem[1].lse, &problem[1].bias, &problem[1].allowed})
            if (present(*x))
                x->data = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(x->data) +
                                                   static_cast<uintptr_t>((p.len_q - few) * x->stride[2] * bytes_of(*x)));
        for (int i = 0; i < 2; ++i) plan[i] = plan_attention(device, problem[i]);
        if (plan[0].path != AttentionPath::kTile || plan[1].path != AttentionPath::kDecode) return;
        const double rows = static_cast<double>(p.batch * p.heads_kv * p.len_k), bandwidth = device.properties().peak_bandwidth;
        const double bytes = rows * static_cast<double>(p.head_dim * bytes_of(p.k) + p.head_dim_v * bytes_of(p.v));
        is_cut = plan[0].cost + kDecodeSeconds + bytes / (kDecodeShare * (bandwidth > 0 ? bandwidth : 5e11)) < uncut.cost;
        if (is_cut) workspace = std::max(plan[0].workspace, plan[1].workspace);
    }
};

// A number that no other call has and that chance does not leave in a workspace: one after the other from somewhere.
unsigned long long next_call() {
    static const char place = 0;
    static std::atomic<uint64_t> next{static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) *
                                          0x9e3779b97f4a7c15 ^
                                      reinterpret_cast<uintptr_t>(&place) * 0xbf58476d1ce4e5b9};
    // Odd above the count's bits: all numbers come before the first again.
    constexpr uint64_t kStep = uint64_t{0x2545f4914f6cdd1d} << simt::DecodeParams::kCountBits;
    constexpr uint64_t kCount = (uint64_t{1} << simt::DecodeParams::kCountBits) - 1;
    uint64_t call = next.fetch_add(kStep, std::memory_order_relaxed) & ~kCount;
    if (call == 0) call = next.fetch_add(kStep, std::memory_order_relaxed) & ~kCount;
    return call;
}

int32_t run_plan(Device &device, const attile_attention_problem &p, const AttentionPlan &plan, Workspace workspace, Stream stream) {
    if (plan.path == AttentionPath::kNothing) return ATTILE_OK;
    simt::DecodeParams params;  // Other kernels take what it begins with.
    static_cast<AttentionParams &>(params) = attention_params(p, plan);
    float *copy_k = nullptr, *copy_v = nullptr;
    if (plan.convert) {
        copy_k = workspace.take<float>(plan.convert_k);
        copy_v = workspace.take<float>(plan.convert_v);
        if (copy_k == nullptr || copy_v == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    }
    if (plan.splits > 1) {
        params.part_o = workspace.take<float>(plan.part_rows * p.head_dim_v);
        params.part_lse = workspace.take<float>(plan.part_rows);
        const int64_t sums = attention_part_sums(p, plan);
        if (sums > 0) params.part_sum = workspace.take<float>(sums);
        if (params.part_o == nullptr || params.part_lse == nullptr || (sums > 0 && params.part_sum == nullptr))
            return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        const auto move_back = [](float *x, int64_t floats) {
            return reinterpret_cast<float *>(reinterpret_cast<uintptr_t>(x) - 4 * floats);
        };
        params.part_o = move_back(params.part_o, plan.first_part * p.head_dim_v);
        params.part_lse = move_back(params.part_lse, plan.first_part);
        if (sums > 0) params.part_sum = move_back(params.part_sum, plan.first_part);
    }
    if (plan.merges) {
        params.counts = workspace.take<unsigned long long>(plan.arrivals);
        params.call = next_call();
        if (params.counts == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    }
    const int64_t heads = p.batch * p.heads_q / plan.pack, per_kv = p.heads_q / plan.pack / p.heads_kv;
    for (int64_t first = 0; first < heads; first += plan.slice) {
        const int64_t count = std::min(plan.slice, heads - first);
        if (plan.convert && (first == 0 || !present(p.cu_len_k))) {
            const bool packed = present(p.cu_len_k);
            DenseCut cut = {p.heads_kv, packed ? p.total_k : p.len_k,         p.head_dim, plan.depth, first / per_kv, count / per_kv,
                            packed,     present(p.block_table) ? &p : nullptr};
            int32_t status = attention_densify(device, p.k, cut, copy_k, params.k, stream);
            cut.cols = p.head_dim_v;
            cut.padded_cols = ceil_div(p.head_dim_v, 4) * 4;
            if (status == ATTILE_OK) status = attention_densify(device, p.v, cut, copy_v, params.v, stream);
            if (status != ATTILE_OK) return status;
        }
        params.first_head = static_cast<uint32_t>(first);
        params.head_count = Divider(count);
        params.split_blocks = Divider(plan.row_blocks * count - plan.whole_blocks);
        Dim3 grid, block;
        grid.x = static_cast<uint32_t>(plan.blocks_of(count));
        block.x = static_cast<uint32_t>(plan.threads);
        void *arguments[] = {static_cast<AttentionParams *>(&params)};
        const int32_t status = device.launch(plan.kernel, grid, block, plan.shared, arguments, stream);
        if (status != ATTILE_OK) return status;
    }
    return plan.splits > 1 && !plan.merges ? attention_combine(device, params, p, stream) : ATTILE_OK;
}

// By SIMT.
struct SimtAttention {
    const attile_attention_problem *problem;
    AttentionPlan plan;
    CutRows cut;

    int32_t describe(Device &device, attile_support &support) const {
        attention_report(device, *problem, cut.is_cut ? cut.plan[0] : plan, support);
        if (cut.is_cut) {
            const std::size_t length = std::strlen(support.text);
            std::snprintf(support.text + length, sizeof support.text - length, "; the last %lld rows by %s",
                          static_cast<long long>(cut.problem[1].len_q), cut.plan[1].name);
        }
        count_matrix_units(device.properties(), problem->q.dtype, support);
        return ATTILE_OK;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        if (!cut.is_cut) return run_plan(device, *problem, plan, workspace, stream);
        const int32_t status = run_plan(device, cut.problem[0], cut.plan[0], workspace, stream);
        return status == ATTILE_OK ? run_plan(device, cut.problem[1], cut.plan[1], workspace, stream) : status;
    }
};

}  // namespace

Planned<attile_attention_problem> simt::plan_attention(Device &device, const attile_attention_problem &p) {
    const AttentionPlan plan = gpu::plan_attention(device, p);
    if (plan.status != ATTILE_OK) return Planned<attile_attention_problem>::refused(plan.status, "%s", plan.text);
    const CutRows cut(device, p, plan);
    int64_t workspace = cut.workspace;
    if (p.k.data == nullptr || p.v.data == nullptr) {
        // Where K and V will lie is not known yet. Other kernels, of other splits, take them where no vector begins: workspace for those,
        // too.
        attile_attention_problem elsewhere = p;
        elsewhere.k.data = elsewhere.v.data = reinterpret_cast<void *>(sizeof(float));
        workspace = std::max(workspace, CutRows(device, elsewhere, gpu::plan_attention(device, elsewhere)).workspace);
    }
    return Planned<attile_attention_problem>(SimtAttention{&p, plan, cut}, workspace);
}

}  // namespace attile::gpu

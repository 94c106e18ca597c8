// SPDX-License-Identifier: Apache-2.0
// What the launches of all families' plans have in common.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "attention/run.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
constexpr int64_t kFewCombinedRows = 4;  // Of splits, for each multiprocessor: up to so many a block takes one.

int64_t bits_of(const attile_operand &x) { return x.dtype & 0xff; }

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
        case ATTILE_I8:
            return AttentionStorage::kI8;
        case ATTILE_F8_E4M3:
            return AttentionStorage::kE4M3;
        case ATTILE_F8_E5M2:
            return AttentionStorage::kE5M2;
        case ATTILE_I4:
            return AttentionStorage::kI4;
        case ATTILE_U4:
            return AttentionStorage::kU4;
        default:
            return AttentionStorage::kU8;
    }
}

}  // namespace

AttentionOperand attention_operand(const attile_operand &x, int64_t cols) {
    AttentionOperand to = {};
    to.storage = storage_of(x.dtype);
    if (x.dtype == 0) return to;  // As most are, in every call.
    to.data = x.data;
    for (int i = 0; i < 4; ++i) to.stride[i] = x.stride[i];
    const int64_t run = is_quantised(to.storage) ? 8 : 4, run_bytes = run * bits_of(x) / 8;
    to.vector = cols % run == 0 && x.stride[3] == 1 && x.stride[0] % run == 0 && x.stride[1] % run == 0 && x.stride[2] % run == 0 &&
                reinterpret_cast<uintptr_t>(x.data) % static_cast<uintptr_t>(run_bytes) == 0;
    to.row_bytes = static_cast<int32_t>(x.stride[2] * bits_of(x) / 8);
    return to;
}

bool attention_scales_by_key(const attile_attention_problem &p, const attile_operand &scale) {
    return is_present(scale) && (scale.stride[2] != 0 || (is_present(p.block_table) && scale.stride[0] != 0));
}

AttentionScales attention_scales(const attile_attention_problem &p, const attile_operand &scale, int64_t group) {
    AttentionScales to = {};
    if (!is_present(scale)) return to;
    to.data = static_cast<const float *>(scale.data);
    to.by_key = attention_scales_by_key(p, scale);
    to.row_bytes = static_cast<int32_t>(scale.stride[2] * bits_of(scale) / 8);
    std::copy(scale.stride, scale.stride + 4, to.stride);
    to.group = Divider(group);
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
    to.q_scale = attention_scales(p, p.q_scale, p.q_group);
    to.k_scale = attention_scales(p, p.k_scale, p.k_group);
    to.v_scale = attention_scales(p, p.v_scale, p.v_group);
    const auto numbers = [](const attile_operand &x) { return is_present(x) ? static_cast<const int32_t *>(x.data) : nullptr; };
    to.key_lengths = numbers(p.key_lengths);
    to.key_starts = numbers(p.key_starts);
    to.causal_offset = numbers(p.causal_offset);
    to.cu_len_q = numbers(p.cu_len_q);
    to.cu_len_k = numbers(p.cu_len_k);
    to.block_table = numbers(p.block_table);
    to.key_lengths_stride = p.key_lengths.stride[0];
    to.key_starts_stride = p.key_starts.stride[0];
    to.causal_offset_stride = p.causal_offset.stride[0];
    to.cu_len_q_stride = p.cu_len_q.stride[0];
    to.cu_len_k_stride = p.cu_len_k.stride[0];
    to.block_table_stride[0] = p.block_table.stride[0];
    to.block_table_stride[1] = p.block_table.stride[1];
    const auto mask = [](const attile_operand &x) {
        AttentionMask bytes = {};
        if (!is_present(x)) return bytes;
        bytes.data = static_cast<const uint8_t *>(x.data);
        std::copy(x.stride, x.stride + 4, bytes.stride);
        return bytes;
    };
    to.block_mask = mask(p.block_mask);
    to.tree_mask = mask(p.tree_mask);
    // Of columns before the first key none is read.
    to.tree_keys = static_cast<int32_t>(std::min(p.tree_keys, kAttentionMaxLength));
    if (to.tree_mask.data != nullptr) to.tree_mask.data += (p.tree_keys - to.tree_keys) * to.tree_mask.stride[3];
    to.total_q = p.total_q;
    to.total_k = p.total_k;
    to.pages = p.pages;
    to.page_size = Divider(std::max<int64_t>(std::min<int64_t>(p.page_size, kAttentionMaxLength), 1));
    to.len_q = static_cast<int32_t>(p.len_q);
    to.len_k = static_cast<int32_t>(is_present(p.block_table) && p.pages < 1 ? 0 : p.len_k);
    to.head_dim = static_cast<int32_t>(p.head_dim);
    to.head_dim_v = static_cast<int32_t>(p.head_dim_v);
    // Without heads there is nothing to divide; a gradient of a bias that is broadcast over them is still to be set to zero.
    to.group = Divider(std::max<int64_t>(p.heads_q / p.heads_kv, 1));
    to.pack = Divider(plan.pack);
    to.heads = Divider(std::max<int64_t>(p.heads_q / plan.pack, 1));
    const auto window = [](int64_t keys) {
        return static_cast<int32_t>(keys < 0 ? kAttentionOpenWindow : std::min(keys, kAttentionOpenWindow));
    };
    to.window_left = window(p.window_left);
    to.window_right = window(p.window_right);
    to.bottom_right = p.alibi_bottom_right;  // The mask's, too, where there is one.
    to.scale = p.scale;
    to.softcap = attention_softcap(p);
    const double scale_log2 = p.scale * kLog2E;
    to.scale_log2 = to.query_scale = static_cast<float>(scale_log2);
    if (std::fabs(static_cast<double>(to.query_scale)) >= std::fabs(scale_log2)) to.query_scale = std::nextafterf(to.query_scale, 0.0f);
    to.query_scale_low = static_cast<float>(scale_log2 - static_cast<double>(to.query_scale));
    to.softcap_log2 = static_cast<float>(to.softcap * kLog2E);
    to.modifiers = attention_modifies_scores(p) || is_present(p.block_table);
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
    params.scales = cut.scales;
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
    // Rows enough that their number counts, not the way to memory and back. With BATCH_INVARIANT neither other entries nor other rows may
    // choose a kernel, since each has its order of summation.
    const int64_t rows = params.part_rows, few = kFewCombinedRows * std::max(device.properties().compute_units, 1);
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const bool many_rows = p.head_dim_v > 0 && (invariant || rows > few);
    const int64_t block_rows = many_rows ? simt::kAttentionCombineThreads / ceil_div(p.head_dim_v, 4) : 1;
    Dim3 grid, block;
    if (rows > kMaxGridX)
        return fail(ATTILE_ERROR_UNSUPPORTED_SHAPE, "attention: %lld rows, whose keys are split, are more than a grid holds",
                    static_cast<long long>(rows));
    grid.x = static_cast<uint32_t>(ceil_div(rows, block_rows));
    block.x = simt::kAttentionCombineThreads;
    return device.launch_early(simt::attention_combine_kernel(p.head_dim_v, params.part_sum != nullptr, many_rows), grid, block, 0,
                               arguments, stream);
}

double attention_bytes(const attile_attention_problem &p) {
    const double d = static_cast<double>(p.head_dim), dv = static_cast<double>(p.head_dim_v);
    const auto bytes = [](const attile_operand &x) { return static_cast<double>(bits_of(x)) / 8; };
    const double rows =
        static_cast<double>(p.heads_q) * static_cast<double>(p.total_q) * (is_present(p.cu_len_q) ? 1 : static_cast<double>(p.batch));
    const double keys =
        static_cast<double>(p.heads_kv) * static_cast<double>(p.total_k) * (is_present(p.cu_len_k) ? 1 : static_cast<double>(p.batch));
    // A scale that is broadcast counts once.
    const auto scales = [&](const attile_operand &x, int64_t heads, int64_t tokens, double width, int64_t group) {
        double count = x.stride[3] != 0 ? width / static_cast<double>(std::max<int64_t>(group, 1)) : 1;
        if (x.stride[0] != 0) count *= static_cast<double>(p.batch);
        if (x.stride[1] != 0) count *= static_cast<double>(heads);
        if (x.stride[2] != 0) count *= static_cast<double>(tokens);
        return count * bytes(x);
    };
    return rows * (d * bytes(p.q) + dv * bytes(p.o) + bytes(p.lse)) + keys * (d * bytes(p.k) + dv * bytes(p.v)) +
           scales(p.q_scale, p.heads_q, p.total_q, d, p.q_group) + scales(p.k_scale, p.heads_kv, p.total_k, d, p.k_group) +
           scales(p.v_scale, p.heads_kv, p.total_k, dv, p.v_group) + scales(p.o_scale, p.heads_q, p.total_q, dv, p.o_group);
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

}  // namespace attile::gpu

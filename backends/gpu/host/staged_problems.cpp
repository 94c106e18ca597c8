// SPDX-License-Identifier: Apache-2.0
// The cuts: gemm by batch, rows and columns, of groups of rows by columns alone; attention by batch and groups of heads; merge, its
// gradients, reduce, softmax and quantisation by rows.
#include "host/staged_problems.h"

#include <algorithm>
#include <initializer_list>

#include "host/sizes.h"

namespace attile::gpu {
namespace {

// One axis of an operand: its extent, the dimension that moves it, and by how many elements a unit.
struct Axis {
    int64_t extent = 1;
    int32_t dim = -1;
    int64_t per_unit = 1;
};

// Nothing of an empty operand is sent, though others of the call are not empty.
void add(StagedCall &call, attile_operand &operand, std::initializer_list<Axis> axes, bool is_output = false) {
    if (operand.dtype == 0) return;
    if (std::any_of(axes.begin(), axes.end(), [](const Axis &axis) { return axis.extent == 0; })) return;
    StagedOperand staged;
    staged.operand = &operand;
    staged.is_output = is_output;
    staged.element_bytes = (operand.dtype & 0xff) / 8;
    std::copy(operand.stride, operand.stride + 4, staged.stride);
    int i = 0;
    for (const Axis &axis : axes) {
        staged.extent[i] = axis.extent;
        staged.dim[i] = axis.dim;
        staged.per_unit[i] = axis.per_unit;
        ++i;
    }
    call.operands.push_back(staged);
}

void set(int64_t (&values)[kStagedDims], int64_t a, int64_t b, int64_t c, int64_t d) {
    values[0] = a;
    values[1] = b;
    values[2] = c;
    values[3] = d;
}

bool is_of_four_bits(const attile_operand &x) { return x.dtype == ATTILE_I4 || x.dtype == ATTILE_U4; }

Axis blocks(int64_t extent, int64_t group) { return {ceil_div(extent, std::max<int64_t>(group, 1))}; }

// B and what belongs to its numbers.
void add_b(StagedCall &call, attile_gemm_problem &p, PackedNumbers &b, const Axis &x, const Axis &y, const Axis &n) {
    if (is_of_four_bits(p.b)) {
        b.bytes.dtype = ATTILE_I8;
        for (int axis = 0; axis < 4; ++axis) b.bytes.stride[axis] = axis == b.axis ? 1 : p.b.stride[axis] / 2;
        add(call, b.bytes, {x, y, {b.axis == 2 ? p.k / 2 : p.k}, {b.axis == 2 ? p.n : p.n / 2}});
    } else {
        add(call, p.b, {x, y, {p.k}, n});
    }
    for (attile_operand *const of_b : {&p.b_scale, &p.b_zero})
        add(call, *of_b, {x, y, blocks(p.k, p.b_group[0]), blocks(p.n, p.b_group[1])});
}

// Chunks of rows should still fill whole tiles of the fastest kernels.
constexpr int64_t kTileGranule = 256;
// Rows of a column-wise reduction are neighbours in memory: keep whole cache lines together.
constexpr int64_t kRowGranule = 64;

}  // namespace

void PackedNumbers::follow(attile_operand &numbers) const {
    if (!is_of_four_bits(numbers)) return;
    numbers.data = bytes.data;
    for (int i = 0; i < 4; ++i) numbers.stride[i] = i == axis ? 1 : 2 * bytes.stride[i];
}

// Dimensions x, y, n, m: with columns outside rows, B's chunk stays while A's pass by. Columns are cut only for memory's sake. Numbers of 8
// and 4 bits are not cut along rows and columns, of which several may share a scale or a byte.
StagedProblem<attile_gemm_problem>::StagedProblem(const attile_gemm_problem &from) : problem(from), b(from.b) {
    const bool is_narrow = (from.a.dtype != 0 && (from.a.dtype & 0xff) <= 8) || (from.b.dtype != 0 && (from.b.dtype & 0xff) <= 8);
    const bool is_cut = !is_narrow;
    const Axis x{from.batch[0], 0}, y{from.batch[1], 1}, n{from.n, is_cut ? 2 : -1}, m{from.m, is_cut ? 3 : -1}, k{from.k};
    call.operands.reserve(9);
    add(call, problem.a, {x, y, m, k});
    add_b(call, problem, b, x, y, n);
    add(call, problem.a_scale, {x, y, blocks(from.m, from.a_group[0]), blocks(from.k, from.a_group[1])});
    add(call, problem.c, {x, y, m, n});
    add(call, problem.bias, {x, y, m, n});
    add(call, problem.d_scale, {x, y, m, n});
    add(call, problem.d, {x, y, m, n}, true);
    set(call.units, from.batch[0], from.batch[1], is_cut ? from.n : 1, is_cut ? from.m : 1);
    set(call.granule, 1, 1, kTileGranule, kTileGranule);
    call.cut_order[2] = 3;
    call.cut_order[3] = 2;
    call.cut_for_overlap = 3;
}

void StagedProblem<attile_gemm_problem>::resize(const int64_t count[kStagedDims]) {
    problem.batch[0] = count[0];
    problem.batch[1] = count[1];
    if (call.units[2] > 1) problem.n = count[2];
    if (call.units[3] > 1) problem.m = count[3];
    b.follow(problem.b);
}

// Dimension n, but of B of 8 and 4 bits. The rows of a group are known on the device alone.
StagedProblem<attile_gemm_grouped_problem>::StagedProblem(const attile_gemm_grouped_problem &from)
    : problem(from), product(*from.product), b(from.product->b) {
    problem.product = &product;
    const bool is_cut = (product.b.dtype & 0xff) > 8;
    const Axis y{product.batch[1]}, n{product.n, is_cut ? 2 : -1}, m{product.m}, k{product.k};
    call.operands.reserve(8);
    add(call, problem.row_offsets, {{1}, {product.batch[1] + 1}});
    add(call, product.a, {{1}, {1}, m, k});
    add_b(call, product, b, {1}, y, n);
    add(call, product.c, {{1}, {1}, m, n});
    add(call, product.bias, {{1}, y, {1}, n});
    add(call, product.d, {{1}, {1}, m, n}, true);
    call.operands.back().is_partial = true;  // Rows of no group stay as they are.
    set(call.units, 1, 1, is_cut ? product.n : 1, 1);
    set(call.granule, 1, 1, kTileGranule, 1);
}

void StagedProblem<attile_gemm_grouped_problem>::resize(const int64_t count[kStagedDims]) {
    if (call.units[2] > 1) product.n = count[2];
    b.follow(product.b);
}

// Dimensions batch entries and key heads. Packed sequences lie one after another in the same axis, where only the lengths, which are data,
// say how: they are cut by heads alone. Pages belong to no batch entry, so all of a head's pages are sent.
StagedProblem<attile_attention_problem>::StagedProblem(const attile_attention_problem &from)
    : problem(from), k_bytes(from.k), v_bytes(from.v), group(from.heads_kv > 0 ? from.heads_q / from.heads_kv : 1) {
    const bool is_packed_q = from.cu_len_q.dtype != 0, is_packed_k = from.cu_len_k.dtype != 0, is_paged = from.block_table.dtype != 0;
    const bool is_packed = is_packed_q || is_packed_k;
    const int32_t entry = is_packed ? -1 : 0;
    const Axis b{from.batch, entry}, hq{from.heads_q, 1, group}, hkv{from.heads_kv, 1};
    const Axis bq = is_packed_q ? Axis{1} : b;
    const Axis lq{is_packed_q ? from.total_q : from.len_q};
    Axis bk = is_packed_k ? Axis{1} : b, lk{is_packed_k ? from.total_k : from.len_k};
    if (is_paged) {
        bk = Axis{from.pages};
        lk = Axis{from.page_size};
    }
    const Axis rows{from.len_q}, keys{from.len_k};
    const auto groups = [](int64_t columns, int64_t each) { return Axis{ceil_div(columns, std::max<int64_t>(each, 1))}; };
    call.operands.reserve(24);
    add(call, problem.q, {bq, hq, lq, {from.head_dim}});
    const auto add_cached = [&](attile_operand &numbers, attile_operand &bytes, int64_t columns) {
        if (!is_of_four_bits(numbers)) return add(call, numbers, {bk, hkv, lk, {columns}});
        bytes.dtype = ATTILE_I8;
        for (int axis = 0; axis < 3; ++axis) bytes.stride[axis] /= 2;
        add(call, bytes, {bk, hkv, lk, {columns / 2}});
    };
    add_cached(problem.k, k_bytes, from.head_dim);
    add_cached(problem.v, v_bytes, from.head_dim_v);
    add(call, problem.q_scale, {bq, hq, lq, groups(from.head_dim, from.q_group)});
    add(call, problem.k_scale, {bk, hkv, lk, groups(from.head_dim, from.k_group)});
    add(call, problem.v_scale, {bk, hkv, lk, groups(from.head_dim_v, from.v_group)});
    add(call, problem.o_scale, {bq, hq, lq, groups(from.head_dim_v, from.o_group)});
    add(call, problem.bias, {b, hq, rows, keys});
    add(call, problem.allowed, {b, hq, rows, keys});
    add(call, problem.alibi_slopes, {b, hq});
    add(call, problem.sinks, {{1}, hq});
    add(call, problem.key_lengths, {b});
    add(call, problem.key_starts, {b});
    add(call, problem.causal_offset, {b});
    add(call, problem.block_mask, {b, hq, {ceil_div(from.len_q, ATTILE_MASK_BLOCK)}, {ceil_div(from.len_k, ATTILE_MASK_BLOCK)}});
    add(call, problem.tree_mask, {b, hq, rows, {from.tree_keys}});
    add(call, problem.cu_len_q, {{from.batch + 1}});
    add(call, problem.cu_len_k, {{from.batch + 1}});
    add(call, problem.block_table, {b, {is_paged ? from.len_k / from.page_size : 1}});
    add(call, problem.o, {bq, hq, lq, {from.head_dim_v}}, true);
    add(call, problem.lse, {bq, hq, lq}, true);
    // Rows that belong to no sequence stay as they are.
    for (StagedOperand &operand : call.operands) operand.is_partial = operand.is_output && is_packed_q;
    set(call.units, is_packed ? 1 : from.batch, from.heads_kv, 1, 1);
}

void StagedProblem<attile_attention_problem>::resize(const int64_t count[kStagedDims]) {
    if (problem.cu_len_q.dtype == 0 && problem.cu_len_k.dtype == 0) problem.batch = count[0];
    problem.heads_kv = count[1];
    problem.heads_q = count[1] * group;
    const auto follow = [](attile_operand &numbers, const attile_operand &bytes) {
        if (!is_of_four_bits(numbers)) return;
        numbers.data = bytes.data;
        for (int axis = 0; axis < 3; ++axis) numbers.stride[axis] = 2 * bytes.stride[axis];
    };
    follow(problem.k, k_bytes);
    follow(problem.v, v_bytes);
}

// As forward, whose outputs are inputs here. What is summed over batch entries or heads keeps them together.
StagedProblem<attile_attention_backward_problem>::StagedProblem(const attile_attention_backward_problem &from)
    : problem(from), forward(*from.forward) {
    attile_attention_problem &p = forward.problem;
    problem.forward = &p;
    call.operands = forward.call.operands;
    std::copy(forward.call.units, forward.call.units + kStagedDims, call.units);
    for (StagedOperand &operand : call.operands) operand.is_output = operand.is_partial = false;
    const bool has_bias = from.dbias.dtype != 0, sums_batch = from.dsinks.dtype != 0 || (has_bias && from.bias_extent[0] == 1);
    if (sums_batch) call.units[0] = 1;
    if (has_bias && from.bias_extent[1] == 1) call.units[1] = 1;
    if (call.units[0] == 1) {
        for (StagedOperand &operand : call.operands)
            for (int32_t &dim : operand.dim) dim = dim == 0 ? -1 : dim;
    }
    if (call.units[1] == 1) {
        for (StagedOperand &operand : call.operands)
            for (int32_t &dim : operand.dim) dim = dim == 1 ? -1 : dim;
    }
    const bool is_packed_q = p.cu_len_q.dtype != 0, is_packed_k = p.cu_len_k.dtype != 0;
    const int32_t entry = call.units[0] == 1 ? -1 : 0, head = call.units[1] == 1 ? -1 : 1;
    const Axis b{p.batch, entry}, hq{p.heads_q, head, forward.group}, hkv{p.heads_kv, head};
    const Axis bq = is_packed_q ? Axis{1} : b, bk = is_packed_k ? Axis{1} : b, lq{p.total_q}, lk{p.total_k};
    add(call, problem.dout, {bq, hq, lq, {p.head_dim_v}});
    add(call, problem.dlse, {bq, hq, lq});
    add(call, problem.dq, {bq, hq, lq, {p.head_dim}}, true);
    add(call, problem.dk, {bk, hkv, lk, {p.head_dim}}, true);
    add(call, problem.dv, {bk, hkv, lk, {p.head_dim_v}}, true);
    const int64_t *const extent = from.bias_extent;
    cuts_bias[0] = extent[0] != 1 && entry == 0;
    cuts_bias[1] = extent[1] != 1 && head == 1;
    add(call, problem.dbias, {cuts_bias[0] ? b : Axis{extent[0]}, cuts_bias[1] ? hq : Axis{extent[1]}, {extent[2]}, {extent[3]}}, true);
    add(call, problem.dsinks, {{1}, hq}, true);
}

void StagedProblem<attile_attention_backward_problem>::resize(const int64_t count[kStagedDims]) {
    const int64_t whole[2] = {forward.problem.batch, forward.problem.heads_kv};
    const int64_t of_forward[kStagedDims] = {call.units[0] == 1 ? whole[0] : count[0], call.units[1] == 1 ? whole[1] : count[1], 1, 1};
    forward.resize(of_forward);
    if (cuts_bias[0]) problem.bias_extent[0] = forward.problem.batch;
    if (cuts_bias[1]) problem.bias_extent[1] = forward.problem.heads_q;
}

StagedProblem<attile_attention_merge_problem>::StagedProblem(const attile_attention_merge_problem &from)
    : problem(from), o_parts(from.o_parts, from.o_parts + from.parts), lse_parts(from.lse_parts, from.lse_parts + from.parts) {
    problem.o_parts = o_parts.data();
    problem.lse_parts = lse_parts.data();
    const Axis b{from.batch, 0}, h{from.heads, 1}, l{from.len, 2}, d{from.head_dim_v};
    call.operands.reserve(2 * o_parts.size() + 2);
    for (attile_operand &part : o_parts) add(call, part, {b, h, l, d});
    for (attile_operand &part : lse_parts) add(call, part, {b, h, l});
    add(call, problem.o, {b, h, l, d}, true);
    add(call, problem.lse, {b, h, l}, true);
    set(call.units, from.batch, from.heads, from.len, 1);
    set(call.granule, 1, 1, kRowGranule, 1);
}

void StagedProblem<attile_attention_merge_problem>::resize(const int64_t count[kStagedDims]) {
    problem.batch = count[0];
    problem.heads = count[1];
    problem.len = count[2];
}

StagedProblem<attile_attention_merge_backward_problem>::StagedProblem(const attile_attention_merge_backward_problem &from)
    : problem(from),
      o_parts(from.o_parts, from.o_parts + from.parts),
      lse_parts(from.lse_parts, from.lse_parts + from.parts),
      do_parts(from.do_parts, from.do_parts + from.parts),
      dlse_parts(from.dlse_parts, from.dlse_parts + from.parts) {
    problem.o_parts = o_parts.data();
    problem.lse_parts = lse_parts.data();
    problem.do_parts = do_parts.data();
    problem.dlse_parts = dlse_parts.data();
    const Axis b{from.batch, 0}, h{from.heads, 1}, l{from.len, 2}, d{from.head_dim_v};
    call.operands.reserve(4 * o_parts.size() + 4);
    for (attile_operand &part : o_parts) add(call, part, {b, h, l, d});
    for (attile_operand &part : lse_parts) add(call, part, {b, h, l});
    add(call, problem.o, {b, h, l, d});
    add(call, problem.lse, {b, h, l});
    add(call, problem.dout, {b, h, l, d});
    add(call, problem.dlse, {b, h, l});
    for (attile_operand &part : do_parts) add(call, part, {b, h, l, d}, true);
    for (attile_operand &part : dlse_parts) add(call, part, {b, h, l}, true);
    set(call.units, from.batch, from.heads, from.len, 1);
    set(call.granule, 1, 1, kRowGranule, 1);
}

void StagedProblem<attile_attention_merge_backward_problem>::resize(const int64_t count[kStagedDims]) {
    problem.batch = count[0];
    problem.heads = count[1];
    problem.len = count[2];
}

StagedProblem<attile_reduce_problem>::StagedProblem(const attile_reduce_problem &from) : problem(from) {
    const Axis i{from.shape[0], 0}, j{from.shape[1], 1}, l{from.shape[2], 2};
    call.operands.reserve(2);
    add(call, problem.x, {i, j, l, {from.shape[3]}});
    add(call, problem.y, {i, j, l}, true);
    set(call.units, from.shape[0], from.shape[1], from.shape[2], 1);
    set(call.granule, 1, 1, kRowGranule, 1);
}

void StagedProblem<attile_reduce_problem>::resize(const int64_t count[kStagedDims]) { std::copy(count, count + 3, problem.shape); }

StagedProblem<attile_softmax_problem>::StagedProblem(const attile_softmax_problem &from) : problem(from) {
    const Axis i{from.shape[0], 0}, j{from.shape[1], 1}, l{from.shape[2], 2}, r{from.shape[3]};
    call.operands.reserve(2);
    add(call, problem.x, {i, j, l, r});
    add(call, problem.y, {i, j, l, r}, true);
    set(call.units, from.shape[0], from.shape[1], from.shape[2], 1);
    set(call.granule, 1, 1, kRowGranule, 1);
}

void StagedProblem<attile_softmax_problem>::resize(const int64_t count[kStagedDims]) { std::copy(count, count + 3, problem.shape); }

// q of 4 bits as the bytes that two numbers share, to which `pairs` was set; and back, once they have a place.
static void make_pairs(attile_operand &pairs) {
    pairs.dtype = ATTILE_I8;
    for (int i = 0; i < 3; ++i) pairs.stride[i] /= 2;
}
static void place_pairs(const attile_operand &pairs, attile_operand &q) {
    q.data = pairs.data;
    for (int i = 0; i < 3; ++i) q.stride[i] = 2 * pairs.stride[i];
    q.stride[3] = 1;
}

// Cut between blocks of scales, and where scales are given and all of an axis has one, anywhere; the last axis stays whole. Two numbers
// that share a byte travel as that byte.
StagedProblem<attile_quantize_problem>::StagedProblem(const attile_quantize_problem &from)
    : problem(from), pairs(from.q), is_shared(), has_rows(from.rope_positions != 0 || from.append != 0) {
    Axis axis[4], block[4];
    for (int i = 0; i < 4; ++i) {
        const bool is_cut = i < (has_rows ? 2 : 3) && !(i == 0 && from.page_size != 0);
        const int32_t dim = is_cut ? i : -1;
        is_shared[i] = is_cut && from.scale_given != 0 && from.group[i] == from.shape[i];
        const int64_t unit = is_shared[i] || !is_cut ? 1 : from.group[i];
        axis[i] = {from.shape[i], dim, unit};
        block[i] = is_shared[i] ? Axis{} : Axis{from.shape[i] / from.group[i], dim};
        call.units[i] = is_cut ? from.shape[i] / unit : 1;
    }
    const bool makes_scales = from.scale_given == 0, is_back = from.back != 0, appends = from.append != 0;
    call.operands.reserve(9);
    const auto add_output = [&](attile_operand &operand, std::initializer_list<Axis> axes, bool is_output) {
        const size_t before = call.operands.size();
        add(call, operand, axes, is_output);
        if (call.operands.size() != before) call.operands.back().is_partial = is_output && appends;
    };
    add(call, problem.x, {axis[0], axis[1], axis[2], axis[3]}, is_back);
    if (appends) {  // Other rows of the cache stay as they are.
        is_shared[0] = is_shared[1] = false;
        axis[0] = block[0] = {from.page_size != 0 ? from.pages : from.shape[0], axis[0].dim};
        axis[1] = block[1] = {from.shape[1], 1};
        axis[2] = block[2] = {from.page_size != 0 ? from.page_size : from.len_k};
    }
    if (dtype_bits(from.q.dtype) == 4) {
        make_pairs(pairs);
        add_output(pairs, {axis[0], axis[1], axis[2], {from.shape[3] / 2}}, !is_back);
    } else {
        add_output(problem.q, {axis[0], axis[1], axis[2], axis[3]}, !is_back);
    }
    add_output(problem.scale, {block[0], block[1], block[2], block[3]}, makes_scales);
    add_output(problem.zero, {block[0], block[1], block[2], block[3]}, makes_scales);
    const Axis entry{from.shape[0], call.units[0] != 1 ? 0 : -1, from.append != 0 || is_shared[0] ? 1 : from.group[0]};
    add(call, problem.rope_cos, {{from.rope_positions}, {from.rope_pairs}});
    add(call, problem.rope_sin, {{from.rope_positions}, {from.rope_pairs}});
    add(call, problem.positions, {entry, {from.shape[2]}});
    add(call, problem.key_lengths, {entry});
    add(call, problem.block_table, {entry, {from.page_size != 0 ? from.len_k / from.page_size : 1}});
    set(call.granule, 1, 1, from.group[2] > 1 && !is_shared[2] ? 1 : kRowGranule, 1);
}

void StagedProblem<attile_quantize_problem>::resize(const int64_t count[kStagedDims]) {
    for (int i = 0; i < (has_rows ? 2 : 3); ++i) {
        if (i == 0 && problem.page_size != 0) continue;
        problem.shape[i] = count[i] * (is_shared[i] ? 1 : problem.group[i]);
        if (is_shared[i]) problem.group[i] = count[i];
    }
    if (dtype_bits(problem.q.dtype) == 4) place_pairs(pairs, problem.q);
}

StagedProblem<attile_repack_problem>::StagedProblem(const attile_repack_problem &from) : problem(from), pairs(from.q) {
    const Axis i{from.shape[0], 0}, j{from.shape[1], 1}, l{from.shape[2], 2}, groups{from.shape[3] / 32};
    call.operands.reserve(4);
    add(call, problem.blocks, {i, j, l, {from.row_bytes}});
    if (dtype_bits(from.q.dtype) == 4) {
        make_pairs(pairs);
        add(call, pairs, {i, j, l, {from.shape[3] / 2}}, true);
    } else {
        add(call, problem.q, {i, j, l, {from.shape[3]}}, true);
    }
    add(call, problem.scale, {i, j, l, groups}, true);
    add(call, problem.zero, {i, j, l, groups}, true);
    set(call.units, from.shape[0], from.shape[1], from.shape[2], 1);
    set(call.granule, 1, 1, kRowGranule, 1);
}

void StagedProblem<attile_repack_problem>::resize(const int64_t count[kStagedDims]) {
    std::copy(count, count + 3, problem.shape);
    if (dtype_bits(problem.q.dtype) == 4) place_pairs(pairs, problem.q);
}

}  // namespace attile::gpu

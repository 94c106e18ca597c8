// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/dense_rows.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "attention/plan.h"
#include "attention/run.h"
#include "host/sizes.h"

namespace attile::gpu::simt {
namespace {

const void *moved(const attile_attention_problem &p, const void *data, int64_t numbers) {
    return reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(number_bytes(p) * numbers));
}

int32_t pass_rows(const DenseRows &rows, DenseKernel kernel, const SlicePlace &at, const AttentionOperand &operand, int64_t cols,
                  bool of_keys, void *copy, const void *divisors) {
    const DenseParams params = {rows.params, head_slice(at), operand, copy, divisors, static_cast<int32_t>(cols), of_keys};
    constexpr int64_t kGroups = kWideThreads / 32, kMostBlocks = 1 << 20;
    const int64_t blocks = std::min(ceil_div(params.slice.total, kGroups), kMostBlocks);
    return launch(rows.device, kernel, Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{kWideThreads, 1, 1}, 0, rows.stream, params);
}

}  // namespace

HeadMatrix rows_matrix(const attile_operand &x, const attile_attention_problem &p, const SlicePlace &at, int64_t cols, bool is_copied,
                       const void *copy) {
    if (is_copied) {
        const int64_t member = at.rows * cols, head = at.members * member;
        return {copy, at.heads * head, head, member, cols, 1};
    }
    const int64_t group = p.heads_q / p.heads_kv;
    const int64_t first = at.entry * x.stride[0] + (at.head * group + at.member) * x.stride[1] + at.row * x.stride[2];
    return {moved(p, x.data, first), x.stride[0], group * x.stride[1], x.stride[1], x.stride[2], x.stride[3]};
}

HeadMatrix keys_matrix(const attile_operand &x, const attile_attention_problem &p, const SlicePlace &at, int64_t cols, bool is_copied,
                       const void *copy) {
    if (is_copied) {
        const int64_t head = p.len_k * cols;
        return {moved(p, copy, at.key * cols), at.heads * head, head, 0, cols, 1};
    }
    const int64_t first = at.entry * x.stride[0] + at.head * x.stride[1] + at.key * x.stride[2];
    return {moved(p, x.data, first), x.stride[0], x.stride[1], 0, x.stride[2], x.stride[3]};
}

HeadMatrix score_matrix(const SlicePlace &at, const void *scores) {
    const int64_t row = pitch_of(at), member = at.rows * row, head = at.members * member;
    return {scores, at.heads * head, head, member, row, 1};
}

HeadMatrix transposed(HeadMatrix matrix) {
    std::swap(matrix.row, matrix.col);
    return matrix;
}

HeadMatrix of_member(const attile_attention_problem &p, HeadMatrix matrix, int64_t member) {
    matrix.data = moved(p, matrix.data, member * matrix.member);
    matrix.member = 0;
    return matrix;
}

HeadProduct head_product(const attile_attention_problem &p, const SlicePlace &at) {
    HeadProduct product = {};
    product.entries = at.entries;
    product.heads = at.heads;
    product.members = at.members;
    product.alpha = 1;
    product.dtype = number_type(p);
    product.flags = p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT;
    return product;
}

const char *why_no_products(const attile_attention_problem &p, std::initializer_list<const attile_operand *> operands) {
    constexpr int64_t kMostKeys = int64_t{1} << 31;  // That a kernel numbers.
    if (p.head_dim < 1 || p.head_dim_v < 1 || p.len_k < 1 || p.len_q < 1 || (is_present(p.block_table) && p.pages < 1))
        return "there is nothing to multiply";
    if (p.scale == 0) return "the scale is 0";
    if (is_present(p.key_starts)) return "keys before an entry's first are not to be multiplied";
    for (const attile_operand *x : operands) {
        if (p.compute == ATTILE_F64 && x->dtype != ATTILE_F64) return "an operand is not of float64";
        if (p.compute != ATTILE_F64 && x->dtype != ATTILE_F32 && x->dtype != ATTILE_F16 && x->dtype != ATTILE_BF16)
            return "an operand is of 8 or 4 bits";
    }
    const bool is_packed = is_present(p.cu_len_q) || is_present(p.cu_len_k);
    if (is_packed && (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0)
        return "batch-invariant products of packed sequences would depend on the longest";
    return p.batch * p.heads_kv >= kMostKeys / p.len_k ? "there are more keys than a kernel numbers" : nullptr;
}

bool are_converted(const attile_attention_problem &p, std::initializer_list<const attile_operand *> operands) {
    return std::any_of(operands.begin(), operands.end(), [&](const attile_operand *x) { return x->dtype != number_type(p); });
}

AttentionParams wide_params(const attile_attention_problem &p) {
    AttentionPlan uncut;
    uncut.row_blocks = 1;
    return attention_params(p, uncut);
}

int32_t DenseRows::copy(const SlicePlace &at, const AttentionOperand &operand, int64_t cols, bool of_keys, void *to) const {
    return pass_rows(*this, attention_products_gather_kernel(is_f64), at, operand, cols, of_keys, to, nullptr);
}
int32_t DenseRows::store(const SlicePlace &at, const AttentionOperand &operand, int64_t cols, bool of_keys, void *from) const {
    return pass_rows(*this, attention_products_scatter_kernel(is_f64), at, operand, cols, of_keys, from, nullptr);
}
int32_t DenseRows::divide(const SlicePlace &at, const AttentionOperand &operand, int64_t cols, void *from, const void *divisors) const {
    return pass_rows(*this, attention_products_divide_kernel(is_f64), at, operand, cols, false, from, divisors);
}

void say_why_no_products(const Declined &why, attile_support &support) {
    if (why.text[0] == '\0') return;
    const std::size_t length = std::strlen(support.text);
    std::snprintf(support.text + length, sizeof support.text - length, "; no products: %s", why.text);
}

int32_t describe_slices(Device &device, const void *kernel, const attile_attention_problem &p, const HeadCut &cut, const char *first,
                        const char *second, attile_support &support) {
    const HeadSlice slice = head_slice(first_slice(p, cut));
    support.level = ATTILE_SUPPORT_NATIVE;
    support.tile_m = static_cast<int32_t>(cut.rows);
    support.tile_n = slice.keys;
    support.tile_k = static_cast<int32_t>(std::min<int64_t>(p.head_dim, INT32_MAX));
    support.threads = kWideThreads;
    support.splits = 1;
    support.blocks = score_blocks(slice);
    KernelResources resources;
    int32_t status = device.resources(kernel, &resources);
    if (status == ATTILE_OK) status = device.occupancy(kernel, kWideThreads, 0, &support.blocks_per_unit);
    support.registers = resources.registers;
    support.shared_bytes = resources.shared_static;
    const long long group = p.heads_q / p.heads_kv, of_heads = ceil_div(p.batch, cut.entries) * ceil_div(p.heads_kv, cut.heads);
    std::snprintf(support.text, sizeof support.text, "%s: slices of %lld rows x %lld heads, %lld x %lld of them; products by %s and %s",
                  support.kernel, static_cast<long long>(cut.rows), static_cast<long long>(cut.entries * cut.heads * cut.members),
                  static_cast<long long>(ceil_div(p.len_q, cut.rows)), of_heads * (group / static_cast<long long>(cut.members)), first,
                  second);
    return status;
}

}  // namespace attile::gpu::simt

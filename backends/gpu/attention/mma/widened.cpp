// SPDX-License-Identifier: Apache-2.0
#include "attention/mma/widened.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "attention/mma/copies.h"
#include "attention/run.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::mma {
namespace {

// Rows of a key head up to which keys are streamed as they are, where there are kernels for them; of more than 128 columns SIMT's alone.
constexpr int64_t kStreamedRows = 16, kStreamedRowsOfSimt = 8, kTensorColumns = 128;
constexpr int64_t kMostBlocks = 1 << 16, kMostPieces = int64_t{1} << 30;

// One of q, k and v, and the scales that belong to it.
struct Numbers {
    attile_operand attile_attention_problem::*operand, attile_attention_problem::*scale;
    int64_t attile_attention_problem::*group;
    bool is_q, is_v;

    bool has_pages(const attile_attention_problem &p) const { return !is_q && is_present(p.block_table); }
    // Entries, or pages of all tables.
    int64_t entries(const attile_attention_problem &p) const {
        if (has_pages(p)) return p.batch * table_pages(p);
        return is_present(is_q ? p.cu_len_q : p.cu_len_k) ? 1 : p.batch;
    }
    int64_t heads(const attile_attention_problem &p) const { return is_q ? p.heads_q : p.heads_kv; }
    int64_t rows(const attile_attention_problem &p) const { return is_q ? p.total_q : has_pages(p) ? p.page_size : p.total_k; }
    static int64_t table_pages(const attile_attention_problem &p) { return p.len_k / p.page_size; }
    int64_t cols(const attile_attention_problem &p) const { return is_v ? p.head_dim_v : p.head_dim; }
    int64_t padded(const attile_attention_problem &p) const { return ceil_div(cols(p), kCopiedColumns) * kCopiedColumns; }
    int64_t elements(const attile_attention_problem &p) const { return entries(p) * heads(p) * rows(p) * padded(p); }
};
using Problem = attile_attention_problem;
static_assert(kCopiedColumns % kWidenedAtOnce == 0, "rows are whole pieces");
constexpr Numbers kAll[] = {{&Problem::q, &Problem::q_scale, &Problem::q_group, true, false},
                            {&Problem::k, &Problem::k_scale, &Problem::k_group, false, false},
                            {&Problem::v, &Problem::v_scale, &Problem::v_group, false, true}};

void stand_in(const Numbers &numbers, int32_t dtype, void *data, attile_attention_problem &p) {
    attile_operand &x = p.*numbers.operand;
    const int64_t row = numbers.padded(p), head = row * numbers.rows(p), entry = numbers.entries(p) == 1 ? 0 : head * numbers.heads(p);
    const int64_t stride[] = {entry, head, row, 1};
    x.dtype = dtype;
    x.data = data;
    std::copy(stride, stride + 4, x.stride);
    p.*numbers.scale = {};
}

// Are there any, and so few that no size is too large for its type? Extents may be those of broadcast operands.
bool are_countable(const Numbers &numbers, const Problem &p) {
    constexpr double kMostNumbers = 0x1p40, kMostParts = 0x1p30;
    const double pages = numbers.has_pages(p) ? static_cast<double>(p.batch) * static_cast<double>(Numbers::table_pages(p)) : 1;
    if (pages > kMostParts) return false;
    const double pairs = static_cast<double>(numbers.entries(p)) * static_cast<double>(numbers.heads(p));
    const double of_pair = static_cast<double>(numbers.rows(p)) * static_cast<double>(numbers.padded(p));
    return pairs >= 1 && of_pair >= 1 && pairs <= kMostParts && of_pair <= kMostParts && pairs * of_pair <= kMostNumbers;
}

int64_t table_bytes(const Problem &p) { return is_present(p.block_table) ? 4 * p.batch * Numbers::table_pages(p) : 0; }
// Ours has a row for each entry.
void stand_in_table(void *data, Problem &p) {
    const int64_t pages = Numbers::table_pages(p), stride[] = {pages, 1, 0, 0};
    p.pages = p.batch * pages;
    p.block_table.data = data;
    std::copy(stride, stride + 4, p.block_table.stride);
}

}  // namespace

void name_widened(attile_support &support, int32_t dtype) {
    const std::size_t length = std::strlen(support.text);
    std::snprintf(support.text + length, sizeof support.text - length, "; numbers of 8 or 4 bits are rewritten as %s first",
                  dtype == ATTILE_F16 ? "f16" : "bf16");
}

// What FAST_ACCUMULATION permits where q, k and v are all of 16 bits it does not where they were rewritten so.
void forget_permission(attile_attention_problem &p) { p.launch.flags &= ~ATTILE_FLAG_FAST_ACCUMULATION; }

AttentionWidened attention_widened(const attile_attention_problem &p) {
    AttentionWidened widened;
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    if (!(attention_has_narrow_queries(p) || attention_has_narrow_keys(p)) || invariant || p.heads_kv < 1) return widened;
    // K and V of pages are both rewritten, or the one that is not would want the caller's table. Without pages there are no keys.
    if (is_present(p.block_table) && (!attention_is_narrow(p.k) || !attention_is_narrow(p.v) || p.pages < 1 || p.len_k < 1)) return widened;
    const int32_t dtype = attention_is_narrow(p.q) ? p.o.dtype : p.q.dtype;
    const auto becomes = [&](const attile_operand &x) { return attention_is_narrow(x) || x.dtype == dtype; };
    if ((dtype != ATTILE_F16 && dtype != ATTILE_BF16) || !becomes(p.k) || !becomes(p.v)) return widened;
    for (const Numbers &numbers : kAll)
        if (attention_is_narrow(p.*numbers.operand) && !are_countable(numbers, p)) return widened;
    const int64_t streamed = !attention_streams_keys(p)                            ? 0
                             : std::max(p.head_dim, p.head_dim_v) > kTensorColumns ? kStreamedRowsOfSimt
                                                                                   : kStreamedRows;
    if (p.len_q * (p.heads_q / p.heads_kv) > streamed && p.head_dim > 0 && p.head_dim_v > 0) widened.dtype = dtype;
    return widened;
}

int64_t AttentionWidened::workspace(const attile_attention_problem &p) const {
    int64_t bytes = any() && is_present(p.block_table) ? workspace_piece(table_bytes(p)) : 0;
    for (const Numbers &numbers : kAll)
        if (any() && attention_is_narrow(p.*numbers.operand)) bytes += workspace_piece(2 * numbers.elements(p));
    return bytes;
}

attile_attention_problem AttentionWidened::plan_for(const attile_attention_problem &problem) const {
    attile_attention_problem p = problem;
    for (const Numbers &numbers : kAll)
        if (attention_is_narrow(p.*numbers.operand)) stand_in(numbers, dtype, nullptr, p);
    if (is_present(p.block_table)) stand_in_table(nullptr, p);
    forget_permission(p);
    return p;
}

int32_t AttentionWidened::make(Device &device, attile_attention_problem &p, Workspace &workspace, Stream stream) const {
    int32_t *const table = is_present(p.block_table) ? workspace.take<int32_t>(table_bytes(p) / 4) : nullptr;
    if (is_present(p.block_table) && table == nullptr)
        return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    WidenAll all = {};
    Dim3 grid, block;
    grid.x = grid.y = 0;
    uint32_t count = 0;
    for (const Numbers &numbers : kAll) {
        const attile_operand &x = p.*numbers.operand;
        if (!attention_is_narrow(x)) continue;
        WidenParams &params = all.of[count++];
        params.from = attention_operand(x, numbers.cols(p));
        params.scales = attention_scales(p, p.*numbers.scale, p.*numbers.group);
        const int64_t pairs = numbers.entries(p) * numbers.heads(p), of_row = numbers.padded(p) / kWidenedAtOnce;
        const int64_t of_pair = numbers.rows(p) * of_row;  // Pieces.
        params.pairs = static_cast<uint32_t>(pairs);
        params.pairs_at_once = static_cast<uint32_t>(std::clamp<int64_t>(kMostPieces / of_pair, 1, pairs));
        params.heads = Divider(numbers.heads(p));
        params.of_pair = Divider(of_pair);
        params.of_row = Divider(of_row);
        params.cols = static_cast<int32_t>(numbers.cols(p));
        params.one_scale = !is_present(p.*numbers.scale) || (p.*numbers.scale).stride[3] == 0 || p.*numbers.group % kWidenedAtOnce == 0;
        if (numbers.has_pages(p)) {
            params.block_table = static_cast<const int32_t *>(p.block_table.data);
            std::copy(p.block_table.stride, p.block_table.stride + 2, params.block_table_stride);
            params.key_lengths = is_present(p.key_lengths) ? static_cast<const int32_t *>(p.key_lengths.data) : nullptr;
            params.key_lengths_stride = p.key_lengths.stride[0];
            params.pages = p.pages;
            params.table_pages = Divider(Numbers::table_pages(p));
            params.page_size = static_cast<int32_t>(p.page_size);
            params.table = table;
        }
        params.to = workspace.take<uint16_t>(numbers.elements(p));
        if (params.to == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        const int64_t pieces = params.pairs_at_once * of_pair;
        const int64_t across = std::clamp<int64_t>(ceil_div(pieces, kWidenedPieces * kWidenThreads), 1, kMostBlocks);
        grid.x = std::max(grid.x, static_cast<uint32_t>(across));
        grid.y = std::max(grid.y, static_cast<uint32_t>(std::min<int64_t>(ceil_div(pairs, params.pairs_at_once), kMostBlocks - 1)));
        stand_in(numbers, dtype, params.to, p);
    }
    if (table != nullptr) stand_in_table(table, p);
    forget_permission(p);
    if (count == 0) return ATTILE_OK;
    void *arguments[] = {&all};
    grid.z = count;
    block.x = kWidenThreads;
    return device.launch(attention_widen_kernel(dtype == ATTILE_F16), grid, block, 0, arguments, stream);
}

}  // namespace attile::gpu::mma

// SPDX-License-Identifier: Apache-2.0
#include "attention/mma/mask_bytes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "attention/mma/copies.h"
#include "attention/run.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kPiecesOfThread = 2, kMostBlocks = 1 << 16;
// From so many rows on, if a tree has at least this share of the keys, bytes are faster than a kernel that asks for each pair of the tree.
constexpr int64_t kTreeRows = 128, kTreeShare = 8;

void stand_in(const AttentionMaskBytes &bytes, void *data, attile_attention_problem &p) {
    p.block_mask = p.tree_mask = {};
    p.tree_keys = 0;
    p.allowed = {};
    p.allowed.data = data;
    p.allowed.dtype = ATTILE_U8;
    const int64_t head = bytes.rows * bytes.row_bytes;
    p.allowed.stride[0] = bytes.entries > 1 ? head * bytes.heads : 0;
    p.allowed.stride[1] = bytes.heads > 1 ? head : 0;
    p.allowed.stride[2] = bytes.row_bytes;
    p.allowed.stride[3] = 1;
}

}  // namespace

void name_mask_bytes(attile_support &support) {
    const std::size_t length = std::strlen(support.text);
    std::snprintf(support.text + length, sizeof support.text - length, "; masks are written as bytes first");
}

AttentionMaskBytes attention_mask_bytes(const attile_attention_problem &p, MaskKernels kernels) {
    if (!attention_has_sparse_mask(p) || is_present(p.block_table) || p.len_q < 1 || p.len_k < 1) return {};
    if (kernels != MaskKernels::kNone && !attention_changes_scores(p)) {
        const bool is_slow = p.len_q >= kTreeRows && p.tree_keys >= p.len_k / kTreeShare;
        if (!is_present(p.tree_mask) || (kernels == MaskKernels::kOfBlocksAndTrees && (!is_slow || is_present(p.block_mask)))) return {};
    }
    const attile_operand *const masks[] = {&p.allowed, &p.block_mask, &p.tree_mask};
    const auto differ = [&](int axis) {
        return std::any_of(std::begin(masks), std::end(masks),
                           [&](const attile_operand *x) { return is_present(*x) && x->stride[axis] != 0; });
    };
    const bool by_length = is_present(p.tree_mask) && (is_present(p.key_lengths) || is_present(p.cu_len_k));
    AttentionMaskBytes made;
    made.entries = by_length || differ(0) ? p.batch : 1;
    made.heads = differ(1) ? p.heads_q : 1;
    made.rows = p.len_q;
    made.row_bytes = ceil_div(p.len_k, kMaskBytesAtOnce) * kMaskBytesAtOnce;
    return made.entries > 0 && made.rows * made.row_bytes < INT32_MAX ? made : AttentionMaskBytes();
}

int64_t AttentionMaskBytes::workspace() const { return any() ? workspace_piece(entries * heads * rows * row_bytes) : 0; }

attile_attention_problem AttentionMaskBytes::plan_for(const attile_attention_problem &problem) const {
    attile_attention_problem p = problem;
    if (any()) stand_in(*this, nullptr, p);
    return p;
}

int32_t AttentionMaskBytes::make(Device &device, attile_attention_problem &p, Workspace &workspace, Stream stream) const {
    if (!any()) return ATTILE_OK;
    MaskBytesParams params = {};
    AttentionPlan uncut;
    uncut.row_blocks = 1;
    params.of = attention_params(p, uncut);
    params.to = workspace.take<uint8_t>(entries * heads * rows * row_bytes);
    if (params.to == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    params.pairs = static_cast<uint32_t>(entries * heads);
    params.heads = Divider(heads);
    params.of_row = Divider(row_bytes / kMaskBytesAtOnce);
    params.rows = static_cast<int32_t>(rows);
    void *arguments[] = {&params};
    Dim3 grid, block;
    const int64_t pieces = rows * row_bytes / kMaskBytesAtOnce;
    grid.x = static_cast<uint32_t>(std::clamp<int64_t>(ceil_div(pieces, kPiecesOfThread * kMaskBytesThreads), 1, kMostBlocks));
    grid.y = static_cast<uint32_t>(std::min<int64_t>(params.pairs, kMostBlocks - 1));
    block.x = kMaskBytesThreads;
    const int32_t status = device.launch(attention_mask_bytes_kernel(), grid, block, 0, arguments, stream);
    if (status == ATTILE_OK) stand_in(*this, params.to, p);
    return status;
}

}  // namespace attile::gpu::mma

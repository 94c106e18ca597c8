// SPDX-License-Identifier: Apache-2.0
#include "attention/mma/copies.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

constexpr double kFewestProducts = 0x1p20;  // Multiplications and additions: below, launches take longest.

// Is a bias or mask all that is done to scores, so that a kernel for it alone may take it? That reads it in whole tiles of rows.
bool is_lone(const attile_attention_problem &p) {
    return is_present(p.bias) != is_present(p.allowed) && !is_present(p.alibi_slopes) && attention_softcap(p) == 0 &&
           !is_present(p.block_table) && p.scale > 0 && (!is_present(p.bias) || p.bias.dtype == p.q.dtype);
}

}  // namespace

bool attention_strides_unreached(const attile_operand &x, int64_t columns) {
    attile_operand anywhere = x;
    anywhere.data = nullptr;
    return attention_unreached("", anywhere, columns).text[0] != '\0';
}
bool attention_copies_pay(const attile_attention_problem &p) {
    return attention_visible_pairs(p) * static_cast<double>(p.head_dim + p.head_dim_v) >= kFewestProducts;
}
bool attention_copies_fit(const Device &device, int64_t bytes) { return bytes <= attention_copies_room(device); }

AttentionCopies attention_copies(const attile_attention_problem &p, bool scores, bool padded) {
    AttentionCopies copies;
    copies.columns_v = p.head_dim_v;
    const AttentionCopies none = copies;
    if ((p.q.dtype != ATTILE_F16 && p.q.dtype != ATTILE_BF16) || attention_has_several_types(p) || p.head_dim_v < 1) return none;
    const bool paged = is_present(p.block_table), packed_q = is_present(p.cu_len_q);
    const int64_t keys = p.total_k, entries_q = packed_q ? 1 : p.batch, entries_k = is_present(p.cu_len_k) ? 1 : p.batch;
    const bool widens = p.head_dim_v % kCopiedColumns != 0;
    if (attention_strides_unreached(p.q, p.head_dim)) copies.q = aligned_copy(p.q, entries_q, p.heads_q, p.total_q, p.head_dim);
    if (attention_strides_unreached(p.k, p.head_dim)) copies.k = aligned_copy(p.k, entries_k, p.heads_kv, keys, p.head_dim);
    if (widens || attention_strides_unreached(p.v, p.head_dim_v)) copies.v = aligned_copy(p.v, entries_k, p.heads_kv, keys, p.head_dim_v);
    if (widens || attention_strides_unreached(p.o, p.head_dim_v))
        copies.o = aligned_copy(p.o, entries_q, p.heads_q, p.total_q, p.head_dim_v);
    copies.columns_v = ceil_div(p.head_dim_v, kCopiedColumns) * kCopiedColumns;
    // Pages would all be copied, used or not; rows of the output that no sequence has must stay as they are.
    if ((paged && (copies.k.is_made() || copies.v.is_made())) || (packed_q && copies.o.is_made())) return none;
    const bool lone = is_lone(p);
    const auto copy_scores = [&](const attile_operand &x, AlignedCopy &copy) {
        const bool is_odd = x.dtype != p.q.dtype && p.len_k % 2 != 0 && !padded;  // Bytes are read two keys at a time.
        if (scores && is_present(x) && (attention_strides_unreached(x, p.len_k) || (lone && (is_odd || (x.stride[2] == 0 && p.len_q > 1)))))
            copy = aligned_copy(x, p.batch, p.heads_q, p.len_q, p.len_k);
    };
    copy_scores(p.bias, copies.bias);
    copy_scores(p.allowed, copies.allowed);
    return copies;
}

AttentionRewriting attention_rewriting(const Device &device, const attile_attention_problem &p, MaskKernels kernels) {
    // What an entry gets must not depend on how many there are.
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    if (invariant || !attention_copies_pay(p)) return {};
    for (const bool scores : {true, false}) {
        AttentionRewriting made;
        const auto rewrite = [&](const attile_attention_problem &slice) {
            made.widened = attention_widened(slice);
            const attile_attention_problem wide = made.widened.any() ? made.widened.plan_for(slice) : slice;
            made.mask_bytes = attention_mask_bytes(wide, kernels);
            made.copies = attention_copies(made.mask_bytes.plan_for(wide), scores, made.mask_bytes.any());
            return std::max({made.widened.workspace(slice), made.mask_bytes.workspace(), made.copies.workspace()});
        };
        const int64_t bytes = rewrite(p);
        if (!made.any() || attention_copies_fit(device, bytes)) return made;
        // Slices for a bias or mask gain where a kernel for it alone then takes it, not where another reads two numbers at once.
        if ((made.copies.bias.is_made() || made.copies.allowed.is_made()) && !is_lone(p)) continue;
        const auto fits = [&](const AttentionSlices &slices) {
            const attile_attention_problem slice = attention_part(p, slices.part(p, 0));
            return attention_copies_fit(device, rewrite(slice)) && attention_copies_pay(slice);
        };
        if (find_slices(smallest_slices(p), most_slices(device, bytes), fits, made.slices)) return made;
    }
    return {};
}

int64_t AttentionRewriting::workspace(const attile_attention_problem &slice) const {
    return widened.workspace(slice) + mask_bytes.workspace() + copies.workspace();
}
attile_attention_problem AttentionRewriting::plan_for(const attile_attention_problem &slice) const {
    return copies.plan_for(mask_bytes.plan_for(widened.any() ? widened.plan_for(slice) : slice));
}

int64_t AttentionCopies::workspace() const {
    int64_t bytes = 0;
    for (const AlignedCopy *copy : {&q, &k, &v, &o, &bias, &allowed}) bytes += copy->is_made() ? workspace_piece(copy->bytes()) : 0;
    return bytes;
}

attile_attention_problem AttentionCopies::plan_for(const attile_attention_problem &problem) const {
    attile_attention_problem p = problem;
    const auto stand_for = [](const AlignedCopy &copy, attile_operand &operand) {
        if (!copy.is_made()) return;
        operand.data = nullptr;
        std::copy(copy.stride, copy.stride + 4, operand.stride);
    };
    stand_for(q, p.q);
    stand_for(k, p.k);
    stand_for(v, p.v);
    stand_for(o, p.o);
    stand_for(bias, p.bias);
    stand_for(allowed, p.allowed);
    p.head_dim_v = columns_v;
    return p;
}

bool AttentionCopies::place(attile_attention_problem &p, Workspace &workspace, AlignedCopies &copies) const {
    p.head_dim_v = columns_v;
    return copies.place(q, p.q, workspace, false) && copies.place(k, p.k, workspace, false) && copies.place(v, p.v, workspace, false) &&
           copies.place(o, p.o, workspace, true) && copies.place(bias, p.bias, workspace, false) &&
           copies.place(allowed, p.allowed, workspace, false);
}

void AttentionCopies::name(char *text, std::size_t capacity) const {
    std::snprintf(text, capacity, "%s%s%s%s%s%s", q.is_made() ? "q " : "", k.is_made() ? "k " : "", v.is_made() ? "v " : "",
                  o.is_made() ? "o " : "", bias.is_made() ? "bias " : "", allowed.is_made() ? "mask " : "");
    const std::size_t length = std::strlen(text);
    if (length > 0) text[length - 1] = '\0';
}

}  // namespace attile::gpu::mma

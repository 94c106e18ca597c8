// SPDX-License-Identifier: Apache-2.0
// How attention by products is cut into slices whose scores fit the workspace, and how long it is expected to take.
#pragma once

#include "attention/plan.h"
#include "attention/simt/head_product.h"
#include "attention/simt/head_slice.h"

namespace attile::gpu::simt {

// The type that scores, sums and copies are of: float64 where the problem computes in it, else float32.
int32_t number_type(const attile_attention_problem &p);
int64_t number_bytes(const attile_attention_problem &p);

// What there is of a slice, whichever it is: the problem's side of HeadSlice.
struct SlicePlace {
    int64_t entry, entries, head, heads, member, members, row, rows, key, keys;
};

// At most of a slice: one member of each head, or all, where it has all rows.
struct HeadCut {
    int64_t entries = 0, heads = 0, members = 0, rows = 0;
    double seconds = 0;
};

// What attention or its gradients take of a slice.
struct CutCosts {
    int64_t buffers;                    // Of scores.
    int64_t row_numbers, key_numbers;   // Copied, of a row and of a key.
    int64_t tile_numbers, tile_rows;    // Kept, of each row of whole tiles of so many; 0: nothing is.
    int64_t least_rows;                 // Rows of a slice are a multiple of it, or all.
    double flops;                       // Of a score, in products.
    double product_bytes, score_bytes;  // Of a score, moved by products, and between them.
    double key_bytes, member_bytes;     // Of a key, moved by a slice's products: once, and for each member.
    int64_t launches, member_launches;  // Of a slice.
};

// The keys that any of the rows sees, from a multiple of 16 on, or more. Not empty.
void find_keys(const attile_attention_problem &p, SlicePlace &slice);

// Numbers from a row of a slice's scores to the next; of the slice of most keys.
int64_t pitch_of(const SlicePlace &slice);
int64_t most_scores(const attile_attention_problem &p, const HeadCut &cut);

// The cut that is expected to take the least time. False: not even a few rows of one head fit the budget.
bool find_cut(const DeviceProperties &device, const attile_attention_problem &p, const CutCosts &costs, HeadCut &cut);

// The problem that a choice with BATCH_INVARIANT goes by: of the number of keys and columns alone.
attile_attention_problem lone_head(const attile_attention_problem &p);

// Seconds of so many operations at a share of the multiply-add roof of the problem's type; the share of its roofline that so many seconds
// are.
double wide_seconds(const DeviceProperties &device, const attile_attention_problem &p, double flops, double share);
double wide_share(const DeviceProperties &device, const attile_attention_problem &p, double flops, double bytes, double seconds);

HeadSlice head_slice(const SlicePlace &slice);
SlicePlace first_slice(const attile_attention_problem &p, const HeadCut &cut);

// Calls begin(slice), whose rows and keys are those of its heads, and for each of its parts take(slice), until one fails.
template <class Begin, class Take, class End>
int32_t for_slices(const attile_attention_problem &p, const HeadCut &cut, const Begin &begin, const Take &take, const End &end) {
    const int64_t group = p.heads_q / p.heads_kv;
    int32_t status = ATTILE_OK;
    SlicePlace at = {};
    for (at.entry = 0; at.entry < p.batch; at.entry += at.entries) {
        at.entries = p.batch - at.entry < cut.entries ? p.batch - at.entry : cut.entries;
        for (at.head = 0; at.head < p.heads_kv; at.head += at.heads) {
            at.heads = p.heads_kv - at.head < cut.heads ? p.heads_kv - at.head : cut.heads;
            at.member = at.row = at.key = 0;
            at.members = 1;
            at.rows = at.keys = p.len_k;
            status = begin(at);
            at.members = cut.members;
            for (at.member = 0; status == ATTILE_OK && at.member < group; at.member += cut.members)
                for (at.row = 0; status == ATTILE_OK && at.row < p.len_q; at.row += at.rows) {
                    at.rows = p.len_q - at.row < cut.rows ? p.len_q - at.row : cut.rows;
                    find_keys(p, at);
                    status = take(at);
                }
            at.member = at.row = at.key = 0;
            at.members = 1;
            at.rows = at.keys = p.len_k;
            if (status == ATTILE_OK) status = end(at);
            if (status != ATTILE_OK) return status;
        }
    }
    return status;
}

// Calls want(slice) for one of each size that there is, of whichever heads.
template <class Want>
void for_slice_sizes(const attile_attention_problem &p, const HeadCut &cut, const Want &want) {
    for (const int64_t entries : {cut.entries, p.batch % cut.entries})
        for (const int64_t heads : {cut.heads, p.heads_kv % cut.heads}) {
            if (entries == 0 || heads == 0) continue;
            SlicePlace at = first_slice(p, cut);
            at.entries = entries;
            at.heads = heads;
            int64_t rows = 0, keys = 0;  // Of the slice before.
            for (at.row = 0; at.row < p.len_q; at.row += at.rows) {
                at.rows = p.len_q - at.row < cut.rows ? p.len_q - at.row : cut.rows;
                find_keys(p, at);
                if (at.rows != rows || at.keys != keys) want(at);
                rows = at.rows;
                keys = at.keys;
            }
        }
}

}  // namespace attile::gpu::simt

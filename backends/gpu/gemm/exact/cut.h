// SPDX-License-Identifier: Apache-2.0
// How an exact product is cut, so that it fits a workspace: into entries of the batch, blocks of D and chunks of the depth.
#pragma once

#include "gemm/exact/kernels.h"
#include "gemm/residue_sums.h"
#include "host/family.h"
#include "host/workspace.h"

namespace attile::gpu::exact {

// What is computed together.
struct Part {
    int64_t entries, rows, columns, depth;
};

struct Cut {
    attile_gemm_problem p;  // D's contiguous axis is its columns; the inner batch axis is the longer one, if one is 1.
    bool f64, swapped;
    int moduli;                 // 0: there is no product.
    bool stores_residues;       // Of sums, a byte each; else sums are stored, and made residues later.
    double most_bits;           // log2 of the norms of integers.
    Part part;                  // The largest.
    int64_t parts, part_depth;  // Of lines that are measured.
    int64_t workspace;

    Cut(Device &device, const attile_gemm_problem &problem);
    void move_to(const attile_gemm_problem &problem);  // Which differs in addresses alone.
    bool has_product() const { return moduli > 0; }
    bool is_chunked() const { return part.depth < p.k; }
    // Entries of A's lines, or of B's, and lines of both, of so many of the batch.
    int64_t entries_of(const attile_operand &x, int64_t entries) const { return x.stride[1] == 0 ? 1 : entries; }
    int64_t lines(int64_t entries) const { return entries_of(p.a, entries) * p.m + entries_of(p.b, entries) * p.n; }
    // The sums of residues: a product of int8 for each modulus and entry.
    attile_gemm_problem sums(const Part &of, void *a, void *b, void *d) const;
    ResidueSums residue_sums(const Part &of, void *a, void *b, void *d) const;
    // Bytes of the largest part.
    int64_t plane_a(const Part &of) const;
    int64_t plane_b(const Part &of) const;
    int64_t plane_d(const Part &of) const;  // In elements, as the others are.
    int64_t sum_row(int64_t columns) const;
    int64_t sum_bytes() const { return stores_residues ? 1 : 4; }

  private:
    int64_t bytes(Device &device, const Part &of) const;
};

// Elements of rows of residues.
int64_t residue_row(int64_t depth);

// What a cut takes from its workspace, in this order.
struct Memory {
    Line *lines;
    uint32_t *listed;  // kMostListed of each line.
    PartOfLine *parts;
    int8_t *a, *b;
    void *sums, *totals;  // int32, or bytes.
    uint32_t *undecided, *undecided_count;
    Workspace rest;  // For the products of int8.

    bool take(const Cut &cut, Workspace &from);
};

}  // namespace attile::gpu::exact

// SPDX-License-Identifier: Apache-2.0
// A product for each of some heads, as a step of attention: GEMM's families make it (gemm/families.h).
#pragma once

#include "host/plan_cache.h"
#include "host/workspace.h"

namespace attile::gpu::simt {

// A matrix for each batch entry, head of K and V, and query head of that one's group (member). Strides in numbers, 0 along what shares a
// matrix.
struct HeadMatrix {
    const void *data;
    int64_t entry, head, member;
    int64_t row, col;
};

// D = alpha A B, or added to D. A: m x k, B: k x n. k = 0: D is set to 0.
struct HeadProduct {
    HeadMatrix a, b, d;
    int64_t entries, heads, members;
    int64_t m, n, k;
    double alpha;
    int32_t dtype;  // Of all three, and of the sums: float32 or float64.
    bool is_added;
    uint32_t flags;  // BATCH_INVARIANT or none.
};

// The plan of the last product of its kind: the next slice's is often the same.
struct LastProduct {
    PlanKey<attile_gemm_problem> key{attile_gemm_problem()};  // As it stands, of no product.
    Planned<attile_gemm_problem> planned;
};

int32_t launch_product(Device &device, const HeadProduct &product, LastProduct &last, Workspace workspace, Stream stream);
// What that wants at most, wherever the matrices lie.
int64_t product_workspace(Device &device, const HeadProduct &product);
// The name of the kernel that makes it.
int32_t name_product(Device &device, const HeadProduct &product, char *name, std::size_t capacity);

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
#include "gemm/narrow/result.h"

#include <algorithm>
#include <cstdio>

#include "gemm/families.h"
#include "gemm/problem.h"
#include "host/rounded.h"
#include "host/sizes.h"
#include "host/status.h"
#include "quantize/families.h"

namespace attile::gpu::narrow {
namespace {

// Lines of the product in float32, whole vectors each, along the axis that D's numbers lie along.
struct Lines {
    bool by_columns;
    int64_t line, entry;  // Floats.

    explicit Lines(const attile_gemm_problem &p) : by_columns(p.d.stride[2] == 1 && p.d.stride[3] != 1) {
        line = ceil_div(by_columns ? p.m : p.n, 4) * 4;
        entry = line * (by_columns ? p.n : p.m);
    }
};

int64_t floats(const attile_gemm_problem &p) { return p.batch[0] * p.batch[1] * Lines(p).entry; }

// The product that other families are given.
attile_gemm_problem product_of(const attile_gemm_problem &p, void *sums) {
    const Lines lines(p);
    attile_gemm_problem product = p;
    product.d_scale = {};
    product.d.data = sums;
    product.d.dtype = ATTILE_F32;
    product.d.stride[0] = p.batch[0] > 1 ? p.batch[1] * lines.entry : 0;
    product.d.stride[1] = p.batch[1] > 1 ? lines.entry : 0;
    product.d.stride[2] = lines.by_columns ? 1 : lines.line;
    product.d.stride[3] = lines.by_columns ? lines.line : 1;
    return product;
}

attile_quantize_problem rounding_of(const attile_gemm_problem &p, const attile_gemm_problem &product) {
    attile_quantize_problem rounding = {};
    rounding.struct_size = sizeof rounding;
    const int64_t extent[] = {p.batch[0], p.batch[1], p.m, p.n};
    std::copy(extent, extent + 4, rounding.shape);
    rounding.x = product.d;
    rounding.q = p.d;
    rounding.scale = p.d_scale;
    rounding.scale_given = 1;
    std::fill(rounding.group, rounding.group + 4, int64_t{1});
    return rounding;
}

struct RoundedGemm {
    const attile_gemm_problem *problem;

    int32_t describe(Device &device, attile_support &support) const {
        const attile_gemm_problem product = product_of(*problem, nullptr);
        const int32_t status = plan_step(device, product, kGemmFamilies).describe(device, support);
        const double bytes = support.bytes;
        gemm_work(*problem, support);
        name_rounded(support, "d", bytes);
        return status;
    }
    void move_to(const attile_gemm_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        float *const sums = workspace.take<float>(floats(*problem));
        if (sums == nullptr) return fail(ATTILE_ERROR_INTERNAL, "gemm: the workspace is smaller than planned");
        const attile_gemm_problem product = product_of(*problem, sums);
        const Planned<attile_gemm_problem> planned = plan_step(device, product, kGemmFamilies);
        if (planned.refusal() != ATTILE_OK) return fail(planned.refusal(), "%s", planned.sentence());
        const int32_t status = planned.launch(device, workspace, stream);
        if (status != ATTILE_OK) return status;
        const attile_quantize_problem rounding = rounding_of(*problem, product);
        return plan_step(device, rounding, kQuantizeFamilies).launch(device, workspace, stream);
    }
};

}  // namespace

Planned<attile_gemm_problem> plan_gemm_result(Device &device, const attile_gemm_problem &p) {
    if (dtype_bits(p.d.dtype) != 8) return {};
    const attile_gemm_problem product = product_of(p, nullptr);
    const Planned<attile_gemm_problem> planned = plan_step(device, product, kGemmFamilies);
    if (planned.refusal() != ATTILE_OK) return Planned<attile_gemm_problem>::refused(planned.refusal(), "%s", planned.sentence());
    attile_gemm_problem elsewhere = product;
    place_oddly({&elsewhere.a, &elsewhere.b, &elsewhere.c, &elsewhere.bias});
    const int64_t step = std::max(step_workspace(device, product, kGemmFamilies), step_workspace(device, elsewhere, kGemmFamilies));
    return Planned<attile_gemm_problem>(RoundedGemm{&p}, workspace_piece(4 * floats(p)) + step);
}

}  // namespace attile::gpu::narrow

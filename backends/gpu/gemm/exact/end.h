// SPDX-License-Identifier: Apache-2.0
// What follows an exact sum, each step rounded to float64 by itself, and the addresses of a block's elements.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/exact/kernels.h"
#include "gemm/exact/numbers.h"

namespace attile::gpu::exact {

struct Element {
    int64_t entry, row, column;

    ATTILE_LANE_FN char *in(const GemmOutput &x, int64_t bytes) const {
        return static_cast<char *>(x.data) + (entry * x.batch_y + row * x.row + column * x.col) * bytes;
    }
};

// Steps 3 to 5 of the definition, of alpha times a sum or, without a product, of +0: the bits of d.
ATTILE_LANE_FN uint64_t finish(const End &end, const Element &at, double value) {
    if (end.c.data != nullptr)
        value = rounded_sum(
            value, rounded_product(end.beta, gemm_read_bias<double>(at.in(end.c, gemm_storage_bytes(end.c.dtype)), 0, end.c.dtype)));
    if (end.bias.data != nullptr)
        value = rounded_sum(value, gemm_read_bias<double>(at.in(end.bias, gemm_storage_bytes(end.bias.dtype)), 0, end.bias.dtype));
    if (end.relu != 0) value = value > 0 || value != value ? value : 0.0;
    if (end.d.dtype == ATTILE_F32) return value != value ? 0x7fc00000u : bits_of(static_cast<float>(value));
    return value != value ? kNanBits : bits_of(value);
}
ATTILE_LANE_FN bool is_nan_of(const End &end, uint64_t bits) { return bits == (end.d.dtype == ATTILE_F32 ? 0x7fc00000u : kNanBits); }

ATTILE_LANE_FN void store(const End &end, const Element &at, uint64_t bits) {
    if (end.d.dtype == ATTILE_F32)
        *reinterpret_cast<uint32_t *>(at.in(end.d, 4)) = static_cast<uint32_t>(bits);
    else
        *reinterpret_cast<uint64_t *>(at.in(end.d, 8)) = bits;
}

}  // namespace attile::gpu::exact

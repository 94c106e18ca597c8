// SPDX-License-Identifier: Apache-2.0
// Overlap of strided tensors: byte ranges first, then residues for views that interleave, such as q, k and v in one [B, L, 3, H, D] buffer.
#include "alias.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "status.h"

namespace attile::core {
namespace {

// A tensor as the set of bytes low + sum_i index_i * stride_i + [0, element).
struct ByteLattice {
    int64_t stride[4];  // positive: a negative one is walked from its other end, which `low` allows for
    int64_t last[4];    // largest index
    int32_t axes = 0;
    int64_t element;

    explicit ByteLattice(const attile_tensor &numbers) : element(element_bytes(numbers.dtype)) {
        const attile_tensor tensor = in_bytes(numbers);
        for (int32_t i = 0; i < tensor.rank; ++i) {
            if (tensor.shape[i] == 1 || tensor.stride[i] == 0) continue;
            stride[axes] = std::abs(tensor.stride[i]) * element;
            last[axes++] = tensor.shape[i] - 1;
        }
    }
};

// Splits the axes at `threshold`: the finer ones together cover at most `width` bytes, the others move by multiples of `period`.
void split(const ByteLattice &lattice, int64_t threshold, int64_t *width, int64_t *period) {
    *width = lattice.element;
    for (int32_t i = 0; i < lattice.axes; ++i) {
        if (lattice.stride[i] < threshold) {
            *width += lattice.stride[i] * lattice.last[i];
        } else if (*period == 0 || lattice.stride[i] % *period != 0) {
            *period = std::gcd(*period, lattice.stride[i]);
        }
    }
}

// Every byte of a tensor lies, modulo the period, in an interval as wide as its fine axes. If the intervals of two tensors are apart, so
// are the tensors. Every split is tried, since padding may hide at any level.
bool proved_apart(const View &one, const View &other) {
    const ByteLattice lattices[2] = {ByteLattice(*one.tensor), ByteLattice(*other.tensor)};
    for (const ByteLattice &from : lattices) {
        for (int32_t i = 0; i < from.axes; ++i) {
            int64_t period = 0, width_one = 0, width_other = 0;
            split(lattices[0], from.stride[i], &width_one, &period);
            split(lattices[1], from.stride[i], &width_other, &period);
            if (width_one > period || width_other > period) continue;
            const uintptr_t modulus = static_cast<uintptr_t>(period);
            const uintptr_t distance =
                one.low <= other.low ? (other.low - one.low) % modulus : (modulus - (one.low - other.low) % modulus) % modulus;
            const int64_t gap = static_cast<int64_t>(distance);
            if (gap >= width_one && gap <= period - width_other) return true;
        }
    }
    return false;
}

// Axes are compared from the last; those that one of the two lacks count as extent 1.
bool same_view(const attile_tensor &one, const attile_tensor &other) {
    if (one.data != other.data || one.dtype != other.dtype) return false;
    const int32_t most = std::max(one.rank, other.rank);
    for (int32_t i = 1; i <= most; ++i) {
        const int64_t extent_one = i <= one.rank ? one.shape[one.rank - i] : 1;
        const int64_t extent_other = i <= other.rank ? other.shape[other.rank - i] : 1;
        if (extent_one != extent_other) return false;
        if (extent_one != 1 && one.stride[one.rank - i] != other.stride[other.rank - i]) return false;
    }
    return true;
}

}  // namespace

int32_t refuse_alias(const Call &call, const View &output, const View &other) {
    return fail(ATTILE_ERROR_ALIASING, "%s: the output %s at %p shares memory with %s at %p", call.operation,
                NameText({call.operation, call.query, output.prefix}, output.name).text, output.tensor->data,
                NameText({call.operation, call.query, other.prefix}, other.name).text, other.tensor->data);
}

Overlap find_overlap(const View &one, const View &other) {
    if (!ranges_meet(one, other)) return Overlap::kNone;
    if (same_view(*one.tensor, *other.tensor)) return Overlap::kSame;
    return proved_apart(one, other) ? Overlap::kNone : Overlap::kSome;
}

int32_t refuse_partial_overlap(const Call &call, const View &output, const View &other, bool *same) {
    const Overlap overlap = find_overlap(output, other);
    if (same != nullptr) *same = overlap == Overlap::kSame;
    return overlap == Overlap::kSome ? refuse_alias(call, output, other) : ATTILE_OK;
}

}  // namespace attile::core

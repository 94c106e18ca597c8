// SPDX-License-Identifier: Apache-2.0
// Quantisation inside the backend: pieces of rows, as the front cuts them and the kernels take them.
#ifndef ATTILE_CPU_QUANTIZE_H
#define ATTILE_CPU_QUANTIZE_H

#include <attile/attile_backend.h>

#include <cstdint>

#include "rows/rows.h"
#include "state.h"

namespace attile::cpu {

// Elements of a row that are taken at a time, at most; runs of numbers that are rotated together lie within.
inline constexpr int64_t kQuantizePiece = 512;

enum class Sign { kEither, kPlus, kMinus };

template <class T>
struct QuantizeKernels {
    // The elements of a strip in float32, each `rotated` of them rotated (0: none): where they lie, or in `room`.
    const T *(*load)(const Strip &x, int64_t rotated, T *room);
    // maxima[i / group] = the larger of itself and the magnitude of element i, if it is of that sign, as bits: infinities and NaN are
    // larger than numbers.
    void (*maximum)(const T *x, int64_t count, int64_t group, Sign sign, int32_t *maxima);
    // q[i] = x[i] / scales[i / group], plus zeros[i / group].
    void (*narrow)(const T *x, int64_t count, int64_t group, const T *scales, const T *zeros, const Strip &q);
    // q[i] = x[i], of q's type of floats.
    void (*store)(const T *x, const Strip &q);
    // x[i] = scales[i / group] (q[i] - zeros[i / group]), rotated back in `room`.
    void (*widen)(const Strip &q, int64_t group, const T *scales, const T *zeros, int64_t rotated, T *room, const Strip &x);
};

template <class T>
const QuantizeKernels<T> &quantize_kernels(Target target);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_QUANTIZE_H

// SPDX-License-Identifier: Apache-2.0
// What happens to a sum on its way out: activation(alpha sum + beta C + bias), converted to D's type.
#pragma once

#include <attile/attile.h>

#include "gemm/params.h"
#include "numeric.h"
#include "vec.h"

namespace attile::gpu {

// Reads and writes whose type is known at run time only; every thread of a launch takes the same way.
template <class T>
ATTILE_LANE_FN T gemm_read(const char *data, int64_t index, int32_t dtype) {
    if constexpr (sizeof(T) == 8) {
        return reinterpret_cast<const double *>(data)[index];
    } else {
        if (dtype == ATTILE_F32) return reinterpret_cast<const float *>(data)[index];
        if (dtype == ATTILE_F16) return to_compute(reinterpret_cast<const F16 *>(data)[index]);
        return to_compute(reinterpret_cast<const BF16 *>(data)[index]);
    }
}

// A bias may be float32 beside any type of D.
template <class T>
ATTILE_LANE_FN T gemm_read_bias(const char *data, int64_t index, int32_t dtype) {
    if (sizeof(T) == 8 && dtype == ATTILE_F32) return static_cast<T>(reinterpret_cast<const float *>(data)[index]);
    return gemm_read<T>(data, index, dtype);
}

template <class T>
ATTILE_LANE_FN void gemm_write(char *data, int64_t index, int32_t dtype, T value) {
    if constexpr (sizeof(T) == 8) {
        reinterpret_cast<double *>(data)[index] = value;
    } else {
        if (dtype == ATTILE_F32) {
            reinterpret_cast<float *>(data)[index] = value;
        } else if (dtype == ATTILE_F16) {
            reinterpret_cast<F16 *>(data)[index] = from_compute<F16>(value);
        } else {
            reinterpret_cast<BF16 *>(data)[index] = from_compute<BF16>(value);
        }
    }
}

template <class Storage, int kCount, class T>
ATTILE_LANE_FN void gemm_widen(T (&values)[kCount], const char *data, int64_t index) {
    const auto raw = load_vec<kCount>(reinterpret_cast<const Storage *>(data) + index);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = to_compute(raw[i]);
}

template <class Storage, int kCount, class T>
ATTILE_LANE_FN void gemm_narrow(char *data, int64_t index, const T (&values)[kCount]) {
    Vec<Storage, kCount> raw;
#pragma unroll
    for (int i = 0; i < kCount; ++i) raw[i] = from_compute<Storage>(values[i]);
    store_vec(reinterpret_cast<Storage *>(data) + index, raw);
}

template <int kCount, class T>
ATTILE_LANE_FN void gemm_read_vector(T (&values)[kCount], const char *data, int64_t index, int32_t dtype) {
    if constexpr (sizeof(T) == 8) {
        gemm_widen<double>(values, data, index);
    } else {
        if (dtype == ATTILE_F32) {
            gemm_widen<float>(values, data, index);
        } else if (dtype == ATTILE_F16) {
            gemm_widen<F16>(values, data, index);
        } else {
            gemm_widen<BF16>(values, data, index);
        }
    }
}

template <int kCount, class T>
ATTILE_LANE_FN void gemm_write_vector(char *data, int64_t index, int32_t dtype, const T (&values)[kCount]) {
    if constexpr (sizeof(T) == 8) {
        gemm_narrow<double>(data, index, values);
    } else {
        if (dtype == ATTILE_F32) {
            gemm_narrow<float>(data, index, values);
        } else if (dtype == ATTILE_F16) {
            gemm_narrow<F16>(data, index, values);
        } else {
            gemm_narrow<BF16>(data, index, values);
        }
    }
}

template <class T>
ATTILE_LANE_FN T gemm_activate(T x, int32_t activation) {
    if (activation == ATTILE_ACTIVATION_RELU) return x < T(0) ? T(0) : x;  // NaN stays.
    if (activation == ATTILE_ACTIVATION_GELU) return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440)));
    if (activation == ATTILE_ACTIVATION_GELU_TANH) {
        return T(0.5) * x * (T(1) + tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
    }
    if (activation == ATTILE_ACTIVATION_SILU) return x / (T(1) + exp(-x));
    return x;
}

ATTILE_LANE_FN int gemm_storage_bytes(int32_t dtype) { return (dtype & 0xff) / 8; }  // The low byte of a type's number is its bits.

// Where a part of a batch entry's output begins in each operand of the epilogue. Kernels whose registers are full of sums keep it in shared
// memory.
struct GemmOrigin {
    const char *c;
    char *d;
    const char *bias;

    // `Params` is GemmParams or GemmCombineParams; d_offset is in elements.
    template <class Params>
    ATTILE_LANE_FN void set(const Params &p, int64_t batch_x, int64_t batch_y, int64_t row, int64_t col, int64_t d_offset) {
        c = at(p.c, batch_x, batch_y, row, col, 0);
        d = at(p.d, batch_x, batch_y, row, col, d_offset);
        bias = at(p.bias, batch_x, batch_y, row, col, 0);
    }

  private:
    static ATTILE_LANE_FN char *at(const GemmOutput &output, int64_t batch_x, int64_t batch_y, int64_t row, int64_t col, int64_t offset) {
        const int64_t elements = batch_x * output.batch_x + batch_y * output.batch_y + row * output.row + col * output.col + offset;
        return static_cast<char *>(output.data) + elements * gemm_storage_bytes(output.dtype);
    }
};

struct GemmActivation {
    template <class T>
    static ATTILE_LANE_FN T apply(T x, int32_t activation, int32_t /*dtype of D*/) {
        return gemm_activate(x, activation);
    }
};

// The epilogue from an origin on. float64's activations take so many registers that only the combining kernel has them; the host sees to
// it.
template <class T, class Params, bool kActivates = sizeof(T) == 4, class Activation = GemmActivation>
class GemmEpilogue {
  public:
    ATTILE_LANE_FN GemmEpilogue(const Params &params, const GemmOrigin &origin) : p_(params), origin_(origin) {}

    ATTILE_LANE_FN void store(int row, int col, T value) const {
        if (p_.c.data != nullptr) {
            const T old = gemm_read<T>(origin_.c, row * p_.c.row + col * p_.c.col, p_.c.dtype);
            value = fused_multiply_add(static_cast<T>(p_.beta), old, value);
        }
        store_sum(row, col, value);
    }
    // The same of what already has its share of C.
    ATTILE_LANE_FN void store_sum(int row, int col, T value) const {
        if (p_.bias.data != nullptr) value += gemm_read_bias<T>(origin_.bias, row * p_.bias.row + col * p_.bias.col, p_.bias.dtype);
        if constexpr (kActivates) value = Activation::apply(value, p_.activation, p_.d.dtype);
        gemm_write<T>(origin_.d, row * p_.d.row + col * p_.d.col, p_.d.dtype, value);
    }
    // Adds beta C to some values of single elements: element(i, take) calls take(row, col) if there is a number i. All of C is on its way
    // before the first is waited for.
    template <int kCount, class Element>
    ATTILE_LANE_FN void add_c(T (&values)[kCount], const Element &element) const {
        if (p_.c.data == nullptr) return;
        if (p_.c.dtype == ATTILE_F32) {
            add_c_of<float>(values, element);
        } else if (p_.c.dtype == ATTILE_F16) {
            add_c_of<F16>(values, element);
        } else {
            add_c_of<BF16>(values, element);
        }
    }

    // kCount columns from `col` on; only if p.vectorised.
    template <int kCount>
    ATTILE_LANE_FN void store_vector(int row, int col, T (&value)[kCount]) const {
        if (p_.c.data != nullptr) {
            T old[kCount];
            gemm_read_vector(old, origin_.c, row * p_.c.row + col, p_.c.dtype);
#pragma unroll
            for (int i = 0; i < kCount; ++i) value[i] = fused_multiply_add(static_cast<T>(p_.beta), old[i], value[i]);
        }
        if (p_.bias.data != nullptr) {
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                value[i] += gemm_read_bias<T>(origin_.bias, row * p_.bias.row + (col + i) * p_.bias.col, p_.bias.dtype);
            }
        }
        if (kActivates && p_.activation != ATTILE_ACTIVATION_NONE) {
#pragma unroll 1
            for (int i = 0; i < kCount; ++i) rotate(value, Activation::apply(value[0], p_.activation, p_.d.dtype));
        }
        gemm_write_vector(origin_.d, row * p_.d.row + col, p_.d.dtype, value);
    }

  private:
    template <class Storage, int kCount, class Element>
    ATTILE_LANE_FN void add_c_of(T (&values)[kCount], const Element &element) const {
        Storage raw[kCount] = {};
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            element(i, [&](int row, int col) { raw[i] = reinterpret_cast<const Storage *>(origin_.c)[row * p_.c.row + col * p_.c.col]; });
#pragma unroll
        for (int i = 0; i < kCount; ++i) values[i] = fused_multiply_add(static_cast<T>(p_.beta), to_compute(raw[i]), values[i]);
    }
    // Drops the first and appends `last`: lets a loop that is not unrolled walk an array that stays in registers.
    template <int kCount>
    static ATTILE_LANE_FN void rotate(T (&values)[kCount], T last) {
#pragma unroll
        for (int i = 0; i + 1 < kCount; ++i) values[i] = values[i + 1];
        values[kCount - 1] = last;
    }

    const Params &p_;
    const GemmOrigin &origin_;
};

}  // namespace attile::gpu

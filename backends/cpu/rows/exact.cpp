// SPDX-License-Identifier: Apache-2.0
// Exact softmax and merge: rows, one after the other, each by one thread.
#include "rows/exact.h"

#include <bit>
#include <cstdio>

#include "rows/merge_rows.h"
#include "threads/threads.h"

namespace attile::cpu {

double log_by_steps(double z) {
    const uint64_t bits = std::bit_cast<uint64_t>(z);
    int n = static_cast<int>(bits >> 52) - 1023;
    double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | uint64_t{1023} << 52);
    if (m >= 0x1.6a09e667f3bcdp+0) {  // the root of 2
        m /= 2;
        ++n;
    }
    const double f = m - 1, s = f / (2 + f), square = s * s;
    double r = 2.0 / 21;
    for (int k = 19; k >= 3; k -= 2) r = r * square + 2.0 / k;
    r *= square;
    const double half = f * f / 2, exponent = n;
    return exponent * kStepsLn2High - ((half - (s * (half + r) + exponent * kStepsLn2Low)) - f);
}

void widen_exactly(const attile_operand &x, int64_t offset, int64_t stride, int64_t count, double *to) {
    with_any_storage<double>(x.dtype, [&](auto s) {
        using S = decltype(s);
        const S *from = static_cast<const S *>(x.data) + offset;
        for (int64_t i = 0; i < count; ++i) {
            if constexpr (std::is_same_v<S, double>) {
                to[i] = from[i * stride];
            } else {
                to[i] = ExactSum::widened(to_compute<float>(from[i * stride]));
            }
        }
    });
}

void WeightedSums::add(double weight, const attile_operand &x, int64_t offset, int64_t stride, int64_t count) {
    double numbers[kMost];
    widen_exactly(x, offset, stride, count, numbers);
    for (int64_t i = 0; i < count; ++i) sums_[i].add_product(weight, numbers[i]);
}

namespace {

constexpr int64_t kElementsForThreads = 1 << 12;

void softmax_row(const ExactRowKernels<double> &kernels, const attile_softmax_problem &p, int64_t x_offset, int64_t y_offset) {
    const int64_t count = p.shape[3], x_stride = p.x.stride[3], y_stride = p.y.stride[3];
    double piece[kExactPiece];
    const auto for_pieces = [&](auto &&body) {
        for (int64_t i = 0; i < count; i += kExactPiece) {
            const int64_t width = least(kExactPiece, count - i);
            if (count > kExactPiece || i > 0) widen_exactly(p.x, x_offset + i * x_stride, x_stride, width, piece);
            body(i, width);
        }
    };
    // A row of one piece is read once, and its weights are kept.
    const bool is_short = count <= kExactPiece;
    if (is_short) widen_exactly(p.x, x_offset, x_stride, count, piece);
    double top = kNoNumber;
    for_pieces([&](int64_t, int64_t width) {
        for (int64_t i = 0; i < width; ++i) top = larger(top, piece[i]);
    });
    if (!has_weights(top)) {
        for (int64_t i = 0; i < count; ++i) store_exact(p.y, y_offset + i * y_stride, without_weights(top));
        return;
    }
    ExactSum sum;
    for_pieces([&](int64_t, int64_t width) {
        kernels.weigh(piece, width, top, piece);
        for (int64_t i = 0; i < width; ++i) sum.add(piece[i]);
    });
    const double z = sum.take();
    for_pieces([&](int64_t first, int64_t width) {
        if (!is_short) kernels.weigh(piece, width, top, piece);
        for (int64_t i = 0; i < width; ++i) store_exact(p.y, y_offset + (first + i) * y_stride, piece[i] / z);
    });
}

int64_t softmax_rows(const attile_softmax_problem &p) { return (Size(p.shape[0]) * p.shape[1] * p.shape[2]).value(); }

MergePlan plan_of(const State &state, const attile_attention_merge_problem &p) {
    return merge_plan(state, p, bytes_for<double>(p.parts).value());
}

void merge_row(const ExactRowKernels<double> &kernels, const attile_attention_merge_problem &p, const MergeRow &row, double *weights) {
    double top = kNoNumber;
    for (int64_t part = 0; part < p.parts; ++part) {
        widen_exactly(p.lse_parts[part], row.offset_in(p.lse_parts[part]), 1, 1, weights + part);
        top = larger(top, weights[part]);
    }
    double z = 1;
    if (has_weights(top)) {
        ExactSum sum;
        // A part without keys has no weight at all, so that its numbers take no part: marked by -1.
        for (int64_t first = 0; first < p.parts; first += kExactPiece) {
            const int64_t count = least(kExactPiece, p.parts - first);
            double piece[kExactPiece];
            kernels.weigh(weights + first, count, top, piece);
            for (int64_t i = 0; i < count; ++i) {
                const bool counts = weights[first + i] != kNoNumber;
                if (counts) sum.add(piece[i]);
                weights[first + i] = counts ? piece[i] : -1;
            }
        }
        z = sum.take();
    }
    const int64_t o_offset = row.offset_in(p.o);
    WeightedSums sums;
    for (int64_t d = 0; d < p.head_dim_v; d += WeightedSums::kMost) {
        const int64_t width = least(WeightedSums::kMost, p.head_dim_v - d);
        for (int64_t part = 0; part < p.parts && has_weights(top); ++part) {
            const attile_operand &o = p.o_parts[part];
            if (weights[part] >= 0) sums.add(weights[part], o, row.offset_in(o) + d * o.stride[3], o.stride[3], width);
        }
        for (int64_t i = 0; i < width; ++i)
            store_exact(p.o, o_offset + (d + i) * p.o.stride[3], has_weights(top) ? sums.take(i) / z : without_weights(top));
    }
    if (p.lse.data != nullptr)
        store_exact(p.lse, row.offset_in(p.lse), has_weights(top) ? top + log_by_steps(z) : without_weights(top) + top);
}

}  // namespace

int32_t exact_softmax_query(const State &state, const attile_softmax_problem &p, attile_support *support) {
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_softmax_exact_%s", kernel_target_name(state.target));
    const double count = static_cast<double>(softmax_rows(p)) * static_cast<double>(p.shape[3]);
    // A subtraction and an exponential, an addition, a division per element.
    support->flops = 4 * count;
    support->bytes = count * (dtype_bytes(p.x.dtype) + dtype_bytes(p.y.dtype));
    support->tile_m = 1;
    support->tile_n = reported(least(p.shape[3], kExactPiece));
    support->threads = 1;
    support->blocks = softmax_rows(p);
    support->splits = 1;
    return ATTILE_OK;
}

int32_t exact_softmax_run(const State &state, const attile_softmax_problem &p) {
    const ExactRowKernels<double> &kernels = exact_row_kernels<double>(state.target);
    const int64_t rows = softmax_rows(p);
    const int threads = (Size(rows) * p.shape[3]).value() < kElementsForThreads ? 1 : state.threads;
    parallel_for(threads, rows, [&](int64_t row, int) {
        const int64_t l = row % p.shape[2], j = row / p.shape[2] % p.shape[1], i = row / p.shape[2] / p.shape[1];
        const auto offset_in = [&](const attile_operand &x) { return i * x.stride[0] + j * x.stride[1] + l * x.stride[2]; };
        softmax_row(kernels, p, offset_in(p.x), offset_in(p.y));
    });
    return ATTILE_OK;
}

int32_t exact_merge_query(const State &state, const attile_attention_merge_problem &p, attile_support *support) {
    const MergePlan plan = plan_of(state, p);
    const double parts = static_cast<double>(p.parts), dv = static_cast<double>(p.head_dim_v);
    const double lse = p.lse.dtype == 0 ? 0 : dtype_bytes(p.lse.dtype);
    const double each = dv * dtype_bytes(p.o_parts[0].dtype) + dtype_bytes(p.lse_parts[0].dtype);
    fill_support(state, plan, p, "attention_merge", parts * each + dv * dtype_bytes(p.o.dtype) + lse, support);
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_attention_merge_exact_%s", kernel_target_name(state.target));
    support->flops = 2 * static_cast<double>(plan.rows) * parts * dv;
    return ATTILE_OK;
}

int32_t exact_merge_run(State &state, const attile_attention_merge_problem &p) {
    const ExactRowKernels<double> &kernels = exact_row_kernels<double>(state.target);
    return run_rows(state, plan_of(state, p), p, [&](const auto &, const MergeRow &row, char *memory) {
        merge_row(kernels, p, row, reinterpret_cast<double *>(memory));
    });
}

}  // namespace attile::cpu

// SPDX-License-Identifier: Apache-2.0
// Step: attention 1 separate
// Title: Five separate kernels
// Changes: Nothing yet. Scores, row maxima, exponentials, row sums and the product with V are a kernel each; the scores lie in global
//   memory.
// Why: It is the definition, one line a kernel. Every score is written once and read four times and more, so that n^2 numbers cross the
//   memory where n d would do; and neither product has any reuse. Scores are made for as many rows at a time as fit 256 MB. (The report
//   launched these kernels tile by tile, 204800 launches for its input, which is what its figure holds.)
// Intensity: 4 d FLOP for 4 d + 6 floats: below 1/4 FLOP/B.
#include "ladder_attention.h"

namespace {

constexpr int64_t kScores = int64_t{1} << 26;  // Floats of scores held at a time.

// Rows are numbered through all heads; `first` is the first of this part.
__global__ void scores(const float *q, const float *k, float *s, int64_t first, int64_t rows, int n, int d, float scale) {
    const int key = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t at = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    if (key >= n || at >= rows) return;
    const float *one_q = q + (first + at) * d, *one_k = k + ((first + at) / n * n + key) * d;
    float sum = 0;
    for (int x = 0; x < d; ++x) sum += one_q[x] * one_k[x];
    s[at * n + key] = sum * scale;
}

__global__ void row_maxima(const float *s, float *row_max, int64_t rows, int n) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= rows) return;
    float top = -INFINITY;  // Not 0, nor the smallest positive float: scores may all be negative.
    for (int j = 0; j < n; ++j) top = fmaxf(top, s[at * n + j]);
    row_max[at] = top;
}

__global__ void exponentials(float *s, const float *row_max, int64_t rows, int n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < rows * n) s[i] = expf(s[i] - row_max[i / n]);
}

__global__ void row_sums(const float *p, float *row_sum, int64_t rows, int n) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= rows) return;
    float sum = 0;
    for (int j = 0; j < n; ++j) sum += p[at * n + j];
    row_sum[at] = sum;
}

__global__ void outputs(const float *p, const float *v, const float *row_sum, float *o, int64_t first, int64_t rows, int n, int d) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, at = i / d;
    const int x = static_cast<int>(i % d);
    if (at >= rows) return;
    const float *values = v + (first + at) / n * n * d;
    float sum = 0;
    for (int j = 0; j < n; ++j) sum += p[at * n + j] * values[static_cast<int64_t>(j) * d + x];
    o[(first + at) * d + x] = sum / row_sum[at];
}

unsigned blocks_for(int64_t threads) { return static_cast<unsigned>(ladder::ceil_div(threads, 256)); }

void launch(const ladder::Attention &p) {
    static const ladder::DeviceArray s(kScores);
    const int64_t all = static_cast<int64_t>(p.heads) * p.n;
    const int64_t part = std::min<int64_t>(std::max<int64_t>(kScores / p.n, 1), 8 * 65535);
    for (int64_t first = 0; first < all; first += part) {
        const int64_t rows = std::min(part, all - first);
        const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.n, 32)), static_cast<unsigned>(ladder::ceil_div(rows, 8)));
        scores<<<grid, dim3(32, 8)>>>(p.q, p.k, s.get(), first, rows, p.n, p.d, p.scale);
        row_maxima<<<blocks_for(rows), 256>>>(s.get(), p.row_max, rows, p.n);
        exponentials<<<blocks_for(rows * p.n), 256>>>(s.get(), p.row_max, rows, p.n);
        row_sums<<<blocks_for(rows), 256>>>(s.get(), p.row_sum, rows, p.n);
        outputs<<<blocks_for(rows * p.d), 256>>>(s.get(), p.v, p.row_sum, p.o, first, rows, p.n, p.d);
    }
}

double traffic(const ladder::Attention &p) {
    return p.heads * static_cast<double>(p.n) * p.n * 4 * (4.0 * p.d + 6) + 4.0 * p.heads * p.n * p.d;
}

[[maybe_unused]] const bool added = ladder::add_attention({1, "separate", launch, traffic});

}  // namespace

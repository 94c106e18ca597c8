// SPDX-License-Identifier: Apache-2.0
// Step: attention 6 restructured
// Title: Invariants out of the loops
// Changes: Q is loaded once, before the loop over keys; the two factors that correct O are made once a tile and not once an element;
//   exponentials use the device's fast instruction (__expf).
// Why: Work that does not change is not repeated: each tile loads d floats a row less and takes two exponentials a row in place of 2 d.
// Intensity: Q no longer moves at every tile: 7 FLOP/B for d = 64.
#include "ladder_attention.h"

namespace {

using ladder::kBlockRows;

__device__ float4 quad(const float *row, int x) { return reinterpret_cast<const float4 *>(row)[x]; }

__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

__device__ void add_product(float4 &sum, float s, float4 v) {
    sum.x += s * v.x;
    sum.y += s * v.y;
    sum.z += s * v.z;
    sum.w += s * v.w;
}

__global__ void __launch_bounds__(kBlockRows) attention(const float *q, const float *k, const float *v, float *o, float *row_max,
                                                        float *row_sum, int n, int d, int keys, float scale) {
    extern __shared__ float4 shared[];
    const int quads = d / 4;
    float4 *const tile_q = shared, *const tile_k = tile_q + kBlockRows * quads, *const tile_v = tile_k + keys * quads;
    float *const s = reinterpret_cast<float *>(tile_v + keys * quads);
    // Which head this block is in, and which row this thread has. A thread beyond the last row still loads keys and meets barriers.
    const int row_tiles = (n + kBlockRows - 1) / kBlockRows, thread = threadIdx.x;
    const int64_t head_row = static_cast<int64_t>(blockIdx.x / row_tiles) * n, head = head_row * d;
    const int row = static_cast<int>(blockIdx.x % row_tiles) * kBlockRows + thread;
    const bool active = row < n;
    const int64_t out = head + static_cast<int64_t>(row) * d;
    if (active)
        for (int x = 0; x < quads; ++x) tile_q[thread * quads + x] = quad(q + out, x);
    for (int first_key = 0; first_key < n; first_key += keys) {
        const int here = min(keys, n - first_key);
        if (thread < here)
            for (int x = 0; x < quads; ++x) {
                tile_k[thread * quads + x] = quad(k + head + static_cast<int64_t>(first_key + thread) * d, x);
                tile_v[thread * quads + x] = quad(v + head + static_cast<int64_t>(first_key + thread) * d, x);
            }
        __syncthreads();
        if (active) {
            float top = -INFINITY;
            for (int y = 0; y < here; ++y) {
                float sum = 0;
                for (int x = 0; x < quads; ++x) sum += dot(tile_q[thread * quads + x], tile_k[y * quads + x]);
                sum *= scale;
                s[thread * keys + y] = sum;
                top = fmaxf(top, sum);
            }
            float sum = 0;
            for (int y = 0; y < here; ++y) {
                const float weight = __expf(s[thread * keys + y] - top);
                s[thread * keys + y] = weight;
                sum += weight;
            }
            const float old_max = first_key > 0 ? row_max[head_row + row] : -INFINITY;
            const float old_sum = first_key > 0 ? row_sum[head_row + row] : 0.0f;
            const float new_max = fmaxf(old_max, top);
            const float exp_old = __expf(old_max - new_max), exp_new = __expf(top - new_max);
            const float new_sum = exp_old * old_sum + exp_new * sum;
            const float keep = exp_old * old_sum / new_sum, take = exp_new / new_sum;
            for (int x = 0; x < quads; ++x) {
                float4 product = make_float4(0, 0, 0, 0);
                for (int y = 0; y < here; ++y) add_product(product, s[thread * keys + y], tile_v[y * quads + x]);
                float4 *const to = reinterpret_cast<float4 *>(o + out) + x;
                const float4 old = first_key > 0 ? *to : make_float4(0, 0, 0, 0);
                *to = make_float4(keep * old.x + take * product.x, keep * old.y + take * product.y, keep * old.z + take * product.z,
                                  keep * old.w + take * product.w);
            }
            row_max[head_row + row] = new_max;
            row_sum[head_row + row] = new_sum;
        }
        __syncthreads();
    }
}

void launch(const ladder::Attention &p) {
    const int keys = ladder::keys_with_q(p.d);
    attention<<<ladder::row_blocks(p), kBlockRows, ladder::shared_with_q(p.d)>>>(p.q, p.k, p.v, p.o, p.row_max, p.row_sum, p.n, p.d, keys,
                                                                                 p.scale);
}

double traffic(const ladder::Attention &p) { return ladder::block_traffic(p, kBlockRows, ladder::keys_with_q(p.d), false, true); }

[[maybe_unused]] const bool added = ladder::add_attention({6, "restructured", launch, traffic});

}  // namespace

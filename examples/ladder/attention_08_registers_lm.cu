// SPDX-License-Identifier: Apache-2.0
// Step: attention 8 registers_lm
// Title: Running maximum and sum in registers
// Changes: The row's maximum m and sum l no longer live in global memory: the thread that owns the row keeps both for the whole loop.
// Why: Nobody else needs them, so four accesses a row and tile go away, and with them the arrays. They were few beside those of O: on
//   its own the step hardly shows (the report saw none either), but it is what every later kernel does.
// Intensity: about 3 % higher.
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

__global__ void __launch_bounds__(kBlockRows)
    attention(const float *q, const float *k, const float *v, float *o, int n, int d, int keys, float scale) {
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
    float old_max = -INFINITY, old_sum = 0;  // Of this thread's row, for the whole loop.
    {  // The block's rows of Q lie one after the other: thread after thread takes the next four floats.
        const int first_row = row - thread, rows_here = min(kBlockRows, n - first_row);
        const float *const from = q + head + static_cast<int64_t>(first_row) * d;
        for (int i = thread; i < rows_here * quads; i += kBlockRows) tile_q[i] = quad(from, i);
        __syncthreads();
    }
    for (int first_key = 0; first_key < n; first_key += keys) {
        const int here = min(keys, n - first_key);
        const float *const from_k = k + head + static_cast<int64_t>(first_key) * d, *const from_v =
                                                                                        v + head + static_cast<int64_t>(first_key) * d;
        for (int i = thread; i < here * quads; i += kBlockRows) {
            tile_k[i] = quad(from_k, i);
            tile_v[i] = quad(from_v, i);
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
            old_max = new_max;
            old_sum = new_sum;
        }
        __syncthreads();
    }
}

void launch(const ladder::Attention &p) {
    const int keys = ladder::keys_with_q(p.d);
    attention<<<ladder::row_blocks(p), kBlockRows, ladder::shared_with_q(p.d)>>>(p.q, p.k, p.v, p.o, p.n, p.d, keys, p.scale);
}

double traffic(const ladder::Attention &p) { return ladder::block_traffic(p, kBlockRows, ladder::keys_with_q(p.d), false, false); }

[[maybe_unused]] const bool added = ladder::add_attention({8, "registers_lm", launch, traffic});

}  // namespace

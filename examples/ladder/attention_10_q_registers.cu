// SPDX-License-Identifier: Apache-2.0
// Step: attention 10 q_registers
// Title: Q in registers, twice the keys a tile
// Changes: A thread keeps its row of Q in registers, up to 16 float4. The shared memory that Q had goes to more keys: 32 a tile for d =
//   64, 64 for d = 32.
// Why: Half of the shared reads of the first product go away, and O, which is read and written at every tile, moves half as often. What
//   is left to do: a thread still reads a word of shared memory for every one to four multiply-adds, and O crosses global memory n / 32
//   times.
// Intensity: 13 FLOP/B for d = 64.
#include "ladder_attention.h"

namespace {

using ladder::kBlockRows;

constexpr int kMostQuads = 16;  // d is at most 64.

// Without Q, twice the keys fit: (2 keys d + 128 keys) * 4 = 32 KB, 48 KB.
int keys_without_q(int d) { return d == 64 ? 32 : 64; }
size_t shared_without_q(int d) { return static_cast<size_t>(2 * keys_without_q(d) * d + kBlockRows * keys_without_q(d)) * sizeof(float); }

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
    float4 *const tile_k = shared, *const tile_v = tile_k + keys * quads;
    float *const s = reinterpret_cast<float *>(tile_v + keys * quads);
    // Which head this block is in, and which row this thread has. A thread beyond the last row still loads keys and meets barriers.
    const int row_tiles = (n + kBlockRows - 1) / kBlockRows, thread = threadIdx.x;
    const int64_t head_row = static_cast<int64_t>(blockIdx.x / row_tiles) * n, head = head_row * d;
    const int row = static_cast<int>(blockIdx.x % row_tiles) * kBlockRows + thread;
    const bool active = row < n;
    const int64_t out = head + static_cast<int64_t>(row) * d;
    float old_max = -INFINITY, old_sum = 0;  // Of this thread's row, for the whole loop.
    float4 row_q[kMostQuads];                // Indexed by constants only, or it would be no register.
#pragma unroll
    for (int x = 0; x < kMostQuads; ++x) row_q[x] = active && x < quads ? quad(q + out, x) : make_float4(0, 0, 0, 0);
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
#pragma unroll
                for (int x = 0; x < kMostQuads; ++x)
                    if (x < quads) sum += dot(row_q[x], tile_k[y * quads + x]);
                sum *= scale;
                s[y * kBlockRows + thread] = sum;
                top = fmaxf(top, sum);
            }
            float sum = 0;
            for (int y = 0; y < here; ++y) {
                const float weight = __expf(s[y * kBlockRows + thread] - top);
                s[y * kBlockRows + thread] = weight;
                sum += weight;
            }
            const float new_max = fmaxf(old_max, top);
            const float exp_old = __expf(old_max - new_max), exp_new = __expf(top - new_max);
            const float new_sum = exp_old * old_sum + exp_new * sum;
            const float keep = exp_old * old_sum / new_sum, take = exp_new / new_sum;
            for (int x = 0; x < quads; ++x) {
                float4 product = make_float4(0, 0, 0, 0);
                for (int y = 0; y < here; ++y) add_product(product, s[y * kBlockRows + thread], tile_v[y * quads + x]);
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
    const int keys = keys_without_q(p.d);
    attention<<<ladder::row_blocks(p), kBlockRows, shared_without_q(p.d)>>>(p.q, p.k, p.v, p.o, p.n, p.d, keys, p.scale);
}

double traffic(const ladder::Attention &p) { return ladder::block_traffic(p, kBlockRows, keys_without_q(p.d), false, false); }

[[maybe_unused]] const bool added = ladder::add_attention({10, "q_registers", launch, traffic});

}  // namespace

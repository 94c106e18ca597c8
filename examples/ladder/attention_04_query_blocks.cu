// SPDX-License-Identifier: Apache-2.0
// Step: attention 4 query_blocks
// Title: Query tiles over blocks
// Changes: A block takes 128 rows of one head in place of all rows of it; the loop over rows becomes the grid.
// Why: Rows do not depend on each other. For 10 heads of 2048 rows there are 160 blocks where there were 10, so that every
//   multiprocessor has work. K and V are now read once a block of rows, which costs little: O still moves at every tile and outweighs
//   them.
// Intensity: a little lower, 4.8 FLOP/B for d = 64; the device is full.
#include "ladder_attention.h"

namespace {

using ladder::kBlockRows;

__global__ void __launch_bounds__(kBlockRows) attention(const float *q, const float *k, const float *v, float *o, float *row_max,
                                                        float *row_sum, int n, int d, int keys, float scale) {
    extern __shared__ float shared[];
    float *const tile_q = shared, *const tile_k = tile_q + kBlockRows * d, *const tile_v = tile_k + keys * d;
    float *const s = tile_v + keys * d;
    // Which head this block is in, and which row this thread has. A thread beyond the last row still loads keys and meets barriers.
    const int row_tiles = (n + kBlockRows - 1) / kBlockRows, thread = threadIdx.x;
    const int64_t head_row = static_cast<int64_t>(blockIdx.x / row_tiles) * n, head = head_row * d;
    const int row = static_cast<int>(blockIdx.x % row_tiles) * kBlockRows + thread;
    const bool active = row < n;
    const int64_t out = head + static_cast<int64_t>(row) * d;
    for (int first_key = 0; first_key < n; first_key += keys) {
        const int here = min(keys, n - first_key);
        if (thread < here)
            for (int x = 0; x < d; ++x) {
                tile_k[thread * d + x] = k[head + static_cast<int64_t>(first_key + thread) * d + x];
                tile_v[thread * d + x] = v[head + static_cast<int64_t>(first_key + thread) * d + x];
            }
        __syncthreads();
        if (active) {
            for (int x = 0; x < d; ++x) tile_q[thread * d + x] = q[out + x];
            float top = -INFINITY;
            for (int y = 0; y < here; ++y) {
                float sum = 0;
                for (int x = 0; x < d; ++x) sum += tile_q[thread * d + x] * tile_k[y * d + x];
                s[thread * keys + y] = sum * scale;
                top = fmaxf(top, sum * scale);
            }
            float sum = 0;
            for (int y = 0; y < here; ++y) {
                s[thread * keys + y] = expf(s[thread * keys + y] - top);
                sum += s[thread * keys + y];
            }
            const float old_max = first_key > 0 ? row_max[head_row + row] : -INFINITY;
            const float old_sum = first_key > 0 ? row_sum[head_row + row] : 0.0f;
            const float new_max = fmaxf(old_max, top);
            const float new_sum = expf(old_max - new_max) * old_sum + expf(top - new_max) * sum;
            for (int x = 0; x < d; ++x) {
                float product = 0;
                for (int y = 0; y < here; ++y) product += s[thread * keys + y] * tile_v[y * d + x];
                const float old = first_key > 0 ? o[out + x] : 0.0f;
                o[out + x] = (old_sum * expf(old_max - new_max) * old + expf(top - new_max) * product) / new_sum;
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

double traffic(const ladder::Attention &p) { return ladder::block_traffic(p, kBlockRows, ladder::keys_with_q(p.d), true, true); }

[[maybe_unused]] const bool added = ladder::add_attention({4, "query_blocks", launch, traffic});

}  // namespace

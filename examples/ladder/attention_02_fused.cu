// SPDX-License-Identifier: Apache-2.0
// Step: attention 2 fused
// Title: One kernel, tiled in shared memory
// Changes: One kernel does it all, tile by tile: 32 rows of Q, 32 keys of K and V, and their scores are in shared memory. The row's
//   running maximum and sum, and its output so far, are in global memory and corrected at every tile (online softmax). A block takes
//   one head, with a thread for each of the 32 rows.
// Why: Scores never leave the chip: the memory for n^2 numbers is gone. But one warp a block and one block a head leave the device
//   empty: with few heads on a large device this is slower than the step before, which uses all of it.
// Intensity: 4 * 32 d FLOP a row and tile for 3 d + 4 floats: about 10 FLOP/B.
// Step: attention 3 shared48k
// Title: Shared memory to the 48 KB limit
// Changes: 128 rows of Q, and as many keys as then fit: 16 for d = 64 (49152 bytes), 32 for d = 32 (40960 bytes). Same code, other
//   numbers.
// Why: Four warps a block in place of one: while one waits, three can work. The rows of a block share each key that it loads.
// Intensity: d = 64: half the keys a tile, so O and Q move twice as often: about 5 FLOP/B. More warps outweigh it.
#include "ladder_attention.h"

namespace {

__global__ void attention(const float *q, const float *k, const float *v, float *o, float *row_max, float *row_sum, int n, int d, int keys,
                          float scale) {
    extern __shared__ float shared[];
    const int rows = blockDim.x, thread = threadIdx.x;
    float *const tile_q = shared, *const tile_k = tile_q + rows * d, *const tile_v = tile_k + keys * d, *const s = tile_v + keys * d;
    const int64_t head = static_cast<int64_t>(blockIdx.x) * n * d, head_row = static_cast<int64_t>(blockIdx.x) * n;
    for (int first_key = 0; first_key < n; first_key += keys) {
        const int here = min(keys, n - first_key);
        for (int y = thread; y < here; y += rows)
            for (int x = 0; x < d; ++x) {
                tile_k[y * d + x] = k[head + static_cast<int64_t>(first_key + y) * d + x];
                tile_v[y * d + x] = v[head + static_cast<int64_t>(first_key + y) * d + x];
            }
        __syncthreads();
        for (int row = thread; row < n; row += rows) {  // A thread's row of Q and of the scores is its own: no barrier is needed.
            const int64_t out = head + static_cast<int64_t>(row) * d;
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
            // Before the first tile there is no maximum, no sum and no output: nothing of them is read.
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

void launch_with(const ladder::Attention &p, int rows, int keys) {
    const size_t shared = static_cast<size_t>(rows * p.d + 2 * keys * p.d + rows * keys) * sizeof(float);
    attention<<<static_cast<unsigned>(p.heads), static_cast<unsigned>(rows), shared>>>(p.q, p.k, p.v, p.o, p.row_max, p.row_sum, p.n, p.d,
                                                                                       keys, p.scale);
}

void launch_32(const ladder::Attention &p) { launch_with(p, 32, 32); }
void launch_48k(const ladder::Attention &p) { launch_with(p, ladder::kBlockRows, ladder::keys_with_q(p.d)); }
// All rows of a head are one block's: k and v are read once.
double traffic_32(const ladder::Attention &p) { return ladder::block_traffic(p, p.n, 32, true, true); }
double traffic_48k(const ladder::Attention &p) { return ladder::block_traffic(p, p.n, ladder::keys_with_q(p.d), true, true); }

[[maybe_unused]] const bool added = ladder::add_attention({2, "fused", launch_32, traffic_32, true}) &&
                                    ladder::add_attention({3, "shared48k", launch_48k, traffic_48k, true});

}  // namespace

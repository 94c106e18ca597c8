// SPDX-License-Identifier: Apache-2.0
// dQ = scale dS K, from gradients of scores that the kernel of dK and dV left in memory as fragments (BackwardTask). A warp has 32 rows and
// the columns, or half of them; K and the fragments stream through shared memory in pipeline stages. Fragments come transposed, keys
// as rows, and are transposed in registers. Bound by memory at 64 columns: 2 bytes for each pair of row and key.
#pragma once

#include "attention_backward/mma/site.cuh"
#include "attention_backward/mma/sum.h"
#include "attention_backward/tiles.h"
#include "mma/shared_rows.cuh"

namespace attile::gpu::mma {

template <class Element, class Config>
class BackwardSum {
  public:
    __device__ __forceinline__ BackwardSum(const BackwardSumTask &task, const BackwardSite &site, int part, uint32_t memory)
        : a_(task), p_(task.p), site_(site), part_(part), stages_(memory) {}

    __device__ __forceinline__ void run() {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) sums_[t][i] = 0;
        }
        const Span all = key_blocks_of(p_, site_.entry, site_.first);
        tiles_.first = min(all.first + part_ * a_.part_tiles, all.end);
        tiles_.end = min(tiles_.first + a_.part_tiles, all.end);
#pragma unroll
        for (int i = 0; i < kStages - 1; ++i) load(tiles_.first + i);
#pragma unroll 1
        for (int tile = tiles_.first; tile < tiles_.end; ++tile) {
            copy_wait<kStages - 2>();
            __syncthreads();  // The tile has come, and no warp uses the one before any more: the next one takes its stage.
            load(tile + kStages - 1);
            if (shows(tile)) add_product(stage(tile));
        }
        store();
    }

  private:
    static constexpr BackwardSumShape kShape = Config::kShape;
    static constexpr int kDepth = kShape.depth, kColumns = kShape.columns(), kKeys = kShape.keys, kStages = kShape.stages;
    static constexpr int kRowTiles = 2, kSteps = kKeys / 16;
    using Rows = SharedRows<kDepth>;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpThreads; }
    static __device__ __forceinline__ int group() { return warp() % kShape.groups; }
    static __device__ __forceinline__ int split() { return warp() / kShape.groups; }

    __device__ __forceinline__ uint32_t stage(int tile) const {
        return stages_ + static_cast<uint32_t>(tile) % kStages * kShape.stage_bytes();
    }

    static_assert(ATTILE_MASK_BLOCK % kShape.rows() == 0 && ATTILE_MASK_BLOCK % kKeys == 0, "a tile is of one block of a mask");
    // Does a mask of blocks, if there is one, show the tile? Of a hidden one no fragments have been written.
    __device__ __forceinline__ bool shows(int tile) const {
        const AttentionMask &mask = p_.forward.block_mask;
        return mask.data == nullptr ||
               mask_shows(mask, site_.entry.batch, site_.head, site_.first / ATTILE_MASK_BLOCK, tile * kKeys / ATTILE_MASK_BLOCK);
    }
    // Is any pair of these 16 rows and 16 keys seen? If so its fragment has been written.
    __device__ __forceinline__ bool sees(int row, int key) const {
        const AttentionEntry &entry = site_.entry;
        const int last_row = min(row + 16, entry.len_q) - 1, last_key = min(key + 16, entry.len_k) - 1;
        return row <= last_row && key <= last_key && key - last_row <= entry.shift + p_.forward.window_right &&
               last_key - row >= entry.shift - p_.forward.window_left;
    }

    __device__ __forceinline__ void load(int tile) const {
        if (tile < tiles_.end && shows(tile)) {
            const AttentionOperand &k = p_.forward.k;
            const AttentionEntry &entry = site_.entry;
            const int64_t stride = k.stride[2] * 2,
                          head_kv = head_of_keys(p_, static_cast<int>(quotient(static_cast<uint32_t>(site_.head), p_.forward.group)));
            const char *const from = static_cast<const char *>(k.data) + (entry.batch * k.stride[0] + head_kv * k.stride[1]) * 2 +
                                     (entry.first_k + tile * kKeys) * stride;
            const uint32_t to = stage(tile);
            load_rows<kDepth, kKeys, kShape.threads(), true>(to, from, stride, p_.forward.head_dim, 0, entry.len_k - tile * kKeys);
            // Fragments [rows / 16][keys / 16] of the tile.
            constexpr int kAtOnce = kShape.threads() / kWarpThreads;
            const int64_t head = static_cast<int64_t>(entry.batch) * p_.forward.heads.divisor + site_.head -
                                 static_cast<int64_t>(p_.first_pair) * p_.forward.group.divisor;
            const uint4 *const fragments = static_cast<const uint4 *>(a_.gradients) +
                                           ((head * a_.row_fragments + site_.first / 16) * a_.key_fragments + tile * kSteps) * 32 + lane();
#pragma unroll
            for (int i = 0; i < kShape.rows() / 16 * kSteps; i += kAtOnce) {
                const int fragment = i + warp(), row = fragment / kSteps, key = fragment % kSteps;
                copy_async(to + kShape.tile_bytes() + fragment * 512 + lane() * 16,
                           fragments + (static_cast<int64_t>(row) * a_.key_fragments + key) * 32,
                           sees(site_.first + 16 * row, tile * kKeys + 16 * key) ? 16 : 0);
            }
        }
        copy_commit();  // Empty groups too: their count says which tile has come.
    }

    __device__ __forceinline__ void add_product(uint32_t tile) {
        const uint32_t b = tile + Rows::at(lane() & 15, lane() >> 4) + split() * (kColumns * 2);
        const uint32_t a = tile + kShape.tile_bytes() + group() * (kRowTiles * kSteps * 512) + lane() * 16;
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
            uint32_t left[kRowTiles][4];
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(left[t][0]), "=r"(left[t][2]), "=r"(left[t][1]), "=r"(left[t][3])
                             : "r"(a + (t * kSteps + i) * 512)
                             : "memory");
#pragma unroll
                for (uint32_t &x : left[t]) asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x));
            }
#pragma unroll
            for (int j = 0; j < kColumns / 16; ++j) {
                uint32_t columns[4];
                load_matrices_turned(columns, Rows::step(b, 2 * j) + i * 16 * Rows::kBytes);
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
                    multiply<Element>(sums_[t] + 8 * j, left[t], columns[0], columns[1]);
                    multiply<Element>(sums_[t] + 8 * j + 4, left[t], columns[2], columns[3]);
                }
            }
        }
    }

    __device__ __forceinline__ void store() const {
        AttentionOperand to = a_.to;
        if (part_ > 0) to.data = static_cast<const float *>(to.data) + part_ * a_.part_stride;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = site_.first + 32 * group() + 16 * t + 8 * r + lane() / 4;
                store_gradient_row<Element, kColumns>(to, site_, site_.entry.first_q + row, row < site_.entry.len_q, p_.forward.head_dim,
                                                      split() * kColumns, sums_[t] + 2 * r, p_.scale);
            }
        }
    }

    const BackwardSumTask &a_;
    const AttentionBackwardParams &p_;
    const BackwardSite &site_;
    const int part_;
    const uint32_t stages_;
    Span tiles_;
    float sums_[kRowTiles][kColumns / 2];
};

template <class Element, class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(Config::kShape.threads(), Config::kShape.blocks)
    attention_backward_sum(const __grid_constant__ BackwardSumTask a) {
    static_assert(Config::kShape.shared_bytes() <= 99 * 1024, "shared memory of a block");
    extern __shared__ __align__(1024) unsigned char memory[];
    const int block = static_cast<int>(blockIdx.x) / a.parts, part = static_cast<int>(blockIdx.x) - block * a.parts;
    const BackwardSite site = backward_site<false>(a, Config::kShape.rows(), block);
    const int head_kv = static_cast<int>(quotient(static_cast<uint32_t>(site.head), a.p.forward.group));
    // Computed pair by pair afterwards, over whatever parts that are not written add up to.
    if (a.p.irregular[site.entry.batch * a.p.heads_kv.divisor + head_kv] != 0) return;
    BackwardSum<Element, Config>(a, site, part, shared_address(memory)).run();
}

}  // namespace attile::gpu::mma

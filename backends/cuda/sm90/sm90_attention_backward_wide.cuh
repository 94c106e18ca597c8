// SPDX-License-Identifier: Apache-2.0
// Attention's gradients on Hopper's tensor cores for heads of more than 128 columns, whose sums of dK and dV fill the registers of two
// warpgroups with 64 keys. Each has one of them, and all its columns: the first makes S^T, P^T and dV, the second dP^T, dS^T and dK, for
// which the first leaves P in shared memory, as float and in the order of its registers. dQ would be twice as much to add up in memory as
// with 128 keys: dS is left there instead, and tensor_attention_backward_sum.cuh multiplies it by K.
#pragma once

#include "sm90_attention_backward_serve.cuh"
#include "sm90_attention_product.cuh"
#include "sm90_gemm_product.cuh"

namespace attile::sm90 {

template <class Config>
struct BackwardWideShared {
    static constexpr BackwardShape kShape = Config::kShape;
    static constexpr int kStages = kShape.stages();
    uint32_t k;

    __device__ __forceinline__ explicit BackwardWideShared(void *memory) : k(shared_address(memory)) {}
    __device__ __forceinline__ uint32_t v() const { return k + kShape.keys_bytes(); }
    __device__ __forceinline__ uint32_t q(uint32_t stage) const { return v() + kShape.keys_bytes() + stage * kShape.rows_bytes(); }
    __device__ __forceinline__ uint32_t dout(uint32_t stage) const { return q(kStages) + stage * kShape.rows_bytes(); }
    __device__ __forceinline__ uint32_t scores(uint32_t stage) const { return dout(kStages) + stage * kShape.wide_scores_bytes(); }
    __device__ __forceinline__ uint32_t numbers(uint32_t stage) const { return scores(kStages) + stage * kShape.number_bytes(); }
    __device__ __forceinline__ uint32_t barrier(uint32_t number) const { return numbers(kStages) + 8 * number; }
    __device__ __forceinline__ uint32_t q_full(uint32_t stage) const { return barrier(stage); }
    __device__ __forceinline__ uint32_t dout_full(uint32_t stage) const { return barrier(kStages + stage); }
    __device__ __forceinline__ uint32_t rows_empty(uint32_t stage) const { return barrier(2 * kStages + stage); }
    __device__ __forceinline__ uint32_t scores_full(uint32_t stage) const { return barrier(3 * kStages + stage); }
    __device__ __forceinline__ uint32_t scores_empty(uint32_t stage) const { return barrier(4 * kStages + stage); }
    __device__ __forceinline__ uint32_t note_full(uint32_t place) const { return barrier(5 * kStages + place); }
    __device__ __forceinline__ uint32_t note_empty(uint32_t place) const { return barrier(5 * kStages + 2 + place); }
    __device__ __forceinline__ uint32_t keys_full() const { return barrier(5 * kStages + 4); }
    __device__ __forceinline__ uint32_t keys_empty() const { return barrier(5 * kStages + 5); }
    __device__ __forceinline__ uint32_t note(uint32_t place) const { return barrier(5 * kStages + 6) + 4 * place; }

    __device__ __forceinline__ void init() const {
        constexpr uint32_t kOfGroup = kWarpgroupThreads / kWarpThreads, kComputing = kWarpgroups * kOfGroup;
        for (uint32_t i = 0; i < kStages; ++i) {
            barrier_init(q_full(i), 1);
            barrier_init(dout_full(i), 1);
            barrier_init(rows_empty(i), kComputing);
            barrier_init(scores_full(i), kOfGroup);
            barrier_init(scores_empty(i), kOfGroup);
        }
        for (uint32_t i = 0; i < 2; ++i) {
            barrier_init(note_full(i), 1);
            barrier_init(note_empty(i), kComputing);
        }
        barrier_init(keys_full(), 1);
        barrier_init(keys_empty(), kComputing);
        barrier_init_fence();
    }
};

// kOfValues: the warpgroup of P and dV, else that of dS and dK.
template <class Element, class Config, bool kOfValues>
class BackwardWideWarpgroup {
  public:
    __device__ __forceinline__ BackwardWideWarpgroup(const BackwardArguments &arguments, const BackwardWideShared<Config> &places)
        : a_(arguments), shared_(places), lane_(simt::lane_index()) {}

    __device__ __forceinline__ void run() {
#pragma unroll 1
        for (uint32_t notes = 0;; ++notes) {
            barrier_wait(shared_.note_full(notes % 2), notes / 2 & 1);
            int index;
            asm volatile("ld.shared.s32 %0, [%1];" : "=r"(index) : "r"(shared_.note(notes % 2)) : "memory");
            index = warp_uniform(index);
            release(shared_.note_empty(notes % 2));
            if (index < 0) return;
            tile(index);
        }
    }

  private:
    static constexpr BackwardShape kShape = Config::kShape;
    static constexpr int kPanelRow = kBackwardPanel * 2, kRows = kShape.rows, kDepth = kShape.depth, kKeys = kShape.keys;
    static constexpr int kScores = kRows / 2, kSums = kDepth / 2;
    static_assert(kKeys == 64 && kRows == 64 && kDepth == 256, "64 keys of a warpgroup");

    __device__ __forceinline__ int warp() const { return static_cast<int>(threadIdx.x) / kWarpThreads % 4; }
    // The thread has this key of the block and the one eight further.
    __device__ __forceinline__ int key() const { return 16 * warp() + lane_ / 4; }
    // What the warp has read may be overwritten, what it has written may be read.
    __device__ __forceinline__ void release(uint32_t barrier) const {
        __syncwarp();
        if (lane_ == 0) barrier_arrive(barrier);
    }
    static __device__ __forceinline__ uint32_t operand_low(uint32_t address, uint32_t next_bytes) {
        return static_cast<uint32_t>(product_operand(address, next_bytes));
    }
    static __device__ __forceinline__ uint64_t operand(uint32_t low) { return (product_operand(0, 0) >> 32 << 32) | low; }

    // keys rows^T
    __device__ __forceinline__ void multiply_scores(float (&to)[kScores], uint32_t keys, uint32_t rows) const {
        const uint32_t left = operand_low(keys, 16), right = operand_low(rows, 16);
        keep_in_registers(to);
        product_fence();
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i)
            gemm_product<Element, kRows, 0, 0>(to, operand(left + i / 4 * (kKeys * kPanelRow / 16) + i % 4 * 2),
                                               operand(right + i / 4 * (kRows * kPanelRow / 16) + i % 4 * 2), i != 0);
        product_commit();
        product_wait<0>();
        keep_in_registers(to);
    }
    __device__ __forceinline__ void multiply_rows(const uint32_t (&scores)[kScores / 2], uint32_t rows) {
        const uint32_t right = operand_low(rows, kRows * kPanelRow);
        keep_in_registers(sums_);
        product_fence();
#pragma unroll
        for (int i = 0; i < kRows / 16; ++i) value_product<Element, kDepth>(sums_, scores + 4 * i, operand(right + i * 128));
        product_commit();
        product_wait<0>();
        keep_in_registers(sums_);
    }

    // Key minus query row of what is seen lies in [low_, low_ + width_]; keys end at end_. All counted from the block's first key.
    __device__ __forceinline__ void mask(int row, float (&s)[kScores]) const {
        const int low = low_ + row;
        if (1 - kRows >= low && kKeys - 1 <= low + width_ && kKeys <= end_) return;
        const int first = key(), distance = first - (lane_ & 3) * 2 - low;  // Of the thread's first score.
        const bool is_past[2] = {first >= end_, first + 8 >= end_};
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
            const int at = distance + (i & 2) * 4 - (i >> 2) * 8 - (i & 1);
            if (static_cast<uint32_t>(at) > static_cast<uint32_t>(width_) || is_past[i >> 1 & 1]) s[i] = -INFINITY;
        }
    }
    // Log-sum-exp and delta of two rows.
    __device__ __forceinline__ void load_numbers(float (&to)[4], uint32_t stage, int j) const {
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                     : "r"(shared_.numbers(stage) + (lane_ & 3) * 16 + 64 * j)
                     : "memory");
    }
    __device__ __forceinline__ uint32_t probabilities(uint32_t stage) const {
        return shared_.scores(stage) + static_cast<int>(threadIdx.x) % kWarpgroupThreads * 16;
    }

    __device__ __forceinline__ void step_of_values(int row) {
        const uint32_t stage = steps_ % 2, parity = steps_ / 2 & 1;
        float s[kScores];
        uint32_t p[kScores / 2];
        barrier_wait(shared_.q_full(stage), parity);
        __syncwarp();
        multiply_scores(s, shared_.k, shared_.q(stage));
        mask(row, s);
        barrier_wait(shared_.scores_empty(stage), parity ^ 1);
        const float c = a_.p.forward.scale_log2;
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
            float pair[4];
            load_numbers(pair, stage, j);
            const float less[2] = {-pair[0] * simt::kLog2EHigh, -pair[2] * simt::kLog2EHigh};
            float *const x = s + 4 * j;
#pragma unroll
            for (int i = 0; i < 4; ++i) x[i] = simt::exp2_fast(fmaf(x[i], c, less[i & 1]));
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(probabilities(stage) + j * (kWarpgroupThreads * 16)), "f"(x[0]),
                         "f"(x[1]), "f"(x[2]), "f"(x[3])
                         : "memory");
            p[2 * j] = narrow_pair<Element>(x[0], x[1]);
            p[2 * j + 1] = narrow_pair<Element>(x[2], x[3]);
        }
        release(shared_.scores_full(stage));
        barrier_wait(shared_.dout_full(stage), parity);
        __syncwarp();
        multiply_rows(p, shared_.dout(stage));
        release(shared_.rows_empty(stage));
        ++steps_;
    }
    __device__ __forceinline__ void step_of_keys(int64_t gradients) {
        const uint32_t stage = steps_ % 2, parity = steps_ / 2 & 1;
        float d[kScores];
        uint32_t ds[kScores / 2];
        barrier_wait(shared_.dout_full(stage), parity);
        __syncwarp();
        multiply_scores(d, shared_.v(), shared_.dout(stage));
        barrier_wait(shared_.q_full(stage), parity);
        barrier_wait(shared_.scores_full(stage), parity);
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
            float pair[4], p[4];
            load_numbers(pair, stage, j);
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(p[0]), "=f"(p[1]), "=f"(p[2]), "=f"(p[3])
                         : "r"(probabilities(stage) + j * (kWarpgroupThreads * 16))
                         : "memory");
            const float *const x = d + 4 * j;
            ds[2 * j] = narrow_pair<Element>(p[0] * (x[0] - pair[1]), p[1] * (x[1] - pair[3]));
            ds[2 * j + 1] = narrow_pair<Element>(p[2] * (x[2] - pair[1]), p[3] * (x[3] - pair[3]));
        }
        release(shared_.scores_empty(stage));
        uint4 *const to = static_cast<uint4 *>(a_.gradients) + gradients + lane_;
#pragma unroll
        for (int i = 0; i < kRows / 16; ++i)
            to[static_cast<int64_t>(i) * a_.key_fragments * 32] = make_uint4(ds[4 * i], ds[4 * i + 1], ds[4 * i + 2], ds[4 * i + 3]);
        multiply_rows(ds, shared_.q(stage));
        release(shared_.rows_empty(stage));
        ++steps_;
    }

    __device__ __forceinline__ void tile(int index) {
#pragma unroll
        for (float &x : sums_) x = 0;
        const BackwardWalk walk(a_, kKeys, index);
        const int count = warp_uniform(walk.steps()), first = warp_uniform(walk.first), end = warp_uniform(walk.end);
        low_ = warp_uniform(walk.site.entry.shift - a_.p.forward.window_left - walk.site.first);
        width_ = warp_uniform(a_.p.forward.window_left + a_.p.forward.window_right);
        end_ = warp_uniform(walk.site.entry.len_k - walk.site.first);
        if (count > 0) {
            barrier_wait(shared_.keys_full(), tiles_ & 1);
            ++tiles_;
            __syncwarp();
            clear_unread();
            int64_t head = walk.head_of_launch(a_, walk.first_head);
            int tile = end - 1;
#pragma unroll 1
            for (int i = 0; i < count; ++i) {
                if constexpr (kOfValues)
                    step_of_values(tile * kRows);
                else
                    step_of_keys(((head * a_.row_fragments + tile * (kRows / 16)) * a_.key_fragments + walk.site.first / 16 + warp()) * 32);
                if (--tile < first) {
                    tile = end - 1;
                    ++head;
                }
            }
            release(shared_.keys_empty());
        }
        const simt::AttentionParams &f = a_.p.forward;
        // Keys past a key length get zeros, those past a packed sequence belong to the next.
        const int last = f.cu_len_k != nullptr ? walk.site.entry.len_k : f.len_k;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = walk.site.first + key() + 8 * r;
            store_gradient_row<Element, kDepth>(kOfValues ? a_.p.dv : a_.p.dk, walk.site, walk.site.entry.first_k + row, row < last,
                                                kOfValues ? f.head_dim_v : f.head_dim, 0, sums_ + 2 * r, kOfValues ? 1.0f : a_.p.scale);
        }
    }
    // The warpgroup's operand, of keys that nobody may read, becomes zero: a gradient of zero would not stop a NaN.
    __device__ __forceinline__ void clear_unread() const {
        if (end_ >= kKeys) return;
        constexpr int kPieces = kShape.panels() * kKeys * (kPanelRow / 16);
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x) % kWarpgroupThreads; i < kPieces; i += kWarpgroupThreads) {
            const int key = i / (kPanelRow / 16) % kKeys;
            if (key >= end_)
                asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"((kOfValues ? shared_.k : shared_.v()) + 16 * i), "r"(0)
                             : "memory");
        }
        async_proxy_fence();
        named_sync(kOfValues ? 1 : 2, kWarpgroupThreads);
    }

    const BackwardArguments &a_;
    const BackwardWideShared<Config> shared_;
    const int lane_;
    uint32_t tiles_ = 0, steps_ = 0;
    int low_, width_, end_;
    float sums_[kSums];
};

template <class Element, class Config>
__global__ void __launch_bounds__(BackwardShape::threads(), 1) attention_backward_wide(const __grid_constant__ BackwardArguments a) {
    static_assert(Config::kShape.wide_shared_bytes() <= kBackwardSharedLimit, "shared memory of a block");
    extern __shared__ __align__(1024) unsigned char memory[];
    const BackwardWideShared<Config> shared(memory);
    if (threadIdx.x == 0) {
        shared.init();
        tensor_map_prefetch(&a.map_q);
        tensor_map_prefetch(&a.map_dout);
        tensor_map_prefetch(&a.map_k);
        tensor_map_prefetch(&a.map_v);
    }
    __syncthreads();
    const int warpgroup = warp_uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);
    if (warpgroup == 0) {
        registers_shrink<Config::kShape.producer_registers>();
        if (threadIdx.x == 0) load_backward(a, shared);
    } else {
        registers_grow<Config::kShape.consumer_registers>();
        if (warpgroup == 1)
            BackwardWideWarpgroup<Element, Config, true>(a, shared).run();
        else
            BackwardWideWarpgroup<Element, Config, false>(a, shared).run();
    }
}

}  // namespace attile::sm90

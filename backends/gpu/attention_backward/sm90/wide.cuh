// SPDX-License-Identifier: Apache-2.0
// Attention's gradients on Hopper's tensor cores for heads of more than 128 columns. Sums of dK and dV of 64 keys fill the registers of two
// warpgroups, so each has one of the two, with all its columns. The first makes S^T, P^T and dV; the second dP^T, dS^T and dK, for which
// the first leaves P in shared memory, as float32 and in the order of its registers. Parts of dQ would be twice as many bytes to add in
// memory as with 128 keys. So dS is left there instead, and attention_backward/mma/sum.cuh multiplies it by K.
// What scores pass through besides a mask is the first warpgroup's to do; the second knows softcap's slope.
//
// racecheck reports the stages of P, which the second warpgroup reads and the first overwrites two steps later. It does not follow
// mbarriers at which one lane arrives for its warp. The tests' virtual GPU does, and finds nothing. Tiles and budget:
// attention_backward/sm90/instances.cmake.
#pragma once

#include <type_traits>

#include "attention_backward/mma/modify.cuh"
#include "attention_backward/sm90/group.cuh"
#include "attention_backward/sm90/producer.cuh"
#include "attention_backward/sm90/shown.cuh"

namespace attile::gpu::sm90 {

template <class Config>
struct BackwardWideShared {
    static constexpr BackwardShape kShape = Config::kShape;
    static constexpr int kStages = kShape.stages();
    static constexpr bool kSums = false;
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
    __device__ __forceinline__ uint32_t work_full(uint32_t stage) const { return barrier(5 * kStages + stage); }
    __device__ __forceinline__ uint32_t work_empty(uint32_t stage) const { return barrier(5 * kStages + 2 + stage); }
    __device__ __forceinline__ uint32_t keys_full() const { return barrier(5 * kStages + 4); }
    __device__ __forceinline__ uint32_t keys_empty() const { return barrier(5 * kStages + 5); }
    __device__ __forceinline__ uint32_t work(uint32_t stage) const { return barrier(5 * kStages + 6) + 8 * stage; }
    __device__ __forceinline__ uint32_t told(uint32_t step) const { return barrier(32) + 16 * (step % kShape.told_steps()); }

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
            barrier_init(work_full(i), 1);
            barrier_init(work_empty(i), kComputing);
        }
        barrier_init(keys_full(), 1);
        barrier_init(keys_empty(), kComputing);
        barrier_init_fence();
    }
};

// Named barriers: of a warpgroup that clears keys, and of both.
inline constexpr int kValuesBarrier = 1, kKeysBarrier = 2, kRowsBarrier = 3;

// kOfValues: the warpgroup of P and dV, else that of dS and dK.
template <class Element, class Config, bool kOfValues>
class BackwardWideWarpgroup : BackwardGroup<Element, Config, BackwardWideShared<Config>> {
    using Base = BackwardGroup<Element, Config, BackwardWideShared<Config>>;
    using Base::a_, Base::shared_, Base::lane_, Base::tiles_, Base::steps_;
    using Base::kShape, Base::kRows, Base::kDepth, Base::kKeys, Base::kScores, Base::kSums;
    using Base::release, Base::warp;

  public:
    __device__ __forceinline__ BackwardWideWarpgroup(const BackwardArguments &arguments, const BackwardWideShared<Config> &shared)
        : Base(arguments, shared, 0), modifiers_(arguments, 0) {}

    __device__ __forceinline__ void run() {
        this->for_each_tile([&](int index) { tile(index); });
    }

  private:
    static_assert(kKeys == 64 && kRows == 64 && kDepth % kBackwardPanel == 0, "64 keys of a warpgroup");
    static constexpr bool kModifies = kShape.modifies();
    static_assert(!kModifies || kShape.options() > 1, "what one option alone needs would lie in shared memory");
    // Of a bias, guarded: sums are not looked at, since operands were.
    using Modifiers = std::conditional_t<kModifies, BackwardModifiers<Element, Config, kRows, true>, NoBackwardModifiers>;

    __device__ __forceinline__ void finish_scores(float (&to)[kScores]) const {
        product_wait<0>();
        keep_in_registers(to);
    }
    __device__ __forceinline__ void add_rows(const uint32_t (&scores)[kScores / 2], uint32_t rows) {
        this->template multiply_rows<0, kRows>(sums_, scores, rows);
        product_wait<0>();
        keep_in_registers(sums_);
    }

    // The lse and delta of two rows.
    __device__ __forceinline__ void load_numbers(float (&to)[4], uint32_t stage, int j) const {
        load_four(to, shared_.numbers(stage) + (lane_ & 3) * 16 + 64 * j);
    }
    __device__ __forceinline__ uint32_t probabilities(uint32_t stage) const {
        return shared_.scores(stage) + static_cast<int>(threadIdx.x) % kWarpgroupThreads * 16;
    }

    // Rows past a packed sequence are another's or nobody's, and may hold NaN, which times a weight of zero is NaN. They become zero: those
    // of Q by the first warpgroup, those of dO by the second. Rows past the end of an operand are zero already, by TMA.
    __device__ __forceinline__ void clear_unread_rows(int row) const {
        if (len_q_ - row >= kRows || a_.p.forward.cu_len_q == nullptr) return;
        const uint32_t stage = steps_ % 2;
        barrier_wait(kOfValues ? shared_.q_full(stage) : shared_.dout_full(stage), steps_ / 2 & 1);
        __syncwarp();
        this->template clear_from<kShape.panels(), kRows, kWarpgroupThreads>(
            kOfValues ? shared_.q(stage) : shared_.dout(stage), len_q_ - row, static_cast<int>(threadIdx.x) % kWarpgroupThreads);
        named_sync(kRowsBarrier, kWarpgroups * kWarpgroupThreads);
    }

    // Rows past the last repeat its bias, which may be anything where the last sees nothing.
    __device__ __forceinline__ void mask_rows(int row, float (&s)[kScores]) const {
        const int left = len_q_ - row - (lane_ & 3) * 2;
        if (len_q_ - row >= kRows) return;
#pragma unroll
        for (int i = 0; i < kScores; ++i)
            if ((i >> 2) * 8 + (i & 1) >= left) s[i] = -INFINITY;
    }

    __device__ __forceinline__ void step_of_values(int row, [[maybe_unused]] int head) {
        const uint32_t stage = steps_ % 2, parity = steps_ / 2 & 1;
        float s[kScores];
        uint32_t p[kScores / 2];
        barrier_wait(shared_.q_full(stage), parity);
        __syncwarp();
        this->multiply_scores(s, shared_.k, shared_.q(stage));
        [[maybe_unused]] typename Modifiers::Fetched fetched;
        if constexpr (kModifies) modifiers_.fetch(head, 16 * warp(), row, fetched);
        finish_scores(s);
        if constexpr (kModifies) {
            modifiers_.apply(a_.exact_only == 0 && this->is_whole(row), head, 16 * warp(), row, fetched, s);
            mask_rows(row, s);
        }
        this->mask(row, s);
        barrier_wait(shared_.scores_empty(stage), parity ^ 1);
        [[maybe_unused]] const float c = a_.p.forward.scale_log2;
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
            float pair[4];
            load_numbers(pair, stage, j);
            float *const x = s + 4 * j;
            if constexpr (kModifies) {
                modifiers_.exponentials(this->end_, 16 * warp(), row, j, {pair[0], pair[2]}, fetched, x);
            } else {
                const float less[2] = {-pair[0] * kLog2EHigh, -pair[2] * kLog2EHigh};
#pragma unroll
                for (int i = 0; i < 4; ++i) x[i] = exp2_fast(fmaf(x[i], c, less[i & 1]));
            }
            store_four(probabilities(stage) + j * (kWarpgroupThreads * 16), x);
            p[2 * j] = narrow_pair<Element>(x[0], x[1]);
            p[2 * j + 1] = narrow_pair<Element>(x[2], x[3]);
        }
        release(shared_.scores_full(stage));
        barrier_wait(shared_.dout_full(stage), parity);
        __syncwarp();
        add_rows(p, shared_.dout(stage));
        release(shared_.rows_empty(stage));
        ++steps_;
    }
    __device__ __forceinline__ void step_of_keys(int64_t gradients) {
        const uint32_t stage = steps_ % 2, parity = steps_ / 2 & 1;
        float d[kScores];
        uint32_t ds[kScores / 2];
        barrier_wait(shared_.dout_full(stage), parity);
        __syncwarp();
        this->multiply_scores(d, shared_.v(), shared_.dout(stage));
        finish_scores(d);
        barrier_wait(shared_.q_full(stage), parity);
        barrier_wait(shared_.scores_full(stage), parity);
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
            float pair[4], p[4];
            load_numbers(pair, stage, j);
            load_four(p, probabilities(stage) + j * (kWarpgroupThreads * 16));
            const float *const x = d + 4 * j;
            if constexpr (kModifies) {
                if (modifiers_.caps()) {
                    const float inverse = modifiers_.inverse_cap();
#pragma unroll
                    for (int i = 0; i < 4; ++i) p[i] *= modifiers_.slope_of_cap(p[i], pair[i % 2 * 2], inverse);
                }
            }
            ds[2 * j] = narrow_pair<Element>(p[0] * (x[0] - pair[1]), p[1] * (x[1] - pair[3]));
            ds[2 * j + 1] = narrow_pair<Element>(p[2] * (x[2] - pair[1]), p[3] * (x[3] - pair[3]));
        }
        release(shared_.scores_empty(stage));
        uint4 *const to = static_cast<uint4 *>(a_.gradients) + gradients + lane_;
#pragma unroll
        for (int i = 0; i < kRows / 16; ++i)
            to[static_cast<int64_t>(i) * a_.key_fragments * 32] = make_uint4(ds[4 * i], ds[4 * i + 1], ds[4 * i + 2], ds[4 * i + 3]);
        add_rows(ds, shared_.q(stage));
        release(shared_.rows_empty(stage));
        ++steps_;
    }

    __device__ __forceinline__ void tile(int index) {
#pragma unroll
        for (float &x : sums_) x = 0;
        const BackwardWalk walk(a_, kKeys, index);
        const int count = kShape.sparse ? this->count_ : warp_uniform(walk.steps()), first = warp_uniform(walk.first),
                  end = warp_uniform(walk.end);
        this->set_range(walk.site);
        [[maybe_unused]] int of_problem = warp_uniform(walk.first_head);
        len_q_ = warp_uniform(walk.site.entry.len_q);
        if constexpr (kModifies) modifiers_.begin(walk.site, of_problem);
        if (count > 0) {
            barrier_wait(shared_.keys_full(), tiles_ & 1);
            ++tiles_;
            __syncwarp();
            this->template clear_unread<kOfValues, !kOfValues>(kOfValues ? kValuesBarrier : kKeysBarrier);
            int64_t head = walk.head_of_launch(a_, walk.first_head);
            int tile = end - 1;
#pragma unroll 1
            for (int i = 0; i < count; ++i) {
                if constexpr (kShape.sparse) {
                    barrier_wait(shared_.q_full(steps_ % 2), steps_ / 2 & 1);
                    __syncwarp();
                    const BackwardStep step = BackwardStep::read(shared_.told(steps_));
                    tile = warp_uniform(step.tile);
                    head = walk.head_of_launch(a_, warp_uniform(step.head));
                }
                clear_unread_rows(tile * kRows);
                if constexpr (kOfValues)
                    step_of_values(tile * kRows, of_problem);
                else
                    step_of_keys(((head * a_.row_fragments + tile * (kRows / 16)) * a_.key_fragments + walk.site.first / 16 + warp()) * 32);
                if (!kShape.sparse && --tile < first) {
                    tile = end - 1;
                    ++head;
                    ++of_problem;
                }
            }
            release(shared_.keys_empty());
        }
        const AttentionParams &f = a_.p.forward;
        const int end_of_stored = this->end_of_stored(walk.site);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = walk.site.first + this->key() + 8 * r;
            store_gradient_row<Element, kDepth>(kOfValues ? a_.p.dv : a_.p.dk, walk.site, walk.site.entry.first_k + row,
                                                row < end_of_stored, kOfValues ? f.head_dim_v : f.head_dim, 0, sums_ + 2 * r,
                                                kOfValues ? 1.0f : a_.p.scale);
        }
    }

    Modifiers modifiers_;
    int len_q_ = 0;
    float sums_[kSums];
};

template <class Element, class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(BackwardShape::threads(), 1) attention_backward_wide(const __grid_constant__ BackwardArguments a) {
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
    await_kernel_ahead_alone();
    __syncthreads();
    const int warpgroup = warp_uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);
    if (warpgroup == 0) {
        registers_shrink<Config::kShape.producer_registers>();
        if constexpr (Config::kShape.sparse) {
            if (threadIdx.x < kWarpThreads) load_shown(a, shared);
        } else {
            if (threadIdx.x == 0) load_backward(a, shared);
        }
    } else {
        registers_grow<Config::kShape.consumer_registers>();
        if (warpgroup == 1)
            BackwardWideWarpgroup<Element, Config, true>(a, shared).run();
        else
            BackwardWideWarpgroup<Element, Config, false>(a, shared).run();
    }
}

}  // namespace attile::gpu::sm90

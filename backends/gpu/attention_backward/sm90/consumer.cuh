// SPDX-License-Identifier: Apache-2.0
// A computing warpgroup of the kernel of attention's gradients: 64 keys of the block's 128.
#pragma once

#include <type_traits>

#include "attention_backward/mma/modify.cuh"
#include "attention_backward/sm90/group.cuh"

namespace attile::gpu::sm90 {

// Named barriers.
inline constexpr int kScoresBarrier = 1;

template <class Element, class Config>
class BackwardWarpgroup : BackwardGroup<Element, Config, BackwardShared<Config>> {
    using Base = BackwardGroup<Element, Config, BackwardShared<Config>>;
    using Base::a_, Base::shared_, Base::group_, Base::lane_, Base::tiles_, Base::steps_;
    using Base::kShape, Base::kPanelRow, Base::kRows, Base::kDepth, Base::kKeys, Base::kScores, Base::kSums;
    using Base::operand, Base::operand_low, Base::release, Base::warp;

  public:
    __device__ __forceinline__ BackwardWarpgroup(const BackwardArguments &arguments, const BackwardShared<Config> &shared, int group)
        : Base(arguments, shared, group), modifiers_(arguments, shared.record(static_cast<int>(threadIdx.x) / kWarpThreads - 4)) {}

    __device__ __forceinline__ void run() {
        this->for_each_tile([&](int index) { tile(index); });
    }

  private:
    static constexpr int kHalf = kRows / 2;
    static constexpr bool kModifies = kShape.modifies();
    using Modifiers = std::conditional_t<kModifies, BackwardModifiers<Element, Config, kRows, false>, NoBackwardModifiers>;

    // An address that the compiler takes for a new value, so that sums with it are not kept in registers over the loop.
    static __device__ __forceinline__ uint32_t afresh(uint32_t address) {
        asm volatile("" : "+r"(address));
        return address;
    }

    // The warpgroup's part of dQ = dS K: all rows and half of the columns, or 64 rows and all columns.
    static constexpr bool kPartOfRows = kShape.halves_rows();
    static constexpr int kPartColumns = kShape.part_columns(), kPartSums = kPartColumns / 2;
    static_assert(kPartOfRows ? kDepth == 64 && kRows == 128 : kRows == 64, "64 rows for each");
    __device__ __forceinline__ void multiply_keys(float (&sums)[kPartSums], uint32_t scores) {
        const uint32_t left = operand_low(scores + (kPartOfRows ? group_ * 64 * kPanelRow : 0), 16),
                       right =
                           operand_low(shared_.k + (kPartOfRows ? 0 : group_ * (kDepth == 128 ? kKeys * kPanelRow : kPanelRow / 2)), 16);
        product_fence();
#pragma unroll
        for (int i = 0; i < kKeys / 16; ++i)
            gemm_product<Element, kPartColumns, 0, 1>(sums, operand(left + i / 4 * (kRows * kPanelRow / 16) + i % 4 * 2),
                                                      operand(right + i * 128), i != 0);
        product_commit();
    }

    // The lse and delta of two rows.
    __device__ __forceinline__ uint32_t numbers(uint32_t stage) const { return afresh(shared_.numbers(stage) + (lane_ & 3) * 16); }
    __device__ __forceinline__ void exponentials(uint32_t stage, [[maybe_unused]] int row,
                                                 [[maybe_unused]] const typename Modifiers::Fetched &fetched, float (&s)[kScores]) const {
        const uint32_t from = numbers(stage);
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
            float pair[4];
            load_four(pair, from + 64 * j);
            if constexpr (kModifies) {
                modifiers_.exponentials(this->end_, this->first_key() + 16 * warp(), row, j, {pair[0], pair[2]}, fetched, s + 4 * j);
            } else {
                const float less[2] = {-pair[0] * kLog2EHigh, -pair[2] * kLog2EHigh};
#pragma unroll
                for (int i = 0; i < 4; ++i) s[4 * j + i] = exp2_fast(fmaf(s[4 * j + i], a_.p.forward.scale_log2, less[i & 1]));
            }
        }
    }
    template <int kFirst>
    static __device__ __forceinline__ void narrow_half(const float (&wide)[kScores], uint32_t (&narrow)[kScores / 2]) {
#pragma unroll
        for (int i = kFirst / 4; i < (kFirst + kHalf) / 4; ++i) narrow[i] = narrow_pair<Element>(wide[2 * i], wide[2 * i + 1]);
    }
    template <int kFirst>
    __device__ __forceinline__ void gradients(uint32_t stage, const float (&p)[kScores], const float (&d)[kScores],
                                              uint32_t (&narrow)[kScores / 2]) const {
        const uint32_t from = numbers(stage);
        if constexpr (kModifies) {
            if (modifiers_.caps()) {
                const float inverse = modifiers_.inverse_cap();
#pragma unroll
                for (int j = kFirst / 8; j < (kFirst + kHalf) / 8; ++j) {
                    float pair[4];
                    load_four(pair, from + 64 * j);
#pragma unroll
                    for (int i = 2 * j; i < 2 * j + 2; ++i) {
                        const float first = p[2 * i] * (d[2 * i] - pair[1]), second = p[2 * i + 1] * (d[2 * i + 1] - pair[3]);
                        narrow[i] = narrow_pair<Element>(first * modifiers_.slope_of_cap(p[2 * i], pair[0], inverse),
                                                         second * modifiers_.slope_of_cap(p[2 * i + 1], pair[2], inverse));
                    }
                }
                return;
            }
        }
#pragma unroll
        for (int j = kFirst / 8; j < (kFirst + kHalf) / 8; ++j) {
            float pair[4];
            load_four(pair, from + 64 * j);
#pragma unroll
            for (int i = 2 * j; i < 2 * j + 2; ++i)
                narrow[i] = narrow_pair<Element>(p[2 * i] * (d[2 * i] - pair[1]), p[2 * i + 1] * (d[2 * i + 1] - pair[3]));
        }
    }
    // Writes dS to shared memory, [row][key], a panel of 64 keys for each warpgroup.
    __device__ __forceinline__ void leave_gradients(uint32_t stage, const uint32_t (&narrow)[kScores / 2]) const {
        const int of_eight = lane_ & 7, matrix = lane_ >> 3;
        const uint32_t to = afresh(shared_.scores(stage) + (group_ * kRows + (matrix >> 1) * 8 + of_eight) * kPanelRow +
                                   (((2 * warp() + (matrix & 1)) ^ of_eight) * 16));
#pragma unroll
        for (int j = 0; j < kRows / 16; ++j)
            store_matrices_turned(to + j * 16 * kPanelRow, narrow[4 * j], narrow[4 * j + 1], narrow[4 * j + 2], narrow[4 * j + 3]);
        async_proxy_fence();
    }

    __device__ __forceinline__ void leave_sums(const float (&sums)[kPartSums], uint32_t step) const {
        const uint32_t to =
            afresh(shared_.sums(step % 2) + group_ * (64 * kPartColumns * 4) + static_cast<int>(threadIdx.x) % kWarpgroupThreads * 16);
        barrier_wait(shared_.sums_empty(step % 2), (step / 2 & 1) ^ 1);
#pragma unroll
        for (int i = 0; i < kPartSums / 4; ++i) store_four(to + i * (kWarpgroupThreads * 16), sums + 4 * i);
        async_proxy_fence();
        release(shared_.sums_full(step % kAdders));
    }

    __device__ __forceinline__ void tile(int index) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) dk_[i] = dv_[i] = 0;
        int first, end, count, tile, head = 0, end_head = 0;
        {
            const BackwardWalk walk(a_, kKeys, index);
            count = kShape.sparse ? this->count_ : warp_uniform(walk.steps());
            first = warp_uniform(walk.first);
            end = warp_uniform(walk.end);
            tile = warp_uniform(walk.start_tile());
            this->set_range(walk.site);
            if constexpr (kModifies) {
                head = warp_uniform(walk.start_head());
                modifiers_.begin(walk.site, head);
                end_head = warp_uniform(walk.first_head + walk.heads);
            }
        }
        if (count > 0) {
            barrier_wait(shared_.keys_full(), tiles_ & 1);
            ++tiles_;
            __syncwarp();
            this->template clear_unread<true, true>(kScoresBarrier);
            step<true>(tile * kRows, head);
            if constexpr (kShape.sparse) {
                // Kept in registers, the count and the step's tile would keep ptxas from running the products in the background.
#pragma unroll 1
                while ((warp_uniform(static_cast<int>(BackwardStep::read_flags(afresh(shared_.told(steps_ - 1))))) &
                        static_cast<int>(BackwardStep::kLast)) == 0)
                    step<false>(0, 0);
            } else {
#pragma unroll 1
                for (int i = 1; i < count; ++i) {
                    if (--tile < first) {
                        tile = end - 1;
                        if constexpr (kModifies) {
                            if (++head == end_head) head -= static_cast<int>(a_.p.forward.group.divisor);
                            modifiers_.set_head(head);
                        }
                    }
                    step<false>(tile * kRows, head);
                }
            }
            float dq[kPartSums];
            issue_sums(dq, steps_ - 1);
            finish_sums<0>(dq, steps_ - 1);
            release(shared_.keys_empty());
        }
        asm volatile("" : "+r"(index));  // Computed again, rather than kept in registers over the loop.
        store(backward_site<true>(a_, kKeys, index));
    }
    // dQ of the step before: by now both warpgroups have written its dS, so that neither waits. For this step's dQ each would wait for the
    // slower one.
    __device__ __forceinline__ void issue_sums(float (&dq)[kPartSums], uint32_t step) {
        barrier_wait(shared_.scores_full(step % 2), step / 2 & 1);
        __syncwarp();
        multiply_keys(dq, shared_.scores(step % 2));
    }
    template <int kPending>
    __device__ __forceinline__ void finish_sums(float (&dq)[kPartSums], uint32_t step) {
        product_wait<kPending>();
        keep_in_registers(dq);
        release(shared_.scores_empty(step % 2));
        leave_sums(dq, step);
    }
    // Arithmetic runs beside products: exponentials beside dP, gradients beside dV and, where registers suffice, dQ, and the stores to
    // shared memory beside dK. The two halves of the tile's rows become gradients one after the other, for want of registers.
    template <bool kIsFirst>
    __device__ __forceinline__ void step(int row, int head) {
        const uint32_t stage = steps_ % 2, parity = steps_ / 2 & 1;
        float s[kScores], d[kScores], dq[kPartSums];
        uint32_t p[kScores / 2], ds[kScores / 2];
        barrier_wait(shared_.q_full(stage), parity);
        __syncwarp();
        this->multiply_scores(s, shared_.k + group_ * 64 * kPanelRow, shared_.q(stage));
        [[maybe_unused]] typename Modifiers::Fetched fetched;
        if constexpr (kModifies) modifiers_.fetch(head, this->first_key() + 16 * warp(), row, fetched);
        barrier_wait(shared_.dout_full(stage), parity);
        __syncwarp();
        this->multiply_scores(d, shared_.v() + group_ * 64 * kPanelRow, shared_.dout(stage));
        product_wait<1>();
        keep_in_registers(s);
        if constexpr (kModifies)
            modifiers_.apply(a_.exact_only == 0 && this->is_whole(row), head, this->first_key() + 16 * warp(), row, fetched, s);
        if constexpr (kShape.sparse) row = warp_uniform(BackwardStep::read_tile(afresh(shared_.told(steps_)))) * kRows;
        this->mask(row, s);
        exponentials(stage, row, fetched, s);
        narrow_half<0>(s, p);
        this->template multiply_rows<0, kHalf>(dv_, p, shared_.dout(stage));
        product_wait<1>();
        keep_in_registers(d);
        gradients<0>(stage, s, d, ds);
        narrow_half<kHalf>(s, p);
        this->template multiply_rows<kHalf, kHalf>(dv_, p, shared_.dout(stage));
        if constexpr (!kIsFirst && !kShape.late_sums) issue_sums(dq, steps_ - 1);
        gradients<kHalf>(stage, s, d, ds);
        if constexpr (!kIsFirst && kShape.late_sums) issue_sums(dq, steps_ - 1);
        this->template multiply_rows<0, kRows>(dk_, ds, shared_.q(stage));
        barrier_wait(shared_.scores_empty(stage), parity ^ 1);
        leave_gradients(stage, ds);
        release(shared_.scores_full(stage));
        if constexpr (!kIsFirst) finish_sums<1>(dq, steps_ - 1);
        product_wait<0>();
        keep_in_registers(dv_);
        keep_in_registers(dk_);
        release(shared_.rows_empty(stage));
        ++steps_;
    }

    __device__ __forceinline__ void store(const BackwardSite &site) const {
        const AttentionParams &f = a_.p.forward;
        if (!is_finite(dk_) || !is_finite(dv_)) mark_irregular(a_.p, site.entry.batch, site.head);
        const int end = this->end_of_stored(site);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = site.first + this->key() + 8 * r;
            const int64_t at = site.entry.first_k + row;
            store_gradient_row<Element, kDepth>(a_.p.dk, site, at, row < end, f.head_dim, 0, dk_ + 2 * r, a_.p.scale);
            store_gradient_row<Element, kDepth>(a_.p.dv, site, at, row < end, f.head_dim_v, 0, dv_ + 2 * r, 1.0f);
        }
    }

    Modifiers modifiers_;
    float dk_[kSums], dv_[kSums];
};

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
// The consumers of GEMM: a warpgroup multiplies 64 rows of a tile's panels, stage by stage, and hands the sums to the epilogue.
#pragma once

#include "gemm/sm90/arguments.h"
#include "gemm/sm90/block.cuh"
#include "gemm/sm90/epilogue.cuh"
#include "gemm/sm90/groups.cuh"
#include "gemm/sm90/producer.cuh"
#include "gemm/sm90/product.cuh"
#include "gemm/sm90/product_fp8.cuh"
#include "gemm/sm90/product_int8.cuh"
#include "gemm/sm90/turned.cuh"
#include "numeric.h"
#include "sm90/cluster.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// A consumer warpgroup's place in the ring of stages, and its products of one stage after another.
template <class Config>
struct GemmProducts {
    static constexpr int kColumns = Config::kColumns, kStages = Config::kStages;
    using Sum = typename Config::Sum;
    const GemmBlock<Config> &block;
    const int lane;
    const uint64_t operand_a, operand_b;  // Of stage 0.
    int stage = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ GemmProducts(const GemmBlock<Config> &of, int group)
        : block(of),
          lane(static_cast<int>(threadIdx.x) % kWarpThreads),
          operand_a(product_operand(of.stages + group * Config::kPieceBytes, Config::kPieceBytes)),
          operand_b(product_operand(of.stages + Config::kBytesA, Config::kPieceBytes)) {}

    // Starts the products of the next stage, the tile's `depth_block`th, and gives back the stage before. kFirst: of int8, the first of a
    // tile. kWidth: of the tile's columns the first so many.
    template <bool kFirst = false, int kWidth = kColumns>
    __device__ __forceinline__ void step(Sum (&sums)[kColumns / 2], int depth_block) {
        // From one depth of 16 to the next, in units of 16 bytes: 32 bytes along a row, or 16 rows.
        constexpr int kNextA = Config::kOuterA != 0 ? 128 : 2, kNextB = Config::kOuterB != 0 ? 128 : 2;
        barrier_wait(block.full(stage), parity);
        const uint64_t a = operand_a + stage * (Config::kStageBytes >> 4), b = operand_b + stage * (Config::kStageBytes >> 4);
        if constexpr (!kFirst) keep_in_registers(sums);
        product_fence();
#pragma unroll
        for (int i = 0; i < kGemmDepth / 16; ++i) {
            if constexpr (Config::kIntegers) {
                if (kFirst && i == 0)
                    gemm_first_product_int8<kColumns>(sums, a, b);
                else
                    gemm_product_int8<kColumns>(sums, a + i * kNextA, b + i * kNextB);
            } else if constexpr (Config::kFloats8) {
                gemm_product_fp8<kColumns>(sums, a + i * kNextA, b + i * kNextB, depth_block | i);
            } else {
                gemm_product<typename Config::Element, kWidth, Config::kOuterA, Config::kOuterB>(
                    reinterpret_cast<float(&)[kWidth / 2]>(sums), a + i * kNextA, b + i * kNextB, depth_block | i);
            }
        }
        product_commit();
        keep_in_registers(sums);
        if (depth_block > 0) {
            product_wait<1>();
            keep_in_registers(sums);
            release_last();
        }
        advance();
    }
    // Starts the products of the next stage, which are sums by themselves.
    __device__ __forceinline__ void start_group(Sum (&sums)[kColumns / 2]) {
        barrier_wait(block.full(stage), parity);
        const uint64_t a = operand_a + stage * (Config::kStageBytes >> 4), b = operand_b + stage * (Config::kStageBytes >> 4);
        product_fence();
        gemm_first_product_fp8<kColumns>(sums, a, b);
#pragma unroll
        for (int i = 1; i < kGemmDepth / 16; ++i) gemm_product_fp8<kColumns>(sums, a + i * 2, b + i * 2, 1);
        product_commit();
        keep_in_registers(sums);
        advance();
    }
    // Gives a stage back, `before` stages before the next; its products have been waited for.
    __device__ __forceinline__ void release_group(int before) const { release(stage < before ? stage - before + kStages : stage - before); }
    // Waits for the products of the tile's last stage.
    __device__ __forceinline__ void finish(Sum (&sums)[kColumns / 2]) const {
        product_wait<0>();
        keep_in_registers(sums);
        release_last();
    }

  private:
    __device__ __forceinline__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ void release_last() const { release(stage == 0 ? kStages - 1 : stage - 1); }
    // Gives a stage back to the producer, or those of both blocks.
    __device__ __forceinline__ void release(int which) const {
        if (!block.shares) {
            if (lane == 0) barrier_arrive(block.empty(which));
        } else if (lane < kGemmMulticast) {
            barrier_arrive_remote(block.empty(which), lane);
        }
    }
};

// Calls what(width), the width of a tile of rows of a group as a constant.
template <class What>
__device__ __forceinline__ void gemm_with_width(int width, const What &what) {
    switch (width) {
        case 16:
            return what(std::integral_constant<int, 16>());
        case 32:
            return what(std::integral_constant<int, 32>());
        case 64:
            return what(std::integral_constant<int, 64>());
        case 128:
            return what(std::integral_constant<int, 128>());
        case 144:
            return what(std::integral_constant<int, 144>());
        case 160:
            return what(std::integral_constant<int, 160>());
        case 176:
            return what(std::integral_constant<int, 176>());
        case 192:
            return what(std::integral_constant<int, 192>());
        case 208:
            return what(std::integral_constant<int, 208>());
        default:
            return what(std::integral_constant<int, 240>());
    }
}

// Leaves the sums of a part of the depth where gemm_partial() says.
template <class Config>
__device__ __forceinline__ void gemm_leave_part(const float (&sums)[Config::kColumns / 2], const GemmArguments &p,
                                                const GemmBlock<Config> &block, uint32_t unit) {
    const int64_t first = gemm_partial(unit - p.whole, p.multicast, static_cast<int>(block.rank), Config::kRows * Config::kColumns);
    float *const mine = p.partial + first + (fresh_thread() - kWarpgroupThreads) * 4;
#pragma unroll
    for (int i = 0; i < Config::kColumns / 8; ++i) {
        asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(mine + i * Config::kRows * 8)),
                     "f"(sums[4 * i]), "f"(sums[4 * i + 1]), "f"(sums[4 * i + 2]), "f"(sums[4 * i + 3])
                     : "memory");
    }
}

// All tiles of the block. The epilogue may leave a tile's sums to be stored between the first products of the next.
template <class Config>
__device__ __forceinline__ void gemm_consume(const GemmArguments &p, const GemmBlock<Config> &block, int group) {
    constexpr int kColumns = Config::kColumns;
    GemmProducts<Config> products(block, group);
    std::conditional_t<Config::kTurned, GemmTurnedStore<Config>, GemmStore<Config>> store(p, block.strips, block.stages, block.rank);
    for (uint32_t unit = block.first_unit, units = gemm_units<Config>(p); unit < units; unit += block.units) {
        const GemmWork work(p, block, unit);
        const int depth_blocks = warp_uniform(work.depth_end - work.depth_first);
        const GemmSite<Config> place(p, work.tile, block.rank);
        const int64_t row = place.row(), col = place.col();
        if constexpr (Config::kRowGroups) store.end_at(place.group_end);
        if (!work.is_part) store.begin(place.batch_x, place.batch_y, row, col);
        typename Config::Sum sums[kColumns / 2];
        int depth_block = 0;
        if constexpr (Config::kIntegers) products.template step<true>(sums, depth_block++);
        const auto step = [&] {
            if constexpr (Config::kRowGroups) {
                gemm_with_width(place.width, [&](auto width) { products.template step<false, decltype(width)::value>(sums, depth_block); });
                ++depth_block;
            } else {
                products.step(sums, depth_block++);
            }
        };
        if (store.pending()) {
            store.store_late([&] {
                if (depth_block < depth_blocks) step();
            });
        }
        if constexpr (Config::kRowGroups) {  // One loop for each width.
            gemm_with_width(place.width, [&](auto width) {
#pragma unroll 1
                for (; depth_block < depth_blocks; ++depth_block) products.template step<false, decltype(width)::value>(sums, depth_block);
            });
        }
        if constexpr (!Config::kRowGroups) {
#pragma unroll 1
            for (; depth_block < depth_blocks; ++depth_block) products.step(sums, depth_block);
        }
        products.finish(sums);
        if constexpr (Config::kHalves) {
            if (block.halves) {
                cluster_wait();  // The other block has initialised its mbarriers.
                store.halves(sums, block.met(), place.batch_x, place.batch_y, row, col);
                break;  // There is only one tile.
            }
        }
        if constexpr (Config::kIntegers) {
            store.tile_of_integers(sums, place.batch_x, place.batch_y, row, col);
            continue;
        } else if (work.is_part) {
            gemm_leave_part(sums, p, block, unit);
            continue;
        }
        if constexpr (Config::kFloats8)
            store.tile_of_floats8(sums, place.batch_x, place.batch_y, row, col);
        else if constexpr (!Config::kIntegers)
            store.tile(sums, place.batch_x, place.batch_y, row, col);
    }
    if (store.pending()) store.store_late([] {});
}

// The same where scales change along the depth.
template <class Config>
__device__ __forceinline__ void gemm_consume_groups(const GemmArguments &p, const GemmBlock<Config> &block, int group) {
    constexpr int kColumns = Config::kColumns;
    GemmProducts<Config> products(block, group);
    GemmStore<Config> store(p, block.strips, block.stages, block.rank);
#pragma unroll 1
    for (uint32_t unit = block.first_unit; unit < p.units; unit += block.units) {
        float sums[kColumns / 2];
        {
            const GemmWork work(p, block, unit);
            const int depth_blocks = warp_uniform(work.depth_end - work.depth_first);
            const GemmPlace place(p, work.tile, block.rank);
            if (!work.is_part)
                gemm_ask_c<Config, Config::kRows, kColumns>(p, place.batch_x, place.batch_y, int64_t{place.a} * Config::kRows,
                                                            int64_t{place.b} * kColumns);
            GemmGroupScales<Config, Config::kColumnScales> scales(p, int64_t{place.a} * Config::kRows, int64_t{place.b} * kColumns,
                                                                  work.depth_first, depth_blocks);
            gemm_sum_groups(products, scales, sums, depth_blocks, [&] {
                if (store.pending()) store.store_late([] {});
            });
        }
        // The place again: kept, it would take registers that the groups' sums need.
        const uint32_t same = static_cast<uint32_t>(kept(static_cast<int>(unit)));
        const GemmWork work(p, block, same);
        if (work.is_part) {
            gemm_leave_part(sums, p, block, same);
            continue;
        }
        const GemmPlace place(p, work.tile, block.rank);
        const int64_t row = int64_t{place.a} * Config::kRows, col = int64_t{place.b} * kColumns;
        store.begin(place.batch_x, place.batch_y, row, col);
        store.tile(sums, place.batch_x, place.batch_y, row, col);
    }
    if (store.pending()) store.store_late([] {});
}

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
// Hopper's instructions that CUDA C++ has no name for: mbarrier, TMA, wgmma's fences and descriptors, registers of warpgroups, clusters.
// Addresses of shared memory are 32-bit, in the block's own window.
#pragma once

#include <cstdint>

#include "early.h"
#include "mma/ptx.cuh"
#include "tensor_map.h"

namespace attile::gpu::sm90 {

using namespace mma;

inline constexpr int kWarpgroupThreads = 128;

// Mbarriers: a phase ends when `count` threads have arrived and all expected bytes have come.
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// Makes initialised barriers known to TMA and to the other blocks of the cluster; a block or cluster barrier must follow.
__device__ __forceinline__ void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Arrives on the barrier at the same address in another block of the cluster. Without .release.cluster, which compiles to a full memory
// barrier: all that is handed over is shared memory that has been read.
__device__ __forceinline__ void barrier_arrive_remote(uint32_t barrier, uint32_t block) {
    asm volatile(
        "{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
        "r"(block)
        : "memory");
}
__device__ __forceinline__ bool barrier_try(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}
// Returns once the phase of this parity has ended; a fresh barrier counts as having ended a phase of parity 1. The loop is inside the asm
// statement: the compiler would take the threads of a warp for divergent after a loop that it sees.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again; }" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
// The same for a thread that may wait long and is not urgent: it sleeps between tries, so as to take few issue slots.
__device__ __forceinline__ void barrier_wait_idle(uint32_t barrier, uint32_t parity) {
    while (!barrier_try(barrier, parity)) __nanosleep(64);
}

// Named barriers among some warps of a block; number 0 is __syncthreads().
__device__ __forceinline__ void named_sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_arrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// True in one lane of the warp; all lanes call it. The compiler knows that it is one lane, and so makes no loop over lanes around
// instructions that take uniform registers, as TMA's do.
__device__ __forceinline__ bool elect_lane() {
    uint32_t elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected != 0;
}

// TMA. Coordinates run from the innermost axis out; what lies outside the tensor reads as 0 and is not written.
__device__ __forceinline__ void tensor_map_prefetch(const TensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void tensor_load_3d(uint32_t to, const TensorMap *map, uint32_t barrier, int x0, int x1, int x2) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2)
                 : "memory");
}
__device__ __forceinline__ void tensor_load_4d(uint32_t to, const TensorMap *map, uint32_t barrier, int x0, int x1, int x2, int x3) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
        : "memory");
}
__device__ __forceinline__ void tensor_load_5d(uint32_t to, const TensorMap *map, uint32_t barrier, int x0, int x1, int x2, int x3,
                                               int x4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
        : "memory");
}
// Multicast: to the same address in every block of the cluster that `blocks` has a bit for, and to that block's barrier.
__device__ __forceinline__ void tensor_load_4d_multicast(uint32_t to, const TensorMap *map, uint32_t barrier, int x0, int x1, int x2,
                                                         int x3, uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5, %6}], "
        "[%2], "
        "%7;" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "h"(blocks)
        : "memory");
}
__device__ __forceinline__ void tensor_store_4d(const TensorMap *map, uint32_t from, int x0, int x1, int x2, int x3) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(from), "r"(x0),
                 "r"(x1), "r"(x2), "r"(x3)
                 : "memory");
}
// TMA without a tensor map: plain copies between shared and global memory. Addresses and bytes are multiples of 16.
__device__ __forceinline__ void bulk_load(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}
// The line that it lies in, into the L2 cache.
__device__ __forceinline__ void prefetch_line(const void *at) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(at)) : "memory");
}
__device__ __forceinline__ void bulk_store(float *to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)), "r"(from), "r"(bytes)
                 : "memory");
}
// Adds to what is there.
__device__ __forceinline__ void bulk_add(float *to, uint32_t from, uint32_t bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(to)),
                 "r"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void tensor_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most kPending of this thread's groups of stores still read shared memory.
template <int kPending>
__device__ __forceinline__ void tensor_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
// Waits until at most kPending of this thread's groups of stores are in flight; this thread sees what the others wrote.
template <int kPending>
__device__ __forceinline__ void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}
// Proxy fence between this thread's ordinary writes to shared memory and reads of them by TMA or wgmma; a barrier must follow.
__device__ __forceinline__ void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The same for global memory.
__device__ __forceinline__ void async_proxy_fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// A semaphore in global memory: blocks tell each other that what they wrote before may be read.
__device__ __forceinline__ uint32_t load_acquire(const uint32_t *from) {
    uint32_t word;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(from)) : "memory");
    return word;
}
__device__ __forceinline__ void store_release(uint32_t *to, uint32_t word) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(word) : "memory");
}

// Stores four 8x8 matrices of 16-bit elements, as products leave them in a warp's registers, to shared memory (stmatrix).
__device__ __forceinline__ void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// The same, each matrix transposed.
__device__ __forceinline__ void store_matrices_turned(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// Sets how many registers a thread of the calling warpgroup may use from here on. All warps of the group call it.
template <int kRegisters>
__device__ __forceinline__ void registers_grow() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void registers_shrink() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Clusters.
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// The cluster's number, and how many there are.
__device__ __forceinline__ uint32_t cluster_index() {
    uint32_t index;
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(index));
    return index;
}
__device__ __forceinline__ uint32_t cluster_count() {
    uint32_t count;
    asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(count));
    return count;
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same without a memory barrier: for blocks that hand over nothing but barriers made known by barrier_init_fence(), or what only TMA
// wrote.
__device__ __forceinline__ void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ float4 cluster_load(uint32_t from, uint32_t block) {
    float4 v;
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %4, %5; ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote]; }"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from), "r"(block)
                 : "memory");
    return v;
}
__device__ __forceinline__ float cluster_load_one(uint32_t from, uint32_t block) {
    float v;
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %1, %2; ld.shared::cluster.f32 %0, [remote]; }"
                 : "=f"(v)
                 : "r"(from), "r"(block)
                 : "memory");
    return v;
}

// Warpgroup products (wgmma). The accumulators' registers are in flight from the first product until the wait: keep_in_registers() before
// the fence and after the wait stops the compiler from moving them.
__device__ __forceinline__ void product_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void product_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void product_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
template <int kCount>
__device__ __forceinline__ void keep_in_registers(float (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(x[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void keep_in_registers(int32_t (&x)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(x[i])::"memory");
}
// Descriptor of an operand in shared memory, 1024 bytes aligned, whose rows of 128 bytes are swizzled in groups of eight. An operand
// contiguous along the depth has one group of eight rows after the other. Otherwise a row is 64 elements of one depth, and the next 64 are
// `next_bytes` further.
__device__ __forceinline__ uint64_t product_operand(uint32_t address, uint32_t next_bytes) {
    constexpr uint64_t kGroup = 1024;
    constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(next_bytes >> 4) << 16 | (kGroup >> 4) << 32 |
           kSwizzle128;
}

}  // namespace attile::gpu::sm90

// SPDX-License-Identifier: Apache-2.0
// The end of a split GEMM: adds the partial results in a fixed order, whatever order they were made in, and applies the epilogue. With no
// splits at all (k = 0) it is the epilogue of zero. Bound by memory; mostly the L2 cache, where the partial results still lie.
//
// A thread makes one vector of outputs. Of few outputs with many splits, kGemmCombineWays threads share the splits: each adds every eighth,
// and one adds their sums in order.
//
// What mattered: the plain form, 1024^3 in 4 splits 58.7 -> 56.5 us, 1000x1001x1003 in 4 splits 65.6 -> 62.9 (H200, compute_61 PTX); there,
// reading in vectors though D is not aligned, 60.6 -> 58.8; for 8 splits too, 512^3 18.4 -> 17.3.
//
// Shared bytes: kGemmCombineThreads * 16 (float) or * 16 (double) = 4096; of the plain form as much where D is not aligned, else none.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/simt/load.h"
#include "gemm/simt/table.h"

namespace attile::gpu::simt {

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kGemmCombineThreads, 1) gemm_combine_kernel(const GemmCombineParams p) {
    constexpr int kVec = kGemmVector<T>;
    __shared__ Vec<T, kVec> shares[kGemmCombineThreads];
    const int64_t across = (p.n + kVec - 1) / kVec;
    const int64_t total = p.batches * p.m * across;
    const int outputs = kGemmCombineThreads / p.ways;  // Of a block.
    const int way = static_cast<int>(threadIdx.x) / outputs;
    const int place = static_cast<int>(threadIdx.x) % outputs;
#pragma unroll 1
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * outputs; first < total; first += static_cast<int64_t>(gridDim.x) * outputs) {
        const int64_t index = min(first + place, total - 1);
        const bool narrow = total <= 0xffffffff;  // Division of 32 bits is several times cheaper.
        const int64_t entry = narrow ? static_cast<uint32_t>(index) / static_cast<uint32_t>(across) : index / across;
        const int64_t batch = narrow ? static_cast<uint32_t>(entry) / static_cast<uint32_t>(p.m) : entry / p.m;
        const int64_t row = entry - batch * p.m;
        const int64_t col = (index - entry * across) * kVec;
        T sum[kVec] = {};
        const T *from = static_cast<const T *>(p.partial) + way * p.partial_split + batch * p.partial_batch + row * p.partial_row + col;
#pragma unroll 4
        for (int split = way; split < p.splits; split += p.ways) {
            const Vec<T, kVec> part = load_vec<kVec>(from);  // Rows are padded to whole vectors.
#pragma unroll
            for (int v = 0; v < kVec; ++v) sum[v] += part[v];
            from += p.ways * p.partial_split;
        }
        if (p.ways > 1) {
#pragma unroll
            for (int v = 0; v < kVec; ++v) shares[threadIdx.x][v] = sum[v];
            __syncthreads();
            for (int other = 1; other < p.ways && way == 0; ++other) {
#pragma unroll
                for (int v = 0; v < kVec; ++v) sum[v] += shares[other * outputs + place][v];
            }
            __syncthreads();
        }
        if (way != 0 || first + place >= total) continue;
#pragma unroll
        for (int v = 0; v < kVec; ++v) sum[v] *= static_cast<T>(p.alpha);
        const int64_t batch_x = batch / p.batch_y;
        GemmOrigin origin;
        origin.set(p, batch_x, batch - batch_x * p.batch_y, row, col, 0);
        const GemmEpilogue<T, GemmCombineParams, true> epilogue(p, origin);
        if (p.vectorised != 0) {
            epilogue.store_vector(0, 0, sum);
        } else {
#pragma unroll
            for (int v = 0; v < kVec; ++v) {
                if (col + v < p.n) epilogue.store(0, v, sum[v]);
            }
        }
    }
}

// The same for one product of few splits whose D is of type T, its rows contiguous, and wants nothing but scaling: half the registers, so
// that twice the threads wait for memory, and little code, which itself comes from memory. Where D's rows begin anywhere, the elements of a
// lane group change hands before they are stored, neighbours by neighbours.
template <class T, bool kUnaligned>
__global__ void ATTILE_LAUNCH_BOUNDS(kGemmCombineThreads, 8) gemm_combine_plain_kernel(const GemmCombineParams p) {
    constexpr int kVec = kGemmCombinePlainOutputs;
    constexpr int kAhead = 4;  // Splits that are read before any is added.
    const uint32_t across = static_cast<uint32_t>(p.partial_row) / kVec, total = across * static_cast<uint32_t>(p.m);
    const uint32_t first = blockIdx.x * kGemmCombineThreads + threadIdx.x;
    const T *const from = static_cast<const T *>(p.partial) + static_cast<int64_t>(first) * kVec;
    T *const d = static_cast<T *>(p.d.data);
    Vec<T, kVec> sum = {};
#pragma unroll 1
    for (int split = 0; split < p.splits; split += kAhead) {
        Vec<T, kVec> part[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            part[i] = {};
            if (split + i < p.splits && first < total) part[i] = load_vec<kVec>(from + (split + i) * p.partial_split);
        }
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
#pragma unroll
            for (int v = 0; v < kVec; ++v) sum[v] += part[i][v];
        }
    }
#pragma unroll
    for (int v = 0; v < kVec; ++v) sum[v] *= static_cast<T>(p.alpha);
    if constexpr (!kUnaligned) {
        const uint32_t row = first / across, col = (first - row * across) * kVec;
        if (first < total && col < p.n) store_vec(d + static_cast<int64_t>(row) * p.d.row + col, sum);
    } else {
        __shared__ Vec<T, kVec> strips[kGemmCombineThreads];
        const uint32_t lane = static_cast<uint32_t>(lane_index());
        strips[threadIdx.x] = sum;
        lane_sync();
        const T *const strip = &strips[threadIdx.x - lane][0];
#pragma unroll
        for (int round = 0; round < kVec; ++round) {
            const uint32_t element = round * kLanes + lane, index = first - lane + element / kVec, row = index / across;
            const uint32_t col = (index - row * across) * kVec + element % kVec;
            if (index < total && col < p.n) d[static_cast<int64_t>(row) * p.d.row + col] = strip[element];
        }
    }
}

}  // namespace attile::gpu::simt

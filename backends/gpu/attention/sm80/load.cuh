// SPDX-License-Identifier: Apache-2.0
// Loads K and V into shared memory. What lies outside an operand, and keys that nobody may read, become zeros.
#pragma once

#include "attention/mma/queries.cuh"
#include "mma/shared_rows.cuh"

namespace attile::gpu::sm80 {

using namespace mma;

// Where a block's operands begin: kept in shared memory beside the work tile.
struct AttentionSources {
    const char *k, *v;   // Of the entry and head, key 0; paged: of the head, page 0.
    const char *strips;  // Of bias or mask, if a kernel is for one: of the tile's first row, key 0.
    // Of ALiBi, if a kernel is for it.
    uint32_t alibi_pairs[4];      // AlibiProduct's.
    float alibi_high, alibi_low;  // The slope, as AlibiSlope has it.
    int alibi_diagonal;           // Of the tile's first row: a key.
    int alibi_is_product;         // Does AlibiProduct take slope and scale?
};

// By one thread: K and V of a work tile.
template <int kBytes>
__device__ __forceinline__ void find_sources(const AttentionParams &p, const AttentionWorkTile &work, AttentionSources &sources) {
    const int64_t batch = p.block_table != nullptr ? 0 : work.batch;
    const int64_t head = quotient(static_cast<uint32_t>(work.head) * p.pack.divisor, p.group);
    const auto source = [&](const AttentionOperand &x) {
        return static_cast<const char *>(x.data) + (batch * x.stride[0] + head * x.stride[1] + work.first_k * x.stride[2]) * kBytes;
    };
    sources.k = source(p.k);
    sources.v = source(p.v);
}

// A tile of K or V.
template <class Config, int kColumns, bool kIsK>
__device__ __forceinline__ void load_keys(const AttentionParams &p, const AttentionWorkTile &work, const AttentionSources &sources,
                                          uint32_t to, int tile) {
    constexpr int kKeys = Config::kShape.keys, kThreads = Config::kShape.threads(), kBytes = Config::kShape.bytes;
    constexpr int kUnits = kBytes / 2;  // Rows are laid out by 16-bit elements.
    const AttentionOperand &x = kIsK ? p.k : p.v;
    const int columns = (kIsK ? p.head_dim : p.head_dim_v) * kUnits, key = tile * kKeys;
    const char *const from = kIsK ? sources.k : sources.v;
    if (Config::kShape.may_have_pages() && p.block_table != nullptr) {
        using Rows = SharedRows<kColumns * kUnits>;
        constexpr int kAtOnce = kThreads / Rows::kChunks;
        const int chunk = static_cast<int>(threadIdx.x) % Rows::kChunks, row = static_cast<int>(threadIdx.x) / Rows::kChunks;
        const int bytes = chunk_bytes(columns, chunk);
        const int32_t *const table = p.block_table + work.batch * p.block_table_stride[0];
#pragma unroll 4
        for (int i = 0; i < kKeys; i += kAtOnce) {
            const int at = key + row + i;
            const bool is_read = at >= work.read_first && at < work.read_end;
            const uint32_t run = quotient(static_cast<uint32_t>(at), p.page_size);
            const int64_t page = is_read ? table[run * p.block_table_stride[1]] : -1,
                          slot = at - static_cast<int>(run * p.page_size.divisor);
            const bool is_there = page >= 0 && page < p.pages;
            copy_async(to + Rows::at(row + i, chunk), from + (is_there ? page * x.stride[0] + slot * x.stride[2] : 0) * kBytes + 16 * chunk,
                       is_there ? bytes : 0);
        }
        return;
    }
    const int64_t stride = x.stride[2] * kBytes;
    load_rows<kColumns * kUnits, kKeys, kThreads, true>(to, from + key * stride, stride, columns, work.read_first - key,
                                                        work.read_end - key);
}

// What a bias or a mask of bytes has for a tile of keys, as rows of 16-bit elements.
template <class Config>
using StripRows = SharedRows<Config::kShape.strip_row_bytes() / 2>;

template <class Config>
__device__ __forceinline__ void load_strip(const AttentionParams &p, const AttentionWorkTile &work, const AttentionSources &sources,
                                           uint32_t to, int tile) {
    constexpr int kColumns = Config::kShape.strip_row_bytes() / 2, kBytes = Config::kShape.bias_only ? 2 : 1;
    const int64_t stride = (Config::kShape.bias_only ? p.bias : p.allowed).stride[2] * kBytes;
    const int key = tile * Config::kShape.keys, columns = ((p.len_k - key) * kBytes + 1) / 2;  // A mask of an odd number is padded.
    load_rows<kColumns, Config::kShape.rows(), Config::kShape.threads(), true>(to, sources.strips + key * kBytes, stride, columns, 0,
                                                                               work.rows - work.first_row);
}

}  // namespace attile::gpu::sm80

// SPDX-License-Identifier: Apache-2.0
// Keys and values on their way to decode_narrow.cuh's products: each warp has a ring of stages of its own in shared memory, so that warps
// wait for memory and not for one another.
#pragma once

#include "attention/decode_rows.h"
#include "attention/scaled.h"
#include "attention/sm80/decode_narrow_shape.h"
#include "mma/ptx_words.cuh"

namespace attile::gpu::sm80 {

template <class C>
struct NarrowStages {
    // Where a lane copies from and to: of the step's keys number lane / kPieces, and those that follow by kCopiedKeys.
    static constexpr int kCopies = C::kHalfBytes / 16 / kLanes, kCopiedKeys = kLanes / C::kPieces;
    const DecodeRows<C> &at;
    const int n, last_key;                            // n: lane / 4.
    const char *const keys_from, *const values_from;  // kAny: of the first entry, or page.
    // The same of scales, of K by the lower lanes, of V by the upper ones; null where there are none of keys.
    const char *scales_from = nullptr;
    int32_t scales_row_bytes = 0;
    [[maybe_unused]] int64_t scales_outer = 0;  // From an entry, or page, to the next, in bytes.
    int64_t scales_group[C::kScaleBlocks + 1];  // Where a block's scale lies, in bytes.
    uint32_t stages, copy_to;
    uint32_t rows_at;  // What a lane gives ldmatrix the address of: of a stage's first 16 keys, pieces 0 and 1.

    __device__ __forceinline__ NarrowStages(const DecodeRows<C> &rows, char *shared)
        : at(rows),
          n(rows.lane / 4),
          last_key(max(rows.entry.len_k - 1, 0)),
          keys_from(from(rows.p.k) + rows.lane % C::kPieces * 16),
          values_from(from(rows.p.v) + rows.lane % C::kPieces * 16),
          stages(mma::shared_address(shared) + rows.group * C::kStages * C::kStageBytes) {
        const int lane = rows.lane, row = lane % 8, pieces = swizzle(row);
        copy_to = lane / C::kPieces * C::kRowBytes + (lane % C::kPieces ^ swizzle(lane / C::kPieces)) * 16;
        rows_at = (row + lane / 8 % 2 * 8) * C::kRowBytes + (lane / 16 ^ pieces) * 16;
        if constexpr (C::kByKey) {
            if (lane < 16)
                find_scales(rows.p.k_scale);
            else
                find_scales(rows.p.v_scale);
        }
    }
    __device__ __forceinline__ void find_scales(const AttentionScales &x) {
        if (!x.by_key) return;
        const int64_t begin = C::kAny ? scales_at(x, 0, at.place.head, 0) : scales_at(x, at.entry.batch, at.place.head, at.entry.first_k);
        scales_from = reinterpret_cast<const char *>(x.data + begin);
        scales_row_bytes = x.row_bytes;
        if constexpr (C::kAny) scales_outer = x.stride[0] * 4;
#pragma unroll
        for (int h = 0; h < C::kScaleBlocks; ++h) {
            const int col = C::kAny ? min(h * C::kScaleCols, at.p.head_dim - 1) : h * C::kScaleCols;
            scales_group[h] = C::kScaleBlocks == 1 ? 0 : quotient(static_cast<uint32_t>(col), x.group) * x.stride[3] * 4;
        }
    }
    // Rows of 64 and 32 bytes lie two and four to 128: what eight rows of a matrix have in one place are other banks then, too.
    static __device__ __forceinline__ int swizzle(int row) {
        return C::kPieces == 8 ? row % 8 : C::kPieces == 4 ? row / 2 % 4 : row / 4 % 2;
    }
    __device__ __forceinline__ uint32_t stage(int i) const { return stages + i * C::kStageBytes; }

    // Where a key's row is, in entries, or pages, and rows of one. Of a page that does not exist the first one's: scores hide it.
    struct Row {
        int64_t outer, row;
    };
    __device__ __forceinline__ Row find(int key) const {
        Row found;
        if (!locate_key(at.p, at.entry, min(key, last_key), found.outer, found.row)) found.outer = 0;
        return found;
    }
    // Of a lane's copy number i of a stage. Of eight pieces the fourth row after a row has the other half first.
    __device__ __forceinline__ uint32_t place_of(int into, int i) const {
        return ((stage(into) + copy_to) ^ (C::kPieces == 8 && i % 2 == 1 ? 64u : 0u)) + i * kCopiedKeys * C::kRowBytes;
    }
    __device__ __forceinline__ bool has_piece() const { return at.lane % C::kPieces * C::kPieceCols < at.p.head_dim; }
    // Columns that rows do not have are zeros, which no copy overwrites.
    __device__ __forceinline__ void begin_pieces() const {
        if constexpr (C::kAny) {
            if (has_piece()) return;
#pragma unroll
            for (int s = 0; s < C::kStages; ++s)
#pragma unroll
                for (int i = 0; i < kCopies; ++i)
#pragma unroll
                    for (int byte = 0; byte < 16; byte += 4) {
                        mma::store_shared_word(place_of(s, i) + byte, 0);
                        mma::store_shared_word(place_of(s, i) + C::kHalfBytes + byte, 0);
                    }
        }
    }

    // ---- Copies. Rows past the last key are the last one's; scores hide them.
    __device__ __forceinline__ void copy(int into, int first_key) const {
        if constexpr (C::kAny)
            copy_found(into, first_key);
        else
            copy_next(into, first_key);
    }
    __device__ __forceinline__ void copy_next(int into, int first_key) const {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            const int64_t key = min(first_key + at.lane / C::kPieces + i * kCopiedKeys, last_key);
            mma::copy_async(place_of(into, i), keys_from + key * at.p.k.row_bytes);
            mma::copy_async(place_of(into, i) + C::kHalfBytes, values_from + key * at.p.v.row_bytes);
        }
        if constexpr (C::kByKey) {
            if (scales_from != nullptr) {
#pragma unroll
                for (int b = 0; b < C::kKeyBlocks; ++b) {
                    const int64_t key = min(first_key + at.lane % 16 + b * 16, last_key);
#pragma unroll
                    for (int h = 0; h < C::kScaleBlocks; ++h)
                        mma::copy_word_async(scales_to(into) + (h * C::kStep + b * 16) * 4,
                                             scales_from + key * scales_row_bytes + scales_group[h]);
                }
            }
        }
    }
    __device__ __forceinline__ void copy_found(int into, int first_key) const {
        Row row[kCopies], scaled[C::kKeyBlocks];  // All are asked for before the first is waited for.
#pragma unroll
        for (int i = 0; i < kCopies; ++i) row[i] = find(first_key + at.lane / C::kPieces + i * kCopiedKeys);
        if constexpr (C::kByKey) {
#pragma unroll
            for (int b = 0; b < C::kKeyBlocks; ++b) scaled[b] = find(first_key + at.lane % 16 + b * 16);
        }
        if (has_piece()) {
#pragma unroll
            for (int i = 0; i < kCopies; ++i) {
                mma::copy_async(place_of(into, i), keys_from + row[i].outer * outer_bytes(at.p.k) + row[i].row * at.p.k.row_bytes);
                mma::copy_async(place_of(into, i) + C::kHalfBytes,
                                values_from + row[i].outer * outer_bytes(at.p.v) + row[i].row * at.p.v.row_bytes);
            }
        }
        if constexpr (C::kByKey) {
            if (scales_from == nullptr) return;
#pragma unroll
            for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
                for (int h = 0; h < C::kScaleBlocks; ++h)
                    mma::copy_word_async(scales_to(into) + (h * C::kStep + b * 16) * 4,
                                         scales_from + scaled[b].outer * scales_outer + scaled[b].row * scales_row_bytes + scales_group[h]);
        }
    }
    // Where only one of K and V has scales of keys, the other's are 1.
    __device__ __forceinline__ void begin_scales() const {
        if constexpr (C::kByKey) {
            if (scales_from != nullptr) return;
#pragma unroll
            for (int s = 0; s < C::kStages; ++s)
#pragma unroll
                for (int i = 0; i < C::kStep / 16 * C::kScaleBlocks; ++i) mma::store_shared_word(scales_to(s) + i * 64, 0x3f800000u);
        }
    }
    // The scale of key n + 8 t of the step's 16 keys b.
    __device__ __forceinline__ float scale_of(uint32_t from, bool of_values, int h, int b, int t) const {
        return mma::load_shared_float(from + 2 * C::kHalfBytes + of_values * C::kScaleBytes + (h * C::kStep + b * 16 + t * 8 + n) * 4);
    }

  private:
    // A lane's first scale of a stage.
    __device__ __forceinline__ uint32_t scales_to(int into) const {
        return stage(into) + 2 * C::kHalfBytes + at.lane / 16 * C::kScaleBytes + at.lane % 16 * 4;
    }
    static __device__ __forceinline__ int64_t outer_bytes(const AttentionOperand &x) { return x.stride[0] * C::kBits / 8; }
    __device__ __forceinline__ const char *from(const AttentionOperand &x) const {
        const int64_t entry = C::kAny ? 0 : at.entry.batch * x.stride[0] + at.entry.first_k * x.stride[2];
        return static_cast<const char *>(x.data) + (entry + at.place.head * x.stride[1]) * C::kBits / 8;
    }
};

}  // namespace attile::gpu::sm80

// SPDX-License-Identifier: Apache-2.0
// What happens to scores between Q K^T and the softmax where it is more than a mask: softcap, bias, ALiBi, `allowed`, pages that are not
// there. Each step goes over all of a thread's scores, so that many loads are on their way together.
#pragma once

#include "tensor_attention_note.cuh"
#include "tile/attention_score.h"

namespace attile::tensor_core {

// Scores of rows `row` and row + 8 of the packed head, keys first_key + 8 j + 0, 1: from products to units of log2, -inf where hidden. Keys
// past the entry's and rows past its last are left to the mask.
template <class Element, int kScores>
__device__ __forceinline__ void modify_scores(const simt::AttentionParams &p, const AttentionTileNote &note, int row, int first_key,
                                              float (&s)[kScores]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int packed = min(row + 8 * r, note.rows - 1), of_entry = simt::query_row(p, packed),
                  head = simt::query_head(p, note.head, packed);
        const auto for_each = [&](const auto &step) {
#pragma unroll
            for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
                for (int e = 0; e < 2; ++e) step(s[4 * j + 2 * r + e], first_key + 8 * j + e);
            }
        };
        const auto row_at = [&](const simt::AttentionOperand &x) {
            return note.batch * x.stride[0] + head * x.stride[1] + of_entry * x.stride[2];
        };
        for_each([&](float &x, int) { x *= p.scale_log2; });
        if (p.softcap_log2 != 0) {
            const float inverse = 1.0f / p.softcap_log2;
            for_each([&](float &x, int) { x = p.softcap_log2 * tanhf(x * inverse); });
        }
        if (p.bias.data != nullptr) {
            const int64_t at = row_at(p.bias);
            const auto add = [&](const auto &load) {
                for_each([&](float &x, int key) {
                    const float bias = key < note.len_k ? load(at + key * p.bias.stride[3]) : 0.0f;
                    x = bias == -INFINITY ? -INFINITY : simt::add_log2(x, bias);
                });
            };
            // The type is the same for all: asked once, not for each.
            if (p.bias.storage == simt::AttentionStorage::kF32)
                add([&](int64_t i) { return static_cast<const float *>(p.bias.data)[i]; });
            else
                add([&](int64_t i) { return simt::to_compute(static_cast<const Element *>(p.bias.data)[i]); });
        }
        if (p.alibi_slopes.data != nullptr) {
            const simt::AlibiSlope slope(
                simt::load_number(p.alibi_slopes, note.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
            const int diagonal = of_entry + (p.alibi_bottom_right ? note.len_k - note.rows / static_cast<int>(p.pack.divisor) : 0);
            for_each([&](float &x, int key) { x = slope.lower(x, fabsf(static_cast<float>(key - diagonal))); });
        }
        if (p.allowed.data != nullptr) {
            const uint8_t *const allowed = static_cast<const uint8_t *>(p.allowed.data) + row_at(p.allowed);
            for_each([&](float &x, int key) {
                if (key < note.len_k && allowed[key * p.allowed.stride[3]] == 0) x = -INFINITY;
            });
        }
        if (p.block_table != nullptr) {
            const int32_t *const table = p.block_table + note.batch * p.block_table_stride[0];
            for_each([&](float &x, int key) {
                if (key >= note.len_k) return;
                const int64_t page = table[simt::quotient(static_cast<uint32_t>(key), p.page_size) * p.block_table_stride[1]];
                if (page < 0 || page >= p.pages) x = -INFINITY;
            });
        }
    }
}

}  // namespace attile::tensor_core

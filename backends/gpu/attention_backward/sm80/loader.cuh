// SPDX-License-Identifier: Apache-2.0
// The loader of the sm_80 kernel of attention's gradients: where a thread is, where everything lies in shared memory, and the copies of
// kept rows and of tiles that stream.
#pragma once

#include "attention_backward/mma/site.cuh"
#include "attention_backward/sm80/shapes.h"
#include "attention_backward/tiles.h"
#include "mma/shared_rows.cuh"

namespace attile::gpu::sm80 {

using namespace mma;

template <class Config>
class BackwardLoader {
  protected:
    static constexpr BackwardShape kShape = Config::kShape;
    static constexpr bool kOfKeys = kShape.of_keys, kByElement = kShape.by_element;
    static constexpr int kDepth = kShape.depth, kColumns = kShape.columns(), kPart = kShape.part, kTile = kShape.tile();
    static constexpr int kRowTiles = 2, kKeptBytes = kShape.kept_bytes(), kTileBytes = kShape.tile_bytes();
    using Rows = SharedRows<kDepth>;

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpThreads; }
    static __device__ __forceinline__ int group() { return warp() % kShape.groups; }
    static __device__ __forceinline__ int split() { return kShape.splits == 1 ? 0 : warp() / kShape.groups; }
    static __device__ __forceinline__ int group_row() { return 32 * group(); }

    // What is kept, then what streams: its first operand makes scores and dK or dQ, its second dP and dV.
    __device__ __forceinline__ const AttentionOperand &kept(bool second) const {
        return kOfKeys ? (second ? p_.forward.v : p_.forward.k) : second ? p_.dout : p_.forward.q;
    }
    __device__ __forceinline__ const AttentionOperand &streamed(bool second) const {
        return kOfKeys ? (second ? p_.dout : p_.forward.q) : second ? p_.forward.v : p_.forward.k;
    }
    __device__ __forceinline__ int columns(bool second) const { return second ? p_.forward.head_dim_v : p_.forward.head_dim; }
    template <int kCount, bool kHasShortcut>
    __device__ __forceinline__ void load(const AttentionOperand &x, bool second, bool of_keys, int head, int row, uint32_t to) const {
        const int64_t stride = x.stride[2] * 2, first = of_keys ? site_.entry.first_k : site_.entry.first_q;
        const char *const from =
            static_cast<const char *>(x.data) + (site_.entry.batch * x.stride[0] + head * x.stride[1]) * 2 + (first + row) * stride;
        const int end = of_keys ? site_.entry.len_k : site_.entry.len_q;
        load_rows<kDepth, kCount, kShape.threads(), kHasShortcut>(to, from, stride, columns(second), 0, end - row);
    }

    __device__ __forceinline__ uint32_t place(int number) const { return places_ + (number & 1) * kShape.place_bytes(); }
    __device__ __forceinline__ uint32_t exchange() const { return places_ + 2 * kShape.place_bytes(); }

    __device__ __forceinline__ uint32_t kept_numbers() const { return exchange() + kShape.exchange_bytes(); }
    static __device__ __forceinline__ uint32_t record(uint32_t memory) {
        return memory + kShape.shared_bytes() - kShape.record_bytes() + kModifierRecord * warp();
    }

    // The next tile that streams, of the next head where this one's are done.
    __device__ __forceinline__ void load_next(int number) {
        const uint32_t to = place(number);
        load<kTile, true>(streamed(false), false, !kOfKeys, next_head_, next_tile_ * kTile, to);
        load<kTile, true>(streamed(true), true, !kOfKeys, next_head_, next_tile_ * kTile, to + kTileBytes);
        if constexpr (kOfKeys) load_numbers<kTile>(next_head_, next_tile_ * kTile, to + 2 * kTileBytes);
        copy_commit();
        if (++next_tile_ == tiles_.end) {
            next_tile_ = tiles_.first;
            ++next_head_;
        }
    }
    template <int kCount>
    __device__ __forceinline__ void load_numbers(int head, int row, uint32_t to) const {
        static_assert(sizeof(BackwardRow<float>) == 8 && kCount / 2 <= kShape.threads(), "two rows a thread");
        const BackwardRow<float> *const from =
            static_cast<const BackwardRow<float> *>(p_.rows) +
            (static_cast<int64_t>(site_.entry.batch) * p_.forward.heads.divisor + head) * p_.rows_allotted + row;
        const int i = static_cast<int>(threadIdx.x);
        if (i < kCount / 2) copy_async(to + 16 * i, from + 2 * i);
    }

    __device__ __forceinline__ BackwardLoader(const BackwardTask &task, const BackwardSite &site, uint32_t memory)
        : a_(task),
          p_(task.p),
          site_(site),
          kept_(memory),
          places_(memory + 2 * kShape.kept_bytes()),
          tiles_(kOfKeys ? row_tiles_of(p_, site.entry, site.first) : key_blocks_of(p_, site.entry, site.first)),
          next_head_(kOfKeys ? site.head * static_cast<int>(p_.forward.group.divisor)
                             : head_of_keys(p_, site.head / static_cast<int>(p_.forward.group.divisor))),
          next_tile_(tiles_.first) {}

    const BackwardTask &a_;
    const AttentionBackwardParams &p_;
    const BackwardSite &site_;
    const uint32_t kept_, places_;
    const Span tiles_;
    int next_head_, next_tile_;
};

}  // namespace attile::gpu::sm80

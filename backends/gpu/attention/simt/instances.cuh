// SPDX-License-Identifier: Apache-2.0
// Short names for instances of the attention tile kernel, for the tables of attention_cols<n>.cu.
#pragma once

#include "attention/simt/configs.h"
#include "attention/simt/tile.cuh"

namespace attile::gpu::simt {

template <class C, AttentionKind kKind>
AttentionTile attention_tile() {
    using Shape = AttentionShape<C>;
    return {reinterpret_cast<const void *>(&attention_tile_kernel<C, kKind>), Shape::kBlockRows, Shape::kBlockKeys, C::kThreads};
}

// An instance of each kind. Modified: the configuration where scores are modified; of AMD's compilers masks, too, want its registers.
// Plain: that of the plain kind, but on AMD.
template <class C, class Modified = C, class Plain = C>
AttentionTileKernel attention_tile_instance(const char *name, double share) {
    static_assert(C::kChunkDepth * C::kChunksAtOnce == Plain::kChunkDepth * Plain::kChunksAtOnce, "one step of depth");
    static_assert(C::kDepth == Modified::kDepth && C::kCols == Modified::kCols && C::kChunkDepth == Modified::kChunkDepth, "one name");
    return {name,
            attention_tile<std::conditional_t<kSparesRegisters, C, Plain>, AttentionKind::kPlain>(),
            attention_tile<std::conditional_t<kSparesRegisters, Modified, C>, AttentionKind::kMasked>(),
            attention_tile<Modified, AttentionKind::kModified>(),
            C::kCols * C::kLaneCols,
            C::kDepth,
            C::kChunkDepth * C::kChunksAtOnce,
            share,
            {}};
}

// Those of one modifier. AMD's compilers lack the registers.
template <class C>
AttentionSingleKernels attention_single_kernels() {
    if constexpr (kSparesRegisters)
        return {};
    else
        return {attention_tile<KeyRuns<C>, AttentionKind::kBiased>().kernel, attention_tile<KeyRuns<C>, AttentionKind::kAllowed>().kernel,
                attention_tile<C, AttentionKind::kAlibi>().kernel, attention_tile<C, AttentionKind::kSoftcapped>().kernel};
}

// The plain kind alone: another configuration of as many columns serves for the rest.
template <class C>
AttentionTileKernel attention_tile_instance_plain(const char *name, double share) {
    return {name,      attention_tile<C, AttentionKind::kPlain>(), {},    {}, C::kCols * C::kLaneCols,
            C::kDepth, C::kChunkDepth * C::kChunksAtOnce,          share, {}};
}

}  // namespace attile::gpu::simt

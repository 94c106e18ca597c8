// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in attention/simt/instances.cmake.
#pragma once

#include "attention/simt/configs.h"
#include "attention/simt/instances.h"
#include "attention/simt/tile.cuh"

namespace attile::gpu::simt {

template <class C, AttentionKind kKind>
AttentionTile attention_tile() {
    using Shape = AttentionShape<C>;
    return {reinterpret_cast<const void *>(&attention_tile_kernel<C, kKind>), Shape::kBlockRows, Shape::kBlockKeys, C::kThreads};
}

// An instance of each kind. Modified: the configuration where scores are modified; of AMD's compilers masks, too, want its registers.
// Plain: that of the plain kind, but on AMD.
template <class Instance>
AttentionTileKernel attention_tile_instance(const char *name) {
    using C = typename Instance::Masked;
    using Plain = typename Instance::Plain;
    using Modified = typename Instance::Modified;
    static_assert(C::kChunkDepth * C::kChunksAtOnce == Plain::kChunkDepth * Plain::kChunksAtOnce, "one step of depth");
    static_assert(C::kDepth == Modified::kDepth && C::kCols == Modified::kCols && C::kChunkDepth == Modified::kChunkDepth, "one name");
    return {name,
            attention_tile<std::conditional_t<kSparesRegisters, C, Plain>, AttentionKind::kPlain>(),
            attention_tile<std::conditional_t<kSparesRegisters, Modified, C>, AttentionKind::kMasked>(),
            attention_tile<Modified, AttentionKind::kModified>(),
            C::kCols * C::kLaneCols,
            C::kDepth,
            C::kChunkDepth * C::kChunksAtOnce,
            Instance::kShare,
            {}};
}

// And instances of one modifier each, which are compiled apart.
template <class Instance>
AttentionTileKernel attention_tile_single_instance(const char *name) {
    using C = typename Instance::Masked;
    constexpr bool kIs64 = std::is_same<C, Attention64>::value;
    static_assert(kIs64 || std::is_same<C, Attention128>::value, "those there are");
    AttentionTileKernel kernel = attention_tile_instance<Instance>(name);
    kernel.single = kIs64 ? attention_single64() : attention_single128();
    return kernel;
}

// Those of one modifier. AMD's compilers lack the registers.
template <class C>
AttentionSingleKernels attention_single_kernels() {
    if constexpr (kSparesRegisters)
        return {};
    else
        return {attention_tile<KeyRuns<C>, AttentionKind::kBiased>().kernel,
                attention_tile<KeyRuns<C>, AttentionKind::kBiasedHalf>().kernel,
                attention_tile<KeyRuns<C>, AttentionKind::kAllowed>().kernel, attention_tile<C, AttentionKind::kAlibi>().kernel,
                attention_tile<C, AttentionKind::kSoftcapped>().kernel};
}

// The plain kind alone: another configuration of as many columns serves for the rest.
template <class Instance>
AttentionTileKernel attention_tile_plain_instance(const char *name) {
    using C = typename Instance::Plain;
    return {name,
            attention_tile<C, AttentionKind::kPlain>(),
            {},
            {},
            C::kCols * C::kLaneCols,
            C::kDepth,
            C::kChunkDepth * C::kChunksAtOnce,
            Instance::kShare,
            {}};
}

}  // namespace attile::gpu::simt

// SPDX-License-Identifier: Apache-2.0
// The shapes of GEMM's tile kernels, as the kernels are compiled with and the plan chooses from. kM x kN outputs a block, kMicroM x kMicroN
// a thread, kLaneRows lanes of a lane group along M; registers are capped so that kBlocksPerUnit blocks fit a multiprocessor of 65536.
#pragma once

namespace attile::gpu::simt {

struct Gemm128x128 {  // Large problems of 16-bit storage, and unaligned ones.
    static constexpr int kM = 128, kN = 128, kMicroM = 8, kMicroN = 8, kLaneRows = 4, kBlocksPerUnit = 2;
    static constexpr bool kReadsC = true;
};
struct Gemm64x128 {  // As fast inside, with a finer tail and more blocks to hide a barrier or a short depth behind.
    static constexpr int kM = 64, kN = 128, kMicroM = 8, kMicroN = 8, kLaneRows = 4, kBlocksPerUnit = 4;
    static constexpr bool kReadsC = false;  // It costs the loop its allocation of registers.
};
struct Gemm64x64 {
    static constexpr int kM = 64, kN = 64, kMicroM = 8, kMicroN = 8, kLaneRows = 4, kBlocksPerUnit = 6;
};
struct Gemm64x64Strided : Gemm64x64 {  // Room for the offsets of any strides.
    static constexpr int kBlocksPerUnit = 4;
};
struct Gemm32x32 {  // Small matrices in large batches: a block is one lane group, so its barriers cost nothing.
    static constexpr int kM = 32, kN = 32, kMicroM = 8, kMicroN = 4, kLaneRows = 4, kBlocksPerUnit = 16;
};
struct Gemm64x64Double {
    static constexpr int kM = 64, kN = 64, kMicroM = 8, kMicroN = 4, kLaneRows = 4, kBlocksPerUnit = 3;
};
struct Gemm64x64DoubleUnaligned : Gemm64x64Double {
    static constexpr int kBlocksPerUnit = 2;
};
struct Gemm32x32Double {
    static constexpr int kM = 32, kN = 32, kMicroM = 4, kMicroN = 4, kLaneRows = 4, kBlocksPerUnit = 6;
};

template <class Config>
constexpr int gemm_threads() {
    return Config::kM / Config::kMicroM * (Config::kN / Config::kMicroN);
}

// Names of the shapes, for the plan.
enum GemmTileId { kGemmTile128x128, kGemmTile64x128, kGemmTile64x64, kGemmTile32x32, kGemmTiles };

}  // namespace attile::gpu::simt

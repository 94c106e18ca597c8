# The tiles that the sm_80 GEMM kernel exists in. Four warps a block, a quarter of the tile each, in 2 x 2; of float32 eight, in 4 x 2.
# float64 has tiles of its own, since its sums take twice the registers.
#
#   tile      shared memory: stages (rows + columns) 64 bytes   registers (CUDA 13.0)   blocks a multiprocessor, by registers
#   128x128   4 (128 + 128) 64 = 64 KB                          251 to 255              2
#   64x64     4 (64 + 64) 64   = 32 KB                          up to 142               3
#   float32: the same bytes, half the depth                     128; up to 126          2
#   float64: a quarter of the depth
#   128x64    4 (128 + 64) 64 = 48 KB                           219 to 241              2
#   64x64     4 (64 + 64) 64  = 32 KB                           174 to 254              2
#
# Bound: the tensor cores by mma.sync. 128x128 does 64 FLOP a byte of L2, 64x64 32; of float32 half of that, of float64 a quarter.
# Record: docs/kernels/gemm-sm80.md. A further tile wants a model of its time in gemm/sm80/plan.cpp, too.
attile_gpu_family(gemm/sm80/instances.h
  INCLUDE gemm/sm80/tiles.h
  FROM gemm/sm80/instances.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_instance
  FUNCTION gemm_@type@_@name@
  STRUCT GemmTile TABLE kGemm ENUM GemmTile
  TYPES bf16 f16 f32)

attile_gpu_instance(128x128 FILE tiles rows=128 columns=128 stages=4)
attile_gpu_instance(64x64 FILE tiles rows=64 columns=64 stages=4)

attile_gpu_family(gemm/sm80/instances_f64.h
  INCLUDE gemm/sm80/tiles.h
  FROM gemm/sm80/instances_f64.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_instance
  FUNCTION gemm_@type@_@name@
  STRUCT GemmF64Tile TABLE kGemmF64 ENUM GemmF64Tile
  TYPES f64)

attile_gpu_instance(128x64 FILE tiles rows=128 columns=64 stages=4)
attile_gpu_instance(64x64 FILE tiles rows=64 columns=64 stages=4)

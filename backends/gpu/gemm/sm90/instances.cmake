# The tiles that the sm_90a GEMM kernel exists in. Budget and bound: gemm/sm90/kernel.cuh. Which one a problem takes: gemm/sm90/plan.cpp.
attile_gpu_family(gemm/sm90/instances.h
  INCLUDE gemm/sm90/arguments.h
  FROM gemm/sm90/instances.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_instance
  FUNCTION gemm_@type@_@name@
  STRUCT GemmTile TABLE kGemm ENUM GemmTile
  TYPES bf16 f16)

attile_gpu_instance(128x256 FILE tiles rows=128 columns=256)
attile_gpu_instance(192x128 FILE tiles rows=192 columns=128)
attile_gpu_instance(128x128 FILE tiles rows=128 columns=128)
attile_gpu_instance(128x64 FILE tiles rows=128 columns=64)
attile_gpu_instance(64x64 FILE tiles rows=64 columns=64)
attile_gpu_instance(64x32 FILE tiles rows=64 columns=32)
attile_gpu_instance(64x16 FILE tiles rows=64 columns=16)
# Turned: rows of D lie along the columns, so that some hundred rows fit in steps of 16. Widths: docs/kernels/gemm-sm90.md, "Turned tiles".
attile_gpu_instance(128x144_turned FILE turned BY gemm_turned_instance rows=128 columns=144 turned)
attile_gpu_instance(128x160_turned FILE turned BY gemm_turned_instance rows=128 columns=160 turned)
attile_gpu_instance(128x176_turned FILE turned BY gemm_turned_instance rows=128 columns=176 turned)
attile_gpu_instance(128x192_turned FILE turned BY gemm_turned_instance rows=128 columns=192 turned)
attile_gpu_instance(128x208_turned FILE turned BY gemm_turned_instance rows=128 columns=208 turned)
attile_gpu_instance(128x240_turned FILE turned BY gemm_turned_instance rows=128 columns=240 turned)
attile_gpu_instance(192x176_turned FILE turned BY gemm_turned_instance rows=192 columns=176 turned)
# All but the turned ones, in the same order, for results that something is done to in registers; narrower ones have no such way. Then those of the
# general epilogue and of depths that are split.
attile_gpu_instance(128x256_fused FILE fused TABLE Fused BY gemm_fused_instance rows=128 columns=256)
attile_gpu_instance(192x128_fused FILE fused TABLE Fused BY gemm_fused_instance rows=192 columns=128)
attile_gpu_instance(128x128_fused FILE fused TABLE Fused BY gemm_fused_instance rows=128 columns=128)
attile_gpu_instance(128x64_fused FILE fused TABLE Fused BY gemm_fused_instance rows=128 columns=64)
attile_gpu_instance(64x64_fused FILE fused TABLE Fused BY gemm_fused_instance rows=64 columns=64)

attile_gpu_instance(128x256_general FILE general TABLE General BY gemm_general_instance rows=128 columns=256)
attile_gpu_instance(192x128_general FILE general TABLE General BY gemm_general_instance rows=192 columns=128)
attile_gpu_instance(128x128_general FILE general TABLE General BY gemm_general_instance rows=128 columns=128)
attile_gpu_instance(128x64_general FILE general TABLE General BY gemm_general_instance rows=128 columns=64)
attile_gpu_instance(64x64_general FILE general TABLE General BY gemm_general_instance rows=64 columns=64)
attile_gpu_instance(64x32_general FILE general TABLE General BY gemm_general_instance rows=64 columns=32)
attile_gpu_instance(64x16_general FILE general TABLE General BY gemm_general_instance rows=64 columns=16)

# The turned tiles, in the same order, for results that something is done to.
attile_gpu_instance(128x144_turned_fused FILE turned_fused TABLE TurnedFused BY gemm_turned_fused_instance rows=128 columns=144 turned)
attile_gpu_instance(128x160_turned_fused FILE turned_fused TABLE TurnedFused BY gemm_turned_fused_instance rows=128 columns=160 turned)
attile_gpu_instance(128x176_turned_fused FILE turned_fused TABLE TurnedFused BY gemm_turned_fused_instance rows=128 columns=176 turned)
attile_gpu_instance(128x192_turned_fused FILE turned_fused TABLE TurnedFused BY gemm_turned_fused_instance rows=128 columns=192 turned)
attile_gpu_instance(128x208_turned_fused FILE turned_fused TABLE TurnedFused BY gemm_turned_fused_instance rows=128 columns=208 turned)
attile_gpu_instance(128x240_turned_fused FILE turned_fused TABLE TurnedFused BY gemm_turned_fused_instance rows=128 columns=240 turned)
attile_gpu_instance(192x176_turned_fused FILE turned_fused TABLE TurnedFused BY gemm_turned_fused_instance rows=192 columns=176 turned)

# Products of int8, for D of a type of 16 bits, float32 or int32: the first tiles, in the same order.
attile_gpu_family(gemm/sm90/int8_instances.h
  INCLUDE gemm/sm90/arguments.h
  FROM gemm/sm90/instances.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_int8_instance
  FUNCTION gemm_int8_@type@_@name@
  STRUCT GemmInt8Tile TABLE kGemmInt8
  TYPES bf16 f16)

attile_gpu_instance(128x256_int8 FILE int8 rows=128 columns=256)
attile_gpu_instance(192x128_int8 FILE int8 rows=192 columns=128)
attile_gpu_instance(128x128_int8 FILE int8 rows=128 columns=128)
attile_gpu_instance(128x64_int8 FILE int8 rows=128 columns=64)

# Those whose sums are stored modulo a number: the same tiles.
attile_gpu_family(gemm/sm90/residues_instances.h
  INCLUDE gemm/sm90/arguments.h
  FROM gemm/sm90/instances.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_residues_instance
  FUNCTION gemm_residues_@type@_@name@
  STRUCT GemmResiduesTile TABLE kGemmResidues
  TYPES bf16)

attile_gpu_instance(128x256_residues FILE residues rows=128 columns=256)
attile_gpu_instance(192x128_residues FILE residues rows=192 columns=128)
attile_gpu_instance(128x128_residues FILE residues rows=128 columns=128)
attile_gpu_instance(128x64_residues FILE residues rows=128 columns=64)

# Products of e4m3, for D of a type of 16 bits or float32: the same tiles.
attile_gpu_family(gemm/sm90/fp8_instances.h
  INCLUDE gemm/sm90/arguments.h
  FROM gemm/sm90/instances.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_fp8_instance
  FUNCTION gemm_fp8_@type@_@name@
  STRUCT GemmFp8Tile TABLE kGemmFp8
  TYPES bf16 f16)

attile_gpu_instance(128x256_fp8 FILE fp8 rows=128 columns=256)
attile_gpu_instance(192x128_fp8 FILE fp8 rows=192 columns=128)
attile_gpu_instance(128x128_fp8 FILE fp8 rows=128 columns=128)
attile_gpu_instance(128x64_fp8 FILE fp8 rows=128 columns=64)

# Those whose scales change along the depth.
attile_gpu_family(gemm/sm90/fp8_groups_instances.h
  INCLUDE gemm/sm90/arguments.h
  FROM gemm/sm90/instances.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_fp8_groups_instance
  FUNCTION gemm_fp8_groups_@type@_@name@
  STRUCT GemmFp8GroupsTile TABLE kGemmFp8Groups
  TYPES bf16 f16)

attile_gpu_instance(128x128_fp8_groups FILE fp8_groups rows=128 columns=128)

# Products of groups of rows, which are turned: a tile makes as many of its columns as a group has rows for it.
attile_gpu_family(gemm/sm90/row_groups_instances.h
  INCLUDE gemm/sm90/arguments.h
  FROM gemm/sm90/instances.cuh
  KERNEL GemmKernels SHAPE GemmTileShape BY gemm_row_groups_instance
  FUNCTION gemm_row_groups_@type@_@name@
  STRUCT GemmRowGroupsTile TABLE kGemmRowGroups
  TYPES bf16 f16)

attile_gpu_instance(128x240_row_groups FILE row_groups rows=128 columns=240 turned)
attile_gpu_instance(128x240_row_groups_fused FILE row_groups_fused TABLE Fused BY gemm_row_groups_fused_instance rows=128 columns=240 turned)

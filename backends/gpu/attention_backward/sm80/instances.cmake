# The tiles that the sm_80 kernels of attention's gradients exist in. On capability 8.6 and 8.9 a block has at most 99 KB of shared memory.
#
#   shape              kept x streamed   shared memory: kept + 2 x streamed + exchange + lse, delta   blocks by registers
#   Keys64             128 keys x 64 rows    32 + 2 x 16       + 1    =  65 KB                         2
#   Rows64             128 rows x 64 keys    32 + 2 x 16       + 1    =  65 KB                         2
#   Keys128             64 keys x 64 rows    32 + 2 x 32 + 16  + 1    = 113 KB, just two blocks on 9.0 2
#   Keys128Small        64 keys x 32 rows    32 + 2 x 16 +  8  + 0.5  =  72.5 KB                       2
#   Rows128            128 rows x 32 keys    64 + 2 x 16       + 1    =  97 KB                         2
#   Keys256             64 keys x 64 rows    64 + 2 x 64 + 16  + 1    = 209 KB, 9.0 and 10.0           1
#   Rows256            128 rows x 32 keys   128 + 2 x 32 +  8  + 1    = 201 KB, likewise               1
# Those of one option take what Keys64 and Keys128Small do and 32 bytes a warp, those of several what the plain do. Registers: 234 to 255.
# Bound: shared memory. Record: docs/kernels/attention-backward-sm80.md. What the settings mean: attention_backward/sm80/shapes.h.
attile_gpu_family(attention_backward/sm80/instances.h
  INCLUDE attention_backward/sm80/table.h
  FROM attention_backward/sm80/instances.cuh
  KERNEL BackwardKernels SHAPE BackwardShape BY backward_instance
  FUNCTION attention_backward_@type@_@name@ NAME attention_backward_@type@_sm80_@name@
  STRUCT Backward TABLE kBackward
  TYPES bf16 f16)

attile_gpu_shape(BackwardKeys64 depth=64 groups=4 splits=1 part=32 parts=2 blocks=2 of_keys)
attile_gpu_shape(BackwardKeys64Modified depth=64 groups=4 splits=1 part=16 parts=4 blocks=2 of_keys bias allowed alibi softcap)
attile_gpu_shape(BackwardKeys64ByElement depth=64 groups=4 splits=1 part=16 parts=4 blocks=2 of_keys by_element)
attile_gpu_shape(BackwardRows64 depth=64 groups=4 splits=1 part=64 parts=1 blocks=2)
attile_gpu_shape(BackwardRows64ByElement depth=64 groups=4 splits=1 part=32 parts=2 blocks=2 by_element)
attile_gpu_shape(BackwardKeys128 depth=128 groups=2 splits=2 part=32 parts=1 blocks=2 of_keys)
attile_gpu_shape(BackwardKeys128Small depth=128 groups=2 splits=2 part=16 parts=1 blocks=2 of_keys)
attile_gpu_shape(BackwardKeys128Modified depth=128 groups=2 splits=2 part=32 parts=1 blocks=2 of_keys bias allowed alibi softcap)
attile_gpu_shape(BackwardKeys128SmallModified depth=128 groups=2 splits=2 part=16 parts=1 blocks=2 of_keys bias allowed alibi softcap)
attile_gpu_shape(BackwardKeys128ByElement depth=128 groups=2 splits=2 part=16 parts=1 blocks=2 of_keys by_element)
attile_gpu_shape(BackwardRows128 depth=128 groups=4 splits=1 part=32 parts=1 blocks=2)
attile_gpu_shape(BackwardRows128ByElement depth=128 groups=4 splits=1 part=16 parts=2 blocks=2 by_element)
attile_gpu_shape(BackwardKeys256 depth=256 groups=2 splits=4 part=16 parts=1 blocks=1 of_keys)
attile_gpu_shape(BackwardKeys256Modified depth=256 groups=2 splits=4 part=16 parts=1 blocks=1 of_keys bias allowed alibi softcap)
attile_gpu_shape(BackwardKeys256ByElement depth=256 groups=2 splits=4 part=16 parts=1 blocks=1 of_keys by_element)
attile_gpu_shape(BackwardRows256 depth=256 groups=4 splits=2 part=16 parts=1 blocks=1)
attile_gpu_shape(BackwardRows256ByElement depth=256 groups=4 splits=2 part=16 parts=1 blocks=1 by_element)

# Of one option.
foreach(option Bias Allowed Alibi Softcap)
  string(TOLOWER ${option} flag)
  attile_gpu_shape(BackwardKeys64${option} depth=64 groups=4 splits=1 part=32 parts=2 blocks=2 of_keys ${flag})
  attile_gpu_shape(BackwardKeys128${option} depth=128 groups=2 splits=2 part=16 parts=1 blocks=2 of_keys ${flag})
endforeach()

# Narrowest first: the first of a type that holds a head is taken.
attile_gpu_instance(cols64
  Keys=BackwardKeys64 SmallKeys=void Rows=BackwardRows64
  BiasKeys=BackwardKeys64Bias AllowedKeys=BackwardKeys64Allowed AlibiKeys=BackwardKeys64Alibi SoftcapKeys=BackwardKeys64Softcap
  ModifiedKeys=BackwardKeys64Modified SmallModifiedKeys=void
  ByElementKeys=BackwardKeys64ByElement ByElementRows=BackwardRows64ByElement)
attile_gpu_instance(cols128
  Keys=BackwardKeys128 SmallKeys=BackwardKeys128Small Rows=BackwardRows128
  BiasKeys=BackwardKeys128Bias AllowedKeys=BackwardKeys128Allowed AlibiKeys=BackwardKeys128Alibi SoftcapKeys=BackwardKeys128Softcap
  ModifiedKeys=BackwardKeys128Modified SmallModifiedKeys=BackwardKeys128SmallModified
  ByElementKeys=BackwardKeys128ByElement ByElementRows=BackwardRows128ByElement)
attile_gpu_instance(cols256
  Keys=BackwardKeys256 SmallKeys=void Rows=BackwardRows256
  BiasKeys=void AllowedKeys=void AlibiKeys=void SoftcapKeys=void
  ModifiedKeys=BackwardKeys256Modified SmallModifiedKeys=void
  ByElementKeys=BackwardKeys256ByElement ByElementRows=BackwardRows256ByElement)

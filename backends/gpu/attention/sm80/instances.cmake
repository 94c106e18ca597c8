# The tiles that the sm_80 attention kernel exists in. Shared memory of a block is at most 99 KB, what capability 8.6 and 8.9 have.
#
#   shape              rows x keys  shared memory: work tile + Q + K and V    registers, compiled for 8.0; 9.0 (CUDA 13.0)
#   cols64             128 x 128    0.25 + 16 + 3 x 16     = 64.25 KB         255; 254
#   cols64_modified    128 x  64    0.25 + 16 + 4 x  8     = 48.25 KB         214; 232
#   cols128            128 x  64    0.25 + 32 + 2 x 16     = 64.25 KB         254; 255
#   cols128_modified   128 x  32    0.25 + 32 + 4 x  8     = 64.25 KB         235; 254
#   cols256             64 x  64    0.25 + 32 + 2 x 32     = 96.25 KB         250; 254
#   cols256_modified    64 x  32    0.25 + 32 + 4 x 16     = 96.25 KB         240; 244
# Two blocks a multiprocessor, by registers. Bound: shared memory, for the fragments of K and V. Record: docs/kernels/attention-sm80.md.
# What the settings mean: attention/sm80/shapes.h.
attile_gpu_family(attention/sm80/instances.h
  INCLUDE attention/sm80/table.h
  FROM attention/sm80/instances.cuh
  KERNEL AttentionKernel SHAPE AttentionShape BY attention_instance
  FUNCTION attention_@type@_@name@ NAME attention_@type@_sm80_@name@
  STRUCT Attention TABLE kAttention
  TYPES bf16 f16)

# Narrowest first: the first of a table that holds a head is taken. Modified: scores pass through more than a mask.
attile_gpu_instance(cols64 FILE cols64
  depth=64 columns=64 keys=128 warps=4 row_tiles=2 stages=3 blocks=2 bytes=2)
attile_gpu_instance(cols64_modified FILE cols64 TABLE Modified
  depth=64 columns=64 keys=64 warps=4 row_tiles=2 stages=4 blocks=2 bytes=2 modifies)
attile_gpu_instance(cols128 FILE cols128
  depth=128 columns=128 keys=64 warps=4 row_tiles=2 stages=2 blocks=2 bytes=2)
attile_gpu_instance(cols128_modified FILE cols128 TABLE Modified
  depth=128 columns=128 keys=32 warps=4 row_tiles=2 stages=4 blocks=2 bytes=2 modifies)
attile_gpu_instance(cols256 FILE cols256
  depth=256 columns=256 keys=64 warps=4 row_tiles=1 stages=2 blocks=2 bytes=2)
attile_gpu_instance(cols256_modified FILE cols256 TABLE Modified
  depth=256 columns=256 keys=32 warps=4 row_tiles=1 stages=4 blocks=2 bytes=2 modifies)

# One change alone, known to the kernel.
attile_gpu_instance(cols64_alibi FILE cols64_alibi TABLE Alibi
  depth=64 columns=64 keys=128 warps=4 row_tiles=2 stages=3 blocks=2 bytes=2 modifies alibi_only)
attile_gpu_instance(cols128_alibi FILE cols128_alibi TABLE Alibi
  depth=128 columns=128 keys=64 warps=4 row_tiles=2 stages=2 blocks=2 bytes=2 modifies alibi_only)
attile_gpu_instance(cols64_bias FILE cols64_bias TABLE Bias
  depth=64 columns=64 keys=64 warps=4 row_tiles=2 stages=3 blocks=2 bytes=2 modifies bias_only)
attile_gpu_instance(cols128_bias FILE cols128_bias TABLE Bias
  depth=128 columns=128 keys=64 warps=4 row_tiles=2 stages=2 blocks=2 bytes=2 modifies bias_only)
attile_gpu_instance(cols64_allowed FILE cols64_allowed TABLE Allowed
  depth=64 columns=64 keys=128 warps=4 row_tiles=2 stages=2 blocks=2 bytes=2 modifies allowed_only)
attile_gpu_instance(cols128_allowed FILE cols128_allowed TABLE Allowed
  depth=128 columns=128 keys=64 warps=4 row_tiles=2 stages=2 blocks=2 bytes=2 modifies allowed_only)
attile_gpu_instance(cols64_softcap FILE cols64_softcap TABLE Softcap
  depth=64 columns=64 keys=128 warps=4 row_tiles=2 stages=3 blocks=2 bytes=2 modifies softcap_only)
attile_gpu_instance(cols128_softcap FILE cols128_softcap TABLE Softcap
  depth=128 columns=128 keys=64 warps=4 row_tiles=2 stages=2 blocks=2 bytes=2 modifies softcap_only)

# float32 by tf32x3.
#
#   shape     rows x keys  shared memory: work tile + Q + K and V    registers, compiled for 8.0; 9.0 (CUDA 13.0)
#   cols64    128 x  64    0.25 + 32 + 3 x 16     = 80.25 KB         255; 255
#   cols128   128 x  32    0.25 + 64 + 2 x 16     = 96.25 KB         255; 255
#   cols256    64 x  16    0.25 + 64 + 2 x 16     = 96.25 KB         243; 244
attile_gpu_family(attention/sm80/tf32x3_instances.h
  INCLUDE attention/sm80/table.h
  FROM attention/sm80/instances.cuh
  KERNEL AttentionKernel SHAPE AttentionShape BY attention_instance
  FUNCTION attention_@type@_@name@ NAME attention_@type@_sm80_split_tf32_@name@
  STRUCT AttentionTf32x3 TABLE kAttentionTf32x3
  TYPES f32)

attile_gpu_instance(cols64 FILE cols64
  depth=64 columns=64 keys=64 warps=4 row_tiles=2 stages=3 blocks=2 bytes=4)
attile_gpu_instance(cols64_modified FILE cols64 TABLE Modified
  depth=64 columns=64 keys=64 warps=4 row_tiles=2 stages=3 blocks=2 bytes=4 modifies)
attile_gpu_instance(cols128 FILE cols128
  depth=128 columns=128 keys=32 warps=4 row_tiles=2 stages=2 blocks=2 bytes=4)
attile_gpu_instance(cols128_modified FILE cols128 TABLE Modified
  depth=128 columns=128 keys=32 warps=4 row_tiles=2 stages=2 blocks=2 bytes=4 modifies)
attile_gpu_instance(cols256 FILE cols256
  depth=256 columns=256 keys=16 warps=4 row_tiles=1 stages=2 blocks=2 bytes=4)
attile_gpu_instance(cols256_modified FILE cols256 TABLE Modified
  depth=256 columns=256 keys=16 warps=4 row_tiles=1 stages=2 blocks=2 bytes=4 modifies)

# Heads of more than 256 columns, up to 576 of Q and K, 512 of V (attention/sm80/wide_kernel.cuh).
#
#   shape            rows x keys  shared memory: work tile, exchange + Q + panels + P
#   cols512_64x128    64 x 128    1.25 + 72 + 4 x 32 + 16 = 217.25 KB; capability 9.0 and 10.0 have 227
#   cols512_64x64     64 x  64    1.25 + 72 + 4 x 16 +  8 = 145.25 KB; 8.0 has 163
#   cols512_32x64     32 x  64    0.75 + 36 + 4 x 16 +  8 = 108.75 KB
#   cols512_32x64_99  32 x  64    0.75 + 36 + 3 x 16 +  4 =  88.75 KB; 8.6, 8.9 and 12.0 have 99
attile_gpu_family(attention/sm80/wide_instances.h
  INCLUDE attention/sm80/wide_table.h
  FROM attention/sm80/wide_instances.cuh
  KERNEL AttentionWideKernel SHAPE AttentionWideShape BY attention_wide_instance
  FUNCTION attention_@type@_@name@ NAME attention_@type@_sm80_@name@
  STRUCT AttentionWide TABLE kAttentionWide
  TYPES bf16 f16)

# Largest first: the first of a table is taken that the device has shared memory for. The last one, which all devices have, is there once.
attile_gpu_instance(cols512_64x128 FILE cols512_64x128
  depth=576 columns=512 keys=128 row_groups=2 stages=4)
attile_gpu_instance(cols512_64x128_modified FILE cols512_64x128 TABLE Modified
  depth=576 columns=512 keys=128 row_groups=2 stages=4 modifies)
attile_gpu_instance(cols512_64x64 FILE cols512_64x64
  depth=576 columns=512 keys=64 row_groups=2 stages=4)
attile_gpu_instance(cols512_64x64_modified FILE cols512_64x64 TABLE Modified
  depth=576 columns=512 keys=64 row_groups=2 stages=4 modifies)
attile_gpu_instance(cols512_32x64 FILE cols512_32x64
  depth=576 columns=512 keys=64 row_groups=1 stages=4)
attile_gpu_instance(cols512_32x64_modified FILE cols512_32x64 TABLE Modified
  depth=576 columns=512 keys=64 row_groups=1 stages=4 modifies)
attile_gpu_instance(cols512_32x64_99_modified FILE cols512_32x64 TABLE Modified
  depth=576 columns=512 keys=64 row_groups=1 stages=3 modifies)

# The tiles of the sm_90a attention kernel and its instances. One block a multiprocessor, by shared memory and registers, unless said.
#
#   shape      rows x keys  shared memory: Q + stages (K + V) + O + 1.75 KB  registers at launch; of a consumer thread; spilled, bytes
#   cols64     192 x 128    2 24 + 4 (16 + 16) + 24 = 200 KB + 1.75      128; 160; bf16 44, f16 256, outside of the common loop
#   cols96     128 x 128    32 + 2 (32 + 32)   = 160 KB + 1.75           168; 232; none
#   cols128    128 x 128    32 + 2 (32 + 32) + 32 = 192 KB + 1.75        168; 232; none
#   few         64 x 128    16 + 2 (32 + 32)   = 144 KB + 1.75           128; 216; none
#   short, d 64 128 x 128   2 16 + 4 (16 + 16) + 16 = 176 KB + 1.75      168; 232; none
#   few, d 64   64 x 128    8 + 2 (16 + 16)    = 72 KB + 1.75, two blocks  128; 216; none
#   cols192    128 x 128    48 + 2 (48 + 32)   = 208 KB + 1.75           168; 232; none
#   cols256    128 x  80    64 + 2 (40 + 40)   = 224 KB + 1.75           168; 232; bf16 68
# Modified: 128 rows at 64 columns; 64 KB more for strips of bias or mask at 64 to 128 columns; 5 to 20 words spilled. One change alone:
# 128 rows; 64 KB more for a bias, 32 for a mask, 16 for ALiBi; no spills but a word of softcap's. Of few rows half as much; of 192 and 256
# columns, with 64 keys, 32 KB more.
#
# Bound: the tensor cores, 4096 FLOP a cycle, and the exponentials, 16 a cycle. They take equally long at d = 64; at 128 the tensor cores
# take twice as long. Record: docs/kernels/attention-sm90.md. What the settings mean: attention/sm90/arguments.h.
attile_gpu_family(attention/sm90/instances.h
  INCLUDE attention/sm90/table.h
  FROM attention/sm90/instances.cuh
  KERNEL AttentionKernel SHAPE AttentionShape BY attention_instance
  FUNCTION attention_@type@_@name@ NAME attention_@type@_sm90_@name@
  STRUCT Attention TABLE kAttention
  TYPES bf16 f16)

# Narrowest first: the first of a table that holds a head is taken.
attile_gpu_instance(cols64
  depth=64 columns=64 keys=128 warpgroups=3 stages=4 producer_registers=32 consumer_registers=160
  ping_pong apart run_on prediction)
attile_gpu_instance(cols96
  depth=96 columns=96 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong prediction)
attile_gpu_instance(cols128
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  prediction)
attile_gpu_instance(cols192
  depth=192 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong prediction)
attile_gpu_instance(cols256
  depth=256 columns=256 keys=80 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong prediction)

# Of 64 columns where tiles of fewer rows fill the device better.
attile_gpu_instance(cols64_short TABLE ShortPlain
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong run_on prediction)

# For rows that one warpgroup holds, as in decoding: another would only take its issue slots.
attile_gpu_instance(cols64_few TABLE FewPlain
  depth=64 columns=64 keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
  prediction)
attile_gpu_instance(cols128_few TABLE FewPlain
  depth=128 columns=128 keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
  prediction)

# K and V in pages, nothing else that modifies scores. Loading pages takes more of the producer's registers than three consumers leave.
attile_gpu_instance(cols64_paged TABLE Paged
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong prediction paged)
attile_gpu_instance(cols128_paged TABLE Paged
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  prediction paged)
attile_gpu_instance(cols192_paged TABLE Paged
  depth=192 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong prediction paged)
attile_gpu_instance(cols256_paged TABLE Paged
  depth=256 columns=256 keys=80 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong prediction paged)
attile_gpu_instance(cols64_few_paged TABLE FewPaged
  depth=64 columns=64 keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
  prediction paged)
attile_gpu_instance(cols128_few_paged TABLE FewPaged
  depth=128 columns=128 keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
  prediction paged)

# A mask of blocks, whose hidden tiles are passed over, or of a tree. Keys of a tile divide a block.
attile_gpu_instance(cols64_sparse TABLE Sparse
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong run_on prediction sparse)
attile_gpu_instance(cols128_sparse TABLE Sparse
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  run_on prediction sparse)
attile_gpu_instance(cols256_sparse TABLE Sparse
  depth=256 columns=256 keys=64 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong prediction sparse)
attile_gpu_instance(cols64_few_sparse TABLE FewSparse
  depth=64 columns=64 keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
  prediction sparse)
attile_gpu_instance(cols128_few_sparse TABLE FewSparse
  depth=128 columns=128 keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
  prediction sparse)
attile_gpu_instance(cols128_sparse_paged TABLE SparsePaged
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  prediction sparse paged)
attile_gpu_instance(cols128_few_sparse_paged TABLE FewSparsePaged
  depth=128 columns=128 keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
  prediction sparse paged)

# Scores pass through more than a mask. Of 64 columns, three warpgroups would leave too few registers for the addresses of bias and the like.
attile_gpu_instance(cols64_modified TABLE Modified
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong modifies)
attile_gpu_instance(cols96_modified TABLE Modified
  depth=96 columns=96 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies)
attile_gpu_instance(cols128_modified TABLE Modified
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies)
attile_gpu_instance(cols192_modified TABLE Modified
  depth=192 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies)
attile_gpu_instance(cols256_modified TABLE Modified
  depth=256 columns=256 keys=80 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies)

# One change alone, known to the kernel (attention/sm90/fused.cuh).
attile_gpu_instance(cols64_bias TABLE Bias
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong modifies bias_only)
attile_gpu_instance(cols64_allowed TABLE Allowed
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong modifies allowed_only)
attile_gpu_instance(cols64_alibi TABLE Alibi
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong modifies alibi_only)
attile_gpu_instance(cols64_softcap TABLE Softcap
  depth=64 columns=64 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  ping_pong modifies softcap_only)
attile_gpu_instance(cols128_bias TABLE Bias
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  modifies bias_only)
attile_gpu_instance(cols128_allowed TABLE Allowed
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies allowed_only)
attile_gpu_instance(cols128_alibi TABLE Alibi
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies alibi_only)
attile_gpu_instance(cols128_softcap TABLE Softcap
  depth=128 columns=128 keys=128 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  modifies softcap_only)
foreach(columns 64 128)
  foreach(change Bias Allowed Alibi Softcap)
    string(TOLOWER ${change} option)
    attile_gpu_instance(cols${columns}_few_${option} TABLE Few${change}
      depth=${columns} columns=${columns} keys=128 warpgroups=1 stages=2 producer_registers=40 consumer_registers=216
      modifies ${option}_only)
  endforeach()
endforeach()
attile_gpu_instance(cols192_bias TABLE Bias
  depth=192 columns=128 keys=64 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies bias_only)
attile_gpu_instance(cols192_allowed TABLE Allowed
  depth=192 columns=128 keys=64 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies allowed_only)
attile_gpu_instance(cols256_bias TABLE Bias
  depth=256 columns=256 keys=64 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies bias_only)
attile_gpu_instance(cols256_allowed TABLE Allowed
  depth=256 columns=256 keys=64 warpgroups=2 stages=2 producer_registers=40 consumer_registers=232
  ping_pong modifies allowed_only)

# Q, K and V of e4m3 (a column of Q and K is two of them, O's type is the instance's), with V transposed.
#
#   shape         rows x keys  shared memory: Q + stages (K + V) + O          registers at launch; of a consumer thread; spilled, bytes
#   cols64_e4m3   192 x 128    24 + 4 (16 + 8) + 24       = 144 KB + 1.75     128; 160; 56
#   cols128_e4m3  128 x 128    16 + 4 (16 + 16) + 32      = 176 KB + 1.75     168; 232; none
#   cols256_e4m3  128 x 128    32 + 2 (32 + 32)           = 160 KB + 1.75     168; 240; 64
#
# Bound: the tensor cores, 8192 FLOP a cycle, and the exponentials: at 128 columns they take equally long.
attile_gpu_instance(cols64_e4m3 TABLE Bytes
  depth=32 columns=64 keys=128 warpgroups=3 stages=4 producer_registers=32 consumer_registers=160
  prediction bytes)
attile_gpu_instance(cols128_e4m3 TABLE Bytes
  depth=64 columns=128 keys=128 warpgroups=2 stages=4 producer_registers=40 consumer_registers=232
  prediction bytes)
attile_gpu_instance(cols256_e4m3 TABLE Bytes
  depth=128 columns=256 keys=128 warpgroups=2 stages=2 producer_registers=24 consumer_registers=240
  prediction bytes)

# float32 by tf32x3. One block a multiprocessor, by shared memory and registers: two consumer warpgroups multiply, two producer warpgroups
# split K and V.
#
#   shape    rows x keys  shared memory: work tile, barriers + Q + pieces of K and V  registers of a consumer thread; spilled, bytes
#   cols64   128 x 64     2 + 32 + 12 x 16 = 226 KB                                  208; none
#   cols128  128 x 64     2 + 64 + 10 x 16 = 226 KB                                  208; 12, of addresses
#
# Bound at d = 128: shared memory is busy 77 % of the time, the tensor cores 65 %. What the settings mean: attention/sm90/tf32x3_table.h.
attile_gpu_family(attention/sm90/tf32x3_instances.h
  INCLUDE attention/sm90/tf32x3_table.h
  FROM attention/sm90/tf32x3_instances.cuh
  KERNEL AttentionTf32x3Kernel SHAPE AttentionTf32x3Shape BY attention_tf32x3_instance
  FUNCTION attention_@type@_@name@ NAME attention_@type@_sm90_split_tf32_@name@
  STRUCT AttentionTf32x3 TABLE kAttentionTf32x3
  TYPES f32)

attile_gpu_instance(cols64 depth=64 columns=64 pieces=12)
attile_gpu_instance(cols128 depth=128 columns=128 pieces=10)

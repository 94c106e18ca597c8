# The tiles of the sm_90a kernels of attention's gradients and their instances. One block a multiprocessor.
#
#   shape      keys x rows   shared memory: K, V + 2 (Q, dO, dS, dQ, lse and delta), KB   registers of a consumer thread; spilled
#   cols64     128 x 128     32 + 2 (32 + 32 + 32 + 1)   = 226                            240; none
#   cols128    128 x  64     64 + 2 (32 + 16 + 32 + 0.5) = 225                            240; words that all threads have in common
#   of one option      as the plain ones, and 256 bytes                                    240; as the plain ones, softcap at 64 columns 20 words
#   cols64_modified   128 x 64   32 + 2 (16 + 16 + 16 + 0.5) = 129                       240; 70 words
#   cols192     64 x  64     48 + 2 (48 + 16, P + 0.5)   = 177                            240; none
#   cols256     64 x  64     64 + 2 (64 + 16, P + 0.5)   = 225                            240; none
#   cols128_modified, cols256_modified: as cols128, cols256                               240; 150 and 57 words
#   of a mask of blocks   as the plain ones, and 128 bytes                                240; 55 words at 64 and 128 columns, 40 at 256
#
# At launch 168 registers. Bound: a step of 64 rows at 128 columns takes 2560 cycles of the tensor cores and 2800 of shared memory.
# Record: docs/kernels/attention-backward-sm90.md. What the settings mean: attention_backward/sm90/arguments.h.
attile_gpu_family(attention_backward/sm90/instances.h
  INCLUDE attention_backward/sm90/table.h
  FROM attention_backward/sm90/instances.cuh
  KERNEL BackwardKernels SHAPE BackwardShape BY backward_instance
  FUNCTION attention_backward_@type@_@name@ NAME attention_backward_@type@_sm90_@name@
  STRUCT Backward TABLE kBackward
  TYPES bf16 f16)

# Narrowest first: the first of a type that holds a head is taken.
attile_gpu_instance(cols64 depth=64 keys=128 rows=128 producer_registers=24 consumer_registers=240)
attile_gpu_instance(cols128 depth=128 keys=128 rows=64 producer_registers=24 consumer_registers=240 late_sums)
attile_gpu_instance(cols192 BY backward_wide_instance depth=192 keys=64 rows=64 producer_registers=24 consumer_registers=240)
attile_gpu_instance(cols256 BY backward_wide_instance depth=256 keys=64 rows=64 producer_registers=24 consumer_registers=240)

# Under a mask of blocks.
attile_gpu_instance(cols64_sparse TABLE Sparse depth=64 keys=128 rows=128 producer_registers=24 consumer_registers=240 sparse)
attile_gpu_instance(cols128_sparse TABLE Sparse depth=128 keys=128 rows=64 producer_registers=24 consumer_registers=240 late_sums sparse)
attile_gpu_instance(cols256_sparse BY backward_wide_instance TABLE Sparse depth=256 keys=64 rows=64 producer_registers=24 consumer_registers=240 sparse)

# Of scores that pass through more than a mask, those of one option first. For any of them together tiles of 128 rows would leave too few
# registers.
foreach(option bias allowed alibi softcap)
  attile_gpu_instance(cols64_${option} TABLE Modified depth=64 keys=128 rows=128 producer_registers=24 consumer_registers=240 ${option})
endforeach()
attile_gpu_instance(cols64_modified TABLE Modified depth=64 keys=128 rows=64 producer_registers=24 consumer_registers=240 bias allowed alibi softcap)
foreach(option bias allowed alibi softcap)
  attile_gpu_instance(cols128_${option} TABLE Modified depth=128 keys=128 rows=64 producer_registers=24 consumer_registers=240 late_sums ${option})
endforeach()
attile_gpu_instance(cols128_modified TABLE Modified depth=128 keys=128 rows=64 producer_registers=24 consumer_registers=240 late_sums bias allowed alibi softcap)
attile_gpu_instance(cols256_modified BY backward_wide_instance TABLE Modified depth=256 keys=64 rows=64 producer_registers=24 consumer_registers=240 bias allowed alibi softcap)

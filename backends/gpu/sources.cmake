# What GPU backends share, in CUDA C++ that HIP compiles too: at the root the device interface, lanes, vectors and numbers; in `host` contexts, staging of host arrays, pools and the operations' one path; a folder for each operation; in `mma`, `sm80` and `sm90` what a family shares across operations.
# Not a backend and not a target by itself: cuda/ and hip/ compile it, each with its own compilers. attile_gpu_sources() hands out the lists that both
# compile, attile_gpu_family_sources() those of a family of kernels for NVIDIA's tensor cores, which cuda/ compiles.

include(${CMAKE_CURRENT_LIST_DIR}/instances.cmake)
# Where includes begin, for whoever compiles these.
set(ATTILE_GPU_INCLUDE_DIRECTORIES ${CMAKE_CURRENT_LIST_DIR} ${ATTILE_GPU_GENERATED_DIR})

# Kernels with the host code that picks and launches them, for the device compiler.
set(ATTILE_GPU_GEMM_SOURCES
  gemm/exact/join.cu
  gemm/exact/measure.cu
  gemm/exact/refine.cu
  gemm/exact/residues.cu
  gemm/exact/sums.cu
  gemm/narrow/few_rows.cu
  gemm/narrow/finish.cu
  gemm/narrow/products.cu
  gemm/narrow/rewrite.cu
  gemm/row_groups.cu
  gemm/simt/f32.cu
  gemm/simt/f64.cu
  gemm/simt/f16.cu
  gemm/simt/bf16.cu
  gemm/simt/grouped.cu
  gemm/simt/grouped_narrow.cu
  gemm/exact/cut.cpp
  gemm/exact/moduli.cpp
  gemm/exact/plan.cpp
  gemm/narrow/few_rows.cpp
  gemm/narrow/plan.cpp
  gemm/narrow/result.cpp
  gemm/groups.cpp
  gemm/plan.cpp
  gemm/run.cpp
  gemm/simt/grouped_plan.cpp
  gemm/simt/plan.cpp
  gemm/problem.cpp
)
set(ATTILE_GPU_ATTENTION_SOURCES
  attention/exact/attention.cu
  attention/simt/any.cu
  attention/simt/products.cu
  attention/simt/single128.cu
  attention/simt/single64.cu
  attention_backward/simt/products.cu
  attention_backward/simt/composed.cu
  attention_backward/simt/steps.cu
  attention/simt/combine.cu
  attention/simt/convert.cu
  attention/simt/decode_bf16.cu
  attention/simt/decode_e4m3.cu
  attention/simt/decode_f16.cu
  attention/simt/decode_f32.cu
  attention/simt/decode_i4.cu
  attention/simt/decode_i8.cu
  attention/simt/int8.cu
  attention_backward/plan.cpp
  attention_backward/run.cpp
  attention_backward/simt/plan.cpp
  attention_backward/simt/composed_plan.cpp
  attention/plan.cpp
  attention/part.cpp
  attention/problem.cpp
  attention/result.cpp
  attention/run.cpp
  attention/tile_plan.cpp
  attention/simt/dense_rows.cpp
  attention/simt/head_cut.cpp
  attention/simt/head_product.cpp
  attention/simt/int8_plan.cpp
  attention/simt/plan.cpp
  attention/simt/products_plan.cpp
  attention/simt/run_plan.cpp
)
# These, besides their instances.
set(ATTILE_GPU_SIMT_FAMILIES attention/simt attention_backward/simt)
set(ATTILE_GPU_KERNEL_SOURCES
  rows/exact/merge.cu
  rows/exact/rows.cu
  rows/merge.cu
  rows/merge_backward.cu
  rows/reduce.cu
  rows/softmax.cu
  quantize/attention_result.cu
  quantize/quantize.cu
  quantize/repack.cu
  ${ATTILE_GPU_GEMM_SOURCES}
  ${ATTILE_GPU_ATTENTION_SOURCES}
)
# Host code, for the C++ compiler.
set(ATTILE_GPU_HOST_SOURCES
  host/device.cpp
  host/team.cpp
  host/kept_workspaces.cpp
  host/operations.cpp
  host/context.cpp
  host/status.cpp
  host/pinned_pieces.cpp
  host/staged_problems.cpp
  host/staging.cpp
  host/staging_plan.cpp
  host/stream_cache.cpp
  host/strided_copy.cpp
  rows/families.cpp
  quantize/families.cpp
)

set(ATTILE_GPU_DEFINITIONS)
if(ATTILE_GPU_GEMM_SOURCES)
  list(APPEND ATTILE_GPU_HOST_SOURCES gemm/families.cpp)
  list(APPEND ATTILE_GPU_DEFINITIONS ATTILE_GPU_HAS_GEMM)
endif()
if(ATTILE_GPU_ATTENTION_SOURCES)
  list(APPEND ATTILE_GPU_HOST_SOURCES attention/families.cpp attention_backward/families.cpp)
  list(APPEND ATTILE_GPU_DEFINITIONS ATTILE_GPU_HAS_ATTENTION)
endif()

# attile_gpu_sources(<kernels> <hosts>): absolute paths of the two lists.
function(attile_gpu_sources kernels hosts)
  attile_gpu_instances(instances ${ATTILE_GPU_SIMT_FAMILIES})
  list(TRANSFORM ATTILE_GPU_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  list(TRANSFORM ATTILE_GPU_HOST_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  set(${kernels} ${instances} ${ATTILE_GPU_KERNEL_SOURCES} PARENT_SCOPE)
  set(${hosts} ${ATTILE_GPU_HOST_SOURCES} PARENT_SCOPE)
endfunction()

# What the kernels for tensor cores share.
set(ATTILE_GPU_MMA_KERNELS
  attention/mma/mask_bytes.cu
  attention/mma/widen.cu
  attention_backward/mma/add_parts.cu
  attention_backward/mma/bias.cu
  attention_backward/mma/prepare.cu
  attention_backward/mma/sum.cu
  gemm/mma/small.cu
  mma/pack.cu
)
set(ATTILE_GPU_MMA_HOSTS
  attention/mma/copies.cpp
  attention/mma/mask_bytes.cpp
  attention/mma/plan.cpp
  attention/mma/slices.cpp
  attention/mma/widened.cpp
  attention_backward/mma/bias_gradient.cpp
  attention_backward/mma/copies.cpp
  attention_backward/mma/add_parts.cpp
  attention_backward/mma/dq_parts.cpp
  attention_backward/mma/group_parts.cpp
  attention_backward/mma/plan.cpp
  gemm/mma/operands.cpp
  gemm/mma/small.cpp
  mma/aligned_copy.cpp
)
# Kernels for the tensor cores of capability 8.0 and later, besides their instances.
set(ATTILE_GPU_SM80_FAMILIES attention/sm80 attention_backward/sm80 gemm/sm80)
set(ATTILE_GPU_SM80_KERNELS
  attention/sm80/decode_narrow.cu
  attention/sm80/decode_narrow_any.cu
  gemm/exact/join_mma.cu
  gemm/exact/residues_mma.cu
  gemm/sm80/few_narrow.cu
)
set(ATTILE_GPU_SM80_HOSTS
  sm80/kernels.cpp
  attention_backward/sm80/plan.cpp
  attention/sm80/decode_narrow_plan.cpp
  attention/sm80/plan.cpp
  gemm/sm80/few_narrow.cpp
  gemm/sm80/plan.cpp
)
# Kernels for Hopper's tensor cores, besides their instances.
set(ATTILE_GPU_SM90_FAMILIES attention/sm90 attention_backward/sm90 gemm/sm90)
set(ATTILE_GPU_SM90_KERNELS
  attention/sm90/transpose.cu
  attention_backward/sm90/bias.cu
  gemm/sm90/add_parts.cu
  gemm/sm90/few_rows.cu
)
set(ATTILE_GPU_SM90_HOSTS
  attention/sm90/bytes_plan.cpp
  attention/sm90/launch.cpp
  attention/sm90/plan.cpp
  attention/sm90/tf32x3_plan.cpp
  attention_backward/sm90/crew.cpp
  attention_backward/sm90/plan.cpp
  gemm/sm90/run.cpp
  gemm/sm90/few_rows.cpp
  gemm/sm90/eight_bits_plan.cpp
  gemm/sm90/grouped_plan.cpp
  gemm/sm90/plan.cpp
)

# attile_gpu_family_sources(<MMA, SM80 or SM90> <kernels> <hosts>): the same of a family; kernels are for nvcc, hosts for the C++ compiler.
function(attile_gpu_family_sources family kernels hosts)
  list(TRANSFORM ATTILE_GPU_${family}_KERNELS PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  list(TRANSFORM ATTILE_GPU_${family}_HOSTS PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  attile_gpu_instances(instances ${ATTILE_GPU_${family}_FAMILIES})
  set(${kernels} ${ATTILE_GPU_${family}_KERNELS} ${instances} PARENT_SCOPE)
  set(${hosts} ${ATTILE_GPU_${family}_HOSTS} PARENT_SCOPE)
endfunction()

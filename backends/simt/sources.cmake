# Sources that cuda/ and hip/ compile, each with its own compilers. Not a target by itself: attile_simt_sources() hands out the lists.

# Kernels with the host code that picks and launches them, for the device compiler.
set(ATTILE_SIMT_GEMM_SOURCES
  kernel/gemm_f32.cu
  kernel/gemm_f64.cu
  kernel/gemm_f16.cu
  kernel/gemm_bf16.cu
  plan/gemm_plan.cpp
  plan/gemm_run.cpp
  plan/gemm_shape.cpp
)
set(ATTILE_SIMT_ATTENTION_SOURCES
  kernel/attention_any.cu
  kernel/attention_cols32.cu
  kernel/attention_cols64.cu
  kernel/attention_single64.cu
  kernel/attention_cols128.cu
  kernel/attention_cols256.cu
  kernel/attention_backward_cols32.cu
  kernel/attention_backward_cols64.cu
  kernel/attention_backward_cols96.cu
  kernel/attention_backward_cols128.cu
  kernel/attention_backward_cols256.cu
  kernel/attention_backward_products.cu
  kernel/attention_backward_steps.cu
  kernel/attention_combine.cu
  kernel/attention_convert.cu
  kernel/decode_bf16.cu
  kernel/decode_f16.cu
  kernel/decode_f32.cu
  plan/attention_backward_plan.cpp
  plan/attention_backward_run.cpp
  plan/attention_plan.cpp
  plan/attention_run.cpp
)
set(ATTILE_SIMT_KERNEL_SOURCES
  kernel/merge.cu
  kernel/reduce.cu
  kernel/softmax.cu
  ${ATTILE_SIMT_GEMM_SOURCES}
  ${ATTILE_SIMT_ATTENTION_SOURCES}
)
# Host code, for the C++ compiler.
set(ATTILE_SIMT_HOST_SOURCES
  host/accelerator.cpp
  host/host_team.cpp
  host/operations.cpp
  host/simt_context.cpp
  host/simt_status.cpp
  host/pinned_pieces.cpp
  host/staged_problems.cpp
  host/staging.cpp
  host/staging_plan.cpp
  host/stream_cache.cpp
  host/strided_copy.cpp
)

set(ATTILE_SIMT_DEFINITIONS)
if(ATTILE_SIMT_GEMM_SOURCES)
  list(APPEND ATTILE_SIMT_DEFINITIONS ATTILE_SIMT_HAS_GEMM)
endif()
if(ATTILE_SIMT_ATTENTION_SOURCES)
  list(APPEND ATTILE_SIMT_DEFINITIONS ATTILE_SIMT_HAS_ATTENTION)
endif()

# attile_simt_sources(<kernels> <hosts>): absolute paths of the two lists.
function(attile_simt_sources kernels hosts)
  list(TRANSFORM ATTILE_SIMT_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  list(TRANSFORM ATTILE_SIMT_HOST_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  set(${kernels} ${ATTILE_SIMT_KERNEL_SOURCES} PARENT_SCOPE)
  set(${hosts} ${ATTILE_SIMT_HOST_SOURCES} PARENT_SCOPE)
endfunction()

# Sources that cuda/ and hip/ compile, each with its own compilers. Not a target by itself: attile_simt_sources() hands out the lists.

# Kernels with the host code that picks and launches them, for the device compiler.
set(ATTILE_SIMT_GEMM_SOURCES
  gemm/simt/f32.cu
  gemm/simt/f64.cu
  gemm/simt/f16.cu
  gemm/simt/bf16.cu
  gemm/plan.cpp
  gemm/run.cpp
  gemm/problem.cpp
)
set(ATTILE_SIMT_ATTENTION_SOURCES
  attention/simt/any.cu
  attention/simt/cols32.cu
  attention/simt/cols64.cu
  attention/simt/single64.cu
  attention/simt/cols128.cu
  attention/simt/cols256.cu
  attention_backward/simt/cols32.cu
  attention_backward/simt/cols64.cu
  attention_backward/simt/cols96.cu
  attention_backward/simt/cols128.cu
  attention_backward/simt/cols256.cu
  attention_backward/simt/products.cu
  attention_backward/simt/steps.cu
  attention/simt/combine.cu
  attention/simt/convert.cu
  attention/simt/decode_bf16.cu
  attention/simt/decode_f16.cu
  attention/simt/decode_f32.cu
  attention_backward/plan.cpp
  attention_backward/run.cpp
  attention/plan.cpp
  attention/run.cpp
)
set(ATTILE_SIMT_KERNEL_SOURCES
  rows/merge.cu
  rows/reduce.cu
  rows/softmax.cu
  ${ATTILE_SIMT_GEMM_SOURCES}
  ${ATTILE_SIMT_ATTENTION_SOURCES}
)
# Host code, for the C++ compiler.
set(ATTILE_SIMT_HOST_SOURCES
  host/accelerator.cpp
  host/team.cpp
  host/operations.cpp
  host/context.cpp
  host/status.cpp
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

# Sources of the tensor-core kernels for capability 8.0 and later: kernels for nvcc, host code for the C++ compiler.
set(ATTILE_SM80_KERNEL_SOURCES
  sm80_attention_bf16_cols64.cu
  sm80_attention_bf16_cols128.cu
  sm80_attention_bf16_cols256.cu
  sm80_attention_f16_cols64.cu
  sm80_attention_f16_cols128.cu
  sm80_attention_f16_cols256.cu
  sm80_gemm_bf16.cu
  sm80_gemm_f16.cu
)
set(ATTILE_SM80_HOST_SOURCES
  sm80_accelerator.cpp
  sm80_attention_plan.cpp
  sm80_gemm.cpp
)

# attile_sm80_sources(<kernels> <hosts>): absolute paths of the two lists.
function(attile_sm80_sources kernels hosts)
  list(TRANSFORM ATTILE_SM80_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  list(TRANSFORM ATTILE_SM80_HOST_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  set(${kernels} ${ATTILE_SM80_KERNEL_SOURCES} PARENT_SCOPE)
  set(${hosts} ${ATTILE_SM80_HOST_SOURCES} PARENT_SCOPE)
endfunction()

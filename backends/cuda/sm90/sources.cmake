# Sources of the Hopper kernels: kernels for nvcc, host code for the C++ compiler.
set(ATTILE_SM90_KERNEL_SOURCES
  sm90_attention_bf16_cols64.cu
  sm90_attention_bf16_cols64_modified.cu
  sm90_attention_bf16_cols96.cu
  sm90_attention_bf16_cols96_modified.cu
  sm90_attention_bf16_cols128.cu
  sm90_attention_bf16_cols128_modified.cu
  sm90_attention_bf16_cols192.cu
  sm90_attention_bf16_cols192_modified.cu
  sm90_attention_bf16_cols256.cu
  sm90_attention_bf16_cols256_modified.cu
  sm90_attention_f16_cols64.cu
  sm90_attention_f16_cols64_modified.cu
  sm90_attention_f16_cols96.cu
  sm90_attention_f16_cols96_modified.cu
  sm90_attention_f16_cols128.cu
  sm90_attention_f16_cols128_modified.cu
  sm90_attention_f16_cols192.cu
  sm90_attention_f16_cols192_modified.cu
  sm90_attention_f16_cols256.cu
  sm90_attention_f16_cols256_modified.cu
  sm90_gemm_bf16.cu
  sm90_gemm_f16.cu
)
set(ATTILE_SM90_HOST_SOURCES
  sm90_accelerator.cpp
  sm90_attention_plan.cpp
  sm90_gemm.cpp
  sm90_gemm_plan.cpp
  sm90_tensor_map.cpp
)

# attile_sm90_sources(<kernels> <hosts>): absolute paths of the two lists.
function(attile_sm90_sources kernels hosts)
  list(TRANSFORM ATTILE_SM90_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  list(TRANSFORM ATTILE_SM90_HOST_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  set(${kernels} ${ATTILE_SM90_KERNEL_SOURCES} PARENT_SCOPE)
  set(${hosts} ${ATTILE_SM90_HOST_SOURCES} PARENT_SCOPE)
endfunction()

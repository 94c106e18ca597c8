# Sources that the kernels for tensor cores share: kernels for nvcc, host code for the C++ compiler.
set(ATTILE_TENSOR_CORE_KERNEL_SOURCES
  tensor_gemm_pack.cu
)
set(ATTILE_TENSOR_CORE_HOST_SOURCES
  tensor_attention_plan.cpp
  tensor_gemm_operands.cpp
)

# attile_tensor_core_sources(<kernels> <hosts>): absolute paths of the two lists.
function(attile_tensor_core_sources kernels hosts)
  list(TRANSFORM ATTILE_TENSOR_CORE_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  list(TRANSFORM ATTILE_TENSOR_CORE_HOST_SOURCES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/)
  set(${kernels} ${ATTILE_TENSOR_CORE_KERNEL_SOURCES} PARENT_SCOPE)
  set(${hosts} ${ATTILE_TENSOR_CORE_HOST_SOURCES} PARENT_SCOPE)
endfunction()

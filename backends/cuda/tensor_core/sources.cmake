# Sources that the kernels for tensor cores share: kernels for nvcc, host code for the C++ compiler.
set(ATTILE_TENSOR_KERNEL_SOURCES
  tensor_attention_backward_prepare.cu
  tensor_attention_backward_sum.cu
  tensor_gemm_pack.cu
  tensor_gemm_small.cu
)
set(ATTILE_TENSOR_HOST_SOURCES
  tensor_attention_plan.cpp
  tensor_attention_backward_plan.cpp
  tensor_gemm_operands.cpp
  tensor_gemm_small.cpp
)

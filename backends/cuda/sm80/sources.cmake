# Sources of the tensor-core kernels for capability 8.0 and later: kernels for nvcc, host code for the C++ compiler.
set(ATTILE_TENSOR_KERNEL_SOURCES
  sm80_attention_bf16_cols64.cu
  sm80_attention_bf16_cols128.cu
  sm80_attention_bf16_cols256.cu
  sm80_attention_f16_cols64.cu
  sm80_attention_f16_cols128.cu
  sm80_attention_f16_cols256.cu
  sm80_gemm_bf16.cu
  sm80_gemm_f16.cu
)
set(ATTILE_TENSOR_HOST_SOURCES
  sm80_accelerator.cpp
  sm80_attention_plan.cpp
  sm80_gemm.cpp
)

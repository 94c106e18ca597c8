# The steps, in order; tests/ladder builds the same list for the host.
set(ATTILE_LADDER_STEPS
  gemm_01_naive.cu gemm_02_coalesced.cu gemm_03_tile.cu gemm_05_boundary.cu gemm_06_rectangular.cu gemm_07_dynamic.cu
  gemm_08_register1d.cu gemm_09_register2d.cu gemm_10_vector.cu gemm_11_doublebuffer.cu gemm_12_library.cu
  reduce_01_global.cu reduce_02_modulo.cu reduce_03_bitmask.cu reduce_04_sequential.cu reduce_05_gridstride.cu reduce_06_shuffle.cu
  reduce_07_library.cu
  attention_01_separate.cu attention_02_fused.cu attention_04_query_blocks.cu attention_05_float4.cu attention_06_restructured.cu
  attention_07_coalesced.cu attention_08_registers_lm.cu attention_09_no_bank_conflicts.cu attention_10_q_registers.cu
  attention_11_library.cu
  memory_01_copies.cu memory_02_managed.cu memory_03_streams.cu memory_04_occupancy.cu)

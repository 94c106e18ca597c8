! SPDX-License-Identifier: Apache-2.0
! The structs of the headers, under the same names and with the same components in the same order.
! Made from attile.h and attile_distributed.h by generate_raw.py; change that, not this file.
! A variable begins as all zero; the operation's _init procedure stamps its size. uint32_t and uint64_t are signed here.
module attile_types
  use, intrinsic :: iso_c_binding
  implicit none (type, external)
  private

  ! struct attile_context_options
  type, bind(c), public :: attile_context_options
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: backend = c_null_ptr  ! const char *
    integer(c_int32_t) :: threads = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
    integer(c_int64_t) :: pool_bytes = 0_c_int64_t
  end type attile_context_options

  ! struct attile_context_info
  type, bind(c), public :: attile_context_info
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    character(kind=c_char) :: backend(32) = c_null_char
    character(kind=c_char) :: backend_version(32) = c_null_char
    character(kind=c_char) :: device_name(128) = c_null_char
    character(kind=c_char) :: arch(64) = c_null_char
    integer(c_int32_t) :: device_type = 0_c_int32_t
    integer(c_int32_t) :: device_index = 0_c_int32_t
    integer(c_int32_t) :: compute_units = 0_c_int32_t
    integer(c_int32_t) :: threads = 0_c_int32_t
    integer(c_int32_t) :: lane_width = 0_c_int32_t
    integer(c_int32_t) :: max_threads_per_unit = 0_c_int32_t
    integer(c_int32_t) :: max_blocks_per_unit = 0_c_int32_t
    integer(c_int32_t) :: registers_per_unit = 0_c_int32_t
    integer(c_int64_t) :: memory_total = 0_c_int64_t
    integer(c_int64_t) :: memory_free = 0_c_int64_t
    integer(c_int64_t) :: shared_per_block = 0_c_int64_t
    integer(c_int64_t) :: shared_per_unit = 0_c_int64_t
    integer(c_int64_t) :: l2_bytes = 0_c_int64_t
    real(c_double) :: clock_hz = 0.0_c_double
    real(c_double) :: peak_flops_f32 = 0.0_c_double
    real(c_double) :: peak_flops_f64 = 0.0_c_double
    real(c_double) :: peak_flops_f16 = 0.0_c_double
    real(c_double) :: peak_bandwidth = 0.0_c_double
  end type attile_context_info

  ! struct attile_tensor
  type, bind(c), public :: attile_tensor
    type(c_ptr) :: data = c_null_ptr  ! void *
    integer(c_int32_t) :: dtype = 0_c_int32_t
    integer(c_int32_t) :: rank = 0_c_int32_t
    integer(c_int64_t) :: shape(4) = 0_c_int64_t
    integer(c_int64_t) :: stride(4) = 0_c_int64_t
  end type attile_tensor

  ! struct attile_support
  type, bind(c), public :: attile_support
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    integer(c_int32_t) :: level = 0_c_int32_t
    integer(c_int32_t) :: status = 0_c_int32_t
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    character(kind=c_char) :: kernel(96) = c_null_char
    character(kind=c_char) :: text(256) = c_null_char
    real(c_double) :: flops = 0.0_c_double
    real(c_double) :: bytes = 0.0_c_double
    integer(c_int32_t) :: tile_m = 0_c_int32_t
    integer(c_int32_t) :: tile_n = 0_c_int32_t
    integer(c_int32_t) :: tile_k = 0_c_int32_t
    integer(c_int32_t) :: threads = 0_c_int32_t
    integer(c_int32_t) :: registers = 0_c_int32_t
    integer(c_int32_t) :: shared_bytes = 0_c_int32_t
    integer(c_int32_t) :: blocks_per_unit = 0_c_int32_t
    integer(c_int32_t) :: splits = 0_c_int32_t
    integer(c_int64_t) :: blocks = 0_c_int64_t
    real(c_double) :: predicted_share = 0.0_c_double
  end type attile_support

  ! struct attile_gemm_args
  type, bind(c), public :: attile_gemm_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: a, b, c, d
    real(c_double) :: alpha = 0.0_c_double
    real(c_double) :: beta = 0.0_c_double
    type(attile_tensor) :: bias
    integer(c_int32_t) :: bias_axis = 0_c_int32_t
    integer(c_int32_t) :: activation = 0_c_int32_t
    type(attile_tensor) :: a_scale, b_scale, b_zero, d_scale
  end type attile_gemm_args

  ! struct attile_gemm_grouped_args
  type, bind(c), public :: attile_gemm_grouped_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: a, b, c, d
    real(c_double) :: alpha = 0.0_c_double
    real(c_double) :: beta = 0.0_c_double
    type(attile_tensor) :: row_offsets, bias
    integer(c_int32_t) :: activation = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
    type(attile_tensor) :: b_scale, b_zero
  end type attile_gemm_grouped_args

  ! struct attile_attention_args
  type, bind(c), public :: attile_attention_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: q, k, v, o, lse
    real(c_double) :: scale = 0.0_c_double
    real(c_double) :: softcap = 0.0_c_double
    integer(c_int32_t) :: mask = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
    integer(c_int64_t) :: window_left = 0_c_int64_t
    integer(c_int64_t) :: window_right = 0_c_int64_t
    type(attile_tensor) :: bias, allowed, alibi_slopes, sinks, key_lengths, cu_len_q, cu_len_k
    integer(c_int64_t) :: max_len_q = 0_c_int64_t
    integer(c_int64_t) :: max_len_k = 0_c_int64_t
    type(attile_tensor) :: block_table, key_starts, causal_offset, block_mask, tree_mask, k_scale, v_scale
    type(attile_tensor) :: q_scale, o_scale
  end type attile_attention_args

  ! struct attile_attention_backward_args
  type, bind(c), public :: attile_attention_backward_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(c_ptr) :: forward = c_null_ptr  ! const attile_attention_args *
    type(attile_tensor) :: dout, dq, dk, dv, dbias, dsinks, dlse
  end type attile_attention_backward_args

  ! struct attile_attention_merge_args
  type, bind(c), public :: attile_attention_merge_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(c_ptr) :: o_parts = c_null_ptr  ! const attile_tensor *
    type(c_ptr) :: lse_parts = c_null_ptr  ! const attile_tensor *
    integer(c_int64_t) :: parts = 0_c_int64_t
    type(attile_tensor) :: o, lse
  end type attile_attention_merge_args

  ! struct attile_attention_merge_backward_args
  type, bind(c), public :: attile_attention_merge_backward_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(c_ptr) :: forward = c_null_ptr  ! const attile_attention_merge_args *
    type(attile_tensor) :: dout, dlse
    type(c_ptr) :: do_parts = c_null_ptr  ! const attile_tensor *
    type(c_ptr) :: dlse_parts = c_null_ptr  ! const attile_tensor *
  end type attile_attention_merge_backward_args

  ! struct attile_gemm_pointers
  type, bind(c), public :: attile_gemm_pointers
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(c_ptr) :: a = c_null_ptr  ! void *
    type(c_ptr) :: b = c_null_ptr  ! void *
    type(c_ptr) :: c = c_null_ptr  ! void *
    type(c_ptr) :: d = c_null_ptr  ! void *
    type(c_ptr) :: bias = c_null_ptr  ! void *
    type(c_ptr) :: a_scale = c_null_ptr  ! void *
    type(c_ptr) :: b_scale = c_null_ptr  ! void *
    type(c_ptr) :: b_zero = c_null_ptr  ! void *
    type(c_ptr) :: d_scale = c_null_ptr  ! void *
  end type attile_gemm_pointers

  ! struct attile_attention_pointers
  type, bind(c), public :: attile_attention_pointers
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(c_ptr) :: q = c_null_ptr  ! void *
    type(c_ptr) :: k = c_null_ptr  ! void *
    type(c_ptr) :: v = c_null_ptr  ! void *
    type(c_ptr) :: o = c_null_ptr  ! void *
    type(c_ptr) :: lse = c_null_ptr  ! void *
    type(c_ptr) :: bias = c_null_ptr  ! void *
    type(c_ptr) :: allowed = c_null_ptr  ! void *
    type(c_ptr) :: alibi_slopes = c_null_ptr  ! void *
    type(c_ptr) :: sinks = c_null_ptr  ! void *
    type(c_ptr) :: key_lengths = c_null_ptr  ! void *
    type(c_ptr) :: cu_len_q = c_null_ptr  ! void *
    type(c_ptr) :: cu_len_k = c_null_ptr  ! void *
    type(c_ptr) :: block_table = c_null_ptr  ! void *
    type(c_ptr) :: key_starts = c_null_ptr  ! void *
    type(c_ptr) :: causal_offset = c_null_ptr  ! void *
    type(c_ptr) :: block_mask = c_null_ptr  ! void *
    type(c_ptr) :: tree_mask = c_null_ptr  ! void *
    type(c_ptr) :: k_scale = c_null_ptr  ! void *
    type(c_ptr) :: v_scale = c_null_ptr  ! void *
    type(c_ptr) :: q_scale = c_null_ptr  ! void *
    type(c_ptr) :: o_scale = c_null_ptr  ! void *
  end type attile_attention_pointers

  ! struct attile_reduce_args
  type, bind(c), public :: attile_reduce_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: x, y
    integer(c_int32_t) :: op = 0_c_int32_t
    integer(c_int32_t) :: axis = 0_c_int32_t
  end type attile_reduce_args

  ! struct attile_softmax_args
  type, bind(c), public :: attile_softmax_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: x, y
    integer(c_int32_t) :: axis = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
  end type attile_softmax_args

  ! struct attile_quantize_args
  type, bind(c), public :: attile_quantize_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: x, q, scale
    integer(c_int32_t) :: scale_mode = 0_c_int32_t
    integer(c_int32_t) :: hadamard = 0_c_int32_t
    type(attile_tensor) :: zero, rope_cos, rope_sin, positions, key_lengths, block_table
    integer(c_int32_t) :: rope_layout = 0_c_int32_t
    integer(c_int32_t) :: append = 0_c_int32_t
  end type attile_quantize_args

  ! struct attile_dequantize_args
  type, bind(c), public :: attile_dequantize_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: q, scale, x
    integer(c_int32_t) :: hadamard = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
    type(attile_tensor) :: zero
  end type attile_dequantize_args

  ! struct attile_repack_args
  type, bind(c), public :: attile_repack_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    type(c_ptr) :: workspace = c_null_ptr  ! void *
    integer(c_int64_t) :: workspace_bytes = 0_c_int64_t
    type(attile_tensor) :: blocks, q, scale, zero
    integer(c_int32_t) :: format = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
  end type attile_repack_args

  ! struct attile_comm_callbacks
  type, bind(c), public :: attile_comm_callbacks
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: user = c_null_ptr  ! void *
    type(c_funptr) :: send = c_null_funptr
    type(c_funptr) :: receive = c_null_funptr
    type(c_funptr) :: wait = c_null_funptr
    type(c_funptr) :: all_gather = c_null_funptr
    type(c_funptr) :: all_to_all = c_null_funptr
    type(c_funptr) :: give_up = c_null_funptr
  end type attile_comm_callbacks

  ! struct attile_comm_options
  type, bind(c), public :: attile_comm_options
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: kind = c_null_ptr  ! const char *
    integer(c_int32_t) :: rank = 0_c_int32_t
    integer(c_int32_t) :: ranks = 0_c_int32_t
    integer(c_int64_t) :: group = 0_c_int64_t
    type(c_ptr) :: callbacks = c_null_ptr  ! const attile_comm_callbacks *
    real(c_double) :: timeout_seconds = 0.0_c_double
    integer(c_int64_t) :: communicator = 0_c_int64_t
  end type attile_comm_options

  ! struct attile_comm_info
  type, bind(c), public :: attile_comm_info
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    character(kind=c_char) :: kind(32) = c_null_char
    integer(c_int32_t) :: rank = 0_c_int32_t
    integer(c_int32_t) :: ranks = 0_c_int32_t
    real(c_double) :: timeout_seconds = 0.0_c_double
    integer(c_int64_t) :: calls = 0_c_int64_t
    integer(c_int32_t) :: status = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
    character(kind=c_char) :: text(256) = c_null_char
    real(c_double) :: transport_seconds = 0.0_c_double
  end type attile_comm_info

  ! struct attile_attention_distributed_args
  type, bind(c), public :: attile_attention_distributed_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: local = c_null_ptr  ! const attile_attention_args *
    integer(c_int32_t) :: layout = 0_c_int32_t
    integer(c_int32_t) :: method = 0_c_int32_t
    integer(c_int64_t) :: len_q = 0_c_int64_t
    integer(c_int64_t) :: len_k = 0_c_int64_t
    integer(c_int32_t) :: rows = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
  end type attile_attention_distributed_args

  ! struct attile_distributed_support
  type, bind(c), public :: attile_distributed_support
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    integer(c_int32_t) :: level = 0_c_int32_t
    integer(c_int32_t) :: status = 0_c_int32_t
    integer(c_int32_t) :: method = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
    character(kind=c_char) :: kernel(96) = c_null_char
    character(kind=c_char) :: text(256) = c_null_char
    integer(c_int64_t) :: bytes_sent = 0_c_int64_t
    real(c_double) :: flops = 0.0_c_double
  end type attile_distributed_support

  ! struct attile_attention_backward_distributed_args
  type, bind(c), public :: attile_attention_backward_distributed_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: local = c_null_ptr  ! const attile_attention_backward_args *
    integer(c_int32_t) :: layout = 0_c_int32_t
    integer(c_int32_t) :: method = 0_c_int32_t
    integer(c_int64_t) :: len_q = 0_c_int64_t
    integer(c_int64_t) :: len_k = 0_c_int64_t
  end type attile_attention_backward_distributed_args

  ! struct attile_grid
  type, bind(c), public :: attile_grid
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    integer(c_int32_t) :: rows = 0_c_int32_t
    integer(c_int32_t) :: columns = 0_c_int32_t
    integer(c_int32_t) :: order = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
  end type attile_grid

  ! struct attile_distributed_matrix
  type, bind(c), public :: attile_distributed_matrix
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: grid = c_null_ptr  ! const attile_grid *
    integer(c_int64_t) :: rows = 0_c_int64_t
    integer(c_int64_t) :: columns = 0_c_int64_t
    integer(c_int64_t) :: block_rows = 0_c_int64_t
    integer(c_int64_t) :: block_columns = 0_c_int64_t
    integer(c_int32_t) :: source_row = 0_c_int32_t
    integer(c_int32_t) :: source_column = 0_c_int32_t
    integer(c_int64_t) :: row = 0_c_int64_t
    integer(c_int64_t) :: column = 0_c_int64_t
    type(attile_tensor) :: local
  end type attile_distributed_matrix

  ! struct attile_gemm_distributed_args
  type, bind(c), public :: attile_gemm_distributed_args
    integer(c_int32_t) :: struct_size = 0_c_int32_t
    integer(c_int32_t) :: flags = 0_c_int32_t
    type(c_ptr) :: next = c_null_ptr  ! const void *
    type(c_ptr) :: stream = c_null_ptr  ! void *
    integer(c_int32_t) :: transa = 0_c_int32_t
    integer(c_int32_t) :: transb = 0_c_int32_t
    integer(c_int64_t) :: m = 0_c_int64_t
    integer(c_int64_t) :: n = 0_c_int64_t
    integer(c_int64_t) :: k = 0_c_int64_t
    type(c_ptr) :: a = c_null_ptr  ! const attile_distributed_matrix *
    type(c_ptr) :: b = c_null_ptr  ! const attile_distributed_matrix *
    type(c_ptr) :: d = c_null_ptr  ! const attile_distributed_matrix *
    type(attile_tensor) :: c
    real(c_double) :: alpha = 0.0_c_double
    real(c_double) :: beta = 0.0_c_double
    type(attile_tensor) :: bias
    integer(c_int32_t) :: bias_axis = 0_c_int32_t
    integer(c_int32_t) :: activation = 0_c_int32_t
    integer(c_int32_t) :: method = 0_c_int32_t
    integer(c_int32_t) :: reserved = 0_c_int32_t
    integer(c_int64_t) :: panel = 0_c_int64_t
  end type attile_gemm_distributed_args
end module attile_types

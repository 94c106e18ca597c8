! SPDX-License-Identifier: Apache-2.0
! Every function of the headers, under its own name, with the C prototype above it. Nothing is added, nothing is checked here:
! module attile is the layer to use; this is for what that leaves out.
! Made from attile.h and attile_distributed.h by generate_raw.py; change that, not this file.
! An absent optional argument is NULL. Texts end with c_null_char. Data are type(c_ptr), for they may lie on a device.
module attile_raw
  use, intrinsic :: iso_c_binding
  use attile_types
  implicit none (type, external)
  private
  public :: attile_log_fn, attile_version, attile_status_name, attile_context_options_init
  public :: attile_context_info_init, attile_context_create, attile_context_destroy, attile_context_get_info
  public :: attile_tensor_init, attile_support_init, attile_gemm_init, attile_gemm
  public :: attile_gemm_query, attile_gemm_grouped_init, attile_gemm_grouped, attile_gemm_grouped_query
  public :: attile_attention_init, attile_attention, attile_attention_query, attile_attention_backward_init
  public :: attile_attention_backward, attile_attention_backward_query, attile_attention_merge_init, attile_attention_merge
  public :: attile_attention_merge_query, attile_attention_merge_backward_init, attile_attention_merge_backward
  public :: attile_attention_merge_backward_query, attile_gemm_pointers_init, attile_attention_pointers_init
  public :: attile_gemm_prepare, attile_attention_prepare, attile_gemm_run, attile_attention_run
  public :: attile_prepared_destroy, attile_reduce_init, attile_reduce, attile_reduce_query
  public :: attile_softmax_init, attile_softmax, attile_softmax_query, attile_quantize_init
  public :: attile_quantize, attile_quantize_query, attile_dequantize_init, attile_dequantize
  public :: attile_dequantize_query, attile_repack_init, attile_repack, attile_repack_query
  public :: attile_sgemm, attile_dgemm, attile_alloc, attile_free
  public :: attile_copy, attile_prefetch, attile_memory_kind, attile_stream_create
  public :: attile_stream_destroy, attile_synchronize, attile_last_error, attile_backend_report
  public :: attile_set_log, attile_add_backend_directory, attile_register_backend, attile_comm_options_init
  public :: attile_comm_callbacks_init, attile_comm_info_init, attile_comm_create, attile_comm_destroy
  public :: attile_comm_get_info, attile_shard_part, attile_attention_distributed_init, attile_distributed_support_init
  public :: attile_attention_distributed, attile_attention_distributed_query, attile_attention_backward_distributed_init
  public :: attile_attention_backward_distributed, attile_attention_backward_distributed_query, attile_grid_init
  public :: attile_distributed_matrix_init, attile_gemm_distributed_init, attile_distributed_extents, attile_gemm_distributed
  public :: attile_gemm_distributed_query, attile_grid_open, attile_grid_close, attile_pdgemm
  public :: attile_psgemm, attile_pdgemm_, attile_psgemm_

  abstract interface
    ! typedef void (*attile_log_fn)(void *user, int32_t level, const char *message);
    subroutine attile_log_fn(user, level, message) bind(c)
      import :: c_char, c_int32_t, c_ptr
      implicit none
      type(c_ptr), value :: user
      integer(c_int32_t), value :: level
      character(kind=c_char), intent(in), optional :: message(*)
    end subroutine attile_log_fn
  end interface

  interface
    ! int32_t attile_version(void);
    function attile_version() result(answer) bind(c, name="attile_version")
      import :: c_int32_t
      implicit none
      integer(c_int32_t) :: answer
    end function attile_version
    ! const char *attile_status_name(int32_t status);
    function attile_status_name(status) result(answer) bind(c, name="attile_status_name")
      import :: c_int32_t, c_ptr
      implicit none
      integer(c_int32_t), value :: status
      type(c_ptr) :: answer
    end function attile_status_name
    ! void attile_context_options_init(attile_context_options *options, uint64_t size);
    subroutine attile_context_options_init(options, size) bind(c, name="attile_context_options_init")
      import :: c_int64_t, attile_context_options
      implicit none
      type(attile_context_options), intent(inout), optional :: options
      integer(c_int64_t), value :: size
    end subroutine attile_context_options_init
    ! void attile_context_info_init(attile_context_info *info, uint64_t size);
    subroutine attile_context_info_init(info, size) bind(c, name="attile_context_info_init")
      import :: c_int64_t, attile_context_info
      implicit none
      type(attile_context_info), intent(inout), optional :: info
      integer(c_int64_t), value :: size
    end subroutine attile_context_info_init
    ! int32_t attile_context_create(const attile_context_options *options, attile_context **context);
    function attile_context_create(options, context) result(answer) bind(c, name="attile_context_create")
      import :: c_int32_t, c_ptr, attile_context_options
      implicit none
      type(attile_context_options), intent(in), optional :: options
      type(c_ptr), intent(inout), optional :: context
      integer(c_int32_t) :: answer
    end function attile_context_create
    ! void attile_context_destroy(attile_context *context);
    subroutine attile_context_destroy(context) bind(c, name="attile_context_destroy")
      import :: c_ptr
      implicit none
      type(c_ptr), value :: context
    end subroutine attile_context_destroy
    ! int32_t attile_context_get_info(attile_context *context, attile_context_info *info);
    function attile_context_get_info(context, info) result(answer) bind(c, name="attile_context_get_info")
      import :: c_int32_t, c_ptr, attile_context_info
      implicit none
      type(c_ptr), value :: context
      type(attile_context_info), intent(inout), optional :: info
      integer(c_int32_t) :: answer
    end function attile_context_get_info
    ! int32_t attile_tensor_init(attile_tensor *tensor, void *data, int32_t dtype, int32_t rank, const int64_t
    !   *shape);
    function attile_tensor_init(tensor, data, dtype, rank, shape) result(answer) bind(c, name="attile_tensor_init")
      import :: c_int32_t, c_int64_t, c_ptr, attile_tensor
      implicit none
      type(attile_tensor), intent(inout), optional :: tensor
      type(c_ptr), value :: data
      integer(c_int32_t), value :: dtype
      integer(c_int32_t), value :: rank
      integer(c_int64_t), intent(in), optional :: shape(*)
      integer(c_int32_t) :: answer
    end function attile_tensor_init
    ! void attile_support_init(attile_support *support, uint64_t size);
    subroutine attile_support_init(support, size) bind(c, name="attile_support_init")
      import :: c_int64_t, attile_support
      implicit none
      type(attile_support), intent(inout), optional :: support
      integer(c_int64_t), value :: size
    end subroutine attile_support_init
    ! void attile_gemm_init(attile_gemm_args *args, uint64_t size);
    subroutine attile_gemm_init(args, size) bind(c, name="attile_gemm_init")
      import :: c_int64_t, attile_gemm_args
      implicit none
      type(attile_gemm_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_gemm_init
    ! int32_t attile_gemm(attile_context *context, const attile_gemm_args *args);
    function attile_gemm(context, args) result(answer) bind(c, name="attile_gemm")
      import :: c_int32_t, c_ptr, attile_gemm_args
      implicit none
      type(c_ptr), value :: context
      type(attile_gemm_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_gemm
    ! int32_t attile_gemm_query(attile_context *context, const attile_gemm_args *args, attile_support *support);
    function attile_gemm_query(context, args, support) result(answer) bind(c, name="attile_gemm_query")
      import :: c_int32_t, c_ptr, attile_gemm_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_gemm_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_gemm_query
    ! void attile_gemm_grouped_init(attile_gemm_grouped_args *args, uint64_t size);
    subroutine attile_gemm_grouped_init(args, size) bind(c, name="attile_gemm_grouped_init")
      import :: c_int64_t, attile_gemm_grouped_args
      implicit none
      type(attile_gemm_grouped_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_gemm_grouped_init
    ! int32_t attile_gemm_grouped(attile_context *context, const attile_gemm_grouped_args *args);
    function attile_gemm_grouped(context, args) result(answer) bind(c, name="attile_gemm_grouped")
      import :: c_int32_t, c_ptr, attile_gemm_grouped_args
      implicit none
      type(c_ptr), value :: context
      type(attile_gemm_grouped_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_gemm_grouped
    ! int32_t attile_gemm_grouped_query(attile_context *context, const attile_gemm_grouped_args *args, attile_support
    !   *support);
    function attile_gemm_grouped_query(context, args, &
        support) result(answer) bind(c, name="attile_gemm_grouped_query")
      import :: c_int32_t, c_ptr, attile_gemm_grouped_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_gemm_grouped_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_gemm_grouped_query
    ! void attile_attention_init(attile_attention_args *args, uint64_t size);
    subroutine attile_attention_init(args, size) bind(c, name="attile_attention_init")
      import :: c_int64_t, attile_attention_args
      implicit none
      type(attile_attention_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_attention_init
    ! int32_t attile_attention(attile_context *context, const attile_attention_args *args);
    function attile_attention(context, args) result(answer) bind(c, name="attile_attention")
      import :: c_int32_t, c_ptr, attile_attention_args
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_attention
    ! int32_t attile_attention_query(attile_context *context, const attile_attention_args *args, attile_support
    !   *support);
    function attile_attention_query(context, args, support) result(answer) bind(c, name="attile_attention_query")
      import :: c_int32_t, c_ptr, attile_attention_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_attention_query
    ! void attile_attention_backward_init(attile_attention_backward_args *args, uint64_t size);
    subroutine attile_attention_backward_init(args, size) bind(c, name="attile_attention_backward_init")
      import :: c_int64_t, attile_attention_backward_args
      implicit none
      type(attile_attention_backward_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_attention_backward_init
    ! int32_t attile_attention_backward(attile_context *context, const attile_attention_backward_args *args);
    function attile_attention_backward(context, args) result(answer) bind(c, name="attile_attention_backward")
      import :: c_int32_t, c_ptr, attile_attention_backward_args
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_backward_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_attention_backward
    ! int32_t attile_attention_backward_query(attile_context *context, const attile_attention_backward_args *args,
    !   attile_support *support);
    function attile_attention_backward_query(context, args, &
        support) result(answer) bind(c, name="attile_attention_backward_query")
      import :: c_int32_t, c_ptr, attile_attention_backward_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_backward_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_attention_backward_query
    ! void attile_attention_merge_init(attile_attention_merge_args *args, uint64_t size);
    subroutine attile_attention_merge_init(args, size) bind(c, name="attile_attention_merge_init")
      import :: c_int64_t, attile_attention_merge_args
      implicit none
      type(attile_attention_merge_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_attention_merge_init
    ! int32_t attile_attention_merge(attile_context *context, const attile_attention_merge_args *args);
    function attile_attention_merge(context, args) result(answer) bind(c, name="attile_attention_merge")
      import :: c_int32_t, c_ptr, attile_attention_merge_args
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_merge_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_attention_merge
    ! int32_t attile_attention_merge_query(attile_context *context, const attile_attention_merge_args *args,
    !   attile_support *support);
    function attile_attention_merge_query(context, args, &
        support) result(answer) bind(c, name="attile_attention_merge_query")
      import :: c_int32_t, c_ptr, attile_attention_merge_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_merge_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_attention_merge_query
    ! void attile_attention_merge_backward_init(attile_attention_merge_backward_args *args, uint64_t size);
    subroutine attile_attention_merge_backward_init(args, size) bind(c, name="attile_attention_merge_backward_init")
      import :: c_int64_t, attile_attention_merge_backward_args
      implicit none
      type(attile_attention_merge_backward_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_attention_merge_backward_init
    ! int32_t attile_attention_merge_backward(attile_context *context, const attile_attention_merge_backward_args
    !   *args);
    function attile_attention_merge_backward(context, &
        args) result(answer) bind(c, name="attile_attention_merge_backward")
      import :: c_int32_t, c_ptr, attile_attention_merge_backward_args
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_merge_backward_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_attention_merge_backward
    ! int32_t attile_attention_merge_backward_query(attile_context *context, const
    !   attile_attention_merge_backward_args *args, attile_support *support);
    function attile_attention_merge_backward_query(context, args, &
        support) result(answer) bind(c, name="attile_attention_merge_backward_query")
      import :: c_int32_t, c_ptr, attile_attention_merge_backward_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_merge_backward_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_attention_merge_backward_query
    ! void attile_gemm_pointers_init(attile_gemm_pointers *pointers, uint64_t size);
    subroutine attile_gemm_pointers_init(pointers, size) bind(c, name="attile_gemm_pointers_init")
      import :: c_int64_t, attile_gemm_pointers
      implicit none
      type(attile_gemm_pointers), intent(inout), optional :: pointers
      integer(c_int64_t), value :: size
    end subroutine attile_gemm_pointers_init
    ! void attile_attention_pointers_init(attile_attention_pointers *pointers, uint64_t size);
    subroutine attile_attention_pointers_init(pointers, size) bind(c, name="attile_attention_pointers_init")
      import :: c_int64_t, attile_attention_pointers
      implicit none
      type(attile_attention_pointers), intent(inout), optional :: pointers
      integer(c_int64_t), value :: size
    end subroutine attile_attention_pointers_init
    ! int32_t attile_gemm_prepare(attile_context *context, const attile_gemm_args *args, attile_prepared **prepared);
    function attile_gemm_prepare(context, args, prepared) result(answer) bind(c, name="attile_gemm_prepare")
      import :: c_int32_t, c_ptr, attile_gemm_args
      implicit none
      type(c_ptr), value :: context
      type(attile_gemm_args), intent(in), optional :: args
      type(c_ptr), intent(inout), optional :: prepared
      integer(c_int32_t) :: answer
    end function attile_gemm_prepare
    ! int32_t attile_attention_prepare(attile_context *context, const attile_attention_args *args, attile_prepared
    !   **prepared);
    function attile_attention_prepare(context, args, &
        prepared) result(answer) bind(c, name="attile_attention_prepare")
      import :: c_int32_t, c_ptr, attile_attention_args
      implicit none
      type(c_ptr), value :: context
      type(attile_attention_args), intent(in), optional :: args
      type(c_ptr), intent(inout), optional :: prepared
      integer(c_int32_t) :: answer
    end function attile_attention_prepare
    ! int32_t attile_gemm_run(attile_prepared *prepared, const attile_gemm_pointers *pointers);
    function attile_gemm_run(prepared, pointers) result(answer) bind(c, name="attile_gemm_run")
      import :: c_int32_t, c_ptr, attile_gemm_pointers
      implicit none
      type(c_ptr), value :: prepared
      type(attile_gemm_pointers), intent(in), optional :: pointers
      integer(c_int32_t) :: answer
    end function attile_gemm_run
    ! int32_t attile_attention_run(attile_prepared *prepared, const attile_attention_pointers *pointers);
    function attile_attention_run(prepared, pointers) result(answer) bind(c, name="attile_attention_run")
      import :: c_int32_t, c_ptr, attile_attention_pointers
      implicit none
      type(c_ptr), value :: prepared
      type(attile_attention_pointers), intent(in), optional :: pointers
      integer(c_int32_t) :: answer
    end function attile_attention_run
    ! void attile_prepared_destroy(attile_prepared *prepared);
    subroutine attile_prepared_destroy(prepared) bind(c, name="attile_prepared_destroy")
      import :: c_ptr
      implicit none
      type(c_ptr), value :: prepared
    end subroutine attile_prepared_destroy
    ! void attile_reduce_init(attile_reduce_args *args, uint64_t size);
    subroutine attile_reduce_init(args, size) bind(c, name="attile_reduce_init")
      import :: c_int64_t, attile_reduce_args
      implicit none
      type(attile_reduce_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_reduce_init
    ! int32_t attile_reduce(attile_context *context, const attile_reduce_args *args);
    function attile_reduce(context, args) result(answer) bind(c, name="attile_reduce")
      import :: c_int32_t, c_ptr, attile_reduce_args
      implicit none
      type(c_ptr), value :: context
      type(attile_reduce_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_reduce
    ! int32_t attile_reduce_query(attile_context *context, const attile_reduce_args *args, attile_support *support);
    function attile_reduce_query(context, args, support) result(answer) bind(c, name="attile_reduce_query")
      import :: c_int32_t, c_ptr, attile_reduce_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_reduce_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_reduce_query
    ! void attile_softmax_init(attile_softmax_args *args, uint64_t size);
    subroutine attile_softmax_init(args, size) bind(c, name="attile_softmax_init")
      import :: c_int64_t, attile_softmax_args
      implicit none
      type(attile_softmax_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_softmax_init
    ! int32_t attile_softmax(attile_context *context, const attile_softmax_args *args);
    function attile_softmax(context, args) result(answer) bind(c, name="attile_softmax")
      import :: c_int32_t, c_ptr, attile_softmax_args
      implicit none
      type(c_ptr), value :: context
      type(attile_softmax_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_softmax
    ! int32_t attile_softmax_query(attile_context *context, const attile_softmax_args *args, attile_support
    !   *support);
    function attile_softmax_query(context, args, support) result(answer) bind(c, name="attile_softmax_query")
      import :: c_int32_t, c_ptr, attile_softmax_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_softmax_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_softmax_query
    ! void attile_quantize_init(attile_quantize_args *args, uint64_t size);
    subroutine attile_quantize_init(args, size) bind(c, name="attile_quantize_init")
      import :: c_int64_t, attile_quantize_args
      implicit none
      type(attile_quantize_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_quantize_init
    ! int32_t attile_quantize(attile_context *context, const attile_quantize_args *args);
    function attile_quantize(context, args) result(answer) bind(c, name="attile_quantize")
      import :: c_int32_t, c_ptr, attile_quantize_args
      implicit none
      type(c_ptr), value :: context
      type(attile_quantize_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_quantize
    ! int32_t attile_quantize_query(attile_context *context, const attile_quantize_args *args, attile_support
    !   *support);
    function attile_quantize_query(context, args, support) result(answer) bind(c, name="attile_quantize_query")
      import :: c_int32_t, c_ptr, attile_quantize_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_quantize_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_quantize_query
    ! void attile_dequantize_init(attile_dequantize_args *args, uint64_t size);
    subroutine attile_dequantize_init(args, size) bind(c, name="attile_dequantize_init")
      import :: c_int64_t, attile_dequantize_args
      implicit none
      type(attile_dequantize_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_dequantize_init
    ! int32_t attile_dequantize(attile_context *context, const attile_dequantize_args *args);
    function attile_dequantize(context, args) result(answer) bind(c, name="attile_dequantize")
      import :: c_int32_t, c_ptr, attile_dequantize_args
      implicit none
      type(c_ptr), value :: context
      type(attile_dequantize_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_dequantize
    ! int32_t attile_dequantize_query(attile_context *context, const attile_dequantize_args *args, attile_support
    !   *support);
    function attile_dequantize_query(context, args, support) result(answer) bind(c, name="attile_dequantize_query")
      import :: c_int32_t, c_ptr, attile_dequantize_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_dequantize_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_dequantize_query
    ! void attile_repack_init(attile_repack_args *args, uint64_t size);
    subroutine attile_repack_init(args, size) bind(c, name="attile_repack_init")
      import :: c_int64_t, attile_repack_args
      implicit none
      type(attile_repack_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_repack_init
    ! int32_t attile_repack(attile_context *context, const attile_repack_args *args);
    function attile_repack(context, args) result(answer) bind(c, name="attile_repack")
      import :: c_int32_t, c_ptr, attile_repack_args
      implicit none
      type(c_ptr), value :: context
      type(attile_repack_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_repack
    ! int32_t attile_repack_query(attile_context *context, const attile_repack_args *args, attile_support *support);
    function attile_repack_query(context, args, support) result(answer) bind(c, name="attile_repack_query")
      import :: c_int32_t, c_ptr, attile_repack_args, attile_support
      implicit none
      type(c_ptr), value :: context
      type(attile_repack_args), intent(in), optional :: args
      type(attile_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_repack_query
    ! int32_t attile_sgemm(attile_context *context, int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t
    !   n, int64_t k, double alpha, const float *a, int64_t lda, const float *b, int64_t ldb, double beta, float *c,
    !   int64_t ldc);
    function attile_sgemm(context, order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, &
        ldc) result(answer) bind(c, name="attile_sgemm")
      import :: c_double, c_int32_t, c_int64_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      integer(c_int32_t), value :: order
      integer(c_int32_t), value :: transa
      integer(c_int32_t), value :: transb
      integer(c_int64_t), value :: m
      integer(c_int64_t), value :: n
      integer(c_int64_t), value :: k
      real(c_double), value :: alpha
      type(c_ptr), value :: a
      integer(c_int64_t), value :: lda
      type(c_ptr), value :: b
      integer(c_int64_t), value :: ldb
      real(c_double), value :: beta
      type(c_ptr), value :: c
      integer(c_int64_t), value :: ldc
      integer(c_int32_t) :: answer
    end function attile_sgemm
    ! int32_t attile_dgemm(attile_context *context, int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t
    !   n, int64_t k, double alpha, const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double
    !   *c, int64_t ldc);
    function attile_dgemm(context, order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, &
        ldc) result(answer) bind(c, name="attile_dgemm")
      import :: c_double, c_int32_t, c_int64_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      integer(c_int32_t), value :: order
      integer(c_int32_t), value :: transa
      integer(c_int32_t), value :: transb
      integer(c_int64_t), value :: m
      integer(c_int64_t), value :: n
      integer(c_int64_t), value :: k
      real(c_double), value :: alpha
      type(c_ptr), value :: a
      integer(c_int64_t), value :: lda
      type(c_ptr), value :: b
      integer(c_int64_t), value :: ldb
      real(c_double), value :: beta
      type(c_ptr), value :: c
      integer(c_int64_t), value :: ldc
      integer(c_int32_t) :: answer
    end function attile_dgemm
    ! int32_t attile_alloc(attile_context *context, int32_t kind, int64_t bytes, void **pointer);
    function attile_alloc(context, kind, bytes, pointer) result(answer) bind(c, name="attile_alloc")
      import :: c_int32_t, c_int64_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      integer(c_int32_t), value :: kind
      integer(c_int64_t), value :: bytes
      type(c_ptr), intent(inout), optional :: pointer
      integer(c_int32_t) :: answer
    end function attile_alloc
    ! int32_t attile_free(attile_context *context, void *pointer);
    function attile_free(context, pointer) result(answer) bind(c, name="attile_free")
      import :: c_int32_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      type(c_ptr), value :: pointer
      integer(c_int32_t) :: answer
    end function attile_free
    ! int32_t attile_copy(attile_context *context, void *destination, const void *source, int64_t bytes, void
    !   *stream);
    function attile_copy(context, destination, source, bytes, stream) result(answer) bind(c, name="attile_copy")
      import :: c_int32_t, c_int64_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      type(c_ptr), value :: destination
      type(c_ptr), value :: source
      integer(c_int64_t), value :: bytes
      type(c_ptr), value :: stream
      integer(c_int32_t) :: answer
    end function attile_copy
    ! int32_t attile_prefetch(attile_context *context, const void *pointer, int64_t bytes, int32_t kind, void
    !   *stream);
    function attile_prefetch(context, pointer, bytes, kind, stream) result(answer) bind(c, name="attile_prefetch")
      import :: c_int32_t, c_int64_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      type(c_ptr), value :: pointer
      integer(c_int64_t), value :: bytes
      integer(c_int32_t), value :: kind
      type(c_ptr), value :: stream
      integer(c_int32_t) :: answer
    end function attile_prefetch
    ! int32_t attile_memory_kind(attile_context *context, const void *pointer, int32_t *kind);
    function attile_memory_kind(context, pointer, kind) result(answer) bind(c, name="attile_memory_kind")
      import :: c_int32_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      type(c_ptr), value :: pointer
      integer(c_int32_t), intent(inout), optional :: kind
      integer(c_int32_t) :: answer
    end function attile_memory_kind
    ! int32_t attile_stream_create(attile_context *context, void **stream);
    function attile_stream_create(context, stream) result(answer) bind(c, name="attile_stream_create")
      import :: c_int32_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      type(c_ptr), intent(inout), optional :: stream
      integer(c_int32_t) :: answer
    end function attile_stream_create
    ! int32_t attile_stream_destroy(attile_context *context, void *stream);
    function attile_stream_destroy(context, stream) result(answer) bind(c, name="attile_stream_destroy")
      import :: c_int32_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      type(c_ptr), value :: stream
      integer(c_int32_t) :: answer
    end function attile_stream_destroy
    ! int32_t attile_synchronize(attile_context *context, void *stream);
    function attile_synchronize(context, stream) result(answer) bind(c, name="attile_synchronize")
      import :: c_int32_t, c_ptr
      implicit none
      type(c_ptr), value :: context
      type(c_ptr), value :: stream
      integer(c_int32_t) :: answer
    end function attile_synchronize
    ! int64_t attile_last_error(char *buffer, int64_t capacity);
    function attile_last_error(buffer, capacity) result(answer) bind(c, name="attile_last_error")
      import :: c_char, c_int64_t
      implicit none
      character(kind=c_char), intent(inout), optional :: buffer(*)
      integer(c_int64_t), value :: capacity
      integer(c_int64_t) :: answer
    end function attile_last_error
    ! int64_t attile_backend_report(char *buffer, int64_t capacity);
    function attile_backend_report(buffer, capacity) result(answer) bind(c, name="attile_backend_report")
      import :: c_char, c_int64_t
      implicit none
      character(kind=c_char), intent(inout), optional :: buffer(*)
      integer(c_int64_t), value :: capacity
      integer(c_int64_t) :: answer
    end function attile_backend_report
    ! int32_t attile_set_log(attile_log_fn fn, void *user, int32_t level);
    function attile_set_log(fn, user, level) result(answer) bind(c, name="attile_set_log")
      import :: c_funptr, c_int32_t, c_ptr
      implicit none
      type(c_funptr), value :: fn
      type(c_ptr), value :: user
      integer(c_int32_t), value :: level
      integer(c_int32_t) :: answer
    end function attile_set_log
    ! int32_t attile_add_backend_directory(const char *path);
    function attile_add_backend_directory(path) result(answer) bind(c, name="attile_add_backend_directory")
      import :: c_char, c_int32_t
      implicit none
      character(kind=c_char), intent(in), optional :: path(*)
      integer(c_int32_t) :: answer
    end function attile_add_backend_directory
    ! int32_t attile_register_backend(const void *(*entry)(const void *host));
    function attile_register_backend(entry) result(answer) bind(c, name="attile_register_backend")
      import :: c_funptr, c_int32_t
      implicit none
      type(c_funptr), value :: entry
      integer(c_int32_t) :: answer
    end function attile_register_backend
    ! void attile_comm_options_init(attile_comm_options *options, uint64_t size);
    subroutine attile_comm_options_init(options, size) bind(c, name="attile_comm_options_init")
      import :: c_int64_t, attile_comm_options
      implicit none
      type(attile_comm_options), intent(inout), optional :: options
      integer(c_int64_t), value :: size
    end subroutine attile_comm_options_init
    ! void attile_comm_callbacks_init(attile_comm_callbacks *callbacks, uint64_t size);
    subroutine attile_comm_callbacks_init(callbacks, size) bind(c, name="attile_comm_callbacks_init")
      import :: c_int64_t, attile_comm_callbacks
      implicit none
      type(attile_comm_callbacks), intent(inout), optional :: callbacks
      integer(c_int64_t), value :: size
    end subroutine attile_comm_callbacks_init
    ! void attile_comm_info_init(attile_comm_info *info, uint64_t size);
    subroutine attile_comm_info_init(info, size) bind(c, name="attile_comm_info_init")
      import :: c_int64_t, attile_comm_info
      implicit none
      type(attile_comm_info), intent(inout), optional :: info
      integer(c_int64_t), value :: size
    end subroutine attile_comm_info_init
    ! int32_t attile_comm_create(attile_context *context, const attile_comm_options *options, attile_comm **comm);
    function attile_comm_create(context, options, comm) result(answer) bind(c, name="attile_comm_create")
      import :: c_int32_t, c_ptr, attile_comm_options
      implicit none
      type(c_ptr), value :: context
      type(attile_comm_options), intent(in), optional :: options
      type(c_ptr), intent(inout), optional :: comm
      integer(c_int32_t) :: answer
    end function attile_comm_create
    ! void attile_comm_destroy(attile_comm *comm);
    subroutine attile_comm_destroy(comm) bind(c, name="attile_comm_destroy")
      import :: c_ptr
      implicit none
      type(c_ptr), value :: comm
    end subroutine attile_comm_destroy
    ! int32_t attile_comm_get_info(attile_comm *comm, attile_comm_info *info);
    function attile_comm_get_info(comm, info) result(answer) bind(c, name="attile_comm_get_info")
      import :: c_int32_t, c_ptr, attile_comm_info
      implicit none
      type(c_ptr), value :: comm
      type(attile_comm_info), intent(inout), optional :: info
      integer(c_int32_t) :: answer
    end function attile_comm_get_info
    ! int32_t attile_shard_part(int32_t layout, int64_t length, int32_t rank, int32_t ranks, int32_t part, int64_t
    !   *first, int64_t *count, int64_t *stride);
    function attile_shard_part(layout, length, rank, ranks, part, first, count, &
        stride) result(answer) bind(c, name="attile_shard_part")
      import :: c_int32_t, c_int64_t
      implicit none
      integer(c_int32_t), value :: layout
      integer(c_int64_t), value :: length
      integer(c_int32_t), value :: rank
      integer(c_int32_t), value :: ranks
      integer(c_int32_t), value :: part
      integer(c_int64_t), intent(inout), optional :: first
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int64_t), intent(inout), optional :: stride
      integer(c_int32_t) :: answer
    end function attile_shard_part
    ! void attile_attention_distributed_init(attile_attention_distributed_args *args, uint64_t size);
    subroutine attile_attention_distributed_init(args, size) bind(c, name="attile_attention_distributed_init")
      import :: c_int64_t, attile_attention_distributed_args
      implicit none
      type(attile_attention_distributed_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_attention_distributed_init
    ! void attile_distributed_support_init(attile_distributed_support *support, uint64_t size);
    subroutine attile_distributed_support_init(support, size) bind(c, name="attile_distributed_support_init")
      import :: c_int64_t, attile_distributed_support
      implicit none
      type(attile_distributed_support), intent(inout), optional :: support
      integer(c_int64_t), value :: size
    end subroutine attile_distributed_support_init
    ! int32_t attile_attention_distributed(attile_comm *comm, const attile_attention_distributed_args *args);
    function attile_attention_distributed(comm, args) result(answer) bind(c, name="attile_attention_distributed")
      import :: c_int32_t, c_ptr, attile_attention_distributed_args
      implicit none
      type(c_ptr), value :: comm
      type(attile_attention_distributed_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_attention_distributed
    ! int32_t attile_attention_distributed_query(attile_comm *comm, const attile_attention_distributed_args *args,
    !   attile_distributed_support *support);
    function attile_attention_distributed_query(comm, args, &
        support) result(answer) bind(c, name="attile_attention_distributed_query")
      import :: c_int32_t, c_ptr, attile_attention_distributed_args, attile_distributed_support
      implicit none
      type(c_ptr), value :: comm
      type(attile_attention_distributed_args), intent(in), optional :: args
      type(attile_distributed_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_attention_distributed_query
    ! void attile_attention_backward_distributed_init(attile_attention_backward_distributed_args *args, uint64_t
    !   size);
    subroutine attile_attention_backward_distributed_init(args, &
        size) bind(c, name="attile_attention_backward_distributed_init")
      import :: c_int64_t, attile_attention_backward_distributed_args
      implicit none
      type(attile_attention_backward_distributed_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_attention_backward_distributed_init
    ! int32_t attile_attention_backward_distributed(attile_comm *comm, const
    !   attile_attention_backward_distributed_args *args);
    function attile_attention_backward_distributed(comm, &
        args) result(answer) bind(c, name="attile_attention_backward_distributed")
      import :: c_int32_t, c_ptr, attile_attention_backward_distributed_args
      implicit none
      type(c_ptr), value :: comm
      type(attile_attention_backward_distributed_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_attention_backward_distributed
    ! int32_t attile_attention_backward_distributed_query(attile_comm *comm, const
    !   attile_attention_backward_distributed_args *args, attile_distributed_support *support);
    function attile_attention_backward_distributed_query(comm, args, &
        support) result(answer) bind(c, name="attile_attention_backward_distributed_query")
      import :: c_int32_t, c_ptr, attile_attention_backward_distributed_args, attile_distributed_support
      implicit none
      type(c_ptr), value :: comm
      type(attile_attention_backward_distributed_args), intent(in), optional :: args
      type(attile_distributed_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_attention_backward_distributed_query
    ! void attile_grid_init(attile_grid *grid, uint64_t size);
    subroutine attile_grid_init(grid, size) bind(c, name="attile_grid_init")
      import :: c_int64_t, attile_grid
      implicit none
      type(attile_grid), intent(inout), optional :: grid
      integer(c_int64_t), value :: size
    end subroutine attile_grid_init
    ! void attile_distributed_matrix_init(attile_distributed_matrix *matrix, uint64_t size);
    subroutine attile_distributed_matrix_init(matrix, size) bind(c, name="attile_distributed_matrix_init")
      import :: c_int64_t, attile_distributed_matrix
      implicit none
      type(attile_distributed_matrix), intent(inout), optional :: matrix
      integer(c_int64_t), value :: size
    end subroutine attile_distributed_matrix_init
    ! void attile_gemm_distributed_init(attile_gemm_distributed_args *args, uint64_t size);
    subroutine attile_gemm_distributed_init(args, size) bind(c, name="attile_gemm_distributed_init")
      import :: c_int64_t, attile_gemm_distributed_args
      implicit none
      type(attile_gemm_distributed_args), intent(inout), optional :: args
      integer(c_int64_t), value :: size
    end subroutine attile_gemm_distributed_init
    ! int32_t attile_distributed_extents(const attile_distributed_matrix *matrix, int32_t rank, int32_t ranks,
    !   int64_t *rows, int64_t *columns);
    function attile_distributed_extents(matrix, rank, ranks, rows, &
        columns) result(answer) bind(c, name="attile_distributed_extents")
      import :: c_int32_t, c_int64_t, attile_distributed_matrix
      implicit none
      type(attile_distributed_matrix), intent(in), optional :: matrix
      integer(c_int32_t), value :: rank
      integer(c_int32_t), value :: ranks
      integer(c_int64_t), intent(inout), optional :: rows
      integer(c_int64_t), intent(inout), optional :: columns
      integer(c_int32_t) :: answer
    end function attile_distributed_extents
    ! int32_t attile_gemm_distributed(attile_comm *comm, const attile_gemm_distributed_args *args);
    function attile_gemm_distributed(comm, args) result(answer) bind(c, name="attile_gemm_distributed")
      import :: c_int32_t, c_ptr, attile_gemm_distributed_args
      implicit none
      type(c_ptr), value :: comm
      type(attile_gemm_distributed_args), intent(in), optional :: args
      integer(c_int32_t) :: answer
    end function attile_gemm_distributed
    ! int32_t attile_gemm_distributed_query(attile_comm *comm, const attile_gemm_distributed_args *args,
    !   attile_distributed_support *support);
    function attile_gemm_distributed_query(comm, args, &
        support) result(answer) bind(c, name="attile_gemm_distributed_query")
      import :: c_int32_t, c_ptr, attile_distributed_support, attile_gemm_distributed_args
      implicit none
      type(c_ptr), value :: comm
      type(attile_gemm_distributed_args), intent(in), optional :: args
      type(attile_distributed_support), intent(inout), optional :: support
      integer(c_int32_t) :: answer
    end function attile_gemm_distributed_query
    ! int32_t attile_grid_open(attile_comm *comm, const attile_grid *grid, int32_t *context);
    function attile_grid_open(comm, grid, context) result(answer) bind(c, name="attile_grid_open")
      import :: c_int32_t, c_ptr, attile_grid
      implicit none
      type(c_ptr), value :: comm
      type(attile_grid), intent(in), optional :: grid
      integer(c_int32_t), intent(inout), optional :: context
      integer(c_int32_t) :: answer
    end function attile_grid_open
    ! void attile_grid_close(int32_t context);
    subroutine attile_grid_close(context) bind(c, name="attile_grid_close")
      import :: c_int32_t
      implicit none
      integer(c_int32_t), value :: context
    end subroutine attile_grid_close
    ! int32_t attile_pdgemm(int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha, const
    !   double *a, int64_t ia, int64_t ja, const int32_t *desca, const double *b, int64_t ib, int64_t jb, const
    !   int32_t *descb, double beta, double *c, int64_t ic, int64_t jc, const int32_t *descc);
    function attile_pdgemm(transa, transb, m, n, k, alpha, a, ia, ja, desca, b, ib, jb, descb, beta, c, ic, jc, &
        descc) result(answer) bind(c, name="attile_pdgemm")
      import :: c_double, c_int32_t, c_int64_t, c_ptr
      implicit none
      integer(c_int32_t), value :: transa
      integer(c_int32_t), value :: transb
      integer(c_int64_t), value :: m
      integer(c_int64_t), value :: n
      integer(c_int64_t), value :: k
      real(c_double), value :: alpha
      type(c_ptr), value :: a
      integer(c_int64_t), value :: ia
      integer(c_int64_t), value :: ja
      integer(c_int32_t), intent(in), optional :: desca(*)
      type(c_ptr), value :: b
      integer(c_int64_t), value :: ib
      integer(c_int64_t), value :: jb
      integer(c_int32_t), intent(in), optional :: descb(*)
      real(c_double), value :: beta
      type(c_ptr), value :: c
      integer(c_int64_t), value :: ic
      integer(c_int64_t), value :: jc
      integer(c_int32_t), intent(in), optional :: descc(*)
      integer(c_int32_t) :: answer
    end function attile_pdgemm
    ! int32_t attile_psgemm(int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha, const
    !   float *a, int64_t ia, int64_t ja, const int32_t *desca, const float *b, int64_t ib, int64_t jb, const int32_t
    !   *descb, double beta, float *c, int64_t ic, int64_t jc, const int32_t *descc);
    function attile_psgemm(transa, transb, m, n, k, alpha, a, ia, ja, desca, b, ib, jb, descb, beta, c, ic, jc, &
        descc) result(answer) bind(c, name="attile_psgemm")
      import :: c_double, c_int32_t, c_int64_t, c_ptr
      implicit none
      integer(c_int32_t), value :: transa
      integer(c_int32_t), value :: transb
      integer(c_int64_t), value :: m
      integer(c_int64_t), value :: n
      integer(c_int64_t), value :: k
      real(c_double), value :: alpha
      type(c_ptr), value :: a
      integer(c_int64_t), value :: ia
      integer(c_int64_t), value :: ja
      integer(c_int32_t), intent(in), optional :: desca(*)
      type(c_ptr), value :: b
      integer(c_int64_t), value :: ib
      integer(c_int64_t), value :: jb
      integer(c_int32_t), intent(in), optional :: descb(*)
      real(c_double), value :: beta
      type(c_ptr), value :: c
      integer(c_int64_t), value :: ic
      integer(c_int64_t), value :: jc
      integer(c_int32_t), intent(in), optional :: descc(*)
      integer(c_int32_t) :: answer
    end function attile_psgemm
    ! int32_t attile_pdgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const
    !   int32_t *k, const double *alpha, const double *a, const int32_t *ia, const int32_t *ja, const int32_t *desca,
    !   const double *b, const int32_t *ib, const int32_t *jb, const int32_t *descb, const double *beta, double *c,
    !   const int32_t *ic, const int32_t *jc, const int32_t *descc);
    function attile_pdgemm_(transa, transb, m, n, k, alpha, a, ia, ja, desca, b, ib, jb, descb, beta, c, ic, jc, &
        descc) result(answer) bind(c, name="attile_pdgemm_")
      import :: c_char, c_int32_t, c_ptr
      implicit none
      character(kind=c_char), intent(in), optional :: transa(*)
      character(kind=c_char), intent(in), optional :: transb(*)
      integer(c_int32_t), intent(in), optional :: m(*)
      integer(c_int32_t), intent(in), optional :: n(*)
      integer(c_int32_t), intent(in), optional :: k(*)
      type(c_ptr), value :: alpha
      type(c_ptr), value :: a
      integer(c_int32_t), intent(in), optional :: ia(*)
      integer(c_int32_t), intent(in), optional :: ja(*)
      integer(c_int32_t), intent(in), optional :: desca(*)
      type(c_ptr), value :: b
      integer(c_int32_t), intent(in), optional :: ib(*)
      integer(c_int32_t), intent(in), optional :: jb(*)
      integer(c_int32_t), intent(in), optional :: descb(*)
      type(c_ptr), value :: beta
      type(c_ptr), value :: c
      integer(c_int32_t), intent(in), optional :: ic(*)
      integer(c_int32_t), intent(in), optional :: jc(*)
      integer(c_int32_t), intent(in), optional :: descc(*)
      integer(c_int32_t) :: answer
    end function attile_pdgemm_
    ! int32_t attile_psgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const
    !   int32_t *k, const float *alpha, const float *a, const int32_t *ia, const int32_t *ja, const int32_t *desca,
    !   const float *b, const int32_t *ib, const int32_t *jb, const int32_t *descb, const float *beta, float *c,
    !   const int32_t *ic, const int32_t *jc, const int32_t *descc);
    function attile_psgemm_(transa, transb, m, n, k, alpha, a, ia, ja, desca, b, ib, jb, descb, beta, c, ic, jc, &
        descc) result(answer) bind(c, name="attile_psgemm_")
      import :: c_char, c_int32_t, c_ptr
      implicit none
      character(kind=c_char), intent(in), optional :: transa(*)
      character(kind=c_char), intent(in), optional :: transb(*)
      integer(c_int32_t), intent(in), optional :: m(*)
      integer(c_int32_t), intent(in), optional :: n(*)
      integer(c_int32_t), intent(in), optional :: k(*)
      type(c_ptr), value :: alpha
      type(c_ptr), value :: a
      integer(c_int32_t), intent(in), optional :: ia(*)
      integer(c_int32_t), intent(in), optional :: ja(*)
      integer(c_int32_t), intent(in), optional :: desca(*)
      type(c_ptr), value :: b
      integer(c_int32_t), intent(in), optional :: ib(*)
      integer(c_int32_t), intent(in), optional :: jb(*)
      integer(c_int32_t), intent(in), optional :: descb(*)
      type(c_ptr), value :: beta
      type(c_ptr), value :: c
      integer(c_int32_t), intent(in), optional :: ic(*)
      integer(c_int32_t), intent(in), optional :: jc(*)
      integer(c_int32_t), intent(in), optional :: descc(*)
      integer(c_int32_t) :: answer
    end function attile_psgemm_
  end interface
end module attile_raw

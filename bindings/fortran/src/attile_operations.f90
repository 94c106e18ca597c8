! SPDX-License-Identifier: Apache-2.0
! The operations on argument structs, and their queries: for what arrays cannot say (device memory, float16, paged
! keys) and for asking first. Each comes as `call attile_OP_init(args)`, then components of args, then `call
! attile_OP(ctx, args)` or `call attile_OP_query(ctx, args, support)`. Tensors in args are in C's order of axes;
! attile_tensor_of and attile_matrix_of make them.
! Made from attile.h and attile_distributed.h by generate_raw.py; change that, not this file.
module attile_operations
  use, intrinsic :: iso_c_binding
  use attile_contexts, only: attile_context
  use attile_errors, only: conclude
  use attile_raw, only: raw_support_init => attile_support_init, &
    raw_gemm_init => attile_gemm_init, raw_gemm => attile_gemm, raw_gemm_query => attile_gemm_query, &
    raw_gemm_grouped_init => attile_gemm_grouped_init, raw_gemm_grouped => attile_gemm_grouped, &
    raw_gemm_grouped_query => attile_gemm_grouped_query, &
    raw_attention_init => attile_attention_init, raw_attention => attile_attention, raw_attention_query => attile_attention_query, &
    raw_backward_init => attile_attention_backward_init, raw_backward => attile_attention_backward, &
    raw_backward_query => attile_attention_backward_query, &
    raw_merge_init => attile_attention_merge_init, raw_merge => attile_attention_merge, &
    raw_merge_query => attile_attention_merge_query, &
    raw_merge_backward_init => attile_attention_merge_backward_init, raw_merge_backward => attile_attention_merge_backward, &
    raw_merge_backward_query => attile_attention_merge_backward_query, &
    raw_reduce_init => attile_reduce_init, raw_reduce => attile_reduce, raw_reduce_query => attile_reduce_query, &
    raw_softmax_init => attile_softmax_init, raw_softmax => attile_softmax, raw_softmax_query => attile_softmax_query, &
    raw_quantize_init => attile_quantize_init, raw_quantize => attile_quantize, raw_quantize_query => attile_quantize_query, &
    raw_dequantize_init => attile_dequantize_init, raw_dequantize => attile_dequantize, &
    raw_dequantize_query => attile_dequantize_query, &
    raw_repack_init => attile_repack_init, raw_repack => attile_repack, raw_repack_query => attile_repack_query
  use attile_types
  implicit none (type, external)
  private
  public :: attile_gemm_init, attile_gemm, attile_gemm_query
  public :: attile_gemm_grouped_init, attile_gemm_grouped, attile_gemm_grouped_query
  public :: attile_attention_init, attile_attention, attile_attention_query
  public :: attile_attention_backward_init, attile_attention_backward, attile_attention_backward_query
  public :: attile_attention_merge_init, attile_attention_merge, attile_attention_merge_query
  public :: attile_attention_merge_backward_init, attile_attention_merge_backward, attile_attention_merge_backward_query
  public :: attile_reduce_init, attile_reduce, attile_reduce_query
  public :: attile_softmax_init, attile_softmax, attile_softmax_query
  public :: attile_quantize_init, attile_quantize, attile_quantize_query
  public :: attile_dequantize_init, attile_dequantize, attile_dequantize_query
  public :: attile_repack_init, attile_repack, attile_repack_query

  !> Zero the arguments, alpha 1, and stamp their size.
  interface attile_gemm_init
    module procedure gemm_init
  end interface attile_gemm_init
  !> Run with these arguments.
  interface attile_gemm
    module procedure gemm
  end interface attile_gemm
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_gemm_query
    module procedure gemm_query
  end interface attile_gemm_query
  !> Zero the arguments, and stamp their size.
  interface attile_gemm_grouped_init
    module procedure gemm_grouped_init
  end interface attile_gemm_grouped_init
  !> Run with these arguments.
  interface attile_gemm_grouped
    module procedure gemm_grouped
  end interface attile_gemm_grouped
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_gemm_grouped_query
    module procedure gemm_grouped_query
  end interface attile_gemm_grouped_query
  !> Zero the arguments, and stamp their size.
  interface attile_attention_init
    module procedure attention_init
  end interface attile_attention_init
  !> Run with these arguments.
  interface attile_attention
    module procedure attention
  end interface attile_attention
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_attention_query
    module procedure attention_query
  end interface attile_attention_query
  !> Zero the arguments, and stamp their size.
  interface attile_attention_backward_init
    module procedure backward_init
  end interface attile_attention_backward_init
  !> Run with these arguments.
  interface attile_attention_backward
    module procedure backward
  end interface attile_attention_backward
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_attention_backward_query
    module procedure backward_query
  end interface attile_attention_backward_query
  !> Zero the arguments, and stamp their size.
  interface attile_attention_merge_init
    module procedure merge_init
  end interface attile_attention_merge_init
  !> Run with these arguments.
  interface attile_attention_merge
    module procedure merge
  end interface attile_attention_merge
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_attention_merge_query
    module procedure merge_query
  end interface attile_attention_merge_query
  !> Zero the arguments, and stamp their size.
  interface attile_attention_merge_backward_init
    module procedure merge_backward_init
  end interface attile_attention_merge_backward_init
  !> Run with these arguments.
  interface attile_attention_merge_backward
    module procedure merge_backward
  end interface attile_attention_merge_backward
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_attention_merge_backward_query
    module procedure merge_backward_query
  end interface attile_attention_merge_backward_query
  !> Zero the arguments, and stamp their size.
  interface attile_reduce_init
    module procedure reduce_init
  end interface attile_reduce_init
  !> Run with these arguments.
  interface attile_reduce
    module procedure reduce
  end interface attile_reduce
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_reduce_query
    module procedure reduce_query
  end interface attile_reduce_query
  !> Zero the arguments, and stamp their size.
  interface attile_softmax_init
    module procedure softmax_init
  end interface attile_softmax_init
  !> Run with these arguments.
  interface attile_softmax
    module procedure softmax
  end interface attile_softmax
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_softmax_query
    module procedure softmax_query
  end interface attile_softmax_query
  !> Zero the arguments, and stamp their size.
  interface attile_quantize_init
    module procedure quantize_init
  end interface attile_quantize_init
  !> Run with these arguments.
  interface attile_quantize
    module procedure quantize
  end interface attile_quantize
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_quantize_query
    module procedure quantize_query
  end interface attile_quantize_query
  !> Zero the arguments, and stamp their size.
  interface attile_dequantize_init
    module procedure dequantize_init
  end interface attile_dequantize_init
  !> Run with these arguments.
  interface attile_dequantize
    module procedure dequantize
  end interface attile_dequantize
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_dequantize_query
    module procedure dequantize_query
  end interface attile_dequantize_query
  !> Zero the arguments, and stamp their size.
  interface attile_repack_init
    module procedure repack_init
  end interface attile_repack_init
  !> Run with these arguments.
  interface attile_repack
    module procedure repack
  end interface attile_repack
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_repack_query
    module procedure repack_query
  end interface attile_repack_query
contains

  subroutine gemm_init(args)
    type(attile_gemm_args), intent(out) :: args
    call raw_gemm_init(args, c_sizeof(args))
  end subroutine gemm_init

  subroutine gemm(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_gemm_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_gemm(ctx%handle(), args), stat, errmsg)
  end subroutine gemm

  subroutine gemm_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_gemm_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_gemm_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine gemm_query

  subroutine gemm_grouped_init(args)
    type(attile_gemm_grouped_args), intent(out) :: args
    call raw_gemm_grouped_init(args, c_sizeof(args))
  end subroutine gemm_grouped_init

  subroutine gemm_grouped(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_gemm_grouped_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_gemm_grouped(ctx%handle(), args), stat, errmsg)
  end subroutine gemm_grouped

  subroutine gemm_grouped_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_gemm_grouped_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_gemm_grouped_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine gemm_grouped_query

  subroutine attention_init(args)
    type(attile_attention_args), intent(out) :: args
    call raw_attention_init(args, c_sizeof(args))
  end subroutine attention_init

  subroutine attention(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_attention(ctx%handle(), args), stat, errmsg)
  end subroutine attention

  subroutine attention_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_attention_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine attention_query

  subroutine backward_init(args)
    type(attile_attention_backward_args), intent(out) :: args
    call raw_backward_init(args, c_sizeof(args))
  end subroutine backward_init

  subroutine backward(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_backward_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_backward(ctx%handle(), args), stat, errmsg)
  end subroutine backward

  subroutine backward_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_backward_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_backward_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine backward_query

  subroutine merge_init(args)
    type(attile_attention_merge_args), intent(out) :: args
    call raw_merge_init(args, c_sizeof(args))
  end subroutine merge_init

  subroutine merge(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_merge_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_merge(ctx%handle(), args), stat, errmsg)
  end subroutine merge

  subroutine merge_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_merge_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_merge_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine merge_query

  subroutine merge_backward_init(args)
    type(attile_attention_merge_backward_args), intent(out) :: args
    call raw_merge_backward_init(args, c_sizeof(args))
  end subroutine merge_backward_init

  subroutine merge_backward(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_merge_backward_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_merge_backward(ctx%handle(), args), stat, errmsg)
  end subroutine merge_backward

  subroutine merge_backward_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_attention_merge_backward_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_merge_backward_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine merge_backward_query

  subroutine reduce_init(args)
    type(attile_reduce_args), intent(out) :: args
    call raw_reduce_init(args, c_sizeof(args))
  end subroutine reduce_init

  subroutine reduce(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_reduce_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_reduce(ctx%handle(), args), stat, errmsg)
  end subroutine reduce

  subroutine reduce_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_reduce_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_reduce_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine reduce_query

  subroutine softmax_init(args)
    type(attile_softmax_args), intent(out) :: args
    call raw_softmax_init(args, c_sizeof(args))
  end subroutine softmax_init

  subroutine softmax(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_softmax_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_softmax(ctx%handle(), args), stat, errmsg)
  end subroutine softmax

  subroutine softmax_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_softmax_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_softmax_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine softmax_query

  subroutine quantize_init(args)
    type(attile_quantize_args), intent(out) :: args
    call raw_quantize_init(args, c_sizeof(args))
  end subroutine quantize_init

  subroutine quantize(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_quantize_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_quantize(ctx%handle(), args), stat, errmsg)
  end subroutine quantize

  subroutine quantize_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_quantize_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_quantize_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine quantize_query

  subroutine dequantize_init(args)
    type(attile_dequantize_args), intent(out) :: args
    call raw_dequantize_init(args, c_sizeof(args))
  end subroutine dequantize_init

  subroutine dequantize(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_dequantize_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_dequantize(ctx%handle(), args), stat, errmsg)
  end subroutine dequantize

  subroutine dequantize_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_dequantize_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_dequantize_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine dequantize_query

  subroutine repack_init(args)
    type(attile_repack_args), intent(out) :: args
    call raw_repack_init(args, c_sizeof(args))
  end subroutine repack_init

  subroutine repack(ctx, args, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_repack_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_repack(ctx%handle(), args), stat, errmsg)
  end subroutine repack

  subroutine repack_query(ctx, args, support, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(attile_repack_args), intent(in) :: args
    type(attile_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_repack_query(ctx%handle(), args, support), stat, errmsg)
  end subroutine repack_query
end module attile_operations

! SPDX-License-Identifier: Apache-2.0
! What fortran_conformance.cpp calls: module attile on arrays of either kind, and on argument structs.
module fortran_conformance_real32
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_c_binding, only: wp => c_float
  use attile
  implicit none (type, external)
  private
  character(len=*), parameter :: PREFIX = 'fortran_', SUFFIX = 'real32'

contains

  include 'fortran_conformance_kind.inc'
end module fortran_conformance_real32

module fortran_conformance_real64
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_c_binding, only: wp => c_double
  use attile
  implicit none (type, external)
  private
  character(len=*), parameter :: PREFIX = 'fortran_', SUFFIX = 'real64'

contains

  include 'fortran_conformance_kind.inc'
end module fortran_conformance_real64

module fortran_conformance_structs
  use, intrinsic :: iso_c_binding
  use attile
  implicit none (type, external)
  private

contains

  function gemm_struct(context, args) result(status) bind(c, name='fortran_gemm_struct')
    type(c_ptr), value :: context
    type(attile_gemm_args), intent(in) :: args
    integer(c_int32_t) :: status
    type(attile_context) :: ctx
    integer :: stat
    ctx = context
    call attile_gemm(ctx, args, stat)
    status = int(stat, c_int32_t)
  end function gemm_struct

  function attention_struct(context, args) result(status) bind(c, name='fortran_attention_struct')
    type(c_ptr), value :: context
    type(attile_attention_args), intent(in) :: args
    integer(c_int32_t) :: status
    type(attile_context) :: ctx
    integer :: stat
    ctx = context
    call attile_attention(ctx, args, stat)
    status = int(stat, c_int32_t)
  end function attention_struct

  function backward_struct(context, args) result(status) bind(c, name='fortran_backward_struct')
    type(c_ptr), value :: context
    type(attile_attention_backward_args), intent(in) :: args
    integer(c_int32_t) :: status
    type(attile_context) :: ctx
    integer :: stat
    ctx = context
    call attile_attention_backward(ctx, args, stat)
    status = int(stat, c_int32_t)
  end function backward_struct

  function merge_struct(context, args) result(status) bind(c, name='fortran_merge_struct')
    type(c_ptr), value :: context
    type(attile_attention_merge_args), intent(in) :: args
    integer(c_int32_t) :: status
    type(attile_context) :: ctx
    integer :: stat
    ctx = context
    call attile_attention_merge(ctx, args, stat)
    status = int(stat, c_int32_t)
  end function merge_struct

  function merge_backward_struct(context, args) result(status) bind(c, name='fortran_merge_backward_struct')
    type(c_ptr), value :: context
    type(attile_attention_merge_backward_args), intent(in) :: args
    integer(c_int32_t) :: status
    type(attile_context) :: ctx
    integer :: stat
    ctx = context
    call attile_attention_merge_backward(ctx, args, stat)
    status = int(stat, c_int32_t)
  end function merge_backward_struct

  function reduce_struct(context, args) result(status) bind(c, name='fortran_reduce_struct')
    type(c_ptr), value :: context
    type(attile_reduce_args), intent(in) :: args
    integer(c_int32_t) :: status
    type(attile_context) :: ctx
    integer :: stat
    ctx = context
    call attile_reduce(ctx, args, stat)
    status = int(stat, c_int32_t)
  end function reduce_struct

  function softmax_struct(context, args) result(status) bind(c, name='fortran_softmax_struct')
    type(c_ptr), value :: context
    type(attile_softmax_args), intent(in) :: args
    integer(c_int32_t) :: status
    type(attile_context) :: ctx
    integer :: stat
    ctx = context
    call attile_softmax(ctx, args, stat)
    status = int(stat, c_int32_t)
  end function softmax_struct
end module fortran_conformance_structs

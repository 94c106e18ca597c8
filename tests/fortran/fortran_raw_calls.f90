! SPDX-License-Identifier: Apache-2.0
! Every operation through module attile_raw alone, with the arguments behind an address.
module fortran_raw_calls
  use, intrinsic :: iso_c_binding
  use attile_raw
  use attile_types
  implicit none (type, external)
  private
  public :: run_raw

  type, bind(c) :: blas_arguments  ! as call_arguments.h has them
    integer(c_int32_t) :: order, transa, transb
    integer(c_int64_t) :: m, n, k, lda, ldb, ldc
    real(c_double) :: alpha, beta
    type(c_ptr) :: a, b, c
  end type blas_arguments

contains

  function run_raw(context, operation, args) result(status)
    type(c_ptr), intent(in) :: context, args
    integer(c_int32_t), intent(in) :: operation
    integer(c_int32_t) :: status
    type(attile_gemm_args), pointer :: gemm
    type(attile_attention_args), pointer :: attention
    type(attile_attention_backward_args), pointer :: backward
    type(attile_attention_merge_args), pointer :: merging
    type(attile_attention_merge_backward_args), pointer :: unmerging
    type(attile_reduce_args), pointer :: reduce
    type(attile_softmax_args), pointer :: softmax
    type(blas_arguments), pointer :: x
    ! An optional argument that is a null pointer counts as absent, which the raw layer makes C's NULL.
    select case (operation)
    case (0)
      call c_f_pointer(args, gemm)
      status = attile_gemm(context, gemm)
    case (1)
      call c_f_pointer(args, attention)
      status = attile_attention(context, attention)
    case (2)
      call c_f_pointer(args, backward)
      status = attile_attention_backward(context, backward)
    case (3)
      call c_f_pointer(args, merging)
      status = attile_attention_merge(context, merging)
    case (4)
      call c_f_pointer(args, unmerging)
      status = attile_attention_merge_backward(context, unmerging)
    case (5)
      call c_f_pointer(args, reduce)
      status = attile_reduce(context, reduce)
    case (6)
      call c_f_pointer(args, softmax)
      status = attile_softmax(context, softmax)
    case default
      call c_f_pointer(args, x)
      if (operation == 7) then
        status = attile_sgemm(context, x%order, x%transa, x%transb, x%m, x%n, x%k, &
          x%alpha, x%a, x%lda, x%b, x%ldb, x%beta, x%c, x%ldc)
      else
        status = attile_dgemm(context, x%order, x%transa, x%transb, x%m, x%n, x%k, &
          x%alpha, x%a, x%lda, x%b, x%ldb, x%beta, x%c, x%ldc)
      end if
    end select
  end function run_raw
end module fortran_raw_calls

! SPDX-License-Identifier: Apache-2.0
! SGEMM and DGEMM with BLAS's own arguments behind a context: arrays are addresses of column-major storage, so a(i, j)
! marks a start as usual. Of a section that is not contiguous the compiler passes a copy, as it does for any BLAS;
! attile_gemm takes sections as they are.
module attile_blas
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use attile_constants
  use attile_contexts, only: attile_context
  use attile_errors, only: conclude
  use attile_raw, only: raw_sgemm => attile_sgemm, raw_dgemm => attile_dgemm
  implicit none (type, external)
  private
  public :: sgemm, dgemm, transposition

contains

  !> c = alpha op(a) op(b) + beta c in real32; op(a) is m by k, op(b) k by n. transa and transb: 'N', 'T' or 'C', in
  !> either case.
  subroutine sgemm(ctx, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    character, intent(in) :: transa, transb
    integer, intent(in) :: m, n, k, lda, ldb, ldc
    real(real32), intent(in) :: alpha, beta
    real(real32), intent(in), target :: a(*), b(*)
    real(real32), intent(inout), target :: c(*)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_sgemm(ctx%handle(), ATTILE_COL_MAJOR, transposition(transa), transposition(transb), &
      long(m), long(n), long(k), real(alpha, c_double), c_loc(a(1)), long(lda), c_loc(b(1)), long(ldb), &
      real(beta, c_double), c_loc(c(1)), long(ldc)), stat, errmsg)
  end subroutine sgemm

  !> The same in real64.
  subroutine dgemm(ctx, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    character, intent(in) :: transa, transb
    integer, intent(in) :: m, n, k, lda, ldb, ldc
    real(real64), intent(in) :: alpha, beta
    real(real64), intent(in), target :: a(*), b(*)
    real(real64), intent(inout), target :: c(*)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_dgemm(ctx%handle(), ATTILE_COL_MAJOR, transposition(transa), transposition(transb), &
      long(m), long(n), long(k), alpha, c_loc(a(1)), long(lda), c_loc(b(1)), long(ldb), &
      beta, c_loc(c(1)), long(ldc)), stat, errmsg)
  end subroutine dgemm

  ! BLAS's letter as a constant; of any other letter 0, which the library refuses.
  pure function transposition(letter) result(constant)
    character, intent(in) :: letter
    integer(c_int32_t) :: constant
    select case (letter)
    case ('N', 'n')
      constant = ATTILE_NO_TRANS
    case ('T', 't')
      constant = ATTILE_TRANS
    case ('C', 'c')
      constant = ATTILE_CONJ_TRANS
    case default
      constant = 0
    end select
  end function transposition

  pure function long(i)
    integer, intent(in) :: i
    integer(c_int64_t) :: long
    long = i
  end function long
end module attile_blas

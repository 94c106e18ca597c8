! SPDX-License-Identifier: Apache-2.0
! Exact products: what is left of sums that cancel.
!
!     gfortran fortran_exact.f90 $(pkg-config --cflags --libs attile-fortran) -o fortran_exact && ./fortran_exact
!
! The residual b - A x of a solution is far smaller than what it is the difference of. One exact product of (A b) and (-x 1) gives it to
! the last bit, so that a solution can be improved by it; the bits are the same on every machine.
program fortran_exact
  use attile
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  integer, parameter :: n = 3
  type(attile_context) :: ctx
  real(real64) :: ab(n, n + 1), x(n + 1, 1), r(n, 1)

  call attile_context_create(ctx)
  !! [residual]
  ab = reshape([1e16_real64, 3.0_real64, 0.1_real64, 1.0_real64, 0.1_real64, 0.1_real64, &
                -1e16_real64, 0.1_real64, 0.1_real64, 1.0_real64, 3.2_real64, 0.3_real64], [n, n + 1])  ! three columns of A, and b
  x = reshape([-1.0_real64, -1.0_real64, -1.0_real64, 1.0_real64], [n + 1, 1])
  call attile_gemm(ctx, ab, x, r, flags=ATTILE_FLAG_EXACT_PRODUCTS)
  !! [residual]
  print '(a, 3es12.4)', 'b - A x = ', r(:, 1)
  ! The first row is 0, in whatever order it is summed; the others are what 0.1, 3.2 and 0.3 are not in binary.
  if (abs(r(1, 1)) > 0 .or. transfer(r(1, 1), 0_8) /= 0_8) error stop 'not the exact residual'
  if (abs(r(2, 1) - expected(3.2_real64 - 3, [0.1_real64, 0.1_real64])) > 0) error stop 'not the exact residual'
  if (abs(r(3, 1) - expected(0.3_real64, [0.1_real64, 0.1_real64, 0.1_real64])) > 0) error stop 'not the exact residual'

contains

  ! A number minus others, in integers of 2**-56: 3.2 - 3 is exact, and all fit.
  real(real64) function expected(whole, parts)
    real(real64), intent(in) :: whole, parts(:)
    expected = scale(real(nint(scale(whole, 56), 8) - sum(nint(scale(parts, 56), 8)), real64), -56)
  end function
end program fortran_exact

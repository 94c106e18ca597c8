! SPDX-License-Identifier: Apache-2.0
! A failure without stat ends the program, as of ALLOCATE, and says why.
program fortran_without_stat
  use attile
  implicit none (type, external)
  type(attile_context) :: ctx
  real :: a(3, 4), b(5, 2), c(3, 2)
  a = 0
  b = 0
  call attile_context_create(ctx)
  call attile_gemm(ctx, a, b, c)
  print '(a)', 'the program went on'
end program fortran_without_stat

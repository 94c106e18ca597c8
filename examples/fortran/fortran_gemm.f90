! SPDX-License-Identifier: Apache-2.0
! Matrix multiplication of Fortran arrays.
!
!     gfortran fortran_gemm.f90 $(pkg-config --cflags --libs attile-fortran) -o fortran_gemm && ./fortran_gemm
!
! First c = a b. Then a layer of a neural network, relu(w x + bias), on a section and with a transposed matrix: sections are taken where they
! lie, and bias and activation cost no second pass over the result.
program fortran_gemm
  use attile
  use, intrinsic :: iso_fortran_env, only: real32
  implicit none
  type(attile_context) :: ctx
  real(real32) :: a(2, 3), b(3, 2), c(2, 2), wt(3, 4), x(6, 2), bias(4), y(4, 2)

  call attile_context_create(ctx)  ! without stat a failure ends the program and says why, as of ALLOCATE
  !! [product]
  a = reshape([1, 4, 2, 5, 3, 6], [2, 3])
  b = reshape([1, 0, 1, 0, 1, 1], [3, 2])
  call attile_gemm(ctx, a, b, c)
  !! [product]
  print '(a, 2f6.1)', 'a b = ', c(1, :), '      ', c(2, :)
  if (any(abs(c - matmul(a, b)) > 0)) error stop 'wrong product'  ! small integers: exact on every backend

  !! [layer]
  wt = reshape([1, 0, 0, 0, 1, 0, 0, 0, 1, -1, -1, -1], [3, 4])  ! one column for each unit
  x = reshape([1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9], [6, 2])  ! only every second row counts
  bias = 0.5
  call attile_gemm(ctx, wt, x(1::2, :), y, transa='T', bias=bias, bias_axis=ATTILE_BIAS_ROWS, activation=ATTILE_ACTIVATION_RELU)
  !! [layer]
  print '(a, 2f6.1)', 'layer ', y(1, :), '      ', y(2, :), '      ', y(3, :), '      ', y(4, :)
  if (any(abs(y - reshape([1.5, 2.5, 3.5, 0.0, 4.5, 5.5, 6.5, 0.0], [4, 2])) > 0)) error stop 'wrong layer'
end program fortran_gemm

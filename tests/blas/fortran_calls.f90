! SPDX-License-Identifier: Apache-2.0
! A program that knows BLAS alone: sgemm and dgemm against MATMUL, sections by their leading dimension, and every letter.
program fortran_calls
  implicit none (type, external)
  external :: sgemm, dgemm
  integer, parameter :: m = 37, n = 29, k = 53, single = kind(1.0), double = kind(1.0d0)
  character, parameter :: letters(3) = ['N', 't', 'C']
  real(double) :: a(m + 2, k), at(k, m), b(k + 1, n), bt(n, k), c(m + 3, n), expected(m, n), before(m + 3, n)
  integer :: i, j
  call random_number(at)
  call random_number(bt)
  call random_number(before)
  a(:m, :) = transpose(at)
  b(:k, :) = transpose(bt)
  do i = 1, size(letters)
    do j = 1, size(letters)
      expected = 2*matmul(a(:m, :), b(:k, :)) - 0.5_double*before(:m, :)
      c = before
      if (i == 1 .and. j == 1) then
        call dgemm(letters(i), letters(j), m, n, k, 2.0_double, a, m + 2, b, k + 1, -0.5_double, c, m + 3)
      else if (i == 1) then
        call dgemm(letters(i), letters(j), m, n, k, 2.0_double, a, m + 2, bt, n, -0.5_double, c, m + 3)
      else if (j == 1) then
        call dgemm(letters(i), letters(j), m, n, k, 2.0_double, at, k, b, k + 1, -0.5_double, c, m + 3)
      else
        call dgemm(letters(i), letters(j), m, n, k, 2.0_double, at, k, bt, n, -0.5_double, c, m + 3)
      end if
      if (.not. all(abs(c(:m, :) - expected) <= 1e-13_double)) error stop 'dgemm is wrong'
      if (.not. all(c(m + 1:, :) == before(m + 1:, :))) error stop 'dgemm wrote beside C'
    end do
  end do
  call check_single()
  print '(a)', 'right'
contains
  subroutine check_single()
    real(single) :: x(m, k), y(n, k), z(m, n)
    x = real(a(:m, :), single)
    y = real(bt, single)
    call sgemm('N', 'T', m, n, k, 1.0_single, x, m, y, n, 0.0_single, z, m)
    if (.not. all(abs(z - matmul(x, transpose(y))) <= 1e-4_single)) error stop 'sgemm is wrong'
  end subroutine check_single
end program fortran_calls

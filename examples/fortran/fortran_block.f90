! SPDX-License-Identifier: Apache-2.0
! Runs one block of a transformer on random numbers.
!
!     gfortran transformer_block.f90 fortran_block.f90 $(pkg-config --cflags --libs attile-fortran) -o fortran_block && ./fortran_block
program fortran_block
  use attile
  use transformer_block
  use, intrinsic :: iso_fortran_env, only: real32
  implicit none
  integer, parameter :: MODEL = 64, HIDDEN = 256, LEN = 50, BATCH = 2
  type(attile_context) :: ctx
  type(block_weights) :: w
  real(real32) :: x(MODEL, LEN, BATCH)
  character(len=256) :: message
  integer :: stat

  allocate (w%wqkv(3*MODEL, MODEL), w%bqkv(3*MODEL), w%wo(MODEL, MODEL), w%bo(MODEL), w%w1(HIDDEN, MODEL), w%b1(HIDDEN), &
    w%w2(MODEL, HIDDEN), w%b2(MODEL), w%gain(MODEL, 2), w%shift(MODEL, 2))
  w%heads = 4
  call random_number(w%wqkv)
  call random_number(w%wo)
  call random_number(w%w1)
  call random_number(w%w2)
  w%wqkv = (w%wqkv - 0.5)/sqrt(real(MODEL))
  w%wo = (w%wo - 0.5)/sqrt(real(MODEL))
  w%w1 = (w%w1 - 0.5)/sqrt(real(MODEL))
  w%w2 = (w%w2 - 0.5)/sqrt(real(HIDDEN))
  w%bqkv = 0
  w%bo = 0
  w%b1 = 0
  w%b2 = 0
  w%gain = 1
  w%shift = 0
  call random_number(x)

  call attile_context_create(ctx, stat=stat, errmsg=message)
  if (stat == 0) call run_block(ctx, w, x, stat, message)
  if (stat /= 0) error stop message
  print '(a, f10.6, a, f10.6)', 'mean ', sum(x)/size(x), ', largest ', maxval(abs(x))
end program fortran_block

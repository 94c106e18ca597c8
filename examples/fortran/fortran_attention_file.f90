! SPDX-License-Identifier: Apache-2.0
! Attention of a file: reads Q, K and V, writes softmax(Q K^T / sqrt(d)) V. The files are those of examples/c/attention_file.c and of
! `attile attention`: int32 B, N, d; then for each of the B batches Q, K and V of N*d float32 each, the d numbers of a row together.
!
!     gfortran fortran_attention_file.f90 $(pkg-config --cflags --libs attile-fortran) -o fortran_attention_file
!     ./fortran_attention_file in.bin out.bin
!
! What to look at: the three matrices lie interleaved in one array, and each is a section of it. Nothing is copied.
program fortran_attention_file
  use attile
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, real32
  implicit none
  type(attile_context) :: ctx
  integer(int32) :: header(3)
  real(real32), allocatable :: qkv(:, :, :, :, :), o(:, :, :, :)
  character(len=1024) :: input, output, message
  integer :: in, out, stat

  if (command_argument_count() /= 2) error stop 'usage: fortran_attention_file INPUT OUTPUT'
  call get_command_argument(1, input)
  call get_command_argument(2, output)
  open (newunit=in, file=input, access='stream', form='unformatted', status='old', action='read', iostat=stat, iomsg=message)
  if (stat == 0) read (in, iostat=stat, iomsg=message) header
  if (stat == 0 .and. any(header < 1)) then
    stat = 1
    message = trim(input)//': B, N and d must be at least 1'
  end if
  associate (batch => header(1), len => header(2), head_dim => header(3))
    ! Fortran counts the dimension first that lies closest together: a row's head_dim numbers, rows, one head, which matrix, batch.
    if (stat == 0) allocate (qkv(head_dim, len, 1, 3, batch), o(head_dim, len, 1, batch), stat=stat, errmsg=message)
  end associate
  if (stat == 0) read (in, iostat=stat, iomsg=message) qkv
  if (stat == 0) call attile_context_create(ctx, stat=stat, errmsg=message)
  !! [compute]
  if (stat == 0) call attile_attention(ctx, qkv(:, :, :, 1, :), qkv(:, :, :, 2, :), qkv(:, :, :, 3, :), o, stat=stat, &
    errmsg=message)
  !! [compute]
  if (stat == 0) open (newunit=out, file=output, access='stream', form='unformatted', status='replace', iostat=stat, iomsg=message)
  if (stat == 0) write (out, iostat=stat, iomsg=message) o
  if (stat == 0) close (out, iostat=stat, iomsg=message)
  if (stat /= 0) then
    write (error_unit, '(2a)') 'fortran_attention_file: ', trim(message)
    error stop 1, quiet=.true.
  end if
  print '(2a, 3(a, i0))', trim(output), ':', ' B = ', header(1), ', N = ', header(2), ', d = ', header(3)
  deallocate (qkv, o)  ! A main program's variables live to its end, past the checkers of leaks.
end program fortran_attention_file

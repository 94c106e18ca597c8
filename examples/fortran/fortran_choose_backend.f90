! SPDX-License-Identifier: Apache-2.0
! Choosing where to run, and finding out why it is not where you thought.
!
!     gfortran fortran_choose_backend.f90 $(pkg-config --cflags --libs attile-fortran) -o fortran_choose_backend
!     ./fortran_choose_backend            what ATTILE_BACKEND says, else the best that can run here
!     ./fortran_choose_backend cuda,cpu   the first of a list that can
!     ./fortran_choose_backend cuda:1     the second device of one backend, strictly: nothing else will do
program fortran_choose_backend
  use attile
  use, intrinsic :: iso_c_binding, only: c_null_ptr
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  type(attile_context) :: ctx
  type(attile_context_info) :: info
  type(attile_gemm_args) :: args
  type(attile_support) :: support
  character(len=256) :: selection, message
  integer :: stat

  !! [choose]
  if (command_argument_count() > 0) then
    call get_command_argument(1, selection)
    call attile_context_create(ctx, selection, stat=stat, errmsg=message)
  else
    call attile_context_create(ctx, stat=stat, errmsg=message)
  end if
  if (stat /= 0) then
    write (error_unit, '(4a)') 'fortran_choose_backend: ', attile_status_name(stat), ': ', trim(message)
    write (error_unit, '(a)') 'backends tried:', attile_backend_report()
    error stop 1, quiet=.true.
  end if
  !! [choose]
  call attile_context_get_info(ctx, info)
  print '(a)', 'backend: '//attile_text(info%backend)//' '//attile_text(info%backend_version)
  print '(a)', 'device:  '//attile_text(info%device_name)//' '//attile_text(info%arch)

  ! A query reads no data, so the tensors need none; float16 has no Fortran kind and is asked about all the same.
  !! [query]
  call attile_gemm_init(args)
  args%a = attile_matrix_of(c_null_ptr, ATTILE_F16, [1024, 1024])
  args%b = args%a
  args%d = args%a
  call attile_gemm_query(ctx, args, support)
  !! [query]
  if (support%level == ATTILE_SUPPORT_NONE) then
    print '(a)', 'product of float16 matrices: no, '//attile_text(support%text)
  else
    print '(a)', 'product of float16 matrices: yes, by '//attile_text(support%kernel)
  end if
  print '(a)', 'backends tried:', attile_backend_report()
end program fortran_choose_backend

! SPDX-License-Identifier: Apache-2.0
! Decoding with a K/V cache stored (head_dim, heads, len): each step appends one column of heads and computes one row of attention.
!
!     gfortran fortran_decode.f90 $(pkg-config --cflags --libs attile-fortran) -o fortran_decode && ./fortran_decode
!
! The library wants (head_dim, len, heads). An array section cannot exchange dimensions, a tensor can: it carries a stride for each, so
! the cache is used as it lies. The program compares the rows with those of one causal attention of the whole sequence.
program fortran_decode
  use attile
  use, intrinsic :: iso_c_binding, only: c_loc
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real32
  implicit none
  integer, parameter :: head_dim = 16, heads_q = 8, heads_kv = 2, most = 24
  type(attile_context) :: ctx
  type(attile_attention_args) :: args
  real(real32), target :: q(head_dim, heads_q, most), o(head_dim, heads_q, most), expected(head_dim, heads_q, most)
  real(real32), target :: k(head_dim, heads_kv, most), v(head_dim, heads_kv, most)
  real(real32), target :: k_cache(head_dim, heads_kv, most), v_cache(head_dim, heads_kv, most)
  character(len=512) :: message
  integer :: len, stat

  call random_number(q)
  call random_number(k)
  call random_number(v)
  call attile_context_create(ctx, stat=stat, errmsg=message)

  call attile_attention_init(args)
  args%q = heads_first(q, 1, most)
  args%k = heads_first(k, 1, most)
  args%v = heads_first(v, 1, most)
  args%o = heads_first(expected, 1, most)
  args%mask = ATTILE_MASK_CAUSAL_TOP_LEFT
  if (stat == 0) call attile_attention(ctx, args, stat, message)

  !! [step]
  call attile_attention_init(args)
  do len = 1, most
    k_cache(:, :, len) = k(:, :, len)
    v_cache(:, :, len) = v(:, :, len)
    args%q = heads_first(q, len, 1)
    args%k = heads_first(k_cache, 1, len)  ! the keys so far
    args%v = heads_first(v_cache, 1, len)
    args%o = heads_first(o, len, 1)
    if (stat == 0) call attile_attention(ctx, args, stat, message)
  end do
  !! [step]

  if (stat == 0 .and. .not. all(abs(o - expected) <= 1e-5)) then
    stat = 1
    message = 'the rows are not those of the whole sequence'
  end if
  if (stat /= 0) then
    write (error_unit, '(2a)') 'fortran_decode: ', trim(message)
    error stop 1, quiet=.true.
  end if
  print '(i0, a)', most, ' steps, each row that of the whole sequence'

contains

  !! [view]
  ! `len` positions from `first` of an array (head_dim, heads, len), as the tensor (head_dim, len, heads, 1).
  function heads_first(array, first, len) result(tensor)
    real(real32), intent(in), target, contiguous :: array(:, :, :)
    integer, intent(in) :: first, len
    type(attile_tensor) :: tensor
    integer :: extents(4)
    integer(int64) :: strides(4)  ! in elements
    extents = [size(array, 1), len, size(array, 2), 1]
    strides = [1, size(array, 1)*size(array, 2), size(array, 1), size(array)]
    tensor = attile_tensor_of(c_loc(array(1, 1, first)), ATTILE_F32, extents, strides)
  end function heads_first
  !! [view]
end program fortran_decode

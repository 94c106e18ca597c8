! SPDX-License-Identifier: Apache-2.0
! Tensors of Fortran arrays and of bare addresses: where the order of dimensions is turned around, once.
module attile_views
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use attile_constants
  use attile_errors, only: conclude
  use attile_types, only: attile_tensor
  implicit none (type, external)
  private
  public :: attile_tensor_of, attile_matrix_of, set_view, ORDER_REVERSED, ORDER_MATRIX

  integer(c_int32_t), parameter :: ORDER_REVERSED = 0, ORDER_MATRIX = 1  ! as attile_fortran_shim.c has them

  !> A tensor whose axes are the array's dimensions in the opposite order: q(head_dim, len, heads, batch) becomes
  !> [batch, heads, len, head_dim]. The array must be a TARGET, and stay where it is while the tensor is used. Instead
  !> of an array: an address, which may be the device's, with a data type, extents in Fortran's order and optionally
  !> strides in elements (absent: dense).
  interface attile_tensor_of
    module procedure tensor_of_real32, tensor_of_real64, tensor_of_int32, tensor_of_bool, tensor_of_address
  end interface attile_tensor_of

  !> A tensor for attile_gemm: a(m, n, batch) becomes [batch, m, n], so that rows stay rows. Else as attile_tensor_of,
  !> which transposes.
  interface attile_matrix_of
    module procedure matrix_of_real32, matrix_of_real64, matrix_of_address
  end interface attile_matrix_of

  interface
    function fortran_view(array, dtype, order, rank, part, tensor) result(dimension) bind(c, name='attile_fortran_view')
      import :: c_int32_t, attile_tensor
      implicit none
      ! TARGET: the address outlives the call, inside the tensor.
      type(*), intent(in), target, optional :: array(..)
      integer(c_int32_t), value :: dtype, order, rank, part
      type(attile_tensor), intent(inout) :: tensor
      integer(c_int32_t) :: dimension
    end function fortran_view
  end interface

contains

  ! The tensor of an array that may be absent. `wrong` is left alone, or gets the sentence that says why there is none.
  subroutine set_view(wrong, name, tensor, array, dtype, order, rank, part)
    character(len=:), allocatable, intent(inout) :: wrong
    character(len=*), intent(in) :: name
    type(attile_tensor), intent(inout) :: tensor
    type(*), intent(in), target, optional :: array(..)
    integer(c_int32_t), intent(in) :: dtype
    integer(c_int32_t), intent(in), optional :: order
    integer, intent(in), optional :: rank, part
    integer(c_int32_t) :: the_order, the_rank, the_part, dimension
    character(len=12) :: digits
    the_order = ORDER_REVERSED
    the_rank = 0
    the_part = -1
    if (present(order)) the_order = order
    if (present(rank)) the_rank = int(rank, c_int32_t)
    if (present(part)) the_part = int(part, c_int32_t)
    dimension = fortran_view(array, dtype, the_order, the_rank, the_part, tensor)
    if (dimension == 0 .or. allocated(wrong)) return
    write (digits, '(i0)') dimension
    wrong = name//': neighbours along dimension '//trim(digits)//' are not a whole number of elements apart'
  end subroutine set_view

  function tensor_of_real32(array, stat, errmsg) result(tensor)
    real(real32), intent(in), target :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_tensor) :: tensor
    call view_alone(tensor, array, ATTILE_F32, ORDER_REVERSED, stat, errmsg)
  end function tensor_of_real32

  function tensor_of_real64(array, stat, errmsg) result(tensor)
    real(real64), intent(in), target :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_tensor) :: tensor
    call view_alone(tensor, array, ATTILE_F64, ORDER_REVERSED, stat, errmsg)
  end function tensor_of_real64

  function tensor_of_int32(array, stat, errmsg) result(tensor)
    integer(int32), intent(in), target :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_tensor) :: tensor
    call view_alone(tensor, array, ATTILE_I32, ORDER_REVERSED, stat, errmsg)
  end function tensor_of_int32

  function tensor_of_bool(array, stat, errmsg) result(tensor)
    logical(c_bool), intent(in), target :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_tensor) :: tensor
    call view_alone(tensor, array, ATTILE_BOOL, ORDER_REVERSED, stat, errmsg)
  end function tensor_of_bool

  function matrix_of_real32(array, stat, errmsg) result(tensor)
    real(real32), intent(in), target :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_tensor) :: tensor
    call view_alone(tensor, array, ATTILE_F32, ORDER_MATRIX, stat, errmsg)
  end function matrix_of_real32

  function matrix_of_real64(array, stat, errmsg) result(tensor)
    real(real64), intent(in), target :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_tensor) :: tensor
    call view_alone(tensor, array, ATTILE_F64, ORDER_MATRIX, stat, errmsg)
  end function matrix_of_real64

  subroutine view_alone(tensor, array, dtype, order, stat, errmsg)
    type(attile_tensor), intent(inout) :: tensor
    type(*), intent(in), target :: array(..)
    integer(c_int32_t), intent(in) :: dtype, order
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=:), allocatable :: wrong
    call set_view(wrong, 'array', tensor, array, dtype, order)
    if (allocated(wrong)) then
      call conclude(ATTILE_ERROR_INVALID_STRIDE, stat, errmsg, wrong)
    else
      call conclude(ATTILE_OK, stat, errmsg)
    end if
  end subroutine view_alone

  pure function tensor_of_address(address, dtype, extents, strides) result(tensor)
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: dtype
    integer, intent(in) :: extents(:)
    integer(int64), intent(in), optional :: strides(:)
    type(attile_tensor) :: tensor
    integer(int64) :: dense
    integer :: dim, axis
    tensor%data = address
    tensor%dtype = dtype
    tensor%rank = int(size(extents), c_int32_t)
    if (size(extents) > 4) return  ! the library says so
    dense = 1
    do dim = 1, size(extents)
      axis = size(extents) + 1 - dim
      tensor%shape(axis) = extents(dim)
      tensor%stride(axis) = dense
      if (present(strides)) tensor%stride(axis) = strides(dim)
      dense = dense*extents(dim)
    end do
  end function tensor_of_address

  pure function matrix_of_address(address, dtype, extents, strides) result(tensor)
    type(c_ptr), intent(in) :: address
    integer(c_int32_t), intent(in) :: dtype
    integer, intent(in) :: extents(:)
    integer(int64), intent(in), optional :: strides(:)
    type(attile_tensor) :: tensor
    integer :: last
    tensor = tensor_of_address(address, dtype, extents, strides)
    last = size(extents)
    if (last < 2 .or. last > 4) return
    tensor%shape(last - 1:last) = tensor%shape([last, last - 1])
    tensor%stride(last - 1:last) = tensor%stride([last, last - 1])
  end function matrix_of_address
end module attile_views

! SPDX-License-Identifier: Apache-2.0
! Statuses and texts: how a failure reaches the caller, and C's texts as Fortran's.
module attile_errors
  use, intrinsic :: iso_c_binding
  use attile_constants, only: ATTILE_OK
  use attile_raw, only: raw_version => attile_version, raw_status_name => attile_status_name, raw_last_error => attile_last_error, &
    raw_backend_report => attile_backend_report
  implicit none (type, external)
  private
  public :: attile_version, attile_status_name, attile_last_error, attile_backend_report, attile_text, conclude, c_text

  ! Under C's names as generic ones: a compiler may take a procedure of that very name for C's.
  interface attile_version
    module procedure version
  end interface attile_version
  interface attile_status_name
    module procedure status_name
  end interface attile_status_name
  interface attile_last_error
    module procedure last_error
  end interface attile_last_error
  interface attile_backend_report
    module procedure backend_report
  end interface attile_backend_report

  interface
    function c_strlen(text) result(length) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function c_strlen
  end interface

contains

  !> Version of the library that is loaded: major * 1000000 + minor * 1000 + patch.
  integer function version()
    version = int(raw_version())
  end function version

  !> The name of a status code, as in 'ATTILE_ERROR_SHAPE_MISMATCH'.
  function status_name(status) result(name)
    integer, intent(in) :: status
    character(len=:), allocatable :: name
    character(kind=c_char), pointer :: letters(:)
    type(c_ptr) :: text
    text = raw_status_name(int(status, c_int32_t))
    call c_f_pointer(text, letters, [c_strlen(text)])
    name = joined(letters)
  end function status_name

  !> The whole sentence about this thread's last failure inside the library; empty if there is none.
  function last_error() result(text)
    character(len=:), allocatable :: text
    integer(c_int64_t) :: bytes
    bytes = raw_last_error(capacity=0_c_int64_t)
    allocate (character(len=bytes) :: text)
    bytes = raw_last_error(text, bytes)
    text = text(:len(text) - 1)
  end function last_error

  !> Every candidate backend, one a line: name, file, and why it was chosen or refused.
  function backend_report() result(text)
    character(len=:), allocatable :: text
    integer(c_int64_t) :: wanted, got
    got = raw_backend_report(capacity=0_c_int64_t)
    do  ! another thread may add a line in between
      wanted = got
      if (allocated(text)) deallocate (text)
      allocate (character(len=wanted) :: text)
      got = raw_backend_report(text, wanted)
      if (got <= wanted) exit
    end do
    text = text(:got - 1)
  end function backend_report

  !> A component such as info%backend or support%kernel as a Fortran text, up to its terminating zero.
  pure function attile_text(letters) result(text)
    character(kind=c_char), intent(in) :: letters(:)
    character(len=:), allocatable :: text
    integer :: length
    do length = 0, size(letters) - 1
      if (letters(length + 1) == c_null_char) exit
    end do
    text = joined(letters(:length))
  end function attile_text

  pure function joined(letters) result(text)
    character(kind=c_char), intent(in) :: letters(:)
    character(len=:), allocatable :: text
    integer :: i
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function joined

  ! A text for C. Trailing blanks are Fortran's padding.
  pure function c_text(text) result(terminated)
    character(len=*), intent(in) :: text
    character(len=:), allocatable :: terminated
    terminated = trim(text)//c_null_char
  end function c_text

  ! Hands a status to the caller as ALLOCATE does: with stat it is stored, and errmsg, if there, gets the sentence;
  ! without stat a failure is the end of the program. A sentence of the binding's own replaces the library's.
  subroutine conclude(status, stat, errmsg, sentence)
    integer(c_int32_t), intent(in) :: status
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=*), intent(in), optional :: sentence
    character(len=:), allocatable :: text
    if (present(stat)) stat = int(status)
    if (status == ATTILE_OK) return
    if (present(sentence)) then
      text = sentence
    else
      text = last_error()
    end if
    if (present(errmsg)) errmsg = text
    if (.not. present(stat)) error stop text
  end subroutine conclude
end module attile_errors

! SPDX-License-Identifier: Apache-2.0
! Counting checks, seeded random numbers, and a NaN that no comparison passes.
module fortran_test_tools
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real32, real64
  use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_quiet_nan
  implicit none (type, external)
  private
  public :: check, check_text, finish, fill, nan, real64

  integer :: failures = 0, checks = 0
  integer(int64) :: state = 88172645463325252_int64

  interface fill
    module procedure fill_real32, fill_real64
  end interface fill

contains

  subroutine check(ok, what)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: what
    checks = checks + 1
    if (ok) return
    failures = failures + 1
    write (error_unit, '(2a)') 'failed: ', what
  end subroutine check

  ! Does the text hold this piece?
  subroutine check_text(text, piece, what)
    character(len=*), intent(in) :: text, piece, what
    call check(index(text, piece) > 0, what//': "'//trim(text)//'" lacks "'//piece//'"')
  end subroutine check_text

  subroutine finish()
    write (*, '(i0, a, i0, a)') checks, ' checks, ', failures, ' failures'
    if (checks == 0 .or. failures > 0) error stop 1
  end subroutine finish

  pure real(real64) function nan()
    nan = ieee_value(nan, ieee_quiet_nan)
  end function nan

  ! The next number in [-1, 1), always the same sequence: xorshift.
  real(real64) function next()
    state = ieor(state, ishft(state, 13))
    state = ieor(state, ishft(state, -7))
    state = ieor(state, ishft(state, 17))
    next = real(ishft(state, -11), real64)/2.0_real64**52 - 1
  end function next

  impure elemental subroutine fill_real64(x)
    real(real64), intent(out) :: x
    x = next()
  end subroutine fill_real64

  impure elemental subroutine fill_real32(x)
    real(real32), intent(out) :: x
    x = real(next(), real32)
  end subroutine fill_real32
end module fortran_test_tools

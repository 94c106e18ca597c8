! SPDX-License-Identifier: Apache-2.0
! Attention as its definition reads, in double precision and with every variation spelt out as a bias on the scores.
module fortran_naive
  use, intrinsic :: iso_fortran_env, only: real64
  use, intrinsic :: ieee_arithmetic, only: ieee_value, ieee_negative_inf
  implicit none (type, external)
  private
  public :: naive_attention, minus_infinity

contains

  pure real(real64) function minus_infinity()
    minus_infinity = ieee_value(minus_infinity, ieee_negative_inf)
  end function minus_infinity

  ! bias(len_k, len_q, heads_q, batch) is added to every score; sinks(heads_q) may be -inf for none.
  subroutine naive_attention(q, k, v, bias, sinks, scale, softcap, o, lse)
    real(real64), intent(in) :: q(:, :, :, :), k(:, :, :, :), v(:, :, :, :), bias(:, :, :, :), sinks(:), scale, softcap
    real(real64), intent(out) :: o(:, :, :, :), lse(:, :, :)
    real(real64) :: s(size(k, 2)), largest, total
    integer :: b, h, g, i, j
    do b = 1, size(q, 4)
      do h = 1, size(q, 3)
        g = 1 + (h - 1)/(size(q, 3)/size(k, 3))
        do i = 1, size(q, 2)
          do j = 1, size(k, 2)
            s(j) = scale*dot_product(q(:, i, h, b), k(:, j, g, b))
            if (softcap > 0) s(j) = softcap*tanh(s(j)/softcap)
            s(j) = s(j) + bias(j, i, h, b)
          end do
          largest = max(maxval(s), sinks(h))
          if (.not. largest > minus_infinity()) then
            o(:, i, h, b) = 0
            lse(i, h, b) = minus_infinity()
            cycle
          end if
          total = sum(exp(s - largest)) + exp(sinks(h) - largest)
          do j = 1, size(v, 1)
            o(j, i, h, b) = sum(exp(s - largest)*v(j, :, g, b))/total
          end do
          lse(i, h, b) = largest + log(total)
        end do
      end do
    end do
  end subroutine naive_attention
end module fortran_naive

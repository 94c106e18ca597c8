! SPDX-License-Identifier: Apache-2.0
! The example's transformer block against the same block written out in double precision.
program fortran_block_test
  use attile
  use fortran_naive
  use fortran_test_tools
  use transformer_block
  use, intrinsic :: iso_fortran_env, only: real32
  implicit none (type, external)
  integer, parameter :: MODEL = 24, HIDDEN = 40, LEN = 9, BATCH = 2, HEADS = 3, HEAD_DIM = MODEL/HEADS
  type(attile_context) :: ctx
  type(block_weights) :: w
  real(real32) :: x(MODEL, LEN, BATCH)
  real(real64) :: expected(MODEL, LEN, BATCH)
  character(len=300) :: message
  integer :: stat
  allocate (w%wqkv(3*MODEL, MODEL), w%bqkv(3*MODEL), w%wo(MODEL, MODEL), w%bo(MODEL), w%w1(HIDDEN, MODEL), w%b1(HIDDEN), &
    w%w2(MODEL, HIDDEN), w%b2(MODEL), w%gain(MODEL, 2), w%shift(MODEL, 2))
  w%heads = HEADS
  call fill(w%wqkv)
  call fill(w%bqkv)
  call fill(w%wo)
  call fill(w%bo)
  call fill(w%w1)
  call fill(w%b1)
  call fill(w%w2)
  call fill(w%b2)
  call fill(w%gain)
  call fill(w%shift)
  call fill(x)
  expected = real(x, real64)
  call block_in_double(expected)
  call attile_context_create(ctx)
  call run_block(ctx, w, x, stat, message)
  call check(stat == 0, 'the block runs')
  call check(maxval(abs(expected)) > 1, 'the block does something')
  call check(all(abs(x - expected) <= 1e-5_real64*maxval(abs(expected))), 'the block is right')

  deallocate (w%w2)
  allocate (w%w2(MODEL, HIDDEN + 1))
  w%w2 = 0
  call run_block(ctx, w, x, stat, message)
  call check(stat == ATTILE_ERROR_SHAPE_MISMATCH, 'weights that do not fit')
  call check_text(message, 'shape', 'weights that do not fit')
  call finish()

contains

  subroutine block_in_double(y)
    real(real64), intent(inout) :: y(:, :, :)
    real(real64) :: q(HEAD_DIM, LEN, HEADS, BATCH), k(HEAD_DIM, LEN, HEADS, BATCH), v(HEAD_DIM, LEN, HEADS, BATCH)
    real(real64) :: o(HEAD_DIM, LEN, HEADS, BATCH), lse(LEN, HEADS, BATCH), hidden_from(LEN, LEN, HEADS, BATCH), no_sinks(HEADS)
    real(real64) :: qkv(3*MODEL), inner(HIDDEN)
    integer :: b, i, h, first
    do b = 1, BATCH
      do i = 1, LEN
        qkv = matmul(real(w%wqkv, real64), normal(y(:, i, b), 1)) + w%bqkv
        do h = 1, HEADS
          first = (h - 1)*HEAD_DIM
          q(:, i, h, b) = qkv(first + 1:first + HEAD_DIM)
          k(:, i, h, b) = qkv(MODEL + first + 1:MODEL + first + HEAD_DIM)
          v(:, i, h, b) = qkv(2*MODEL + first + 1:2*MODEL + first + HEAD_DIM)
        end do
      end do
    end do
    hidden_from = 0
    do i = 1, LEN
      hidden_from(i + 1:, i, :, :) = minus_infinity()
    end do
    no_sinks = minus_infinity()
    call naive_attention(q, k, v, hidden_from, no_sinks, 1/sqrt(real(HEAD_DIM, real64)), 0.0_real64, o, lse)
    do b = 1, BATCH
      do i = 1, LEN
        y(:, i, b) = y(:, i, b) + matmul(real(w%wo, real64), reshape(o(:, i, :, b), [MODEL])) + w%bo
        inner = matmul(real(w%w1, real64), normal(y(:, i, b), 2)) + w%b1
        inner = inner/2*(1 + erf(inner/sqrt(2.0_real64)))
        y(:, i, b) = y(:, i, b) + matmul(real(w%w2, real64), inner) + w%b2
      end do
    end do
  end subroutine block_in_double

  function normal(column, which)
    real(real64), intent(in) :: column(:)
    integer, intent(in) :: which
    real(real64) :: normal(size(column)), mean
    mean = sum(column)/size(column)
    normal = (column - mean)/sqrt(sum((column - mean)**2)/size(column) + 1e-5_real64)*w%gain(:, which) + w%shift(:, which)
  end function normal
end program fortran_block_test

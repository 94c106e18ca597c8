! SPDX-License-Identifier: Apache-2.0
! One block of a transformer, pre-norm, on x(model, len, batch):
!
!     x <- x + Wo attention(Wqkv norm(x) + bqkv) + bo
!     x <- x + W2 gelu(W1 norm(x) + b1) + b2
!
! The projections are attile_gemm with bias and gelu in the same pass, heads are sections of the projections' result, and each residual is
! beta = 1. Layer norm is plain Fortran. fortran_block.f90 runs it.
module transformer_block
  use attile
  use, intrinsic :: iso_fortran_env, only: real32
  implicit none
  private
  public :: block_weights, run_block

  type :: block_weights
    real(real32), allocatable :: wqkv(:, :), bqkv(:), wo(:, :), bo(:), w1(:, :), b1(:), w2(:, :), b2(:)
    real(real32), allocatable :: gain(:, :), shift(:, :)  ! of the two layer norms
    integer :: heads = 1
  end type block_weights

contains

  subroutine run_block(ctx, weights, x, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    type(block_weights), intent(in) :: weights
    real(real32), intent(inout), contiguous, target :: x(:, :, :)  ! (model, len, batch)
    integer, intent(out) :: stat
    character(len=*), intent(inout) :: errmsg
    real(real32), allocatable, target :: normal(:, :), qkv(:, :), mixed(:, :), hidden(:, :)
    real(real32), pointer :: rows(:, :), heads(:, :, :, :, :), out(:, :, :, :)
    integer :: model, len, batch, head_dim
    model = size(x, 1)
    len = size(x, 2)
    batch = size(x, 3)
    head_dim = model/weights%heads
    allocate (normal(model, len*batch), qkv(3*model, len*batch), mixed(model, len*batch), hidden(size(weights%w1, 1), len*batch), &
      stat=stat, errmsg=errmsg)
    if (stat /= 0) return
    rows(1:model, 1:len*batch) => x

    call layer_norm(rows, weights%gain(:, 1), weights%shift(:, 1), normal)
    call attile_gemm(ctx, weights%wqkv, normal, qkv, bias=weights%bqkv, bias_axis=ATTILE_BIAS_ROWS, stat=stat, errmsg=errmsg)
    if (stat /= 0) return
    ! A projection's column holds q, k and v, each of them head after head: (head_dim, heads, 3, len, batch), of which attention takes
    ! (head_dim, len, heads, batch). The library follows strides, so the heads go as they lie, one tensor each and no copy.
    heads(1:head_dim, 1:weights%heads, 1:3, 1:len, 1:batch) => qkv
    out(1:head_dim, 1:weights%heads, 1:len, 1:batch) => mixed
    call attention_of_heads(ctx, heads, out, stat, errmsg)
    if (stat /= 0) return
    call attile_gemm(ctx, weights%wo, mixed, rows, beta=1.0, bias=weights%bo, bias_axis=ATTILE_BIAS_ROWS, stat=stat, errmsg=errmsg)
    if (stat /= 0) return

    call layer_norm(rows, weights%gain(:, 2), weights%shift(:, 2), normal)
    call attile_gemm(ctx, weights%w1, normal, hidden, bias=weights%b1, bias_axis=ATTILE_BIAS_ROWS, &
      activation=ATTILE_ACTIVATION_GELU, stat=stat, errmsg=errmsg)
    if (stat /= 0) return
    call attile_gemm(ctx, weights%w2, hidden, rows, beta=1.0, bias=weights%b2, bias_axis=ATTILE_BIAS_ROWS, stat=stat, errmsg=errmsg)
  end subroutine run_block

  ! An array section cannot exchange dimensions, a tensor can: its axes are in C's order [batch, heads, len, head_dim].
  subroutine attention_of_heads(ctx, heads, out, stat, errmsg)
    type(attile_context), intent(in) :: ctx
    real(real32), intent(inout), target :: heads(:, :, :, :, :), out(:, :, :, :)
    integer, intent(out) :: stat
    character(len=*), intent(inout) :: errmsg
    type(attile_attention_args) :: args
    call attile_attention_init(args)
    args%q = exchanged(attile_tensor_of(heads(:, :, 1, :, :)))
    args%k = exchanged(attile_tensor_of(heads(:, :, 2, :, :)))
    args%v = exchanged(attile_tensor_of(heads(:, :, 3, :, :)))
    args%o = exchanged(attile_tensor_of(out))
    args%mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT
    call attile_attention(ctx, args, stat, errmsg)
  end subroutine attention_of_heads

  pure function exchanged(tensor)
    type(attile_tensor), intent(in) :: tensor
    type(attile_tensor) :: exchanged
    exchanged = tensor
    exchanged%shape(2:3) = tensor%shape([3, 2])
    exchanged%stride(2:3) = tensor%stride([3, 2])
  end function exchanged

  pure subroutine layer_norm(x, gain, shift, y)
    real(real32), intent(in) :: x(:, :), gain(:), shift(:)
    real(real32), intent(out) :: y(:, :)
    real(real32) :: mean, variance
    integer :: i
    do i = 1, size(x, 2)
      mean = sum(x(:, i))/size(x, 1)
      variance = sum((x(:, i) - mean)**2)/size(x, 1)
      y(:, i) = (x(:, i) - mean)/sqrt(variance + 1e-5_real32)*gain + shift
    end do
  end subroutine layer_norm
end module transformer_block

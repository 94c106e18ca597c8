! SPDX-License-Identifier: Apache-2.0
program fortran_first_attention
  use attile
  implicit none
  type(attile_context) :: ctx
  real :: x(8, 6, 2), o(8, 6, 2)  ! head dimension 8, 6 rows, 2 heads; the same for q, k and v
  integer :: i
  x = reshape([(real(modulo(i*37, 101) - 50)/64, i=0, 95)], shape(x))
  call attile_context_create(ctx)
  ! With an argument: a value too few, to see what an error looks like.
  call attile_attention(ctx, x, x, x(:, :6 - command_argument_count(), :), o, mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT)
  print '(es16.8)', o
end program fortran_first_attention

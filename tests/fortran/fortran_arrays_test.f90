! SPDX-License-Identifier: Apache-2.0
! Operations on arrays against plain loops: whole arrays, sections of every kind, ranks 2 to 4, empty arrays, both kinds.
program fortran_arrays_test
  use attile
  use fortran_test_tools
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real32
  implicit none (type, external)
  type(attile_context) :: ctx
  call attile_context_create(ctx)
  call products_of_whole_arrays()
  call products_of_sections()
  call products_with_epilogues()
  call products_in_batches()
  call products_of_nothing()
  call blas_names()
  call reductions()
  call softmaxes()
  call argument_structs()
  call memory_of_the_device()
  call finish()

contains

  subroutine products_of_whole_arrays()
    real(real32) :: a(33, 17), b(17, 21), c(33, 21), at(17, 33), bt(21, 17)
    real(real64) :: a8(33, 17), b8(17, 21), c8(33, 21)
    call fill(a)
    call fill(b)
    at = transpose(a)
    bt = transpose(b)
    c = real(nan(), real32)
    call attile_gemm(ctx, a, b, c)
    call near(real(c, real64), matmul(real(a, real64), real(b, real64)), 1e-5_real64, 'real32 product')
    c = real(nan(), real32)
    call attile_gemm(ctx, at, bt, c, transa='T', transb='c')
    call near(real(c, real64), matmul(real(a, real64), real(b, real64)), 1e-5_real64, 'real32 product of transposed')
    call fill(a8)
    call fill(b8)
    c8 = nan()
    call attile_gemm(ctx, a8, b8, c8)
    call near(c8, matmul(a8, b8), 1e-13_real64, 'real64 product')
    call fill(c8)
    call attile_gemm(ctx, a8, b8, c8, alpha=-0.5_real64)
    call near(c8, -0.5_real64*matmul(a8, b8), 1e-13_real64, 'alpha')
  end subroutine products_of_whole_arrays

  subroutine products_of_sections()
    real(real64) :: a(20, 30), b(30, 20), c(20, 20), before(20, 20)
    type :: pair
      real(real64) :: x, y
    end type pair
    type :: odd
      sequence
      real(real64) :: x
      integer :: i
    end type odd
    type(pair) :: p(6, 5), q(6, 5)
    real(real64) :: x(6, 5), y(6, 5)
    complex(real64), target :: z(6, 5)
    real(real64), pointer :: imaginary(:, :)
    character(len=200) :: message
    integer :: stat
    call fill(a)
    call fill(b)
    c = nan()
    before = c
    call attile_gemm(ctx, a(2:12:2, 30:4:-3), b(1:9, 19:1:-2), c(7:2:-1, 3:12))
    call near(c(7:2:-1, 3:12), matmul(a(2:12:2, 30:4:-3), b(1:9, 19:1:-2)), 1e-13_real64, 'steps and negative strides')
    c(7:2:-1, 3:12) = nan()
    call check(all(transfer(c, [0_int64]) == transfer(before, [0_int64])), 'nothing outside the section is written')
    call fill(p%x)
    call fill(p%y)
    x = p%x  ! where GCC 12 calls its library for matmul, that of the components themselves is wrong
    y = p%y
    c(:6, :6) = nan()
    call attile_gemm(ctx, p%y, transpose(p%x), c(:6, :6))
    call near(c(:6, :6), matmul(y, transpose(x)), 1e-13_real64, 'components of an array of a derived type')
    q = p
    q%y = nan()
    call attile_gemm(ctx, p%y, transpose(p(:5, :)%x), q(:, :5)%y)
    call near(q%y, matmul(y, transpose(x(:5, :))), 1e-13_real64, 'components as the result')
    call near(q%x, p%x, 0.0_real64, 'the components between are left alone')
    z = cmplx(p%x, p%y, real64)
    imaginary => z%im  ! GCC 12 fails to compile z%im as the argument itself
    call attile_gemm(ctx, imaginary, p%x, c(:6, :6), transb='T')
    call near(c(:6, :6), matmul(y, transpose(x)), 1e-13_real64, 'imaginary parts')
    c(:6, :1) = nan()
    call attile_gemm(ctx, a(:6, [3, 1, 9]), b(:3, 5:5), c(:6, :1))
    call near(c(:6, :1), matmul(a(:6, [3, 1, 9]), b(:3, 5:5)), 1e-13_real64, 'a vector subscript, which the compiler copies')
    ! Where neighbours are no whole number of elements apart no tensor can say where they lie. Most compilers pad such types.
    block
      type(odd) :: r(4, 4)
      r%x = 1
      if (storage_size(r) == 96) then
        call attile_gemm(ctx, r%x, r%x, c(:4, :4), stat=stat, errmsg=message)
        call check(stat == ATTILE_ERROR_INVALID_STRIDE, 'components that are not a whole number of elements apart')
      end if
    end block
  end subroutine products_of_sections

  subroutine products_with_epilogues()
    real(real64) :: a(5, 7), b(7, 6), c(5, 6), d(5, 6), c0(5, 6), rows(5), columns(6), full(5, 6)
    call fill(a)
    call fill(b)
    call fill(c0)
    call fill(rows)
    call fill(columns)
    full = matmul(a, b)
    c = c0
    call attile_gemm(ctx, a, b, c, alpha=2.0_real64, beta=0.5_real64)
    call near(c, 2*full + 0.5_real64*c0, 1e-13_real64, 'beta')
    c = c0
    d = nan()
    call attile_gemm(ctx, a, b, c, d, beta=3.0_real64)
    call near(d, full + 3*c0, 1e-13_real64, 'd of its own')
    call check(all(transfer(c, [0_int64]) == transfer(c0, [0_int64])), 'c is only read when there is a d')
    c = nan()
    call attile_gemm(ctx, a, b, c, bias=rows, bias_axis=ATTILE_BIAS_ROWS, activation=ATTILE_ACTIVATION_RELU)
    call near(c, max(full + spread(rows, 2, 6), 0.0_real64), 1e-13_real64, 'bias of rows, relu')
    c = nan()
    call attile_gemm(ctx, a, b, c, bias=columns(6:1:-1), bias_axis=ATTILE_BIAS_COLUMNS, activation=ATTILE_ACTIVATION_GELU)
    full = full + spread(columns(6:1:-1), 1, 5)
    call near(c, full/2*(1 + erf(full/sqrt(2.0_real64))), 1e-13_real64, 'bias of columns backwards, gelu')
  end subroutine products_with_epilogues

  subroutine products_in_batches()
    real(real64) :: a(4, 3, 5, 2), b(3, 6), c(4, 6, 5, 2), bias(6, 5, 2), want(4, 6)
    integer :: i, j
    call fill(a)
    call fill(b)
    call fill(bias)
    c = nan()
    call attile_gemm(ctx, a, b, c, bias=bias, bias_axis=ATTILE_BIAS_COLUMNS)
    do j = 1, 2
      do i = 1, 5
        want = matmul(a(:, :, i, j), b) + spread(bias(:, i, j), 1, 4)
        call near(c(:, :, i, j), want, 1e-13_real64, 'batches of rank 4 with one b')
      end do
    end do
    c = nan()
    call attile_gemm(ctx, a(:, :, 2, :), b, c(:, :, 4, :))
    do j = 1, 2
      call near(c(:, :, 4, j), matmul(a(:, :, 2, j), b), 1e-13_real64, 'batches of rank 3')
    end do
  end subroutine products_in_batches

  subroutine products_of_nothing()
    real(real64) :: a(4, 0), b(0, 3), c(4, 3), none(0, 3), d(2, 2)
    call fill(c)
    call attile_gemm(ctx, a, b, c)
    call check(all(c == 0), 'an inner extent of 0 gives 0')
    call attile_gemm(ctx, a(1:0, :), b, none)
    call attile_gemm(ctx, d(3:2, :), d, none(:, :2))
    d = nan()
    call attile_gemm(ctx, a(:2, :), b(:, :2), d)
    call check(all(d == 0), 'empty sections')
  end subroutine products_of_nothing

  subroutine blas_names()
    real(real32) :: a(8, 8), b(8, 8), c(8, 8)
    real(real64) :: a8(8, 8), b8(8, 8), c8(8, 8)
    character(len=200) :: message
    integer :: stat
    call fill(a)
    call fill(b)
    c = real(nan(), real32)
    call attile_sgemm(ctx, 'T', 'n', 3, 4, 5, 2.0_real32, a(2, 3), 8, b(1, 2), 8, 0.0_real32, c, 8)
    call near(real(c(:3, :4), real64), real(2*matmul(transpose(a(2:6, 3:5)), b(1:5, 2:5)), real64), 1e-5_real64, 'sgemm')
    call fill(a8)
    call fill(b8)
    c8 = nan()
    call attile_dgemm(ctx, 'N', 'T', 3, 4, 5, 1.0_real64, a8, 8, b8, 8, 0.0_real64, c8(2, 2), 8)
    call near(c8(2:4, 2:5), matmul(a8(:3, :5), transpose(b8(:4, :5))), 1e-13_real64, 'dgemm')
    call attile_dgemm(ctx, 'X', 'T', 3, 4, 5, 1.0_real64, a8, 8, b8, 8, 0.0_real64, c8, 8, stat, message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'dgemm with a letter that is none')
    call check_text(message, 'transa', 'dgemm with a letter that is none')
    call attile_dgemm(ctx, 'N', 'N', 3, 4, 5, 1.0_real64, a8, 2, b8, 8, 0.0_real64, c8, 8, stat, message)
    call check_text(message, 'lda', 'dgemm with a leading dimension too small')
  end subroutine blas_names

  subroutine reductions()
    real(real64) :: x(5, 4, 3), y(5, 3), keep(5, 1, 3), vector(3), scalar
    call fill(x)
    y = nan()
    call attile_reduce(ctx, x, y, ATTILE_REDUCE_SUM, 2)
    call near(y, sum(x, 2), 1e-14_real64, 'sum')
    keep = nan()
    call attile_reduce(ctx, x, keep, ATTILE_REDUCE_MAX, 2)
    call near(keep(:, 1, :), maxval(x, 2), 0.0_real64, 'max, dimension kept')
    y(:4, :) = nan()
    call attile_reduce(ctx, x(5:1:-2, :, :), y(:4, :), ATTILE_REDUCE_MIN, 1)
    call near(y(:4, :), minval(x(5:1:-2, :, :), 1), 0.0_real64, 'min of a section')
    vector = x(2, 3, :)
    call attile_reduce(ctx, vector, scalar, ATTILE_REDUCE_MEAN, 1)
    call check(abs(scalar - sum(vector)/3) <= 1e-15_real64, 'mean of a vector into a scalar')
  end subroutine reductions

  subroutine softmaxes()
    real(real64) :: x(5, 4), y(5, 4), want(5, 4)
    integer :: i
    call fill(x)
    do i = 1, 5
      want(i, :) = exp(x(i, :))/sum(exp(x(i, :)))
    end do
    y = nan()
    call attile_softmax(ctx, x, y, 2)
    call near(y, want, 1e-15_real64, 'softmax')
    call attile_softmax(ctx, x, 2)
    call near(x, want, 1e-15_real64, 'softmax in place')
  end subroutine softmaxes

  subroutine argument_structs()
    real(real64), target :: a(6, 5), b(5, 4), c(6, 4), expected(6, 4)
    type(attile_gemm_args) :: args
    type(attile_support) :: support
    type(attile_tensor) :: one, other
    call fill(a)
    call fill(b)
    expected = matmul(a, b)
    call attile_gemm_arguments(args, a, b, c)
    call attile_gemm_query(ctx, args, support)
    call check(support%level /= ATTILE_SUPPORT_NONE .and. len(attile_text(support%kernel)) > 0, 'a query by arrays')
    c = nan()
    call attile_gemm(ctx, args)
    call near(c, expected, 1e-14_real64, 'arguments of arrays, then the call')
    call attile_gemm_init(args)
    args%a = attile_matrix_of(a)
    args%b = attile_matrix_of(c_loc(b), ATTILE_F64, [5, 4])
    args%d = attile_matrix_of(c_loc(c), ATTILE_F64, [6, 4], strides=[1_int64, 6_int64])
    c = nan()
    call attile_gemm(ctx, args)
    call near(c, expected, 1e-14_real64, 'tensors of addresses')
    one = attile_tensor_of(a(:, 5:1:-2))
    other = attile_tensor_of(c_loc(a(1, 5)), ATTILE_F64, [6, 3], [1_int64, -12_int64])
    call check(c_associated(one%data, other%data) .and. all(one%shape == other%shape) .and. all(one%stride == other%stride) &
      .and. one%rank == 2 .and. one%dtype == ATTILE_F64, 'the same tensor of a section and of an address')
    ! float16 has no kind in Fortran and is an address all the same.
    args%a = attile_matrix_of(c_null_ptr, ATTILE_F16, [64, 64])
    args%b = args%a
    args%d = args%a
    call attile_gemm_query(ctx, args, support)
    call check(support%status == ATTILE_OK, 'a query in float16')
  end subroutine argument_structs

  subroutine memory_of_the_device()
    real(real32), target :: x(10), y(10)
    type(c_ptr) :: device, stream
    integer(c_int32_t) :: kind
    integer :: stat
    character(len=200) :: message
    call fill(x)
    call attile_alloc(ctx, ATTILE_MEMORY_DEVICE, 40_int64, device)
    call attile_stream_create(ctx, stream)
    call attile_copy(ctx, device, c_loc(x), 40_int64, stream)
    call attile_copy(ctx, c_loc(y), device, 40_int64, stream)
    call attile_synchronize(ctx, stream)
    call check(all(x == y), 'there and back')
    call attile_memory_kind(ctx, device, kind)
    call attile_prefetch(ctx, c_loc(x), 40_int64, ATTILE_MEMORY_HOST)
    call attile_stream_destroy(ctx, stream)
    call attile_free(ctx, device)
    call check(.not. c_associated(device), 'what was freed is null')
    call attile_free(ctx, device)
    device = c_loc(x)
    call attile_free(ctx, device, stat, message)
    call check(stat == ATTILE_ERROR_UNKNOWN_POINTER, 'memory that was not given out')
  end subroutine memory_of_the_device

  subroutine near(got, want, tolerance, what)
    real(real64), intent(in) :: got(:, :), want(:, :), tolerance
    character(len=*), intent(in) :: what
    call check(all(shape(got) == shape(want)) .and. all(abs(got - want) <= tolerance*(1 + abs(want))), what)
  end subroutine near
end program fortran_arrays_test

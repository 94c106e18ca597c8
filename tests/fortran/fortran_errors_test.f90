! SPDX-License-Identifier: Apache-2.0
! What goes wrong: stat and errmsg, the library's sentences, contexts that are closed, copied or let go, and the shared table of illegal
! arguments through the raw and the typed layer.
program fortran_errors_test
  use attile
  use fortran_test_tools
  use fortran_raw_calls
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real32
  implicit none (type, external)

  ! illegal_table.cpp: the table, one entry at a time.
  interface
    function illegal_count() result(count) bind(c)
      import :: c_int32_t
      implicit none
      integer(c_int32_t) :: count
    end function illegal_count
    ! Makes entry i: its operation, its arguments or null for a null pointer, whether the context is to be null.
    subroutine illegal_make(i, operation, args, null_context) bind(c)
      import :: c_int32_t, c_ptr
      implicit none
      integer(c_int32_t), value :: i
      integer(c_int32_t), intent(out) :: operation, null_context
      type(c_ptr), intent(out) :: args
    end subroutine illegal_make
    ! Is this what must come of the entry made last? Says on stderr why not.
    function illegal_judge(status) result(right) bind(c)
      import :: c_int32_t
      implicit none
      integer(c_int32_t), value :: status
      integer(c_int32_t) :: right
    end function illegal_judge
    function illegal_judge_text(status, text) result(right) bind(c)
      import :: c_char, c_int32_t
      implicit none
      integer(c_int32_t), value :: status
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int32_t) :: right
    end function illegal_judge_text
  end interface

  type(attile_context) :: ctx
  call attile_context_create(ctx, 'reference')
  call shared_table()
  call sentences()
  call failures_by_rank()
  call contexts()
  call texts()
  call finish()

contains

  subroutine shared_table()
    integer(c_int32_t) :: i, status
    type(c_ptr) :: args, context
    integer(c_int32_t) :: operation, null_context
    integer :: wrong, typed
    wrong = 0
    typed = 0
    do i = 0, illegal_count() - 1
      call illegal_make(i, operation, args, null_context)
      context = ctx%handle()
      if (null_context /= 0) context = c_null_ptr
      status = run_raw(context, operation, args)
      if (illegal_judge(status) == 0) wrong = wrong + 1
      if (c_associated(args) .and. operation < 6) then
        call run_typed(context, operation, args, wrong)
        typed = typed + 1
      end if
    end do
    print '(i0, a, i0, a)', illegal_count(), ' illegal calls of the raw layer, ', typed, ' of the typed one'
    call check(illegal_count() > 600 .and. typed > 500, 'the table is there')
    call check(wrong == 0, 'every illegal argument is refused as the table says')
  end subroutine shared_table

  subroutine run_typed(context, operation, args, wrong)
    type(c_ptr), intent(in) :: context, args
    integer(c_int32_t), intent(in) :: operation
    integer, intent(inout) :: wrong
    type(attile_context) :: borrowed
    type(attile_gemm_args), pointer :: gemm
    type(attile_attention_args), pointer :: attention
    type(attile_attention_backward_args), pointer :: backward
    type(attile_attention_merge_args), pointer :: merging
    type(attile_attention_merge_backward_args), pointer :: unmerging
    type(attile_reduce_args), pointer :: reduce
    type(attile_softmax_args), pointer :: softmax
    character(len=600) :: message
    integer :: stat
    borrowed = context
    message = ''
    select case (operation)
    case (0)
      call c_f_pointer(args, gemm)
      call attile_gemm(borrowed, gemm, stat, message)
    case (1)
      call c_f_pointer(args, attention)
      call attile_attention(borrowed, attention, stat, message)
    case (2)
      call c_f_pointer(args, backward)
      call attile_attention_backward(borrowed, backward, stat, message)
    case (3)
      call c_f_pointer(args, merging)
      call attile_attention_merge(borrowed, merging, stat, message)
    case (4)
      call c_f_pointer(args, unmerging)
      call attile_attention_merge_backward(borrowed, unmerging, stat, message)
    case (5)
      call c_f_pointer(args, reduce)
      call attile_reduce(borrowed, reduce, stat, message)
    case default
      call c_f_pointer(args, softmax)
      call attile_softmax(borrowed, softmax, stat, message)
    end select
    if (illegal_judge_text(int(stat, c_int32_t), trim(message)//c_null_char) == 0) wrong = wrong + 1
  end subroutine run_typed

  subroutine sentences()
    real(real64) :: a(4, 3), b(5, 2), c(4, 2), q(8, 6), k(8, 7), v(8, 6), o(8, 6)
    character(len=200) :: message
    character(len=20) :: short
    integer :: stat
    call fill(a)
    call fill(b)
    c = 7
    call attile_gemm(ctx, a, b, c, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_SHAPE_MISMATCH, 'a wrong inner extent')
    call check_text(message, 'b.shape[0]', 'a wrong inner extent')
    call check(message == attile_last_error(), 'errmsg is the library''s sentence')
    call check(all(c == 7), 'nothing is written after a refusal')
    call attile_gemm(ctx, a, b, c, stat=stat, errmsg=short)
    call check(short == message(:20), 'a short errmsg gets the beginning')
    call attile_gemm(ctx, a, b, c, stat=stat)
    call check(stat == ATTILE_ERROR_SHAPE_MISMATCH, 'stat without errmsg')
    message = 'as it was'
    call attile_gemm(ctx, a, b(:3, :), c, stat=stat, errmsg=message)
    call check(stat == 0 .and. message == 'as it was', 'success leaves errmsg alone')
    call attile_gemm(ctx, a, b, c, transa='Q', stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'a letter that is no transposition')
    call check_text(message, 'transa is ''Q''', 'a letter that is no transposition')
    call attile_gemm(ctx, a, b(:3, :), c, bias=a(:, 1), stat=stat, errmsg=message)
    call check_text(message, 'bias_axis', 'a bias without an axis')
    call attile_gemm(ctx, a, b(:3, :), c, c, stat=stat, errmsg=message)
    call check(stat == 0, 'd may be c')
    call fill(q)
    call fill(k)
    call fill(v)
    call attile_attention(ctx, q, k, v, o, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_SHAPE_MISMATCH, 'as many values as keys')
    call check_text(message, 'v.shape[2]', 'as many values as keys')
    call attile_attention(ctx, q, k(:, :6), v, o, mask=99, stat=stat, errmsg=message)
    call check_text(message, 'mask', 'an unknown mask')
    call attile_attention(ctx, q, k(:, :6), v, q, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_ALIASING, 'an output over an input')
    call attile_softmax(ctx, q, o, 0, stat=stat, errmsg=message)
    call check_text(message, 'dim is 0, expected 1 to 2', 'a dimension that is none')
    call attile_reduce(ctx, q, o, 17, 1, stat=stat, errmsg=message)
    call check_text(message, 'op', 'an unknown reduction')
  end subroutine sentences

  subroutine failures_by_rank()
    real(real64) :: vector(4), five(2, 2, 2, 2, 2), scalar, matrix(4, 4), o(4, 4)
    character(len=200) :: message
    integer :: stat
    vector = 0
    five = 0
    scalar = 0
    matrix = 0
    call attile_gemm(ctx, vector, matrix, o, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_RANK, 'a vector for a matrix')
    call attile_gemm(ctx, five, matrix, o, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_RANK, 'five dimensions')
    call attile_attention(ctx, scalar, matrix, matrix, o, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_RANK, 'a scalar for q')
    call check_text(message, 'q', 'a scalar for q')
    call attile_attention(ctx, vector, matrix, matrix, o, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_RANK, 'a vector for q')
    call attile_attention(ctx, matrix, matrix, matrix, o, sinks=matrix, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_RANK, 'a matrix for sinks')
    call check_text(message, 'sinks', 'a matrix for sinks')
    call attile_softmax(ctx, five, 1, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_RANK, 'softmax of five dimensions')
    call attile_softmax(ctx, scalar, 1, stat=stat, errmsg=message)
    call check_text(message, 'dim', 'softmax of a scalar')
    call attile_attention_merge(ctx, five, scalar, o, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_SHAPE_MISMATCH, 'parts without their lse')
    call attile_attention_merge(ctx, five(:, :, :, :, 1:0), five(1, :, :, :, 1:0), five(:, :, :, :, 1), stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'no parts at all')
    call assumed_size(matrix)
  end subroutine failures_by_rank

  ! Of an assumed-size array nobody knows the last extent; compilers describe it as -1.
  subroutine assumed_size(a)
    real(real64), intent(inout) :: a(4, *)
    real(real64) :: c(4, 4)
    integer :: stat
    call attile_gemm(ctx, a(:, :4), a(:, :4), c, stat=stat)
    call check(stat == 0, 'an assumed-size array with its extent said')
  end subroutine assumed_size

  subroutine contexts()
    type(attile_context) :: alias, never
    type(attile_context), allocatable :: several(:)
    real(real64) :: a(2, 2), c(2, 2)
    character(len=400) :: message
    integer :: stat, i
    call fill(a)
    call attile_gemm(never, a, a, c, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_CONTEXT, 'a context that was never opened')
    call check_text(message, 'context', 'a context that was never opened')
    call attile_context_destroy(never)
    call attile_context_create(never, 'nosuch', stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_BACKEND_NOT_FOUND .and. .not. never%is_open(), 'a backend that is not there')
    call check_text(message, 'nosuch', 'a backend that is not there')
    call attile_context_create(never, '/tmp/x', stat=stat)
    call check(stat == ATTILE_ERROR_BACKEND_SELECTION, 'a selection that is a path')
    call scoped(a, c)
    allocate (several(3))
    do i = 1, 3
      call attile_context_create(several(i), 'reference', threads=1, pool_bytes=0_int64)
    end do
    alias = several(2)
    call check(alias%is_open() .and. c_associated(alias%handle(), several(2)%handle()), 'a copy is the same context')
    call attile_gemm(alias, a, a, c)
    call attile_context_destroy(alias)
    call check(.not. alias%is_open() .and. several(2)%is_open(), 'closing a copy closes nothing')
    several(1) = several(1)
    call attile_gemm(several(1), a, a, c)
    call attile_gemm(several(2), a, a, c)
    call attile_context_create(several(3))
    call attile_context_destroy(several)
    call check(.not. any([(several(i)%is_open(), i=1, 3)]), 'an array of contexts closed')
    call attile_add_backend_directory('relative', stat, message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'a directory that is not absolute')
  end subroutine contexts

  ! Opened and let go: the finaliser closes it.
  subroutine scoped(a, c)
    real(real64), intent(in) :: a(:, :)
    real(real64), intent(inout) :: c(:, :)
    type(attile_context) :: inner
    call attile_context_create(inner, 'reference')
    call attile_gemm(inner, a, a, c)
  end subroutine scoped

  subroutine texts()
    type(attile_context_info) :: info
    call attile_context_get_info(ctx, info)
    call check(attile_text(info%backend) == 'reference' .and. len(attile_text(info%backend)) == 9, 'the backend''s name')
    call check(attile_status_name(ATTILE_ERROR_ALIASING) == 'ATTILE_ERROR_ALIASING', 'a status''s name')
    call check(attile_version() >= 1000000, 'the version')
    call check_text(attile_backend_report(), 'reference', 'the report')
    call check(attile_text([c_null_char]) == '' .and. attile_text([character(kind=c_char) :: 'a', 'b']) == 'ab', 'texts of C')
  end subroutine texts
end program fortran_errors_test

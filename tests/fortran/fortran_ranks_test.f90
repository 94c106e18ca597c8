! SPDX-License-Identifier: Apache-2.0
! Attention and its gradients over ranks of MPI, every optional argument, against the local calls; communicators. Each rank runs this program.
program fortran_ranks_test
  use attile
  use fortran_test_tools
  use mpi_f08
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32
  implicit none (type, external)
  integer, parameter :: D = 8, DV = 5, LQ = 13, LK = 17, HQ = 4, HKV = 2, NB = 2
  integer(int64), parameter :: ALL_Q = LQ, ALL_K = LK
  character(len=*), parameter :: BACKENDS(2) = ['reference', 'cpu      ']
  type(attile_context), target :: ctx
  type(attile_comm) :: comm
  type(attile_comm_info) :: info
  type(MPI_Comm) :: reverse
  integer, allocatable :: rows(:), keys(:)
  real(real64), target :: q(D, LQ, HQ, NB), k(D, LK, HKV, NB), v(DV, LK, HKV, NB), o(DV, LQ, HQ, NB), lse(LQ, HQ, NB)
  real(real64) :: dout(DV, LQ, HQ, NB), dq(D, LQ, HQ, NB), dk(D, LK, HKV, NB), dv_(DV, LK, HKV, NB)
  real(real64), allocatable, target, dimension(:, :, :, :) :: own_q, own_k, own_v, own_o, own_dout, own_dq, own_dk, own_dv
  real(real64), allocatable, target :: own_lse(:, :, :)
  character(len=512) :: message
  integer :: level, rank, ranks, stat, i, layout

  call MPI_Init_thread(MPI_THREAD_FUNNELED, level)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, reverse)
  do i = 1, size(BACKENDS)
    call attile_context_create(ctx, BACKENDS(i))
    call attile_comm_create(comm, ctx, 'mpi', communicator=MPI_COMM_WORLD%MPI_VAL, timeout_seconds=60.0_real64)
    call attile_comm_get_info(comm, info)
    call check(info%rank == rank .and. info%ranks == ranks .and. attile_text(info%kind) == 'mpi', 'rank and ranks are those of MPI')
    call check(info%timeout_seconds == 60, 'the time limit')
    call fill_all()
    do layout = ATTILE_SHARDS_CONTIGUOUS, ATTILE_SHARDS_STRIPED
      call cut()
      call plain()
      call masks()
      call features()
      call packed()
    end do
    call replicated()
    call single_precision()
    call questions()
    call wrong_arguments()
    call attile_comm_destroy(comm)
    call communicators()
    call attile_context_destroy(ctx)
  end do
  call MPI_Finalize()
  call finish()

contains

  subroutine fill_all()
    call fill(q)
    call fill(k)
    call fill(v)
    call fill(dout)
  end subroutine fill_all

  ! This rank's rows and keys in the layout under test.
  subroutine cut()
    call attile_shard_indices(layout, LQ, rank, ranks, rows)
    call attile_shard_indices(layout, LK, rank, ranks, keys)
    own_q = q(:, rows, :, :)
    own_k = k(:, keys, :, :)
    own_v = v(:, keys, :, :)
    own_dout = dout(:, rows, :, :)
    own_o = own_dout
    own_dq = own_q
    own_dk = own_k
    own_dv = own_v
    if (allocated(own_lse)) deallocate (own_lse)
    allocate (own_lse(size(rows), HQ, NB))
    call clear()
  end subroutine cut

  subroutine clear()
    own_o = nan()
    own_lse = nan()
    own_dq = nan()
    own_dk = nan()
    own_dv = nan()
  end subroutine clear

  subroutine near(found, expected, what)
    real(real64), intent(in) :: found(:, :, :, :), expected(:, :, :, :)
    character(len=*), intent(in) :: what
    call check(all(abs(found - expected) <= 1e-12_real64 .or. found == expected), what)
  end subroutine near

  ! Results of the call over ranks against those of the local call, and all of it undone for the next.
  subroutine compare(what, gradients)
    character(len=*), intent(in) :: what
    logical, intent(in) :: gradients
    call near(own_o, o(:, rows, :, :), what//': o')
    call near(reshape(own_lse, [size(rows), HQ, NB, 1]), reshape(lse(rows, :, :), [size(rows), HQ, NB, 1]), what//': lse')
    if (gradients) then
      call near(own_dq, dq(:, rows, :, :), what//': dq')
      call near(own_dk, dk(:, keys, :, :), what//': dk')
      call near(own_dv, dv_(:, keys, :, :), what//': dv')
    end if
    call clear()
  end subroutine compare

  subroutine plain()
    call attile_attention(ctx, q, k, v, o, lse, scale=0.4_real64, softcap=2.0_real64)
    call attile_attention_backward(ctx, q, k, v, o, lse, dout, dq, dk, dv_, scale=0.4_real64, softcap=2.0_real64)
    call attile_attention_distributed(comm, own_q, own_k, own_v, own_o, own_lse, layout, ATTILE_METHOD_RING, ALL_Q, ALL_K, &
      scale=0.4_real64, softcap=2.0_real64)
    call attile_attention_backward_distributed(comm, own_q, own_k, own_v, own_o, own_lse, own_dout, own_dq, own_dk, own_dv, &
      layout=layout, method=ATTILE_METHOD_ALL_GATHER, len_q=ALL_Q, len_k=ALL_K, scale=0.4_real64, softcap=2.0_real64)
    call compare('scale and softcap', .true.)
    call attile_attention_distributed(comm, own_q, own_k, own_v, own_o, layout=layout, len_q=ALL_Q, len_k=ALL_K, scale=0.4_real64, &
      softcap=2.0_real64)
    call near(own_o, o(:, rows, :, :), 'without lse')
  end subroutine plain

  subroutine masks()
    call attile_attention(ctx, q, k, v, o, lse, mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT)
    call attile_attention_distributed(comm, own_q, own_k, own_v, own_o, own_lse, layout, ATTILE_METHOD_ALL_TO_ALL, ALL_Q, ALL_K, &
      mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT)
    call compare('causal', .false.)
    call attile_attention(ctx, q, k, v, o, lse, mask=ATTILE_MASK_WINDOW_TOP_LEFT, window_left=4_int64, window_right=2_int64)
    call attile_attention_backward(ctx, q, k, v, o, lse, dout, dq, dk, dv_, mask=ATTILE_MASK_WINDOW_TOP_LEFT, window_left=4_int64, &
      window_right=2_int64)
    call attile_attention_distributed(comm, own_q, own_k, own_v, own_o, own_lse, layout, ATTILE_METHOD_RING, ALL_Q, ALL_K, &
      mask=ATTILE_MASK_WINDOW_TOP_LEFT, window_left=4_int64, window_right=2_int64)
    call attile_attention_backward_distributed(comm, own_q, own_k, own_v, own_o, own_lse, own_dout, own_dq, own_dk, own_dv, &
      layout=layout, len_q=ALL_Q, len_k=ALL_K, mask=ATTILE_MASK_WINDOW_TOP_LEFT, window_left=4_int64, window_right=2_int64)
    call compare('window', .true.)
  end subroutine masks

  subroutine features()
    real(real64) :: bias(LK, LQ, HQ), slopes(HQ), sinks(HQ), dbias(LK, LQ, HQ), dsinks(HQ)
    real(real64) :: own_dbias(LK, size(rows), HQ), own_dsinks(HQ)
    logical(c_bool) :: allowed(LK, LQ)
    integer(int32) :: lengths(NB)
    integer :: j
    call fill(bias)
    call fill(slopes)
    call fill(sinks)
    lengths = [LK, 6]
    do j = 1, LQ
      allowed(:, j) = modulo([(i, i=1, LK)] + j, 3) > 0
    end do
    call attile_attention(ctx, q, k, v, o, lse, bias=bias, allowed=allowed, alibi_slopes=slopes, sinks=sinks, key_lengths=lengths)
    call attile_attention_backward(ctx, q, k, v, o, lse, dout, dq, dk, dv_, dbias, dsinks, bias=bias, allowed=allowed, &
      alibi_slopes=slopes, sinks=sinks, key_lengths=lengths)
    own_dbias = nan()
    own_dsinks = nan()
    call attile_attention_distributed(comm, own_q, own_k, own_v, own_o, own_lse, layout, len_q=ALL_Q, len_k=ALL_K, &
      bias=bias(:, rows, :), allowed=allowed(:, rows), alibi_slopes=slopes, sinks=sinks, key_lengths=lengths)
    call attile_attention_backward_distributed(comm, own_q, own_k, own_v, own_o, own_lse, own_dout, own_dq, own_dk, own_dv, &
      own_dbias, own_dsinks, layout=layout, len_q=ALL_Q, len_k=ALL_K, bias=bias(:, rows, :), allowed=allowed(:, rows), &
      alibi_slopes=slopes, sinks=sinks, key_lengths=lengths)
    call compare('bias, allowed, ALiBi, sinks and key lengths', .true.)
    call check(all(abs(own_dbias - dbias(:, rows, :)) <= 1e-12_real64), 'dbias')
    call check(all(abs(own_dsinks - dsinks) <= 1e-12_real64), 'dsinks')
  end subroutine features

  subroutine packed()
    integer(int32), parameter :: CU_Q(3) = [0, 4, LQ], CU_K(3) = [0, 9, LK]
    call attile_attention(ctx, q(:, :, :, 1), k(:, :, :, 1), v(:, :, :, 1), o(:, :, :, 1), lse(:, :, 1), &
      cu_len_q=CU_Q, cu_len_k=CU_K, max_len_q=9_int64, max_len_k=9_int64)
    call attile_attention_distributed(comm, own_q(:, :, :, 1), own_k(:, :, :, 1), own_v(:, :, :, 1), own_o(:, :, :, 1), &
      own_lse(:, :, 1), layout, len_q=ALL_Q, len_k=ALL_K, cu_len_q=CU_Q, cu_len_k=CU_K, max_len_q=9_int64, max_len_k=9_int64)
    call near(own_o(:, :, :, :1), o(:, rows, :, :1), 'packed sequences')
    call check(all(abs(own_lse(:, :, 1) - lse(rows, :, 1)) <= 1e-12_real64), 'packed sequences: lse')
    call clear()
  end subroutine packed

  ! Rows that every rank has, with keys as the last layout cut them.
  subroutine replicated()
    real(real64) :: every(DV, LQ, HQ, NB)
    every = nan()
    call attile_attention(ctx, q, k, v, o)
    call attile_attention_distributed(comm, q, own_k, own_v, every, layout=ATTILE_SHARDS_STRIPED, method=ATTILE_METHOD_TREE, &
      len_q=ALL_Q, len_k=ALL_K, rows=ATTILE_ROWS_REPLICATED)
    call near(every, o, 'rows that every rank has')
  end subroutine replicated

  ! real32, and lengths that need not be said since all shards are of one size.
  subroutine single_precision()
    integer, parameter :: SHARD = 3
    real(real32), dimension(D, SHARD*ranks, HQ) :: x, y, z, g, whole, dx, dy, dz
    real(real32), dimension(D, SHARD, HQ) :: mine, dmine_x, dmine_y, dmine_z
    real(real32) :: whole_lse(SHARD*ranks, HQ), mine_lse(SHARD, HQ)
    integer :: from, to
    call fill(x)
    call fill(y)
    call fill(z)
    call fill(g)
    from = SHARD*rank + 1
    to = SHARD*(rank + 1)
    call attile_attention(ctx, x, y, z, whole, whole_lse)
    call attile_attention_backward(ctx, x, y, z, whole, whole_lse, g, dx, dy, dz)
    call attile_attention_distributed(comm, x(:, from:to, :), y(:, from:to, :), z(:, from:to, :), mine, mine_lse)
    call attile_attention_backward_distributed(comm, x(:, from:to, :), y(:, from:to, :), z(:, from:to, :), mine, mine_lse, &
      g(:, from:to, :), dmine_x, dmine_y, dmine_z)
    call check(all(abs(mine - whole(:, from:to, :)) <= 2e-5_real32), 'real32')
    call check(all(abs(dmine_x - dx(:, from:to, :)) <= 2e-5_real32), 'real32: dq')
    call check(all(abs(dmine_y - dy(:, from:to, :)) <= 2e-5_real32), 'real32: dk')
    call check(all(abs(dmine_z - dz(:, from:to, :)) <= 2e-5_real32), 'real32: dv')
  end subroutine single_precision

  ! Queries and calls on argument structs.
  subroutine questions()
    type(attile_attention_args), target :: local, forward
    type(attile_attention_backward_args), target :: local_backward
    type(attile_attention_distributed_args) :: args
    type(attile_attention_backward_distributed_args) :: backward
    type(attile_distributed_support) :: support
    call attile_attention_arguments(local, own_q, own_k, own_v, own_o, own_lse)
    call attile_attention_distributed_init(args)
    args%local = c_loc(local)
    args%layout = ATTILE_SHARDS_STRIPED
    args%method = ATTILE_METHOD_RING
    args%len_q = LQ
    args%len_k = LK
    call attile_attention_distributed_query(comm, args, support)
    call check(support%level /= ATTILE_SUPPORT_NONE .and. support%flops > 0, 'a query')
    call check(support%method == merge(ATTILE_METHOD_RING, ATTILE_METHOD_LOCAL, ranks > 1), 'the method of a query')
    call attile_attention_distributed(comm, args)
    call attile_attention(ctx, q, k, v, o)
    call near(own_o, o(:, rows, :, :), 'a call on a struct')
    call attile_attention_backward_arguments(local_backward, forward, own_q, own_k, own_v, own_o, own_lse, own_dout, &
      own_dq, own_dk, own_dv)
    call attile_attention_backward_distributed_init(backward)
    backward%local = c_loc(local_backward)
    backward%layout = ATTILE_SHARDS_STRIPED
    backward%len_q = LQ
    backward%len_k = LK
    call attile_attention_backward_distributed_query(comm, backward, support)
    call check(support%level /= ATTILE_SUPPORT_NONE, 'a query of gradients')
  end subroutine questions

  ! The same on every rank, so that the communicator stays as it is.
  subroutine wrong_arguments()
    type(attile_comm) :: none
    call attile_attention_distributed(comm, own_q, own_k, own_v, own_o, layout=7_c_int32_t, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'a layout that is none')
    call check_text(message, 'layout', 'a layout that is none')
    call attile_attention_distributed(comm, own_q, own_k, own_v, own_o, method=ATTILE_METHOD_TREE, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'a tree without rows that every rank has')
    call attile_attention_backward_distributed(comm, own_q, own_k, own_v, own_o, own_lse, own_dout, own_dq, own_dk, own_dv, &
      method=ATTILE_METHOD_TREE, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'gradients by a tree')
    call attile_attention_distributed(none, own_q, own_k, own_v, own_o, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_COMM .and. .not. none%is_open(), 'a communicator that was not joined')
    call attile_shard_indices(ATTILE_SHARDS_ZIGZAG, -1, 0, 1, rows, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'a length below 0')
    call attile_comm_create(none, ctx, 'mpi', rank=ranks, ranks=ranks, stat=stat, errmsg=message)
    call check(stat == ATTILE_ERROR_INVALID_VALUE, 'a rank that is not of MPI')
  end subroutine wrong_arguments

  ! Another communicator than MPI_COMM_WORLD, as the plain integer; copies; ends of scopes; threads.
  subroutine communicators()
    integer(int64) :: first, count, stride
    integer, allocatable :: indices(:)
    integer :: plain
    plain = reverse%MPI_VAL
    block
      type(attile_comm) :: turned, copy
      call attile_comm_create(turned, ctx, 'mpi', communicator=plain, timeout_seconds=60.0_real64)
      call attile_comm_get_info(turned, info)
      call check(info%rank == ranks - 1 - rank, 'ranks of another communicator')
      copy = turned
      call attile_comm_destroy(copy)
      call attile_comm_get_info(turned, info, stat=stat)
      call check(stat == 0 .and. turned%is_open() .and. .not. copy%is_open(), 'a copy owns nothing')
    end block
    block
      type(attile_comm) :: alone
      call attile_comm_create(alone, ctx, 'threads', rank=0, ranks=1, group=7_int64)
      call attile_comm_get_info(alone, info)
      call check(info%ranks == 1 .and. attile_text(info%kind) == 'threads', 'one rank by threads')
    end block
    call attile_shard_part(ATTILE_SHARDS_ZIGZAG, 8_int64, 0, 2, 1, first, count, stride)
    call check(first == 6 .and. count == 2 .and. stride == 1, 'a part of a shard')
    call attile_shard_indices(ATTILE_SHARDS_ZIGZAG, 8, 0, 2, indices)
    call check(size(indices) == 4, 'indices of a shard: how many')
    if (size(indices) == 4) call check(all(indices == [1, 2, 7, 8]), 'indices of a shard')
  end subroutine communicators
end program fortran_ranks_test

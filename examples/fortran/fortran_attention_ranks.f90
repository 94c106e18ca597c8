! SPDX-License-Identifier: Apache-2.0
! Causal attention of one sequence and its gradients, spread over the ranks of MPI: keys and values go round a ring.
!
!     mpifort fortran_attention_ranks.f90 $(pkg-config --cflags --libs attile-fortran) -o ranks && mpiexec -n 4 ./ranks
!
! Each rank has two chunks of the sequence, an early and a late one, so that all have the same work under a causal mask. It compares its rows
! of the result, and of the gradients, with those of one call.
program fortran_attention_ranks
  use attile
  use mpi_f08
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  implicit none
  integer, parameter :: wp = real64, length = 1000, heads = 4, heads_kv = 2, head_dim = 16
  type(attile_context) :: ctx
  type(attile_comm) :: comm
  type(attile_comm_info) :: info
  integer, allocatable :: mine(:), seed(:)
  ! Whole sequences, the same on every rank; a real program has its own shard only.
  real(wp), dimension(head_dim, length, heads) :: q, dout
  real(wp), dimension(head_dim, length, heads_kv) :: k, v
  real(wp), allocatable, dimension(:, :, :) :: own_q, own_k, own_v, own_dout, o, dq, dk, dv
  real(wp), allocatable :: lse(:, :)
  logical :: right, all_right
  character(len=512) :: message
  integer :: level, stat, n

  ! [join]
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level)  ! only this thread uses the communicator
  call attile_context_create(ctx, stat=stat, errmsg=message)
  if (stat == 0) call attile_comm_create(comm, ctx, kind='mpi', communicator=MPI_COMM_WORLD%MPI_VAL, stat=stat, errmsg=message)
  if (stat == 0) call attile_comm_get_info(comm, info, stat=stat, errmsg=message)
  ! [join]
  if (stat == 0) call attile_shard_indices(ATTILE_SHARDS_ZIGZAG, length, info%rank, info%ranks, mine, stat=stat, errmsg=message)
  if (stat == 0) call compute()
  if (stat /= 0) write (error_unit, '(a)') trim(message)
  ! [leave]
  call attile_comm_destroy(comm)  ! before MPI ends
  call attile_context_destroy(ctx)
  ! [leave]
  if (stat /= 0) call MPI_Abort(MPI_COMM_WORLD, 1)
  call MPI_Allreduce(right, all_right, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
  if (info%rank == 0) print '(i0, a, i0, a, l1)', info%ranks, ' ranks, ', length, ' positions: within 1e-12 of one call: ', &
    all_right
  call MPI_Finalize()
  if (.not. all_right) error stop 1

contains

  subroutine compute()
    real(wp), allocatable, dimension(:, :, :) :: whole_o, whole_dq, whole_dk, whole_dv
    real(wp) :: whole_lse(length, heads)
    call random_seed(size=n)
    allocate (seed(n))
    seed = 1
    call random_seed(put=seed)
    call random_number(q)
    call random_number(k)
    call random_number(v)
    call random_number(dout)

    own_q = q(:, mine, :)
    own_k = k(:, mine, :)
    own_v = v(:, mine, :)
    own_dout = dout(:, mine, :)
    allocate (o, dq, mold=own_q)
    allocate (dk, dv, mold=own_k)
    allocate (lse(size(mine), heads))
    ! [call]
    call attile_attention_distributed(comm, own_q, own_k, own_v, o, lse, layout=ATTILE_SHARDS_ZIGZAG, method=ATTILE_METHOD_RING, &
      len_q=int(length, int64), len_k=int(length, int64), mask=ATTILE_MASK_CAUSAL_TOP_LEFT, stat=stat, errmsg=message)
    if (stat == 0) call attile_attention_backward_distributed(comm, own_q, own_k, own_v, o, lse, own_dout, dq, dk, dv, &
      layout=ATTILE_SHARDS_ZIGZAG, method=ATTILE_METHOD_RING, len_q=int(length, int64), len_k=int(length, int64), &
      mask=ATTILE_MASK_CAUSAL_TOP_LEFT, stat=stat, errmsg=message)
    ! [call]
    if (stat /= 0) return

    allocate (whole_o, whole_dq, mold=q)
    allocate (whole_dk, whole_dv, mold=k)
    call attile_attention(ctx, q, k, v, whole_o, whole_lse, mask=ATTILE_MASK_CAUSAL_TOP_LEFT)
    call attile_attention_backward(ctx, q, k, v, whole_o, whole_lse, dout, whole_dq, whole_dk, whole_dv, &
      mask=ATTILE_MASK_CAUSAL_TOP_LEFT)
    right = near(o, whole_o(:, mine, :)) .and. near(dq, whole_dq(:, mine, :)) .and. near(dk, whole_dk(:, mine, :)) .and. &
      near(dv, whole_dv(:, mine, :))
  end subroutine compute

  logical function near(found, expected)
    real(wp), intent(in) :: found(:, :, :), expected(:, :, :)
    near = all(abs(found - expected) <= 1e-12_wp)
  end function near
end program fortran_attention_ranks

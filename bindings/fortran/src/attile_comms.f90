! SPDX-License-Identifier: Apache-2.0
! Communicators: one rank's end of a group of ranks, closed when the variable goes out of scope.
module attile_comms
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use attile_constants, only: ATTILE_SHARDS_ZIGZAG, ATTILE_OK
  use attile_contexts, only: attile_context
  use attile_errors, only: conclude, c_text
  use attile_raw, only: raw_create => attile_comm_create, raw_destroy => attile_comm_destroy, &
    raw_get_info => attile_comm_get_info, &
    raw_options_init => attile_comm_options_init, raw_info_init => attile_comm_info_init, raw_shard_part => attile_shard_part
  use attile_types, only: attile_comm_options, attile_comm_info, attile_comm_callbacks
  implicit none (type, external)
  private
  public :: attile_comm, attile_comm_create, attile_comm_destroy, attile_comm_get_info, attile_shard_part, attile_shard_indices

  !> One rank's end of a group of ranks. Joined by attile_comm_create; left by attile_comm_destroy or when the variable
  !> ceases to exist, which for variables of the main program and saved ones is the end of the program: with MPI, call
  !> attile_comm_destroy before MPI_Finalize. A copy (b = a) refers to the same communicator without owning it.
  type :: attile_comm
    private
    type(c_ptr) :: pointer = c_null_ptr
    logical :: owner = .false.
  contains
    procedure :: is_open  !< Has it been joined and not been left?
    procedure :: handle  !< The attile_comm * of C, for module attile_raw.
    procedure, private :: refer
    generic :: assignment(=) => refer
    final :: finalise
  end type attile_comm

  interface attile_comm_create
    module procedure comm_create
  end interface attile_comm_create
  interface attile_comm_destroy
    module procedure comm_destroy
  end interface attile_comm_destroy
  interface attile_comm_get_info
    module procedure comm_get_info
  end interface attile_comm_get_info
  interface attile_shard_part
    module procedure shard_part
  end interface attile_shard_part
  interface attile_shard_indices
    module procedure shard_indices
  end interface attile_shard_indices

contains

  !> Join a group of ranks; returns when all of them have come. A communicator that comm owned before is left first.
  !> ctx is what this rank computes on, and must outlive the communicator.
  subroutine comm_create(comm, ctx, kind, rank, ranks, group, communicator, callbacks, timeout_seconds, flags, stat, errmsg)
    type(attile_comm), intent(inout) :: comm
    type(attile_context), intent(in) :: ctx
    character(len=*), intent(in), optional :: kind  !< 'mpi', 'threads' or 'callbacks'; absent: what ATTILE_COMM says
    integer, intent(in), optional :: rank, ranks  !< from 0; MPI knows both
    integer(int64), intent(in), optional :: group  !< 'threads': ranks that name the same number find each other
    integer, intent(in), optional :: communicator  !< 'mpi': MPI's, or of type(MPI_Comm) its MPI_VAL; absent: MPI_COMM_WORLD
    type(attile_comm_callbacks), intent(in), target, optional :: callbacks  !< 'callbacks': the functions, copied
    real(real64), intent(in), optional :: timeout_seconds  !< longest wait for another rank; absent: ATTILE_COMM_TIMEOUT or 600
    integer(c_int32_t), intent(in), optional :: flags  !< ATTILE_COMM_ALLOW_MIXED_BACKENDS
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attile_comm_options) :: options
    character(kind=c_char, len=:), allocatable, target :: name
    integer(c_int32_t) :: status
    call comm_destroy(comm)
    call raw_options_init(options, c_sizeof(options))
    if (present(kind)) then
      name = c_text(kind)
      options%kind = c_loc(name)
    end if
    if (present(rank)) options%rank = int(rank, c_int32_t)
    if (present(ranks)) options%ranks = int(ranks, c_int32_t)
    if (present(group)) options%group = group
    if (present(communicator)) options%communicator = int(communicator, c_int64_t)
    if (present(callbacks)) options%callbacks = c_loc(callbacks)
    if (present(timeout_seconds)) options%timeout_seconds = timeout_seconds
    if (present(flags)) options%flags = flags
    status = raw_create(ctx%handle(), options, comm%pointer)
    comm%owner = c_associated(comm%pointer)
    call conclude(status, stat, errmsg)
  end subroutine comm_create

  !> Leave the group. A communicator that is not open is left as it is.
  impure elemental subroutine comm_destroy(comm)
    type(attile_comm), intent(inout) :: comm
    if (comm%owner) call raw_destroy(comm%pointer)
    comm%pointer = c_null_ptr
    comm%owner = .false.
  end subroutine comm_destroy

  !> What a communicator is, and whether it still works; asks no other rank. Texts in it are read with attile_text.
  subroutine comm_get_info(comm, info, stat, errmsg)
    type(attile_comm), intent(in) :: comm
    type(attile_comm_info), intent(out) :: info
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_info_init(info, c_sizeof(info))
    call conclude(raw_get_info(comm%pointer, info), stat, errmsg)
  end subroutine comm_get_info

  !> Which positions a rank has, from 0 as everywhere in C: first, first + stride, ... of `count` rows. `part` is 0, and
  !> for ATTILE_SHARDS_ZIGZAG also 1.
  subroutine shard_part(layout, length, rank, ranks, part, first, count, stride, stat, errmsg)
    integer(c_int32_t), intent(in) :: layout
    integer(int64), intent(in) :: length
    integer, intent(in) :: rank, ranks, part
    integer(int64), intent(out) :: first, count, stride
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    first = 0
    count = 0
    stride = 0
    call conclude(raw_shard_part(layout, length, int(rank, c_int32_t), int(ranks, c_int32_t), int(part, c_int32_t), first, count, &
      stride), stat, errmsg)
  end subroutine shard_part

  !> Which rows of a whole sequence a rank has, from 1, in the order of its shard: q(:, indices, :, :).
  subroutine shard_indices(layout, length, rank, ranks, indices, stat, errmsg)
    integer(c_int32_t), intent(in) :: layout
    integer, intent(in) :: length, rank, ranks
    integer, allocatable, intent(out) :: indices(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(int64) :: first, count, stride, i
    integer :: part
    integer(c_int32_t) :: status
    allocate (indices(0))
    do part = 0, merge(1, 0, layout == ATTILE_SHARDS_ZIGZAG)
      status = raw_shard_part(layout, int(length, c_int64_t), int(rank, c_int32_t), int(ranks, c_int32_t), int(part, c_int32_t), &
        first, count, stride)
      if (status /= ATTILE_OK) then
        call conclude(status, stat, errmsg)
        return
      end if
      indices = [indices, (int(first + i*stride) + 1, i=0, count - 1)]
    end do
    call conclude(ATTILE_OK, stat, errmsg)
  end subroutine shard_indices

  pure logical function is_open(self)
    class(attile_comm), intent(in) :: self
    is_open = c_associated(self%pointer)
  end function is_open

  pure function handle(self)
    class(attile_comm), intent(in) :: self
    type(c_ptr) :: handle
    handle = self%pointer
  end function handle

  ! Two owners would leave one group twice. What the left side owned is left, unless it is the very same communicator.
  impure elemental subroutine refer(self, other)
    class(attile_comm), intent(inout) :: self
    class(attile_comm), intent(in) :: other
    type(c_ptr) :: pointer
    pointer = other%pointer
    if (c_associated(self%pointer) .and. c_associated(self%pointer, pointer)) return
    if (self%owner) call raw_destroy(self%pointer)
    self%pointer = pointer
    self%owner = .false.
  end subroutine refer

  impure elemental subroutine finalise(self)
    type(attile_comm), intent(inout) :: self
    call comm_destroy(self)
  end subroutine finalise
end module attile_comms

! SPDX-License-Identifier: Apache-2.0
! The operations over ranks on argument structs, and their queries: for what arrays cannot say (device memory, float16, paged
! keys) and for asking first. Each comes as `call attile_OP_init(args)`, then components of args, then `call
! attile_OP(comm, args)` or `call attile_OP_query(comm, args, support)`. Tensors in args are in C's order of axes;
! attile_tensor_of and attile_matrix_of make them.
! Made from attile.h and attile_distributed.h by generate_raw.py; change that, not this file.
module attile_rank_operations
  use, intrinsic :: iso_c_binding
  use attile_comms, only: attile_comm
  use attile_errors, only: conclude
  use attile_raw, only: raw_support_init => attile_distributed_support_init, &
    raw_attention_init => attile_attention_distributed_init, raw_attention => attile_attention_distributed, &
    raw_attention_query => attile_attention_distributed_query, &
    raw_backward_init => attile_attention_backward_distributed_init, raw_backward => attile_attention_backward_distributed, &
    raw_backward_query => attile_attention_backward_distributed_query, &
    raw_gemm_distributed_init => attile_gemm_distributed_init, raw_gemm_distributed => attile_gemm_distributed, &
    raw_gemm_distributed_query => attile_gemm_distributed_query
  use attile_types
  implicit none (type, external)
  private
  public :: attile_attention_distributed_init, attile_attention_distributed, attile_attention_distributed_query
  public :: attile_attention_backward_distributed_init, attile_attention_backward_distributed
  public :: attile_attention_backward_distributed_query
  public :: attile_gemm_distributed_init, attile_gemm_distributed, attile_gemm_distributed_query

  !> Zero the arguments, and stamp their size.
  interface attile_attention_distributed_init
    module procedure attention_init
  end interface attile_attention_distributed_init
  !> Run with these arguments.
  interface attile_attention_distributed
    module procedure attention
  end interface attile_attention_distributed
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_attention_distributed_query
    module procedure attention_query
  end interface attile_attention_distributed_query
  !> Zero the arguments, and stamp their size.
  interface attile_attention_backward_distributed_init
    module procedure backward_init
  end interface attile_attention_backward_distributed_init
  !> Run with these arguments.
  interface attile_attention_backward_distributed
    module procedure backward
  end interface attile_attention_backward_distributed
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_attention_backward_distributed_query
    module procedure backward_query
  end interface attile_attention_backward_distributed_query
  !> Zero the arguments, and stamp their size.
  interface attile_gemm_distributed_init
    module procedure gemm_distributed_init
  end interface attile_gemm_distributed_init
  !> Run with these arguments.
  interface attile_gemm_distributed
    module procedure gemm_distributed
  end interface attile_gemm_distributed
  !> How a call with these arguments would run; reads no data. A call that would be refused is no failure here: see
  !> support%level.
  interface attile_gemm_distributed_query
    module procedure gemm_distributed_query
  end interface attile_gemm_distributed_query
contains

  subroutine attention_init(args)
    type(attile_attention_distributed_args), intent(out) :: args
    call raw_attention_init(args, c_sizeof(args))
  end subroutine attention_init

  subroutine attention(comm, args, stat, errmsg)
    type(attile_comm), intent(in) :: comm
    type(attile_attention_distributed_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_attention(comm%handle(), args), stat, errmsg)
  end subroutine attention

  subroutine attention_query(comm, args, support, stat, errmsg)
    type(attile_comm), intent(in) :: comm
    type(attile_attention_distributed_args), intent(in) :: args
    type(attile_distributed_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_attention_query(comm%handle(), args, support), stat, errmsg)
  end subroutine attention_query

  subroutine backward_init(args)
    type(attile_attention_backward_distributed_args), intent(out) :: args
    call raw_backward_init(args, c_sizeof(args))
  end subroutine backward_init

  subroutine backward(comm, args, stat, errmsg)
    type(attile_comm), intent(in) :: comm
    type(attile_attention_backward_distributed_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_backward(comm%handle(), args), stat, errmsg)
  end subroutine backward

  subroutine backward_query(comm, args, support, stat, errmsg)
    type(attile_comm), intent(in) :: comm
    type(attile_attention_backward_distributed_args), intent(in) :: args
    type(attile_distributed_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_backward_query(comm%handle(), args, support), stat, errmsg)
  end subroutine backward_query

  subroutine gemm_distributed_init(args)
    type(attile_gemm_distributed_args), intent(out) :: args
    call raw_gemm_distributed_init(args, c_sizeof(args))
  end subroutine gemm_distributed_init

  subroutine gemm_distributed(comm, args, stat, errmsg)
    type(attile_comm), intent(in) :: comm
    type(attile_gemm_distributed_args), intent(in) :: args
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call conclude(raw_gemm_distributed(comm%handle(), args), stat, errmsg)
  end subroutine gemm_distributed

  subroutine gemm_distributed_query(comm, args, support, stat, errmsg)
    type(attile_comm), intent(in) :: comm
    type(attile_gemm_distributed_args), intent(in) :: args
    type(attile_distributed_support), intent(out) :: support
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call raw_support_init(support, c_sizeof(support))
    call conclude(raw_gemm_distributed_query(comm%handle(), args, support), stat, errmsg)
  end subroutine gemm_distributed_query
end module attile_rank_operations

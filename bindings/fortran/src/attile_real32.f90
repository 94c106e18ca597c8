! SPDX-License-Identifier: Apache-2.0
! The operations on real32 arrays. The procedures are written once, in attile_arrays_*.inc, for whichever kind includes them.
module attile_real32
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, wp => real32
  use attile_blas, only: transposition
  use attile_comms, only: attile_comm
  use attile_constants
  use attile_contexts, only: attile_context
  use attile_errors, only: conclude
  use attile_operations
  use attile_rank_operations
  use attile_types
  use attile_views, only: set_view, ORDER_REVERSED, ORDER_MATRIX
  implicit none (type, external)
  private
  public :: attile_gemm, attile_gemm_arguments, attile_attention, attile_attention_arguments
  public :: attile_attention_backward, attile_attention_backward_arguments, attile_attention_merge, attile_reduce, attile_softmax
  public :: attile_attention_distributed, attile_attention_backward_distributed

  integer(c_int32_t), parameter :: DTYPE = ATTILE_F32

  include 'attile_arrays_interfaces.inc'
  interface attile_attention
    module procedure attention_cache, attention_bytes
  end interface attile_attention

contains

  include 'attile_arrays_gemm.inc'
  include 'attile_arrays_attention.inc'
  include 'attile_arrays_cache.inc'
  include 'attile_arrays_backward.inc'
  include 'attile_arrays_other.inc'
  include 'attile_arrays_ranks.inc'
end module attile_real32

! SPDX-License-Identifier: Apache-2.0
!> Attile from Fortran: attention and matrix multiplication on whatever device is there.
!>
!>     type(attile_context) :: ctx
!>     call attile_context_create(ctx)                          ! what ATTILE_BACKEND says, else the best that can run here
!>     call attile_gemm(ctx, a, b, c)                           ! c(m, n) = a(m, k) b(k, n), with up to two batch dimensions
!>     call attile_attention(ctx, q, k, v, o, mask=ATTILE_MASK_CAUSAL_BOTTOM_RIGHT)  ! q(head_dim, len, heads, batch)
!>
!> Arrays are real32 or real64 of any rank the operation knows, in Fortran's own order of dimensions; sections are
!> taken where they lie, whatever their strides, without a copy. Every procedure that can fail takes stat and errmsg,
!> which work as ALLOCATE's do: stat becomes 0 or an ATTILE_ERROR_ code, errmsg gets the sentence that explains it,
!> and without stat a failure ends the program with that sentence.
!>
!> Which C function is reached how: coverage.md. What every name of C does: attile.h and
!> attile_distributed.h. The conventions of attention:
!> numerics.md.
module attile
  use attile_blas, only: attile_sgemm => sgemm, attile_dgemm => dgemm
  use attile_comms
  use attile_constants
  use attile_contexts
  use attile_errors, only: attile_version, attile_status_name, attile_last_error, attile_backend_report, attile_text
  use attile_memory
  use attile_operations
  use attile_rank_operations
  use attile_real32
  use attile_real64
  use attile_types
  use attile_views, only: attile_tensor_of, attile_matrix_of
  implicit none (type, external)
  public
end module attile

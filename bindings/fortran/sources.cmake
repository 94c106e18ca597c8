# The module's files in src, each behind those whose modules it uses: so one command of a compiler takes all of them.
set(ATTILE_FORTRAN_SOURCES
  attile_fortran_shim.c
  attile_constants.f90
  attile_types.f90
  attile_raw.f90
  attile_errors.f90
  attile_views.f90
  attile_contexts.f90
  attile_memory.f90
  attile_blas.f90
  attile_operations.f90
  attile_comms.f90
  attile_rank_operations.f90
  attile_real32.f90
  attile_real64.f90
  attile.f90)

# attile_add_mpi_test(NAME MPI RANKS [LAUNCHER_OPTIONS ...] [WRAPPER ...] COMMAND TARGET [ARGUMENT...])
#
# A test whose command runs on so many ranks of that MPI; WRAPPER is a program that starts each. More ranks than processors, and root, are fine. What Open MPI has for several machines
# and for copies between processes, which containers forbid, is left out, so that it starts soon and says nothing.
function(attile_add_mpi_test name mpi ranks)
  cmake_parse_arguments(ARG "" "" "LAUNCHER_OPTIONS;WRAPPER;COMMAND" ${ARGN})
  if(NOT ATTILE_EXEC_${mpi} OR ATTILE_SANITIZE MATCHES thread)  # of which MPI knows nothing
    return()
  endif()
  set(options -n ${ranks} ${ARG_LAUNCHER_OPTIONS})
  set(environment ATTILE_BACKEND_PATH=${PROJECT_BINARY_DIR}/lib/${ATTILE_BACKEND_SUBDIR})  # a static library has no place of its own
  if(mpi MATCHES "openmpi")
    list(PREPEND options --oversubscribe)
    set(environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader
      OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1)
  endif()
  if(ATTILE_SANITIZE)
    list(APPEND environment ASAN_OPTIONS=detect_leaks=0)  # MPI's own
  endif()
  list(POP_FRONT ARG_COMMAND target)
  add_test(NAME ${name} COMMAND ${ATTILE_EXEC_${mpi}} ${options} ${ARG_WRAPPER} $<TARGET_FILE:${target}> ${ARG_COMMAND})
  math(EXPR processors "(${ranks} + 1) / 2")
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}" TIMEOUT 60 PROCESSORS ${processors})
endfunction()

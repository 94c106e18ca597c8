# attile_add_mpi_test(NAME MPI RANKS [LAUNCHER_OPTIONS ...] [WRAPPER ...] COMMAND TARGET [ARGUMENT...])
#
# A test whose command, a target or a program, runs on so many ranks of that MPI; WRAPPER is a program that starts each. More ranks than processors, and root, are fine. What Open MPI has for several machines
# and for copies between processes, which containers forbid, is left out, so that it starts soon and says nothing.
function(attile_add_mpi_test name mpi ranks)
  cmake_parse_arguments(ARG "" "" "LAUNCHER_OPTIONS;WRAPPER;COMMAND" ${ARGN})
  attile_describe_mpi_launch(${mpi} launcher environment)
  if(NOT launcher)
    return()
  endif()
  list(POP_FRONT ARG_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${name} COMMAND ${launcher} -n ${ranks} ${ARG_LAUNCHER_OPTIONS} ${ARG_WRAPPER} ${program} ${ARG_COMMAND})
  math(EXPR processors "(${ranks} + 1) / 2")
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}" TIMEOUT 60 PROCESSORS ${processors})
endfunction()

# attile_describe_mpi_launch(MPI LAUNCHER ENVIRONMENT): the program that starts its ranks with the options that tests want, and variables to set; empty where
# this build cannot be run so.
function(attile_describe_mpi_launch mpi launcher environment)
  set(${launcher} "" PARENT_SCOPE)
  if(NOT ATTILE_EXEC_${mpi} OR ATTILE_SANITIZE MATCHES thread)  # of which MPI knows nothing
    return()
  endif()
  set(options "")
  set(variables ATTILE_BACKEND_PATH=${PROJECT_BINARY_DIR}/lib/${ATTILE_BACKEND_SUBDIR})  # a static library has no place of its own
  if(mpi MATCHES "openmpi")
    set(options --oversubscribe)
    set(variables OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader
      OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1)
  endif()
  if(ATTILE_SANITIZE)
    list(APPEND variables ASAN_OPTIONS=detect_leaks=0)  # MPI's own
  endif()
  set(${launcher} ${ATTILE_EXEC_${mpi}} ${options} PARENT_SCOPE)
  set(${environment} ${variables} PARENT_SCOPE)
endfunction()

# attile_find_python_mpi(RESULT PYTHON): the MPI that mpi4py of that Python is linked with, as ATTILE_MPIS names it; empty if there is none.
function(attile_find_python_mpi result python)
  set(found "")
  execute_process(COMMAND ${python} -c "import mpi4py; mpi4py.rc.initialize = mpi4py.rc.finalize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    OUTPUT_VARIABLE version ERROR_QUIET)
  if(version MATCHES "Open MPI")
    set(found mpi_openmpi)
  elseif(version MATCHES "MPICH")
    set(found mpi_mpich)
  endif()
  if(NOT found IN_LIST ATTILE_MPIS OR NOT ATTILE_EXEC_${found})
    set(found "")
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

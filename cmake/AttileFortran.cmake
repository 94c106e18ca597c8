# ATTILE_BUILD_FORTRAN: AUTO builds the Fortran binding where a compiler is there that can; ON insists; OFF never asks.
# Sets ATTILE_FORTRAN and, if that is true, ATTILE_FORTRAN_BINDING_HEADER, the compiler's own ISO_Fortran_binding.h.
set(attile_fortran_default OFF)
if(ATTILE_DEVELOPER AND NOT WIN32)
  set(attile_fortran_default AUTO)
endif()
set(ATTILE_BUILD_FORTRAN ${attile_fortran_default} CACHE STRING "The Fortran binding: AUTO, ON or OFF")
set_property(CACHE ATTILE_BUILD_FORTRAN PROPERTY STRINGS AUTO ON OFF)

function(attile_find_fortran)
  set(ATTILE_FORTRAN FALSE PARENT_SCOPE)
  string(TOUPPER "${CMAKE_Fortran_COMPILER_ID}" id)
  # The header belongs to the compiler: descriptors differ from one to another, so nobody else's will do.
  if(id STREQUAL "GNU")
    execute_process(COMMAND ${CMAKE_Fortran_COMPILER} -print-file-name=include/ISO_Fortran_binding.h
      OUTPUT_VARIABLE header OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  else()
    get_filename_component(bin ${CMAKE_Fortran_COMPILER} REALPATH)
    get_filename_component(bin ${bin} DIRECTORY)
    file(GLOB header ${bin}/../include/flang/ISO_Fortran_binding.h ${bin}/../lib/clang/*/include/ISO_Fortran_binding.h)
    list(POP_FRONT header found)
    set(header ${found})
  endif()
  if(NOT header OR NOT EXISTS "${header}")
    set(ATTILE_FORTRAN_WHY "${CMAKE_Fortran_COMPILER} has no ISO_Fortran_binding.h" PARENT_SCOPE)
    return()
  endif()
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  check_source_compiles(Fortran "
    module m
      use, intrinsic :: iso_c_binding
      implicit none (type, external)
      interface
        function f(a) bind(c)
          import :: c_int
          type(*), intent(in), target, optional :: a(..)
          integer(c_int) :: f
        end function f
      end interface
    contains
      integer function g(a)
        real, intent(in), target, optional :: a(..)
        g = f(a)
      end function g
    end module m" ATTILE_FORTRAN_ASSUMED_RANK SRC_EXT f90)
  if(NOT ATTILE_FORTRAN_ASSUMED_RANK)
    set(ATTILE_FORTRAN_WHY "${CMAKE_Fortran_COMPILER} does not know assumed-rank arrays (Fortran 2018)" PARENT_SCOPE)
    return()
  endif()
  set(ATTILE_FORTRAN TRUE PARENT_SCOPE)
  set(ATTILE_FORTRAN_BINDING_HEADER ${header} PARENT_SCOPE)
endfunction()

set(ATTILE_FORTRAN FALSE)
set(ATTILE_FORTRAN_WHY "")
if(ATTILE_BUILD_FORTRAN)  # AUTO counts as true
  include(CheckLanguage)
  include(CheckSourceCompiles)
  if(CMAKE_CROSSCOMPILING AND NOT CMAKE_Fortran_COMPILER)
    set(ATTILE_FORTRAN_WHY "cross-compiling without CMAKE_Fortran_COMPILER")
  elseif(ATTILE_SANITIZE AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(ATTILE_FORTRAN_WHY "the sanitizers of ${CMAKE_CXX_COMPILER_ID} are not those of a Fortran compiler")
  else()
    if(NOT CMAKE_Fortran_COMPILER)  # looked for in vain before: it may have been installed since
      unset(CMAKE_Fortran_COMPILER CACHE)
    endif()
    check_language(Fortran)
    if(CMAKE_Fortran_COMPILER)
      enable_language(Fortran)
      attile_find_fortran()
    else()
      set(ATTILE_FORTRAN_WHY "no Fortran compiler")
    endif()
  endif()
  if(NOT ATTILE_FORTRAN)
    if(ATTILE_BUILD_FORTRAN STREQUAL "AUTO")
      message(STATUS "Fortran binding left out: ${ATTILE_FORTRAN_WHY}")
    else()
      message(FATAL_ERROR "Fortran binding: ${ATTILE_FORTRAN_WHY}; -DATTILE_BUILD_FORTRAN=OFF builds without it")
    endif()
  endif()
endif()

# Packages: `cmake --preset package`, build, then `cpack --config build/package/CPackConfig.cmake` writes one .deb and one .tar.gz for each
# component, for Windows one .zip with all of them. Debian's are named as its policy wants; the archives unpack into one folder attile-<version>, which may be moved.
#
#   component        Debian package             holds
#   runtime          libattile1                 libattile.so.1 with the reference backend
#   backend_<name>   libattile1-backend-<name>  one plugin
#   blas             libattile-blas1            libattile_blas.so.1, the names of BLAS
#   comm_<name>      libattile1-comm-<name>     one transport of ranks (nccl); mpi_openmpi's is called mpi-openmpi
#   dev              libattile-dev              headers, CMake and pkg-config files, the Fortran module and its sources, the Rust crates, examples
#   tools            attile                     the command-line program
#   python           python3-attile             the Python package
include_guard(GLOBAL)
# Who packs, as Debian's own tools know them.
set(contact "Attile maintainers <root@localhost>")
if(DEFINED ENV{DEBEMAIL})
  set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(ATTILE_PACKAGE_CONTACT "${contact}" CACHE STRING "Maintainer field of the packages; by default of DEBFULLNAME and DEBEMAIL")
set(ATTILE_RUNTIME_PACKAGE libattile${PROJECT_VERSION_MAJOR})

set(ATTILE_PACKAGE_runtime ${ATTILE_RUNTIME_PACKAGE})
set(ATTILE_PACKAGE_dev libattile-dev)
set(ATTILE_PACKAGE_tools attile)
set(ATTILE_PACKAGE_python python3-attile)
set(components runtime dev python)
if(ATTILE_BUILD_TOOLS)
  list(APPEND components tools)
endif()
if(TARGET attile_blas)
  list(APPEND components blas)
  set(ATTILE_PACKAGE_blas libattile-blas${PROJECT_VERSION_MAJOR})
endif()
set(plugins "")
foreach(name cuda hip cpu)
  if(TARGET attile_backend_${name} AND NOT name IN_LIST ATTILE_BUILTIN_BACKENDS)
    list(APPEND components backend_${name})
    list(APPEND plugins ${ATTILE_RUNTIME_PACKAGE}-backend-${name})
    set(ATTILE_PACKAGE_backend_${name} ${ATTILE_RUNTIME_PACKAGE}-backend-${name})
  endif()
endforeach()
foreach(name IN LISTS ATTILE_TRANSPORTS)
  list(APPEND components comm_${name})
  string(REPLACE _ - package ${ATTILE_RUNTIME_PACKAGE}-comm-${name})
  set(ATTILE_PACKAGE_comm_${name} ${package})
endforeach()

# Debian wants the licence of every package in a file of that package's own.
configure_file(${CMAKE_CURRENT_LIST_DIR}/packaging/copyright.in ${PROJECT_BINARY_DIR}/copyright @ONLY)
foreach(component IN LISTS components)
  set(exclude "")
  if(component STREQUAL "python")
    set(exclude EXCLUDE_FROM_ALL)
  endif()
  install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${ATTILE_PACKAGE_${component}}
    COMPONENT ${component} ${exclude})
endforeach()

set(CPACK_GENERATOR "DEB;TGZ")
if(WIN32)
  set(CPACK_GENERATOR ZIP)
endif()
set(CPACK_PACKAGE_NAME attile)
set(CPACK_PACKAGE_VENDOR "The Attile authors")
set(CPACK_PACKAGE_CONTACT "${ATTILE_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
if(WIN32)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)  # one archive with all that is installed
  set(CPACK_INCLUDE_TOPLEVEL_DIRECTORY OFF)  # packaging/generator.cmake names the folder
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/packaging/debian.cmake)
set(CPACK_ATTILE_SOURCE_DIR ${PROJECT_SOURCE_DIR})
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/packaging/generator.cmake)
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_PACKAGE_FILE_NAME attile-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_ARCHIVE_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_ATTILE_DEBIAN_VERSION ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(exactly "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# Debian wants lines below 80 characters, the first of them a summary.
function(attile_describe component summary text)
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_COMPONENT_${COMPONENT}_DESCRIPTION "attention and matrix multiplication: ${summary}
Attile computes attention and matrix products behind one stable C interface,
with backends that are loaded at run time.

${text}" PARENT_SCOPE)
endfunction()
foreach(component IN LISTS components)
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${ATTILE_PACKAGE_${component}})
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_DEPENDS "${ATTILE_RUNTIME_PACKAGE} ${exactly}")
  string(REGEX REPLACE "^backend_" "" backend ${component})
  attile_describe(${component} "the ${backend} backend" "This package is one of its backends.")
endforeach()
foreach(name IN LISTS ATTILE_TRANSPORTS)
  string(REPLACE _ " " words ${name})
  string(REGEX REPLACE "^mpi.*" MPI library ${name})
  string(TOUPPER ${library} library)
  attile_describe(comm_${name} "transport ${words}" "This package lets ranks of ${library} work on one call.")
endforeach()
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/packaging/triggers)
attile_describe(runtime "shared library" "This package holds the library with the reference backend, which runs
everywhere. A backend package makes it fast.")
if(plugins)
  list(JOIN plugins " | " any_plugin)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "${any_plugin}")
endif()
if(TARGET attile_blas)
  set(CPACK_DEBIAN_BLAS_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/packaging/triggers)
  attile_describe(blas "the names of BLAS" "This package gives sgemm and dgemm of programs that call BLAS to it, preloaded
or linked.")
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", ${ATTILE_PACKAGE_blas} ${exactly}")
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "pkg-config, cmake, gfortran, cargo")
attile_describe(dev "for development" "This package holds what programs in C, C++, Fortran and Rust are built with,
and examples.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
attile_describe(tools "command-line program" "This package holds the program attile, which shows, checks and measures the
backends of a machine.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
if(NOT TARGET python_native)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
endif()
# Not the same build: the extension is not linked to the library, and ctypes wants the soname alone.
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), python3-numpy, ${ATTILE_RUNTIME_PACKAGE} (>= ${PROJECT_VERSION})")
attile_describe(python "Python package" "This package lets Python call it with NumPy arrays and with those of other
libraries, without a copy.")
include(CPack)

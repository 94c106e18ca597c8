# Cross-compiles for Linux on AArch64, and runs what comes out under qemu-user; `tools/setup aarch64` installs both. The preset aarch64 names
# this file.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
find_program(ATTILE_FORTRAN_OF_AARCH64 aarch64-linux-gnu-gfortran)
if(ATTILE_FORTRAN_OF_AARCH64)
  set(CMAKE_Fortran_COMPILER ${ATTILE_FORTRAN_OF_AARCH64})
endif()

include(${CMAKE_CURRENT_LIST_DIR}/../cross/headers_of_host.cmake)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu ${ATTILE_HEADERS_OF_HOST})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
# What pkg-config knows are this machine's own libraries.
set(ENV{PKG_CONFIG_LIBDIR} /usr/aarch64-linux-gnu/lib/pkgconfig)

find_program(ATTILE_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(ATTILE_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${ATTILE_QEMU} -L /usr/aarch64-linux-gnu)
endif()

# Cross-compiles for Windows on x86-64 by mingw-w64, and runs what comes out under Wine; `tools/setup windows` installs both. The preset
# windows names this file.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
# The variant whose C++ library has threads.
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
# A program needs Windows and nothing of the compiler's.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -static)
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/../cross/headers_of_host.cmake)
set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32 ${ATTILE_HEADERS_OF_HOST})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()

# A Wine of the build's own, that prints nothing of itself.
find_program(ATTILE_WINE NAMES wine64 wine)
if(ATTILE_WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR env WINEPREFIX=${CMAKE_BINARY_DIR}/wine WINEDEBUG=-all sh ${CMAKE_CURRENT_LIST_DIR}/run.sh ${ATTILE_WINE})
endif()

# Flags every target of the project is compiled with, and what some are linked with. No -ffast-math, ever: it changes the MXCSR of the host program and breaks NaN.
add_library(attile_compiler INTERFACE)
if(WIN32)
  # Windows 8 and later: its threads sleep on an address.
  target_compile_definitions(attile_compiler INTERFACE _WIN32_WINNT=0x0602 WIN32_LEAN_AND_MEAN NOMINMAX)
endif()
if(ATTILE_STATIC)
  # The linker joins machine code (AttileStatic.cmake), and can make no name local that GCC has marked as one for the whole process.
  target_compile_options(attile_compiler INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fno-lto> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
endif()
if(ATTILE_WARNINGS_AS_ERRORS)
  target_compile_options(attile_compiler INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wpointer-arith -Wcast-qual -Wundef -Werror>
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 takes every "text" + std::string for an overlapping copy (its bug 105651).
    target_compile_options(attile_compiler INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
endif()
if(ATTILE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${ATTILE_SANITIZE}> $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${ATTILE_SANITIZE})
  # The library is C++; Clang gives a program in C a runtime for C alone.
  add_link_options("$<$<LINK_LANG_AND_ID:C,Clang>:-fsanitize-link-c++-runtime;-lstdc++>")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Wno-maybe-uninitialized>)  # GCC finds it in instrumented std::regex, wrongly.
  endif()
  if(ATTILE_SANITIZE MATCHES undefined)
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>)
  endif()
endif()
# What is loaded into other people's programs. A thread's own variables lie where every thread has them from its start: the general model
# takes memory at a thread's first use, and glibc ends the process where there is none. There is little room for them in libraries that are
# loaded late, so they are pointers and flags. musl makes room when a library is loaded, and knows no initial-exec there.
add_library(attile_embedded INTERFACE)
include(CheckCXXSymbolExists)
check_cxx_symbol_exists(__GLIBC__ features.h ATTILE_HAS_GLIBC)
if(ATTILE_HAS_GLIBC)
  target_compile_options(attile_embedded INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-ftls-model=initial-exec>)
endif()
# Names that nothing defines are found when a library is linked, not when it is loaded. Clang's sanitizers live in the program, GCC's in
# libraries of their own.
add_library(attile_all_defined INTERFACE)
if(NOT ATTILE_SANITIZE OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_options(attile_all_defined INTERFACE -Wl,--no-undefined)
endif()
# The host program may use another C++ runtime: ours is linked in and hidden. The sanitizers' runtimes need the shared one.
# ATTILE_STATIC_CXX_RUNTIME: the compiler links its C++ runtime into every library by itself. GCC is told to.
add_library(attile_static_runtime INTERFACE)
if(NOT ATTILE_SANITIZE AND (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR ATTILE_STATIC_CXX_RUNTIME))
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With -static MinGW's threads are linked in, too; what is of Windows itself stays shared.
    target_link_options(attile_static_runtime INTERFACE -static-libstdc++ -static-libgcc $<$<BOOL:${MINGW}>:-static>)
  endif()
  if(ATTILE_HAS_GLIBC)
    target_sources(attile_static_runtime INTERFACE ${CMAKE_CURRENT_LIST_DIR}/exception_globals.cpp)
  endif()
endif()

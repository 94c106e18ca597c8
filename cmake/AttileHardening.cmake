# What distributions ask of machine code that lives in other people's programs, as far as the compiler has it: canaries before return
# addresses, frames that cannot step over the guard page, calls of the C library that know the size of their buffers, jumps to marked places
# alone, and tables of the linker that nobody can write to once a program runs. The library, its backends and the program link
# attile_hardening; what it asks for is checked by tests/abi, on the files that come out. Sanitizers bring their own.
# attile_hardened asks the same of the compiler in a sanitized build, too, for what is compiled there as without sanitizers.
add_library(attile_hardening INTERFACE)
add_library(attile_hardened INTERFACE)
set(ATTILE_HARDENED_COMPILE "")  # What the compiler of C++ has; said to tests/abi.
if(NOT ATTILE_HARDENING)
  return()
endif()
if(WIN32)
  target_link_options(attile_hardening INTERFACE -Wl,--dynamicbase -Wl,--nxcompat -Wl,--high-entropy-va)
else()
  target_link_options(attile_hardening INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
set(hardened attile_hardened)
if(NOT ATTILE_SANITIZE)
  list(APPEND hardened attile_hardening)
  include(CheckPIESupported)
  check_pie_supported(LANGUAGES C CXX)  # Programs are linked to be loaded anywhere, whatever the compiler's default is.
endif()

set(candidates -fstack-protector-strong -fstack-clash-protection)
if(WIN32)
  # Windows' own frames meet the guard page, and it marks no places to jump to.
  set(candidates -fstack-protector-strong)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
  list(APPEND candidates -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(APPEND candidates -mbranch-protection=standard)
endif()
if(MINGW)
  target_link_options(attile_hardening INTERFACE -fstack-protector-strong)  # whose functions are in a library of the compiler's
endif()
set(CMAKE_REQUIRED_FLAGS -Werror)
foreach(flag IN LISTS candidates)
  string(MAKE_C_IDENTIFIER "ATTILE_HAS${flag}" variable)
  check_cxx_compiler_flag(${flag} ${variable})
  if(${variable})
    list(APPEND ATTILE_HARDENED_COMPILE ${flag})
  endif()
endforeach()
# Some compilers define it themselves, and a distribution's own flags may ask for more: theirs stays. Without optimisation the C library
# warns that it does nothing.
check_cxx_source_compiles("#include <features.h>\n#if defined(_FORTIFY_SOURCE) || !defined(__GLIBC__)\n#error there already, or of no use\n#endif\nint main() {}"
  ATTILE_FORTIFY_IS_MISSING)
unset(CMAKE_REQUIRED_FLAGS)
foreach(target IN LISTS hardened)
  target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${ATTILE_HARDENED_COMPILE}>)
  if(ATTILE_FORTIFY_IS_MISSING)
    target_compile_definitions(${target} INTERFACE $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:_FORTIFY_SOURCE=2>)
  endif()
endforeach()
if(ATTILE_SANITIZE)
  set(ATTILE_HARDENED_COMPILE "")
  return()
endif()
# Of a kernel's file, the host's half.
list(JOIN ATTILE_HARDENED_COMPILE "," host)
target_compile_options(attile_hardening INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host}>)

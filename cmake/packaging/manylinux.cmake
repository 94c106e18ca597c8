# Toolchain of the wheels: Zig's clang against glibc 2.28, whatever the machine's own glibc is, so that the libraries load where manylinux_2_28 says they do. Its C++ runtime
# (libc++) is linked in. tools/wheel passes ATTILE_ZIG, the zig program of the package ziglang. Of CUDA nvcc compiles the kernels with the system's compiler: their objects ask
# for plain C functions alone, and the linker takes these at their versions of glibc 2.28.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ATTILE_ZIG)
set(target ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.2.28)
set(CMAKE_C_COMPILER ${ATTILE_ZIG} cc -target ${target})
set(CMAKE_CXX_COMPILER ${ATTILE_ZIG} c++ -target ${target})
# Without it Zig traps on what UBSan finds, in builds without optimisation.
set(CMAKE_C_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
set(ATTILE_STATIC_CXX_RUNTIME ON)

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the library and its developer's part, moves them, and builds a program against the binding there: by pkg-config and by find_package.
# usage: fortran_install.sh CMAKE BUILD PROGRAM.f90 WORK FORTRAN_COMPILER LIBDIR [EMULATOR...]
set -euo pipefail
cmake=$1 build=$2 program=$3 work=$4 fc=$5 libdir=$6
run=(env "${@:7}") # or an emulator, for what is of another machine
# Nothing of an Attile that this machine has already may stand in for what is installed here.
unset "${!ATTILE_@}" LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH CPATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH attile_DIR attile_ROOT DESTDIR
export ATTILE_BACKEND=reference
rm -rf "$work"
mkdir -p "$work/cmake"
for component in runtime dev; do "$cmake" --install "$build" --prefix "$work/first" --component "$component" >"$work/install.log"; done
mv "$work/first" "$work/second"
prefix=$work/second

echo "== pkg-config"
export PKG_CONFIG_LIBDIR=$prefix/$libdir/pkgconfig
eval "flags=($(pkg-config --cflags --libs attile-fortran))" # its answer is quoted for a shell
"$fc" "$program" -o "$work/program" "${flags[@]}"
(cd / && LD_LIBRARY_PATH=$prefix/$libdir "${run[@]}" "$work/program") | tee "$work/output"
grep -q '^1008 attention: v' "$work/output"

echo "== find_package"
cp "$program" "$work/cmake/program.f90"
cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C Fortran)
find_package(attile 1 REQUIRED)
add_executable(program program.f90)
target_link_libraries(program PRIVATE attile::fortran)
END
"$cmake" -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_Fortran_COMPILER="$fc" -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log"
"$cmake" --build "$work/cmake/build" >"$work/build.log"
(cd / && "${run[@]}" "$work/cmake/build/program") | cmp - "$work/output"
echo "install test of the Fortran binding passed"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build tree, builds a consumer against the installation in both ways and runs it; moves the installation; does it again.
set -euo pipefail
cmake=$1 build=$2 consumer=$3 work=$4 cc=$5 libdir=$6 pkg_config=$7 subdir=$8
run=(env "${@:9}") # or an emulator, for what is of another machine
# Nothing of an Attile that this machine has already may stand in for what is installed here.
unset "${!ATTILE_@}" LD_LIBRARY_PATH LD_PRELOAD LIBRARY_PATH CPATH C_INCLUDE_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH attile_DIR attile_ROOT DESTDIR

fail() {
    echo "install test: $*" >&2
    exit 1
}

use() {
    local prefix=$1 scratch=$2 extra
    mkdir -p "$scratch"
    echo "== find_package in $prefix"
    "$cmake" -S "$consumer" -B "$scratch/cmake" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
    "$cmake" --build "$scratch/cmake"
    (cd / && "${run[@]}" "$scratch/cmake/consumer")

    echo "== pkg-config in $prefix"
    export PKG_CONFIG_LIBDIR="$prefix/$libdir/pkgconfig"
    eval "extra=($("$pkg_config" --cflags --libs attile))" # its answer is quoted for a shell
    "$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$consumer/consumer.c" -o "$scratch/consumer" "${extra[@]}"
    (cd / && LD_LIBRARY_PATH="$prefix/$libdir" "${run[@]}" "$scratch/consumer")
    (cd / && LD_LIBRARY_PATH="$prefix/$libdir" ATTILE_BACKEND=reference "${run[@]}" "$scratch/consumer") | grep -q '^backend reference,' ||
        fail "the reference backend did not answer"
    if [ -e "$prefix/$libdir/$subdir/libattile_backend_cpu.so" ]; then
        (cd / && LD_LIBRARY_PATH="$prefix/$libdir" ATTILE_BACKEND=cpu "${run[@]}" "$scratch/consumer") | grep -q '^backend cpu,' ||
            fail "the cpu plugin beside the installed library was not found"
    fi
    [ ! -e "$build/lib/libattile_blas.so" ] || use_blas "$prefix" "$scratch"
}

use_blas() {
    local prefix=$1 scratch=$2 extra
    echo "== the names of BLAS in $prefix"
    eval "extra=($("$pkg_config" --libs attile-blas))"
    "$cc" -std=c99 -pedantic -Wall -Wextra -Werror "$consumer/blas_consumer.c" -o "$scratch/blas_consumer" "${extra[@]}"
    (cd / && LD_LIBRARY_PATH="$prefix/$libdir" "${run[@]}" "$scratch/blas_consumer")
    # libattile is found beside libattile_blas, whatever the loader's path is: by a program that is linked to that alone, and preloaded.
    (cd / && ATTILE_BACKEND=reference ATTILE_LOG=info "${run[@]}" "$scratch/cmake/blas_consumer" 2>&1) | grep -q "backend 'reference'.* chosen" ||
        fail "the program of attile::blas has not called the library"
    [ ${#run[@]} -gt 1 ] || [ -z "$(LD_PRELOAD="$prefix/$libdir/libattile_blas.so.1" /bin/true 2>&1)" ] || fail "libattile_blas cannot be preloaded"
}

rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log"
use "$work/first" "$work/scratch-first"
mv "$work/first" "$work/second"
use "$work/second" "$work/scratch-second"
grep -rIl --fixed-strings -e "$work/first" -e "$build" "$work/second" && fail "files above name the place of installation or of the build"

echo "== components"
"$cmake" --install "$build" --prefix "$work/runtime" --component runtime >>"$work/install.log"
[ -e "$work/runtime/$libdir/libattile.so.1" ] || fail "component runtime lacks libattile.so.1"
[ ! -e "$work/runtime/$libdir/libattile.so" ] || fail "component runtime has the linker's name"
[ ! -e "$work/runtime/include" ] || fail "component runtime has headers"
"$cmake" --install "$build" --prefix "$work/dev" --component dev >>"$work/install.log"
[ -e "$work/dev/include/attile/attile.h" ] || fail "component dev lacks attile.h"
[ ! -e "$work/dev/$libdir/libattile.so.1" ] || fail "component dev has the library"
[ ! -e "$work/dev/$libdir/libattile_blas.so.1" ] || fail "component dev has libattile_blas"
if [ -e "$build/lib/libattile_blas.so" ]; then
    "$cmake" --install "$build" --prefix "$work/blas" --component blas >>"$work/install.log"
    [ -e "$work/blas/$libdir/libattile_blas.so.1" ] || fail "component blas lacks libattile_blas.so.1"
    [ "$(find "$work/blas" ! -type d ! -name copyright ! -name 'libattile_blas.so.*')" = "" ] ||
        fail "component blas has other files than the library"
fi
echo "install test passed"

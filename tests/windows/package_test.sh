#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs the build as .zip, unpacks it in a folder whose name no code page has, and builds a first program against it by find_package and by the
# compiler alone. The programs run with nothing else at hand.
# usage: package_test.sh BUILD SOURCE WORK TOOLCHAIN [EMULATOR...]
set -euo pipefail
build=$1 source=$2 work=$3 toolchain=$4; shift 4
emulator=("$@")
fail() { echo "$*" >&2; exit 1; }
rm -rf "$work" && mkdir -p "$work/größe-数" && cd "$work"
cpack --config "$build/CPackConfig.cmake" -G ZIP -B "$work/packed" >cpack.txt 2>&1 || { cat cpack.txt >&2; exit 1; }
archives=("$work"/packed/*.zip)
[ ${#archives[@]} = 1 ] || fail "expected one archive, there are ${#archives[@]}: ${archives[*]}"
(cd "größe-数" && cmake -E tar xf "${archives[0]}")
prefix=$(echo "$work"/größe-数/attile-*)
for file in bin/libattile-1.dll bin/attile-1/libattile_backend_cpu.dll bin/attile.exe lib/libattile.dll.a include/attile/attile.h lib/cmake/attile/attileConfig.cmake; do
  [ -f "$prefix/$file" ] || fail "the archive has no $file: $(cd "$prefix" && find bin lib -type f)"
done
# Nothing of the compiler's.
for file in bin/libattile-1.dll bin/attile-1/libattile_backend_cpu.dll bin/attile.exe; do
  strangers=$(x86_64-w64-mingw32-objdump -p "$prefix/$file" | sed -n 's/.*DLL Name: //p' | grep -viE '^(kernel32|advapi32|shell32|msvcrt|libattile-1)\.dll$|^api-ms-win-' || true)
  [ -z "$strangers" ] || fail "$file needs $strangers"
done
exports=$(x86_64-w64-mingw32-nm -g --defined-only "$prefix/lib/libattile.dll.a" | sed -n 's/.* T //p' | sort)
[ "$exports" = "$(sed 's/@.*//; s/ .*//' "$source/tests/abi/exports.txt" | grep '^attile_' | sort)" ] || fail "other exports than tests/abi/exports.txt has: $exports"

mkdir program
cp "$source/examples/c/first_attention.c" program/
cat >program/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(first C)
find_package(attile REQUIRED)
add_executable(first first_attention.c)
target_link_libraries(first PRIVATE attile::attile)
END
{ cmake -S program -B program/build -G Ninja "-DCMAKE_TOOLCHAIN_FILE=$toolchain" "-Dattile_DIR=$prefix/lib/cmake/attile" && cmake --build program/build; } \
  >program.txt 2>&1 || { cat program.txt >&2; exit 1; }
x86_64-w64-mingw32-gcc -std=c99 "-I$prefix/include" program/first_attention.c "$prefix/lib/libattile.dll.a" -o program/alone.exe
# A program finds the library beside itself, and the library its backends beside itself.
for program in program/build/first.exe program/alone.exe; do
  cp "$program" "$prefix/bin/"
  for backend in reference cpu; do
    (cd / && ATTILE_BACKEND=$backend "${emulator[@]}" "$prefix/bin/${program##*/}") >"$backend.txt"
    [ "$(wc -l <"$backend.txt")" = 96 ] || fail "$program on $backend: $(wc -l <"$backend.txt") lines, expected 96"
  done
done
(cd / && "${emulator[@]}" "$prefix/bin/attile.exe" info) | grep -q '^backend  *cpu ' || fail "the unpacked program does not find the cpu backend"

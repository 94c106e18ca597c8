#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a program that has the project as a subdirectory: its build type stays what it was, and nothing of the project is in its installation unless it asks for it.
# usage: subproject_test.sh CMAKE SOURCE WORK
set -euo pipefail
cmake=$1 source=$2 work=$3
rm -rf "$work" && mkdir -p "$work"
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C CXX)
add_subdirectory([[$source]] attile)
if(NOT "\${CMAKE_BUILD_TYPE}" STREQUAL "" OR DEFINED CACHE{CMAKE_BUILD_TYPE} AND NOT "\$CACHE{CMAKE_BUILD_TYPE}" STREQUAL "")
  message(FATAL_ERROR "the subproject has set CMAKE_BUILD_TYPE to '\${CMAKE_BUILD_TYPE}'")
endif()
END
for asked in OFF ON; do
    options=()
    [ $asked = OFF ] || options+=(-DATTILE_INSTALL=ON)
    "$cmake" -S "$work" -B "$work/$asked" -G Ninja "${options[@]}" >"$work/$asked.log" 2>&1 || { tail -5 "$work/$asked.log"; exit 1; }
    rules=$({ find "$work/$asked" -name cmake_install.cmake -exec cat {} + | grep -c 'file(INSTALL'; } || true)
    if [ $asked = OFF ] && [ "$rules" != 0 ]; then echo "$rules rules of installation that nobody asked for"; exit 1; fi
    if [ $asked = ON ] && [ "$rules" = 0 ]; then echo "ATTILE_INSTALL=ON installs nothing"; exit 1; fi
    echo "ATTILE_INSTALL $asked: $rules rules"
done

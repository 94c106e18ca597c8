#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Conan recipe, shared and static, without a network: CMake and Highway are this machine's. Its own test program must find the cpu backend.
# usage: conan_recipe.sh CONAN SOURCE WORK [VARIABLE=VALUE...]     variables of CMake, such as ATTILE_CPU_TARGETS=avx2
set -euo pipefail
conan=$1 source=$2 work=$3
shift 3
unset "${!ATTILE_@}" LD_LIBRARY_PATH LD_PRELOAD
rm -rf "$work" && mkdir -p "$work"
export CONAN_HOME=$work/home
"$conan" profile detect >"$work/profile.log" 2>&1
profile=$("$conan" profile path default)
printf '[platform_requires]\nhighway/1.0.3\n[platform_tool_requires]\ncmake/%s\n' "$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')" >>"$profile"
variables=''
for pair in "$@"; do variables+="'${pair%%=*}':'${pair#*=}',"; done
version=$("$conan" inspect "$source/cmake/packaging/conan" --format=json | sed -n 's/.*"version": "\(.*\)".*/\1/p')
for shared in True False; do
    "$conan" create "$source/cmake/packaging/conan" -o "attile/*:shared=$shared" --no-remote \
        -c "tools.cmake.cmaketoolchain:extra_variables={$variables}" >"$work/shared=$shared.log" 2>&1 || { tail -30 "$work/shared=$shared.log"; exit 1; }
    grep -qx 'cpu: 19 22 43 50' "$work/shared=$shared.log" || { echo "conan recipe: the test program did not run on cpu" >&2; exit 1; }
done
echo "conan recipe: attile/$version, shared and static"

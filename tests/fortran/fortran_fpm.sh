#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Fortran package manager builds a program that depends on the binding's folder. usage: fortran_fpm.sh FPM BINDING PROGRAM.f90 LIBDIR WORK
set -euo pipefail
fpm=$1 binding=$2 program=$3 libdir=$4 work=$5
rm -rf "$work"
mkdir -p "$work/app"
cp "$program" "$work/app/main.f90"
cd "$work"
# A path that begins with / would be looked for below the project.
printf 'name = "first"\n[dependencies]\nattile = { path = "%s" }\n' "$(realpath --relative-to="$work" "$binding")" >fpm.toml
export FPM_LDFLAGS=-L$libdir LD_LIBRARY_PATH=$libdir ATTILE_BACKEND=reference
"$fpm" run >output 2>log || { cat output log; exit 1; }
[ "$(grep -cE '^ +-?[0-9.]+E[+-][0-9]+$' output)" = 96 ] || { cat output; exit 1; }

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the public headers by themselves, as strictly as compilers can.
#   headers_test.sh INCLUDE_DIR C_COMPILER CXX_COMPILER...   (pairs)
set -euo pipefail
include=$1
shift
strict=(-pedantic-errors -Wall -Wextra -Wshadow -Wcast-qual -Wundef -Werror -fsyntax-only)
while [ $# -ge 2 ]; do
    for header in attile.h attile_backend.h attile_distributed.h attile_comm_plugin.h; do
        source="#include <attile/$header>"$'\n'"#include <attile/$header>"$'\n'"int translation_unit;"
        for standard in c99 c11 c17; do
            "$1" -x c -std=$standard "${strict[@]}" -Wstrict-prototypes -Wc++-compat -I"$include" - <<<"$source"
        done
        for standard in c++11 c++17 c++20; do
            "$2" -x c++ -std=$standard "${strict[@]}" -Wold-style-cast -Wnon-virtual-dtor -I"$include" - <<<"$source"
        done
    done
    echo "$1 and $2 take the headers"
    shift 2
done

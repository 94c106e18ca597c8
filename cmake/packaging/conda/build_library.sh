#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# conda-build runs it in the source tree.
set -euo pipefail
cmake -B build/conda -G Ninja ${CMAKE_ARGS-} -DBUILD_SHARED_LIBS=ON -DATTILE_DEVELOPER=OFF -DATTILE_INSTALL=ON -DCMAKE_INSTALL_PREFIX="$PREFIX" -DCMAKE_INSTALL_LIBDIR=lib \
    -DATTILE_HIGHWAY_INCLUDE="$PREFIX/include"
cmake --build build/conda
cmake --install build/conda
rm -r "$PREFIX/share/attile"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# conda-build runs it in the source tree. The plugin lies where libattile of the same environment looks for it.
set -euo pipefail
cmake -B build/conda-cuda -G Ninja ${CMAKE_ARGS-} -DBUILD_SHARED_LIBS=ON -DATTILE_DEVELOPER=OFF -DATTILE_INSTALL=ON -DCMAKE_INSTALL_PREFIX="$PREFIX" -DCMAKE_INSTALL_LIBDIR=lib \
    -DATTILE_BACKEND_CPU=OFF -DATTILE_COMM_NCCL=OFF -DATTILE_BACKEND_CUDA=ON
cmake --build build/conda-cuda --target attile_backend_cuda
cmake --install build/conda-cuda --component backend_cuda

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fills a folder with links to the headers of the distribution's CUDA toolkit. They lie in /usr/include: another toolkit's may come before them there, and a compiler for
# another C library must not see what else is in that folder.
# usage: cuda_headers.sh FOLDER
set -euo pipefail
rm -rf "$1"
mkdir -p "$1"
for path in $(dpkg -L nvidia-cuda-dev nvidia-cuda-toolkit libcub-dev libthrust-dev 2>/dev/null | grep -E '^/usr/include/[^/]+$'); do ln -sf "$path" "$1/"; done
[ -e "$1/cuda_runtime_api.h" ] || { echo "cuda_headers.sh: Debian's packages nvidia-cuda-dev and nvidia-cuda-toolkit hold no cuda_runtime_api.h; tools/setup cuda installs them" >&2; exit 1; }

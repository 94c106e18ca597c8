#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Is every C, C++ and CUDA source as .clang-format has it? Names the lines that are not. usage: check_format.sh CLANG_FORMAT SOURCE
set -euo pipefail
clang_format=$1
cd "$2"
mapfile -d '' -t sources < <(find backends bindings core docs examples include tests tools -regextype egrep -regex '.*\.(c|h|cpp|hpp|cu|cuh)' -print0)
[ ${#sources[@]} -gt 100 ] || { echo "check_format.sh: only ${#sources[@]} sources in $2" >&2; exit 1; }
"$clang_format" --dry-run -Werror --ferror-limit=20 "${sources[@]}"
echo "${#sources[@]} sources as .clang-format has them"

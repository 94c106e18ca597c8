#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures the project as its users do, plainly and by a preset with every GPU backend whose compiler is here, and looks at every command that the build would run: no warning is
# an error there, and none of the switches that tools/test builds with is on. A newer compiler, or another GPU, warns of something new.
# usage: user_build_test.sh CMAKE SOURCE WORK
set -euo pipefail
cmake=$1 source=$2 work=$3
unset CFLAGS CXXFLAGS CUDAFLAGS || true
failed=0
rm -rf "$work" && mkdir -p "$work"

look() { # name, then arguments of cmake
    local name=$1
    shift
    if ! (cd "$source" && "$cmake" "$@" -B "$work/$name" -G Ninja) >"$work/$name.log" 2>&1; then
        tail -5 "$work/$name.log"
        echo "$name: does not configure"
        failed=1
    elif grep -Ehno -e '-Werror[^ ]*|-Xptxas=?-?-?warn[^ ]*|--warning-as-error|-Wall' "$work/$name/build.ninja" | sort -u -t: -k2 >"$work/$name.found" && [ -s "$work/$name.found" ]; then
        echo "$name: switches of a developer's are on: $(cut -d: -f2 "$work/$name.found" | sort -u | tr '\n' ' ')"
        failed=1
    else
        echo "$name: plain"
    fi
}

nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc || true)
cuda=(-DATTILE_BACKEND_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc")
if [ "$nvcc" = /usr/bin/nvcc ] && command -v g++-11 >/dev/null; then cuda+=("-DCMAKE_CUDA_HOST_COMPILER=$(command -v g++-11)"); fi
look plain -S .
gpus=()
if [ -n "$nvcc" ]; then gpus+=("${cuda[@]}" -DATTILE_BUILD_LADDER=ON); else echo "cuda: no nvcc here"; fi
if command -v hipcc >/dev/null; then gpus+=(-DATTILE_BACKEND_HIP=ON -DATTILE_HIP_ARCHITECTURES=gfx90a); else echo "hip: no hipcc here"; fi
[ ${#gpus[@]} = 0 ] || look gpus --preset cpu "${gpus[@]}"
# And where they are asked for, they are there.
(cd "$source" && "$cmake" --preset cpu -B "$work/strict" -G Ninja -DATTILE_WARNINGS_AS_ERRORS=ON) >"$work/strict.log" 2>&1
grep -q -e -Werror "$work/strict/build.ninja" || { echo "strict: ATTILE_WARNINGS_AS_ERRORS does nothing"; failed=1; }
rm -rf "$work"
exit $failed

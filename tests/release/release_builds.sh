#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures and builds every preset with each compiler that is here, and the GPU backends for each GPU by itself that a preset or a document
# names, with each toolkit, warnings being errors. A line for each; the log of what failed is kept. Hours, so not a part of tools/test by default.
# usage: release_builds.sh [PATTERN...]     only what a pattern (of the shell) names, e.g. 'cuda-11.8-*'; --list prints all names. On a machine of
# many processors several may run at once, each with names of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."
jobs=${ATTILE_JOBS:-$(nproc)} out=$PWD/build/release-builds failed=0 list=
[ "${1-}" != --list ] || { list=1; shift; }
patterns=("$@")
mkdir -p "$out"

# build NAME TARGET ARGUMENT...: a line for it. TARGET may be all. A build is thrown away when it is done.
build() {
    local name=$1 target=$2 pattern wanted= start=$SECONDS
    shift 2
    [ ${#patterns[@]} -gt 0 ] || wanted=1
    # shellcheck disable=SC2053  # it is a pattern
    for pattern in "${patterns[@]}"; do [[ $name != $pattern ]] || wanted=1; done
    [ -n "$wanted" ] || return 0
    if [ -n "$list" ]; then echo "$name"; return 0; fi
    rm -rf "$out/$name"
    if cmake "$@" -B "$out/$name" -G Ninja --log-level=WARNING -DATTILE_WARNINGS_AS_ERRORS=ON >"$out/$name.log" 2>&1 &&
        cmake --build "$out/$name" -j "$jobs" --target "$target" -- --quiet >>"$out/$name.log" 2>&1; then
        printf '%-34s built in %d s\n' "$name" $((SECONDS - start))
        rm -f "$out/$name.log"
    else
        printf '%-34s FAILED, see %s\n' "$name" "$out/$name.log"
        failed=1
    fi
    rm -rf "$out/$name"
}

for cc in gcc clang; do
    command -v $cc >/dev/null || { echo "no $cc here"; continue; }
    cxx=${cc/gcc/g++} cxx=${cxx/clang/clang++}
    for preset in cpu package asan tsan; do
        build "$preset-$cc" all --preset $preset -DCMAKE_C_COMPILER=$cc -DCMAKE_CXX_COMPILER="$cxx"
    done
    build "debug-$cc" all --preset cpu -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=$cc -DCMAKE_CXX_COMPILER="$cxx"
done
if command -v clang >/dev/null; then build fuzz-clang all --preset fuzz; fi
if command -v doxygen >/dev/null; then build docs docs --preset docs; fi

# Of NVIDIA: each toolkit with the default of its preset, then what tools/demo builds on one GPU after the other.
named=$(grep -ohE '\b[1-9][0-9]{1,2}-(real|virtual)\b' CMakePresets.json README.md docs/*.md | sed 's/-.*//' | sort -nu)
named=$(printf '%s\n' $named $(sed -n 's/^ *set(capabilities \(.*\))/\1/p; s/^ *list(APPEND capabilities \(.*\))/\1/p' backends/cuda/CMakeLists.txt) | sort -nu)
gpu_alone=(-DATTILE_BACKEND_CPU=OFF -DATTILE_BUILD_BENCH=OFF -DATTILE_BUILD_FORTRAN=OFF)
declare -A toolkits=()
path_before=$PATH
for nvcc in /usr/bin/nvcc /usr/local/cuda*/bin/nvcc "$(command -v nvcc || true)"; do
    [ -x "$nvcc" ] || continue
    version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
    [ -n "${toolkits[$version]-}" ] || toolkits[$version]=$nvcc
done
[ ${#toolkits[@]} -gt 0 ] || echo "no nvcc here"
for version in "${!toolkits[@]}"; do
    nvcc=${toolkits[$version]}
    export PATH="${nvcc%/*}:$path_before" # nvcc takes ptxas from there, which must be of the same toolkit
    toolkit=(-DATTILE_BACKEND_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc" "${gpu_alone[@]}")
    if [ "$nvcc" = /usr/bin/nvcc ]; then # the distribution's: see tools/test
        headers=$out/headers-$version
        mkdir -p "$headers"
        for path in $(dpkg -L nvidia-cuda-dev nvidia-cuda-toolkit libcub-dev libthrust-dev 2>/dev/null | grep -E '^/usr/include/[^/]+$'); do ln -sf "$path" "$headers/"; done
        toolkit+=(-DCMAKE_CUDA_HOST_COMPILER=/usr/bin/g++-11 -DCUDAToolkit_ROOT=/usr "-DCMAKE_CUDA_FLAGS=-I\"$headers\"" "-DCMAKE_CXX_FLAGS=-isystem \"$headers\"")
    else
        toolkit+=("-DCUDAToolkit_ROOT=${nvcc%/bin/nvcc}")
    fi
    build "cuda-$version-preset" all --preset cuda "${toolkit[@]}" -DATTILE_BUILD_LADDER=ON
    if [ "${version%%.*}" -lt 13 ]; then build "cuda-$version-pascal" all --preset cuda-pascal "${toolkit[@]}"; fi
    if [ "${version%%.*}" -ge 12 ]; then build "cuda-$version-virtual" all --preset cuda "${toolkit[@]}" -DATTILE_CUDA_VIRTUAL=ON; fi
    known=$("$nvcc" --list-gpu-arch | sed -n 's/^compute_//p')
    for capability in $named; do
        if ! grep -qx "$capability" <<<"$known"; then echo "cuda-$version-sm_$capability: this toolkit does not know it"; continue; fi
        build "cuda-$version-sm_$capability" attile_backend_cuda -S . "${toolkit[@]}" "-DATTILE_CUDA_ARCHITECTURES=$capability-real" -DATTILE_BUILD_TESTS=OFF
    done
    build "cuda-$version-newest-ptx" attile_backend_cuda -S . "${toolkit[@]}" "-DATTILE_CUDA_ARCHITECTURES=$(sort -n <<<"$known" | tail -1)-virtual" -DATTILE_BUILD_TESTS=OFF
done
export PATH=$path_before

if command -v hipcc >/dev/null; then
    build hip-preset all --preset hip "${gpu_alone[@]}"
    for gpu in $(grep -ohE '\bgfx[0-9a-f]{3,4}\b' CMakePresets.json README.md docs/backends.md backends/hip/CMakeLists.txt | sort -u); do
        if hipcc -x hip --cuda-device-only --offload-arch="$gpu" -c -o /dev/null /dev/null 2>/dev/null; then
            build "hip-$gpu" attile_backend_hip --preset hip "${gpu_alone[@]}" "-DATTILE_HIP_ARCHITECTURES=$gpu" -DATTILE_BUILD_TESTS=OFF
        else
            echo "hip-$gpu: this hipcc does not know it"
        fi
    done
else
    echo "no hipcc here"
fi
exit $failed

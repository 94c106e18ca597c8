#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles kernels that ask for much of a multiprocessor for every NVIDIA GPU that a toolkit and this project know, and the smallest file of each
# operation's SIMT kernels for those whose multiprocessors differ, warnings being errors:
# what a kernel asks for depends on what a multiprocessor holds, and only the compiler for that one says that it does not.
# Of the kernels for tensor cores, for 8.0, a file of each type and operation, and one with what is done to scores.
# Then the lists of families, as a build has them whose kernels are for no tensor cores.
# usage: every_architecture.sh NVCC [OPTION...]     NVCC with its folder; options are those of nvcc
# ATTILE_OTHER_NVCC: a compiler that runs as well; what it knows is left to it. ATTILE_BUILT: a capability, as 61, that all files were compiled for already.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
nvcc=$1
shift
export PATH="${nvcc%/*}:$PATH" # nvcc takes ptxas from there, which must be of the same toolkit
here=$root/tests/release kernels=$root/backends/gpu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -D "INTO=$work" -D "FAMILIES=attention/simt;attention_backward/simt;attention/sm80;attention_backward/sm80;gemm/sm80" -P "$kernels/instances.cmake"
files=("$here/bounded_kernels" "$kernels"/{gemm/simt/f64,attention/simt/combine,attention/simt/convert,rows/merge} "$work/attention_backward/simt/cols32")
# The host code picks all of these (backends/cuda/CMakeLists.txt).
wanted=$(sed -n 's/^ *set(capabilities \(.*\))/\1/p; s/^ *list(APPEND capabilities \(.*\))/\1/p' "$root/backends/cuda/CMakeLists.txt" | tr '\n' ' ')
known=$("$nvcc" --list-gpu-arch | sed -n 's/^compute_//p')
codes=() distinct=() names=()
others=$([ -z "${ATTILE_OTHER_NVCC-}" ] || "$ATTILE_OTHER_NVCC" --list-gpu-arch | sed -n 's/^compute_//p')
# f16 has the code of bf16, by other names.
grep -qx 80 <<<"$others" ||
    files+=("$work"/attention/sm80/{bf16_cols64,bf16_cols64_bias,f32_cols64} "$work/attention_backward/sm80/bf16_cols64" "$work"/gemm/sm80/{bf16,f32,f64}_tiles)
for capability in $wanted; do
    grep -qx "$capability" <<<"$known" || continue
    ! grep -qx "$capability" <<<"$others" || continue
    [ "$capability" != "${ATTILE_BUILT-}" ] || continue
    code="-gencode=arch=compute_$capability,code=sm_$capability"
    codes+=("$code")
    # A multiprocessor of 7.0 holds what one of 6.0 does, of 8.0 what one of 9.0, and of 8.9 no less than one of 8.6.
    case $capability in 70 | 80 | 89) ;; *) distinct+=("$code") ;; esac
    names+=("${capability%?}.${capability: -1}")
done
[ ${#codes[@]} -gt 0 ] || { echo "$nvcc compiles for none of $wanted" >&2; exit 1; }
echo "SIMT kernels by $nvcc for ${names[*]}"
compile() { # file, codes
    "$nvcc" -std=c++17 --expt-relaxed-constexpr -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror -I"$root/include" -I"$root/backends/gpu" -I"$work" \
        -DATTILE_GPU_HAS_GEMM -DATTILE_GPU_HAS_ATTENTION "${options[@]}" "${@:2}" -fatbin -o "$work/$(tr / _ <<<"$1").fatbin" "$1.cu" ||
        { echo "${1##*/}.cu does not compile for all of ${*:2}"; return 1; }
}
options=("$@")
failed=0
jobs=${ATTILE_JOBS:-$(nproc)}
pids=()
for file in "${files[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 0.2; done
    case $file in
    */bounded_kernels) compile "$file" "${codes[@]}" & ;;
    */sm80/*) compile "$file" -gencode=arch=compute_80,code=compute_80 & ;;
    *) compile "$file" "${distinct[@]}" & ;;
    esac
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
# The lists of families, for a build without kernels for tensor cores: those for Pascal, and for AMD.
for file in "$kernels"/*/families.cpp; do
    "${CXX:-c++}" -std=c++20 -fsyntax-only -I"$root/include" -I"$kernels" -I"$work" -DATTILE_GPU_HAS_GEMM -DATTILE_GPU_HAS_ATTENTION "$file" ||
        { echo "$file does not compile without kernels for tensor cores"; failed=1; }
done
exit $failed

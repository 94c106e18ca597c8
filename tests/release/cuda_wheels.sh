#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wheels of the CUDA backend: by the distribution's CUDA 11.8, and by CUDA 13 where it is. Each is built for glibc 2.28, checked by auditwheel and installed beside the
# wheel of attile into an empty environment, where the library finds its plugin. NumPy comes from the network.
# usage: cuda_wheels.sh [--whole] SOURCE WORK WHEEL [NVCC...]
#   WHEEL is that of attile; NVCC, with its folder, by default the distribution's and that of /usr/local/cuda
#   --whole: for every capability that a wheel is for, which takes hours; else for one
set -euo pipefail
whole=false
[ "$1" != --whole ] || { whole=true; shift; }
source=$1 work=$2 wheel=$3
shift 3
[ $# -gt 0 ] || set -- /usr/bin/nvcc /usr/local/cuda/bin/nvcc
unset "${!ATTILE_@}" LD_LIBRARY_PATH LD_PRELOAD PYTHONPATH
fail() {
    echo "CUDA wheels: $*" >&2
    exit 1
}
mkdir -p "$work"
for nvcc in "$@"; do
    [ -x "$nvcc" ] || { echo "no $nvcc here"; continue; }
    # CUDA 11 takes no compiler later than GCC 11.
    if "$nvcc" --version | grep -q 'release 11\.'; then
        package=attile-cuda-legacy architectures=60-real host=/usr/bin/g++-11
    elif "$nvcc" --version | grep -q 'release 12\.'; then
        package=attile-cuda-legacy architectures=60-real host=/usr/bin/g++
    else
        package=attile-cuda architectures=75-real host=/usr/bin/g++
    fi
    some=(--architectures "$architectures")
    ! $whole || some=()
    rm -rf "${work:?}/$package" && mkdir "$work/$package"
    CUDAHOSTCXX=$host "$source/tools/wheel" --cuda "$nvcc" "${some[@]}" --work "$work/build" --output "$work/$package"
    made=("$work/$package"/*.whl)
    [[ ${made[0]##*/} == "${package//-/_}"-*-py3-none-manylinux_2_28_*.whl ]] || fail "made ${made[*]}"
    start=$SECONDS
    python3 -m venv "$work/$package/venv"
    "$work/$package/venv/bin/pip" install --quiet numpy
    "$work/$package/venv/bin/pip" install --quiet --no-index --no-deps "$wheel" "${made[0]}"
    (cd / && "$work/$package/venv/bin/python" -c "
import attile
attile.default_context()
print(attile.backend_report())") >"$work/$package/report"
    # Chosen, or refused in the plugin's own words for want of a driver or of a device of that capability.
    grep -E "^cuda \($work/$package/venv/.*/${package//-/_}/libattile_backend_cuda.so\): (chosen|refused, ATTILE_ERROR_BACKEND_REFUSED)" "$work/$package/report" ||
        { cat "$work/$package/report"; fail "$package is not found"; }
    echo "$package: installed and asked for in $((SECONDS - start)) s"
done

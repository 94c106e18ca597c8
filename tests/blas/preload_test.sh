#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs that are linked to the system's BLAS, with libattile_blas preloaded: netlib's tests of level 3 from Fortran and C, and a program in
# Fortran. The library's own log shows that the products were its own.
#   preload_test.sh netlib LIBRARY BACKEND WORK PROGRAMS       folder of netlib's programs, their inputs and netlib's BLAS
#   preload_test.sh program LIBRARY BACKEND WORK COMMAND...    the command prints "right"
# exact_netlib and exact_program: the same with exact products.
set -euo pipefail
what=$1 library=$2 backend=$3 work=$4
shift 4
rm -rf "$work" && mkdir -p "$work" && cd "$work"
unset "${!ATTILE_@}" LD_PRELOAD
export ATTILE_BACKEND=$backend
if [[ $what = exact_* ]]; then
    export ATTILE_GEMM=exact
    what=${what#exact_}
fi
fail() {
    echo "preload test: $*" >&2
    exit 1
}

# served OPERATION LEAST COMMAND...: once as users run it, once with a line of log for each call. Standard output is in `output`.
served() {
    local operation=$1 least=$2 calls
    shift 2
    ATTILE_LOG=info ATTILE_LOG_FILE=$work/log.first LD_PRELOAD=$library "$@" <"${input-/dev/null}" >output.first || fail "$*"
    grep -q "backend '$backend'.* chosen" log.first || fail "$*: libattile_blas has not made a context"
    ATTILE_LOG=debug ATTILE_LOG_FILE=$work/log LD_PRELOAD=$library "$@" <"${input-/dev/null}" >output || fail "$*, with a log"
    calls=$(grep -c "attile debug: $operation\$" log || true)
    [ "$calls" -ge "$least" ] || fail "$*: $calls calls of $operation are in the log, $least at least were expected"
    echo "${1##*/}: $calls calls of $operation"
    rm -f log log.first
}

case $what in
netlib)
    programs=$1
    # netlib's BLAS for what is not ours. Its tests of CBLAS need a variable of it, which other libraries do not have.
    export LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    for type in s d; do
        input=$programs/${type}blat3.in served ${type}gemm 10000 "$programs/xblat3$type"
        input=$programs/${type}in3 served ${type}gemm 20000 "$programs/x${type}cblat3"
        mv output.first cblas.first && mv output cblas
        # Of the Fortran programs the last run's file is left, which is the one with a log; its first run is made again.
        mv "${type}blat3.out" fortran
        ATTILE_LOG=off LD_PRELOAD=$library "$programs/xblat3$type" <"$programs/${type}blat3.in"
        mv "${type}blat3.out" fortran.first
        for run in "" .first; do
            for line in "${type^^}GEMM  PASSED THE TESTS OF ERROR-EXITS" "${type^^}GEMM  PASSED THE COMPUTATIONAL TESTS ( 17496 CALLS)" "END OF TESTS"; do
                grep -qF "$line" fortran$run || { cat fortran$run; fail "xblat3$type does not say: $line"; }
            done
            for line in "cblas_${type}gemm  PASSED THE TESTS OF ERROR-EXITS" "cblas_${type}gemm  PASSED THE COLUMN-MAJOR COMPUTATIONAL TESTS" \
                "cblas_${type}gemm  PASSED THE ROW-MAJOR    COMPUTATIONAL TESTS" "END OF TESTS"; do
                grep -qF "$line" cblas$run || { cat cblas$run; fail "x${type}cblat3 does not say: $line"; }
            done
            if grep -hE "FAILED|SUSPECT|\*\*\*" fortran$run cblas$run; then fail "netlib's tests of ${type}gemm and what calls it"; fi
        done
    done
    ;;
program)
    served dgemm 9 "$@"
    grep -q right output && grep -q right output.first || fail "$*: its products are wrong"
    ;;
esac

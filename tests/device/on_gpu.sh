#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a change of kernels has to pass on a GPU: one line a step, with the tests that ran and the seconds they took. Fails where a test
# fails, and where none ran.
#
# usage: tests/device/on_gpu.sh BUILD [STEP...]     BUILD: a build folder with the backend; STEP: conformance coverage tests sanitizers
#   conformance  the full list of cases, by each set of kernels that ATTILE_CUDA_TENSOR_CORES can choose
#   coverage     every plan with every option, by each set of kernels
#   tests        the device tests; those that take all memory, or break the device on purpose, one after the other
#   sanitizers   the four tools of compute-sanitizer (sanitize.sh)
# ATTILE_TEST_BACKEND: the backend (cuda); ATTILE_TEST_BEST_ONLY=1: one set of kernels, for a build that has no other; ATTILE_JOBS: processes at once (a processor each); logs are left in BUILD/on_gpu.
set -euo pipefail
[ $# -ge 1 ] && [ -d "$1" ] || { sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- conformance coverage tests sanitizers
export ATTILE_TEST_BACKEND=${ATTILE_TEST_BACKEND:-cuda} ATTILE_TEST_TIER=full
jobs=${ATTILE_JOBS:-$(nproc)}
logs=$build/on_gpu
mkdir -p "$logs"
sets=("") # of kernels: the best there are, and, on CUDA, those for 8.0 and none for tensor cores
[ "$ATTILE_TEST_BACKEND" != cuda ] || sets=("" 80 0)
[ -z "${ATTILE_TEST_BEST_ONLY-}" ] || sets=("")
. "$here/gpus.sh"
failed=0

say() { # name, tests that passed, tests that did not or what is wrong, seconds
  printf '%-28s %7s passed %s %6s s\n' "$1" "$2" "${3:+($3)}" "$4"
  [ -z "$3" ] && [ "$2" -gt 0 ] || failed=1
}
with_set() { # the set of kernels, then a command
  local kernels=$1; shift
  env ${kernels:+ATTILE_CUDA_TENSOR_CORES=$kernels} "$@"
}
passed_of() { cat "$@" | sed -n 's/^\[ *PASSED *\] \([0-9]*\) test.*/\1/p' | awk '{n += $1} END {print n + 0}'; }
failures_of() { cat "$@" | { grep -hE '^\[ *FAILED *\] [^0-9]|: Failure$' || true; } | sort | uniq -c | head -12 | cut -c1-240; }
failed_of() { cat "$@" | { grep -hE '^\[ *FAILED *\] [^0-9]' || true; } | sed 's/,.*//; s/ (.*//' | sort -u | wc -l; }

conformance() { # sharded over processes
  local kernels=$1 name=conformance-${1:-best} start=$SECONDS broken=0 shard running=()
  rm -f "$logs/$name"-*.log  # of a run by more processes
  for ((shard = 0; shard < jobs; ++shard)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard on_gpu_of "$shard" env ${kernels:+ATTILE_CUDA_TENSOR_CORES=$kernels} "$build/bin/attile_conformance" >"$logs/$name-$shard.log" 2>&1 &
    running+=($!)
  done
  for shard in "${running[@]}"; do wait "$shard" || broken=$((broken + 1)); done
  local wrong; wrong=$(failed_of "$logs/$name"-*.log)
  say "$name" "$(passed_of "$logs/$name"-*.log)" "$([ $broken = 0 ] || echo "$wrong tests failed, $broken of $jobs processes")" $((SECONDS - start))
  [ $broken = 0 ] || failures_of "$logs/$name"-*.log
}
coverage() {
  local start=$SECONDS kernels running=() index=0 result
  for kernels in "${sets[@]}"; do
    on_gpu_of ${#running[@]} env ${kernels:+ATTILE_CUDA_TENSOR_CORES=$kernels} "$build/bin/attile_coverage" >"$logs/coverage-${kernels:-best}.log" 2>&1 &
    running+=($!)
  done
  for kernels in "${sets[@]}"; do
    result=0
    wait "${running[index++]}" || result=$?
    say "coverage-${kernels:-best}, cells" "$(sed -n 's/.*: \([0-9]*\) cells.*/\1/p' "$logs/coverage-${kernels:-best}.log" | awk '{n += $1} END {print n + 0}')" \
      "$([ $result = 0 ] || echo "exit status $result")" $((SECONDS - start))
  done
}
device_test() { # the program, the set of kernels
  local program=$1 kernels=$2 log start=$SECONDS result=0
  log=$logs/$program-${kernels:-best}.log
  with_set "$kernels" "$build/bin/$program" >"$log" 2>&1 || result=$?
  say "$program-${kernels:-best}" "$(passed_of "$log")" "$([ $result = 0 ] || echo "$(failed_of "$log") tests failed, exit status $result")" \
    $((SECONDS - start))
  [ $result = 0 ] || failures_of "$log" # the log may stay on the machine
  return $failed
}
device_tests() { # most time is the reference's, on one processor: programs and sets at once, but for those that take all memory or break the device
  local program kernels running=()
  for program in cuda_device_test attention_backward_test attention_products_test far_scores_test; do
    [ -x "$build/bin/$program" ] || continue
    for kernels in "${sets[@]}"; do device_test "$program" "$kernels" & running+=($!); done
  done
  for program in "${running[@]}"; do wait "$program" || failed=1; done
  for program in cuda_limits_test cuda_fault_test; do
    [ -x "$build/bin/$program" ] || continue
    for kernels in "${sets[@]}"; do device_test "$program" "$kernels" || failed=1; done
  done
}

for step in "$@"; do
  case $step in
    conformance) for kernels in "${sets[@]}"; do conformance "$kernels"; done ;;
    coverage) coverage ;;
    tests) device_tests ;;
    sanitizers) "$here/sanitize.sh" "$build" || failed=1 ;;
    *) echo "on_gpu.sh: no step is called '$step'; steps: conformance coverage tests sanitizers" >&2; exit 2 ;;
  esac
done
exit $failed

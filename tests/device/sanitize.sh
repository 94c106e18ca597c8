#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA backend's kernels under the four tools of compute-sanitizer: a bounded list of conformance cases and device tests, each with every
# set of kernels that the device can run. One line a tool; fails on any error, and where a tool or a test did not run. Needs a GPU.
#
# usage: tests/device/sanitize.sh BUILD [TOOL...]     BUILD: a build folder with the CUDA backend; TOOL: memcheck racecheck synccheck initcheck
# ATTILE_SANITIZER: the program; ATTILE_SANITIZER_SECONDS: the most that one run of a test may take (600); ATTILE_JOBS: processors (all); logs are
# left in BUILD/sanitizer. Every GPU is used.
set -euo pipefail
[ $# -ge 1 ] && [ -d "$1" ] || { sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- memcheck racecheck synccheck initcheck
sanitizer=${ATTILE_SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
[ -x "$sanitizer" ] || { echo "sanitize.sh: no compute-sanitizer on PATH or in /usr/local/cuda/bin; ATTILE_SANITIZER names it" >&2; exit 2; }
seconds=${ATTILE_SANITIZER_SECONDS:-600}
logs=$build/sanitizer
mkdir -p "$logs"

# A program, then the tests of it. Every kernel family and feature, small: tools make a kernel ten to a thousand times as slow.
on=cuda_device
conformance="$on.gemm.split_*:$on.gemm.epilogue_gelu*:$on.gemm.batch*:$on.gemm.1??x*:$on.gemm.?x*:$on.gemm.no_unit_stride*:$on.gemm.random.?"
conformance+=":$on.attention.alone_*f32:$on.attention.*causal*:$on.attention.*packed*:$on.attention.*paged*:$on.attention.*huge*:$on.attention.random.?"
conformance+=":$on.attention_backward.plain*:$on.attention_backward.*packed*:$on.attention_backward.random.?"
conformance+=":$on.attention_merge.*f32:$on.reduce.random.?:$on.softmax.random.?:cuda_host.*.random.?"
programs=("attile_conformance $conformance" "attention_backward_test *FewOfEachKernel*" "far_scores_test *"
  "cuda_device_test CudaTest.*:*Decode*Few*:*Rows*Few*:-*LargeHost*:*EveryKindOfMemory*")

options_of() {
  case $1 in
    # Pools are kept on purpose; what a context leaks is tests/lifecycle's business. Tests have calls of the runtime fail on purpose.
    memcheck) echo "--leak-check no --report-api-errors no" ;;
    racecheck) echo "--racecheck-report analysis" ;;
    *) echo "" ;;
  esac
}
failed=0
# What a tool does not follow is left out of it, by name.
# - initcheck does not see what bulk copies write (cp.async.bulk), and Hopper's gradients sum dq by them: gradients are checked with the other sets.
# - racecheck does not follow mbarriers at which one lane arrives for its warp: it takes the bulk copy of the next rows' numbers in Hopper's
#   gradients for a race with the reads before it. The virtual GPU follows them (virtual_gpu/races.cpp).
# - racecheck loses launches of threads that share a context (an internal error of its own).
filter_of() { # the tool, the set of kernels, the filter; nothing where no test is left
  local filter=$3
  case "$1-$2 $filter" in
    "initcheck- "*FewOfEachKernel* | "racecheck- "*FewOfEachKernel* | "initcheck- *" | "racecheck- *") return ;; # gradients alone, or among others
  esac
  [[ "$filter" == *:-* ]] || filter+=":-"
  [ "$1-$2" != initcheck- ] || filter+=":*attention_backward*"
  [ "$1" != racecheck ] || filter+=":*ThreadsShareAContext*"
  echo "$filter"
}
. "$(dirname "${BASH_SOURCE[0]}")/gpus.sh"
# A tool's work is mostly the processor's: the conformance cases are cut into shards, so that there is a process for each processor.
shards=$(($(nproc) / 4))
[ "${ATTILE_JOBS:-}" = "" ] || shards=$((ATTILE_JOBS / 4))
[ "$shards" -gt 0 ] || shards=1
shards_of() { case $1 in attile_conformance) echo "$shards" ;; *) echo 1 ;; esac; }
run_of() { # the tool, the set of kernels, the program, its filter, the shard
  # shellcheck disable=SC2046  # several words
  on_gpu_of ${#running[@]} env ATTILE_TEST_BACKEND=cuda ${2:+ATTILE_CUDA_TENSOR_CORES=$2} "GTEST_TOTAL_SHARDS=$(shards_of "$3")" "GTEST_SHARD_INDEX=$5" \
    timeout "$seconds" "$sanitizer" --tool "$1" $(options_of "$1") --error-exitcode 99 --print-limit 20 "$build/bin/$3" --gtest_filter="$4"
}
for tool in "$@"; do
  errors=0 tests=0 broken=() running=() names=() start=$SECONDS
  for kernels in "" 80 0; do # ATTILE_CUDA_TENSOR_CORES: the best there are, those for 8.0, none.
    for entry in "${programs[@]}"; do
      program=${entry%% *} filter=$(filter_of "$tool" "$kernels" "${entry#* }")
      [ -n "$filter" ] || continue
      for ((shard = 0; shard < $(shards_of "$program"); ++shard)); do
        name=${kernels:-best}-$program-$shard
        run_of "$tool" "$kernels" "$program" "$filter" "$shard" >"$logs/$tool-$name.log" 2>&1 &
        running+=($!) names+=("$name")
      done
    done
  done
  for at in "${!running[@]}"; do
    name=${names[at]} log=$logs/$tool-${names[at]}.log
    wait "${running[at]}" || broken+=("$name: $?")
    found=$(sed -n 's/.*ERROR SUMMARY: \([0-9]*\) error.*/\1/p; s/.*RACECHECK SUMMARY: \([0-9]*\) hazard.*/\1/p' "$log" | tail -1)
    ran=$(sed -n 's/^\[ *PASSED *\] \([0-9]*\) test.*/\1/p' "$log" | tail -1)
    [ -n "$found" ] || broken+=("$name: no summary")
    [ "${ran:-0}" -gt 0 ] || broken+=("$name: no test passed")
    errors=$((errors + ${found:-0})) tests=$((tests + ${ran:-0}))
  done
  printf '%-10s %d errors, %d tests, %d s%s\n' "$tool" "$errors" "$tests" $((SECONDS - start)) "${broken[*]:+; ${broken[*]}}"
  [ "$errors" = 0 ] && [ ${#broken[@]} = 0 ] || failed=1
done
exit $failed

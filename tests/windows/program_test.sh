#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The attile program under Windows: its exit codes, what it writes, and names of files that no code page has.
# usage: program_test.sh PROGRAM DATA WORK [EMULATOR...]
set -euo pipefail
program=$1 data=$2 work=$3; shift 3
rm -rf "$work" && mkdir -p "$work/größe-数" && cd "$work"
run() { "${emulator[@]}" "$program" "$@"; }
emulator=("$@")
fail() { echo "$*" >&2; exit 1; }
expect() { # code, a part of what is said, then the arguments
  local code=$1 words=$2 got=0; shift 2
  run "$@" >out.txt 2>&1 || got=$?
  [ $got = "$code" ] || fail "attile $*: exit code $got, expected $code: $(cat out.txt)"
  grep -qF -- "$words" out.txt || fail "attile $*: '$words' is not in: $(cat out.txt)"
}

expect 0 "cpu" info --backend cpu
expect 2 "there is no command 'nosuch'" nosuch
expect 1 "cannot be opened" attention --backend reference nosuch.bin none.bin
expect 1 "is a directory" attention --backend reference größe-数 none.bin
[ ! -e none.bin ] || fail "an output was left behind by a call that failed"
for backend in reference cpu; do
  cp "$data/attention_small.bin" "größe-数/in.bin"
  expect 0 "" attention --backend $backend "größe-数/in.bin" "größe-数/out-$backend.bin"
  [ "$(stat -c %s "größe-数/out-$backend.bin")" = "$(stat -c %s "$data/attention_small_expected.bin")" ] || fail "the output of $backend has another size"
  expect 0 "" attention --backend $backend "größe-数/in.bin" "größe-数/out-$backend.bin" # replaced
done
[ "$(find größe-数 -name '*.part' | wc -l)" = 0 ] || fail "a temporary file was left behind"
# Ranks that are threads, and none of MPI.
expect 0 "" attention --backend cpu --ranks 2 "größe-数/in.bin" "größe-数/ranks.bin"
expect 1 "Windows" attention --backend cpu "größe-数/in.bin" "größe-数/ranks.bin" --ranks
expect 0 "cpu" verify --backend cpu --filter 'softmax'

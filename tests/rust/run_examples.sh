#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every Rust example; attention of a file must give the bytes that the C example gives.
# usage: run_examples.sh CARGO DATA C_EXAMPLES PYTHON
set -euo pipefail
cargo=$1 data=$2 c_examples=$3 python=$4
here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
example() { "$cargo" run --quiet --offline --example "$@"; }
example gemm | tee "$folder/gemm"
grep -qx '4.5 0' "$folder/gemm" && grep -qx '10.5 0' "$folder/gemm"
example choose_backend -- reference
if example choose_backend -- nosuch 2>"$folder/why"; then echo "a backend that is not there was opened" >&2; exit 1; fi
grep -q 'nosuch' "$folder/why"
example decode | tee "$folder/decode"
grep -q '^24 steps' "$folder/decode"
example service | tee "$folder/service"
grep -q '^28 answered, 4 refused' "$folder/service"
for ranks in 1 2 3 4; do example attention_ranks -- $ranks; done | tee "$folder/ranks"
[ "$(grep -c 'within 1e-5 of one call: true' "$folder/ranks")" = 4 ]
example attention_file -- "$data/attention_small.bin" "$folder/rust.bin"
"$c_examples/example_attention_file" "$data/attention_small.bin" "$folder/c.bin"
cmp "$folder/rust.bin" "$folder/c.bin"
"$python" "$here/../bindings/same_bits.py" "$c_examples/example_first_attention" -- "$cargo" run --quiet --offline --example first_attention --
llm=("$here/../../examples/llm/make_model.py" "$cargo" run --quiet --offline --example llm --)
"$python" -B "$here/../llm/tokens_test.py" "${llm[@]}"
"$python" -B "$here/../llm/bad_files_test.py" "${llm[@]}"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the example attention_ranks as a program of MPI, on 1 to 4 ranks.
# usage: run_mpi.sh CARGO LINK_OPTIONS LAUNCHER [OPTION...]     LINK_OPTIONS: where libmpi is, one word
set -euo pipefail
cargo=$1 link=$2
shift 2
export CARGO_TARGET_DIR=$CARGO_TARGET_DIR/mpi # the example without MPI has the same name
"$cargo" rustc --quiet --offline -p attile --features mpi --example attention_ranks -- $link
for ranks in 1 2 3 4; do
  "$@" -n $ranks "$CARGO_TARGET_DIR/debug/examples/attention_ranks" | tee "$CARGO_TARGET_DIR/output"
  grep -qx "$ranks ranks, 1000 positions: within 1e-5 of one call: true" "$CARGO_TARGET_DIR/output"
done

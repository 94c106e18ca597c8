# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts here: spreads processes over the GPUs of a machine.

gpus=1
# Who chose devices for this run keeps that choice.
[ -n "${CUDA_VISIBLE_DEVICES+chosen}" ] || gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
[ "$gpus" -gt 0 ] || gpus=1

on_gpu_of() { # the number of the process, then its command
  local gpu=$(($1 % gpus)); shift
  if [ "$gpus" -gt 1 ]; then env "CUDA_VISIBLE_DEVICES=$gpu" "$@"; else "$@"; fi
}

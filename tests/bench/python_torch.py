#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's scaled_dot_product_attention beside the same call within attile.torch.sdpa(), in one process, as rows of a Markdown table.

    PYTHONPATH=build/cpu/python ATTILE_LIBRARY=build/cpu/lib/libattile.so.1 python3 tests/bench/python_torch.py [--rounds 9] [--dtype float32] [--lengths 512 1024 2048]

The two take turns on as many threads as OMP_NUM_THREADS says; times are medians of all rounds, and the ratio is the median of the rounds' ratios.
"""
import argparse
import contextlib
import statistics
import time

import torch
from torch.nn import functional

import attile.torch

BATCH, HEADS, WIDTH = 4, 8, 64


def seconds(tensors, is_causal, backward, served):
    with attile.torch.sdpa() if served else contextlib.nullcontext():
        start = time.perf_counter()
        out = functional.scaled_dot_product_attention(*tensors, is_causal=is_causal)
        if backward:
            torch.autograd.grad(out, tensors, tensors[0].detach())
        if out.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048])
    given = parser.parse_args()
    info = attile.default_context().info
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; attile {attile.version()} on {info.backend}, {info.threads} threads; {given.dtype}, medians of {given.rounds} rounds\n")
    print("| B, H, L, D | causal | call | attile, ms | PyTorch, ms | ratio |\n|---|---|---|---|---|---|")
    for length in given.lengths:
        for backward in (False, True):
            tensors = [torch.randn(BATCH, HEADS, length, WIDTH).to(given.device, getattr(torch, given.dtype)).requires_grad_(backward) for _ in range(3)]
            for is_causal in (False, True):
                rounds = [[seconds(tensors, is_causal, backward, served) for served in (True, False)] for _ in range(given.rounds + 1)][1:]
                ours, theirs = map(statistics.median, zip(*rounds))
                ratio = statistics.median(theirs / ours for ours, theirs in rounds)
                print(f"| {BATCH}, {HEADS}, {length}, {WIDTH} | {'yes' if is_causal else 'no'} | {'forward and backward' if backward else 'forward'} "
                      f"| {ours * 1e3:.1f} | {theirs * 1e3:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()

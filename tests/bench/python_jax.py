#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attile.jax.attention beside jax.nn.dot_product_attention, jitted, in one process, as rows of a Markdown table.

    PYTHONPATH=build/cpu/python ATTILE_LIBRARY=build/cpu/lib/libattile.so.1 python3 tests/bench/python_jax.py [--rounds 5] [--dtype float32] [--lengths 512 1024 2048]

The two take turns, each waits for its result, and the least time of all rounds counts.
"""
import argparse
import functools
import time

import jax
import jax.numpy as jnp

import attile.jax

BATCH, HEADS, WIDTH = 4, 8, 64


def seconds(call, arrays):
    start = time.perf_counter()
    jax.block_until_ready(call(*arrays))
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048])
    given = parser.parse_args()
    print(f"JAX {jax.__version__} on {jax.default_backend()}, attile {attile.version()} on {attile.default_context().info.backend}, {given.dtype}, least of {given.rounds} rounds\n")
    print("| [B, N, T, H] | causal | call | attile.jax, ms | jax.nn, ms | ratio |\n|---|---|---|---|---|---|")
    for length in given.lengths:
        arrays = [jax.random.normal(key, (BATCH, length, HEADS, WIDTH)).astype(given.dtype) for key in jax.random.split(jax.random.key(0), 3)]
        for is_causal in (False, True):
            for name in ("forward", "forward and backward"):
                calls = []
                for attention in (attile.jax.attention, jax.nn.dot_product_attention):
                    forward = functools.partial(attention, is_causal=is_causal)
                    calls.append(jax.jit(forward if name == "forward" else jax.grad(lambda *x, forward=forward: forward(*x).astype(jnp.float32).sum(), (0, 1, 2))))
                for call in calls:
                    seconds(call, arrays)
                least = [min(times) for times in zip(*([seconds(call, arrays) for call in calls] for _ in range(given.rounds)))]
                print(f"| {BATCH}, {HEADS}, {length}, {WIDTH} | {'yes' if is_causal else 'no'} | {name} | {least[0] * 1e3:.1f} | {least[1] * 1e3:.1f} | {least[1] / least[0]:.1f} |", flush=True)


if __name__ == "__main__":
    main()

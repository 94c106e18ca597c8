#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding with a K/V cache: each step appends one key and one value to the cache of every sequence and computes one row of attention.

    python3 decode.py

Two sequences of different lengths share a batch. The program compares the rows with those of one causal attention of the whole sequences.
"""
import sys

import attile
import numpy as np

BATCH, HEADS_Q, HEADS_KV, MOST, DIM, STEPS = 2, 8, 2, 24, 16, 10


def main():
    rng = np.random.default_rng(1)
    q = rng.standard_normal((BATCH, HEADS_Q, MOST, DIM), dtype=np.float32)
    k = rng.standard_normal((BATCH, HEADS_KV, MOST, DIM), dtype=np.float32)
    v = rng.standard_normal((BATCH, HEADS_KV, MOST, DIM), dtype=np.float32)
    expected = attile.attention(q, k, v, mask="causal_top_left")
    entries = np.arange(BATCH)

    # [cache]
    lengths = np.array([9, 5], np.int32)  # keys of each sequence, that is its prompt
    k_cache, v_cache = np.zeros_like(k), np.zeros_like(v)  # (batch, heads, most, dim)
    for b, length in enumerate(lengths):
        k_cache[b, :, :length], v_cache[b, :, :length] = k[b, :, :length], v[b, :, :length]
    # [cache]

    for _ in range(STEPS):
        # [step]
        new_q, new_k, new_v = (x[entries, :, lengths] for x in (q, k, v))  # (batch, heads, dim); a model computes them from the last token
        k_cache[entries, :, lengths], v_cache[entries, :, lengths] = new_k, new_v
        lengths += 1
        o = attile.attention(new_q[:, :, None], k_cache, v_cache, key_lengths=lengths)  # (batch, heads, 1, dim)
        # [step]
        if not np.abs(o[:, :, 0] - expected[entries, :, lengths - 1]).max() <= 1e-5:
            sys.exit("decode.py: the rows are not those of the whole sequences")
    print(f"{STEPS} steps, {lengths[0]} and {lengths[1]} keys")


if __name__ == "__main__":
    main()

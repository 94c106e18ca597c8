#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the small attention input of the examples and its results, independently of the library.

usage: make_attention_data.py [DIRECTORY]        (default: where this script lies)

Writes attention_small.bin (B = 2, N = 33, d = 16, values uniform in [-3, 3]), attention_small_expected.bin (every row sees every key) and
attention_small_causal_expected.bin (row i sees keys 0 to i). The results are computed in double precision from the float32 inputs and rounded
once, at the end. Running it again gives the same bytes.
"""
import pathlib
import sys

import numpy as np

BATCH, LEN, HEAD_DIM, SEED = 2, 33, 16, 1


def splitmix64(seed, count):
    """The first `count` numbers of the SplitMix64 sequence; also what `attile generate --seed` draws from."""
    mask = (1 << 64) - 1
    numbers = []
    for i in range(1, count + 1):
        z = (seed + i * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append(z ^ (z >> 31))
    return numbers


def uniform(seed, count):
    """Float32 values in [-3, 3]: the top 24 bits of each number, scaled."""
    return np.array([6.0 * (z >> 40) / 2.0**24 - 3.0 for z in splitmix64(seed, count)], dtype="<f4")


def attention(q, k, v, causal):
    """softmax(q k^T / sqrt(d)) v for one batch, in double precision throughout."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.T / np.sqrt(np.float64(q.shape[1]))
    if causal:
        scores[np.triu_indices(len(scores), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights @ v) / weights.sum(axis=1, keepdims=True)


def main(directory):
    data = uniform(SEED, BATCH * 3 * LEN * HEAD_DIM).reshape(BATCH, 3, LEN, HEAD_DIM)
    header = np.array([BATCH, LEN, HEAD_DIM], dtype="<i4")
    (directory / "attention_small.bin").write_bytes(header.tobytes() + data.tobytes())
    for causal, name in ((False, "attention_small_expected.bin"), (True, "attention_small_causal_expected.bin")):
        result = np.stack([attention(q, k, v, causal) for q, k, v in data])
        (directory / name).write_bytes(result.astype("<f4").tobytes())


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else pathlib.Path(__file__).resolve().parent)

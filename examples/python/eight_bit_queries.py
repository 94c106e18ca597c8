#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of queries, keys and values in 8 bits, with a scale for each head, beside the same of the numbers as they were.

    python3 eight_bit_queries.py       with attile installed, or PYTHONPATH=bindings/python/src
"""
import attile
import numpy as np

rng = np.random.default_rng(1)
q, k, v = (rng.standard_normal((1, 4, length, 64)).astype(np.float32) for length in (32, 100, 100))

# [call]
def quantised(x):
    numbers, scale = np.empty(x.shape, np.int8), np.empty((x.shape[1], 1, 1), np.float32)  # torch.float8_e4m3fn likewise
    attile.quantize(x, numbers, scale)
    return numbers, scale


(q8, q_scale), (k8, k_scale), (v8, v_scale) = map(quantised, (q, k, v))
out = attile.attention(q8, k8, v8, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale)  # float32, or as out= is
# [call]

error = np.abs(out - attile.attention(q, k, v)).max()
print(f"off by {error:.3g} at most")
assert out.dtype == np.float32 and error <= 0.1

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One layer after another: the same product with other weights each time. It is validated and planned once.

    python3 prepared_calls.py       with attile installed, or PYTHONPATH=bindings/python/src

The weights shift elements by one column each, so the result is known.
"""
import attile
import numpy as np

rows, width, layers = 4, 64, 3
weights = [np.roll(np.eye(width, dtype=np.float32), 1, axis=1) for _ in range(layers)]
x = np.tile(np.arange(width, dtype=np.float32), (rows, 1))
y = np.empty_like(x)

# [prepare]
layer = attile.prepare_gemm(x, weights[0], out=y)  # computes nothing
source, target = x, y
for weight in weights:
    layer.run(a=source, b=weight, out=target)
    source, target = target, source
# [prepare]
assert np.array_equal(source, np.tile(np.roll(np.arange(width), layers), (rows, 1)))
print(f"{layers} layers by one prepared call")

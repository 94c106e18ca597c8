#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Matrix multiplication of NumPy arrays: a product, then one layer of a neural network.

    python3 gemm.py                 with attile installed, or PYTHONPATH=bindings/python/src

Transposed and sliced arrays are taken where they lie, and bias and activation cost no second pass over the result.
"""
import attile
import numpy as np

# [product]
a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
b = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
c = attile.gemm(a, b)
# [product]
print("A B =\n", c, sep="")
assert np.array_equal(c, a @ b)  # small integers: exact on every backend

# [layer]
x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)  # 2 samples of 3 features
w = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]], np.float32)  # 4 units with 3 weights each
bias = np.full(4, 0.5, np.float32)
d = attile.gemm(x, w.T, bias=bias, activation="relu")
# [layer]
print("relu(X W^T + bias) =\n", d, sep="")
assert np.array_equal(d, np.maximum(x @ w.T + bias, 0))

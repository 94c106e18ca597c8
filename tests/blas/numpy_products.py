# SPDX-License-Identifier: Apache-2.0
"""A program that knows NumPy alone: products of matrices in every layout against sums in integers, which are exact. Prints "right"."""
import multiprocessing
import os
from fractions import Fraction

import numpy as np


def check(dtype):
    draw = np.random.default_rng(7)
    for m, k, n in ((1, 1, 1), (3, 4, 5), (64, 64, 64), (129, 65, 33), (200, 300, 100)):
        a, b = draw.integers(-8, 9, (m, k)), draw.integers(-8, 9, (k, n))
        expected = a @ b  # of integers: NumPy's own loops
        for x in (a.astype(dtype), np.asfortranarray(a.astype(dtype))):
            for y in (b.astype(dtype), np.asfortranarray(b.astype(dtype))):
                assert np.array_equal(x @ y, expected), (dtype, m, k, n)
                assert np.array_equal(np.dot(x, y), expected)
                assert np.array_equal(np.einsum("ij,jk->ik", x, y, optimize=True), expected)
        batch = np.stack([a.astype(dtype)] * 3)
        assert np.array_equal(np.matmul(batch, b.astype(dtype))[2], expected)


def check_solver():
    """LAPACK by way of the system's BLAS, in the same process."""
    draw = np.random.default_rng(8)
    a, x = draw.normal(size=(300, 300)), draw.normal(size=(300, 20))
    assert np.abs(np.linalg.solve(a, a @ x) - x).max() < 1e-8


def check_exact():
    """With ATTILE_GEMM=exact: sums of products that cancel are those of fractions, rounded once."""
    draw = np.random.default_rng(9)
    a, b = draw.normal(size=(6, 40)) * 2.0 ** draw.integers(-90, 90, (6, 40)), draw.normal(size=(40, 5))
    a, b = np.concatenate([a, -a, np.ones((6, 1))], axis=1), np.concatenate([b, b, draw.normal(size=(1, 5))])
    expected = [[float(sum(Fraction(x) * Fraction(y) for x, y in zip(row, column))) for column in b.T.tolist()] for row in a.tolist()]
    assert np.array_equal(a @ b, expected)
    assert np.array_equal(np.asfortranarray(a) @ np.asfortranarray(b), expected)


def main():
    if os.environ.get("ATTILE_GEMM") == "exact":
        check_exact()
    for dtype in (np.float32, np.float64):
        check(dtype)
    check_solver()
    with multiprocessing.get_context("fork").Pool(2) as pool:  # children of a process that has computed
        pool.map(check, [np.float32, np.float64])
    print("right")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Exact products of the reference and cpu backends, bit for bit, against sums of Python's fractions, which this file rounds itself.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_exact.py [Exact.test_name]
"""
import itertools
import math
import os
import unittest
from fractions import Fraction

import numpy as np

import attile_ctypes as ac

EXACT = 0x10
NAN_BITS = {np.dtype(np.float64): 0x7FF8000000000000, np.dtype(np.float32): 0x7FC00000}


def nearest(value, digits, lowest, highest):
    """The number of `digits` bits nearest to a fraction, ties to even; its last bit is 2^lowest or more, and from 2^highest on it is infinite."""
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, lowest)
    whole, rest = divmod(magnitude, unit)
    if 2 * rest > unit or (2 * rest == unit and whole % 2 == 1):
        whole += 1
    magnitude = whole * unit
    if magnitude >= Fraction(2) ** highest:
        return -math.inf if value < 0 else math.inf
    result = math.ldexp(float(whole), unit.numerator.bit_length() - unit.denominator.bit_length())
    return -result if value < 0 else result


def to_f64(value):
    return nearest(value, 53, -1074, 1024)


def to_f32(value):
    return value if math.isnan(value) or math.isinf(value) or value == 0 else nearest(Fraction(value), 24, -149, 128)


def exact_sum(row, column):
    total, infinity = Fraction(0), 0.0
    for x, y in zip(row, column):
        if not (math.isfinite(x) and math.isfinite(y)):
            infinity += x * y  # infinite or NaN, and stays what it is whatever is added
        else:
            total += Fraction(x) * Fraction(y)
    return infinity if infinity != 0.0 else to_f64(total)


def expected(a, b, c=None, alpha=1.0, beta=0.0, bias=None, bias_axis=0, relu=False):
    """Python's own floats round each step after the sum as the definition does."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    d = np.empty(batch + (m, n), a.dtype)
    for entry in np.ndindex(batch):
        rows, columns = a[entry].astype(np.float64).tolist(), b[entry].astype(np.float64).T.tolist()
        for i, j in itertools.product(range(m), range(n)):
            value = 0.0
            if k > 0 and alpha != 0:
                value = alpha * exact_sum(rows[i], columns[j])
            if beta != 0:
                value = value + beta * float(c[entry][i, j])
            if bias_axis:
                value = value + float(bias[j if bias_axis == 1 else i])
            if relu and not math.isnan(value):
                value = value if value > 0 else 0.0
            d[entry][i, j] = value if a.dtype == np.float64 else to_f32(value)
    return d


def bits(array):
    """Bit patterns; every NaN that the oracle has is the one there is."""
    array = np.ascontiguousarray(array)
    return np.where(np.isnan(array), NAN_BITS[array.dtype], array.view(np.uint64 if array.itemsize == 8 else np.uint32))


class Exact(unittest.TestCase):
    backends = os.environ.get("ATTILE_EXACT_BACKENDS", "reference").split(",")

    @classmethod
    def setUpClass(cls):
        cls.libraries = [(name, ac.Library(backend=name)) for name in cls.backends]

    @classmethod
    def tearDownClass(cls):
        for _, library in cls.libraries:
            library.close()

    def agree(self, a, b, what="", **more):
        relu = more.pop("relu", False)
        want = bits(expected(a, b, relu=relu, **more))
        for name, library in self.libraries:
            d = np.full(want.shape, np.nan, a.dtype)
            library.run("gemm", library.args(ac.GemmArgs, "gemm", flags=EXACT, a=a, b=b, d=d, activation=1 if relu else 0, **more))
            got = d.view(want.dtype)  # the library's own NaN
            wrong = np.argwhere(got != want)
            if len(wrong):
                at = tuple(wrong[0])
                self.fail(f"{name} {what}: {len(wrong)} of {want.size} differ, first at {at}: {d[at]!r} {got[at]:x} for {want[at]:x}")

    def test_normal_numbers(self):
        rng = np.random.default_rng(1)
        for dtype, (m, n, k) in itertools.product((np.float64, np.float32), [(1, 1, 1), (3, 5, 7), (9, 17, 65), (2, 3, 0), (2, 2, 1000)]):
            a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
            self.agree(a, b, f"{m}x{n}x{k}")
            self.agree(np.asfortranarray(a), np.asfortranarray(b), f"{m}x{n}x{k} by columns")

    def test_what_follows_the_sum(self):
        rng = np.random.default_rng(2)
        for dtype, alpha, beta, axis, relu in itertools.product((np.float64, np.float32), (1.0, -0.7, 0.0), (0.0, 1.3), (0, 1, 2), (False, True)):
            a, b, c = (rng.standard_normal(shape).astype(dtype) for shape in ((4, 9), (9, 6), (4, 6)))
            bias = rng.standard_normal(6 if axis == 1 else 4).astype(dtype) if axis else None
            self.agree(a, b, f"{alpha} {beta} {axis} {relu}", c=c, alpha=alpha, beta=beta, bias=bias, bias_axis=axis, relu=relu)

    def test_batch(self):
        rng = np.random.default_rng(3)
        for dtype in (np.float64, np.float32):
            self.agree(rng.standard_normal((3, 2, 4, 5)).astype(dtype), rng.standard_normal((5, 6)).astype(dtype), "batch")

    def test_spread_over_600_orders(self):
        rng = np.random.default_rng(4)
        for low, high in ((-300, 300), (-1074, 0), (-500, 100), (0, 511)):
            spread = lambda *shape: np.ldexp(rng.standard_normal(shape), rng.integers(low, high, shape))
            self.agree(spread(6, 40), spread(40, 7), f"2^{low} to 2^{high}")
        spread = lambda *shape: np.ldexp(rng.standard_normal(shape), rng.integers(-149, 126, shape)).astype(np.float32)
        self.agree(spread(6, 40), spread(40, 7), "f32")

    def test_cancellation(self):
        rng = np.random.default_rng(5)
        for dtype in (np.float64, np.float32):
            x, y = rng.standard_normal((8, 30)).astype(dtype), rng.standard_normal((30, 9)).astype(dtype)
            tiny = np.full((8, 1), np.finfo(dtype).smallest_subnormal)
            a = np.concatenate([x, -x, tiny], axis=1)
            for last in (0, 1, 0.75, -1):
                self.agree(a, np.concatenate([y, y, np.full((1, 9), last, dtype)]), f"all but {last} of the smallest subnormal")
        # Ordinary numbers beside far larger ones that cancel.
        a = np.concatenate([rng.standard_normal((8, 30)) * 2.0**400, rng.standard_normal((8, 5))], axis=1)
        a[:, 15:30] = -a[:, :15]
        b = rng.standard_normal((35, 9))
        b[15:30] = b[:15]
        self.agree(a, b, "2^400")

    def test_ties(self):
        # 1 and half an ulp of it, even and odd, and what lies a little beside.
        for last, other in itertools.product((0.0, 1.0), (0.0, 2.0**-1000, -(2.0**-1000), 2.0**-60)):
            a = np.array([[1.0 + last * 2.0**-52, 2.0**-53, other], [-1.0 - last * 2.0**-52, -(2.0**-53), other]])
            self.agree(a, np.array([[1.0, 2.0**-700, 2.0**-1022], [1.0, 2.0**-700, 2.0**-1022], [1.0, 2.0**-20, 0.0]]), f"{last} {other}")
        # Ties of f32 come from the float64 that the sum was rounded to.
        a = np.array([[1.0, 2.0**-24, 2.0**-100]], np.float32)
        self.agree(a, np.array([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [1.0, 0.0, 1.0]], np.float32), "f32")
        # Half of the smallest subnormal, and a half more.
        a = np.array([[2.0**-600, 2.0**-600, 2.0**-1074]])
        self.agree(a, np.array([[2.0**-475, 2.0**-474, 2.0**-475], [0.0, 2.0**-475, 2.0**-540], [0.0, 0.0, 2.0**-1074]]), "subnormal")

    def test_integers(self):
        rng = np.random.default_rng(6)
        for dtype in (np.float64, np.float32):
            self.agree(rng.integers(-9, 10, (9, 50)).astype(dtype), rng.integers(-9, 10, (50, 8)).astype(dtype), "small")
        self.agree(rng.integers(-(2**53), 2**53, (5, 20)).astype(np.float64), rng.integers(-(2**53), 2**53, (20, 5)).astype(np.float64), "large")

    def test_special_values(self):
        inf, nan = np.inf, np.nan
        values = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, inf, -inf, nan, 5e-324]
        for x, y in itertools.product(values, values):
            a, b = np.array([[x, y, 1.0], [y, x, -1e308]]), np.array([[1.0, 0.0, 1e308, inf, -2.0], [1.0, -1.0, 1.0, 0.5, inf], [0.0, 1.0, 1.0, 1.0, 1.0]])
            self.agree(a, b, f"{x} {y}")
        self.agree(np.array([[1.7e308, 1.7e308, -1.7e308]]), np.array([[1.0, 1.0, 2.0], [1.0, 0.5, 2.0], [1.0, 0.9, 1.9999]]), "overflow")
        self.agree(np.array([[1.0, inf]], np.float32), np.array([[nan, 1.0, 0.0], [1.0, 2.0, 0.0]], np.float32), "f32")
        self.agree(np.array([[3e38, 3e38]], np.float32), np.array([[1.0, 1.0], [-1.0, 1.0]], np.float32), "f32 overflow")
        self.agree(np.zeros((3, 4)), -np.ones((4, 3)), "zeros")


if __name__ == "__main__":
    unittest.main()

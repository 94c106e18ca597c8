# SPDX-License-Identifier: Apache-2.0
"""Exact reduce, softmax, merge and attention of the reference and cpu backends, bit for bit, against sums of Python's fractions and the steps of docs/numerics.md.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_exact_rows.py [ExactRows.test_name]
"""
import itertools
import math
import os
import unittest
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np

import attile_ctypes as ac
from test_exact import EXACT, nearest, to_f64

SUM, MAX, MIN, MEAN = 1, 2, 3, 4
INVERSE_FACTORIAL = [1 / math.factorial(k) for k in range(14)]
LOG2_E, LN2_HIGH, LN2_LOW = float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cf79abcap-20")
ROOT_2 = float.fromhex("0x1.6a09e667f3bcdp+0")
NAN_BITS = {8: 0x7FF8000000000000, 4: 0x7FC00000, 2: 0x7E00}
BF16_NAN = 0x7FC0


def exp_by_steps(t):
    if t < -746:
        return 0.0
    n = float(round(t * LOG2_E))
    r = (t - n * LN2_HIGH) - n * LN2_LOW
    q = INVERSE_FACTORIAL[13]
    for k in range(12, 1, -1):
        q = q * r + INVERSE_FACTORIAL[k]
    return math.ldexp(1 + (r + (r * r) * q), int(n))  # rounded once, where it is subnormal


def log_by_steps(z):
    m, n = math.frexp(z)
    m, n = 2 * m, n - 1
    if m >= ROOT_2:
        m, n = m / 2, n + 1
    f = m - 1
    s = f / (2 + f)
    square, r = s * s, 2 / 21
    for k in range(19, 2, -2):
        r = r * square + 2 / k
    r, half = r * square, f * f / 2
    return n * LN2_HIGH - ((half - (s * (half + r) + n * LN2_LOW)) - f)


def exact_sum(products):
    """Of pairs, rounded once; +0 if it is 0."""
    total, infinity = Fraction(0), 0.0
    for x, y in products:
        if math.isfinite(x) and math.isfinite(y):
            total += Fraction(x) * Fraction(y)
        else:
            infinity += x * y
    return infinity if infinity != 0.0 else to_f64(total)


def weights_of(numbers):
    """The largest, the weights and their sum; no weights where the largest is no number."""
    top = -math.inf
    for x in numbers:
        top = math.nan if math.isnan(x) or math.isnan(top) else max(top, x)
    if not math.isfinite(top):
        return top, None, 1.0
    weights = [exp_by_steps(x - top) for x in numbers]
    return top, weights, exact_sum((w, 1.0) for w in weights)


def without_weights(top):
    return 0.0 if top == -math.inf else math.nan


def softmax(numbers):
    top, weights, z = weights_of(numbers)
    return [without_weights(top)] * len(numbers) if weights is None else [w / z for w in weights]


def merge(lses, rows):
    top, weights, z = weights_of(lses)
    if weights is None:
        return [without_weights(top)] * len(rows[0]), without_weights(top) + top
    columns = zip(*rows)
    used = [p for p, lse in enumerate(lses) if lse != -math.inf]
    return [exact_sum((weights[p], column[p]) for p in used) / z for column in columns], top + log_by_steps(z)


def reduce(numbers, op):
    if op in (MAX, MIN):
        if any(math.isnan(x) for x in numbers):
            return math.nan
        best = (max if op == MAX else min)(numbers, default=-math.inf if op == MAX else math.inf)
        signs = {math.copysign(1, x) for x in numbers if x == 0}
        return best if best != 0 else math.copysign(0.0, (max if op == MAX else min)(signs))
    total = exact_sum((x, 1.0) for x in numbers)
    return total if op == SUM else total / len(numbers) if numbers else math.nan


FORMATS = {"f64": (53, -1074, 1024, np.uint64), "f32": (24, -149, 128, np.uint32), "f16": (11, -24, 16, np.uint16), "bf16": (8, -133, 128, np.uint16)}
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16}


def bits(values, kind):
    """The bits of float64 rounded once to a type."""
    digits, lowest, highest, unsigned = FORMATS[kind]
    flat = []
    for x in values:
        if math.isnan(x):
            flat.append(BF16_NAN if kind == "bf16" else NAN_BITS[unsigned().itemsize])
            continue
        rounded = x if math.isinf(x) or x == 0 or kind == "f64" else math.copysign(nearest(Fraction(abs(x)), digits, lowest, highest), x)
        if kind == "bf16":
            flat.append(int(np.array(rounded, np.float32).view(np.uint32)) >> 16)
        else:
            flat.append(int(np.array(rounded, DTYPES[kind]).view(unsigned)))
    return np.array(flat, unsigned)


def stored(values, kind):
    """Of float64 an array of a type, and what it holds as float64."""
    array = bits(values, kind)
    if kind == "bf16":
        return array, (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64).tolist()
    array = array.view(DTYPES[kind])
    return array, array.astype(np.float64).tolist()


def spread(rng, count, kind):
    orders = {"f64": 500, "f32": 60, "f16": 7, "bf16": 60}[kind]
    return np.ldexp(rng.standard_normal(count), rng.integers(-orders, orders + 1, count)).tolist()


PAIRS = [("f64", "f64"), ("f32", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("f16", "f32"), ("bf16", "f32")]


class ExactRows(unittest.TestCase):
    backends = os.environ.get("ATTILE_EXACT_BACKENDS", "reference").split(",")

    @classmethod
    def setUpClass(cls):
        cls.libraries = [(name, ac.Library(backend=name)) for name in cls.backends]

    @classmethod
    def tearDownClass(cls):
        for _, library in cls.libraries:
            library.close()

    def tensor(self, array, kind):
        t = ac.tensor(array)
        if kind == "bf16":
            t.dtype = ac.BF16
        return t

    def same(self, got, want, what):
        got = got.reshape(-1).view(want.dtype)
        wrong = np.flatnonzero(got != want)
        if len(wrong):
            self.fail(f"{what}: {len(wrong)} of {want.size} differ, first number {wrong[0]}: {int(got[wrong[0]]):x} for {int(want[wrong[0]]):x}")

    def reduce_agrees(self, numbers, pair, what):
        x, held = stored(numbers, pair[0])
        for op in (SUM, MAX, MIN, MEAN):
            want = bits([reduce(held, op)], pair[1])
            for name, library in self.libraries:
                y = np.full(1, 0xFF, want.dtype).view(DTYPES[pair[1]])
                library.run("reduce", library.args(ac.ReduceArgs, "reduce", flags=EXACT, x=self.tensor(x, pair[0]), y=self.tensor(y, pair[1]), op=op, axis=0))
                self.same(y, want, f"{name} {what} {pair} op {op}")

    def softmax_agrees(self, numbers, pair, what):
        x, held = stored(numbers, pair[0])
        want = bits(softmax(held), pair[1])
        for name, library in self.libraries:
            y = np.full(len(numbers), 0xFF, want.dtype).view(DTYPES[pair[1]])
            library.run("softmax", library.args(ac.SoftmaxArgs, "softmax", flags=EXACT, x=self.tensor(x, pair[0]), y=self.tensor(y, pair[1]), axis=0))
            self.same(y, want, f"{name} {what} {pair}")

    def merge_agrees(self, lses, rows, pair, what):
        lse_kind = "f64" if pair[0] == "f64" else "f32"
        held_lses = [stored([lse], lse_kind) for lse in lses]
        held_rows = [stored(row, pair[0]) for row in rows]
        o_want, lse_want = merge([held[0] for _, held in held_lses], [held for _, held in held_rows])
        o_want, lse_want = bits(o_want, pair[1]), bits([lse_want], lse_kind)
        parts = len(lses)
        for name, library in self.libraries:
            o = np.full(len(rows[0]), 0xFF, o_want.dtype).view(DTYPES[pair[1]])
            lse = np.full(1, 0xFF, lse_want.dtype).view(DTYPES[lse_kind])
            o_parts = (ac.Tensor * parts)(*[self.tensor(array.reshape(1, 1, 1, -1), pair[0]) for array, _ in held_rows])
            lse_parts = (ac.Tensor * parts)(*[ac.tensor(array.reshape(1, 1, 1)) for array, _ in held_lses])
            library.run("attention_merge", library.args(ac.MergeArgs, "attention_merge", flags=EXACT, o_parts=o_parts, lse_parts=lse_parts, parts=parts,
                                                        o=self.tensor(o.reshape(1, 1, 1, -1), pair[1]), lse=ac.tensor(lse.reshape(1, 1, 1))))
            self.same(o, o_want, f"{name} {what} {pair} o")
            self.same(lse, lse_want, f"{name} {what} {pair} lse")

    def test_exp_and_log_are_near_the_true_ones(self):
        getcontext().prec = 40
        rng = np.random.default_rng(1)
        for t in [-rng.uniform(0, 700) for _ in range(2000)] + [-rng.uniform(0, 2) for _ in range(2000)]:
            true = Decimal(t).exp()
            self.assertLess(abs(Decimal(exp_by_steps(t)) - true), Decimal(1.2) * Decimal(math.ulp(float(true))), t)
        for z in [1 + rng.uniform(0, 100) for _ in range(2000)] + [1 + rng.uniform(0, 1e-3) for _ in range(1000)]:
            true = Decimal(z).ln()
            self.assertLess(abs(Decimal(log_by_steps(z)) - true), Decimal(math.ulp(float(true))), z)

    def test_normal_numbers(self):
        rng = np.random.default_rng(2)
        for pair, count in itertools.product(PAIRS, (1, 2, 7, 65, 600)):
            numbers = (rng.standard_normal(count) * 3).tolist()
            self.reduce_agrees(numbers, pair, f"{count} numbers")
            self.softmax_agrees(numbers, pair, f"{count} numbers")

    def test_long_rows(self):
        rng = np.random.default_rng(3)
        for pair in PAIRS[:2]:
            numbers = rng.standard_normal(5003).tolist()
            self.softmax_agrees(numbers, pair, "long")
            self.reduce_agrees(spread(rng, 140001, pair[0]), pair, "long")

    def test_spread_and_cancellation(self):
        rng = np.random.default_rng(4)
        for pair in PAIRS:
            numbers = spread(rng, 61, pair[0])
            self.reduce_agrees(numbers, pair, "spread")
            self.softmax_agrees(numbers, pair, "spread")
            held = stored(numbers, pair[0])[1]
            for last in (0.0, -0.0, math.ldexp(1, FORMATS[pair[0]][1]), math.ldexp(-1, FORMATS[pair[0]][1])):
                mixed = rng.permutation(held + [-x for x in held] + [last]).tolist()
                self.reduce_agrees(mixed, pair, f"all but {last}")
        self.reduce_agrees([1e30, 1.0, 1e-30, -1e30, 1e-30], PAIRS[0], "1e30 beside 1e-30")

    def test_ties(self):
        for digits, pair in ((52, PAIRS[0]), (23, PAIRS[1]), (10, PAIRS[2]), (7, PAIRS[3])):
            least = math.ldexp(1, FORMATS[pair[0]][1])
            for odd, other in itertools.product((0, 1), (0.0, least, -least)):
                self.reduce_agrees([1 + odd * 2.0**-digits, 2.0 ** (-digits - 1), other], pair, f"{odd} {other}")

    def test_special_values(self):
        values = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1.7e308, -1.7e308]
        for pair, (x, y) in itertools.product(PAIRS, itertools.product(values, values)):
            self.reduce_agrees([x, y, 1.0], pair, f"{x} {y} 1")
            self.reduce_agrees([x, y], pair, f"{x} {y}")
            self.softmax_agrees([x, y, -1.0], pair, f"{x} {y}")
        for pair, (x, y) in itertools.product((PAIRS[0], PAIRS[1]), itertools.product(values, values)):
            self.merge_agrees([x, y], [[1.0, -2.0, math.inf], [0.5, math.nan, 3.0]], pair, f"{x} {y}")
            self.merge_agrees([0.5, -0.25], [[x, y, -0.0], [y, 1.0, -0.0]], pair, f"o {x} {y}")
        self.reduce_agrees([], PAIRS[0], "nothing")
        self.reduce_agrees([-0.0], PAIRS[1], "-0")

    def test_far_weights(self):
        for pair in (PAIRS[0], PAIRS[1]):
            self.softmax_agrees([0.0, -1.0, -87.5, -103.5, -104.5, -700.0, -708.5, -744.9, -745.2, -746.5, -1e30, -math.inf], pair, "far")
            self.softmax_agrees([1e30, 1e30, 0.0], pair, "large")
        self.softmax_agrees([1e308, -1e308, 1e308], PAIRS[0], "a difference that overflows")

    def test_merge(self):
        rng = np.random.default_rng(5)
        for pair in PAIRS[:4] + [("f64", "f32"), ("f64", "f16"), ("f64", "bf16"), ("f32", "f16"), ("f32", "bf16")]:
            for parts, size in ((1, 1), (2, 1), (3, 40), (17, 300), (40, 800)):
                lses = (rng.standard_normal(parts) * size).tolist()
                if parts == 17:
                    lses[3] = -math.inf
                self.merge_agrees(lses, rng.standard_normal((parts, 19)).tolist(), pair, f"{parts} parts")
            lses, rows = [0.25, -0.25, 0.25], [[1.0, 1e30, 2.0**-149], [1.0, 1.0, 0.0], [-1.0, -1e30, -(2.0**-149)]]
            if pair[0] != "f16":
                self.merge_agrees(lses, rows, pair, "cancelling")
        self.merge_agrees([-math.inf, -math.inf], [[math.nan, 1.0], [1.0, math.inf]], PAIRS[0], "no keys")

    def attention_agrees(self, kind, len_q, len_k, what, causal=False, bias=None, slope=None, sink=None, scale=0.0, numbers=None):
        rng = np.random.default_rng(len_q * 1000 + len_k)
        heads, heads_kv, d, dv = 2, 1, 7, 5
        draw = numbers or (lambda *shape: rng.standard_normal(shape))
        dtype = DTYPES[kind]
        q, k, v = draw(1, heads, len_q, d).astype(dtype), draw(1, heads_kv, len_k, d).astype(dtype), draw(1, heads_kv, len_k, dv).astype(dtype)
        slopes = None if slope is None else np.array([slope, slope / 3], dtype)
        sinks = None if sink is None else np.array([sink, sink + 1], dtype)
        bias = None if bias is None else bias.astype(dtype)
        o_want, lse_want = [], []
        wide = lambda x: x.astype(np.float64).tolist()
        for h, i in itertools.product(range(heads), range(len_q)):
            scores, rows = [], []
            for j in range(len_k):
                if causal and j > i + len_k - len_q:
                    continue
                s = (scale or 1 / math.sqrt(d)) * exact_sum(zip(wide(q[0, h, i]), wide(k[0, 0, j])))
                if bias is not None:
                    s = s + float(bias[i, j])
                if slopes is not None:
                    s = s - float(slopes[h]) * abs(j - i - (len_k - len_q))
                scores.append(s)
                rows.append(wide(v[0, 0, j]))
            if sinks is not None:
                scores.append(float(sinks[h]))
                rows.append([0.0] * dv)
            o, lse = merge(scores, rows or [[0.0] * dv])
            o_want += o
            lse_want.append(lse)
        o_want, lse_want = bits(o_want, kind), bits(lse_want, kind)
        for name, library in self.libraries:
            o, lse = np.full((1, heads, len_q, dv), np.nan, dtype), np.full((1, heads, len_q), np.nan, dtype)
            library.run("attention", library.args(ac.AttentionArgs, "attention", flags=EXACT, q=q, k=k, v=v, o=o, lse=lse, scale=scale, mask=2 if causal else 0,
                                                  bias=bias, alibi_slopes=slopes, sinks=sinks))
            self.same(o, o_want, f"{name} {what} {kind} o")
            self.same(lse, lse_want, f"{name} {what} {kind} lse")

    def test_attention(self):
        rng = np.random.default_rng(6)
        for kind in ("f64", "f32"):
            for len_q, len_k in ((1, 1), (3, 9), (2, 70), (4, 0)):
                self.attention_agrees(kind, len_q, len_k, f"{len_q}x{len_k}")
                bias = np.where(rng.random((len_q, len_k)) < 0.2, -np.inf, rng.standard_normal((len_q, len_k)))
                if len_k:
                    self.attention_agrees(kind, len_q, len_k, "with all", causal=True, bias=bias, slope=0.3, sink=0.25, scale=-0.7)
            self.attention_agrees(kind, 3, 20, "spread", numbers=lambda *shape: np.ldexp(rng.standard_normal(shape), rng.integers(-40, 8, shape)))
            self.attention_agrees(kind, 2, 9, "sinks alone weigh", sink=300.0)


if __name__ == "__main__":
    unittest.main()

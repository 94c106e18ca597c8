# SPDX-License-Identifier: Apache-2.0
"""Products of the reference backend against the NumPy oracle, as test_reference.py has the other operations.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_gemm.py [Gemm.test_name]
"""
import itertools
import unittest

import numpy as np

import attile_ctypes as ac
import oracle
from oracle_case import Case, NAN, TYPES, blank, eight_bits, laid_out, stored, widened


class Gemm(Case):
    def one(self, rng, dtype, out, m, n, k, batch=(), alpha=1.0, beta=0.0, bias_axis=0, activation=0, column_major=False):
        draw = lambda *shape: stored(rng.standard_normal(shape), dtype)
        a, b = draw(*batch, m, k), draw(*batch, k, n)
        if column_major:
            a, b = np.swapaxes(laid_out(np.swapaxes(a, -1, -2), range(a.ndim)), -1, -2), np.swapaxes(np.swapaxes(b, -1, -2).copy(), -1, -2)
        c = stored(rng.standard_normal((*batch, m, n)), out) if beta != 0 else None
        bias = stored(rng.standard_normal((*batch, n if bias_axis == 1 else m)), out) if bias_axis else None
        d = blank((*batch, m, n), out)
        self.attile.run("gemm", self.attile.args(ac.GemmArgs, "gemm", a=a, b=b, c=c, d=d, alpha=alpha, beta=beta, bias=bias, bias_axis=bias_axis,
                                                 activation=activation))
        want = oracle.gemm(widened(a), widened(b), None if c is None else widened(c), alpha, beta, None if bias is None else widened(bias), bias_axis,
                           activation)
        self.agree(d, want, out, f"{dtype:#x}->{out:#x} {m}x{n}x{k} batch {batch} beta {beta} bias {bias_axis} act {activation}")

    def test_types_and_shapes(self):
        rng = np.random.default_rng(1)
        for (dtype, out), (m, n, k) in itertools.product(TYPES, [(1, 1, 1), (3, 5, 7), (33, 17, 65), (2, 3, 0), (31, 1, 97)]):
            self.one(rng, dtype, out, m, n, k, alpha=0.7, beta=-1.3)
            self.one(rng, dtype, out, m, n, k, batch=(2, 3), column_major=True)

    def test_epilogue(self):
        rng = np.random.default_rng(2)
        for activation, bias_axis, beta in itertools.product(range(5), range(3), (0.0, 0.5)):
            self.one(rng, ac.F64, ac.F64, 5, 9, 12, (2,), 1.5, beta, bias_axis, activation)
            self.one(rng, ac.F32, ac.F32, 5, 9, 12, (2,), 1.5, beta, bias_axis, activation)

    def test_broadcast_batch(self):
        rng = np.random.default_rng(3)
        a, b, d = rng.standard_normal((3, 1, 4, 5)), rng.standard_normal((5, 6)), blank((3, 2, 4, 6), ac.F64)
        self.attile.run("gemm", self.attile.args(ac.GemmArgs, "gemm", a=a, b=b, d=d))
        self.agree(d, np.broadcast_to(a @ b, d.shape), ac.F64)

    def test_unread_operands(self):
        rng = np.random.default_rng(4)
        a, b, c, bad = rng.standard_normal((4, 5)), rng.standard_normal((5, 6)), rng.standard_normal((4, 6)), np.full((4, 6), NAN)
        d = blank((4, 6), ac.F64)
        self.attile.run("gemm", self.attile.args(ac.GemmArgs, "gemm", a=a, b=b, c=bad, d=d, beta=0.0))
        self.agree(d, a @ b, ac.F64, "beta 0 reads no C")
        self.attile.run("gemm", self.attile.args(ac.GemmArgs, "gemm", a=np.full((4, 5), NAN), b=np.full((5, 6), NAN), c=c, d=d, alpha=0.0, beta=2.0))
        self.agree(d, 2 * c, ac.F64, "alpha 0 reads no A, B")

    def test_eight_bits(self):
        rng = np.random.default_rng(5)
        m, n, k = 5, 256, 192
        for dtype_a, dtype_b, out in itertools.product((ac.F32, ac.I8, ac.E4M3, ac.E5M2), (ac.I8, ac.E4M3, ac.E5M2), (ac.F32, ac.F16)):
            if (dtype_a == ac.I8) != (dtype_b == ac.I8) and dtype_a != ac.F32 or (dtype_a == ac.F32 and out == ac.F16):
                continue
            for group, width in ((k, 1), (32, 1), (64, 128), (k, n)):
                a_bits, a = eight_bits(rng, dtype_a, (m, k))
                b_bits, b = eight_bits(rng, dtype_b, (k, n))
                scales = [rng.standard_normal(shape).astype(np.float32) * np.float32(2.0**-8) for shape in ((m, k // group), (k // group, n // width))]
                args = self.attile.args(ac.GemmArgs, "gemm", a=a_bits, b=b_bits, d=(d := blank((m, n), out)), alpha=1.0, b_scale=scales[1],
                                        a_scale=None if dtype_a == ac.F32 else scales[0])
                args.a.dtype, args.b.dtype = dtype_a, dtype_b
                self.attile.run("gemm", args)
                if dtype_a != ac.F32:
                    a = a * np.repeat(scales[0].astype(np.float64), group, axis=1)
                want = a @ (b * np.repeat(np.repeat(scales[1].astype(np.float64), group, axis=0), width, axis=1))
                self.agree(d, want, out, f"{dtype_a:#x} {dtype_b:#x} -> {out:#x} groups of {group} by {width}")

    def test_four_bits(self):
        rng = np.random.default_rng(7)
        for (dtype_a, out), kind, axis, (m, n, k), group in itertools.product(
                ((ac.F32, ac.F32), (ac.F16, ac.F32), (ac.BF16, ac.BF16)), (ac.I4, ac.U4), (0, 1), ((1, 34, 192), (3, 6, 64), (7, 130, 256), (33, 18, 128), (40, 2, 66)), (0, 32, 64)):
            if group and k % group:
                continue
            a = stored(rng.standard_normal((m, k)), dtype_a)
            q = rng.integers(-8, 8, (k, n)) if kind == ac.I4 else rng.integers(0, 16, (k, n))
            b, keep = ac.four_bits(q, kind, axis)
            groups = k // group if group else 1
            scale = rng.standard_normal((groups, n)).astype(np.float32)
            zero = (rng.random((groups, n)) * 15).astype(np.float32) if kind == ac.U4 and n % 4 else None
            args = self.attile.args(ac.GemmArgs, "gemm", a=a, b=b, d=(d := blank((m, n), out)), alpha=1.0, b_scale=scale, b_zero=zero)
            self.attile.run("gemm", args)
            each = lambda x: np.repeat(x.astype(np.float64), k // groups, axis=0)
            want = widened(a) @ (each(scale) * (q - (0 if zero is None else each(zero))))
            self.agree(d, want, out, f"{dtype_a:#x} {kind:#x} {m}x{n}x{k} packed along {axis}, groups of {group}")

    def test_exact_sums_of_integers(self):
        rng = np.random.default_rng(6)
        a, b, d = rng.integers(-128, 128, (7, 500)).astype(np.int8), rng.integers(-128, 128, (500, 9)).astype(np.int8), np.full((7, 9), -1, np.int32)
        self.attile.run("gemm", self.attile.args(ac.GemmArgs, "gemm", a=a, b=b, d=d, alpha=1.0))
        self.assertTrue(np.array_equal(d, a.astype(np.int64) @ b.astype(np.int64)))


if __name__ == "__main__":
    unittest.main(verbosity=2)

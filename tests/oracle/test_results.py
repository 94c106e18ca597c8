# SPDX-License-Identifier: Apache-2.0
"""Products and attention whose results are of 8 bits, of numbers whose sums float32 has exactly: bit for bit. ATTILE_BACKEND_TO_JUDGE names another backend than the reference.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_results.py [Results.test_name]
"""
import itertools
import os
import unittest

import numpy as np

import attile_ctypes as ac
from oracle_case import Case, NAN, laid_out, stored
from test_quantize import F, numbers, quantised

NARROW = (ac.I8, ac.E4M3, ac.E5M2)
PREFILL = 0x80  # of int8 -128, which is no result


def wide(scale, shape):
    return np.broadcast_to(np.ones(1, F) if scale is None else scale, shape)


class Results(Case):
    @classmethod
    def setUpClass(cls):
        cls.attile_backend = os.environ.get("ATTILE_BACKEND_TO_JUDGE", "reference")
        cls.attile = ac.Library(backend=cls.attile_backend)
        np.seterr(all="ignore")

    def scales(self, rng, shape, largest):
        """Of both signs, such that some results are beyond the type; a zero, a NaN and an infinity among many."""
        scale = (largest * 2.0 ** rng.integers(-12, 2, shape) * (1 + rng.random(shape)) * rng.choice([-1, 1, 1], shape)).astype(F)
        if scale.size > 8:
            scale.flat[[1, 3, 5]] = 0, NAN, np.inf
        return scale

    def same(self, got, want, note, bounds=None):
        """`bounds`: the type, and what the lowest and the highest number would be that a GPU may have rounded; processors have `want`."""
        differs = got.view(np.uint8).ravel() != want.ravel()
        if bounds is not None and self.attile_backend not in ("reference", "cpu"):
            out, *ends = bounds
            number, low, high = (numbers(x.view(np.uint8).ravel(), out) for x in (got, *ends))
            differs &= ~((np.minimum(low, high) <= number) & (number <= np.maximum(low, high)))
        wrong = np.flatnonzero(differs)
        self.assertEqual(wrong.size, 0, f"{note}: {wrong.size} of {got.size} numbers are wrong, the first at {wrong[:1]}: {got.view(np.uint8).ravel()[wrong[:3]]} {want.ravel()[wrong[:3]]}")

    def product(self, rng, dtypes, out, m, n, k, scale_shape, batch=(), transposed=(False, False, False), bias_axis=0, beta=0.0, relu=False, flags=0):
        a, b = rng.integers(-8, 9, (*batch, m, k)), rng.integers(-8, 9, (*batch, k, n))
        put = lambda x, dtype: x.astype(np.int8) if dtype == ac.I8 else stored(x.astype(F), dtype)
        lie = lambda x, is_transposed: np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2) if is_transposed else np.ascontiguousarray(x)
        c = rng.integers(-50, 51, (*batch, m, n)).astype(F) if beta else None
        bias = rng.integers(-50, 51, n if bias_axis == 1 else m).astype(F) if bias_axis else None
        x = (a @ b).astype(F) * F(0.5)
        x = x + (beta * c if beta else 0) + (0 if not bias_axis else bias if bias_axis == 1 else bias[:, None])
        x = np.maximum(x, 0).astype(F) if relu else x.astype(F)
        scale = None if scale_shape is None else self.scales(rng, scale_shape, max(np.abs(x).max(initial=1), 1) / 127)
        d = lie(np.full((*batch, m, n), PREFILL, np.uint8), transposed[2])
        a, b = lie(put(a, dtypes[0]), transposed[0]), lie(put(b, dtypes[1]), transposed[1])
        args = self.attile.args(ac.GemmArgs, "gemm", a=a, b=b, c=c, d=d, alpha=0.5, beta=beta, bias=bias, bias_axis=bias_axis, activation=1 if relu else 0, d_scale=scale, flags=flags)
        args.d.dtype = out
        self.attile.run("gemm", args)
        self.same(d, quantised(x, wide(scale, x.shape), out), f"{dtypes[0]:#x} {dtypes[1]:#x} -> {out:#x} {m}x{n}x{k} {scale_shape} {batch} {transposed}")

    def test_products(self):
        rng = np.random.default_rng(1)
        types = ((ac.F32, ac.F32), (ac.F16, ac.F16), (ac.BF16, ac.BF16), (ac.F32, ac.I8), (ac.BF16, ac.I8), (ac.I8, ac.I8))
        for dtypes, out in itertools.product(types, NARROW):
            for m, n, k in ((1, 200, 96), (3, 70, 33), (40, 72, 64), (65, 5, 130), (9, 130, 40), (130, 140, 1100), (7, 9, 0)):
                for shape in (None, (1,), (m, 1), (n,), (m, n)):
                    self.product(rng, dtypes, out, m, n, k, shape)
                self.product(rng, dtypes, out, m, n, k, (m, 1), transposed=(True, False, True), bias_axis=1, beta=-2.0, relu=True)
                self.product(rng, dtypes, out, m, n, k, (n,), transposed=(False, True, True), bias_axis=2)
            self.product(rng, dtypes, out, 12, 24, 40, (2, 1, 1), batch=(3, 2))
            self.product(rng, dtypes, out, 12, 24, 40, (3, 1, 12, 24), batch=(3, 2), transposed=(False, True, False), flags=1)

    def attend(self, rng, dtypes, out, scale_shape, batch=2, heads=4, heads_kv=2, len_q=5, len_k=64, dim=16, dim_v=32, order=(0, 1, 2, 3), starts=None):
        """Keys that are all alike, a power of two of them: o is the mean of whole numbers."""
        entries = batch if starts is None else len(starts) - 1
        q = stored(rng.standard_normal((batch, heads, len_q, dim)).astype(F), dtypes[0])
        k = stored(np.ones((entries, heads_kv, len_k, dim), F), dtypes[0])
        v = rng.integers(-16, 17, (entries, heads_kv, len_k, dim_v))
        mean = np.repeat(v.mean(axis=2, keepdims=True), heads // heads_kv, axis=1)
        scale = None if scale_shape is None else self.scales(rng, scale_shape, np.abs(mean).max() / 127)
        o = laid_out(np.full((batch, heads, len_q, dim_v), PREFILL, np.uint8), order)
        want, low, high = (np.full(o.shape, PREFILL, np.uint8) for _ in range(3))  # A GPU's weights are not quite 1.
        divisors = wide(scale if scale is None or scale.shape[-1] in (1, dim_v) else np.repeat(scale, dim_v // scale.shape[-1], axis=-1), o.shape)
        for entry in range(entries):
            rows = slice(None) if starts is None else slice(starts[entry], starts[entry + 1])
            at = entry if starts is None else 0
            x = np.broadcast_to(mean[entry].astype(F), (heads, len_q, dim_v))[:, rows]
            if x.size > 0:
                for to, off in ((want, 0), (low, -(2.0**-15)), (high, 2.0**-15)):
                    to[at, :, rows] = quantised(np.ascontiguousarray(x + F(off)), divisors[at, :, rows], out)
        v = v.astype(np.int8) if dtypes[1] == ac.I8 else stored(v.astype(F), dtypes[1])
        offsets = None if starts is None else np.array(starts, np.int32)
        args = self.attile.args(ac.AttentionArgs, "attention", q=q, k=k, v=v, o=o, o_scale=scale, cu_len_q=offsets)
        args.o.dtype = out
        self.attile.run("attention", args)
        self.same(o, want, f"{dtypes[0]:#x} {dtypes[1]:#x} -> {out:#x} {len_q}x{len_k}x{dim_v} {scale_shape} {order} {starts}", (out, low, high))

    def test_attention(self):
        rng = np.random.default_rng(2)
        for dtypes, out in itertools.product(((ac.F32, ac.F32), (ac.BF16, ac.BF16), (ac.F16, ac.I8)), NARROW):
            for len_q, dim_v in ((1, 32), (5, 64), (40, 24), (70, 128)):
                sizes = {"len_q": len_q, "dim_v": dim_v}
                for shape in (None, (1,), (4, 1, 1), (4, len_q, 1), (2, 1, len_q, dim_v)):
                    self.attend(rng, dtypes, out, shape, **sizes)
                if dim_v % 32 == 0:
                    self.attend(rng, dtypes, out, (4, len_q, dim_v // 32), **sizes, order=(0, 2, 1, 3))
                self.attend(rng, dtypes, out, (len_q, 1), **sizes, order=(3, 1, 2, 0))
            self.attend(rng, dtypes, out, (4, 30, 1), batch=1, len_q=30, starts=[2, 9, 9, 21, 27])


if __name__ == "__main__":
    unittest.main(verbosity=2)

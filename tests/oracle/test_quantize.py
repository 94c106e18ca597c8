# SPDX-License-Identifier: Apache-2.0
"""Quantisation by the reference backend against NumPy, bit for bit. ATTILE_BACKEND_TO_JUDGE names another backend.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_quantize.py [Quantize.test_name]
"""
import itertools
import os
import unittest

import numpy as np

import attile_ctypes as ac
from oracle_case import NAN, Case, blank, laid_out, stored, widened

LARGEST = {ac.I8: 127.0, ac.E4M3: 448.0, ac.E5M2: 57344.0}
NAN_BITS = {ac.I8: 0, ac.E4M3: 0x7F, ac.E5M2: 0x7E}
F = np.float32


def magnitudes(dtype):
    """Of the bits 0, 1, ..: every finite number of an 8-bit float, ascending."""
    fraction_bits, bias, last = (3, 7, 0x7E) if dtype == ac.E4M3 else (2, 15, 0x7B)
    bits = np.arange(last + 1)
    exponent, fraction = bits >> fraction_bits, (bits & ((1 << fraction_bits) - 1)) / 2.0**fraction_bits
    return np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))


def nearest(ratio, dtype):
    """Bits of the nearest number to each finite one that is within the type's range, of two as near the even one."""
    if dtype == ac.I8:
        return np.rint(ratio).astype(np.int64).astype(np.int8).view(np.uint8)
    known = magnitudes(dtype)
    x = np.abs(ratio)
    above = np.clip(np.searchsorted(known, x), 1, len(known) - 1)
    below = above - 1
    up, down = known[above] - x, x - known[below]
    bits = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    return (bits | np.where(np.signbit(ratio), 0x80, 0)).astype(np.uint8)


def numbers(bits, dtype):
    if dtype == ac.I8:
        return bits.view(np.int8).astype(F)
    value = np.append(magnitudes(dtype), [np.inf] * (0x80 - len(magnitudes(dtype))))
    value[0x7F if dtype == ac.E4M3 else 0x7D :] = NAN
    return np.where(bits >= 0x80, -1, 1).astype(F) * value[bits & 0x7F].astype(F)


def rotated(x, count):
    """Sums and differences in float32, neighbours first."""
    if count == 0:
        return x
    shape = x.shape
    x = x.reshape(-1, count)
    apart = 1
    while apart < count:
        pairs = x.reshape(-1, count // (2 * apart), 2, apart)
        x = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(-1, count)
        apart *= 2
    return (x * (F(1) / np.sqrt(F(count)))).reshape(shape)


def spread(scale, shape):
    """One scale for each element."""
    scale = scale.reshape((1,) * (len(shape) - scale.ndim) + scale.shape)
    for axis, extent in enumerate(shape):
        scale = np.repeat(scale, extent // scale.shape[axis], axis=axis)
    return scale


def scales_of(x, shape, dtype):
    """Of blocks of x: the largest magnitude over the largest number, NaN beside what is not finite."""
    full = (1,) * (x.ndim - len(shape)) + tuple(shape)
    split = [part for extent, count in zip(x.shape, full) for part in (count, extent // count)]
    most = np.abs(x).reshape(split).max(axis=tuple(range(1, 2 * x.ndim, 2)))
    return np.where(np.isfinite(most), most / F(LARGEST[dtype]), F(NAN)).astype(F).reshape(shape)


def quantised(x, scale, dtype):
    scale = spread(scale, x.shape)
    ratio = np.clip(x / scale, -F(LARGEST[dtype]), F(LARGEST[dtype]))
    bits = nearest(np.where(np.isnan(ratio), 0, ratio).astype(np.float64), dtype)
    return np.where(scale == 0, 0, np.where(np.isnan(ratio), NAN_BITS[dtype], bits)).astype(np.uint8)


SHAPES = [((384,), (12,)), ((384,), (1,)), ((5, 96), (5, 3)), ((5, 96), (5, 1)), ((5, 96), (1, 1)), ((64, 37), (1, 37)), ((128, 40), (4, 40)),
          ((256, 384), (2, 3)), ((2, 3, 7, 64), (2, 3, 7, 1)), ((2, 3, 7, 64), (2, 1, 1, 2)), ((2, 3, 7, 64), (3, 1, 1)), ((3, 1100), (3, 1)),
          ((700, 3), (1, 1)), ((1, 1), (1, 1)), ((3, 5), (3, 5))]


class Quantize(Case):
    @classmethod
    def setUpClass(cls):
        cls.attile = ac.Library(backend=os.environ.get("ATTILE_BACKEND_TO_JUDGE", "reference"))
        np.seterr(all="ignore")

    def call(self, name, x, q, scale, dtype, hadamard=0, **options):
        kind = ac.QuantizeArgs if name == "quantize" else ac.DequantizeArgs
        args = self.attile.args(kind, name, x=x, q=q, scale=scale, hadamard=hadamard, **options)
        args.q.dtype = dtype
        self.attile.run(name, args)

    def one(self, rng, dtype, kind, shape, scale_shape, hadamard=0, order=None, draw=None):
        x = stored((draw or rng.standard_normal)(shape), kind)
        x = laid_out(x, order or range(len(shape)))
        q, scale = np.full(shape, 0xA5, np.uint8), np.full(scale_shape, NAN, F)
        q = laid_out(q, order or range(len(shape)))
        self.call("quantize", x, q, scale, dtype, hadamard=hadamard)
        turned = rotated(widened(x).astype(F), hadamard)
        want = scales_of(turned, scale_shape, dtype)
        note = f"{kind:#x} -> {dtype:#x} {shape} {scale_shape} rotated {hadamard}"
        np.testing.assert_array_equal(scale, want, note)
        np.testing.assert_array_equal(q, quantised(turned, want, dtype), note)
        back = blank(shape, kind)
        self.call("dequantize", back, q, scale, dtype, hadamard=hadamard)
        value = rotated(spread(scale, shape) * numbers(q, dtype), hadamard)
        np.testing.assert_array_equal(widened(back), widened(stored(value, kind)), note)

    def test_every_shape_of_scales(self):
        rng = np.random.default_rng(1)
        for (shape, scale_shape), dtype, kind in itertools.product(SHAPES, LARGEST, (ac.F32, ac.F16, ac.BF16)):
            self.one(rng, dtype, kind, shape, scale_shape)
            self.one(rng, dtype, kind, shape, scale_shape, order=list(range(len(shape)))[::-1])

    def test_rotation(self):
        rng = np.random.default_rng(2)
        for h, dtype in itertools.product((2, 4, 8, 16, 32, 64, 128, 256, 512), LARGEST):
            self.one(rng, dtype, ac.F32, (7, 1024), (7, 1), h)
            self.one(rng, dtype, ac.BF16, (3, 2, 1536), (3, 2, 48), h)
        self.one(rng, ac.I8, ac.F32, (64, 64), (1, 64), 64)

    def test_numbers_of_every_size(self):
        rng = np.random.default_rng(3)
        wide = lambda shape: rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 30, shape)
        tiny = lambda shape: rng.standard_normal(shape) * 2.0**-140
        zeros = lambda shape: np.where(rng.random(shape) < 0.95, 0.0, -1.0) * rng.standard_normal(shape)
        for dtype, draw in itertools.product(LARGEST, (wide, tiny, zeros)):
            self.one(rng, dtype, ac.F32, (40, 64), (40, 2), draw=draw)
            self.one(rng, dtype, ac.BF16, (64, 40), (2, 40), draw=draw)

    def test_every_tie(self):
        """Numbers, and what is in the middle of two neighbours, beside it and beyond the largest, of scale 1."""
        for dtype in LARGEST:
            known = magnitudes(dtype) if dtype != ac.I8 else np.arange(128.0)
            ties = (known[1:] + known[:-1]) / 2
            x = np.concatenate([known, ties, np.nextafter(ties, 0, dtype=F), np.nextafter(ties, 1e9, dtype=F), known[-1:] * [1.001, 2, 1e30]]).astype(F)
            x = np.concatenate([x, -x, [np.inf, -np.inf, NAN]]).astype(F)
            q, scale = np.full(x.shape, 0xA5, np.uint8), np.ones(1, F)
            for given in (scale, None):
                self.call("quantize", x, q, given, dtype, scale_mode=1)
                np.testing.assert_array_equal(q, quantised(x, scale, dtype), hex(dtype))

    def test_scales_that_are_given(self):
        rng = np.random.default_rng(4)
        for dtype in LARGEST:
            x = (rng.standard_normal((8, 64)) * 50).astype(F)
            x[3, 5], x[4, 6], x[5, 7] = np.inf, -np.inf, NAN
            for value in (0.5, -0.37, 0.0, -0.0, NAN, np.inf, 1e-45):
                scale = (rng.standard_normal((8, 2)) ** 2).astype(F)
                scale[2:6, 0] = value
                q = np.full(x.shape, 0xA5, np.uint8)
                self.call("quantize", x, q, scale, dtype, scale_mode=1)
                np.testing.assert_array_equal(q, quantised(x, scale, dtype), f"{dtype:#x} {value}")

    def test_what_is_not_finite_shows(self):
        for dtype, bad in itertools.product(LARGEST, (NAN, np.inf, -np.inf)):
            x = np.ones((4, 64), F)
            x[1, 40] = bad
            q, scale, back = np.full(x.shape, 0xA5, np.uint8), np.zeros((4, 2), F), np.zeros_like(x)
            self.call("quantize", x, q, scale, dtype)
            self.assertEqual(np.isnan(scale).tolist(), [[False] * 2, [False, True], [False] * 2, [False] * 2])
            self.assertTrue((q[1, 32:] == NAN_BITS[dtype]).all())
            self.call("dequantize", back, q, scale, dtype)
            self.assertTrue(np.isnan(back[1, 32:]).all() and np.isfinite(back).sum() == 7 * 32)

    def four(self, rng, kind, shape, scale_shape, dtype, hadamard=0, draw=None):
        """To 4 bits and back; what is expected of u4 is written from the definition alone."""
        x = stored((draw or rng.standard_normal)(shape), dtype)
        scale, zero, back = np.full(scale_shape, NAN, F), np.full(scale_shape, NAN, F) if kind == ac.U4 else None, blank(shape, dtype)
        tensor, packed = ac.four_bits(np.zeros(shape, np.int64), kind, len(shape) - 1)
        packed[...] = 0xA5
        args = self.attile.args(ac.QuantizeArgs, "quantize", x=x, scale=scale, zero=zero, hadamard=hadamard)
        args.q = tensor
        self.attile.run("quantize", args)
        turned = rotated(widened(x).astype(F), hadamard)
        most = F(7 if kind == ac.I4 else 15)
        full = (1,) * (turned.ndim - len(scale_shape)) + tuple(scale_shape)
        split = turned.reshape([part for extent, count in zip(shape, full) for part in (count, extent // count)])
        inner = tuple(range(1, 2 * turned.ndim, 2))
        if kind == ac.I4:
            want_scale, want_zero = (np.abs(split).max(axis=inner) / most).reshape(scale_shape), np.zeros(scale_shape, F)
        else:
            high, low = np.maximum(split.max(axis=inner), F(0)), np.minimum(split.min(axis=inner), F(0))
            want_scale = (high / most - low / most).reshape(scale_shape)
            want_zero = np.where(want_scale == 0, F(0), np.rint(-low.reshape(scale_shape) / want_scale)).astype(F)
            np.testing.assert_array_equal(zero, want_zero)
        np.testing.assert_array_equal(scale, want_scale)
        each, off = spread(want_scale, shape), spread(want_zero, shape)
        number = np.where(each == 0, 0, np.rint(np.clip(turned / each + off, F(-7 if kind == ac.I4 else 0), most))).astype(F)
        found = np.stack([packed & 15, packed >> 4], axis=-1).reshape(shape).astype(np.int64)
        np.testing.assert_array_equal(np.where((kind == ac.I4) & (found >= 8), found - 16, found), number)
        args = self.attile.args(ac.DequantizeArgs, "dequantize", x=back, scale=scale, zero=zero, hadamard=hadamard)
        args.q = tensor
        self.attile.run("dequantize", args)
        np.testing.assert_array_equal(widened(back), widened(stored(rotated(each * (number - off), hadamard), dtype)))
        error = np.abs(each * (number - off) - turned)
        self.assertTrue((error <= each * 0.5 * (1 + 2.0**-18)).all())

    def test_four_bits(self):
        rng = np.random.default_rng(6)
        shapes = [((5, 96), (5, 3)), ((5, 96), (5, 1)), ((64, 38), (1, 38)), ((64, 38), (2, 38)), ((7, 1030), (7, 1)), ((2, 3, 4, 64), (2, 3, 4, 2)), ((256, 256), (2, 2)),
                  ((700, 64), (1, 1)), ((6,), (1,)), ((3, 10), (3, 10))]
        sparse = lambda shape: np.where(rng.random(shape) < 0.7, 0.0, rng.standard_normal(shape))
        positive = lambda shape: np.abs(rng.standard_normal(shape)) + 3
        for kind, (shape, scale_shape), draw in itertools.product((ac.I4, ac.U4), shapes, (None, sparse, positive)):
            for dtype in (ac.F32, ac.BF16, ac.F16):
                self.four(rng, kind, shape, scale_shape, dtype, draw=draw)
        for hadamard in (2, 32, 64):
            self.four(rng, ac.U4, (9, 192), (9, 6), ac.F32, hadamard)

    def test_error_bounds(self):
        """Those of the page on numerics."""
        rng = np.random.default_rng(5)
        for dtype, hadamard in itertools.product(LARGEST, (0, 64)):
            x = (rng.standard_normal((64, 256)) * np.exp(rng.standard_normal((64, 1)) * 3)).astype(F)
            x[:, 17] *= 40
            q, scale, back = np.zeros(x.shape, np.uint8), np.zeros((64, 4), F), np.zeros_like(x)
            self.call("quantize", x, q, scale, dtype, hadamard=hadamard)
            self.call("dequantize", back, q, scale, dtype)
            turned = rotated(x, hadamard).astype(np.float64)
            most, error = spread(np.abs(turned).reshape(64, 4, 64).max(axis=2), x.shape), np.abs(back - turned)
            unit, step = {ac.I8: (0, 0.5 / 127), ac.E4M3: (2.0**-4, 2.0**-10 / 448), ac.E5M2: (2.0**-3, 2.0**-17 / 57344)}[dtype]
            self.assertTrue((error <= (np.maximum(unit * np.abs(turned), step * most) + 2.0**-22 * most)).all())


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: Apache-2.0
"""ggml's blocks of random bytes to tensors by the reference backend, against their formats read in NumPy. ATTILE_BACKEND_TO_JUDGE names another backend.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_repack.py [Repack.test_name]
"""
import os
import unittest

import numpy as np

import attile_ctypes as ac
from oracle_case import NAN, Case

F = np.float32
Q4_0, Q8_0, Q4_K, Q6_K = 2, 8, 12, 14
BLOCK = {Q4_0: (32, 18), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210)}
TYPE = {Q4_0: ac.I4, Q8_0: ac.I8, Q4_K: ac.U4, Q6_K: ac.I8}


def halves(blocks, at):
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(F)


def nibbles(bytes_):
    """[.., n] to [.., 2, n]: the lower ones, then the upper ones."""
    return np.stack([bytes_ & 15, bytes_ >> 4], axis=-2).astype(np.int64)


def q4_k_scales(packed):
    """Twelve bytes to eight scales and eight minima of six bits."""
    p = packed.astype(np.int64)
    low, middle, high = p[:, 0:4], p[:, 4:8], p[:, 8:12]
    return np.concatenate([low & 63, high & 15 | low >> 6 << 4], axis=1), np.concatenate([middle & 63, high >> 4 | middle >> 6 << 4], axis=1)


def numbers(form, blocks):
    """Of blocks [n, bytes]: integers [n, groups, 32], and what each stands for as float64, from the format alone."""
    if form == Q8_0:
        q = blocks[:, 2:].view(np.int8).astype(np.int64)[:, None]
        return q, q * halves(blocks, 0)[:, :, None].astype(np.float64)
    if form == Q4_0:
        q = nibbles(blocks[:, 2:]).reshape(-1, 1, 32) - 8
        return q, q * halves(blocks, 0)[:, :, None].astype(np.float64)
    if form == Q4_K:
        scales, minima = q4_k_scales(blocks[:, 4:16])
        q = nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
        d, least = halves(blocks, 0).astype(np.float64), halves(blocks, 2).astype(np.float64)
        return q, (d * scales)[:, :, None] * q - (least * minima)[:, :, None]
    low = nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    high = np.stack([blocks[:, 128:192].reshape(-1, 2, 32) >> shift & 3 for shift in (0, 2, 4, 6)], axis=2).astype(np.int64)
    q = (low | high << 4).reshape(-1, 16, 16) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.int64)
    products = (q * scales[:, :, None]).reshape(-1, 8, 32)
    return products, products * halves(blocks, 208)[:, :, None].astype(np.float64)


class Repack(Case):
    @classmethod
    def setUpClass(cls):
        cls.attile = ac.Library(backend=os.environ.get("ATTILE_BACKEND_TO_JUDGE", "reference"))
        np.seterr(all="ignore")

    def repack(self, form, blocks):
        """Rows of blocks [rows, bytes] to integers, scales and zeros of [rows, K / 32, 32] and [rows, K / 32]."""
        per, size = BLOCK[form]
        k = blocks.shape[1] // size * per
        shape = (len(blocks), k)
        scale, zero = np.full((k // 32, len(blocks)), NAN, F).T, np.full((len(blocks), k // 32), NAN, F) if form == Q4_K else None
        if form in (Q4_0, Q4_K):
            tensor, q = ac.four_bits(np.zeros(shape, np.int64), TYPE[form], 1)
            q[...] = 0xA5
        else:
            q = np.full(shape, 77, np.int8)
            tensor = ac.tensor(q)
        args = self.attile.args(ac.RepackArgs, "repack", blocks=blocks, scale=scale, zero=zero, format=form)
        args.q = tensor
        self.attile.run("repack", args)
        if form in (Q4_0, Q4_K):
            q = np.stack([q & 15, q >> 4], axis=-1).reshape(shape).astype(np.int64)
            q = np.where((form == Q4_0) & (q >= 8), q - 16, q)
        return q.astype(np.int64).reshape(len(blocks), k // 32, 32), scale, zero

    def drawn(self, rng, form, rows, count):
        """Random bytes, with scales of an ordinary size, in a buffer whose rows are an odd number of bytes apart."""
        per, size = BLOCK[form]
        blocks = rng.integers(0, 256, (rows, count, size), dtype=np.uint8)
        for at in {Q4_0: (0,), Q8_0: (0,), Q4_K: (0, 2), Q6_K: (208,)}[form]:
            blocks[:, :, at : at + 2] = (rng.standard_normal((rows, count, 1)) / 100).astype(np.float16).view(np.uint8)
        if form == Q6_K:
            blocks[:, 0, 192:208] = rng.integers(-3, 4, (rows, 16)).astype(np.int8).view(np.uint8)
            blocks[:, -1, 192:208:2] = blocks[:, -1, 193:208:2]
        buffer = np.zeros((rows, count * size + 7), np.uint8)
        buffer[:, : count * size] = blocks.reshape(rows, -1)
        return buffer[:, : count * size]

    def test_exact_forms(self):
        rng = np.random.default_rng(1)
        for form in (Q8_0, Q4_0):
            blocks = self.drawn(rng, form, 5, 3)
            q, scale, _ = self.repack(form, blocks)
            want, value = numbers(form, blocks.reshape(-1, BLOCK[form][1]))
            np.testing.assert_array_equal(q, want.reshape(q.shape))
            np.testing.assert_array_equal(scale[:, :, None].astype(np.float64) * q, value.reshape(q.shape))

    def test_q4_k(self):
        rng = np.random.default_rng(2)
        blocks = self.drawn(rng, Q4_K, 5, 3).copy()
        blocks[1, 0:2] = 0  # no scale
        blocks[2, 0:4] = 0  # nor minimum
        q, scale, zero = self.repack(Q4_K, blocks)
        want, value = numbers(Q4_K, blocks.reshape(-1, 144))
        value = value.reshape(q.shape)
        least = -value.min(axis=2, where=want.reshape(q.shape) == 0, initial=0)
        flat = scale[:, :, None] * (q - zero[:, :, None].astype(np.float64))
        groups = blocks.reshape(5, 3, 144)[:, :, 4:16].reshape(-1, 12)
        d = halves(blocks.reshape(-1, 144), 0) * q4_k_scales(groups)[0].astype(F)
        minimum = halves(blocks.reshape(-1, 144), 2) * q4_k_scales(groups)[1].astype(F)
        d, minimum = d.reshape(scale.shape), minimum.reshape(scale.shape)
        np.testing.assert_array_equal(scale, np.where(d == 0, minimum, d))
        np.testing.assert_array_equal(zero, np.where(d == 0, F(1), minimum / d))
        np.testing.assert_array_equal(q, np.where((d == 0)[:, :, None], 0, want.reshape(q.shape)))
        error = np.abs(flat - value)
        self.assertTrue((error <= 2.0**-24 * np.abs(minimum)[:, :, None]).all())
        self.assertTrue(np.isfinite(least).all() and (error[d == 0] == 0).all())

    def test_q6_k(self):
        rng = np.random.default_rng(3)
        blocks = self.drawn(rng, Q6_K, 8, 4).copy()
        blocks[1, 192:208] = 0
        blocks[2, 192:208] = np.array([-128, 127] * 8, np.int8).view(np.uint8)
        blocks[3, 0:192] = 0  # every number -32
        q, scale, _ = self.repack(Q6_K, blocks)
        flat = blocks.reshape(-1, 210)
        products, value = numbers(Q6_K, flat)
        products, value = products.reshape(q.shape), value.reshape(q.shape)
        pairs = np.ascontiguousarray(flat[:, 192:208]).view(np.int8).astype(np.int64).reshape(*q.shape[:2], 2)
        common, most = np.gcd(pairs[..., 0], pairs[..., 1]), np.abs(products).max(axis=2)
        exact = most <= 127 * common
        d = np.repeat(halves(flat, 208).reshape(8, 4), 8, axis=1)
        self.assertTrue(exact.any() and not exact.all())
        np.testing.assert_array_equal(scale, np.where(exact, d * common.astype(F), d * most.astype(F) / F(127)))
        safe = np.maximum(most, 1)[:, :, None]
        near = np.rint(products * 127 / safe)  # of doubles, which hold 2 x 127 x products exactly: ties are seen
        twice = 2 * 127 * products
        self.assertTrue((np.abs(twice - 2 * near * safe) <= safe).all())
        np.testing.assert_array_equal(q, np.where(exact[:, :, None], products // np.maximum(common, 1)[:, :, None], near))
        error = np.abs(scale[:, :, None].astype(np.float64) * q - value)
        bound = np.where(exact, 0.0, np.abs(d) * most / 254.0)[:, :, None]
        self.assertTrue((error <= bound + 2.0**-23 * np.abs(value).max(axis=2, keepdims=True) * ~exact[:, :, None]).all())
        self.assertTrue((np.abs(q) <= 127).all())

    def test_what_is_not_finite_shows(self):
        rng = np.random.default_rng(4)
        for form in BLOCK:
            blocks = self.drawn(rng, form, 2, 2).copy()
            at = 208 if form == Q6_K else 0
            blocks[0, at : at + 2] = np.array([np.nan], np.float16).view(np.uint8)
            _, scale, _ = self.repack(form, blocks)
            groups = BLOCK[form][0] // 32
            self.assertTrue(np.isnan(scale[0, :groups]).all() and np.isfinite(scale[0, groups:]).all() and np.isfinite(scale[1]).all())

    def test_products(self):
        """What was repacked, as weights of a product: B is q with its axes exchanged."""
        rng = np.random.default_rng(5)
        products = ac.Library()
        self.addCleanup(products.close)
        for form in BLOCK:
            blocks = self.drawn(rng, form, 6, 2)
            per, size = BLOCK[form]
            k = 2 * per
            scale, zero = np.zeros((6, k // 32), F), np.zeros((6, k // 32), F) if form == Q4_K else None
            if form in (Q4_0, Q4_K):
                q_tensor, kept = ac.four_bits(np.zeros((6, k), np.int64), TYPE[form], 1)
            else:
                kept = np.zeros((6, k), np.int8)
                q_tensor = ac.tensor(kept)
            args = self.attile.args(ac.RepackArgs, "repack", blocks=blocks, scale=scale, zero=zero, format=form)
            args.q = q_tensor
            self.attile.run("repack", args)
            a, d = rng.standard_normal((3, k)).astype(F), np.full((3, 6), NAN, F)
            gemm = self.attile.args(ac.GemmArgs, "gemm", a=a, d=d, b_scale=scale.T, b_zero=None if zero is None else zero.T)
            gemm.b = q_tensor
            for field in (gemm.b.shape, gemm.b.stride):
                field[0], field[1] = field[1], field[0]
            products.run("gemm", gemm)
            value = numbers(form, np.ascontiguousarray(blocks).reshape(-1, size))[1].reshape(6, k)
            bound = 2.0**-24 * k * (np.abs(a) @ np.abs(value).T)
            if form == Q6_K:
                bound = bound + np.abs(a).sum(axis=1)[:, None] * np.abs(value).max() / 254
            if form == Q4_K:
                bound = bound * 64  # of a difference of larger numbers
            self.assertTrue((np.abs(d - a.astype(np.float64) @ value.T) <= bound).all(), form)


if __name__ == "__main__":
    unittest.main(verbosity=2)

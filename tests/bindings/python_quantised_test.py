# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8 and 4 bits through the Python package, against NumPy: in products, as queries, keys and values, and how they are made."""
import importlib.util
import unittest

import numpy as np

import attile

RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


class Quantised(unittest.TestCase):
    def close(self, found, expected, tolerance=1e-6):
        self.assertEqual(found.shape, expected.shape)
        error = np.abs(found.astype(np.float64) - expected).max() if expected.size else 0
        self.assertTrue(error <= tolerance, f"largest difference {error}")

    def test_gemm_of_eight_bits_with_scales(self):
        x, q = random(3, 64), RNG.integers(-128, 128, (48, 64)).astype(np.int8)
        scale = random(2, 48)
        weights = np.repeat(scale, 32, axis=0).astype(np.float64) * q.T
        with attile.Context("cpu,reference") as context:
            self.close(context.gemm(x, q.T, b_scale=scale), x.astype(np.float64) @ weights, 1e-3)
            with context.prepare_gemm(x, q.T, b_scale=scale) as prepared:
                self.close(prepared.run(b_scale=2 * scale), 2 * (x.astype(np.float64) @ weights), 1e-3)
            p = RNG.integers(-128, 128, (3, 64)).astype(np.int8)
            sums = p.astype(np.int64) @ q.T
            self.assertTrue(np.array_equal(context.gemm(p, q.T, out=np.empty((3, 48), np.int32)), sums))
            found = context.gemm(p, q.T, a_scale=random(3, 1), b_scale=np.ones((1, 1), np.float32))
            self.assertEqual(found.dtype, np.float32)
            with self.assertRaisesRegex(attile.AttileError, "b_scale.shape"):
                context.gemm(x, q.T, b_scale=random(3, 48))

    def test_results_of_eight_bits(self):
        a, b = (RNG.integers(-8, 9, shape).astype(np.float32) for shape in ((3, 16), (16, 5)))
        scale, bias = np.float32([[1.5], [-2], [0]]), np.arange(5, dtype=np.float32)
        numbers = lambda x, by: np.where(by == 0, 0, np.clip(np.rint(x / np.where(by == 0, 1, by)), -127, 127)).astype(np.int8)
        with attile.Context("cpu,reference") as context:
            out = np.empty((3, 5), np.int8)
            self.assertIs(context.gemm(a, b, out=out, bias=bias, activation="relu", d_scale=scale), out)
            np.testing.assert_array_equal(out, numbers(np.maximum(a @ b + bias, 0), scale))
            with context.prepare_gemm(a, b, out=out, d_scale=scale) as prepared:
                np.testing.assert_array_equal(prepared.run(d_scale=2 * scale), numbers(a @ b, 2 * scale))
            with self.assertRaisesRegex(attile.AttileArgumentError, "d_scale is given, but d.dtype is f32"):
                context.gemm(a, b, d_scale=scale)
            q, k, v = random(1, 4, 3, 8), np.ones((1, 2, 4, 8), np.float32), RNG.integers(-9, 10, (1, 2, 4, 6)).astype(np.float32)
            mean, scale = np.repeat(v.mean(axis=2, keepdims=True), 2, axis=1), np.float32([0.25, 0.5, 1]).reshape(3, 1)
            out = np.empty((1, 4, 3, 6), np.int8)
            self.assertIs(context.attention(q, k, v, out=out, o_scale=scale), out)
            np.testing.assert_array_equal(out, numbers(np.broadcast_to(mean, out.shape), scale))
            with context.prepare_attention(q, k, v, out=out, o_scale=scale) as prepared:
                np.testing.assert_array_equal(prepared.run(o_scale=2 * scale), numbers(np.broadcast_to(mean, out.shape), 2 * scale))
            with self.assertRaisesRegex(attile.AttileArgumentError, r"o_scale.shape\[0\] is 2"):
                context.attention(q, k, v, out=out, o_scale=random(2, 1))

    def test_keys_and_values_of_eight_bits(self):
        q, k, v = random(2, 4, 3, 64), RNG.integers(-128, 128, (2, 2, 9, 64)).astype(np.int8), RNG.integers(-128, 128, (2, 2, 9, 5)).astype(np.int8)
        k_scale, v_scale = random(2, 2, 9, 2) / 128, random(2, 1, 5)
        exact = q.astype(np.float64), k * np.repeat(k_scale.astype(np.float64), 32, axis=-1), v * v_scale.astype(np.float64)
        with attile.Context("cpu,reference") as context:
            out, lse = context.attention(q, k, v, k_scale=k_scale, v_scale=v_scale, mask="causal_bottom_right", lse=True)
            self.assertEqual((out.dtype, lse.dtype), (np.float32, np.float32))
            expected = attile.attention(*exact, mask="causal_bottom_right", lse=True)
            self.close(out, expected[0], 2e-4)
            self.close(lse, expected[1], 1e-5)
            self.close(context.attention(q, k, exact[2].astype(np.float16), k_scale=k_scale), attile.attention(*exact[:2], exact[2].astype(np.float16).astype(np.float64)), 2e-4)
            for sentence, scales in ((r"k_scale.shape\[3\] is 3", {"k_scale": random(2, 2, 9, 3)}), ("v_scale.dtype", {"v_scale": np.ones(1)})):
                with self.assertRaisesRegex(attile.AttileError, sentence):
                    context.attention(q, k, v, **scales)
        with self.assertRaisesRegex(attile.AttileError, r"k_scale is given, but k.dtype is"):
            attile.attention(q, q, q, k_scale=k_scale)
        with self.assertRaisesRegex(attile.AttileError, "k.dtype"):
            attile.attention_backward(q, q, k, k, q, lse)

    def test_queries_of_eight_bits(self):
        q, k, v = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((2, 4, 3, 64), (2, 2, 9, 64), (2, 2, 9, 32)))
        scales = {"q_scale": random(4, 3, 2) / 128, "k_scale": random(2, 2, 9, 1) / 128, "v_scale": random(1)}
        exact = (q * np.repeat(scales["q_scale"].astype(np.float64), 32, axis=-1), *(x * scales[name].astype(np.float64) for x, name in ((k, "k_scale"), (v, "v_scale"))))
        expected = attile.attention(*exact, mask="causal_bottom_right", lse=True)
        with attile.Context("cpu,reference") as context:
            out, lse = context.attention(q, k, v, **scales, mask="causal_bottom_right", lse=True)
            self.assertEqual((out.dtype, lse.dtype), (np.float32, np.float32))
            self.close(out, expected[0], 1e-2)
            self.close(lse, expected[1], 1e-4)
            narrow = np.full(out.shape, np.nan, np.float16)
            self.assertIs(context.attention(q, k, v, **scales, mask="causal_bottom_right", out=narrow), narrow)
            self.close(narrow, expected[0], 0.2)
            self.assertNotEqual(context.attention(q, k, v, **scales, flags=attile.FLAG_FAST_ACCUMULATION, query=True).level, "none")
            for sentence, options in ((r"q_scale.shape\[0\] is 3", {"q_scale": random(3, 3, 1)}), ("q_scale.dtype", {"q_scale": np.ones(1)}), ("o.dtype", {"out": np.empty(out.shape)})):
                with self.assertRaisesRegex(attile.AttileError, sentence):
                    context.attention(q, k, v, **options)
        with self.assertRaisesRegex(attile.AttileError, "q_scale is given, but q.dtype is"):
            attile.attention(random(1, 1, 2, 4), *[random(1, 1, 2, 4)] * 2, q_scale=random(1))
        with self.assertRaisesRegex(attile.AttileError, "q.dtype is i8"):
            attile.attention_backward(out, q, k, v, out, lse)

    @unittest.skipUnless(importlib.util.find_spec("ml_dtypes"), "ml_dtypes is not installed")
    def test_keys_and_values_of_ml_dtypes(self):
        import ml_dtypes
        q = random(1, 2, 3, 8)
        for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16):
            k, v = random(1, 2, 7, 8).astype(kind), random(1, 2, 7, 8).astype(kind)
            scales = {} if kind == ml_dtypes.bfloat16 else {"k_scale": random(7, 1), "v_scale": random(1)}
            wide = [x.astype(np.float64) * scales.get(name, 1) for x, name in ((k, "k_scale"), (v, "v_scale"))]
            self.close(attile.attention(q, k, v, **scales), attile.attention(q.astype(np.float64), *wide))
            if scales:
                rows = random(1, 2, 3, 8).astype(kind)
                found = attile.attention(rows, k, v, q_scale=scales["v_scale"], **scales, flags=attile.FLAG_FAST_ACCUMULATION)
                self.assertEqual(found.dtype, np.float32)
                self.close(found, attile.attention(rows.astype(np.float64) * scales["v_scale"], *wide), 0.05)

    def test_keys_and_values_of_four_bits(self):
        q, k, v = random(1, 4, 3, 64), RNG.integers(-8, 8, (1, 2, 9, 64)), RNG.integers(0, 16, (1, 2, 9, 6))
        k_scale = random(2, 9, 2)
        packed = [(x[..., 0::2] & 15 | (x[..., 1::2] & 15) << 4).astype(np.uint8) for x in (k, v)]
        exact = q.astype(np.float64), k * np.repeat(k_scale.astype(np.float64), 32, axis=-1), v.astype(np.float64)
        with attile.Context("cpu,reference") as context:
            found = context.attention(q, attile.FourBits(packed[0]), attile.FourBits(packed[1], signed=False), k_scale=k_scale)
            self.assertEqual(found.shape, (1, 4, 3, 6))
            self.close(found, attile.attention(*exact), 2e-4)
            with self.assertRaisesRegex(attile.AttileError, "q.dtype is i4"):
                context.attention(attile.FourBits(packed[0]), k.astype(np.int8), v.astype(np.int8), out=np.empty((1, 2, 9, 6), np.float32))

    def test_weights_of_four_bits(self):
        with attile.Context("reference") as context:
            x, numbers, scale, zero = random(3, 64), np.arange(5 * 64).reshape(5, 64) * 7 % 16, random(5, 2), np.full((5, 2), 6.5, np.float32)
            packed = (numbers[:, 0::2] | numbers[:, 1::2] << 4).astype(np.uint8)
            expected = x.astype(np.float64) @ ((numbers - 6.5) * np.repeat(scale.astype(np.float64), 32, axis=1)).T
            b = attile.FourBits(packed, signed=False).T
            self.close(context.gemm(x, b, b_scale=scale.T, b_zero=zero.T), expected, 1e-4)
            with context.prepare_gemm(x, b, b_scale=scale.T, b_zero=zero.T) as prepared:
                self.close(prepared.run(b_zero=zero.T), expected, 1e-4)
            signed = np.where(numbers >= 8, numbers - 16, numbers)
            self.close(context.gemm(x, attile.FourBits(packed).T), x.astype(np.float64) @ signed.T, 1e-4)
            with self.assertRaisesRegex(attile.AttileArgumentError, "b_zero is given"):
                context.gemm(x, attile.FourBits(packed).T, b_scale=scale.T, b_zero=zero.T)
            with self.assertRaisesRegex(TypeError, "FourBits of an array of uint8"):
                context.gemm(x, attile.FourBits(x))

    def test_quantize_and_back(self):
        if attile.Context().info.backend not in ("cpu", "reference"):
            self.skipTest("the backend has no quantisation")
        x, q, scale = random(3, 4, 64), np.empty((3, 4, 64), np.int8), np.empty((3, 4, 2), np.float32)
        for hadamard in (0, 64):
            found = attile.quantize(x, q, scale, hadamard=hadamard)
            self.assertIs(found[0], q)
            self.assertIs(found[1], scale)
            self.close(attile.dequantize(q, scale, hadamard=hadamard), x, 0.03)
        self.close(scale, np.abs(attile.dequantize(q, scale)).reshape(3, 4, 2, 32).max(axis=3) / 127)
        again, before = np.empty_like(q), scale.copy()
        attile.quantize(x, again, scale, given=True, hadamard=64)
        np.testing.assert_array_equal(again, q)
        np.testing.assert_array_equal(scale, before)
        out = np.empty((3, 4, 64), np.float16)
        self.assertIs(attile.dequantize(q, None, out), out)
        np.testing.assert_array_equal(out, q)
        self.assertEqual(attile.quantize(x, q, scale, query=True).level, "native")
        packed, zero = np.empty((3, 4, 32), np.uint8), np.empty((3, 4, 2), np.float32)
        attile.quantize(x, attile.FourBits(packed, signed=False), scale, zero=zero)
        self.close(attile.dequantize(attile.FourBits(packed, signed=False), scale, zero=zero), x, scale.max() * 0.51)
        with self.assertRaisesRegex(attile.AttileArgumentError, "hadamard is 48"):
            attile.quantize(x, q, scale, hadamard=48)
        with self.assertRaisesRegex(ValueError, "out is expected"):
            attile.dequantize(q, None)

    def test_rows_are_rotated_and_appended(self):
        x, cosines, sines = random(2, 3, 2, 64), random(9, 16), random(9, 16)
        lengths, table = np.array([5, 8], np.int32), np.array([[4, 0], [1, 3]], np.int32)
        at = (lengths[:, None] - 2 + np.arange(2))[:, None]
        c, s = cosines[at], sines[at]
        halves, pairs = x.copy(), x.copy()
        halves[..., :16], halves[..., 16:32] = x[..., :16] * c - x[..., 16:32] * s, x[..., 16:32] * c + x[..., :16] * s
        pairs[..., 0:32:2], pairs[..., 1:32:2] = x[..., 0:32:2] * c - x[..., 1:32:2] * s, x[..., 1:32:2] * c + x[..., 0:32:2] * s
        for name in ("reference", "cpu"):
            with attile.Context(name) as context:
                out = np.empty_like(x)
                context.quantize(x, out, rope=(cosines, sines), key_lengths=lengths)
                self.assertTrue(np.array_equal(out, halves))
                places = np.broadcast_to(at[:, 0].astype(np.int64), (2, 2))
                context.quantize(x, out, rope=(cosines, sines), positions=places, interleaved=True)
                self.assertTrue(np.array_equal(out, pairs))
                cache, scale = np.zeros((5, 3, 4, 64), np.int8), np.zeros((5, 3, 4, 1), np.float32)
                context.quantize(x, cache, scale, rope=(cosines, sines), key_lengths=lengths, block_table=table, append=True)
                q, rows = np.empty(x.shape, np.int8), np.empty((2, 3, 2, 1), np.float32)
                context.quantize(halves, q, rows)
                for b, i in np.ndindex(2, 2):
                    page, slot = table[b, at[b, 0, i] // 4], at[b, 0, i] % 4
                    self.assertTrue(np.array_equal(cache[page, :, slot], q[b, :, i]) and np.array_equal(scale[page, :, slot], rows[b, :, i]))
                self.assertEqual(np.count_nonzero(scale), 12)
                self.assertEqual(context.quantize(x, cache, scale, key_lengths=lengths, block_table=table, append=True, query=True).level, "native")
                with self.assertRaisesRegex(attile.AttileError, "key_lengths must be given"):
                    context.quantize(x, cache, scale, append=True)

    def test_blocks_of_ggml(self):
        d, numbers = RNG.uniform(-1, 1, (3, 2, 1)).astype(np.float16), RNG.integers(-128, 128, (3, 2, 32)).astype(np.int8)
        blocks = np.concatenate([d.view(np.uint8), numbers.view(np.uint8)], axis=-1).reshape(3, 68)
        for name in ("reference", "cpu"):
            with attile.Context(name) as context:
                q, scale = np.zeros((3, 64), np.int8), np.zeros((3, 2), np.float32)
                context.repack(blocks, "Q8_0", q, scale)
                self.assertTrue(np.array_equal(q, numbers.reshape(3, 64)) and np.array_equal(scale, d[..., 0].astype(np.float32)))
                with self.assertRaisesRegex(ValueError, "Q6_K"):
                    context.repack(blocks, "Q5_0", q, scale)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Products of groups of rows from Python against NumPy, with arrays of NumPy and tensors of PyTorch."""
import importlib.util
import unittest

import numpy as np

import attile

RNG = np.random.default_rng(11)
ROWS = (3, 0, 5, 1)
OFFSETS = np.cumsum((0, *ROWS)).astype(np.int32)


def random(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def oracle(a, b, offsets, bias=None):
    parts = [a[begin:end].astype(np.float64) @ b[g].astype(np.float64) + (0 if bias is None else bias[g]) for g, (begin, end) in enumerate(zip(offsets, offsets[1:]))]
    return np.concatenate(parts)


class Grouped(unittest.TestCase):
    def close(self, found, expected, tolerance=1e-5):
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=tolerance)

    def test_groups_have_matrices_of_their_own(self):
        a, b = random(9, 6), random(4, 6, 7)
        found = attile.gemm_grouped(a, b, OFFSETS)
        self.assertEqual((found.shape, found.dtype), ((9, 7), np.float32))
        self.close(found, oracle(a, b, OFFSETS))
        weights = random(4, 7, 6)  # [G, N, K]
        self.close(attile.gemm_grouped(a, weights.transpose(0, 2, 1), OFFSETS), oracle(a, weights.transpose(0, 2, 1), OFFSETS))

    def test_epilogue(self):
        a, b, bias, c = random(9, 6), random(4, 6, 7), random(4, 7), random(9, 7)
        found = attile.gemm_grouped(a, b, OFFSETS, c, alpha=2, beta=-1, bias=bias, activation="relu")
        self.close(found, np.maximum(2 * oracle(a, b, OFFSETS) - c + np.repeat(bias, ROWS, axis=0), 0))

    def test_rows_of_no_group_stay(self):
        a, b, out = random(9, 6), random(2, 6, 7), np.full((9, 7), np.float32(5))
        self.assertIs(attile.gemm_grouped(a, b, np.array([2, 4, 7], np.int32), out=out), out)
        self.close(out[2:7], oracle(a, b, (2, 4, 7)))
        np.testing.assert_array_equal(out[[0, 1, 7, 8]], 5)

    def test_quantised_weights(self):
        a, whole, scale = random(9, 32), RNG.integers(-127, 128, (4, 32, 7)).astype(np.int8), random(4, 1, 7)
        if attile.gemm_grouped(a, whole, OFFSETS, b_scale=scale, query=True).level == "none":
            self.skipTest("the backend has no groups of quantised weights")
        self.close(attile.gemm_grouped(a, whole, OFFSETS, b_scale=scale), oracle(a, whole * scale, OFFSETS), 1e-3)

    def test_queries_and_wrong_arguments(self):
        a, b = random(9, 6), random(4, 6, 7)
        self.assertEqual(attile.gemm_grouped(a, b, OFFSETS, query=True).level, "native")
        with self.assertRaisesRegex(attile.AttileArgumentError, "row_offsets.dtype"):
            attile.gemm_grouped(a, b, OFFSETS.astype(np.float32))
        with self.assertRaisesRegex(attile.AttileArgumentError, "b.shape"):
            attile.gemm_grouped(a, b[:3], OFFSETS)
        with self.assertRaisesRegex(ValueError, "activation"):
            attile.gemm_grouped(a, b, OFFSETS, activation="tanh")

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_tensors_of_pytorch(self):
        import torch

        a, b = torch.from_numpy(random(9, 6)), torch.from_numpy(random(4, 6, 7))
        found = attile.gemm_grouped(a, b, torch.from_numpy(OFFSETS))
        self.assertIsInstance(found, torch.Tensor)
        self.close(found.numpy(), oracle(a.numpy(), b.numpy(), OFFSETS))
        found = attile.gemm_grouped(a.to(torch.bfloat16), b.to(torch.bfloat16), torch.from_numpy(OFFSETS))
        self.assertEqual(found.dtype, torch.bfloat16)
        self.close(found.float().numpy(), oracle(a.numpy(), b.numpy(), OFFSETS), 0.05)


if __name__ == "__main__":
    unittest.main()

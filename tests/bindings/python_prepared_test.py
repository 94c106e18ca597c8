# SPDX-License-Identifier: Apache-2.0
"""Prepared calls of the Python package: the results of the plain calls, with other arrays in each launch, and the mistakes that a launch can hold."""
import importlib.util
import sys
import threading
import types
import unittest
from unittest import mock

import numpy as np

import attile
from attile import _prepared

RNG = np.random.default_rng(3)


def random(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def empty(*shape):
    return np.full(shape, np.nan, np.float32)


class Launches(unittest.TestCase):
    def test_gemm_with_other_arrays(self):
        options = {"alpha": 2.0, "activation": "relu"}
        a, b, bias, out = random(3, 5, 4), random(4, 6), random(6), empty(3, 5, 6)
        call = attile.prepare_gemm(a, b, bias=bias, out=out, **options)
        self.assertTrue(np.isnan(out).all())  # nothing was computed
        self.assertIs(call.run(), out)
        np.testing.assert_array_equal(out, attile.gemm(a, b, bias=bias, **options))
        for _ in range(3):
            others = {"a": random(3, 5, 4), "b": random(4, 6), "bias": random(6)}
            into = empty(3, 5, 6)
            self.assertIs(call.run(out=into, **others), into)
            np.testing.assert_array_equal(into, attile.gemm(others["a"], others["b"], bias=others["bias"], **options))

    def test_a_result_that_preparing_made(self):
        a = random(4, 4)
        first = attile.prepare_gemm(a, a).run()
        np.testing.assert_array_equal(first, attile.gemm(a, a))

    def test_attention_by_every_operand(self):
        q, k, v = random(2, 4, 3, 8), random(2, 2, 5, 8), random(2, 2, 5, 6)
        operands = {"bias": random(2, 1, 3, 5), "allowed": RNG.uniform(size=(2, 1, 3, 5)) < 0.7, "alibi_slopes": random(4), "sinks": random(4),
                    "key_lengths": np.array([5, 3], np.int32), "key_starts": np.array([1, 0], np.int32), "causal_offset": np.array([1, 2], np.int32),
                    "block_mask": np.array([1, 0], bool).reshape(2, 1, 1, 1), "tree_mask": RNG.uniform(size=(2, 4, 3, 2)) < 0.7}
        with attile.default_context().prepare_attention(q, k, v, lse=True, **operands) as call:
            for found, expected in zip(call.run(), attile.attention(q, k, v, lse=True, **operands)):
                np.testing.assert_array_equal(found, expected)
            others = {"q": random(*q.shape), "k": random(*k.shape), "v": random(*v.shape), "bias": random(2, 1, 3, 5), "allowed": RNG.uniform(size=(2, 1, 3, 5)) < 0.7,
                      "alibi_slopes": random(4), "sinks": random(4), "key_lengths": np.array([2, 4], np.int32),
                      "key_starts": np.array([0, 3], np.int32), "causal_offset": np.array([-1, 0], np.int32),
                      "block_mask": np.array([0, 1], bool).reshape(2, 1, 1, 1), "tree_mask": RNG.uniform(size=(2, 4, 3, 2)) < 0.7}
            out, lse = empty(2, 4, 3, 6), empty(2, 4, 3)
            returned = call.run(**others, out=out, lse=lse)
            self.assertIs(returned[0], out)
            self.assertIs(returned[1], lse)
            for found, expected in zip((out, lse), attile.attention(lse=True, **others)):
                np.testing.assert_array_equal(found, expected)

    def test_keys_and_values_of_eight_bits(self):
        cache = lambda: RNG.integers(-128, 128, (2, 2, 5, 8)).astype(np.int8)
        q, k, v, scales = random(2, 4, 3, 8), cache(), cache(), {"k_scale": random(2, 5, 1), "v_scale": random(2, 1, 8)}
        call = attile.prepare_attention(q, k, v, **scales)
        np.testing.assert_array_equal(call.run(), attile.attention(q, k, v, **scales))
        others = {"k": cache(), "v": cache(), "k_scale": random(2, 5, 1), "v_scale": random(2, 1, 8)}
        np.testing.assert_array_equal(call.run(**others), attile.attention(q, **others))
        with self.assertRaises(ValueError):
            call.run(v_scale=random(2, 5, 1))
        rows = lambda: RNG.integers(-128, 128, q.shape).astype(np.int8)
        q, scales["q_scale"] = rows(), random(4, 3, 1)
        call = attile.prepare_attention(q, k, v, **scales)
        self.assertEqual(call.run().dtype, np.float32)
        np.testing.assert_array_equal(call.run(), attile.attention(q, k, v, **scales))
        others.update(q=rows(), q_scale=random(4, 3, 1))
        np.testing.assert_array_equal(call.run(**others), attile.attention(**others))

    def test_packed_and_paged_operands(self):
        q, pages = random(1, 2, 5, 4), random(6, 2, 4, 4)
        packed = {"cu_len_q": np.array([0, 2, 5], np.int32), "block_table": np.array([[0, 3], [5, 1]], np.int32), "key_lengths": np.array([7, 5], np.int32)}
        call = attile.prepare_attention(q, pages, pages, **packed)
        np.testing.assert_array_equal(call.run(), attile.attention(q, pages, pages, **packed))
        other = {**packed, "cu_len_q": np.array([0, 4, 5], np.int32), "block_table": np.array([[2, 4], [3, 0]], np.int32)}
        np.testing.assert_array_equal(call.run(cu_len_q=other["cu_len_q"], block_table=other["block_table"]), attile.attention(q, pages, pages, **other))
        keys = {"cu_len_q": packed["cu_len_q"], "cu_len_k": np.array([0, 3, 5], np.int32)}
        call = attile.prepare_attention(q, q, q, **keys)
        moved = np.array([0, 1, 5], np.int32)
        np.testing.assert_array_equal(call.run(cu_len_k=moved), attile.attention(q, q, q, cu_len_q=keys["cu_len_q"], cu_len_k=moved))

    def test_workspace_and_stream(self):
        memory = np.empty(1 << 12, np.uint8)
        memory = memory[-memory.ctypes.data % 256:]
        a = random(3, 3)
        np.testing.assert_array_equal(attile.prepare_gemm(a, a, flags=attile.FLAG_NO_ALLOC, workspace=memory).run(workspace=memory, stream=0), attile.gemm(a, a))

    def test_the_workspace_that_was_prepared(self):
        q, aligned = random(1, 2, 3, 4), []
        needed = attile.attention(q, q, q, query=True).workspace_bytes
        for _ in range(2):
            memory = np.zeros(needed + 256, np.uint8)
            aligned.append(memory[-memory.ctypes.data % 256:][:needed])
        first, second = aligned
        expected = attile.attention(q, q, q)
        call = attile.prepare_attention(q, q, q, flags=attile.FLAG_NO_ALLOC, workspace=first)
        np.testing.assert_array_equal(call.run(), expected)
        self.assertTrue(first.any())
        first[:] = 0
        np.testing.assert_array_equal(call.run(q=q.copy(), workspace=second), expected)
        self.assertEqual((first.any(), second.any()), (False, True))
        np.testing.assert_array_equal(call.run(workspace=None), expected)
        self.assertTrue(first.any())

    def test_the_stream_of_arrays_that_were_prepared(self):
        """Also where `out`, which each launch looks at, is not on the GPU."""
        current = {0: 0, 1: 0}
        cupy = types.ModuleType("cupy")
        device = types.SimpleNamespace(value=0)
        cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=current[device.value]))

        class OfCupy:
            __module__ = "cupy"

            def __init__(self, array, number):
                self.array, self.device = array, types.SimpleNamespace(id=number)
                self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False), "strides": None, "version": 3}

        class OfNumba(OfCupy):
            __module__ = "numba"

        streams = []

        def launch(handle, pointers):
            streams.append(pointers._obj.stream)
            return 0

        library = types.SimpleNamespace(attile_gemm_run=launch)
        a, b, out = random(3, 3), random(3, 3), empty(3, 3)
        with mock.patch.dict(sys.modules, cupy=cupy):
            for arrays in ((OfCupy(a, 0), b), (a, OfCupy(b, 0)), (OfNumba(a, 0), OfCupy(b, 0)), (OfCupy(a, 0), OfNumba(b, 0))):
                call = attile.prepare_gemm(*arrays, out=out)
                current[0] = 0x5550
                with mock.patch.object(_prepared, "library", return_value=library):
                    call.run()
                    for given in (0x70, 0):
                        call.run(stream=given, out=OfNumba(out, 0))  # No array for the extension.
                current[0] = 0
        self.assertEqual(streams, [0x5550, 0x70, None] * 4)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_pytorch_knows_of_each_output(self):
        import torch

        q = torch.rand(1, 2, 3, 4)
        out, lse = torch.empty(1, 2, 3, 4), torch.empty(1, 2, 3)
        call = attile.prepare_attention(q, q, q, out=out, lse=lse)
        before = out._version, lse._version
        call.run()
        call.run(q=q.clone())
        self.assertEqual((out._version, lse._version), (before[0] + 2, before[1] + 2))
        other = torch.empty_like(lse)
        before = out._version, lse._version, other._version
        call.run(lse=other)
        self.assertEqual((out._version, lse._version, other._version), (before[0] + 1, before[1], before[2] + 1))
        self.assertEqual(attile.prepare_gemm(q[0, 0], q[0, 0].t().contiguous()).run().shape, (3, 3))

    def test_threads_share_one(self):
        a = random(16, 16)
        call, expected, wrong = attile.prepare_gemm(a, a), attile.gemm(a, a), []

        def work():
            for _ in range(50):
                if not np.array_equal(call.run(out=empty(16, 16)), expected):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(wrong, [])


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.a, self.out = random(3, 3), np.full((3, 3), 7, np.float32)
        self.call = attile.prepare_gemm(self.a, self.a, out=self.out)

    def refused(self, error, sentence, **arrays):
        with self.assertRaisesRegex(error, sentence):
            self.call.run(**arrays)
        self.assertTrue((self.out == 7).all())

    def test_of_another_layout(self):
        for other in (random(3, 4), random(3, 3, dtype=np.float64), random(3, 3).T, random(1, 3, 3)):
            self.refused(ValueError, r"^b has type 0x\w+, shape .*the call was prepared for type 0x0220, shape \(3, 3\) and strides \(3, 1\)", b=other)

    def test_operands_that_are_not_there(self):
        self.refused(ValueError, "^bias is given, and the call was prepared without it", bias=random(3))
        self.refused(TypeError, "unexpected keyword argument 'q'; a prepared gemm has a, b, c, out, bias", q=random(3))
        self.refused(TypeError, "is not an array", a=None)

    def test_outputs_that_cannot_be_written(self):
        other = np.zeros((3, 3), np.float32)
        other.flags.writeable = False
        self.refused(ValueError, "^out is read-only", out=other)

    def test_what_the_library_finds(self):
        self.refused(attile.AttileArgumentError, "shares memory", b=self.out)
        memory = np.empty(4 * 9 + 1, np.uint8)[1:].view(np.float32).reshape(3, 3)
        self.refused(attile.AttileArgumentError, "MISALIGNED", a=memory)

    def test_a_call_that_cannot_be_prepared(self):
        with self.assertRaisesRegex(attile.AttileArgumentError, "SHAPE_MISMATCH"):
            attile.prepare_gemm(random(2, 3), random(2, 3))

    def test_closed(self):
        self.call.close()
        self.call.close()
        self.refused(attile.AttileArgumentError, "NULL_ARGUMENT")
        context = attile.Context("reference")
        call = context.prepare_gemm(self.a, self.a)
        context.close()
        with self.assertRaisesRegex(attile.AttileArgumentError, "INVALID_CONTEXT"):
            call.run()


if __name__ == "__main__":
    unittest.main()

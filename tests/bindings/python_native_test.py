# SPDX-License-Identifier: Apache-2.0
"""The compiled extension itself: that calls with plain arrays go through it, to the bits of the path without, and that nothing leaks."""
import gc
import importlib.util
import os
import subprocess
import sys
import threading
import tracemalloc
import unittest
from unittest import mock

import numpy as np

import attile
from attile import _context

RNG = np.random.default_rng(13)
LSE, Q = (1, 2, 3), (1, 2, 3, 4)


def random(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def calls():
    """Each operation with each of its options: a name, positional arguments and options."""
    q, lse, lengths, packed = random(*Q), random(*LSE), np.array([2], np.int32), np.array([0, 1, 3], np.int32)
    options = {"scale": 0.5, "softcap": 3, "mask": "window_top_left", "window": [1, -1], "bias": random(1, 1, 3, 3), "allowed": RNG.uniform(size=(3, 3)) < 0.5,
               "alibi_slopes": random(2), "sinks": random(2), "key_lengths": lengths,
               "key_starts": np.array([1], np.int32), "causal_offset": np.array([1], np.int32),
               "block_mask": np.ones((1, 1), bool), "tree_mask": np.array([[1, 0], [1, 1], [0, 1]], np.uint8)}
    modest = {"cu_len_q": packed, "cu_len_k": packed, "max_len_q": 2, "max_len_k": 2}
    yield "gemm", (q, q.swapaxes(2, 3)), {}
    yield "gemm", (q, q.swapaxes(2, 3), random(3, 3)), {"alpha": 2, "beta": 0.5, "bias": random(3), "bias_axis": "rows", "activation": "gelu", "flags": 1, "stream": 0}
    yield "attention", (q, q, q), {}
    yield "attention", (q, q, q), {**options, "lse": True}
    yield "attention", (q, q, q), {**modest, "lse": False}
    yield "attention", (q, random(4, 2, 2, 4), random(4, 2, 2, 4)), {"block_table": np.array([[3, 1]], np.int32), "key_lengths": lengths}
    cache = RNG.integers(-128, 128, (2, *Q)).astype(np.int8)
    yield "attention", (q, *cache), {"k_scale": random(2, 3, 1), "v_scale": random(4)}
    yield "attention", (q, cache[0], q.astype(np.float16)), {"k_scale": random(1), "lse": True}
    yield "attention", (cache[0], *cache), {"q_scale": random(2, 1, 1), "lse": True}
    yield "attention", (cache[0], *cache), {"out": np.empty(Q, np.float16)}
    out, found = attile.attention(q, q, q, **options, lse=True)
    yield "attention_backward", (q, q, q, q, out, found), options
    yield "attention_backward", (q, q, q, q, out, found), {**options, "dbias": random(1, 1, 3, 3), "dsinks": random(2), "dlse": random(*LSE)}
    yield "attention_merge", ([q, q], [lse, lse]), {"lse": True}
    yield "attention_merge", ((q, q, q), (lse, lse, lse)), {}
    for op in ("sum", "max", "min", "mean"):
        yield "reduce", (q, op, 1), {}
    yield "softmax", (q,), {"axis": -2}
    yield "softmax", (q[:, ::-1, :, ::2],), {}


def flat(result):
    return result if isinstance(result, tuple) else (result,)


def in_python():
    """Fails where a call is left to Python."""
    return mock.patch("attile._call.view", side_effect=AssertionError("the call was left to Python"))


def pure(name, *args, **options):
    """The call by the method in Python, which the compiled one replaced."""
    with mock.patch.dict("os.environ", ATTILE_PYTHON_PURE="1"):
        module = PURE.setdefault("attile", load_pure())
    return getattr(module.default_context(), name)(*args, **options)


PURE = {}


def load_pure():
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "attile"}
    try:
        import attile as found
        assert not found.compiled
        return found
    finally:
        sys.modules.update(kept)


@unittest.skipUnless(attile.compiled, "the extension is not there")
class Fast(unittest.TestCase):
    def test_numpy_goes_through_the_extension_with_the_same_bits(self):
        for name, args, options in calls():
            for owner in (attile, attile.default_context()):
                with self.subTest(name=name, options=list(options)):
                    with in_python():
                        found = getattr(owner, name)(*args, **options)
                        support = getattr(owner, name)(*args, **options, query=True)
                    expected = pure(name, *args, **options)
                    for one, other in zip(flat(found), flat(expected), strict=True):
                        self.assertEqual((one.dtype, one.shape, one.strides), (other.dtype, other.shape, other.strides))
                        np.testing.assert_array_equal(one, other)
                    self.assertIsInstance(support, attile.Support)
                    self.assertEqual(vars(support), vars(pure(name, *args, **options, query=True)))

    def test_types(self):
        types = [np.float32, np.float64, np.float16]
        if importlib.util.find_spec("ml_dtypes"):
            import ml_dtypes

            types.append(ml_dtypes.bfloat16)
        for dtype in types:
            x = random(3, 4).astype(dtype)
            with in_python():
                out = attile.softmax(x)
                attile.softmax(x, out=x[:])
            self.assertEqual(out.dtype, dtype)
            self.assertLessEqual(np.abs(out.astype(np.float64).sum(-1) - 1).max(), 2e-2)
            np.testing.assert_array_equal(x.astype(np.float64), out.astype(np.float64))
        memory = np.zeros((2, 2), np.dtype("V2"))  # two bytes of nothing known
        with self.assertRaisesRegex(TypeError, "none of float32"):
            attile.softmax(memory)

    def test_names_that_are_no_constants_of_the_program(self):
        x = random(3, 4)
        with in_python():
            np.testing.assert_array_equal(attile.softmax(x, **{"ax" + "_is"[1:]: 0}), attile.softmax(x, 0))

    def test_mistakes_in_a_call_are_those_of_python(self):
        q = random(*Q)
        for name, args, options in (("gemm", (q,), {}), ("gemm", (q, q, q, q), {}), ("gemm", (q, q), {"a": q}), ("softmax", (q,), {"axes": 1}), ("softmax", (q,), {"axis": 1.5}),
                                    ("reduce", (q, "product"), {}), ("reduce", (q, None), {}), ("attention", (q, q, q), {"window": (1, 2, 3)}), ("attention", (q, q, q), {"scale": "x"}),
                                    ("attention", (q, q, q), {"mask": ["none"]}), ("gemm", (q, q), {"flags": "x"}), ("gemm", (q, q), {"stream": "x"}),
                                    ("attention_merge", ([q], []), {}), ("attention_merge", ([], []), {}), ("attention_merge", (3, q), {}), ("gemm", (None, q), {}),
                                    ("softmax", (q, 7), {}), ("reduce", (q, "sum", -9), {}), ("softmax", (np.float32(1),), {}), ("reduce", (np.zeros((), np.float32), "sum"), {}),
                                    ("gemm", (q, q), {"workspace": q[..., ::2]}), ("softmax", (np.zeros(8, np.uint8)[1:5].view(np.float32),), {})):
            with self.subTest(name=name, options=options):
                with self.assertRaises(Exception) as found:
                    getattr(attile, name)(*args, **options)
                with self.assertRaises(Exception) as expected:
                    pure(name, *args, **options)
                self.assertEqual(type(found.exception).__name__, type(expected.exception).__name__)
                self.assertEqual(*(str(error.exception).replace("Context.", "") for error in (found, expected)))

    def test_nothing_leaks(self):
        every = list(calls())
        call = attile.prepare_gemm(random(3, 3), random(3, 3))

        def work():
            for name, args, options in every:
                getattr(attile, name)(*args, **options)
                getattr(attile, name)(*args, **options, query=True)
            call.run()
            for mistake in (lambda: attile.softmax("text"), lambda: attile.gemm(every[0][1][0], every[0][1][0]), lambda: call.run(c=random(3, 3))):
                try:
                    mistake()
                except (TypeError, ValueError):
                    pass
            gc.collect()

        work()
        counted = [a for _, args, options in every for a in (*args, *options.values()) if isinstance(a, np.ndarray)]
        before = [sys.getrefcount(a) for a in counted]
        tracemalloc.start()
        try:
            work()
            start = tracemalloc.get_traced_memory()[0]
            for _ in range(20):
                work()
            grown = tracemalloc.get_traced_memory()[0] - start
        finally:
            tracemalloc.stop()
        self.assertEqual([sys.getrefcount(a) for a in counted], before)
        self.assertLess(grown, 20 * 200)  # less than a small object a round

    def test_lists_that_change_while_the_library_works(self):
        parts, lses = [random(1, 8, 256, 64) for _ in range(4)], [random(1, 8, 256) for _ in range(4)]
        expected, stop = attile.attention_merge(parts, lses), threading.Event()
        own, own_lses = list(parts), list(lses)

        def churn():
            while not stop.is_set():
                own[:], own_lses[:] = [x.copy() for x in parts], [x.copy() for x in lses]

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            for _ in range(30):
                np.testing.assert_array_equal(attile.attention_merge(own, own_lses), expected)
        finally:
            stop.set()
            thread.join()

    def test_the_gil_is_free_while_the_library_works(self):
        q = random(1, 8, 512, 64)
        working, counted = threading.Event(), [0]

        def work():
            working.set()
            for _ in range(3):
                attile.attention(q, q, q)
            working.clear()

        thread = threading.Thread(target=work)
        thread.start()
        working.wait()
        while working.is_set():
            counted[0] += 1
        thread.join()
        self.assertGreater(counted[0], 1000)

    def test_a_context_that_was_never_opened(self):
        code = """
import numpy as np, attile
x = np.zeros((2, 2), np.float32)
for call in (lambda: attile.Context.__new__(attile.Context).gemm(x, x), lambda: attile.Prepared.__new__(attile.Prepared).run(), lambda: attile.Context.gemm(x, x, x)):
    try:
        call()
    except (attile.AttileArgumentError, AttributeError, TypeError):
        continue
    raise SystemExit("not refused")
"""
        subprocess.run([sys.executable, "-c", code], check=True)  # before the library is there

    def test_parameters_that_differ_are_found(self):
        pure_method = lambda self, x, out: None
        with self.assertRaisesRegex(ImportError, "parameter 1 of softmax is axis in the extension and 'out' in Python"):
            _context.native.method(attile.Context, "softmax", pure_method, "softmax(x, out)\n--\n\n", ("x", "out"))
        for wrong in ({}, {"ndarray": np.ndarray}):
            with self.assertRaises(KeyError):
                _context.native.setup(wrong)
            with self.assertRaises(KeyError):
                _context.native.connect(wrong)

    def test_another_interpreter_goes_without(self):
        code = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
import sys, attile._native
found = "try:\\n    import attile._native\\nexcept ImportError:\\n    pass\\nelse:\\n    raise SystemError('taken')"
other = interpreters.create()
problem = interpreters.run_string(other, f"import sys; sys.path[:] = {sys.path!r}\\n" + found)
assert problem is None, problem
interpreters.destroy(other)
"""
        subprocess.run([sys.executable, "-c", code], check=True)  # a process of its own, since Python then stops checking who holds the GIL


@unittest.skipUnless(attile.compiled and importlib.util.find_spec("torch"), "the extension or PyTorch is not there")
class Torch(unittest.TestCase):
    without = os.environ.get("ATTILE_TEST_WITHOUT", "").split()  # of the ways to PyTorch's tensors, the fastest first

    @classmethod
    def setUpClass(cls):
        import torch

        if "functions" in cls.without:  # as PyTorch before 2.4 is, or one whose objects are others
            cls.enterClassContext(mock.patch("attile._aten._FUNCTIONS", ("no_such_function",)))
        if "exchange" in cls.without and hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):  # as PyTorch before 2.10 is
            del torch.Tensor.__dlpack_c_exchange_api__

    @unittest.skipIf(without, "this is one of those tests")
    def test_slower_ways(self):
        for without in ("functions", "functions exchange"):
            subprocess.run([sys.executable, "-W", "ignore", "-m", "unittest", "python_native_test.Torch"], env={**os.environ, "ATTILE_TEST_WITHOUT": without}, check=True)

    @unittest.skipUnless(sys.platform == "linux", "the C library tells how large an object is")
    def test_finds_the_functions_of_this_version(self):
        import torch
        from attile._aten import find_aten

        self.assertEqual(find_aten(torch) is None, "functions" in self.without)

    def test_results_are_freed(self):
        import torch

        x = torch.rand(3, 4)
        for found in (attile.softmax(x), *attile.attention(*[torch.rand(*Q)] * 3, lse=True)):
            self.assertEqual((found._use_count(), found.requires_grad), (1, False))

    def test_large_and_empty_results(self):
        import torch

        with in_python():
            large = attile.softmax(torch.zeros(1025, 1025))  # PyTorch's method makes it
        self.assertLess(float((large * 1025 - 1).abs().max()), 1e-5)
        self.assertEqual(attile.softmax(torch.zeros(0, 3)).shape, (0, 3))

    def test_tensors_that_are_not_memory_alone(self):
        import torch

        x = torch.rand(3, 4)
        for kind in (x.to_sparse(), x.to("meta"), torch._neg_view(x), x.to(torch.complex64).conj(), x.to_mkldnn(), torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)):
            for arrays, options in (((kind,), {}), ((x,), {"out": kind})):
                with self.subTest(kind=str(kind.layout), options=list(options)), self.assertRaises(Exception):
                    attile.softmax(*arrays, **options)
        with self.assertRaises(Exception):
            torch.func.functionalize(attile.softmax)(x)

    def tensors(self, value):
        import torch

        if isinstance(value, np.ndarray):
            return torch.from_numpy(np.array(value))
        return type(value)(map(self.tensors, value)) if isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray) else value

    def test_goes_through_the_extension_with_the_same_bits(self):
        import torch

        for name, args, options in calls():
            with self.subTest(name=name, options=list(options)):
                converted = tuple(map(self.tensors, args)), {key: self.tensors(value) for key, value in options.items()}
                with in_python():
                    found = getattr(attile, name)(*converted[0], **converted[1])
                for one, other in zip(flat(found), flat(getattr(attile, name)(*args, **options)), strict=True):
                    self.assertIsInstance(one, torch.Tensor)
                    np.testing.assert_array_equal(one.numpy(), other)

    def test_kinds_of_tensors(self):
        import torch

        x = torch.rand(3, 4)
        with in_python():
            for kind in (x, x.t(), x[:, ::2], x.bfloat16(), x.half(), x.double(), torch.nn.Parameter(x, requires_grad=False), x.expand(2, 3, 4), x[1:, 2:]):
                found = attile.softmax(kind)
                self.assertEqual((found.dtype, found.shape), (kind.dtype, kind.shape))
                self.assertTrue(found.is_contiguous())
                self.assertLessEqual(float((found.double().sum(-1) - 1).abs().max()), 2e-2)
            with torch.no_grad():
                attile.softmax(torch.nn.Parameter(x))
            with torch.inference_mode():
                attile.softmax(torch.rand(3), out=torch.rand(3))

    def test_prepared(self):
        import torch

        a, b, out = torch.rand(3, 4), torch.rand(4, 5), torch.empty(3, 5)
        call = attile.prepare_gemm(a, b, out=out)
        with in_python():
            self.assertIs(call.run(), out)
            self.assertEqual(float((out - a.double() @ b.double()).abs().max()) < 1e-6, True)
            other = torch.empty(3, 5)
            self.assertIs(call.run(a=2 * a, out=other), other)
        self.assertLess(float((other - 2 * out).abs().max()), 1e-6)

    def test_written_tensors_are_known_to_autograd(self):
        import torch

        x, out = torch.rand(3, requires_grad=True), torch.rand(3)
        loss = (x * out).sum()  # saves out
        with in_python():
            attile.softmax(torch.rand(3), out=out)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()
        q, lse = torch.rand(*Q), torch.rand(*LSE)
        gradients = {name: torch.rand(*Q) for name in ("dq", "dk", "dv")}
        with torch.inference_mode():
            gradients["dk"] = torch.rand(*Q)  # has no version
        versions = {name: gradients[name]._version for name in ("dq", "dv")}
        with in_python():
            attile.attention_backward(q, q, q, q, q, lse, **gradients)
        for name, version in versions.items():
            self.assertGreater(gradients[name]._version, version)

    def test_transforms_are_left_to_python(self):
        import torch

        x = torch.rand(2, 3)
        with torch.autograd.forward_ad.dual_level():
            with self.assertRaisesRegex(RuntimeError, "tangent"):
                attile.softmax(torch.autograd.forward_ad.make_dual(x, x))
        with self.assertRaises(Exception):
            torch.func.vmap(attile.softmax)(x)

    def test_under_torch_compile(self):
        import torch
        import torch._dynamo

        x, layer = torch.rand(4, 4), torch.rand(4, 4)

        def model(x):
            y = attile.gemm(x * 2, layer, activation="relu")
            return attile.softmax(y + 1)

        expected = model(x)
        torch._dynamo.reset()
        found = torch.compile(model, backend="eager")(x)
        self.assertLess(float((found - expected).abs().max()), 1e-6)
        torch._dynamo.reset()


if __name__ == "__main__":
    unittest.main()

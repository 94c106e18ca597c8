# SPDX-License-Identifier: Apache-2.0
"""The operators of attile.torch: PyTorch's own checks of operators and gradients, graphs without a break, and the values of calls without them."""
import importlib.util
import inspect
import shutil
import subprocess
import sys
import types
import unittest
import warnings
from unittest import mock

import attile

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("PyTorch is not installed")

import torch  # noqa: E402

from attile import _sdpa, _torch_call  # noqa: E402
from python_forked import failure_in_child  # noqa: E402

torch.manual_seed(3)
HEADS = (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)  # q, k, v


def random(*shape, dtype=torch.float64, requires_grad=True):
    return (torch.rand(shape, dtype=dtype) * 2 - 1).requires_grad_(requires_grad)


def attention_cases():
    """Options of attention; arrays among them that ask for a gradient get one."""
    packed = torch.tensor([0, 2, 5], dtype=torch.int32), torch.tensor([0, 3, 7], dtype=torch.int32)
    yield {}
    yield {"mask": "causal_bottom_right", "softcap": 2.0, "scale": 0.7}
    yield {"mask": "window_top_left", "window": (3, 2), "allowed": torch.rand(5, 7) < 0.8, "sinks": random(4)}
    yield {"bias": random(1, 4, 5, 7), "sinks": random(4), "alibi_slopes": random(4, requires_grad=False)}
    yield {"bias": random(1, 4, 5, 7, requires_grad=False), "key_lengths": torch.tensor([7, 4], dtype=torch.int32)}
    yield {"mask": "causal_top_left", "key_starts": torch.tensor([0, 3], dtype=torch.int32), "causal_offset": torch.tensor([2, 3], dtype=torch.int32)}
    yield {"block_mask": torch.tensor([True, False, True, True]).reshape(4, 1, 1), "tree_mask": torch.rand(2, 1, 5, 3) < 0.6, "sinks": random(4)}
    yield {"cu_len_q": packed[0], "cu_len_k": packed[1], "tree_mask": torch.tensor([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=torch.uint8)}
    yield {"cu_len_q": packed[0], "cu_len_k": packed[1], "max_len_q": 3, "max_len_k": 4}


def operands(options, **kind):
    """q, k and v; packed sequences have no batch."""
    return [random(*((1, *shape[1:]) if "cu_len_q" in options else shape), **kind) for shape in HEADS]


def gemm_cases():
    """Operands and options of gemm."""
    yield (random(4, 5), random(5, 6)), {}
    yield (random(3, 4, 5), random(5, 6)), {"alpha": 2.0, "bias": random(6)}
    yield (random(4, 5), random(2, 3, 5, 6)), {"activation": "relu", "bias": random(4), "bias_axis": "rows"}
    yield (random(2, 1, 4, 5), random(3, 5, 6), random(2, 3, 4, 6)), {"beta": 0.5, "activation": "relu"}
    yield (random(3, 4, 5), random(5, 6)), {"bias": random(3, 6)}
    yield (random(3, 4, 5), random(5, 6)), {"bias": random(1, 6)}
    yield (random(2, 3, 4, 5), random(5, 6)), {"bias": random(2, 1, 4), "bias_axis": "rows"}
    yield (random(2, 3, 4, 1), random(1, 1)), {"bias": random(3, 1), "activation": "relu"}


class Operators(unittest.TestCase):
    def test_signatures_are_those_of_the_package(self):
        of_neither = {"out", "stream", "workspace", "query"}
        for name, missing, more in (("gemm", of_neither | {"a_scale", "b_scale", "b_zero", "d_scale"}, set()), ("attention", of_neither, {"out_dtype"})):  # Products of 8 bits are for attile.gemm.
            of_package, here = (inspect.signature(getattr(owner, name)).parameters for owner in (attile, attile.torch))
            self.assertEqual(set(of_package) - set(here), missing)
            self.assertEqual(set(here) - set(of_package), more)

    def test_values_are_those_of_the_package(self):
        for options in attention_cases():
            for dtype in (torch.float64, torch.float32, torch.bfloat16):
                arrays = operands(options, dtype=dtype, requires_grad=False)
                types = {"bias": dtype, **dict.fromkeys(("sinks", "alibi_slopes"), torch.float64 if dtype == torch.float64 else torch.float32)}
                given = {name: value.to(types[name]) if name in types else value for name, value in options.items()}
                with torch.no_grad(), self.subTest(options=list(options), dtype=dtype):
                    for found, expected in zip(attile.torch.attention(*arrays, lse=True, **given), attile.attention(*arrays, lse=True, **given)):
                        self.assertTrue(torch.equal(found, expected))
                    self.assertTrue(torch.equal(attile.torch.attention(*arrays, **given), attile.attention(*arrays, **given)))
        for arrays, options in gemm_cases():
            with torch.no_grad(), self.subTest(options=list(options)):
                self.assertTrue(torch.equal(attile.torch.gemm(*arrays, **options, flags=attile.FLAG_BATCH_INVARIANT),
                                            attile.gemm(*arrays, **options, flags=attile.FLAG_BATCH_INVARIANT)))

    def test_gradients_by_differences(self):
        for options in attention_cases():
            follow = {name: value for name, value in options.items() if getattr(value, "requires_grad", False)}
            for results in (slice(0, 1), slice(1, 2), slice(0, 2)):  # of out, of lse, of both
                def call(*arrays, options=options, names=tuple(follow), results=results):
                    return attile.torch.attention(*arrays[:3], lse=True, **{**options, **dict(zip(names, arrays[3:]))})[results]

                with self.subTest(options=list(options), results=results):
                    self.assertTrue(torch.autograd.gradcheck(call, (*operands(options), *follow.values())))
        for arrays, options in gemm_cases():
            follow = {name: value for name, value in options.items() if getattr(value, "requires_grad", False)}

            def product(*given, options=options, names=tuple(follow), count=len(arrays)):
                return attile.torch.gemm(*given[:count], **{**options, **dict(zip(names, given[count:]))})

            with self.subTest(options=list(options)):
                self.assertTrue(torch.autograd.gradcheck(product, (*arrays, *follow.values())))
                if "activation" not in options:
                    self.assertTrue(torch.autograd.gradgradcheck(product, (*arrays, *follow.values())))

    def test_gradients_of_half_precision(self):
        for dtype in (torch.float16, torch.bfloat16):
            arrays = operands({}, dtype=dtype)
            exact = [x.detach().double().requires_grad_() for x in arrays]
            weight = torch.rand(2, 4, 5, 6, dtype=torch.float64)
            found = torch.autograd.grad((attile.torch.attention(*arrays) * weight).sum(), arrays)
            for one, other in zip(found, torch.autograd.grad((attile.torch.attention(*exact) * weight).sum(), exact)):
                self.assertEqual(one.dtype, dtype)
                self.assertTrue(float((one - other).abs().max()) <= 8 * torch.finfo(dtype).eps * float(other.abs().max()))

    def test_a_large_gradient_of_lse(self):
        """It is as wide as lse is: one that float16 does not hold gives what it gives in float64."""
        arrays = operands({}, dtype=torch.float16)
        exact = [x.detach().double().requires_grad_() for x in arrays]
        sinks = random(4, dtype=torch.float32)
        wide = sinks.detach().double().requires_grad_()

        def gradients(q, k, v, sinks):
            lse = attile.torch.attention(q, k, v, lse=True, sinks=sinks)[1]
            return torch.autograd.grad((lse * 1e5).sum(), (q, k, v, sinks))

        for one, other in zip(gradients(*arrays, sinks), gradients(*exact, wide)):
            self.assertTrue(bool(one.isfinite().all()))
            self.assertTrue(float((one - other).abs().max()) <= 8 * torch.finfo(torch.float16).eps * float(other.abs().max()))

    def test_opcheck(self):
        for options in attention_cases():
            with self.subTest(options=list(options)):
                torch.library.opcheck(torch.ops.attile.attention, tuple(operands(options)), {**options, **({"window": list(options["window"])} if "window" in options else {})})
        for arrays, options in gemm_cases():
            with self.subTest(options=list(options)):
                torch.library.opcheck(torch.ops.attile.gemm, arrays, options)
        q = operands({}, requires_grad=False)
        out, lse = attile.torch.attention(*q, lse=True)
        for more in ({}, {"bias": random(1, 4, 5, 7, requires_grad=False), "with_dbias": True}, {"dlse": torch.rand_like(lse)}):
            torch.library.opcheck(torch.ops.attile.attention_backward, (torch.rand_like(out), *q, out, lse), more)

    def test_keys_and_values_of_eight_bits(self):
        q, k, v = random(2, 4, 3, 8, dtype=torch.float32), torch.randint(-128, 128, (2, 2, 7, 8), dtype=torch.int8), torch.randint(-128, 128, (2, 2, 7, 8), dtype=torch.int8)
        scales = {"k_scale": random(2, 7, 1, dtype=torch.float32, requires_grad=False), "v_scale": random(1, dtype=torch.float32, requires_grad=False)}
        caches = [(k, v, scales)]
        for name in ("float8_e4m3fn", "float8_e5m2"):
            kind = getattr(torch, name, None)
            if kind is not None:
                caches.append((k.float().div(64).to(kind), v.float().div(64).to(kind), scales))
        for k, v, options in (*caches, (k.half(), v.bfloat16(), {})):
            with self.subTest(types=(k.dtype, v.dtype)):
                wide = [x.double() * options.get(name, 1) for x, name in ((k, "k_scale"), (v, "v_scale"))]
                expected = attile.attention(q.detach().double(), *wide)
                with torch.no_grad():
                    found = torch.compile(attile.torch.attention, backend="aot_eager")(q, k, v, **options)
                    for out in (found, attile.torch.attention(q, k, v, **options), attile.attention(q, k, v, **options)):
                        self.assertEqual(out.dtype, torch.float32)
                        self.assertTrue(float((out - expected).abs().max()) <= 1e-5 * float(wide[1].abs().max()))
                with self.assertRaisesRegex(RuntimeError, "no gradient comes through attention of several types"):
                    attile.torch.attention(q, k, v, **options)
        torch.library.opcheck(torch.ops.attile.attention, (q.detach(), *caches[0][:2]), scales)

    def test_queries_of_eight_bits(self):
        scales = {name: random(1, dtype=torch.float32, requires_grad=False) for name in ("q_scale", "k_scale", "v_scale")}
        kinds = [getattr(torch, name, None) for name in ("int8", "float8_e4m3fn", "float8_e5m2")]
        for kind in filter(None, kinds):
            torch._dynamo.reset()  # It keeps eight compilations.
            arrays = [torch.randint(-4, 5, (2, heads, length, 8)).float().to(kind) for heads, length in ((4, 3), (2, 7), (2, 7))]
            wide = [x.float().double() * scale for x, scale in zip(arrays, scales.values())]
            expected = attile.attention(*wide)
            for dtype, bound in ((None, 0.1), (torch.float32, 0.1), (torch.bfloat16, 0.1), (torch.float16, 0.1)):
                with self.subTest(q=kind, out=dtype):
                    options = {**scales, "out_dtype": dtype, "flags": attile.FLAG_FAST_ACCUMULATION}
                    eager, compiled = attile.torch.attention, torch.compile(attile.torch.attention, backend="aot_eager")
                    found, again = eager(*arrays, **options), compiled(*arrays, **options)
                    self.assertEqual(found.dtype, dtype or torch.float32)
                    self.assertTrue(torch.equal(found, again))
                    self.assertTrue(float((found - expected).abs().max()) <= bound * float(wide[2].abs().max()))
                    if kind == torch.int8:  # It compares inputs, which PyTorch cannot do of every type.
                        torch.library.opcheck(torch.ops.attile.attention, tuple(arrays), options)
            self.assertEqual(attile.attention(*arrays, **scales).dtype, torch.float32)
            with self.assertRaisesRegex(RuntimeError, "no gradient comes through attention of 8 bits"):
                attile.torch.attention(*arrays, bias=random(3, 7, dtype=torch.float32))
        q = random(2, 2, 4, 8, dtype=torch.float16)
        with self.assertRaisesRegex(RuntimeError, "out_dtype other than q's"):
            attile.torch.attention(q, q, q, out_dtype=torch.float32)

    def test_wrong_calls(self):
        a, q, options = random(4, 5), random(2, 2, 4, 8), {"key_lengths": torch.tensor([3, 2], dtype=torch.int32)}
        with self.assertRaisesRegex(attile.AttileArgumentError, "gemm"):
            attile.torch.gemm(a, a)
        with self.assertRaisesRegex(RuntimeError, "a has 5 columns and b 4 rows"):
            torch.compile(attile.torch.gemm, fullgraph=True, backend="eager")(a, a)
        with self.assertRaisesRegex(RuntimeError, "no gradient comes through activation='gelu'"):
            attile.torch.gemm(a, a.T, activation="gelu")
        with torch.no_grad():
            attile.torch.gemm(a, a.T, activation="gelu")
        with self.assertRaisesRegex(RuntimeError, "alibi_slopes requires a gradient"):
            attile.torch.attention(q, q, q, alibi_slopes=random(2))
        with self.assertRaisesRegex(RuntimeError, "block_table"):
            attile.torch.attention(q, random(2, 2, 4, 8), random(2, 2, 4, 8), block_table=torch.tensor([[0], [1]], dtype=torch.int32), **options)
        with self.assertRaisesRegex(ValueError, "mask is 'diagonal'"):
            attile.torch.attention(q, q, q, mask="diagonal")
        gradient, = torch.autograd.grad(attile.torch.attention(q, q, q).sum(), q, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "no second derivatives"):
            gradient.sum().backward()
        with self.assertRaisesRegex(AttributeError, "has no attribute 'nosuch'"):
            attile.nosuch

    def test_a_captured_call_has_a_workspace_of_pytorch(self):
        def gemm(*arrays, query=False, **options):
            return types.SimpleNamespace(workspace_bytes=512) if query else options

        on_gpu = types.SimpleNamespace(is_cuda=True, new_empty=torch.empty, device="cuda:0", get_device=lambda: 0)
        with mock.patch.object(attile, "gemm", gemm), mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True):
            options = _torch_call.call("gemm", on_gpu, on_gpu, flags=attile.FLAG_BATCH_INVARIANT, alpha=2.0)
        self.assertEqual((options["flags"], options["alpha"]), (attile.FLAG_BATCH_INVARIANT | attile.FLAG_NO_ALLOC, 2.0))
        self.assertEqual((options["workspace"].shape, options["workspace"].dtype), ((512,), torch.uint8))
        with mock.patch.object(attile, "gemm", gemm), mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=False):
            self.assertEqual(_torch_call.call("gemm", on_gpu, on_gpu), {"flags": 0})

    def test_each_gpu_has_its_context(self):
        """The default context serves its own GPU and host memory, another context of the same backend another GPU."""
        opened = []
        tensors = [types.SimpleNamespace(is_cuda=on_gpu, get_device=lambda number=number: number) for on_gpu, number in ((False, -1), (True, 1), (True, 0), (True, 0))]
        info = types.SimpleNamespace(device_type=2, device_index=1, backend="cuda")
        with mock.patch.object(attile, "default_context", lambda: types.SimpleNamespace(info=info)), mock.patch.object(attile, "Context", lambda name: opened.append(name) or
                                                                                                                         types.SimpleNamespace(gemm=name)):
            _torch_call.default_gpu.cache_clear()
            try:
                self.assertEqual([_torch_call._operation("gemm", x) for x in tensors], [attile.gemm, attile.gemm, "cuda:0", "cuda:0"])
            finally:
                _torch_call.default_gpu.cache_clear()
                _torch_call._context_of.cache_clear()
        self.assertEqual(opened, ["cuda:0"])

    def test_a_child_of_fork(self):
        """It has contexts of its own, also where its parent has asked on which devices calls are served."""
        q = random(1, 2, 3, 4, requires_grad=False)
        out, parent = attile.torch.attention(q, q, q), attile.default_context()
        with attile.torch.sdpa():
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
        _torch_call.default_gpu()

        def check():
            for cached in (_torch_call.default_gpu, _torch_call._context_of, _sdpa._refused_device):
                self.assertEqual(cached.cache_info().currsize, 0)
            self.assertTrue(torch.equal(attile.torch.attention(q, q, q), out))
            with attile.torch.sdpa(), warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertTrue(torch.equal(torch.nn.functional.scaled_dot_product_attention(q, q, q), out))
            self.assertIsNot(attile.default_context(), parent)

        self.assertEqual(failure_in_child(check), "")
        self.assertGreater(_sdpa._refused_device.cache_info().currsize, 0)

    def test_the_package_does_not_import_pytorch(self):
        subprocess.run([sys.executable, "-c", "import sys, attile; assert 'torch' not in sys.modules; attile.torch.gemm; assert 'torch' in sys.modules"], check=True)


class Compiled(unittest.TestCase):
    @staticmethod
    def block(x, w, k, v):
        q = attile.torch.gemm(x, w).unflatten(-1, (4, 8)).transpose(1, 2)
        return attile.torch.attention(q * 0.5, k, v, mask="causal_bottom_right") * 2

    def compare(self, backend):
        """Forward and backward of graphs without a break, of several lengths."""
        torch._dynamo.reset()
        fast = torch.compile(self.block, fullgraph=True, backend=backend)
        for length in (5, 6, 9):
            arrays = [random(*shape, dtype=torch.float32) for shape in ((2, length, 3), (3, 32), (2, 2, 11, 8), (2, 2, 11, 8))]
            found, expected = fast(*arrays), self.block(*arrays)
            self.assertTrue(float((found - expected).abs().max()) <= 1e-6)
            for one, other in zip(*(torch.autograd.grad(result, arrays, torch.ones_like(result)) for result in (found, expected))):
                self.assertTrue(float((one - other).abs().max()) <= 1e-5)

    def test_without_a_graph_break(self):
        self.compare("aot_eager")
        torch._dynamo.reset()
        arrays = [random(*shape, dtype=torch.float32, requires_grad=False) for shape in ((2, 5, 3), (3, 32), (2, 2, 11, 8), (2, 2, 11, 8))]
        found = torch._dynamo.explain(self.block)(*arrays)
        self.assertEqual((found.graph_count, found.graph_break_count), (1, 0))

    @unittest.skipUnless(shutil.which("g++"), "there is no g++, with which PyTorch compiles")
    def test_inductor(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.compare("inductor")


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""No gradient is lost in silence: what requires one is refused, and what was written is known to whoever saved it."""
import contextlib
import importlib.util
import sys
import types
import unittest
from unittest import mock

import numpy as np

import attile

RNG = np.random.default_rng(5)


class Tensor:
    """Stands for PyTorch's tensor: NumPy's memory, a version that views share, and what automatic differentiation knows of it."""

    layout, is_cuda, is_cpu = "strided", False, True

    def __init__(self, array, requires_grad=False, tangent=None, counter=None):
        self.array, self.requires_grad, self.tangent = array, requires_grad, tangent
        self.counter = [0] if counter is None else counter
        self.shape, self.dtype = array.shape, f"torch.{array.dtype.name}"

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def is_neg(self):
        return False

    def is_inference(self):
        return False

    def detach(self):
        return Tensor(self.array, counter=self.counter)

    def unsqueeze(self, axis):
        return Tensor(np.expand_dims(self.array, axis), counter=self.counter)

    def __getitem__(self, index):
        return Tensor(self.array[index], counter=self.counter)

    def zero_(self):
        self.array[...] = 0
        self.counter[0] += 1

    def new_empty(self, shape, dtype=None):
        return Tensor(np.full(shape, np.nan, dtype or self.array.dtype))


Tensor.__module__ = "torch"


def increment_version(tensor):
    tensor.counter[0] += 1


@contextlib.contextmanager
def library(grad_mode=True, old=False):
    """PyTorch as far as Attile looks at it."""
    graph = types.SimpleNamespace() if old else types.SimpleNamespace(increment_version=increment_version)
    forward_ad = types.SimpleNamespace(unpack_dual=lambda tensor: types.SimpleNamespace(tangent=tensor.tangent))
    module = types.ModuleType("torch")
    vars(module).update(Tensor=Tensor, strided="strided", float32=np.float32, float64=np.float64, version=types.SimpleNamespace(hip=None),
                        is_grad_enabled=lambda: grad_mode, autograd=types.SimpleNamespace(graph=graph, forward_ad=forward_ad))
    with mock.patch.dict(sys.modules, {"torch": module}):
        yield


def tensor(*shape, dtype=np.float32):
    return Tensor(RNG.uniform(-1, 1, shape).astype(dtype))


def aligned_bytes(size):
    memory = np.zeros(size + 256, np.uint8)
    return memory[-memory.ctypes.data % 256:][:size]


SHAPE, ROWS = (1, 2, 3, 4), (1, 2, 3)


def calls():
    """Each operation: how it is called with arguments of these names, its inputs, and its outputs."""
    def merge(part, other, lse_part, lse_other, **outputs):
        return attile.attention_merge([part, other], [lse_part, lse_other], **outputs)

    x = lambda: tensor(*SHAPE)
    yield attile.gemm, {"a": x(), "b": tensor(1, 2, 4, 3), "c": tensor(1, 2, 3, 3), "bias": tensor(3)}, {"out": tensor(1, 2, 3, 3)}
    yield attile.attention, {"q": x(), "k": x(), "v": x(), "bias": tensor(1, 1, 3, 3), "alibi_slopes": tensor(2), "sinks": tensor(2)}, {"out": x(), "lse": tensor(*ROWS)}
    yield (attile.attention_backward, {"dout": x(), "q": x(), "k": x(), "v": x(), "out": x(), "lse": tensor(*ROWS), "sinks": tensor(2), "bias": tensor(1, 2, 3, 3)},
           {"dq": x(), "dk": x(), "dv": x(), "dsinks": tensor(2), "dbias": tensor(1, 2, 3, 3)})
    yield merge, {"part": x(), "other": x(), "lse_part": tensor(*ROWS), "lse_other": tensor(*ROWS)}, {"out": x(), "lse": tensor(*ROWS)}
    yield lambda x, **o: attile.reduce(x, "sum", **o), {"x": x()}, {"out": tensor(1, 2, 3, 1)}
    yield attile.softmax, {"x": x()}, {"out": x()}


class StandIn(unittest.TestCase):
    def test_whatever_requires_a_gradient_is_refused(self):
        tried = 0
        for operation, inputs, outputs in calls():
            arguments = {**inputs, **outputs}
            for name, array in arguments.items():
                for follow, sentence in (({"requires_grad": True}, r"requires a gradient.*\.detach\(\).*no_grad"), ({"tangent": 1}, r"has a tangent.*\.detach\(\)")):
                    for output in outputs.values():
                        output.array[...] = 7
                    with library(), self.subTest(operation=operation, name=name), self.assertRaisesRegex(RuntimeError, sentence) as caught:
                        operation(**{**arguments, name: Tensor(array.array, **follow)})
                    shown = {"part": "o_parts[0]", "other": "o_parts[1]", "lse_part": "lse_parts[0]", "lse_other": "lse_parts[1]"}.get(name, name)
                    self.assertTrue(str(caught.exception).startswith(shown + " "), caught.exception)
                    self.assertNotIsInstance(caught.exception, attile.AttileError)
                    self.assertTrue(all((output.array == 7).all() and output.counter == [0] for output in outputs.values()))
                    tried += 1
        self.assertEqual(tried, 2 * 36)

    def test_without_grad_mode_it_is_taken(self):
        for operation, inputs, outputs in calls():
            for array in (*inputs.values(), *outputs.values()):
                array.requires_grad = True
            with library(grad_mode=False):
                operation(**inputs, **outputs)
            self.assertTrue(all(np.isfinite(output.array).all() for output in outputs.values()))

    def test_what_is_written_has_a_new_version(self):
        for old in (False, True):
            for operation, inputs, outputs in calls():
                outputs = {**outputs, "workspace": Tensor(aligned_bytes(1 << 16))}
                with library(old=old), self.subTest(operation=operation, old=old):
                    operation(**inputs, **outputs)
                    self.assertEqual({name: array.counter[0] for name, array in outputs.items()}, {name: 1 for name in outputs})
                    self.assertEqual({array.counter[0] for array in inputs.values()}, {0})
                    operation(**inputs, **outputs, query=True)
                    with self.assertRaises(attile.AttileArgumentError):
                        operation(**inputs, **{**outputs, "out" if "out" in outputs else "dq": tensor(1, 2, 3, 5)})
                    self.assertEqual({array.counter[0] for array in outputs.values()}, {1})
                    self.assertTrue(all(np.isfinite(array.array).all() for array in outputs.values()))


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class PyTorch(unittest.TestCase):
    def random(self, *shape):
        import torch
        return torch.from_numpy(RNG.uniform(-1, 1, shape).astype(np.float32))

    def test_a_gradient_is_not_lost(self):
        import torch

        a, b = self.random(3, 4), self.random(4, 2)
        expected = (a @ b).numpy()
        for array in (a.clone().requires_grad_(), torch.nn.Parameter(a.clone()), a.clone().requires_grad_() * 1, a.clone().requires_grad_()[:, :]):
            with self.assertRaisesRegex(RuntimeError, "^a requires a gradient"):
                attile.gemm(array, b)
            with torch.no_grad():
                self.assertTrue(np.abs(attile.gemm(array, b).numpy() - expected).max() <= 1e-6)
            with torch.inference_mode():
                self.assertTrue(np.abs(attile.gemm(array, b).numpy() - expected).max() <= 1e-6)
            self.assertFalse(attile.gemm(array.detach(), b).requires_grad)
        with self.assertRaisesRegex(RuntimeError, "^out requires a gradient"):
            attile.gemm(a, b, out=torch.zeros(3, 2, requires_grad=True))

    def test_subclasses(self):
        import torch

        class Mine(torch.Tensor):
            pass

        a, out = self.random(3, 4).as_subclass(Mine).requires_grad_(), torch.full((3, 4), torch.nan).as_subclass(Mine)
        with self.assertRaisesRegex(RuntimeError, "^x requires a gradient"):
            attile.softmax(a, out=out)
        with torch.no_grad():
            attile.softmax(a, out=out)
        self.assertEqual(out._version, 1)
        self.assertTrue(float((out.sum(-1) - 1).abs().max()) <= 1e-6)

    def test_a_tangent_is_not_lost(self):
        import torch

        a, b = self.random(3, 4), self.random(4, 2)
        with torch.autograd.forward_ad.dual_level():
            with self.assertRaisesRegex(RuntimeError, "^a has a tangent"):
                attile.gemm(torch.autograd.forward_ad.make_dual(a, a), b)
            attile.gemm(torch.autograd.forward_ad.make_dual(a, a).detach(), b)
        if hasattr(torch, "func"):
            for transform in (lambda: torch.func.grad(lambda x: attile.gemm(x, b).sum())(a), lambda: torch.func.jvp(lambda x: attile.gemm(x, b), (a,), (a,)),
                              lambda: torch.func.vmap(lambda x: attile.gemm(x, b))(self.random(2, 3, 4))):
                with self.assertRaises(RuntimeError):
                    transform()

    def test_a_gradient_of_what_was_overwritten_is_refused(self):
        import torch

        for wrap in (lambda x: x, lambda x: x.detach(), lambda x: x[:], lambda x: x.detach().view(2, 6).view(3, 4)):
            x = self.random(3, 4)
            w = torch.ones(3, 4, requires_grad=True)
            loss = (w * x).sum()  # saves x, the gradient of w
            attile.softmax(self.random(3, 4), out=wrap(x))
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()

    def test_a_function_of_ones_own(self):
        import torch

        class Attention(torch.autograd.Function):
            @staticmethod
            def forward(ctx, q, k, v):
                o, lse = attile.attention(q, k, v, lse=True)
                ctx.save_for_backward(q, k, v, o, lse)
                return o

            @staticmethod
            def backward(ctx, dout):
                return attile.attention_backward(dout, *ctx.saved_tensors)

        q, k, v = (self.random(1, 2, 5, 4).requires_grad_() for _ in range(3))
        weight = self.random(1, 2, 5, 4)
        (Attention.apply(q, k, v) * weight).sum().backward()
        found = [x.grad.clone() for x in (q, k, v)]
        for x in (q, k, v):
            x.grad = None
        (torch.softmax(q @ k.transpose(2, 3) / 2, -1) @ v * weight).sum().backward()
        for x, gradient in zip((q, k, v), found):
            self.assertTrue(float((x.grad - gradient).abs().max()) <= 1e-5)

    def test_inference_tensors_have_no_version(self):
        import torch

        with torch.inference_mode():
            out = torch.full((3, 4), torch.nan)
            attile.softmax(self.random(3, 4), out=out)
        attile.softmax(self.random(3, 4), out=out)
        self.assertTrue(float((out.sum(-1) - 1).abs().max()) <= 1e-6)


if __name__ == "__main__":
    unittest.main()

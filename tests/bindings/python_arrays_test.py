# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as the Python package takes them: in place as inputs, and as outputs only where the result stays."""
import ctypes
import importlib.util
import unittest

import numpy as np

import attile

RNG = np.random.default_rng(11)


def random(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


class Dlpack:
    """Stands for a library that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
                ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class VersionedDlpack:
    """Stands for a library whose DLPack has a version and flags, and which gives it to those alone that ask for them."""

    def __init__(self, array, flags=0, major=1):
        self.array, self.flags, self.major = array, flags, major

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if max_version is None:
            raise BufferError("a read-only array cannot be shown without a flag that says so")
        array = self.array
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
        self.managed = Versioned(self.major, 1, None, None, self.flags, array.ctypes.data, 1, 0, array.ndim, 2, array.itemsize * 8, 1, self.shape, self.strides, 0)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor_versioned", None)


class OnGpu(Dlpack):
    """Stands for an array on a GPU of that kind, which notes the stream that it is asked with."""

    def __init__(self, array, device_type):
        super().__init__(array)
        self.device_type, self.asked = device_type, []

    def __dlpack_device__(self):
        return (self.device_type, 0)

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        return self.array.__dlpack__()


class CudaInterface:
    """Stands for a library of GPU arrays: a pointer, byte strides that may be absent, a stream of its own."""

    def __init__(self, array, dense=True, read_only=None):
        self.array, self.dtype = array, array.dtype
        read_only = not array.flags.writeable if read_only is None else read_only
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, read_only),
                                         "strides": None if dense else array.strides, "version": 3, "stream": None}


class ArrayMethod:
    """Stands for a library whose arrays have __array__ and nothing else; it gives a copy, or its own memory, and nobody can tell."""

    def __init__(self, array, copies=True):
        self.array, self.copies = array, copies

    def __array__(self, dtype=None, copy=None):
        return self.array.copy() if self.copies else self.array


def of_module(name, array):
    """An array that speaks DLPack and belongs to the library of that name."""
    return type("Array", (Dlpack,), {"__module__": name})(array)


def read_only(array):
    array.flags.writeable = False
    return array


class Inputs(unittest.TestCase):
    def check(self, wrap, allowed=1e-6):
        a, b = random(4, 3), random(2, 3)
        found = attile.gemm(wrap(a), wrap(b.T), out=np.full((4, 2), np.nan, np.float32))
        self.assertTrue(np.abs(found - a.astype(np.float64) @ b.T).max() <= allowed)

    def test_each_way_of_showing_an_array(self):
        for wrap in (Dlpack, VersionedDlpack, lambda x: VersionedDlpack(x, flags=1), lambda x: VersionedDlpack(x, flags=3), lambda x: CudaInterface(x, dense=False),
                     lambda x: CudaInterface(x, dense=False, read_only=True), ArrayMethod, lambda x: read_only(x.copy()), lambda x: of_module("jaxlib.xla", x)):
            self.check(wrap)

    def test_the_default_stream_of_a_gpu_in_dlpack(self):
        for device_type, number in ((2, 1), (10, 0)):  # CUDA, ROCm
            a = OnGpu(random(3, 3), device_type)
            attile.softmax(a, out=np.empty((3, 3), np.float32))
            self.assertEqual(a.asked, [number])

    def test_unknown_version_of_dlpack(self):
        with self.assertRaisesRegex(TypeError, "DLPack 2.1"):
            self.check(lambda x: VersionedDlpack(x, major=2))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_tensors_of_pytorch(self):
        import torch

        def tensor(*shape):
            return torch.from_numpy(random(*shape))

        a, b = tensor(3, 4).t(), tensor(2, 3, 2)[1]  # strided; with an offset
        for dtype, allowed in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2), (torch.float64, 1e-12)):
            x, y = a.to(dtype), b.to(dtype)
            found = attile.gemm(x, y)
            self.assertIs(found.dtype, dtype)
            expected = x.double() @ y.double()
            self.assertLessEqual(float((found.double() - expected).abs().max() / expected.abs().max()), allowed)
        expected = a.double() @ b.double()
        viewed = (a * 1j).imag  # of a stride of 2
        self.assertLessEqual(float((attile.gemm(viewed, b).double() - expected).abs().max()), 1e-6)
        negated = (torch.complex(torch.zeros_like(a), a).conj()).imag  # -a by a bit, not by its memory
        self.assertTrue(negated.is_neg())
        with self.assertRaisesRegex(TypeError, "resolve_neg"):
            attile.gemm(negated, b)
        self.assertLessEqual(float((attile.gemm(negated.resolve_neg(), b).double() + expected).abs().max()), 1e-6)
        with self.assertRaisesRegex(TypeError, "resolve_neg"):
            attile.gemm(a, b, out=torch._neg_view(torch.zeros(4, 2)))
        for mistake in (a.to(torch.int64), a.to_sparse()):
            with self.assertRaises((attile.AttileError, TypeError, BufferError, RuntimeError)):
                attile.gemm(mistake, b)

    @unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed")
    def test_arrays_of_jax(self):
        import jax

        self.check(jax.numpy.asarray)


class Outputs(unittest.TestCase):
    """The result is where the caller looks for it, or the call is refused and nothing is written."""

    def test_taken(self):
        for wrap in (lambda x: x, Dlpack, VersionedDlpack, CudaInterface):
            a, out = random(3, 4), np.full((3, 4), np.nan, np.float32)
            attile.softmax(a, out=wrap(out))
            self.assertTrue(np.abs(out.sum(-1) - 1).max() <= 1e-6)

    def test_refused(self):
        a = random(3, 4)
        for wrap, sentence in ((read_only, "out is read-only"), (lambda x: VersionedDlpack(x, flags=1), "out is read-only"),
                               (lambda x: VersionedDlpack(x, flags=2), "out gives a copy"), (lambda x: CudaInterface(x, read_only=True), "out is read-only"),
                               (ArrayMethod, "out gives a copy"), (lambda x: ArrayMethod(x, copies=False), "out gives a copy"),
                               (lambda x: of_module("jaxlib._jax", x), "out is immutable"), (lambda x: of_module("tensorflow.python.framework.ops", x), "out is immutable"),
                               (lambda x: np.broadcast_to(x, (3, 4)), "out is read-only"), (lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape), "out is read-only")):
            out = np.full((3, 4), 7, np.float32)
            for query in (False, True):
                with self.assertRaisesRegex(ValueError, sentence):
                    attile.softmax(a, out=wrap(out), query=query)
            self.assertTrue((out == 7).all())

    def test_every_output_of_every_operation(self):
        q, lse = random(1, 2, 3, 4), random(1, 2, 3)
        calls = {"gemm": (lambda **o: attile.gemm(q, q.swapaxes(2, 3), **o), {"out": (1, 2, 3, 3)}),
                 "attention": (lambda **o: attile.attention(q, q, q, **o), {"out": q.shape, "lse": lse.shape}),
                 "attention_backward": (lambda **o: attile.attention_backward(q, q, q, q, q, lse, **o), {"dq": q.shape, "dk": q.shape, "dv": q.shape}),
                 "attention_merge": (lambda **o: attile.attention_merge([q, q], [lse, lse], **o), {"out": q.shape, "lse": lse.shape}),
                 "attention_merge_backward": (lambda **o: attile.attention_merge_backward(q, [q], [lse], q.copy(), lse.copy(), **o), {}),
                 "reduce": (lambda **o: attile.reduce(q, "sum", **o), {"out": (1, 2, 3, 1)}),
                 "softmax": (lambda **o: attile.softmax(q, **o), {"out": q.shape})}
        for operation, (call, outputs) in calls.items():
            for name, shape in {**outputs, "workspace": (4096,)}.items():
                kept = np.full(shape, 7, np.uint8 if name == "workspace" else np.float32)
                with self.subTest(operation=operation, output=name), self.assertRaisesRegex(ValueError, f"^{name} gives a copy"):
                    call(**{name: ArrayMethod(kept)})
                self.assertTrue((kept == 7).all())

    def test_a_result_that_nobody_can_make(self):
        a = random(4, 4)
        with self.assertRaisesRegex(TypeError, "give `out`"):
            attile.gemm(CudaInterface(a), CudaInterface(a))

    @unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed")
    def test_arrays_of_jax_never_change(self):
        import jax

        out = jax.numpy.full((3, 4), 7.0)
        with self.assertRaisesRegex(ValueError, "out is immutable"):
            attile.softmax(random(3, 4), out=out)
        self.assertTrue((np.asarray(out) == 7).all())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Which stream the extension names for tensors on a GPU, and what it asks PyTorch for; needs neither. A stand-in for PyTorch says that its memory is a GPU's, and a
stand-in for the library writes down what it is called with. Runs alone in its process, since the extension keeps what it has learnt of PyTorch.
"""
import ctypes
import sys
import types
import unittest

import numpy as np

import attile
from attile import _extension, _library
from attile import _structs as s

STREAMS = {0: 0x1110, 1: 0x2220, 2: 0}
ASKED = []  # devices, in the order of the questions


class Described(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("stride", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class Exchange(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p), ("unused", ctypes.c_void_p * 3), ("describe", ctypes.c_void_p),
                ("current_stream", ctypes.c_void_p)]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Described))
def describe(tensor, into):
    into[0] = Described(tensor.array.ctypes.data, tensor.device_type, tensor.device, tensor.array.ndim, 2, 32, 1, ctypes.addressof(tensor.extents), None, 0)
    return 0


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def current_stream(device_type, device, stream):
    ASKED.append(device)
    stream[0] = STREAMS[device]
    return 0


TABLES = [Exchange(2, 0, None), Exchange(1, 3, None, (ctypes.c_void_p * 3)(), ctypes.cast(describe, ctypes.c_void_p), ctypes.cast(current_stream, ctypes.c_void_p))]
TABLES[0].older = ctypes.addressof(TABLES[1])  # a newer table, which names the one that is known
CAPSULE = b"dlpack_exchange_api"  # A capsule keeps the address of its name.
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Tensor:
    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(TABLES[0]), CAPSULE, None)
    requires_grad = False

    def __init__(self, array, device=0, device_type=s.DEVICE_CUDA):
        self.array, self.device, self.device_type = array, device, device_type
        self.extents = (ctypes.c_int64 * 4)(*array.shape)

    def is_neg(self):
        return False

    def is_inference(self):
        return False

    def new_empty(self, *shape, dtype=None):
        return Tensor(np.empty(shape, np.float32), self.device, self.device_type)


def stand_in_for_torch():
    torch = types.ModuleType("torch")
    forward_ad = types.SimpleNamespace(_current_level=-1)
    names = {name: name for name in ("float32", "float64", "float16", "bfloat16", "int32", "uint8", "bool", "strided", "contiguous_format")}
    vars(torch).update(names, Tensor=Tensor, nn=types.SimpleNamespace(Parameter=type("Parameter", (Tensor,), {})), version=types.SimpleNamespace(hip=None),
                       is_grad_enabled=lambda: True, empty_like=lambda tensor: tensor.new_empty(*tensor.array.shape),
                       autograd=types.SimpleNamespace(forward_ad=forward_ad, graph=types.SimpleNamespace(increment_version=mark)))
    return torch


WRITTEN, CALLS = [], []


def mark(tensors):
    WRITTEN.extend(tensors if isinstance(tensors, tuple) else [tensors])


def stand_in_for_the_library():
    """Functions that write down the head of what they are called with."""
    kept, addresses = [], {}
    for name in _library._FAST:
        arguments = [ctypes.c_void_p] * (3 if name.endswith("_query") else 2)
        pointers = s.PREPARED.get(name[len("attile_"):-len("_run")], s.SoftmaxArgs)

        def call(context, args, *_, name=name, kind=pointers):
            head = kind.from_address(args)
            CALLS.append((name, head.stream, head.workspace, head.workspace_bytes, head.flags))
            return 0

        kept.append(ctypes.CFUNCTYPE(ctypes.c_int32, *arguments)(call))
        addresses[name] = ctypes.cast(kept[-1], ctypes.c_void_p).value
    _extension.native.connect(addresses)
    return kept


@unittest.skipUnless(attile.compiled, "the extension is not there")
class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.context = attile.Context("reference")
        cls.plain = cls.context.prepare_gemm(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), out=np.empty((2, 2), np.float32))
        sys.modules["torch"] = stand_in_for_torch()
        cls.kept = stand_in_for_the_library()

    @classmethod
    def tearDownClass(cls):
        del sys.modules["torch"]

    def setUp(self):
        ASKED.clear(), WRITTEN.clear(), CALLS.clear()

    def tensor(self, *shape, device=0, **options):
        return Tensor(np.zeros(shape, np.float32), device, **options)

    def test_the_current_stream_is_asked_for_once(self):
        q = self.tensor(1, 2, 3, 4)
        self.context.attention(q, q, q, lse=True)
        self.context.gemm(q, q, out=q, query=True)
        self.assertEqual([call[:2] for call in CALLS], [("attile_attention", 0x1110), ("attile_gemm_query", 0x1110)])
        self.assertEqual(ASKED, [0, 0])

    def test_of_each_device_until_one_is_not_the_default(self):
        first, second, third = (self.tensor(3, 3, device=device) for device in (2, 1, 0))
        self.context.gemm(first, second, third, out=third)
        self.assertEqual((CALLS[0][1], ASKED), (0x2220, [2, 1]))

    def test_the_callers_own_stream_and_workspace(self):
        x, workspace = self.tensor(3, 3), self.tensor(64)
        self.context.softmax(x, stream=0x7770, workspace=workspace, flags=3)
        self.context.softmax(x, stream=0)
        self.assertEqual(CALLS, [("attile_softmax", 0x7770, workspace.array.ctypes.data, 256, 3), ("attile_softmax", None, None, 0, 0)])

    def test_host_memory_has_no_stream(self):
        x = self.tensor(3, 3, device_type=s.DEVICE_CPU)
        self.context.softmax(x)
        self.assertEqual((CALLS[0][1], ASKED), (None, []))

    def test_only_what_the_caller_gave_is_marked_as_written(self):
        x, out = self.tensor(3, 3), self.tensor(3, 3)
        self.context.softmax(x)
        self.assertEqual(WRITTEN, [])
        self.context.softmax(x, out=out)
        self.assertEqual(WRITTEN, [out])
        q, lse = self.tensor(1, 1, 3, 3), self.tensor(1, 1, 3)
        self.context.attention(q, q, q, out=out, lse=lse)
        self.assertEqual(WRITTEN, [out, out, lse])

    def test_a_prepared_call_goes_to_the_current_stream_of_its_launch(self):
        a, out = self.tensor(2, 2), self.tensor(2, 2)
        self.plain.run(a=a, out=out)
        self.plain.run(a=a)  # what was prepared is NumPy's and has none
        STREAMS[0], old = 0x3330, STREAMS[0]
        try:
            self.plain.run(out=out)
        finally:
            STREAMS[0] = old
        self.assertEqual([call[1] for call in CALLS], [0x1110, 0x1110, 0x3330])
        self.assertEqual(WRITTEN, [out, out])

    def test_a_prepared_call_keeps_an_array_to_ask(self):
        """`out` is in host memory, so a launch learns the current stream from an array that it was prepared with."""
        a, workspace = self.tensor(2, 2), self.tensor(64, device_type=s.DEVICE_CPU)
        prepared = self.context.prepare_gemm(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), out=np.empty((2, 2), np.float32))
        prepared._kept = (*prepared._kept[:2], workspace, a)  # As if prepared with them: the stand-in shows tensors to the extension alone.
        other = self.tensor(2, 2, device=1)
        STREAMS[0], old = 0x3330, STREAMS[0]
        try:
            prepared.run()
            prepared.run(stream=0)
            prepared.run(a=other, workspace=self.tensor(32))
        finally:
            STREAMS[0] = old
        self.assertEqual([call[1] for call in CALLS], [0x3330, None, 0x2220])
        self.assertEqual([call[3] for call in CALLS], [256, 256, 128])
        self.assertEqual(ASKED, [0, 1])

    def test_other_devices_are_left_to_python(self):
        with self.assertRaises(Exception):
            self.context.softmax(self.tensor(3, 3, device_type=7))
        self.assertEqual(CALLS, [])


if __name__ == "__main__":
    unittest.main()

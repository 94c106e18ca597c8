# SPDX-License-Identifier: Apache-2.0
"""The table of illegal arguments and the conformance list, which all languages share, through the Python package.

Both come from a shared object (ATTILE_BINDING_CASES) as argument structs; here they become arrays, and the package is called with these.
"""
import ctypes
import os
import unittest

import numpy as np

import attile
from attile import _structs as s
from attile._library import library

CASES = ctypes.CDLL(os.environ["ATTILE_BINDING_CASES"])
CASES.illegal_make.argtypes = [ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int32)]
CASES.illegal_make.restype = None
CASES.illegal_judge_text.argtypes = [ctypes.c_int32, ctypes.c_char_p]
CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
CASES.binding_conformance.argtypes = [CALL, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int32)]

OPERATIONS = ["gemm", "attention", "attention_backward", "attention_merge", "attention_merge_backward", "reduce", "softmax"]  # then sgemm, dgemm
NUMPY = {s.F32: np.float32, s.F64: np.float64, s.F16: np.float16, s.I32: np.int32, s.I8: np.int8, s.U8: np.uint8, s.BOOL: np.bool_}
ITEM = {s.F32: 4, s.F64: 8, s.F16: 2, s.BF16: 2, s.I32: 4, s.I8: 1, s.F8_E4M3: 1, s.F8_E5M2: 1, s.U8: 1, s.BOOL: 1}
NAMES = {which: {number: name for name, number in table.items()} for which, table in
         {"mask": s.MASKS, "activation": s.ACTIVATIONS, "bias_axis": s.BIAS_AXES, "op": s.REDUCTIONS}.items()}


class Inexpressible(Exception):
    """What a struct says and Python's arrays and names cannot."""


class _Managed(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Foreign:
    """NumPy has no bfloat16 and no floats of 8 bits, other libraries have: an array of theirs, by DLPack."""

    def __init__(self, tensor):
        self.managed = _Managed(tensor.data, 1, 0, tensor.rank, tensor.dtype >> 8, tensor.dtype & 0xFF, 1, ctypes.addressof(tensor) + s.Tensor.shape.offset, ctypes.addressof(tensor) + s.Tensor.stride.offset)
        self.keep = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, stream=None):
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


def array(tensor):
    """The tensor's own memory as an array; None if it is absent."""
    if not any(bytes(tensor)):
        return None
    if tensor.dtype not in ITEM or not 1 <= tensor.rank <= 4 or not tensor.data:
        raise Inexpressible
    item, shape, stride = ITEM[tensor.dtype], tuple(tensor.shape[:tensor.rank]), tuple(tensor.stride[:tensor.rank])
    reach = [(extent - 1) * step for extent, step in zip(shape, stride)] if all(shape) else []
    first, last = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    if min(shape) < 0 or max(shape) >= 1 << 31 or last - first >= 1 << 31 or tensor.data % item:
        raise Inexpressible
    if tensor.dtype not in NUMPY:
        return Foreign(tensor)
    memory = (ctypes.c_char * ((last - first + 1) * item if all(shape) else 1)).from_address(tensor.data + first * item)
    return np.ndarray(shape, NUMPY[tensor.dtype], memory, -first * item, tuple(step * item for step in stride))


def output(tensor):
    """The same of an output that the package would make itself if it were None."""
    found = array(tensor)
    if found is None:
        raise Inexpressible
    return found


def head(args, kind):
    """Whether the parts of a struct that Python's caller does not see are as the package fills them; returns the options all calls have."""
    if args.struct_size != ctypes.sizeof(kind) or args.next or getattr(args, "reserved", 0) or args.stream:
        raise Inexpressible
    if args.workspace_bytes < 0 or bool(args.workspace) != (args.workspace_bytes > 0):
        raise Inexpressible
    workspace = np.frombuffer((ctypes.c_char * args.workspace_bytes).from_address(args.workspace), np.uint8) if args.workspace else None
    return {"flags": args.flags, "workspace": workspace}


def name(which, number):
    if number not in NAMES[which]:
        raise Inexpressible
    return NAMES[which][number]


def forward_options(a):
    options = {field: array(getattr(a, field)) for field in ("bias", "allowed", "alibi_slopes", "sinks", "key_lengths", "cu_len_q", "cu_len_k", "key_starts", "causal_offset", "block_mask",
                                                                  "tree_mask")}
    return dict(options, scale=a.scale, softcap=a.softcap, mask=name("mask", a.mask), window=(a.window_left, a.window_right), max_len_q=a.max_len_q, max_len_k=a.max_len_k)


def call_typed(context, operation, pointer):
    """The call that a struct describes, through the package."""
    kind = s.OPERATIONS[operation]
    a = kind.from_address(pointer)
    options = head(a, kind)
    if operation == "gemm":
        if a.bias_axis == 0 and a.bias.dtype:  # columns is Python's default
            raise Inexpressible
        context.gemm(array(a.a), array(a.b), array(a.c), out=output(a.d), alpha=a.alpha, beta=a.beta, bias=array(a.bias), bias_axis=name("bias_axis", a.bias_axis),
                     activation=name("activation", a.activation), a_scale=array(a.a_scale), b_scale=array(a.b_scale), b_zero=array(a.b_zero),
                     d_scale=array(a.d_scale), **options)
    elif operation == "attention":
        context.attention(array(a.q), array(a.k), array(a.v), out=output(a.o), lse=array(a.lse), block_table=array(a.block_table), k_scale=array(a.k_scale), v_scale=array(a.v_scale),
                          q_scale=array(a.q_scale), o_scale=array(a.o_scale), **forward_options(a), **options)
    elif operation == "attention_backward":
        if not a.forward:
            raise Inexpressible
        f = a.forward.contents
        if head(f, s.AttentionArgs) != {"flags": 0, "workspace": None} or f.block_table.dtype or f.q_scale.dtype or f.k_scale.dtype or f.v_scale.dtype or f.o_scale.dtype:
            raise Inexpressible
        gradients = {field: (output if field in ("dq", "dk", "dv") else array)(getattr(a, field)) for field in ("dq", "dk", "dv", "dbias", "dsinks", "dlse")}
        context.attention_backward(array(a.dout), array(f.q), array(f.k), array(f.v), array(f.o), array(f.lse), **gradients, **forward_options(f), **options)
    elif operation == "attention_merge":
        if not 0 < a.parts < 100 or not a.o_parts or not a.lse_parts:
            raise Inexpressible
        parts = [[array(table[i]) for i in range(a.parts)] for table in (a.o_parts, a.lse_parts)]
        context.attention_merge(*parts, out=output(a.o), lse=array(a.lse), **options)
    elif operation == "attention_merge_backward":
        if not a.forward or not a.do_parts or not a.dlse_parts:
            raise Inexpressible
        f = a.forward.contents
        if head(f, s.AttentionMergeArgs) != {"flags": 0, "workspace": None} or not 0 < f.parts < 100 or not f.o_parts or not f.lse_parts:
            raise Inexpressible
        parts, gradients = ([[convert(table[i]) for i in range(f.parts)] for table in tables]
                            for tables, convert in (((f.o_parts, f.lse_parts), array), ((a.do_parts, a.dlse_parts), output)))
        context.attention_merge_backward(array(a.dout), *parts, array(f.o), array(f.lse), dlse=array(a.dlse), do_parts=gradients[0], dlse_parts=gradients[1], **options)
    elif operation == "reduce":
        context.reduce(array(a.x), name("op", a.op), a.axis, out=output(a.y), **options)
    else:
        context.softmax(array(a.x), a.axis, out=output(a.y), **options)


class Blas(ctypes.Structure):  # as call_arguments.h has them
    _fields_ = [(field, ctypes.c_int32) for field in ("order", "transa", "transb")] + [(field, ctypes.c_int64) for field in ("m", "n", "k", "lda", "ldb", "ldc")] + [
        (field, ctypes.c_double) for field in ("alpha", "beta")] + [(field, ctypes.c_void_p) for field in "abc"]


def call_raw(handle, operation, pointer):
    if operation < len(OPERATIONS):
        kind = s.OPERATIONS[OPERATIONS[operation]]
        return getattr(library(), f"attile_{OPERATIONS[operation]}")(handle, ctypes.cast(pointer, ctypes.POINTER(kind)))
    x = Blas.from_address(pointer)
    function, real = (library().attile_sgemm, ctypes.c_float) if operation == len(OPERATIONS) else (library().attile_dgemm, ctypes.c_double)
    a, b, c = (ctypes.cast(p, ctypes.POINTER(real)) for p in (x.a, x.b, x.c))
    return function(handle, x.order, x.transa, x.transb, x.m, x.n, x.k, x.alpha, a, x.lda, b, x.ldb, x.beta, c, x.ldc)


class SharedCases(unittest.TestCase):
    def test_every_illegal_argument_is_refused_as_the_table_says(self):
        operation, pointer, null_context = ctypes.c_int32(), ctypes.c_void_p(), ctypes.c_int32()
        wrong = typed = own = 0
        with attile.Context("reference") as context:
            for index in range(CASES.illegal_count()):
                CASES.illegal_make(index, operation, pointer, null_context)
                handle = None if null_context.value else context._handle
                wrong += not CASES.illegal_judge(call_raw(handle, operation.value, pointer.value))
                if null_context.value or not pointer.value or operation.value >= len(OPERATIONS):
                    continue
                try:
                    call_typed(context, OPERATIONS[operation.value], pointer.value)
                    status, text = 0, ""
                except Inexpressible:
                    continue
                except attile.AttileError as error:
                    status, text = error.status, error.message
                except (TypeError, ValueError, AttributeError):
                    own += 1
                    continue
                typed += 1
                wrong += not CASES.illegal_judge_text(status, text.encode())
        print(f"{CASES.illegal_count()} illegal calls of the raw layer, {typed} of the typed one, {own} refused by the package itself")
        self.assertEqual(wrong, 0)
        self.assertGreater(CASES.illegal_count(), 600)
        self.assertGreater(typed, 300)

    def test_the_conformance_list(self):
        calls, faults = [0, 0], []
        with attile.Context("reference") as context:
            def call(operation, pointer):
                try:
                    call_typed(context, OPERATIONS[operation], pointer)
                    calls[0] += 1
                    return 0
                except Inexpressible:
                    calls[1] += 1
                    return call_raw(context._handle, operation, pointer)
                except attile.AttileError as error:
                    return error.status
                except Exception as error:  # nothing may pass through C
                    faults.append(repr(error))
                    return 9000
            passed = ctypes.c_int32()
            failed = CASES.binding_conformance(CALL(call), os.environ.get("ATTILE_CASE", "").encode(), passed)
        print(f"{passed.value} passed, {failed} failed; {calls[0]} calls by arrays, {calls[1]} by argument structs")
        self.assertEqual(faults, [])
        self.assertEqual(failed, 0)
        self.assertGreater(calls[0], calls[1])


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The few structs of attile.h that the oracle test needs, typed in by hand from the header and independent of every binding."""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import numpy as np

F32, F64, F16, BF16, I32, I64, U8 = 0x0220, 0x0240, 0x0210, 0x0410, 0x0020, 0x0040, 0x0108
I8, E4M3, E5M2, I4, U4 = 0x0008, 0x0A08, 0x0C08, 0x0004, 0x0104
CODES = {np.dtype(np.float32): F32, np.dtype(np.float64): F64, np.dtype(np.float16): F16, np.dtype(np.uint16): BF16, np.dtype(np.int32): I32, np.dtype(np.int64): I64, np.dtype(np.int8): I8,
         np.dtype(np.uint8): U8, np.dtype(np.bool_): U8}


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("rank", c_int32), ("shape", c_int64 * 4), ("stride", c_int64 * 4)]


_HEAD = [("struct_size", c_uint32), ("flags", c_uint32), ("next", c_void_p)]
_LAUNCH = _HEAD + [("stream", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_int64)]


class ContextOptions(Structure):
    _fields_ = _HEAD + [("backend", c_char_p), ("threads", c_int32), ("reserved", c_int32), ("pool_bytes", c_int64)]


class GemmArgs(Structure):
    _fields_ = _LAUNCH + [("a", Tensor), ("b", Tensor), ("c", Tensor), ("d", Tensor), ("alpha", c_double), ("beta", c_double), ("bias", Tensor),
                          ("bias_axis", c_int32), ("activation", c_int32), ("a_scale", Tensor), ("b_scale", Tensor), ("b_zero", Tensor), ("d_scale", Tensor)]


class AttentionArgs(Structure):
    _fields_ = _LAUNCH + [("q", Tensor), ("k", Tensor), ("v", Tensor), ("o", Tensor), ("lse", Tensor), ("scale", c_double), ("softcap", c_double),
                          ("mask", c_int32), ("reserved", c_int32), ("window_left", c_int64), ("window_right", c_int64), ("bias", Tensor),
                          ("allowed", Tensor), ("alibi_slopes", Tensor), ("sinks", Tensor), ("key_lengths", Tensor), ("cu_len_q", Tensor),
                          ("cu_len_k", Tensor), ("max_len_q", c_int64), ("max_len_k", c_int64), ("block_table", Tensor), ("key_starts", Tensor),
                          ("causal_offset", Tensor), ("block_mask", Tensor), ("tree_mask", Tensor), ("k_scale", Tensor), ("v_scale", Tensor), ("q_scale", Tensor),
                          ("o_scale", Tensor)]


class BackwardArgs(Structure):
    _fields_ = _LAUNCH + [("forward", POINTER(AttentionArgs)), ("dout", Tensor), ("dq", Tensor), ("dk", Tensor), ("dv", Tensor), ("dbias", Tensor),
                          ("dsinks", Tensor), ("dlse", Tensor)]


class MergeArgs(Structure):
    _fields_ = _LAUNCH + [("o_parts", POINTER(Tensor)), ("lse_parts", POINTER(Tensor)), ("parts", c_int64), ("o", Tensor), ("lse", Tensor)]


class ReduceArgs(Structure):
    _fields_ = _LAUNCH + [("x", Tensor), ("y", Tensor), ("op", c_int32), ("axis", c_int32)]


class SoftmaxArgs(Structure):
    _fields_ = _LAUNCH + [("x", Tensor), ("y", Tensor), ("axis", c_int32), ("reserved", c_int32)]


class QuantizeArgs(Structure):
    _fields_ = _LAUNCH + [("x", Tensor), ("q", Tensor), ("scale", Tensor), ("scale_mode", c_int32), ("hadamard", c_int32), ("zero", Tensor),
                          ("rope_cos", Tensor), ("rope_sin", Tensor), ("positions", Tensor), ("key_lengths", Tensor), ("block_table", Tensor),
                          ("rope_layout", c_int32), ("append", c_int32)]


class RepackArgs(Structure):
    _fields_ = _LAUNCH + [("blocks", Tensor), ("q", Tensor), ("scale", Tensor), ("zero", Tensor), ("format", c_int32), ("reserved", c_int32)]


class DequantizeArgs(Structure):
    _fields_ = _LAUNCH + [("q", Tensor), ("scale", Tensor), ("x", Tensor), ("hadamard", c_int32), ("reserved", c_int32), ("zero", Tensor)]


def tensor(array):
    """Describe a NumPy array as it lies; uint16 stands for bfloat16. None is an absent tensor."""
    t = Tensor()
    if array is None:
        return t
    t.data, t.dtype, t.rank = array.ctypes.data, CODES[array.dtype], array.ndim
    for axis in range(array.ndim):
        t.shape[axis] = array.shape[axis]
        t.stride[axis] = array.strides[axis] // array.itemsize
    return t


def four_bits(numbers, dtype, axis):
    """Integers, two neighbours along an axis in a byte, as they lie in memory with that axis last; their tensor, whose axes are those of `numbers`, and the array to keep."""
    moved = np.moveaxis(numbers, axis, -1).astype(np.int64) & 15
    packed = np.ascontiguousarray((moved[..., 0::2] | moved[..., 1::2] << 4).astype(np.uint8))
    t = tensor(np.moveaxis(packed, -1, axis))
    t.dtype = dtype
    for i in range(t.rank):
        if t.stride[i] == 1 and t.shape[i] * 2 == numbers.shape[i]:
            t.shape[i] *= 2
        else:
            t.stride[i] *= 2
    return t, packed


class Library:
    def __init__(self, path=None, backend="reference"):
        self.lib = ctypes.CDLL(path or os.environ["ATTILE_LIBRARY"])
        self.lib.attile_last_error.restype = c_int64
        self.lib.attile_status_name.restype = c_char_p
        options = ContextOptions()
        self.lib.attile_context_options_init(byref(options), c_uint64(ctypes.sizeof(options)))
        options.backend = backend.encode()
        self.context = c_void_p()
        self.check(self.lib.attile_context_create(byref(options), byref(self.context)))

    def close(self):
        self.lib.attile_context_destroy(self.context)

    def check(self, status):
        if status != 0:
            text = (c_char * 1024)()
            self.lib.attile_last_error(text, c_int64(1024))
            raise RuntimeError(f"{self.lib.attile_status_name(status).decode()}: {text.value.decode()}")

    def args(self, kind, name, **fields):
        value = kind()
        getattr(self.lib, f"attile_{name}_init")(byref(value), c_uint64(ctypes.sizeof(value)))
        for field, content in fields.items():
            setattr(value, field, tensor(content) if content is None or isinstance(content, np.ndarray) else content)
        return value

    def run(self, name, args):
        self.check(getattr(self.lib, f"attile_{name}")(self.context, byref(args)))

# SPDX-License-Identifier: Apache-2.0
"""The structs and constants of attile.h. Field names, order and types are those of the header; the tests compare sizes and offsets."""
from __future__ import annotations

import ctypes
from ctypes import c_char, c_double, c_int32, c_int64, c_uint32, c_void_p
from typing import Any, Literal, Optional

F32, F64, F16, BF16, I32, U8, BOOL = 0x0220, 0x0240, 0x0210, 0x0410, 0x0020, 0x0108, 0x0608
DEVICE_CPU, DEVICE_CUDA, DEVICE_ROCM = 1, 2, 10
MEMORY_HOST, MEMORY_PINNED, MEMORY_MANAGED, MEMORY_DEVICE = 0, 1, 2, 3
FLAG_BATCH_INVARIANT, FLAG_NO_ALLOC, FLAG_ALLOW_SPLIT_TF32, FLAG_ALLOW_NONDETERMINISTIC = 1, 2, 4, 8
SUPPORT_NONE, SUPPORT_EMULATED, SUPPORT_NATIVE = 0, 1, 2

Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]
BiasAxis = Literal["columns", "rows"]
Mask = Literal["none", "causal_top_left", "causal_bottom_right", "window_top_left", "window_bottom_right"]
Reduction = Literal["sum", "max", "min", "mean"]

ACTIVATIONS: dict[Optional[Activation], int] = {None: 0, "none": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
BIAS_AXES: dict[Optional[BiasAxis], int] = {None: 0, "columns": 1, "rows": 2}
MASKS: dict[Optional[Mask], int] = {None: 0, "none": 0, "causal_top_left": 1, "causal_bottom_right": 2, "window_top_left": 3, "window_bottom_right": 4}
REDUCTIONS: dict[Reduction, int] = {"sum": 1, "max": 2, "min": 3, "mean": 4}


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("rank", c_int32), ("shape", c_int64 * 4), ("stride", c_int64 * 4)]


_HEAD: Any = [("struct_size", c_uint32), ("flags", c_uint32), ("next", c_void_p)]
_LAUNCH: Any = _HEAD + [("stream", c_void_p), ("workspace", c_void_p), ("workspace_bytes", c_int64)]


class _Sized(ctypes.Structure):
    """Stamps its size when made; everything else starts as zero."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.struct_size = ctypes.sizeof(self)


class ContextOptions(_Sized):
    _fields_ = _HEAD + [("backend", ctypes.c_char_p), ("threads", c_int32), ("reserved", c_int32), ("pool_bytes", c_int64)]


class ContextInfo(_Sized):
    _fields_ = (
        _HEAD
        + [("backend", c_char * 32), ("backend_version", c_char * 32), ("device_name", c_char * 128), ("arch", c_char * 64)]
        + [(name, c_int32) for name in ("device_type", "device_index", "compute_units", "threads", "lane_width", "max_threads_per_unit",
                                        "max_blocks_per_unit", "registers_per_unit")]
        + [(name, c_int64) for name in ("memory_total", "memory_free", "shared_per_block", "shared_per_unit", "l2_bytes")]
        + [(name, c_double) for name in ("clock_hz", "peak_flops_f32", "peak_flops_f64", "peak_flops_f16", "peak_bandwidth")]
    )


class Support(_Sized):
    _fields_ = (
        _HEAD
        + [("level", c_int32), ("status", c_int32), ("workspace_bytes", c_int64), ("kernel", c_char * 96), ("text", c_char * 256)]
        + [("flops", c_double), ("bytes", c_double)]
        + [(name, c_int32) for name in ("tile_m", "tile_n", "tile_k", "threads", "registers", "shared_bytes", "blocks_per_unit", "splits")]
        + [("blocks", c_int64), ("predicted_share", c_double)]
    )


class GemmArgs(_Sized):
    _fields_ = _LAUNCH + [("a", Tensor), ("b", Tensor), ("c", Tensor), ("d", Tensor), ("alpha", c_double), ("beta", c_double), ("bias", Tensor),
                          ("bias_axis", c_int32), ("activation", c_int32)]


class AttentionArgs(_Sized):
    _fields_ = (
        _LAUNCH
        + [(name, Tensor) for name in ("q", "k", "v", "o", "lse")]
        + [("scale", c_double), ("softcap", c_double), ("mask", c_int32), ("reserved", c_int32), ("window_left", c_int64), ("window_right", c_int64)]
        + [(name, Tensor) for name in ("bias", "allowed", "alibi_slopes", "sinks", "key_lengths", "cu_len_q", "cu_len_k")]
        + [("max_len_q", c_int64), ("max_len_k", c_int64), ("block_table", Tensor)]
    )


class GemmPointers(_Sized):
    _fields_ = _LAUNCH + [(name, c_void_p) for name in ("a", "b", "c", "d", "bias")]


class AttentionPointers(_Sized):
    _fields_ = _LAUNCH + [(name, c_void_p) for name in ("q", "k", "v", "o", "lse", "bias", "allowed", "alibi_slopes", "sinks", "key_lengths",
                                                        "cu_len_q", "cu_len_k", "block_table")]


class AttentionBackwardArgs(_Sized):
    _fields_ = _LAUNCH + [("forward", ctypes.POINTER(AttentionArgs))] + [(name, Tensor) for name in ("dout", "dq", "dk", "dv", "dbias", "dsinks")]


class AttentionMergeArgs(_Sized):
    _fields_ = _LAUNCH + [("o_parts", ctypes.POINTER(Tensor)), ("lse_parts", ctypes.POINTER(Tensor)), ("parts", c_int64), ("o", Tensor), ("lse", Tensor)]


class ReduceArgs(_Sized):
    _fields_ = _LAUNCH + [("x", Tensor), ("y", Tensor), ("op", c_int32), ("axis", c_int32)]


class SoftmaxArgs(_Sized):
    _fields_ = _LAUNCH + [("x", Tensor), ("y", Tensor), ("axis", c_int32), ("reserved", c_int32)]


OPERATIONS = {
    "gemm": GemmArgs,
    "attention": AttentionArgs,
    "attention_backward": AttentionBackwardArgs,
    "attention_merge": AttentionMergeArgs,
    "reduce": ReduceArgs,
    "softmax": SoftmaxArgs,
}

PREPARED = {"gemm": GemmPointers, "attention": AttentionPointers}

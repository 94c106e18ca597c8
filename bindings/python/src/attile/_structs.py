# SPDX-License-Identifier: Apache-2.0
"""The structs and constants of attile.h and attile_distributed.h. Field names, order and types are those of the header; the tests compare sizes and offsets."""
from __future__ import annotations

import ctypes
from ctypes import c_char, c_double, c_int32, c_int64, c_uint32, c_void_p
from typing import Any, Literal, Optional

F32, F64, F16, BF16, I32, I64, U8, BOOL = 0x0220, 0x0240, 0x0210, 0x0410, 0x0020, 0x0040, 0x0108, 0x0608
I8, F8_E4M3, F8_E5M2, I4, U4 = 0x0008, 0x0A08, 0x0C08, 0x0004, 0x0104
DEVICE_CPU, DEVICE_CUDA, DEVICE_ROCM = 1, 2, 10
MEMORY_HOST, MEMORY_PINNED, MEMORY_MANAGED, MEMORY_DEVICE = 0, 1, 2, 3
FLAG_BATCH_INVARIANT, FLAG_NO_ALLOC, FLAG_ALLOW_SPLIT_TF32, FLAG_ALLOW_NONDETERMINISTIC, FLAG_EXACT_PRODUCTS = 1, 2, 4, 8, 16
FLAG_FAST_ACCUMULATION = 32
SUPPORT_NONE, SUPPORT_EMULATED, SUPPORT_NATIVE = 0, 1, 2

Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]
BiasAxis = Literal["columns", "rows"]
Mask = Literal["none", "causal_top_left", "causal_bottom_right", "window_top_left", "window_bottom_right"]
Reduction = Literal["sum", "max", "min", "mean"]
Shards = Literal["contiguous", "zigzag", "striped"]
Method = Literal["auto", "ring", "all_gather", "all_to_all", "tree"]
GemmMethod = Literal["auto", "stationary_a", "stationary_b", "stationary_c"]
GridOrder = Literal["rows", "columns"]

ACTIVATIONS: dict[Optional[Activation], int] = {None: 0, "none": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
BIAS_AXES: dict[Optional[BiasAxis], int] = {None: 0, "columns": 1, "rows": 2}
MASKS: dict[Optional[Mask], int] = {None: 0, "none": 0, "causal_top_left": 1, "causal_bottom_right": 2, "window_top_left": 3, "window_bottom_right": 4}
REDUCTIONS: dict[Reduction, int] = {"sum": 1, "max": 2, "min": 3, "mean": 4}
SHARDS: dict[Shards, int] = {"contiguous": 0, "zigzag": 1, "striped": 2}
METHODS: dict[Method, int] = {"auto": 0, "ring": 1, "all_gather": 2, "all_to_all": 3, "tree": 5}
GEMM_METHODS: dict[GemmMethod, int] = {"auto": 0, "stationary_a": 6, "stationary_b": 7, "stationary_c": 8}
METHOD_NAMES = {**{number: str(name) for name, number in METHODS.items()}, **{number: str(name) for name, number in GEMM_METHODS.items()}, 4: "local"}  # The answers of a query.
GRID_ORDERS: dict[GridOrder, int] = {"rows": 0, "columns": 1}
NO_TRANS, TRANS = 111, 112
REPLICATED = -1
ROWS_SHARDED, ROWS_REPLICATED = 0, 1
ERROR_RANK_LATE, ERROR_TRANSPORT = 6004, 6005


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
                          ("bias_axis", c_int32), ("activation", c_int32), ("a_scale", Tensor), ("b_scale", Tensor), ("b_zero", Tensor), ("d_scale", Tensor)]


class GemmGroupedArgs(_Sized):
    _fields_ = _LAUNCH + [("a", Tensor), ("b", Tensor), ("c", Tensor), ("d", Tensor), ("alpha", c_double), ("beta", c_double), ("row_offsets", Tensor), ("bias", Tensor),
                          ("activation", c_int32), ("reserved", c_int32), ("b_scale", Tensor), ("b_zero", Tensor)]


class AttentionArgs(_Sized):
    _fields_ = (
        _LAUNCH
        + [(name, Tensor) for name in ("q", "k", "v", "o", "lse")]
        + [("scale", c_double), ("softcap", c_double), ("mask", c_int32), ("reserved", c_int32), ("window_left", c_int64), ("window_right", c_int64)]
        + [(name, Tensor) for name in ("bias", "allowed", "alibi_slopes", "sinks", "key_lengths", "cu_len_q", "cu_len_k")]
        + [("max_len_q", c_int64), ("max_len_k", c_int64), ("block_table", Tensor), ("key_starts", Tensor), ("causal_offset", Tensor),
           ("block_mask", Tensor), ("tree_mask", Tensor), ("k_scale", Tensor), ("v_scale", Tensor), ("q_scale", Tensor), ("o_scale", Tensor)]
    )


class GemmPointers(_Sized):
    _fields_ = _LAUNCH + [(name, c_void_p) for name in ("a", "b", "c", "d", "bias", "a_scale", "b_scale", "b_zero", "d_scale")]


class AttentionPointers(_Sized):
    _fields_ = _LAUNCH + [(name, c_void_p) for name in ("q", "k", "v", "o", "lse", "bias", "allowed", "alibi_slopes", "sinks", "key_lengths",
                                                        "cu_len_q", "cu_len_k", "block_table", "key_starts", "causal_offset",
                                                        "block_mask", "tree_mask", "k_scale", "v_scale", "q_scale", "o_scale")]


class AttentionBackwardArgs(_Sized):
    _fields_ = _LAUNCH + [("forward", ctypes.POINTER(AttentionArgs))] + [(name, Tensor) for name in ("dout", "dq", "dk", "dv", "dbias", "dsinks", "dlse")]


class AttentionMergeArgs(_Sized):
    _fields_ = _LAUNCH + [("o_parts", ctypes.POINTER(Tensor)), ("lse_parts", ctypes.POINTER(Tensor)), ("parts", c_int64), ("o", Tensor), ("lse", Tensor)]


class AttentionMergeBackwardArgs(_Sized):
    _fields_ = _LAUNCH + [("forward", ctypes.POINTER(AttentionMergeArgs)), ("dout", Tensor), ("dlse", Tensor), ("do_parts", ctypes.POINTER(Tensor)),
                          ("dlse_parts", ctypes.POINTER(Tensor))]


class ReduceArgs(_Sized):
    _fields_ = _LAUNCH + [("x", Tensor), ("y", Tensor), ("op", c_int32), ("axis", c_int32)]


class SoftmaxArgs(_Sized):
    _fields_ = _LAUNCH + [("x", Tensor), ("y", Tensor), ("axis", c_int32), ("reserved", c_int32)]


class QuantizeArgs(_Sized):
    _fields_ = _LAUNCH + [("x", Tensor), ("q", Tensor), ("scale", Tensor), ("scale_mode", c_int32), ("hadamard", c_int32), ("zero", Tensor),
                          ("rope_cos", Tensor), ("rope_sin", Tensor), ("positions", Tensor), ("key_lengths", Tensor), ("block_table", Tensor),
                          ("rope_layout", c_int32), ("append", c_int32)]


class RepackArgs(_Sized):
    _fields_ = _LAUNCH + [("blocks", Tensor), ("q", Tensor), ("scale", Tensor), ("zero", Tensor), ("format", c_int32), ("reserved", c_int32)]


class DequantizeArgs(_Sized):
    _fields_ = _LAUNCH + [("q", Tensor), ("scale", Tensor), ("x", Tensor), ("hadamard", c_int32), ("reserved", c_int32), ("zero", Tensor)]


GGML_FORMATS = {"Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14}

OPERATIONS = {
    "gemm": GemmArgs,
    "attention": AttentionArgs,
    "attention_backward": AttentionBackwardArgs,
    "attention_merge": AttentionMergeArgs,
    "attention_merge_backward": AttentionMergeBackwardArgs,
    "reduce": ReduceArgs,
    "softmax": SoftmaxArgs,
    "quantize": QuantizeArgs,
    "dequantize": DequantizeArgs,
    "gemm_grouped": GemmGroupedArgs,
    "repack": RepackArgs,
}

NOT_COMPILED = {"attention_merge_backward", "quantize", "dequantize", "gemm_grouped", "repack"}  # operations that the extension leaves to Python

PREPARED = {"gemm": GemmPointers, "attention": AttentionPointers}

SEND_FUNCTION = RECEIVE_FUNCTION = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64, c_int32, ctypes.POINTER(c_void_p))
WAIT_FUNCTION = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_double)
GIVE_UP_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int32, ctypes.c_char_p)


class CommCallbacks(_Sized):
    _fields_ = _HEAD + [("user", c_void_p), ("send", SEND_FUNCTION), ("receive", RECEIVE_FUNCTION), ("wait", WAIT_FUNCTION), ("all_gather", c_void_p),
                        ("all_to_all", c_void_p), ("give_up", GIVE_UP_FUNCTION)]


class CommOptions(_Sized):
    _fields_ = _HEAD + [("kind", ctypes.c_char_p), ("rank", c_int32), ("ranks", c_int32), ("group", c_int64), ("callbacks", ctypes.POINTER(CommCallbacks)),
                        ("timeout_seconds", c_double), ("communicator", c_int64)]


class CommInfo(_Sized):
    _fields_ = _HEAD + [("kind", c_char * 32), ("rank", c_int32), ("ranks", c_int32), ("timeout_seconds", c_double), ("calls", c_int64), ("status", c_int32),
                        ("reserved", c_int32), ("text", c_char * 256), ("transport_seconds", c_double)]


class AttentionDistributedArgs(_Sized):
    _fields_ = _HEAD + [("local", ctypes.POINTER(AttentionArgs)), ("layout", c_int32), ("method", c_int32), ("len_q", c_int64), ("len_k", c_int64), ("rows", c_int32),
                        ("reserved", c_int32)]


class AttentionBackwardDistributedArgs(_Sized):
    _fields_ = _HEAD + [("local", ctypes.POINTER(AttentionBackwardArgs)), ("layout", c_int32), ("method", c_int32), ("len_q", c_int64), ("len_k", c_int64)]


class Grid(_Sized):
    _fields_ = _HEAD + [("rows", c_int32), ("columns", c_int32), ("order", c_int32), ("reserved", c_int32)]


class DistributedMatrix(_Sized):
    _fields_ = (
        _HEAD
        + [("grid", ctypes.POINTER(Grid))]
        + [(name, c_int64) for name in ("rows", "columns", "block_rows", "block_columns")]
        + [("source_row", c_int32), ("source_column", c_int32), ("row", c_int64), ("column", c_int64), ("local", Tensor)]
    )


class GemmDistributedArgs(_Sized):
    _fields_ = (
        _HEAD
        + [("stream", c_void_p), ("transa", c_int32), ("transb", c_int32), ("m", c_int64), ("n", c_int64), ("k", c_int64)]
        + [(name, ctypes.POINTER(DistributedMatrix)) for name in ("a", "b", "d")]
        + [("c", Tensor), ("alpha", c_double), ("beta", c_double), ("bias", Tensor), ("bias_axis", c_int32), ("activation", c_int32), ("method", c_int32),
           ("reserved", c_int32), ("panel", c_int64)]
    )


class DistributedSupport(_Sized):
    _fields_ = _HEAD + [("level", c_int32), ("status", c_int32), ("method", c_int32), ("reserved", c_int32), ("kernel", c_char * 96), ("text", c_char * 256),
                        ("bytes_sent", c_int64), ("flops", c_double)]


DISTRIBUTED = {"attention": AttentionDistributedArgs, "attention_backward": AttentionBackwardDistributedArgs, "gemm": GemmDistributedArgs}

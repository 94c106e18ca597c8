# SPDX-License-Identifier: Apache-2.0
"""Calls of the package on PyTorch's tensors: on a context of their device, with a workspace of PyTorch's where a CUDA graph is captured."""
# mypy: disable-error-code="import"
from __future__ import annotations

import functools
from typing import Any, Callable, Optional, cast

import torch
from torch import Tensor

import attile

from . import _structs as s
from ._context import in_forked_children


@functools.lru_cache(maxsize=None)
def default_gpu() -> int:
    """The number of the GPU that the default context computes on, or -1: no other backend reads the memory of a GPU."""
    info = attile.default_context().info
    return info.device_index if info.device_type == s.DEVICE_CUDA else -1


@functools.lru_cache(maxsize=None)
def _context_of(gpu: int) -> attile.Context:
    """A context of another GPU than the default context's, opened at its first tensor and kept."""
    return attile.Context(f"{attile.default_context().info.backend}:{gpu}")


in_forked_children(default_gpu.cache_clear)
in_forked_children(_context_of.cache_clear)


def _operation(name: str, of: Tensor) -> Any:
    """The function of that name for the device of a tensor: the package's, on the default context, if that is the device or the tensor is in host memory."""
    if not of.is_cuda or default_gpu() in (-1, of.get_device()):
        return getattr(attile, name)
    return getattr(_context_of(of.get_device()), name)


_NAMES = {"gemm": ("a", "b"), "attention": ("q", "k", "v"), "attention_backward": ("dout", "q", "k", "v", "out", "lse")}


def _check_devices(operation: str, arrays: tuple[Tensor, ...], options: dict[str, Any]) -> None:
    """All tensors must be on one device, as PyTorch's own operators demand."""
    names, device = _NAMES[operation], arrays[0].device
    for name, x in (*zip(names, arrays), *options.items()):
        if isinstance(x, Tensor) and x.device != device:
            raise ValueError(f"{name} is on {x.device} and {names[0]} on {device}; all tensors are expected on one device")


def call(name: str, *arrays: Tensor, **options: Any) -> Any:
    """run() on tensors that anybody has given."""
    _check_devices(name, arrays, options)
    return run(name, *arrays, **options)


def run(name: str, *arrays: Tensor, flags: int = 0, **options: Any) -> Any:
    """The package's call, on tensors of one device. What is captured into a CUDA graph has a workspace of PyTorch's, which the graph keeps, and not one of the pool that other calls use meanwhile."""
    operation = _operation(name, arrays[0])
    if arrays[0].is_cuda and torch.cuda.is_current_stream_capturing():
        flags |= attile.FLAG_NO_ALLOC
        size = operation(*arrays, flags=flags, **options, query=True).workspace_bytes
        if size:
            options["workspace"] = arrays[0].new_empty(size, dtype=torch.uint8)
    return operation(*arrays, flags=flags, **options)


def empty_out(q: Tensor, v: Tensor, dtype: Optional[torch.dtype] = None) -> Tensor:
    """A result of attention, [B, H, L, Dv], that lies in memory as [B, L, H, Dv], as PyTorch's own does: the projection that comes next needs no copy."""
    (batch, heads, rows, _), width = q.shape, v.shape[3]
    return q.new_empty_strided((batch, heads, rows, width), (rows * heads * width, width, heads * width, 1), dtype=dtype)


def empty_as(like: Optional[Tensor]) -> Tensor:
    """A dense tensor of that shape and type."""
    return cast(Tensor, like).new_empty(cast(Tensor, like).shape)


TENSORS = ("bias", "allowed", "alibi_slopes", "sinks", "key_lengths", "cu_len_q", "cu_len_k", "key_starts", "causal_offset", "block_mask", "tree_mask")
"""Optional tensors of attention, as operators take them: in this order, since PyTorch has no gradient of one that is given by name alone."""


def attention_backward(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *tensors: Optional[Tensor], with_dbias: bool = False,
                       with_dsinks: bool = False, make: Callable[[Tensor], Tensor] = empty_as, **options: Any) -> tuple[Tensor, ...]:
    """dq, dk, dv, dbias and dsinks; the last two are empty if they are not wanted. `make` makes the first three. Behind TENSORS dlse may be given."""
    named: dict[str, Any] = dict(zip((*TENSORS, "dlse"), tensors))
    named.update({name: empty_as(named[name[1:]]) for name, wanted in (("dbias", with_dbias), ("dsinks", with_dsinks)) if wanted})
    dq, dk, dv = map(make, (q, k, v))
    call("attention_backward", dout, q, k, v, out, lse, dq=dq, dk=dk, dv=dv, **options, **named)
    return dq, dk, dv, named.get("dbias", q.new_empty(0)), named.get("dsinks", q.new_empty(0))

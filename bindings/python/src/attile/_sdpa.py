# SPDX-License-Identifier: Apache-2.0
"""torch.nn.functional.scaled_dot_product_attention by Attile: what is served, by which call, and how PyTorch's function is replaced by it."""
# mypy: disable-error-code="import"
from __future__ import annotations

import contextlib
import functools
import inspect
import math
import threading
import warnings
from typing import Any, Callable, Iterator, NamedTuple, Optional, TypeVar, Union, cast

import torch
from torch import Tensor
from torch.nn import functional

from ._context import in_forked_children
from ._library import AttileUnsupportedError
from ._torch_call import TENSORS, attention_backward, default_gpu, empty_out, run

_untyped: Any = torch  # For functions of PyTorch that have no types.
_PYTORCHS: Any = functional.scaled_dot_product_attention  # Or what another package had put there.
_framework: Any = _PYTORCHS  # What calls go to that are not served.

_PLAIN = (Tensor, torch.nn.Parameter)
_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_is_exporting: Any = getattr(torch.compiler, "is_exporting", lambda: False)  # PyTorch 2.7.
_HAS_JAGGED = "max_seqlen" in inspect.signature(_untyped.nested.nested_tensor_from_jagged).parameters  # PyTorch 2.5.


class Problem(NamedTuple):
    """What SDPA's arguments say, for attend(): q, k and v have 4 dimensions."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Optional[Tensor]
    allowed: Optional[Tensor]


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _constant_in_graphs(function: _Function) -> _Function:
    """Run while a function is compiled, not in its graph: torch.compiler.assume_constant_result() without its import of the compiler, which takes seconds."""
    setattr(function, "_dynamo_marked_constant", True)
    return function


@_constant_in_graphs
def _exports() -> bool:
    """Whether a program is exported. Called in a graph of PyTorch before 2.15, is_exporting() says so of every compiled function."""
    return bool(_is_exporting())


_said: set[str] = set()


@_constant_in_graphs
def say_once(reason: str) -> None:
    """One warning for each reason; of a compiled function while it is traced."""
    if reason not in _said:
        _said.add(reason)
        warnings.warn(f"attile.torch leaves a call of scaled_dot_product_attention to PyTorch: {reason}", stacklevel=3)


@functools.lru_cache(maxsize=None)
def _refused_device(kind: str) -> str:
    """Why tensors of that type of device are not served; nothing if they are."""
    if kind == "cpu" or (kind == "cuda" and default_gpu() >= 0):
        return ""
    if kind == "cuda":
        return "the tensors are on a GPU, and the default context (ATTILE_BACKEND) is not"
    return f"tensors on {kind} are not served"


in_forked_children(_refused_device.cache_clear)


@_constant_in_graphs
def _refused_device_traced(kind: str) -> str:
    return _refused_device(kind)


def refusal(tensors: tuple[Optional[Tensor], ...]) -> str:
    """Why Attile does not compute on these tensors, q first; nothing if it does."""
    q = cast(Tensor, tensors[0])
    compiling = torch.compiler.is_compiling()
    for x in tensors:
        if x is not None:
            if type(x) not in _PLAIN or x.layout is not torch.strided or (not compiling and x.is_neg()):
                return "a tensor is of a subclass, of another layout than strided, or lazily negated"  # Operators of a compiled function get no such negation.
            if x.device != q.device:
                return "the tensors are on different devices"
    if q.dtype not in _TYPES:
        return f"elements of type {q.dtype} are not served"
    if _exports() or _untyped.jit.is_tracing():
        return "the program is exported or traced, and is to run without Attile"
    if not compiling and (_untyped._C._functorch.peek_interpreter_stack() is not None or _untyped.autograd.forward_ad._current_level >= 0):
        return "a transform of torch.func or forward-mode differentiation is on"
    return _refused_device_traced(q.device.type) if compiling else _refused_device(q.device.type)


def _gradients_of(ctx: Any, dout: Tensor) -> tuple[Optional[Tensor], ...]:
    wanted = dict(zip(TENSORS, ctx.needs_input_grad[4:]))
    dout = dout.resolve_neg()
    # Gradients lie in memory as their tensors do, so what made these by a transposition need not copy.
    made = attention_backward(dout, *ctx.saved_tensors, with_dbias=wanted["bias"], with_dsinks=wanted["sinks"], make=torch.empty_like, **ctx.options)
    dq, dk, dv, dbias, dsinks = made
    found = {"bias": dbias if wanted["bias"] else None, "sinks": dsinks if wanted["sinks"] else None}
    return dq, dk, dv, None, *map(found.get, TENSORS)


class _Followed(_untyped.autograd.Function):  # type: ignore[misc]
    """Attention whose gradient is followed outside of a graph: the operator of attile.torch costs three times as much host time."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], *tensors: Optional[Tensor]) -> Tensor:
        named: dict[str, Any] = dict(zip(TENSORS, tensors))
        out, lse = run("attention", q, k, v, out=empty_out(q, v), lse=True, **named, **options)
        ctx.save_for_backward(q, k, v, out, lse, *tensors)
        ctx.options = options
        return cast(Tensor, out)

    backward = staticmethod(_untyped.autograd.function.once_differentiable(_gradients_of))


def attend(problem: Problem, sinks: Optional[Tensor] = None, packed: tuple[Optional[Tensor], ...] = (None, None), **options: Any) -> Tensor:
    """Attention of tensors for which there is no refusal(), in a new tensor that lies in memory as empty_out() makes it: by the operator where a graph is made."""
    q, k, v, bias, allowed = problem
    if torch.compiler.is_compiling() or _untyped._C._len_torch_dispatch_stack():
        return cast(Tensor, torch.ops.attile.attention(q, k, v, bias, allowed, None, sinks, None, *packed, None, **options, out_blhd=True)[0])
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or (bias is not None and bias.requires_grad) or (sinks is not None and sinks.requires_grad)):
        return cast(Tensor, _Followed.apply(q, k, v, options, bias, allowed, None, sinks, None, *packed))
    out = None if q.shape[2] == 1 else empty_out(q, v)  # One row lies as it should by itself.
    return cast(Tensor, run("attention", q, k, v, out=out, bias=bias, allowed=allowed, sinks=sinks, cu_len_q=packed[0], cu_len_k=packed[1], **options))


def _broadcasts(shape: Any, to: Any) -> bool:
    return len(shape) <= len(to) and all(extent == 1 or extent == whole for extent, whole in zip(reversed(shape), reversed(to)))


def _common(extents: tuple[int, ...]) -> int:
    """What three extents of an axis are broadcast to; -1 if they are not."""
    if extents[0] == extents[1] == extents[2]:
        return extents[0]
    largest = max(extents)
    return largest if all(extent in (1, largest) for extent in extents) else -1


def _problem(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor], is_causal: bool, enable_gqa: bool) -> Union[Problem, str]:
    """The tensors as attend() takes them, or why not: what PyTorch refuses, too, is left to it and its words."""
    if not 2 <= query.dim() <= 4 or key.dim() != query.dim() or value.dim() != query.dim():
        return f"query, key and value have {query.dim()}, {key.dim()} and {value.dim()} dimensions; 2 to 4 are served, as many of each"
    if key.dtype != query.dtype or value.dtype != query.dtype:
        return f"query, key and value are of types {query.dtype}, {key.dtype} and {value.dtype}; one type is served"
    while query.dim() < 4:
        query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    batch, heads, rows, width = query.shape
    batch_k, heads_kv, keys, width_k = key.shape
    batch_v, heads_v, keys_v, width_v = value.shape
    if width != width_k or keys != keys_v:
        return "shapes of query, key and value do not fit together"
    if 0 in (batch, heads, rows, width, batch_k, heads_kv, keys, batch_v, heads_v, width_v):
        return "a tensor is empty"
    if enable_gqa or heads_kv == heads_v == 1:
        if heads_v != heads_kv or heads % heads_kv != 0:
            return f"there are {heads} heads of query, {heads_kv} of key and {heads_v} of value; as many of key as of value are served, which divide those of query"
        heads_wanted = heads_kv
    else:
        heads = heads_wanted = _common((heads, heads_kv, heads_v))
    batch = _common((batch, batch_k, batch_v))
    if batch < 0 or heads < 0:
        return "batches or heads of query, key and value do not fit together"
    if query.shape[0] != batch or query.shape[1] != heads:
        query = query.expand(batch, heads, -1, -1)
    if batch_k != batch or heads_kv != heads_wanted:
        key = key.expand(batch, heads_wanted, -1, -1)
    if batch_v != batch or heads_v != heads_wanted:
        value = value.expand(batch, heads_wanted, -1, -1)
    if attn_mask is None:
        return Problem(query, key, value, None, None)
    if is_causal:
        return "attn_mask is given with is_causal"
    if attn_mask.dim() == 0 or not _broadcasts(attn_mask.shape, (batch, heads, rows, keys)):
        return "attn_mask does not broadcast to the scores"
    if attn_mask.dtype == torch.bool:
        return Problem(query, key, value, None, attn_mask)
    if attn_mask.dtype in (query.dtype, torch.float32):
        return Problem(query, key, value, attn_mask, None)
    return f"attn_mask is of type {attn_mask.dtype}; bool, float32 and the type of query are served"


def _autocast(q: Any, k: Any, v: Any, attn_mask: Any = None) -> tuple[Any, Any, Any, Any]:
    """Tensors as torch.autocast would hand them to PyTorch's own. Only of those for which there is no refusal(): a device may know no autocast."""
    kind = q.device.type
    if not torch.is_autocast_enabled(kind):
        return q, k, v, attn_mask
    dtype = torch.get_autocast_dtype(kind)
    q, k, v, attn_mask = (x if x is None or not x.is_floating_point() or x.dtype == torch.float64 else x.to(dtype) for x in (q, k, v, attn_mask))
    return q, k, v, attn_mask


def _serve(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor], dropout_p: float, is_causal: bool, scale: Optional[float], enable_gqa: bool) -> Union[Tensor, str]:
    """The result, or why PyTorch is to compute it."""
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        return "query, key or value is not a tensor"
    if dropout_p != 0.0:
        return "dropout_p is not 0"
    if scale is not None and (scale == 0.0 or not math.isfinite(scale)):
        return "scale is 0 or not finite"
    options: dict[str, Any] = {"scale": 0.0 if scale is None else scale, "mask": "causal_top_left" if is_causal else None}
    if query.is_nested:
        return _serve_jagged(query, key, value, attn_mask, options)
    reason = refusal((query, key, value, attn_mask))
    if reason:
        return reason
    problem = _problem(*_autocast(query, key, value, attn_mask), is_causal, enable_gqa)
    if isinstance(problem, str):
        return problem
    out = attend(problem, **options)
    for _ in range(4 - query.dim()):
        out = out.squeeze(0)
    return out


def _serve_jagged(query: Any, key: Any, value: Any, attn_mask: Optional[Tensor], options: dict[str, Any]) -> Union[Tensor, str]:
    """Nested tensors [B, H, ragged L, D] of the layout torch.jagged: packed sequences, and nothing is copied."""
    if torch.compiler.is_compiling() or attn_mask is not None or not _HAS_JAGGED:
        return "nested tensors are given with attn_mask, to a compiled function, or to a PyTorch before 2.5"
    for x in (query, key, value):
        if not x.is_nested or x.layout is not torch.jagged or x.dim() != 4 or x._ragged_idx != 2 or x.lengths() is not None:
            return "of nested tensors those of [B, H, ragged L, D] in the layout torch.jagged are served, without holes"
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3] or query.shape[3] != key.shape[3] or query.shape[1] != key.shape[1]:
        return "shapes of nested query, key and value do not fit together"
    q, k, v = (x.values().unsqueeze(0) for x in (query, key, value))
    reason = refusal((q, k, v))
    if reason:
        return reason
    q, k, v, _ = _autocast(q, k, v)
    if not q.dtype == k.dtype == v.dtype or 0 in (q.numel(), k.numel(), v.numel()):
        return "nested tensors are of different types, or empty"
    packed = tuple(x.offsets().to(torch.int32) for x in (query, key))
    out = attend(Problem(q, k, v, None, None), packed=packed, max_len_q=query._max_seqlen, max_len_k=key._max_seqlen, **options)
    return cast(Tensor, _untyped.nested.nested_tensor_from_jagged(out.squeeze(0), query.offsets(), jagged_dim=2, min_seqlen=query._min_seqlen, max_seqlen=query._max_seqlen))


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0, is_causal: bool = False, *,
                                 scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention() by Attile, with its arguments; what is not served is left to PyTorch's own, with one warning for each reason."""
    if _is_enabled or _blocks > 0:  # Else another package's function, put over this one, has called it.
        try:
            found = _serve(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        except AttileUnsupportedError as error:
            found = str(error)
        if not isinstance(found, str):
            return found
        say_once(found)
    more = {"enable_gqa": True} if enable_gqa else {}  # PyTorch 2.4 has no such argument.
    return cast(Tensor, _framework(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, **more))


_untyped.jit._builtins._register_builtin(scaled_dot_product_attention, "aten::scaled_dot_product_attention")  # torch.jit.script puts PyTorch's own into its programs.

_lock = threading.Lock()
_blocks = 0
_is_enabled = False
_is_placed = False  # Also where another package's function lies over this one, and may call it.


def _install() -> None:
    """Put the function there that is asked for now; another package's that came in between stays."""
    global _framework, _is_placed
    wanted, there = _is_enabled or _blocks > 0, functional.scaled_dot_product_attention
    if there is not scaled_dot_product_attention:
        if there is _framework or there is _PYTORCHS:
            _is_placed = False
        if not wanted or _is_placed:
            return
        _framework, _is_placed = there, True
        _untyped.nn.functional.scaled_dot_product_attention = scaled_dot_product_attention
    elif not wanted:
        _is_placed = False
        _untyped.nn.functional.scaled_dot_product_attention = _framework


def enable() -> None:
    """Let Attile serve torch.nn.functional.scaled_dot_product_attention() from now on, in all threads."""
    global _is_enabled
    with _lock:
        _is_enabled = True
        _install()


def disable() -> None:
    """Undo enable(). Blocks of sdpa() that are open stay so."""
    global _is_enabled
    with _lock:
        _is_enabled = False
        _install()


@contextlib.contextmanager
def sdpa() -> Iterator[None]:
    """Within the block, Attile serves torch.nn.functional.scaled_dot_product_attention(), in all threads, as enable() does."""
    global _blocks
    with _lock:
        _blocks += 1
        _install()
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            _install()

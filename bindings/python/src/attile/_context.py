# SPDX-License-Identifier: Apache-2.0
"""Contexts and the operations on them. Formulas, shapes and conventions are those of attile.h and docs/numerics.md."""
from __future__ import annotations

import ctypes
import dataclasses
import inspect
import os
import sys
import threading
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np

from . import _structs as s
from ._arrays import Array, cuda_stream, empty_like, increment_versions, mark_written, view
from ._aten import find_aten, is_plain
from ._call import Call, choose, gemm_shape
from ._extension import ContextBase, native
from ._library import check, library
from ._prepared import Prepared
from ._quantised import Quantised


@dataclasses.dataclass(frozen=True)
class Info:
    """What a context runs on."""

    backend: str
    backend_version: str
    device_name: str
    arch: str
    device_type: int
    device_index: int
    compute_units: int
    threads: int
    memory_total: int
    memory_free: int
    peak_flops_f32: float
    peak_bandwidth: float


@dataclasses.dataclass(frozen=True)
class Support:
    """How a call would run: ``level`` is "native", "emulated" or "none", and ``text`` says why."""

    level: str
    status: int
    kernel: str
    text: str
    workspace_bytes: int
    flops: float
    bytes: float


LEVELS = ("none", "emulated", "native")  # by ATTILE_SUPPORT_ constant


class Context(Quantised, ContextBase):
    """One backend on one device. Use it from any number of threads; the GIL is released while the library works.

    ``backend`` is a name ("cuda", "cuda:1", "cpu"), a list "cuda,cpu" or "auto"; None takes the variable ATTILE_BACKEND.

    Options that every operation has: ``flags`` (attile.FLAG_...), ``stream`` (the device's handle; None is the current stream of the library that owns
    the arrays) and ``workspace`` (a dense array that begins on 256 bytes, of at least Support.workspace_bytes, where the data are; None
    takes one from a pool).
    """

    def __init__(self, backend: Optional[str] = None, threads: int = 0):
        options = s.ContextOptions(backend=None if backend is None else backend.encode(), threads=threads)
        handle = ctypes.c_void_p()
        check(library().attile_context_create(ctypes.byref(options), ctypes.byref(handle)))
        self._handle: int = handle.value or 0

    def close(self) -> None:
        """Waits for the context's work and releases it. Later calls on it fail."""
        handle, self._handle = self._handle, 0
        if handle:
            library().attile_context_destroy(handle)

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @property
    def info(self) -> Info:
        """The backend and its device."""
        found = s.ContextInfo()
        check(library().attile_context_get_info(self._handle, ctypes.byref(found)))
        values: dict[str, Any] = {}
        for field in dataclasses.fields(Info):
            value = getattr(found, field.name)
            values[field.name] = value.decode() if isinstance(value, bytes) else value
        return Info(**values)

    def synchronize(self, stream: int = 0) -> None:
        """Wait until everything queued on a stream is done; 0 is the default stream."""
        check(library().attile_synchronize(self._handle, stream))

    def _run(self, operation: str, call: Call) -> None:
        status = getattr(library(), f"attile_{operation}")(self._handle, ctypes.byref(call.args))
        try:
            check(status)
        finally:
            call.wrote(status)

    def _query(self, operation: str, call: Call) -> Support:
        found = s.Support()
        check(getattr(library(), f"attile_{operation}_query")(self._handle, ctypes.byref(call.args), ctypes.byref(found)))
        return Support(LEVELS[found.level], found.status, found.kernel.decode(), found.text.decode(), found.workspace_bytes, found.flops, found.bytes)

    def gemm(self, a: Array, b: Array, c: Optional[Array] = None, *, out: Optional[Array] = None, alpha: float = 1.0, beta: float = 0.0, bias: Optional[Array] = None,
             bias_axis: Optional[s.BiasAxis] = None, activation: Optional[s.Activation] = None, a_scale: Optional[Array] = None, b_scale: Optional[Array] = None, b_zero: Optional[Array] = None,
             d_scale: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None, workspace: Optional[Array] = None, query: bool = False) -> Any:
        """activation(alpha a b + beta c + bias) for a [..., M, K] and b [..., K, N], batch axes broadcast; returns ``out``.

        ``bias_axis`` "columns" (length N, the default with a bias) or "rows" (length M); ``activation`` None, "relu", "gelu", "gelu_tanh", "silu".
        ``a_scale`` and ``b_scale``: float32 scales of operands of 8 bits, [..., Ms, Ks] and [..., Ks, Ns]. Without ``out`` the result has a's type, or float32 if a is of 8 bits.
        b may be FourBits; ``b_zero``, of the shape of ``b_scale``, is taken off its unsigned numbers before they are scaled.
        ``out`` may be given as int8, float8_e4m3fn or float8_e5m2: the result is then divided by ``d_scale``, float32, broadcast to ``out``, and rounded; ``c`` and ``bias`` are float32.
        ``query=True`` returns a Support instead of computing.
        """
        call, out = self._product(a, b, c, out, alpha, beta, bias, bias_axis, activation, a_scale, b_scale, b_zero, d_scale)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("gemm", call)
        self._run("gemm", call)
        return out

    def _product(self, a: Array, b: Array, c: Optional[Array], out: Optional[Array], alpha: float, beta: float, bias: Optional[Array], bias_axis: Optional[s.BiasAxis],
                 activation: Optional[s.Activation], a_scale: Optional[Array], b_scale: Optional[Array],
                 b_zero: Optional[Array], d_scale: Optional[Array]) -> tuple[Call, Array]:
        """A call of gemm() and its result, which is made if it was not given."""
        call = Call(s.GemmArgs(alpha=alpha, beta=beta, activation=choose(s.ACTIVATIONS, "activation", activation)))
        call.args.bias_axis = choose(s.BIAS_AXES, "bias_axis", bias_axis or ("columns" if bias is not None else None))
        for name, array in (("a", a), ("b", b), ("c", c), ("bias", bias), ("a_scale", a_scale), ("b_scale", b_scale), ("b_zero", b_zero),
                            ("d_scale", d_scale)):
            call.put(name, array)
        if out is None:
            out = empty_like(a, gemm_shape(call.args.a, call.args.b), s.F32 if call.args.a.dtype & 0xFF == 8 else None)
        call.put("d", out, output=True)
        return call, out

    def prepare_gemm(self, a: Array, b: Array, c: Optional[Array] = None, *, out: Optional[Array] = None, alpha: float = 1.0, beta: float = 0.0, bias: Optional[Array] = None,
                     bias_axis: Optional[s.BiasAxis] = None, activation: Optional[s.Activation] = None, a_scale: Optional[Array] = None, b_scale: Optional[Array] = None,
                     b_zero: Optional[Array] = None, d_scale: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None, workspace: Optional[Array] = None) -> Prepared:
        """gemm() with these arguments, validated and planned once for many launches; nothing is computed."""
        call, out = self._product(a, b, c, out, alpha, beta, bias, bias_axis, activation, a_scale, b_scale, b_zero, d_scale)
        call.finish(stream, flags, workspace)
        return Prepared(self, "gemm", call, out, workspace=workspace)

    def gemm_grouped(self, a: Array, b: Array, row_offsets: Array, c: Optional[Array] = None, *, out: Optional[Array] = None, alpha: float = 1.0, beta: float = 0.0,
                     bias: Optional[Array] = None, activation: Optional[s.Activation] = None, b_scale: Optional[Array] = None, b_zero: Optional[Array] = None,
                     flags: int = 0, stream: Optional[int] = None, workspace: Optional[Array] = None, query: bool = False) -> Any:
        """For each group g, of rows row_offsets[g] to before row_offsets[g + 1] of a [M, K]: activation(alpha a b[g] + beta c + bias[g]), with b [G, K, N] and bias [G, N] or [N]; returns ``out``.

        ``row_offsets``: int32 [G + 1], where the arrays are; each is clamped from the one before it to M. Rows of no group are not written: in an ``out`` that is made here they hold anything.
        ``query=True`` returns a Support instead of computing.
        """
        call = Call(s.GemmGroupedArgs(alpha=alpha, beta=beta, activation=choose(s.ACTIVATIONS, "activation", activation)))
        for name, array in (("a", a), ("b", b), ("c", c), ("row_offsets", row_offsets), ("bias", bias), ("b_scale", b_scale), ("b_zero", b_zero)):
            call.put(name, array)
        if out is None:
            out = empty_like(a, (call.args.a.shape[0], call.args.b.shape[2]))
        call.put("d", out, output=True)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("gemm_grouped", call)
        self._run("gemm_grouped", call)
        return out

    def attention(self, q: Array, k: Array, v: Array, *, out: Optional[Array] = None, lse: Union[None, bool, Array] = None, scale: float = 0.0, softcap: float = 0.0,
                  mask: Optional[s.Mask] = None, window: Sequence[int] = (0, 0), bias: Optional[Array] = None, allowed: Optional[Array] = None,
                  alibi_slopes: Optional[Array] = None, sinks: Optional[Array] = None, key_lengths: Optional[Array] = None, cu_len_q: Optional[Array] = None,
                  cu_len_k: Optional[Array] = None, max_len_q: int = 0, max_len_k: int = 0, block_table: Optional[Array] = None, key_starts: Optional[Array] = None,
                  causal_offset: Optional[Array] = None, block_mask: Optional[Array] = None, tree_mask: Optional[Array] = None, k_scale: Optional[Array] = None,
                  v_scale: Optional[Array] = None, q_scale: Optional[Array] = None, o_scale: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None, workspace: Optional[Array] = None, query: bool = False) -> Any:
        """softmax(scale q k^T) v for q [B, Hq, Lq, D], k [B, Hkv, Lk, D], v [B, Hkv, Lk, Dv], with every option of attile_attention().

        ``mask``: None, "causal_top_left", "causal_bottom_right", or "window_top_left" / "window_bottom_right" with ``window=(left, right)``, -1 open.
        ``lse``: True makes an array for the log-sum-exp and returns (out, lse); an array is filled. ``query=True`` returns a Support.
        ``key_starts``: int32 [B], keys of each entry before this one are not seen (left padding). ``causal_offset``: int32 [B], each entry's diagonal is j = i + offset.
        ``block_mask``: bool or uint8, broadcast to [B, Hq, ceil(Lq / 128), ceil(Lk / 128)], False hides a block of 128 rows and 128 keys.
        ``tree_mask``: bool or uint8 [B, Hq, Lq, T], all but T broadcast: of the last T keys of an entry, the drafts of speculative decoding, False hides one.
        ``k`` and ``v`` may be of other types than ``q``, also of 8 bits: int8, float8_e4m3fn or float8_e5m2, or FourBits along D. ``k_scale`` and ``v_scale``: float32, broadcast to [B, Hkv, Lk, G],
        the factors of their numbers: G is 1, D (for ``v`` Dv), or that over 32, 64 or 128. ``q`` too may be of 8 bits, with ``q_scale`` broadcast to [B, Hq, Lq, G]; ``out`` is then
        float32, or float16 or bfloat16 as given. Else the results have the type of ``q``. An ``out`` of 8 bits that is given is the result over ``o_scale``, broadcast to [B, Hq, Lq, G], rounded. ``flags=attile.FLAG_FAST_ACCUMULATION`` lets sums of float8_e4m3fn lose bits, weights of int8 be rounded to 8 bits, and a float32 ``out`` of 16-bit inputs be as exact as one of their type, for speed.
        """
        call = self._forward(q, k, v, scale=scale, softcap=softcap, mask=mask, window=window, bias=bias, allowed=allowed, alibi_slopes=alibi_slopes, sinks=sinks,
                             key_lengths=key_lengths, cu_len_q=cu_len_q, cu_len_k=cu_len_k, max_len_q=max_len_q, max_len_k=max_len_k, block_table=block_table,
                             key_starts=key_starts, causal_offset=causal_offset, block_mask=block_mask, tree_mask=tree_mask, k_scale=k_scale, v_scale=v_scale,
                             q_scale=q_scale, o_scale=o_scale)
        out, lse = self._results(call, q, out, lse)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("attention", call)
        self._run("attention", call)
        return out if lse is None else (out, lse)

    def _results(self, call: Call, q: Array, out: Optional[Array], lse: Union[None, bool, Array]) -> tuple[Array, Optional[Array]]:
        """Results of a call of attention(), made if they were not given and are asked for."""
        if out is None:
            batch, heads, rows, _ = call.args.q.shape
            out = empty_like(q, (batch, heads, rows, call.args.v.shape[3]), s.F32 if call.args.q.dtype & 0xFF == 8 else None)
        if lse is True:
            lse = empty_like(q, tuple(call.args.q.shape[:3]), s.F64 if call.args.q.dtype == s.F64 else s.F32)
        elif lse is False:
            lse = None
        call.put("o", out, output=True)
        call.put("lse", lse, output=True)
        return out, lse

    def prepare_attention(self, q: Array, k: Array, v: Array, *, out: Optional[Array] = None, lse: Union[None, bool, Array] = None, scale: float = 0.0,
                          softcap: float = 0.0, mask: Optional[s.Mask] = None, window: Sequence[int] = (0, 0), bias: Optional[Array] = None, allowed: Optional[Array] = None,
                          alibi_slopes: Optional[Array] = None, sinks: Optional[Array] = None, key_lengths: Optional[Array] = None, cu_len_q: Optional[Array] = None,
                          cu_len_k: Optional[Array] = None, max_len_q: int = 0, max_len_k: int = 0, block_table: Optional[Array] = None, key_starts: Optional[Array] = None,
                          causal_offset: Optional[Array] = None, block_mask: Optional[Array] = None, tree_mask: Optional[Array] = None, k_scale: Optional[Array] = None,
                          v_scale: Optional[Array] = None, q_scale: Optional[Array] = None, o_scale: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None, workspace: Optional[Array] = None) -> Prepared:
        """attention() with these arguments, validated and planned once for many launches; nothing is computed."""
        call = self._forward(q, k, v, scale=scale, softcap=softcap, mask=mask, window=window, bias=bias, allowed=allowed, alibi_slopes=alibi_slopes, sinks=sinks,
                             key_lengths=key_lengths, cu_len_q=cu_len_q, cu_len_k=cu_len_k, max_len_q=max_len_q, max_len_k=max_len_k, block_table=block_table,
                             key_starts=key_starts, causal_offset=causal_offset, block_mask=block_mask, tree_mask=tree_mask, k_scale=k_scale, v_scale=v_scale,
                             q_scale=q_scale, o_scale=o_scale)
        out, lse = self._results(call, q, out, lse)
        call.finish(stream, flags, workspace)
        return Prepared(self, "attention", call, out, lse, workspace)

    def _forward(self, q: Array, k: Array, v: Array, *, scale: float, softcap: float, mask: Optional[s.Mask], window: Sequence[int], max_len_q: int, max_len_k: int,
                 **optional: Optional[Array]) -> Call:
        """What the forward and the backward call share: everything but o and lse."""
        left, right = window
        call = Call(s.AttentionArgs(scale=scale, softcap=softcap, mask=choose(s.MASKS, "mask", mask), window_left=left, window_right=right,
                                     max_len_q=max_len_q, max_len_k=max_len_k))
        for name, array in {"q": q, "k": k, "v": v, **optional}.items():
            call.put(name, array)
        return call

    def attention_backward(self, dout: Array, q: Array, k: Array, v: Array, out: Array, lse: Array, *, dq: Optional[Array] = None, dk: Optional[Array] = None,
                           dv: Optional[Array] = None, dbias: Optional[Array] = None, dsinks: Optional[Array] = None, scale: float = 0.0, softcap: float = 0.0,
                           mask: Optional[s.Mask] = None, window: Sequence[int] = (0, 0), bias: Optional[Array] = None, allowed: Optional[Array] = None,
                           alibi_slopes: Optional[Array] = None, sinks: Optional[Array] = None, key_lengths: Optional[Array] = None, cu_len_q: Optional[Array] = None,
                           cu_len_k: Optional[Array] = None, max_len_q: int = 0, max_len_k: int = 0, key_starts: Optional[Array] = None,
                           causal_offset: Optional[Array] = None, block_mask: Optional[Array] = None, tree_mask: Optional[Array] = None,
                           dlse: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None, workspace: Optional[Array] = None, query: bool = False) -> Any:
        """Gradients (dq, dk, dv) of attention; options as in the forward call, whose ``out`` and ``lse`` are inputs here. ``query=True`` returns a Support.

        ``dlse``: gradient with respect to ``lse``, of its shape and type; None: 0.
        """
        call = self._backward(dout, q, k, v, out, lse, dq, dk, dv, dbias, dsinks, scale=scale, softcap=softcap, mask=mask, window=window, bias=bias, allowed=allowed,
                              alibi_slopes=alibi_slopes, sinks=sinks, key_lengths=key_lengths, cu_len_q=cu_len_q, cu_len_k=cu_len_k, max_len_q=max_len_q,
                              max_len_k=max_len_k, key_starts=key_starts, causal_offset=causal_offset, block_mask=block_mask, tree_mask=tree_mask, dlse=dlse)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("attention_backward", call)
        self._run("attention_backward", call)
        return tuple(call.written[:3])

    def _backward(self, dout: Array, q: Array, k: Array, v: Array, out: Array, lse: Array, dq: Optional[Array], dk: Optional[Array], dv: Optional[Array],
                  dbias: Optional[Array], dsinks: Optional[Array], dlse: Optional[Array] = None, **options: Any) -> Call:
        """A call of attention_backward(), with gradients made where they were not given. Its first three outputs are dq, dk and dv."""
        forward = self._forward(q, k, v, **options)
        forward.put("o", out)  # inputs here: a missing one is the library's to report
        forward.put("lse", lse)
        call = Call(s.AttentionBackwardArgs(forward=ctypes.pointer(forward.args)))
        call.views, call.stream = list(forward.views), forward.stream
        made = tuple(given if given is not None else empty_like(source, tuple(view(source).tensor.shape[:4])) for given, source in ((dq, q), (dk, k), (dv, v)))
        call.put("dout", dout)
        call.put("dlse", dlse)
        for name, array in zip(("dq", "dk", "dv", "dbias", "dsinks"), made + (dbias, dsinks)):
            call.put(name, array, output=True)
        return call

    def attention_merge(self, o_parts: Sequence[Array], lse_parts: Sequence[Array], *, out: Optional[Array] = None, lse: Union[None, bool, Array] = None, flags: int = 0,
                        stream: Optional[int] = None, workspace: Optional[Array] = None, query: bool = False) -> Any:
        """Combine attention over disjoint ranges of keys; returns ``out``, or (out, lse) if ``lse`` is asked for as in attention(). ``query=True`` returns a Support."""
        call = _merge(o_parts, lse_parts)
        if out is None and len(o_parts):
            out = empty_like(o_parts[0], tuple(call.args.o_parts[0].shape[:4]))
        if lse is True and len(o_parts):
            lse = empty_like(lse_parts[0], tuple(call.args.lse_parts[0].shape[:3]))
        call.put("o", out, output=True)
        call.put("lse", None if isinstance(lse, bool) else lse, output=True)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("attention_merge", call)
        self._run("attention_merge", call)
        return (out, lse) if lse is not None and lse is not False else out

    def attention_merge_backward(self, dout: Array, o_parts: Sequence[Array], lse_parts: Sequence[Array], out: Array, lse: Array, *, dlse: Optional[Array] = None,
                                 do_parts: Optional[Sequence[Array]] = None, dlse_parts: Optional[Sequence[Array]] = None, flags: int = 0,
                                 stream: Optional[int] = None, workspace: Optional[Array] = None, query: bool = False) -> Any:
        """Gradients (do_parts, dlse_parts) of attention_merge, whose ``out`` and ``lse`` are inputs here: two lists of an array for each part. ``dlse`` is the gradient
        with respect to ``lse``, if it has one. ``query=True`` returns a Support."""
        forward = _merge(o_parts, lse_parts)
        forward.put("o", out)  # inputs here: a missing one is the library's to report
        forward.put("lse", lse)
        call = Call(s.AttentionMergeBackwardArgs(forward=ctypes.pointer(forward.args)))
        call.views, call.stream = list(forward.views), forward.stream
        made = [[empty_like(part, tuple(view(part).tensor.shape[:rank])) for part in sources] if given is None else list(given)
                for given, sources, rank in ((do_parts, o_parts, 4), (dlse_parts, lse_parts, 3))]
        call.put("dout", dout)
        call.put("dlse", dlse)
        for name, arrays in zip(("do_parts", "dlse_parts"), made):
            if len(arrays) != len(o_parts):
                raise ValueError(f"{len(arrays)} {name} and {len(o_parts)} o_parts; as many of each are expected")
            _put_parts(call, name, arrays, output=True)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("attention_merge_backward", call)
        self._run("attention_merge_backward", call)
        return tuple(made)

    def reduce(self, x: Array, op: s.Reduction, axis: int = -1, *, out: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None,
               workspace: Optional[Array] = None, query: bool = False) -> Any:
        """"sum", "max", "min" or "mean" over one axis, which stays with extent 1; returns ``out``. ``query=True`` returns a Support."""
        call = Call(s.ReduceArgs(op=choose(s.REDUCTIONS, "op", op), axis=axis))
        call.put("x", x)
        if out is None:
            rank = call.args.x.rank
            out = empty_like(x, tuple(1 if i == axis % max(rank, 1) else call.args.x.shape[i] for i in range(rank)))
        call.put("y", out, output=True)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("reduce", call)
        self._run("reduce", call)
        return out

    def softmax(self, x: Array, axis: int = -1, *, out: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None,
                workspace: Optional[Array] = None, query: bool = False) -> Any:
        """Softmax over one axis; ``out`` may be ``x``. Returns ``out``. ``query=True`` returns a Support."""
        call = Call(s.SoftmaxArgs(axis=axis))
        call.put("x", x)
        if out is None:
            out = empty_like(x, tuple(call.args.x.shape[: call.args.x.rank]))
        call.put("y", out, output=True)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("softmax", call)
        self._run("softmax", call)
        return out


def _put_parts(call: Call, name: str, arrays: Sequence[Array], output: bool = False) -> None:
    """An array of tensors of a call, which keeps it alive."""
    table = (s.Tensor * max(len(arrays), 1))()
    for index, array in enumerate(arrays):
        found = call.look(f"{name}[{index}]", array, output)
        table[index] = found.tensor
        call.stream = call.stream or found.stream
    setattr(call.args, name, table)


def _merge(o_parts: Sequence[Array], lse_parts: Sequence[Array]) -> Call:
    """What a merge and its gradients share: the parts."""
    if len(o_parts) != len(lse_parts):
        raise ValueError(f"{len(o_parts)} o_parts and {len(lse_parts)} lse_parts; as many of each are expected")
    call = Call(s.AttentionMergeArgs(parts=len(o_parts)))
    _put_parts(call, "o_parts", o_parts)
    _put_parts(call, "lse_parts", lse_parts)
    return call


_default: Optional[Context] = None
_default_lock = threading.Lock()


def default_context() -> Context:
    """The context that the module-level functions use, opened at their first call by ATTILE_BACKEND."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Context()
        return _default


def in_forked_children(forget: Callable[[], None]) -> None:
    """Has that function called in each child of fork(), where the contexts of its parent serve no calls."""
    if hasattr(os, "register_at_fork"):  # Windows has no fork().
        os.register_at_fork(after_in_child=forget)


def _forget_default() -> None:
    """The next call of a module-level function opens a context again. The library leaves the parent's alone when it is closed here."""
    global _default, _default_lock
    _default, _default_lock = None, threading.Lock()  # Another thread, which is not here, may have held the lock.
    if native is not None:
        native.forget_context()


in_forked_children(_forget_default)


def _text_signature(name: str, function: Callable[..., Any]) -> str:
    """How CPython writes a signature before the documentation of a compiled function."""
    parameters = inspect.signature(function).parameters.values()
    plain = inspect.Signature([parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters])
    return f"{name}{plain}".replace("(self", "($self", 1) + f"\n--\n\n{inspect.getdoc(function)}"


def _install(extension: Any) -> None:
    """Let the extension make the calls whose arrays are plain; it hands all others to the methods above, which stay the one definition of what is an error."""
    extension.setup({"ndarray": np.ndarray, "empty": np.empty, "float32": np.dtype(np.float32), "float64": np.dtype(np.float64), "modules": sys.modules,
                     "check": check, "mark_written": mark_written, "increment_versions": increment_versions,
                     "find_aten": find_aten, "is_plain": is_plain, "cuda_stream": lambda array: cuda_stream(array, None, {}),
                     "support": Support, "levels": LEVELS, "default_context": default_context, "activations": s.ACTIVATIONS, "bias_axes": s.BIAS_AXES,
                     "masks": s.MASKS, "reductions": s.REDUCTIONS})
    for owner, names in ((Context, [name for name in s.OPERATIONS if name not in s.NOT_COMPILED]), (Prepared, ("run",))):
        for name in names:
            pure = getattr(owner, name)
            parameters = tuple(parameter for parameter in inspect.signature(pure).parameters if parameter != "self")
            setattr(owner, name, extension.method(owner, name, pure, _text_signature(name, pure), parameters))


if native is not None:
    _install(native)

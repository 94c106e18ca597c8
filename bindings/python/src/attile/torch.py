# SPDX-License-Identifier: Apache-2.0
"""Operators for PyTorch 2.4 and later: torch.compile keeps them in its graph, and gradients come through them.

    import attile.torch
    o = attile.torch.attention(q, k, v, mask="causal_bottom_right")

They are torch.ops.attile.gemm, .attention and .attention_backward, for tensors on CPU and CUDA, on the default context (ATTILE_BACKEND). Results are new contiguous tensors. PyTorch takes 10 to 30 us
of host time to call an operator, and more where it follows a gradient; where neither that nor torch.compile is wanted, attile.gemm() and attile.attention() do the same without.
"""
# mypy: disable-error-code="import"
from __future__ import annotations

from typing import Any, Optional, Sequence, Union, cast

import torch
from torch import Tensor

from . import _structs as s
from ._versions import check_version

check_version("attile.torch", "PyTorch", torch.__version__, (2, 4), 3)

from ._sdpa import disable, enable, sdpa  # noqa: E402  (its own import needs what was looked at above)
from ._torch_call import TENSORS, attention_backward, call, empty_as, empty_out  # noqa: E402
from ._transformers import register_transformers  # noqa: E402

__all__ = ["attention", "disable", "enable", "gemm", "register_transformers", "sdpa"]

_untyped: Any = torch  # For functions of PyTorch that have no types.

_OF_FORWARD = ("block_table", "k_scale", "v_scale", "q_scale", "o_scale")  # behind TENSORS: what the backward call does not have

# Options of both calls of attention.
_NUMBERS = "float scale=0.0, float softcap=0.0, str? mask=None, SymInt[] window=[0, 0], SymInt max_len_q=0, SymInt max_len_k=0, int flags=0"
_SHARED = ", ".join(f"Tensor? {name}=None" for name in TENSORS)
_FORWARD = ", ".join(f"Tensor? {name}=None" for name in _OF_FORWARD)
_SCHEMAS = (
    "gemm(Tensor a, Tensor b, Tensor? c=None, Tensor? bias=None, *, float alpha=1.0, float beta=0.0, str? bias_axis=None, str? activation=None, int flags=0) -> Tensor",
    f"attention(Tensor q, Tensor k, Tensor v, {_SHARED}, {_FORWARD}, *, {_NUMBERS}, bool out_blhd=False, ScalarType? out_dtype=None) -> (Tensor, Tensor)",
    f"attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, {_SHARED}, Tensor? dlse=None, *, bool with_dbias=False, bool with_dsinks=False,"
    f" {_NUMBERS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


def _check_wide(a: Tensor, b: Tensor) -> None:
    for name, x in (("a", a), ("b", b)):
        torch._check(x.element_size() > 1, lambda: f"{name} is of {x.dtype}; numbers of 8 bits are for attile.gemm, which has their scales")


def _gemm(a: Tensor, b: Tensor, c: Optional[Tensor] = None, bias: Optional[Tensor] = None, **options: Any) -> Tensor:
    _check_wide(a, b)
    return cast(Tensor, call("gemm", a, b, **options, c=c, bias=bias))


def _out_of(q: Tensor, v: Tensor, blhd: bool, dtype: Optional[torch.dtype]) -> Tensor:
    """A new result of attention; of q's type, or of float32 where that has 8 bits."""
    dtype = dtype or (torch.float32 if q.element_size() == 1 else q.dtype)
    return empty_out(q, v, dtype) if blhd else q.new_empty((*q.shape[:3], v.shape[3]), dtype=dtype)


def _attention(q: Tensor, k: Tensor, v: Tensor, *tensors: Optional[Tensor], out_blhd: bool = False, out_dtype: Optional[torch.dtype] = None,
               **options: Any) -> tuple[Tensor, Tensor]:
    named: dict[str, Any] = dict(zip((*TENSORS, *_OF_FORWARD), tensors))
    out = _out_of(q, v, out_blhd, out_dtype) if out_blhd or out_dtype is not None else None
    return cast("tuple[Tensor, Tensor]", call("attention", q, k, v, out=out, lse=True, **options, **named))


def _gemm_fake(a: Tensor, b: Tensor, c: Optional[Tensor] = None, bias: Optional[Tensor] = None, **options: Any) -> Tensor:
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: f"a and b have {a.dim()} and {b.dim()} dimensions; at least 2 are expected")
    _check_wide(a, b)
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"a has {a.shape[-1]} columns and b {b.shape[-2]} rows; as many are expected")
    return a.new_empty((*_untyped.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))


def _attention_fake(q: Tensor, k: Tensor, v: Tensor, *tensors: Optional[Tensor], out_blhd: bool = False, out_dtype: Optional[torch.dtype] = None,
                    **options: Any) -> tuple[Tensor, Tensor]:
    for name, x in (("q", q), ("k", k), ("v", v)):
        torch._check(x.dim() == 4, lambda: f"{name} has {x.dim()} dimensions; 4 are expected")
    return _out_of(q, v, out_blhd, out_dtype), q.new_empty(q.shape[:3], dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)


def _attention_backward_fake(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *tensors: Optional[Tensor], with_dbias: bool = False,
                             with_dsinks: bool = False, **options: Any) -> tuple[Tensor, ...]:
    named = dict(zip(TENSORS, tensors))
    return *map(empty_as, (q, k, v)), empty_as(named["bias"]) if with_dbias else q.new_empty(0), empty_as(named["sinks"]) if with_dsinks else q.new_empty(0)


def _wanted(ctx: Any, count: int) -> list[bool]:
    """Which inputs ask for a gradient; PyTorch leaves out those at the end that were not given."""
    return [*ctx.needs_input_grad, *[False] * count][:count]


def _gemm_setup(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Tensor) -> None:
    a, b, c, bias = inputs
    ctx.options = keyword_only_inputs
    activation = ctx.options["activation"]
    if activation not in (None, "none", "relu"):
        raise RuntimeError(f"no gradient comes through activation={activation!r}: apply it to the result by PyTorch, or call under torch.no_grad()")
    ctx.save_for_backward(a, b, output if activation == "relu" else None)
    ctx.others = [None if x is None else (x.shape, x.dtype) for x in (c, bias)]


def _gemm_backward(ctx: Any, dout: Tensor) -> tuple[Optional[Tensor], ...]:
    a, b, out = ctx.saved_tensors
    options, (c, bias), wanted = ctx.options, ctx.others, _wanted(ctx, 4)
    if out is not None:
        dout = torch.where(out > 0, dout, 0)
    product, alpha, flags = torch.ops.attile.gemm, options["alpha"], options["flags"]
    da = product(dout, b.mT, alpha=alpha, flags=flags).sum_to_size(a.shape) if wanted[0] else None
    db = product(a.mT, dout, alpha=alpha, flags=flags).sum_to_size(b.shape) if wanted[1] else None
    dc = (options["beta"] * dout).sum_to_size(c[0]).to(c[1]) if wanted[2] else None
    return da, db, dc, _bias_gradient(dout, bias[0], bias[1], options["bias_axis"]) if wanted[3] else None


def _bias_gradient(dout: Tensor, shape: torch.Size, dtype: torch.dtype, bias_axis: Optional[str]) -> Tensor:
    """The sum over all axes along which a bias, [batch..., N] or [batch..., M], was broadcast: in one, so that it is rounded once."""
    extents = (*shape, 1) if bias_axis == "rows" else (*shape[:-1], 1, shape[-1])
    missing = dout.dim() - len(extents)
    return dout.sum([axis for axis in range(dout.dim()) if axis < missing or extents[axis - missing] == 1], dtype=dtype).reshape(shape)


def _attention_setup(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, *tensors, block_table, k_scale, v_scale, _, _ = inputs
    if block_table is not None:
        raise RuntimeError("no gradient comes through attention with a block_table: call under torch.no_grad()")
    if q.element_size() == 1:
        raise RuntimeError(f"q is of {q.dtype}, and no gradient comes through attention of 8 bits: call under torch.no_grad()")
    if output[0].dtype != q.dtype or keyword_only_inputs["flags"] & s.FLAG_FAST_ACCUMULATION:
        raise RuntimeError("no gradient comes through attention with an out_dtype other than q's, or with FLAG_FAST_ACCUMULATION: call under torch.no_grad()")
    for name, x, scale in (("k", k, k_scale), ("v", v, v_scale)):
        if x.dtype != q.dtype or scale is not None:
            raise RuntimeError(f"{name} is of {x.dtype} and q of {q.dtype}, and no gradient comes through attention of several types: call under torch.no_grad()")
    bias = tensors[TENSORS.index("bias")]
    if bias is not None and bias.dtype not in (q.dtype, torch.float32):
        raise RuntimeError(f"bias is of {bias.dtype} and q of {q.dtype}, and gradients take a bias of float32 or of q's type: convert it, or call under torch.no_grad()")
    slopes = tensors[TENSORS.index("alibi_slopes")]
    if slopes is not None and slopes.requires_grad:
        raise RuntimeError("alibi_slopes requires a gradient, and none comes through attention: give alibi_slopes.detach()")
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output, *tensors)
    ctx.options = {name: value for name, value in keyword_only_inputs.items() if name not in ("out_blhd", "out_dtype")}


def _attention_gradients(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> tuple[Optional[Tensor], ...]:
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    found: list[Optional[Tensor]] = [None] * (3 + len(TENSORS) + len(_OF_FORWARD))
    if dout is None and dlse is None:
        return tuple(found)
    bias, sinks = (3 + TENSORS.index(name) for name in ("bias", "sinks"))
    wanted = _wanted(ctx, len(found))
    dout = torch.zeros_like(out) if dout is None else dout
    *found[:3], dbias, dsinks = torch.ops.attile.attention_backward(dout, q, k, v, out, lse, *tensors, dlse, with_dbias=wanted[bias], with_dsinks=wanted[sinks], **ctx.options)
    if wanted[bias]:
        found[bias] = dbias
    if wanted[sinks]:
        found[sinks] = dsinks
    return tuple(found)


def _second_setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    pass


def _second_backward(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError("attention has no second derivatives here")


def _define() -> Any:
    library = _untyped.library.Library("attile", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    for name, run, fake, setup, backward in (("gemm", _gemm, _gemm_fake, _gemm_setup, _gemm_backward),
                                             ("attention", _attention, _attention_fake, _attention_setup, _attention_gradients),
                                             ("attention_backward", attention_backward, _attention_backward_fake, _second_setup, _second_backward)):
        for device in ("CPU", "CUDA"):
            library.impl(name, run, device)
        torch.library.register_fake(f"attile::{name}", fake, lib=library)
        torch.library.register_autograd(f"attile::{name}", backward, setup_context=setup, lib=library)
    return library


_library = _define()  # Its operators are there as long as it is.


def gemm(a: Tensor, b: Tensor, c: Optional[Tensor] = None, *, alpha: float = 1.0, beta: float = 0.0, bias: Optional[Tensor] = None, bias_axis: Optional[s.BiasAxis] = None,
         activation: Optional[s.Activation] = None, flags: int = 0) -> Tensor:
    """activation(alpha a b + beta c + bias) as attile.gemm(), in a new tensor.

    Gradients come to a, b, c and bias, without an activation or with "relu".
    """
    return cast(Tensor, torch.ops.attile.gemm(a, b, c, bias, alpha=alpha, beta=beta, bias_axis=bias_axis, activation=activation, flags=flags))


def attention(q: Tensor, k: Tensor, v: Tensor, *, lse: bool = False, scale: float = 0.0, softcap: float = 0.0, mask: Optional[s.Mask] = None, window: Sequence[int] = (0, 0),
              bias: Optional[Tensor] = None, allowed: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None, sinks: Optional[Tensor] = None,
              key_lengths: Optional[Tensor] = None, cu_len_q: Optional[Tensor] = None, cu_len_k: Optional[Tensor] = None, max_len_q: int = 0, max_len_k: int = 0,
              block_table: Optional[Tensor] = None, key_starts: Optional[Tensor] = None, causal_offset: Optional[Tensor] = None, block_mask: Optional[Tensor] = None,
              tree_mask: Optional[Tensor] = None, k_scale: Optional[Tensor] = None, v_scale: Optional[Tensor] = None, q_scale: Optional[Tensor] = None,
              o_scale: Optional[Tensor] = None, out_dtype: Optional[torch.dtype] = None, flags: int = 0) -> Union[Tensor, tuple[Tensor, Tensor]]:
    """Attention as attile.attention(), in a new tensor of ``out_dtype``, else of q's type, or float32 where q is of 8 bits; with ``lse`` (out, lse).

    Gradients come from both to q, k, v, bias and sinks by attile.attention_backward(); that of alibi_slopes, of paged keys, of k or v of another type than q and of 8 bits is refused.
    """
    out, found = torch.ops.attile.attention(q, k, v, bias, allowed, alibi_slopes, sinks, key_lengths, cu_len_q, cu_len_k, key_starts, causal_offset, block_mask, tree_mask,
                                            block_table, k_scale, v_scale, q_scale, o_scale, scale=scale, softcap=softcap, mask=mask, window=list(window), max_len_q=max_len_q,
                                            max_len_k=max_len_k, out_dtype=out_dtype, flags=flags)
    return (out, found) if lse else out

# SPDX-License-Identifier: Apache-2.0
"""Attention and products for JAX 0.5 and later, with gradients, under jax.jit, jax.grad and jax.vmap.

    from attile.jax import attention          # in place of jax.nn.dot_product_attention
    o = attention(q, k, v, is_causal=True)    # q [B, T, N, H], k and v [B, S, K, H]

XLA calls them as handlers of its FFI, on CPU, and on CUDA with the backend cuda. They run on the package's default context (ATTILE_BACKEND), which the import opens, and need the compiled extension (attile.compiled).
Gradients come by reverse mode (jax.grad, jax.vjp): first ones through attention, those of every order through matmul. Forward mode (jax.jvp, jax.hessian) raises JAX's TypeError.
"""
# mypy: disable-error-code="import,no-untyped-call"
from __future__ import annotations

import ctypes
import functools
import operator
from typing import Any, NamedTuple, Optional, Union, cast

import jax
import jax.numpy as jnp
import numpy as np

from . import _structs as s
from ._arrays import TYPES, tensor_of
from ._context import default_context
from ._extension import native
from ._library import AttileUnsupportedError, check, library
from ._versions import check_version

__all__ = ["attention", "matmul"]

Array = Any
"""An array of JAX, or what jax.numpy.asarray() takes."""


def _register() -> None:
    """Gives XLA the extension's handlers. They are found by name, so a compiled program that is loaded from a cache finds them, too."""
    check_version("attile.jax", "JAX", jax.__version__, (0, 5), 1)
    if native is None:
        raise ImportError("attile.jax needs the package's compiled extension, which is not there: it needs CPython 3.11 or later with a GIL, and a C compiler where pip builds it; "
                          "ATTILE_PYTHON_PURE=1 switches it off")
    library()
    on_gpu = default_context().info.device_type == s.DEVICE_CUDA  # Other backends cannot read the memory of a GPU; this one reads that of the host, too.
    for name, (on_host, on_stream) in native.xla_handlers().items():
        jax.ffi.register_ffi_target(f"attile_{name}", on_host, platform="cpu")
        if on_gpu:
            jax.ffi.register_ffi_target(f"attile_{name}", on_stream, platform="CUDA")


_register()

# The optional arrays of attention in the handlers' order, with their bits in the extension's xla.c and their names in the library's arguments.
_OPTIONAL = {"bias": (1, "bias"), "mask": (2, "allowed"), "key_value_seq_lengths": (4, "key_lengths"), "key_starts": (16, "key_starts"), "causal_offset": (32, "causal_offset"),
             "block_mask": (64, "block_mask"), "tree_mask": (128, "tree_mask")}
_WANTS_DBIAS = 8
_TRANSPOSED_A, _TRANSPOSED_B = 1, 2


def _call(name: str, results: Any, operands: tuple[Optional[Array], ...], **options: Any) -> Any:
    """The handler of that name. Under jax.vmap it sees the mapped axes first, and extents of 1 for what is not mapped."""
    scalars = {key: np.float64(value) if isinstance(value, float) else np.int64(value) for key, value in options.items()}
    return jax.ffi.ffi_call(f"attile_{name}", results, vmap_method="expand_dims")(*(x for x in operands if x is not None), **scalars)


def _like(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def _tensor(name: str, x: Array, heads: bool = False) -> s.Tensor:
    """Type, shape and strides, for a query; no data. `heads`: [B, L, H, D], seen as [B, H, L, D]."""
    if x.dtype.name not in TYPES:
        raise TypeError(f"{name} has elements of type {x.dtype.name}; one of {', '.join(TYPES)} is expected")
    found = tensor_of(0, TYPES[x.dtype.name], x.shape, None)
    if heads:
        for field in (found.shape, found.stride):
            field[1], field[2] = field[2], field[1]
    return found


def _ask(name: str, args: Any) -> None:
    """Raises what a call would raise, while JAX traces the program: an error of a handler comes later and names no line."""
    found = s.Support()
    check(getattr(library(), f"attile_{name}_query")(default_context()._handle, ctypes.byref(args), ctypes.byref(found)))
    if found.level == s.SUPPORT_NONE:
        raise AttileUnsupportedError(found.status, library().attile_status_name(found.status).decode(), found.text.decode())


class _Options(NamedTuple):
    """What of a call of attention is no array."""

    scale: float
    softcap: float
    mask: int
    left: int
    right: int


def _forward(options: _Options, q: Array, k: Array, v: Array, *optional: Optional[Array]) -> Any:
    """`optional`: as _OPTIONAL has them; None for those that are not given."""
    batch, rows, heads, _ = q.shape
    results = _like((batch, rows, heads, v.shape[3]), q.dtype), _like((batch, heads, rows), jnp.promote_types(q.dtype, jnp.float32))
    return tuple(_call("attention", results, (q, k, v, *optional), arrays=_given(optional), **options._asdict()))


def _given(optional: tuple[Optional[Array], ...]) -> int:
    return sum(bit for (bit, _), x in zip(_OPTIONAL.values(), optional) if x is not None)


_attention = jax.custom_vjp(_forward, nondiff_argnums=(0,))


def _attention_kept(options: _Options, *arrays: Any) -> Any:
    """The forward call under differentiation, and what the backward one needs. `arrays` also say which of them are followed."""
    values = tuple(x if x is None else x.value for x in arrays)
    out, lse = _forward(options, *values)
    bias = arrays[3]
    return (out, lse), (values, out, lse, () if bias is not None and bias.perturbed else None)


def _attention_gradients(options: _Options, kept: Any, cotangents: Any) -> Any:
    (q, k, v, *optional), out, lse, follows_bias = kept
    dout, _ = cotangents  # None comes from lse, as in JAX.
    if isinstance(dout, jax.custom_derivatives.SymbolicZero):
        return (None,) * (3 + len(optional))
    results = tuple(_like(x.shape, x.dtype) for x in (q, k, v))
    has = _given(tuple(optional))
    if follows_bias is not None:
        bias = cast(Array, optional[0])
        results, has = (_like(bias.shape, bias.dtype), *results), has | _WANTS_DBIAS
    found = _call("attention_backward", results, (dout, q, k, v, out, lse, *optional), arrays=has, **options._asdict())
    return (*found[-3:], found[0] if follows_bias is not None else None, *(None,) * (len(optional) - 1))


_attention.defvjp(_attention_kept, _attention_gradients, symbolic_zeros=True)


def _expect(name: str, x: Array, shape: tuple[Optional[int], ...], axes: str) -> None:
    if x.ndim != len(shape) or any(wanted not in (None, extent) for wanted, extent in zip(shape, x.shape)):
        numbers = ", ".join(axis if wanted is None else str(wanted) for axis, wanted in zip(axes, shape))
        raise ValueError(f"{name} has shape {x.shape}; [{', '.join(axes)}] = [{numbers}] is expected")


def _to_rank(rank: int, x: Array) -> Array:
    """With axes of 1 in front, as jax.nn.dot_product_attention adds them to 4."""
    return x.reshape((1,) * (rank - x.ndim) + x.shape)


def _mask_of(is_causal: bool, window: Union[None, int, tuple[int, int]]) -> tuple[int, int, int]:
    """Attile's mask, and how many keys before and behind the diagonal are seen."""
    if window is None:
        return s.MASKS["causal_top_left" if is_causal else None], 0, 0
    try:
        left, right = (window, window) if isinstance(window, int) else map(operator.index, window)
    except (TypeError, ValueError):
        raise ValueError(f"local_window_size is {window!r}; a number or a pair (left, right) is expected") from None
    if left < 0 or right < 0:
        raise ValueError(f"local_window_size is {window!r}; numbers from 0 are expected")
    return s.MASKS["window_top_left"], left, 0 if is_causal else right


def attention(query: Array, key: Array, value: Array, bias: Optional[Array] = None, mask: Optional[Array] = None, *, scale: Optional[float] = None, is_causal: bool = False,
              query_seq_lengths: Optional[Array] = None, key_value_seq_lengths: Optional[Array] = None, local_window_size: Union[None, int, tuple[int, int]] = None,
              implementation: None = None, return_residual: bool = False, softcap: float = 0.0, key_starts: Optional[Array] = None, causal_offset: Optional[Array] = None,
              block_mask: Optional[Array] = None, tree_mask: Optional[Array] = None) -> Any:
    """Attention with the arguments of jax.nn.dot_product_attention, by attile_attention().

    query [B, T, N, H], key [B, S, K, H], value [B, S, K, Hv], or all without B, of one of float32, float64, float16, bfloat16; N is a multiple of K, and Hv may differ from H. The result is
    [B, T, N, Hv] of that type; with ``return_residual`` it is (result, log-sum-exp [B, T, N]), the latter in float32, or float64 of float64, and no gradient comes from it.

    ``bias`` is added to the scores and ``mask`` (bool) hides keys where it is False; both broadcast to [B, N, T, S]. ``is_causal`` hides keys behind the row's own number, ``local_window_size``
    (left, right) those farther away. Lengths are int32 [B]: rows from ``query_seq_lengths`` on give 0 and keys from ``key_value_seq_lengths`` on are not seen. ``scale`` and ``softcap`` are numbers, not traced.

    The rest is Attile's own. ``key_starts``, int32 [B], hides the keys before each entry's first one: left padding. ``causal_offset``, int32 [B], puts the diagonal of ``is_causal`` and
    ``local_window_size`` at key i + offset of row i, as where a cache holds the keys before the rows. ``block_mask`` (bool) broadcasts to [B, N, ceil(T / 128), ceil(S / 128)] and hides blocks of
    128 rows by 128 keys where it is False; ``tree_mask`` (bool) is [B, N, T, D], all but D broadcast, for the last D keys, drafts: False hides one.

    Unlike JAX's own, a row that sees no key gives 0 (and -inf as its residual), not the mean of all values. ``implementation`` must be None.
    Gradients come to query, key, value and bias. Arguments that are wrong raise ValueError or TypeError, or AttileError with the library's sentence, while JAX traces the call.
    """
    if implementation is not None:
        raise ValueError(f"implementation is {implementation!r}; None is expected, the backend is chosen by ATTILE_BACKEND")
    q, k, v = (jnp.asarray(x) for x in (query, key, value))
    shape = q.shape
    if q.ndim not in (3, 4):
        raise ValueError(f"query has shape {shape}; [B, T, N, H] or [T, N, H] is expected")
    for name, x in (("key", k), ("value", v)):
        if x.ndim != q.ndim:
            raise ValueError(f"{name} has shape {x.shape}; {q.ndim} dimensions as of query are expected")
        if x.dtype != q.dtype:
            raise ValueError(f"{name} has elements of type {x.dtype}; {q.dtype} as of query is expected")
    q, k, v = (_to_rank(4, x) for x in (q, k, v))
    batch, length, heads, width = q.shape
    _expect("key", k, (batch, None, None, width), "BSKH")
    _expect("value", v, (*k.shape[:3], None), "BSKH")
    arrays: dict[str, Optional[Array]] = {"bias": bias, "mask": mask, "block_mask": block_mask, "tree_mask": tree_mask}
    for name, array in arrays.items():
        if array is None:
            continue
        given = jnp.asarray(array)
        array = arrays[name] = _to_rank(4, given)
        if name in ("bias", "mask"):
            if array.ndim != 4 or any(own not in (1, full) for own, full in zip(array.shape, (batch, heads, length, k.shape[1]))):
                raise ValueError(f"{name} has shape {given.shape}; one that broadcasts to [B, N, T, S] = {[batch, heads, length, k.shape[1]]} is expected")
        elif not 1 <= given.ndim <= 4:
            raise ValueError(f"{name} has shape {given.shape}; 1 to 4 dimensions are expected")
        if name != "bias" and array.dtype != bool:
            raise ValueError(f"{name} has elements of type {array.dtype}; bool is expected" + (": give what is added to scores as bias" if name == "mask" else ""))
        if name == "bias" and array.dtype not in (q.dtype, jnp.float32):
            arrays[name] = array.astype(jnp.promote_types(q.dtype, jnp.float32))
    arrays |= {"query_seq_lengths": query_seq_lengths, "key_value_seq_lengths": key_value_seq_lengths, "key_starts": key_starts, "causal_offset": causal_offset}
    for name in ("query_seq_lengths", "key_value_seq_lengths", "key_starts", "causal_offset"):
        if arrays[name] is not None:
            array = arrays[name] = jnp.asarray(arrays[name])
            _expect(name, array, (batch,), "B")
            if array.dtype != jnp.int32:
                raise ValueError(f"{name} has elements of type {array.dtype}; int32 is expected")
    if scale is not None and float(scale) == 0:
        raise ValueError("scale is 0; another number, or None for 1 / sqrt(H), is expected")
    options = _Options(float(scale or 0), float(softcap), *_mask_of(is_causal, local_window_size))
    optional = tuple(arrays[name] for name in _OPTIONAL)
    _ask_attention(options, q, k, v, optional)
    out, lse = _attention(options, q, k, v, *optional)
    lse = lse.transpose(0, 2, 1)
    rows = arrays["query_seq_lengths"]
    if rows is not None:
        counts = jnp.arange(length)[None, :, None] < rows[:, None, None]
        out, lse = jnp.where(counts[..., None], out, 0), jnp.where(counts, lse, -jnp.inf)
    out = out.reshape(*shape[:-1], v.shape[3])
    return (out, lse.reshape(shape[:-1])) if return_residual else out


def _ask_attention(options: _Options, q: Array, k: Array, v: Array, optional: tuple[Optional[Array], ...]) -> None:
    args = s.AttentionArgs(scale=options.scale, softcap=options.softcap, mask=options.mask, window_left=options.left, window_right=options.right)
    args.q, args.k, args.v = (_tensor(name, x, heads=True) for name, x in (("query", q), ("key", k), ("value", v)))
    args.o = _tensor("the result", _like((*q.shape[:3], v.shape[3]), q.dtype), heads=True)
    for (name, (_, field)), x in zip(_OPTIONAL.items(), optional):
        if x is not None:
            setattr(args, field, _tensor(name, x))
    _ask("attention", args)


class _Product(NamedTuple):
    """What of a product is not an array: which operands are transposed, and the result's type."""

    transposed: int
    dtype: Any


def _multiply(options: _Product, a: Array, b: Array) -> Any:
    rows = a.shape[-1 if options.transposed & _TRANSPOSED_A else -2]
    columns = b.shape[-2 if options.transposed & _TRANSPOSED_B else -1]
    result = _like((*jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns), options.dtype)
    return _call("gemm", result, (a, b), transposed=options.transposed)


_product = jax.custom_vjp(_multiply, nondiff_argnums=(0,))


def _product_kept(options: _Product, a: Array, b: Array) -> Any:
    return _product(options, a, b), (a, b)


def _product_gradients(options: _Product, kept: Any, dout: Array) -> Any:
    a, b = kept
    dout = dout.astype(a.dtype)
    transposed_a, transposed_b = bool(options.transposed & _TRANSPOSED_A), bool(options.transposed & _TRANSPOSED_B)

    def product(transpose_x: bool, x: Array, transpose_y: bool, y: Array) -> Any:
        return _product(_Product(transpose_x * _TRANSPOSED_A | transpose_y * _TRANSPOSED_B, a.dtype), x, y)

    da = product(transposed_b, b, True, dout) if transposed_a else product(False, dout, not transposed_b, b)
    db = product(True, dout, transposed_a, a) if transposed_b else product(not transposed_a, a, False, dout)
    return _sum_to(da, a.shape), _sum_to(db, b.shape)


def _sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """The sum over axes along which an operand of that shape was broadcast."""
    x = x.sum(tuple(range(x.ndim - len(shape))))
    return x.sum(tuple(axis for axis, extent in enumerate(shape) if extent == 1 != x.shape[axis]), keepdims=True)


_product.defvjp(_product_kept, _product_gradients)


def matmul(a: Array, b: Array, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """a b as jax.numpy.matmul(), by attile_gemm(): a [..., M, K] and b [..., K, N], whose leading axes broadcast, or vectors.

    float32, float64, float16 and bfloat16, promoted to one type. Sums are in float32, of float64 in float64, so every ``precision`` of JAX is met and the argument changes nothing.
    ``preferred_element_type`` is the result's type: that of the operands, or float32 of float16 and bfloat16. Gradients of every order come to a and b.
    """
    del precision
    a, b = jnp.asarray(a), jnp.asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}; at least one dimension of each is expected")
    dtype = jnp.promote_types(a.dtype, b.dtype)
    left, right = a.astype(dtype), b.astype(dtype)
    left, right = left[None] if a.ndim == 1 else left, right[:, None] if b.ndim == 1 else right
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}; as many columns of a as rows of b are expected")
    try:
        leading = jnp.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}; leading axes that broadcast are expected") from None
    if right.ndim == 2:  # One product with all rows.
        left = left.reshape(-1, left.shape[-1]) if left.size else left.reshape(int(np.prod(left.shape[:-1])), left.shape[-1])
    rank = max(left.ndim, right.ndim)  # jax.vmap puts its axes in front of each operand, so all axes behind them must be there.
    left, right = (_to_rank(rank, x) for x in (left, right))
    found = np.dtype(dtype if preferred_element_type is None else preferred_element_type)
    args = s.GemmArgs(alpha=1.0, a=_tensor("a", _like(left.shape[-2:], dtype)), b=_tensor("b", _like(right.shape[-2:], dtype)),
                      d=_tensor("preferred_element_type", _like((left.shape[-2], right.shape[-1]), found)))
    _ask("gemm", args)
    out = _product(_Product(0, found), left, right)
    out = out.reshape(*leading, *([] if a.ndim == 1 else [a.shape[-2]]), right.shape[-1])
    return out[..., 0] if b.ndim == 1 else out

# SPDX-License-Identifier: Apache-2.0
"""Quantisation, caches and other libraries' formats: operations of a context, beside those in _context.py."""
from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple

from . import _structs as s
from ._arrays import Array, empty_like
from ._call import Call


class Quantised:
    """Operations of Context."""

    _run: Callable[..., None]
    _query: Callable[..., Any]

    def quantize(self, x: Array, out: Array, scale: Optional[Array] = None, *, given: bool = False, hadamard: int = 0, zero: Optional[Array] = None,
                 rope: Optional[Sequence[Array]] = None, interleaved: bool = False, positions: Optional[Array] = None, key_lengths: Optional[Array] = None,
                 append: bool = False, block_table: Optional[Array] = None, flags: int = 0, stream: Optional[int] = None, workspace: Optional[Array] = None,
                 query: bool = False) -> Any:
        """Numbers of 8 bits from x into ``out``, of x's shape and the type that it has, or of 4 bits into FourBits, unsigned ones with ``zero`` points. ``scale``, whose shape says which numbers share one, is written, or read if it is
        ``given`` (None: 1); floats of 32 and 16 bits have none. ``hadamard`` numbers along the last axis are rotated together. ``rope`` is (cos, sin), float32 of [positions, pairs]: pairs of each row's first numbers, neighbours if ``interleaved``,
        are rotated before by the angles of its place in ``positions``, or of its key. With ``append`` ``out`` is a cache as attention takes it, to which rows become the last of ``key_lengths`` keys, in pages if there is a ``block_table``.
        Returns (out, scale). ``query=True`` returns a Support."""
        call = Call(s.QuantizeArgs(scale_mode=int(given), hadamard=hadamard, rope_layout=int(interleaved), append=int(append)))
        call.put("x", x)
        call.put("q", out, output=True)
        call.put("scale", scale, output=not given)
        call.put("zero", zero, output=not given)
        cosines, sines = rope if rope is not None else (None, None)
        call.put("rope_cos", cosines)
        call.put("rope_sin", sines)
        call.put("positions", positions)
        call.put("key_lengths", key_lengths)
        call.put("block_table", block_table)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("quantize", call)
        self._run("quantize", call)
        return out, scale

    def dequantize(self, q: Array, scale: Optional[Array], out: Optional[Array] = None, *, hadamard: int = 0, zero: Optional[Array] = None, flags: int = 0,
                   stream: Optional[int] = None, workspace: Optional[Array] = None, query: bool = False) -> Any:
        """Back: scale q, rotated back, into ``out``, which is of ``scale``'s type if it is not given. Returns ``out``. ``query=True`` returns a Support."""
        call = Call(s.DequantizeArgs(hadamard=hadamard))
        call.put("q", q)
        call.put("scale", scale)
        call.put("zero", zero)
        if out is None:
            if scale is None:
                raise ValueError("out is expected where scale is not given")
            out = empty_like(scale, tuple(call.args.q.shape[: call.args.q.rank]))
        call.put("x", out, output=True)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("dequantize", call)
        self._run("dequantize", call)
        return out

    def repack(self, blocks: Array, form: str, out: Array, scale: Array, zero: Optional[Array] = None, *, flags: int = 0, stream: Optional[int] = None,
               workspace: Optional[Array] = None, query: bool = False) -> Any:
        """ggml's ``blocks``, uint8 of [.., bytes], of the form "Q8_0", "Q4_0", "Q4_K" or "Q6_K", into ``out`` [.., K] of int8 (Q8_0, Q6_K) or FourBits, ``scale`` [.., K / 32] and, of Q4_K, ``zero`` points.
        Returns (out, scale, zero). ``query=True`` returns a Support."""
        if form not in s.GGML_FORMATS:
            raise ValueError(f"form is {form!r}; expected one of {', '.join(s.GGML_FORMATS)}")
        call = Call(s.RepackArgs(format=s.GGML_FORMATS[form]))
        call.put("blocks", blocks)
        call.put("q", out, output=True)
        call.put("scale", scale, output=True)
        call.put("zero", zero, output=True)
        call.finish(stream, flags, workspace)
        if query:
            return self._query("repack", call)
        self._run("repack", call)
        result: Tuple[Array, Array, Optional[Array]] = (out, scale, zero)
        return result

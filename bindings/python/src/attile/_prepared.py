# SPDX-License-Identifier: Apache-2.0
"""Calls that are validated and planned once, and launched many times with other arrays."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional

from . import _structs as s
from ._arrays import Array, stream_of
from ._call import CALLED, Call
from ._extension import PreparedBase
from ._library import check, library

if TYPE_CHECKING:
    from ._context import Context


def _layout(tensor: s.Tensor) -> tuple[Any, ...]:
    """What launches may not change: type, extents, and the strides that matter."""
    extents = tuple(tensor.shape[: tensor.rank])
    return tensor.dtype, extents, tuple(tensor.stride[axis] if extents[axis] > 1 else 0 for axis in range(tensor.rank))


def _said(tensor: s.Tensor) -> str:
    return f"type 0x{tensor.dtype:04x}, shape {tuple(tensor.shape[: tensor.rank])} and strides {tuple(tensor.stride[: tensor.rank])} in elements"


class Prepared(PreparedBase):
    """A call of gemm() or attention() that was validated and planned once. Context.prepare_gemm() and Context.prepare_attention() make it.

    It keeps its context and the arrays that it was prepared with, the workspace too. Any number of threads may launch one prepared call at once, each with outputs of
    its own, and with a workspace of its own if it was prepared with one.
    """

    def __init__(self, context: "Context", operation: str, call: Call, out: Array, lse: Optional[Array] = None, workspace: Optional[Array] = None):
        handle = ctypes.c_void_p()
        check(getattr(library(), f"attile_{operation}_prepare")(context._handle, ctypes.byref(call.args), ctypes.byref(handle)))
        self._handle: int = handle.value or 0
        self._is_attention = int(operation == "attention")
        self._args: int = ctypes.addressof(call.args)
        self._context, self._operation, self._call = context, operation, call
        self._kept = out, lse, workspace, call.on_gpu  # In the order in which the extension knows them.
        self._fields = {CALLED.get(name, name): name for name, *_ in s.PREPARED[operation]._fields_[6:]}  # behind the head that all structs have

    def close(self) -> None:
        """Releases the plan; work that was launched goes on. Later launches fail."""
        handle, self._handle = self._handle, 0
        if handle:
            library().attile_prepared_destroy(handle)

    def __enter__(self) -> "Prepared":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def run(self, *, stream: Optional[int] = None, workspace: Optional[Array] = None, **arrays: Array) -> Any:
        """Launch the call with the arrays named, as gemm() and attention() name them; the others are those it was prepared with.

        Types, shapes and strides must be those that were prepared. ``stream`` is the current stream unless it is given. Returns what the call returns.
        """
        out, lse, prepared_workspace, on_gpu = self._kept
        outputs = {name: array for name, array in (("out", out), ("lse", lse)) if array is not None}
        pointers: Any = s.PREPARED[self._operation]()
        call = Call(pointers)
        for name, array in arrays.items():
            if name not in self._fields:
                raise TypeError(f"run() got an unexpected keyword argument '{name}'; a prepared {self._operation} has {', '.join(self._fields)}")
            self._replace(call, name, array)
        for name, array in outputs.items():
            if name not in arrays:
                self._replace(call, name, array)  # Its stream is the current one, and it is written.
        call.finish(stream, 0, prepared_workspace if workspace is None else workspace)
        if stream is None and not call.stream and on_gpu is not None:
            pointers.stream = stream_of(on_gpu, call.streams)
        status = getattr(library(), f"attile_{self._operation}_run")(self._handle, ctypes.byref(pointers))
        try:
            check(status)
        finally:
            call.wrote(status)
        out, lse = arrays.get("out", out), arrays.get("lse", lse)
        return out if lse is None else (out, lse)

    def _replace(self, call: Call, name: str, array: Array) -> None:
        """Another array for an operand, of the same type, extents and strides."""
        found = call.look(name, array, output=name in ("out", "lse"))
        prepared = getattr(self._call.args, self._fields[name])
        if not prepared.dtype:
            raise ValueError(f"{name} is given, and the call was prepared without it")
        if _layout(found.tensor) != _layout(prepared):
            raise ValueError(f"{name} has {_said(found.tensor)}; the call was prepared for {_said(prepared)}")
        setattr(call.args, self._fields[name], found.tensor.data)
        call.stream = call.stream or found.stream

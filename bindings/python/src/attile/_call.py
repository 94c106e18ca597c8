# SPDX-License-Identifier: Apache-2.0
"""What the operations share: names of choices, and the arrays of one call."""
from __future__ import annotations

from typing import Any, Mapping, Optional

from . import _structs as s
from ._arrays import Array, View, dense_bytes, has_current_stream, mark_written, view


def choose(table: Mapping[Any, int], what: str, value: Optional[str]) -> int:
    try:
        return table[value]
    except (KeyError, TypeError):
        names = ", ".join(repr(name) for name in table if name)
        raise ValueError(f"{what} is {value!r}; expected one of {names}") from None


CALLED = {"d": "out", "o": "out", "y": "out"}  # An argument whose field in the struct has another name.


class Call:
    """Collects the arrays of one call: fills the struct, keeps the memory alive, finds the stream."""

    def __init__(self, args: Any):
        self.args = args
        self.views: list[View] = []
        self.stream = 0
        self.written: list[Array] = []
        self.streams: dict[Any, int] = {}  # of each device, as its arrays' library says
        self.on_gpu: Optional[Array] = None  # One to ask for the stream of a later launch, best one whose library knows the current stream.

    def look(self, name: str, array: Array, output: bool = False) -> View:
        """An array of the call, as the caller names it."""
        found = view(array, self.streams, name)
        if output:
            if found.refusal:
                raise ValueError(f"{name} {found.refusal}")
            self.written.append(array)
        if found.device != s.DEVICE_CPU and (self.on_gpu is None or not has_current_stream(self.on_gpu)):
            self.on_gpu = array
        self.views.append(found)
        return found

    def put(self, name: str, array: Optional[Array], output: bool = False) -> None:
        if array is None:
            return
        found = self.look(CALLED.get(name, name), array, output)
        setattr(self.args, name, found.tensor)
        self.stream = self.stream or found.stream

    def finish(self, stream: Optional[int], flags: int, workspace: Optional[Array]) -> None:
        self.args.stream = self.stream if stream is None else stream
        self.args.flags = flags
        if workspace is not None:
            found = self.look("workspace", workspace, output=True)
            self.args.workspace, self.args.workspace_bytes = found.tensor.data, dense_bytes(found.tensor)

    def wrote(self, status: int) -> None:
        """After a call: what it has written, which is nothing where it refused its arguments, could not do them or had no memory."""
        if status // 1000 not in (1, 2, 4):
            for array in self.written:
                mark_written(array)


def gemm_shape(a: s.Tensor, b: s.Tensor) -> tuple[int, ...]:
    """Shape of a b by the broadcasting rules. Wrong inner extents are the library's to report, so they are not looked at."""
    if a.rank < 2 or b.rank < 2:
        raise ValueError(f"a and b have {a.rank} and {b.rank} dimensions; at least 2 are expected")
    batch: list[int] = []
    for back in range(3, max(a.rank, b.rank) + 1):
        extents = [t.shape[t.rank - back] for t in (a, b) if t.rank >= back]
        batch.insert(0, extents[0] if len(extents) == 1 or extents[0] != 1 else extents[1])
    return (*batch, a.shape[a.rank - 2], b.shape[b.rank - 1])

# SPDX-License-Identifier: Apache-2.0
"""Attention where sequences are spread over ranks, and products of matrices in blocks: threads, ranks of MPI or NCCL, processes of PyTorch.

    import attile.distributed
    from mpi4py import MPI
    with attile.distributed.Communicator.mpi(MPI.COMM_WORLD) as ranks:
        mine = ranks.positions("zigzag", 4096)  # of the whole sequence; q, k and v have these rows of it
        o = ranks.attention(q, k, v, layout="zigzag", mask="causal_top_left")

Every rank makes the same calls in the same order, and waits for the others. Formulas, layouts and methods are those of attile_distributed.h and docs/distributed.md.
"""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Optional, Sequence, Union

import numpy as np

from . import _structs as s
from ._arrays import Array
from ._call import Call, choose
from ._context import LEVELS, Context, default_context
from ._library import AttileError, check, library
from ._transports import Bridge, ProcessGroup, Transport, nccl_communicator

__all__ = ["REPLICATED", "Communicator", "CommunicatorInfo", "DistributedSupport", "Matrix", "Transport", "positions"]

REPLICATED = s.REPLICATED  # A source: every row, or column, of the grid has all.


@dataclasses.dataclass(frozen=True)
class CommunicatorInfo:
    """What a communicator is, and whether it still works: ``status`` is 0, or why it refuses work, and ``text`` says that as a sentence.

    ``transport_seconds`` is the time that this rank's calls have spent sending, and waiting for other ranks.
    """

    kind: str
    rank: int
    ranks: int
    timeout_seconds: float
    calls: int
    status: int
    text: str
    transport_seconds: float


@dataclasses.dataclass(frozen=True)
class DistributedSupport:
    """How a call over ranks would run: ``method`` is the one that would be used, ``text`` says why, ``bytes_sent`` is what a rank sends, ``flops`` are those of all ranks."""

    level: str
    status: int
    method: str
    kernel: str
    text: str
    bytes_sent: int
    flops: float


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A matrix whose blocks go round a grid of ranks, as attile_distributed_matrix has it, and what this rank has of it.

    ``local`` is this rank's rows and columns, in any strides; ``shape`` that of the whole matrix. ``grid``: rows and columns of ranks, ranks numbered along its ``order``,
    "rows" or "columns"; without it one row of all ranks. ``block``: rows and columns of a block; 0 cuts evenly. ``source``: row and column of the grid that have the first
    block, or REPLICATED. ``origin``: where the part that a call works on begins.
    """

    local: Array
    shape: "tuple[int, int]"
    grid: "Optional[tuple[int, int]]" = None
    order: s.GridOrder = "rows"
    block: "tuple[int, int]" = (0, 0)
    source: "tuple[int, int]" = (0, 0)
    origin: "tuple[int, int]" = (0, 0)

    def struct(self) -> s.DistributedMatrix:
        """All of it but ``local``."""
        made = s.DistributedMatrix(rows=self.shape[0], columns=self.shape[1], block_rows=self.block[0], block_columns=self.block[1], source_row=self.source[0],
                                   source_column=self.source[1], row=self.origin[0], column=self.origin[1])
        if self.grid is not None:
            made.grid = ctypes.pointer(s.Grid(rows=self.grid[0], columns=self.grid[1], order=choose(s.GRID_ORDERS, "order", self.order)))
        return made

    def local_shape(self, rank: int, ranks: int) -> "tuple[int, int]":
        """The rows and columns that a rank has of the whole matrix, whatever ``local`` is."""
        rows, columns = ctypes.c_int64(), ctypes.c_int64()
        check(library().attile_distributed_extents(ctypes.byref(self.struct()), rank, ranks, ctypes.byref(rows), ctypes.byref(columns)))
        return rows.value, columns.value

    def rest(self) -> "tuple[int, int]":
        """Rows and columns from the origin on."""
        return self.shape[0] - self.origin[0], self.shape[1] - self.origin[1]


def positions(layout: s.Shards, length: int, rank: int, ranks: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Positions of a sequence that a rank has, in the order of its rows; "contiguous" as it is cut evenly."""
    number = choose(s.SHARDS, "layout", layout)
    parts = []
    for part in range(2 if layout == "zigzag" else 1):
        first, count, stride = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_int64()
        check(library().attile_shard_part(number, length, rank, ranks, part, ctypes.byref(first), ctypes.byref(count), ctypes.byref(stride)))
        parts.append(first.value + stride.value * np.arange(count.value, dtype=np.int64))
    return np.concatenate(parts)


class Communicator:
    """One rank's end of a group of ranks. Made by threads(), mpi(), nccl(), process_group() or callbacks(), which wait until all ranks have come.

    What they share: ``context`` is what this rank computes on (None: the default one, by ATTILE_BACKEND), ``timeout`` the longest wait for another rank in seconds (0: what
    ATTILE_COMM_TIMEOUT says, else 600), and with ``mixed_backends`` ranks may have contexts of different backends. One call at a time on a communicator.
    """

    def __init__(self, options: s.CommOptions, context: Optional[Context], timeout: float, mixed_backends: bool, bridge: Optional[Bridge] = None):
        self._handle = 0
        self._context = default_context() if context is None else context
        self._bridge = bridge
        options.timeout_seconds, options.flags = timeout, int(mixed_backends)
        handle = ctypes.c_void_p()
        self._check(library().attile_comm_create(self._context._handle, ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value or 0
        found = self.info
        self.rank: int = found.rank
        self.ranks: int = found.ranks

    @classmethod
    def threads(cls, rank: int, ranks: int, group: int = 0, *, context: Optional[Context] = None, timeout: float = 0.0, mixed_backends: bool = False) -> "Communicator":
        """A rank that is a thread of this process; threads that name the same ``group`` find each other."""
        return cls(s.CommOptions(kind=b"threads", rank=rank, ranks=ranks, group=group), context, timeout, mixed_backends)

    @classmethod
    def mpi(cls, comm: Any = None, *, context: Optional[Context] = None, timeout: float = 0.0, mixed_backends: bool = False) -> "Communicator":
        """A rank of MPI. ``comm`` is a communicator of mpi4py, or the integer that Fortran has for one; None is MPI_COMM_WORLD.

        MPI is initialised in this process, by ``from mpi4py import MPI`` for one. Messages travel in a duplicate of the communicator.
        """
        handle = 0 if comm is None else comm if isinstance(comm, int) else comm.py2f() if hasattr(comm, "py2f") else None
        if handle is None:
            raise TypeError(f"comm is a {type(comm).__name__}; expected a communicator of mpi4py, Fortran's integer for one, or None")
        return cls(s.CommOptions(kind=b"mpi", communicator=handle), context, timeout, mixed_backends)

    @classmethod
    def nccl(cls, comm: Any = None, *, context: Optional[Context] = None, timeout: float = 0.0, mixed_backends: bool = False) -> "Communicator":
        """A rank of NCCL, or with the backend hip of RCCL. ``comm`` is an ncclComm_t as an integer, or a process group of torch.distributed that has one; None is the default group.

        It is on the device of ``context``, and outlives this communicator. Messages travel in a split of it; nothing else uses it until this returns. A group of PyTorch has
        one after ``init_process_group("nccl", device_id=...)`` or its first collective call.
        """
        return cls(s.CommOptions(kind=b"nccl", communicator=nccl_communicator(comm)), context, timeout, mixed_backends)

    @classmethod
    def process_group(cls, group: Any = None, *, context: Optional[Context] = None, timeout: float = 0.0, mixed_backends: bool = False) -> "Communicator":
        """A process of torch.distributed. ``group`` is a process group that takes tensors in host memory, as gloo's do; None is the default one.

        Messages travel in that group, under a tag of their own. After a rank was late or failed, the group may be unusable, too.
        """
        transport = ProcessGroup(group)
        return cls.callbacks(transport, transport.rank, transport.ranks, context=context, timeout=timeout, mixed_backends=mixed_backends)

    @classmethod
    def callbacks(cls, transport: Transport, rank: int, ranks: int, *, context: Optional[Context] = None, timeout: float = 0.0, mixed_backends: bool = False) -> "Communicator":
        """A rank whose messages ``transport`` carries. It must not call Attile. A method ``give_up(why)``, if it has one, is called when this rank cannot go on."""
        bridge = Bridge(transport)
        options = s.CommOptions(kind=b"callbacks", rank=rank, ranks=ranks, callbacks=ctypes.pointer(bridge.callbacks))
        return cls(options, context, timeout, mixed_backends, bridge)

    def close(self) -> None:
        """Leave the group. Later calls fail. With MPI, before MPI ends."""
        handle, self._handle = self._handle, 0
        if handle:
            library().attile_comm_destroy(handle)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self.close()

    @property
    def context(self) -> Context:
        """What this rank computes on."""
        return self._context

    @property
    def info(self) -> CommunicatorInfo:
        """What the communicator is, and whether it still works. Asks no other rank."""
        found = s.CommInfo()
        check(library().attile_comm_get_info(self._handle, ctypes.byref(found)))
        return CommunicatorInfo(found.kind.decode(), found.rank, found.ranks, found.timeout_seconds, found.calls, found.status, found.text.decode("utf-8", "replace"),
                                found.transport_seconds)

    def positions(self, layout: s.Shards, length: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Positions of a sequence that this rank has."""
        return positions(layout, length, self.rank, self.ranks)

    def attention(self, q: Array, k: Array, v: Array, *, layout: s.Shards = "contiguous", method: s.Method = "auto", replicated: bool = False, len_q: int = 0,
                  len_k: int = 0, out: Optional[Array] = None, lse: Union[None, bool, Array] = None, scale: float = 0.0, softcap: float = 0.0,
                  mask: Optional[s.Mask] = None, window: Sequence[int] = (0, 0), bias: Optional[Array] = None, allowed: Optional[Array] = None,
                  alibi_slopes: Optional[Array] = None, sinks: Optional[Array] = None, key_lengths: Optional[Array] = None, cu_len_q: Optional[Array] = None,
                  cu_len_k: Optional[Array] = None, max_len_q: int = 0, max_len_k: int = 0, flags: int = 0, stream: Optional[int] = None, query: bool = False) -> Any:
        """Context.attention() over the rows and keys of all ranks: q, k and v are this rank's shard, and so are the results. Returns when they are in place.

        ``layout``: "contiguous", "zigzag" or "striped", of rows and keys. ``method``: "auto", "ring", "all_gather", "all_to_all", or "tree" with ``replicated``, where every
        rank has all rows of q, and keys are spread. ``len_q``, ``len_k``: rows and keys of all ranks; 0: every rank has as many as this one. ``bias`` and ``allowed`` have the
        shard's rows and all keys. ``query=True`` returns a DistributedSupport, and asks no other rank.
        """
        call = self._context._forward(q, k, v, scale=scale, softcap=softcap, mask=mask, window=window, bias=bias, allowed=allowed, alibi_slopes=alibi_slopes, sinks=sinks,
                                      key_lengths=key_lengths, cu_len_q=cu_len_q, cu_len_k=cu_len_k, max_len_q=max_len_q, max_len_k=max_len_k, block_table=None)
        out, lse = self._context._results(call, q, out, lse)
        call.finish(stream, flags, None)
        args = s.AttentionDistributedArgs(local=ctypes.pointer(call.args), rows=s.ROWS_REPLICATED if replicated else s.ROWS_SHARDED)
        found = self._run("attention", args, call, layout, method, len_q, len_k, query)
        return found or (out if lse is None else (out, lse))

    def attention_backward(self, dout: Array, q: Array, k: Array, v: Array, out: Array, lse: Array, *, layout: s.Shards = "contiguous", method: s.Method = "auto",
                           len_q: int = 0, len_k: int = 0, dq: Optional[Array] = None, dk: Optional[Array] = None, dv: Optional[Array] = None,
                           dbias: Optional[Array] = None, dsinks: Optional[Array] = None, scale: float = 0.0, softcap: float = 0.0, mask: Optional[s.Mask] = None,
                           window: Sequence[int] = (0, 0), bias: Optional[Array] = None, allowed: Optional[Array] = None, alibi_slopes: Optional[Array] = None,
                           sinks: Optional[Array] = None, key_lengths: Optional[Array] = None, cu_len_q: Optional[Array] = None, cu_len_k: Optional[Array] = None,
                           max_len_q: int = 0, max_len_k: int = 0, flags: int = 0, stream: Optional[int] = None, query: bool = False) -> Any:
        """Gradients (dq, dk, dv) of attention() over all ranks: dq of this rank's rows, dk and dv of its keys. Options as there, whose ``out`` and ``lse`` are inputs here."""
        call = self._context._backward(dout, q, k, v, out, lse, dq, dk, dv, dbias, dsinks, scale=scale, softcap=softcap, mask=mask, window=window, bias=bias, allowed=allowed,
                                       alibi_slopes=alibi_slopes, sinks=sinks, key_lengths=key_lengths, cu_len_q=cu_len_q, cu_len_k=cu_len_k, max_len_q=max_len_q,
                                       max_len_k=max_len_k)
        call.finish(stream, flags, None)
        args = s.AttentionBackwardDistributedArgs(local=ctypes.pointer(call.args))
        found = self._run("attention_backward", args, call, layout, method, len_q, len_k, query)
        return found or tuple(call.written[:3])

    def gemm(self, a: Matrix, b: Matrix, d: Matrix, c: Optional[Array] = None, *, m: Optional[int] = None, n: Optional[int] = None, k: Optional[int] = None,
             transa: bool = False, transb: bool = False, alpha: float = 1.0, beta: float = 0.0, bias: Optional[Array] = None, bias_axis: Optional[s.BiasAxis] = None,
             activation: Optional[s.Activation] = None, method: s.GemmMethod = "auto", panel: int = 0, flags: int = 0, stream: Optional[int] = None,
             query: bool = False) -> Any:
        """activation(alpha op(a) op(b) + beta c + bias) of matrices that are spread over the ranks, into ``d.local``, which is returned.

        ``m``, ``n``, ``k``: extents of the parts that begin at the origins; without them all that is left of d, and of a. ``c`` lies as d does, and may be ``d.local``. ``bias``
        has this rank's columns ("columns", the default with a bias) or rows of d's part. ``method``: "auto", "stationary_a", "stationary_b" or "stationary_c"; ``panel``: its
        width. ``query=True`` returns a DistributedSupport, and asks no other rank.
        """
        rest = a.rest()
        args = s.GemmDistributedArgs(m=d.rest()[0] if m is None else m, n=d.rest()[1] if n is None else n, k=rest[0 if transa else 1] if k is None else k, alpha=alpha, beta=beta,
                                     transa=s.TRANS if transa else s.NO_TRANS, transb=s.TRANS if transb else s.NO_TRANS, panel=panel)
        args.activation, args.method = choose(s.ACTIVATIONS, "activation", activation), choose(s.GEMM_METHODS, "method", method)
        args.bias_axis = choose(s.BIAS_AXES, "bias_axis", bias_axis or ("columns" if bias is not None else None))
        call = Call(args)
        for name, matrix in (("a", a), ("b", b), ("d", d)):
            made, found = matrix.struct(), call.look(f"{name}.local", matrix.local, output=name == "d")
            made.local = found.tensor
            call.stream = call.stream or found.stream
            setattr(args, name, ctypes.pointer(made))
        call.put("c", c)
        call.put("bias", bias)
        args.stream, args.flags = call.stream if stream is None else stream, flags
        return self._call("gemm", args, call, query) or d.local

    def _run(self, operation: str, args: Any, call: Call, layout: s.Shards, method: s.Method, len_q: int, len_k: int, query: bool) -> Optional[DistributedSupport]:
        """Makes a call of attention, or answers its query."""
        args.layout, args.method = choose(s.SHARDS, "layout", layout), choose(s.METHODS, "method", method)
        args.len_q, args.len_k = len_q, len_k
        return self._call(operation, args, call, query)

    def _call(self, operation: str, args: Any, call: Call, query: bool) -> Optional[DistributedSupport]:
        """Makes the call, or answers the query."""
        if query:
            found = s.DistributedSupport()
            check(getattr(library(), f"attile_{operation}_distributed_query")(self._handle, ctypes.byref(args), ctypes.byref(found)))
            return DistributedSupport(LEVELS[found.level], found.status, s.METHOD_NAMES[found.method], found.kernel.decode(), found.text.decode("utf-8", "replace"),
                                      found.bytes_sent, found.flops)
        status = getattr(library(), f"attile_{operation}_distributed")(self._handle, ctypes.byref(args))
        try:
            self._check(status)
        finally:
            call.wrote(status)
        return None

    def _check(self, status: int) -> None:
        """Raise what a status stands for, from the exception of the transport that was its cause."""
        failure = None
        if self._bridge is not None:
            failure, self._bridge.failure = self._bridge.failure, None
        if failure is not None and not isinstance(failure, Exception):
            raise failure  # Ctrl-C in a callback, for one.
        try:
            check(status)
        except AttileError as error:
            raise error from failure

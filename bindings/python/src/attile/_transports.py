# SPDX-License-Identifier: Apache-2.0
"""What carries bytes between ranks: objects of Python as the library's callbacks, PyTorch's process groups, and NCCL's communicators."""
# mypy: disable-error-code="import"
from __future__ import annotations

import ctypes
import datetime
import functools
import itertools
import threading
import time
from typing import Any, Callable, Optional, Protocol

from . import _structs as s


class Transport(Protocol):
    """What carries bytes between ranks, for Communicator.callbacks().

    Messages between two ranks arrive in the order in which they were sent. A method that fails raises; the call of Attile then raises AttileRankError from that.
    """

    def send(self, data: memoryview, to: int) -> Any:
        """Start to send bytes to a rank, and return a request without waiting. ``data`` stays as it is until the request was waited for."""

    def receive(self, data: memoryview, source: int) -> Any:
        """Start to receive from a rank into ``data``, which the message fills, and return a request without waiting."""

    def wait(self, request: Any, seconds: float) -> None:
        """Wait for a request, at most so many seconds, and raise TimeoutError after that; 0: end it now.

        Whatever happens, the request is over then, and ``data`` is neither read nor written any more.
        """


class Bridge:
    """A transport as the library's callbacks. Exceptions do not pass through C: the last one is kept in ``failure``."""

    def __init__(self, transport: Transport):
        self._transport = transport
        self._requests: dict[int, tuple[Any, memoryview]] = {}
        self._numbers = itertools.count(1)
        self.failure: Optional[BaseException] = None
        self._give_up: Optional[Callable[[str], None]] = getattr(transport, "give_up", None)
        self.callbacks = s.CommCallbacks(send=s.SEND_FUNCTION(self._starter(transport.send)), receive=s.RECEIVE_FUNCTION(self._starter(transport.receive)),
                                         wait=s.WAIT_FUNCTION(self._wait))
        if self._give_up is not None:
            self.callbacks.give_up = s.GIVE_UP_FUNCTION(self._give_up_all)

    def _guarded(self, work: Callable[[], Any]) -> int:
        try:
            work()
        except TimeoutError:
            return s.ERROR_RANK_LATE
        except BaseException as error:  # whatever it is, it must not pass through C
            self.failure = error
            return s.ERROR_TRANSPORT
        return 0

    def _starter(self, start: Callable[[memoryview, int], Any]) -> Callable[..., int]:
        def call(user: Any, address: int, count: int, rank: int, request: Any) -> int:
            def work() -> None:
                data = memoryview((ctypes.c_char * count).from_address(address)).cast("B")
                number = next(self._numbers)
                self._requests[number] = start(data, rank), data
                request[0] = number

            return self._guarded(work)

        return call

    def _wait(self, user: Any, number: int, seconds: float) -> int:
        request, data = self._requests.pop(number)
        status = self._guarded(lambda: self._transport.wait(request, seconds))
        try:
            data.release()  # Who looks at it later gets an exception, and not memory that is another's by then.
        except BufferError:
            pass  # Somebody has an array over it.
        return status

    def _give_up_all(self, user: Any, status: int, why: Optional[bytes]) -> None:
        give_up, text = self._give_up, (why or b"").decode("utf-8", "replace")
        if give_up is not None:
            self._guarded(functools.partial(give_up, text))


_TAG = 0x6174  # Messages of Attile in a group that carries others.
_ENDED: list[Any] = []  # Requests that were given up: a group may read and write their tensors until the process ends.
_ended_lock = threading.Lock()


class ProcessGroup:
    """A process group of PyTorch that takes tensors in host memory. Messages lie in tensors of the transport's own."""

    def __init__(self, group: Any):
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self._group = dist.group.WORLD if group is None else group
        self._members = dist.get_process_group_ranks(self._group)
        self.rank, self.ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
        if self.rank < 0:
            raise ValueError("this process is not in the process group")

    def send(self, data: memoryview, to: int) -> Any:
        tensor = self._torch.frombuffer(bytearray(data), dtype=self._torch.uint8)
        return self._dist.isend(tensor, self._members[to], group=self._group, tag=_TAG), tensor, None

    def receive(self, data: memoryview, source: int) -> Any:
        tensor = self._torch.empty(len(data), dtype=self._torch.uint8)
        return self._dist.irecv(tensor, self._members[source], group=self._group, tag=_TAG), tensor, data

    def wait(self, request: Any, seconds: float) -> None:
        work, tensor, data = request
        start = time.monotonic()
        try:
            if seconds <= 0:
                raise TimeoutError
            work.wait(datetime.timedelta(seconds=max(seconds, 0.001)))  # 0 milliseconds are no limit for PyTorch
        except BaseException as error:
            with _ended_lock:
                _ENDED.append(request[:2])
            if isinstance(error, RuntimeError) and time.monotonic() - start >= seconds:
                raise TimeoutError(str(error)) from error
            raise
        if data is not None:
            data[:] = tensor.numpy().data


def nccl_communicator(comm: Any) -> int:
    """The ncclComm_t that ``comm`` is, or that a process group of PyTorch has for its CUDA tensors, as a number."""
    if isinstance(comm, int):
        return comm
    if isinstance(comm, ctypes.c_void_p):
        return comm.value or 0
    if comm is None or hasattr(comm, "_get_backend"):
        import torch
        import torch.distributed as dist

        group = dist.group.WORLD if comm is None else comm
        if group is None:
            raise ValueError("comm is None, and torch.distributed has no default process group; expected one, or an ncclComm_t")
        comm = group._get_backend(torch.device("cuda"))
    pointer = getattr(comm, "_comm_ptr", None)
    if pointer is None:
        raise TypeError(f"comm is a {type(comm).__name__}; expected an ncclComm_t as an integer, or a process group of NCCL from a PyTorch whose groups have _comm_ptr()")
    found = int(pointer())
    if not found:
        raise ValueError("the process group has no communicator of NCCL yet; expected device_id in init_process_group, or a first collective call on the group")
    return found

# SPDX-License-Identifier: Apache-2.0
"""Finds libattile and declares its functions. Nothing is loaded before the first use."""
from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import pathlib
import struct

from . import _structs as s
from ._backends import add_backend_directories
from ._extension import native

SONAME = "libattile.so.1"
VERSION = "1.1.0"  # of this package, and of the library that its wheel carries


class AttileError(RuntimeError):
    """A failed call: ``status`` is the code, ``name`` its name, ``message`` the library's sentence."""

    def __init__(self, status: int, name: str, message: str):
        super().__init__(f"{name}: {message}")
        self.status, self.name, self.message = status, name, message


class AttileArgumentError(AttileError, ValueError):
    """The arguments are wrong (status 1xxx)."""


class AttileUnsupportedError(AttileError, NotImplementedError):
    """The backend cannot do it (status 2xxx); the message says why."""


class AttileMemoryError(AttileError, MemoryError):
    """Memory is exhausted (status 4xxx)."""


class AttileRankError(AttileError):
    """Ranks disagree, or another one failed or is late (status 6xxx); the message says which and why."""


def _candidates() -> list[str]:
    """Where the library may be, best first: ATTILE_LIBRARY; the copy that a wheel carries in the package; the system's loader."""
    explicit = os.environ.get("ATTILE_LIBRARY")
    if explicit:
        return [explicit]
    beside = pathlib.Path(__file__).resolve().parent / "lib" / SONAME
    if beside.exists():
        return [str(beside)]  # the only one: with another library the package would run on what nobody installed with it
    found = ctypes.util.find_library("attile")
    return [SONAME] + ([found] if found else [])


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The loaded library; the error tells every place that was tried."""
    failures = []
    for path in _candidates():
        if _is_cut_short(path):
            raise ImportError(f"{path} is cut short; install attile again")
        try:
            opened = ctypes.CDLL(path)
        except OSError as error:
            failures.append(f"{path}: {error}")
            continue
        _check_version(opened, path)
        found = _declare(opened)
        if native is not None:
            native.connect({name: ctypes.cast(getattr(found, name), ctypes.c_void_p).value for name in _FAST})
        add_backend_directories(found)
        return found
    raise ImportError("libattile was not found; set ATTILE_LIBRARY to the path of libattile.so.1. Tried:\n  " + "\n  ".join(failures))


def _is_cut_short(path: str) -> bool:
    """Whether a 64-bit ELF file lacks parts that its program headers name. The system's loader maps such a file, and the process then dies by SIGBUS."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:6] != b"\x7fELF\x02\x01":  # a name for the system's loader to find, or another format: the loader says what is wrong
                return False
            if len(head) < 64:
                return True
            (begin,), (each, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
            file.seek(begin)
            table = file.read(each * count)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return False
    if each < 56 or len(table) < each * count:
        return True
    parts = (struct.unpack_from("<QQQQ", table, at * each + 8) for at in range(count))  # offset, two addresses, bytes in the file
    return any(offset + size_in_file > size for offset, _, _, size_in_file in parts)


def _check_version(opened: ctypes.CDLL, path: str) -> None:
    """A library older than the package lacks functions. The package's own copy is of its very version, unless two installations share a folder."""
    try:
        number = opened.attile_version()
    except AttributeError:
        raise ImportError(f"{path} is not libattile: it has no function attile_version") from None
    major, minor, patch = number // 1000000, number // 1000 % 1000, number % 1000
    wanted = tuple(int(part) for part in VERSION.split("."))
    is_own = pathlib.Path(path).parent == pathlib.Path(__file__).resolve().parent / "lib"
    if is_own and (major, minor, patch) != wanted:
        raise ImportError(f"{path} is Attile {major}.{minor}.{patch}, and the Python package around it is {VERSION}: two versions share one folder; remove it and install attile again")
    if major != wanted[0] or minor < wanted[1]:
        raise ImportError(f"{path} is Attile {major}.{minor}.{patch}, expected {VERSION} or a later {wanted[0]}.x, which this Python package needs")


_FAST = [f"attile_{name}{suffix}" for names, suffix in ((s.OPERATIONS, ""), (s.OPERATIONS, "_query"), (s.PREPARED, "_run"), (("last_error",), "")) for name in names]


def _declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    """Argument and result types of every function used. ctypes releases the GIL while a function of a CDLL runs."""
    void, i32, i64, f64, text = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double, ctypes.c_char_p
    to = ctypes.POINTER
    functions = {
        "attile_version": (i32, []),
        "attile_status_name": (text, [i32]),
        "attile_last_error": (i64, [void, i64]),
        "attile_backend_report": (i64, [void, i64]),
        "attile_add_backend_directory": (i32, [text]),
        "attile_context_create": (i32, [to(s.ContextOptions), to(void)]),
        "attile_context_destroy": (None, [void]),
        "attile_context_get_info": (i32, [void, to(s.ContextInfo)]),
        "attile_alloc": (i32, [void, i32, i64, to(void)]),
        "attile_free": (i32, [void, void]),
        "attile_copy": (i32, [void, void, void, i64, void]),
        "attile_prefetch": (i32, [void, void, i64, i32, void]),
        "attile_memory_kind": (i32, [void, void, to(i32)]),
        "attile_stream_create": (i32, [void, to(void)]),
        "attile_stream_destroy": (i32, [void, void]),
        "attile_synchronize": (i32, [void, void]),
        "attile_prepared_destroy": (None, [void]),
        "attile_comm_create": (i32, [void, to(s.CommOptions), to(void)]),
        "attile_comm_destroy": (None, [void]),
        "attile_comm_get_info": (i32, [void, to(s.CommInfo)]),
        "attile_shard_part": (i32, [i32, i64, i32, i32, i32, to(i64), to(i64), to(i64)]),
        "attile_distributed_extents": (i32, [to(s.DistributedMatrix), i32, i32, to(i64), to(i64)]),
    }
    for name, pointers in s.PREPARED.items():
        functions[f"attile_{name}_pointers_init"] = (None, [to(pointers), ctypes.c_uint64])
        functions[f"attile_{name}_prepare"] = (i32, [void, to(s.OPERATIONS[name]), to(void)])
        functions[f"attile_{name}_run"] = (i32, [void, to(pointers)])
    for name, args in s.OPERATIONS.items():
        functions[f"attile_{name}"] = (i32, [void, to(args)])
        functions[f"attile_{name}_query"] = (i32, [void, to(args), to(s.Support)])
        functions[f"attile_{name}_init"] = (None, [to(args), ctypes.c_uint64])
    for name, args in s.DISTRIBUTED.items():
        functions[f"attile_{name}_distributed"] = (i32, [void, to(args)])
        functions[f"attile_{name}_distributed_query"] = (i32, [void, to(args), to(s.DistributedSupport)])
    for prefix, real in (("s", ctypes.c_float), ("d", f64)):
        functions[f"attile_{prefix}gemm"] = (i32, [void, i32, i32, i32, i64, i64, i64, f64, to(real), i64, to(real), i64, f64, to(real), i64])
    for name, (result, arguments) in functions.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def text_of(function: ctypes._CFuncPtr) -> str:  # type: ignore[name-defined]
    """The whole text of a function that fills (buffer, capacity) and returns the bytes needed."""
    needed = 0
    while True:
        buffer = ctypes.create_string_buffer(max(needed, 1))
        now = function(buffer, len(buffer))
        if now <= len(buffer):
            return buffer.value.decode("utf-8", "replace")
        needed = now


def check(status: int) -> None:
    """Raise what a status stands for."""
    if status == 0:
        return
    lib = library()
    kind = {1: AttileArgumentError, 2: AttileUnsupportedError, 4: AttileMemoryError, 6: AttileRankError}.get(status // 1000, AttileError)
    raise kind(status, lib.attile_status_name(status).decode(), text_of(lib.attile_last_error))

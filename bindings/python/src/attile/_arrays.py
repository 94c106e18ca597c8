# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library as attile_tensor, without a copy: NumPy, ``__cuda_array_interface__`` (CuPy, Numba), DLPack (PyTorch, JAX and others)."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple, Union

import numpy as np

from . import _structs as s


Array = Any
"""A NumPy array, or an object with ``__dlpack__`` or ``__cuda_array_interface__``."""


class View(NamedTuple):
    """A tensor, what must stay alive while it is used, why it may not be written (empty if it may), and the stream its owner works on."""

    tensor: s.Tensor
    keep: Any
    refusal: str
    stream: int
    device: int  # ATTILE_DEVICE_ constant


_READ_ONLY = "is read-only"
_COPIED = "gives a copy of itself, in which the result would be lost; give an array whose memory can be written"
_IMMUTABLE = ("jax", "jaxlib", "tensorflow")  # Whose arrays never change, though their DLPack does not say so.

_NUMPY = {"f4": s.F32, "f8": s.F64, "f2": s.F16, "i4": s.I32, "i8": s.I64, "i1": s.I8, "u1": s.U8, "b1": s.BOOL}
_ML_DTYPES = {"bfloat16": s.BF16, "float8_e4m3fn": s.F8_E4M3, "float8_e5m2": s.F8_E5M2}


def _numpy_dtype(typestr: str, name: str) -> int:
    """From an array interface's type string; types of ml_dtypes show as voids or by their own names."""
    if name in _ML_DTYPES:
        return _ML_DTYPES[name]
    if typestr[0] == (">" if sys.byteorder == "little" else "<"):
        raise TypeError(f"arrays of foreign byte order ({typestr}) are not taken; use .astype('=...')")
    try:
        return _NUMPY[typestr[1:]]
    except KeyError:
        raise TypeError(f"element type {typestr} is none of float32, float64, float16, bfloat16, float8_e4m3fn, float8_e5m2, int64, int32, int8, uint8, bool") from None


def tensor_of(data: int, dtype: int, shape: tuple[int, ...], stride: tuple[int, ...] | None) -> s.Tensor:
    """Fields as given; the library checks the values. Strides in elements; None is dense row-major."""
    rank = len(shape)
    if rank > 4:
        raise ValueError(f"an array has {rank} dimensions; at most 4 are taken")
    if stride is None:
        stride, step = (), 1
        for extent in reversed(shape):
            stride, step = (step,) + stride, step * extent
    tensor = s.Tensor(data, dtype, rank)
    for axis in range(rank):
        tensor.shape[axis], tensor.stride[axis] = shape[axis], stride[axis]
    return tensor


def _elements(byte_strides: tuple[int, ...] | None, item: int) -> tuple[int, ...] | None:
    if byte_strides is None:
        return None
    if any(step % item for step in byte_strides):
        raise ValueError("strides that are not a multiple of the element size are not taken; copy the array first")
    return tuple(step // item for step in byte_strides)


def _owner_of(array: Any) -> str:
    """The library whose type an array is of."""
    return type(array).__module__.partition(".")[0]


def _from_numpy(array: np.ndarray[Any, Any]) -> View:
    dtype = _numpy_dtype(array.dtype.str, array.dtype.name)
    tensor = tensor_of(array.ctypes.data, dtype, array.shape, _elements(array.strides, array.itemsize))
    return View(tensor, array, "" if array.flags.writeable else _READ_ONLY, 0, s.DEVICE_CPU)


def _from_cuda_interface(array: Any, streams: dict[Any, int]) -> View:
    interface = array.__cuda_array_interface__
    dtype = _numpy_dtype(interface["typestr"], str(getattr(array, "dtype", "")).rpartition(".")[2])
    item = int(interface["typestr"][2:])
    data, read_only = interface["data"]
    tensor = tensor_of(data, dtype, tuple(interface["shape"]), _elements(interface.get("strides"), item))
    return View(tensor, array, _READ_ONLY if read_only else "", cuda_stream(array, interface.get("stream"), streams), s.DEVICE_CUDA)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DLVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
                ("tensor", _DLTensor)]


_DL_READ_ONLY, _DL_COPIED = 1, 2

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _dlpack_capsule(array: Any, options: dict[str, Any]) -> Any:
    """With the flags of DLPack 1, where the owner knows them: it may refuse to show a read-only array without."""
    try:
        return array.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        return array.__dlpack__(**options)


def _from_dlpack(array: Any, streams: dict[Any, int]) -> View:
    device_type, _ = array.__dlpack_device__()
    on_gpu = device_type in (s.DEVICE_CUDA, s.DEVICE_ROCM)
    stream = cuda_stream(array, None, streams) if on_gpu else 0
    # The consumer names the stream it will work on, and the owner orders its pending work before it. CUDA's legacy default stream is 1 there; ROCm's is 0.
    capsule = _dlpack_capsule(array, {"stream": stream or (1 if device_type == s.DEVICE_CUDA else 0)} if on_gpu else {})
    # The capsule stays as it is ("dltensor", not "used_dltensor"), so that its own destructor gives the memory back when View.keep goes.
    refusal = "is immutable; leave it away, or give an array that can be written" if _owner_of(array) in _IMMUTABLE else ""
    if _capsule_is(capsule, b"dltensor_versioned"):
        versioned = ctypes.cast(_capsule_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(_DLVersioned)).contents
        if versioned.major != 1:
            raise TypeError(f"an array speaks DLPack {versioned.major}.{versioned.minor}; 1 is known here")
        managed = versioned.tensor
        refusal = refusal or (_READ_ONLY if versioned.flags & _DL_READ_ONLY else _COPIED if versioned.flags & _DL_COPIED else "")
    else:
        managed = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    if managed.lanes != 1:
        raise TypeError("vector element types are not taken")
    shape = tuple(managed.shape[axis] for axis in range(managed.ndim))
    stride = tuple(managed.strides[axis] for axis in range(managed.ndim)) if managed.strides else None
    tensor = tensor_of((managed.data or 0) + managed.byte_offset, managed.code * 256 + managed.bits, shape, stride)
    return View(tensor, (capsule, array), refusal, stream, device_type if on_gpu else s.DEVICE_CPU)


TYPES = {"float32": s.F32, "float64": s.F64, "float16": s.F16, "bfloat16": s.BF16, "int32": s.I32, "int64": s.I64, "uint8": s.U8, "bool": s.BOOL}
NARROW = {"int8": s.I8, "float8_e4m3fn": s.F8_E4M3, "float8_e5m2": s.F8_E5M2}  # not of every PyTorch, and without gradients


def _torch_of(array: Any) -> Any:
    """PyTorch, if the array is its tensor; it is not imported for this."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return torch if tensor is not None and isinstance(array, tensor) else None


def _without_gradient(torch: Any, array: Any, name: str) -> Any:
    """The values alone of a tensor; where PyTorch would follow them to a gradient, that is lost here and so refused, as its own DLPack does."""
    if array.requires_grad:
        if torch.is_grad_enabled():
            raise RuntimeError(f"{name} requires a gradient, and none comes through this call: give {name}.detach(), or call under torch.no_grad(), as in the "
                               "forward of a torch.autograd.Function of your own, whose backward may call attile.attention_backward()")
        array = array.detach()
    if torch.autograd.forward_ad.unpack_dual(array).tangent is not None:
        raise RuntimeError(f"{name} has a tangent of forward-mode differentiation, and none comes through this call: give {name}.detach()")
    return array


def mark_written(array: Any) -> None:
    """Tell the library that owns an array that its values are others: PyTorch then refuses a gradient that was to be made of the old ones."""
    torch = _torch_of(array)
    if torch is None or array.is_inference():
        return
    increment = getattr(torch.autograd.graph, "increment_version", None)
    if increment is not None:
        increment(array)
    else:  # before 2.1: a view shares its tensor's version, and an empty one has nothing to write
        array.detach().unsqueeze(0)[:0].zero_()


def increment_versions(torch: Any) -> Any:
    """What does that for a tuple of tensors at once: the function behind PyTorch's increment_version(), where it passes over tensors that have no version; else None."""
    try:
        with torch.inference_mode():
            without = torch.empty(0)
        torch._C._increment_version((without, torch.empty(0)))
    except (AttributeError, RuntimeError, TypeError):
        return None
    return torch._C._increment_version


def _from_torch(torch: Any, array: Any, streams: dict[Any, int]) -> Union[View, None]:
    """A plain PyTorch tensor by its own methods, in a tenth of the time that its DLPack takes; None: one that is not so plain."""
    if array.is_neg():  # a bit beside the memory, of which DLPack says nothing
        raise TypeError("a lazily negated tensor is not taken; use .resolve_neg()")
    if type(array) is not torch.Tensor or array.layout is not torch.strided or torch.version.hip:
        return None
    name = str(array.dtype)[6:]  # "torch.float32"
    dtype = TYPES.get(name) or NARROW.get(name)
    if dtype is None or not (array.is_cuda or array.is_cpu):
        return None
    tensor = tensor_of(array.data_ptr(), dtype, array.shape, array.stride())
    return View(tensor, array, "", cuda_stream(array, None, streams) if array.is_cuda else 0, s.DEVICE_CUDA if array.is_cuda else s.DEVICE_CPU)


def has_current_stream(array: Any) -> bool:
    """Whether the library that owns an array on a GPU knows which stream is the current one."""
    return _owner_of(array) in ("torch", "cupy")


def cuda_stream(array: Any, from_interface: int | None, streams: dict[Any, int]) -> int:
    """The caller's current stream in the library that owns the array: work goes where the caller's own work goes. Asked once for all arrays of a call, which `streams` keeps."""
    if not has_current_stream(array):
        return from_interface or 0
    owner = _owner_of(array)
    key = array.device if owner == "torch" else array.device.id
    if key not in streams:
        cuda = sys.modules[owner].cuda
        streams[key] = cuda.current_stream(array.device).cuda_stream if owner == "torch" else cuda.get_current_stream().ptr
    return int(streams[key])


def stream_of(array: Any, streams: dict[Any, int]) -> int:
    """The stream of an array on a GPU, as view() finds it."""
    interface = None if has_current_stream(array) else getattr(array, "__cuda_array_interface__", None)
    return cuda_stream(array, None if interface is None else interface.get("stream"), streams)


class FourBits:
    """Numbers of 4 bits, two neighbours along an axis in each byte of ``array``, the first in the lower half: weights for gemm(), keys and values for attention(). That axis is the one along which bytes are neighbours in memory.
    ``signed``: -8 to 7, else 0 to 15. ``.T`` exchanges the last two axes."""

    def __init__(self, array: Array, signed: bool = True):
        self.array, self.signed = array, signed

    @property
    def T(self) -> FourBits:
        return FourBits(self.array.T, self.signed)


def _from_four_bits(given: FourBits, streams: dict[Any, int], name: str) -> View:
    found = view(given.array, streams, name)
    tensor = found.tensor
    axes = [axis for axis in range(tensor.rank) if tensor.stride[axis] == 1 and tensor.shape[axis] > 1] or [axis for axis in range(tensor.rank) if tensor.stride[axis] == 1]
    if tensor.dtype not in (s.U8, s.I8) or not axes:
        raise TypeError(f"{name}: FourBits of an array of uint8 or int8 is expected, whose bytes are neighbours along one axis")
    for axis in range(tensor.rank):
        if axis == axes[-1]:
            tensor.shape[axis] *= 2
        else:
            tensor.stride[axis] *= 2
    tensor.dtype = s.I4 if given.signed else s.U4
    return found


def view(array: Any, streams: dict[Any, int] | None = None, name: str = "an array") -> View:
    """An array as a tensor; an array that Attile cannot look at is a TypeError that says what would do. `streams` is a call's own."""
    streams = {} if streams is None else streams
    if isinstance(array, np.ndarray):
        return _from_numpy(array)
    if isinstance(array, FourBits):
        return _from_four_bits(array, streams, name)
    torch = _torch_of(array)
    if torch is not None:
        array = _without_gradient(torch, array, name)
        found = _from_torch(torch, array, streams)
        if found is not None:
            return found
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _from_dlpack(array, streams)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_cuda_interface(array, streams)
    if hasattr(array, "__array__"):
        return _from_numpy(np.asarray(array))._replace(refusal=_COPIED)
    raise TypeError(f"{type(array).__name__} is not an array: a NumPy array, or an object with __dlpack__ or __cuda_array_interface__, is expected")


def dense_bytes(tensor: s.Tensor) -> int:
    """Bytes of a dense row-major tensor, as a workspace has to be."""
    step: int = 1
    for axis in reversed(range(tensor.rank)):
        if tensor.shape[axis] > 1 and tensor.stride[axis] != step:
            raise ValueError("workspace is not contiguous")
        step *= tensor.shape[axis]
    return step * int((tensor.dtype & 0xFF) // 8)


def empty_like(array: Any, shape: tuple[int, ...], dtype: int | None = None) -> Any:
    """A new array of another shape, of the same library and on the same device as `array`; dtype None keeps its type."""
    owner = _owner_of(array)
    if owner == "torch":
        torch = sys.modules["torch"]
        return array.new_empty(shape, dtype=None if dtype is None else {s.F32: torch.float32, s.F64: torch.float64}[dtype])
    if owner == "cupy":
        cupy = sys.modules["cupy"]
        return cupy.empty(shape, dtype=array.dtype if dtype is None else {s.F32: "f4", s.F64: "f8"}[dtype])
    if isinstance(array, np.ndarray) or (hasattr(array, "__array__") and not hasattr(array, "__cuda_array_interface__")):
        return np.empty(shape, np.asarray(array).dtype if dtype is None else {s.F32: np.float32, s.F64: np.float64}[dtype])
    raise TypeError(f"give `out`: Attile does not know how to make a new {type(array).__name__}")

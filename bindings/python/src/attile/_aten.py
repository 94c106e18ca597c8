# SPDX-License-Identifier: Apache-2.0
"""Where PyTorch keeps what the extension asks of each tensor, and PyTorch's functions in C. Its methods in Python answer as well, in ten times as long."""
from __future__ import annotations

import ctypes
import re
from typing import Any, Callable, Optional

from ._arrays import NARROW, TYPES, _capsule_pointer

_FUNCTIONS = ("get_dim", "get_sizes", "get_strides", "get_dtype", "get_data_ptr", "get_device_type", "get_device_index", "empty_strided", "delete_tensor_object")
"""What PyTorch exports for its compiled models from 2.4 on, as aoti_torch_NAME."""

_DEVICES = {"cpu": "CPU", "cuda": "CUDA"}


def is_plain(torch: Any, array: Any) -> bool:
    """Whether a tensor is memory on a device that is taken and nothing else: not sparse, not negated by a bit, no stand-in of a transform. Its dispatch keys tell: they are the device's own,
    and those that every tensor of the device has outside inference mode."""
    device = _DEVICES.get(array.device.type)
    keys = set(re.findall(r"\w+", str(torch._C._dispatch_keys(array)))) - {"DispatchKeySet"}
    return device is not None and device in keys and keys <= {device, "ADInplaceOrView", f"Autograd{device}", f"Autocast{device}"}


def _words(address: int) -> list[int]:
    """The words of what malloc() gave at an address. The C library knows how many there are: PyTorch's object differs in size from version to version."""
    count = _usable_size(address) // 8
    if not 8 <= count <= 64:
        raise RuntimeError("this is no tensor of PyTorch")
    return list((ctypes.c_uint64 * count).from_address(address))


def _usable_size(address: int) -> int:
    size = ctypes.CDLL(None).malloc_usable_size
    size.argtypes, size.restype = [ctypes.c_void_p], ctypes.c_size_t
    return int(size(address))


def _the_one(fits: Callable[[int], bool], count: int) -> int:
    found = [index for index in range(count) if fits(index)]
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} words fit")
    return found[0]


def _find_words(torch: Any) -> dict[str, int]:
    """The word of a Python object that points to the tensor in C++, and of that the word which holds the dispatch keys, and the one that is 0 where automatic differentiation knows nothing of
    the tensor. They are looked for in tensors of every sort. RuntimeError unless one word alone fits."""
    with torch.inference_mode():
        inference = [torch.zeros(2, 3, device="cpu"), torch.zeros(2, dtype=torch.int32, device="cpu")]
    with torch.inference_mode(False), torch.enable_grad():
        plain, numbers = torch.zeros(2, 3, device="cpu"), torch.zeros(2, 3, dtype=torch.complex64, device="cpu")
        leaf = torch.zeros(2, 3, device="cpu", requires_grad=True)
        unknown = [plain, plain + 1, plain.to(torch.bfloat16), plain.to(torch.int32), plain.bool()]
        followed = [leaf, leaf + 1, leaf[:1], torch.nn.Parameter(plain)]
        others = [*inference, torch._neg_view(plain), numbers.conj().imag, plain[0, 0], plain.t(), plain.detach(), plain[:0]]
    samples = [*unknown, *followed, *others]
    if any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in samples) or not all(tensor.requires_grad for tensor in followed):
        raise RuntimeError("a mode of PyTorch makes other tensors now")
    size = torch.Tensor.__basicsize__ // 8
    objects = [list((ctypes.c_uint64 * size).from_address(id(tensor))) for tensor in samples]
    rows = [_words(tensor._cdata) for tensor in samples]
    keys = [str(torch._C._dispatch_keys(tensor)) for tensor in samples]

    def holds_keys(index: int) -> bool:
        """Equal where the keys are equal, and only there."""
        words = [row[index] for row in rows]
        return len(set(words)) == len(set(keys)) == len(set(zip(words, keys)))

    if len(set(keys)) != 3:
        raise RuntimeError("plain tensors, those of inference and negated ones should differ")
    return {"object": _the_one(lambda index: all(words[index] == tensor._cdata for words, tensor in zip(objects, samples)), size),
            "keys": _the_one(holds_keys, min(map(len, rows))),
            "gradient": _the_one(lambda index: all((row[index] != 0) == (len(unknown) <= number) for number, row in enumerate(rows[:len(unknown) + len(followed)])), min(map(len, rows)))}


def _address(exported: ctypes.CDLL, symbol: str) -> Optional[int]:
    return ctypes.cast(getattr(exported, symbol), ctypes.c_void_p).value


def _find_to_python(torch: Any, exported: ctypes.CDLL) -> Any:
    """The function that makes an object in Python of a handle, before PyTorch 2.14 exports one. By its name it takes the handle, but it has always left it: it is asked."""
    delete, to_python = exported.aoti_torch_delete_tensor_object, torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr
    delete.argtypes = [ctypes.c_void_p]
    tensor = torch.zeros(1, device="cpu")
    handle = torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(tensor)
    before = tensor._use_count()
    if to_python(handle) is not tensor or tensor._use_count() != before:
        raise RuntimeError("the handle was taken")
    delete(_capsule_pointer(handle, None))
    return to_python


def find_aten(torch: Any) -> Optional[dict[str, Any]]:
    """All that the extension needs to read plain tensors and make new ones: words, addresses of functions, and PyTorch's numbers of types and devices. None where this PyTorch has it
    otherwise."""
    try:
        exported = ctypes.CDLL(torch._C.__file__)  # and what it is linked to
        found: dict[str, Any] = _find_words(torch)
        for name in _FUNCTIONS:
            found[name] = _address(exported, f"aoti_torch_{name}")
        found["types"] = {getattr(exported, f"aoti_torch_dtype_{name}")(): number for name, number in TYPES.items()}
        found["types"].update({getattr(exported, symbol)(): number for name, number in NARROW.items() if hasattr(exported, symbol := f"aoti_torch_dtype_{name}")})
        found["cpu"], found["cuda"] = exported.aoti_torch_device_type_cpu(), exported.aoti_torch_device_type_cuda()
        for name, symbol in (("get_current_cuda_stream", "aoti_torch_get_current_cuda_stream"), ("to_pyobject", "torch_tensor_to_pyobject")):  # with a GPU; from 2.14 on
            found[name] = _address(exported, symbol) if hasattr(exported, symbol) else None
        found["to_python"] = _find_to_python(torch, exported) if found["to_pyobject"] is None else None
    except (AttributeError, OSError, RuntimeError, TypeError):
        return None
    return found

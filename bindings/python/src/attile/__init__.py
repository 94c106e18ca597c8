# SPDX-License-Identifier: Apache-2.0
"""Attention and matrix multiplication on whatever device is there.

    import attile, numpy as np
    q = k = v = np.random.default_rng(0).standard_normal((1, 8, 512, 64), dtype=np.float32)
    o = attile.attention(q, k, v, mask="causal_bottom_right")

Arrays may be NumPy's, or anything with ``__dlpack__`` or ``__cuda_array_interface__`` (PyTorch, CuPy); none is copied, and GPU work goes to the
caller's current stream. No gradient passes through a call, so a tensor that requires one is refused unless gradients are off. ``attile.Context("cuda:1")`` opens a backend by name; the functions here use one opened by ATTILE_BACKEND.
"""
import functools
import importlib
import inspect
from typing import TYPE_CHECKING

from ._arrays import Array, FourBits
from ._context import Context, Info, Support, default_context
from ._extension import native as _native_extension
from ._library import AttileArgumentError, AttileError, AttileMemoryError, AttileRankError, AttileUnsupportedError, library, text_of
from ._prepared import Prepared
from ._structs import FLAG_ALLOW_NONDETERMINISTIC, FLAG_ALLOW_SPLIT_TF32, FLAG_BATCH_INVARIANT, FLAG_EXACT_PRODUCTS, FLAG_FAST_ACCUMULATION, FLAG_NO_ALLOC, NOT_COMPILED

__all__ = ["Array", "AttileArgumentError", "AttileError", "AttileMemoryError", "AttileRankError", "AttileUnsupportedError", "Context", "FLAG_ALLOW_NONDETERMINISTIC", "FLAG_ALLOW_SPLIT_TF32",
           "FLAG_BATCH_INVARIANT", "FLAG_EXACT_PRODUCTS", "FLAG_FAST_ACCUMULATION", "FLAG_NO_ALLOC", "FourBits", "Info", "Prepared", "Support", "attention", "attention_backward", "attention_merge", "attention_merge_backward", "backend_report", "compiled",
           "default_context", "dequantize", "gemm", "gemm_grouped", "prepare_attention", "prepare_gemm", "quantize", "reduce", "repack", "softmax", "version"]

compiled: bool = _native_extension is not None
"""Whether calls go through the compiled extension; without it, or with ATTILE_PYTHON_PURE=1, they go through ctypes, to the same results."""


def version() -> str:
    """The library's version, "1.1.0"."""
    number = library().attile_version()
    return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"


def backend_report() -> str:
    """Every backend tried so far in this process, and why it was taken or refused."""
    return text_of(library().attile_backend_report)


if TYPE_CHECKING:
    __version__: str
    _default = Context()
    gemm, attention, attention_backward = _default.gemm, _default.attention, _default.attention_backward
    attention_merge, attention_merge_backward, reduce, softmax = _default.attention_merge, _default.attention_merge_backward, _default.reduce, _default.softmax
    quantize, dequantize, prepare_gemm, prepare_attention = _default.quantize, _default.dequantize, _default.prepare_gemm, _default.prepare_attention
    gemm_grouped, repack = _default.gemm_grouped, _default.repack
else:

    def __getattr__(name):
        """Parts of the package at their first use; the import of attile.torch needs PyTorch, that of attile.jax JAX. And the version, which is the library's, for an import opens none."""
        if name == "__version__":
            return version()
        if name in ("distributed", "jax", "torch"):
            return importlib.import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def _of_default_context(name):
        """The method of that name of the default context, with its signature and documentation."""
        method = getattr(Context, name)

        @functools.wraps(method)
        def call(*args, **options):
            return getattr(default_context(), name)(*args, **options)

        signature = inspect.signature(method)
        call.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
        call.__qualname__, call.__module__ = name, __name__
        return call

    def _module_function(name):
        """That function, compiled where the extension has it."""
        if compiled and not name.startswith("prepare_") and name not in NOT_COMPILED:
            return _native_extension.function(name, __name__)
        return _of_default_context(name)

    gemm, attention, attention_backward, attention_merge, attention_merge_backward, reduce, softmax, quantize, dequantize, gemm_grouped, repack, prepare_gemm, prepare_attention = map(
        _module_function,
        ("gemm", "attention", "attention_backward", "attention_merge", "attention_merge_backward", "reduce", "softmax", "quantize", "dequantize", "gemm_grouped",
         "repack", "prepare_gemm", "prepare_attention"))

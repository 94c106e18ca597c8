# SPDX-License-Identifier: Apache-2.0
"""Attention and matrix multiplication on whatever device is there.

    import attile, numpy as np
    q = k = v = np.random.default_rng(0).standard_normal((1, 8, 512, 64), dtype=np.float32)
    o = attile.attention(q, k, v, mask="causal_bottom_right")

Arrays may be NumPy's, or anything with ``__dlpack__`` or ``__cuda_array_interface__`` (PyTorch, CuPy); none is copied, and GPU work goes to the
caller's current stream. ``attile.Context("cuda:1")`` opens a backend by name; the functions here use one opened by ATTILE_BACKEND.
"""
from ._context import Array, Context, Info, Support, default_context
from ._library import AttileArgumentError, AttileError, AttileMemoryError, AttileUnsupportedError, library, text_of
from ._structs import FLAG_ALLOW_NONDETERMINISTIC, FLAG_ALLOW_SPLIT_TF32, FLAG_BATCH_INVARIANT, FLAG_NO_ALLOC

__all__ = ["Array", "AttileArgumentError", "AttileError", "AttileMemoryError", "AttileUnsupportedError", "Context", "FLAG_ALLOW_NONDETERMINISTIC", "FLAG_ALLOW_SPLIT_TF32",
           "FLAG_BATCH_INVARIANT", "FLAG_NO_ALLOC", "Info", "Support", "attention", "attention_backward", "attention_merge", "backend_report", "default_context", "gemm",
           "reduce", "softmax", "version"]


def version() -> str:
    """The library's version, "1.0.0"."""
    number = library().attile_version()
    return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"


def backend_report() -> str:
    """Every backend tried so far in this process, and why it was taken or refused."""
    return text_of(library().attile_backend_report)


def gemm(*args, **options):
    """Context.gemm on the default context."""
    return default_context().gemm(*args, **options)


def attention(*args, **options):
    """Context.attention on the default context."""
    return default_context().attention(*args, **options)


def attention_backward(*args, **options):
    """Context.attention_backward on the default context."""
    return default_context().attention_backward(*args, **options)


def attention_merge(*args, **options):
    """Context.attention_merge on the default context."""
    return default_context().attention_merge(*args, **options)


def reduce(*args, **options):
    """Context.reduce on the default context."""
    return default_context().reduce(*args, **options)


def softmax(*args, **options):
    """Context.softmax on the default context."""
    return default_context().softmax(*args, **options)

# SPDX-License-Identifier: Apache-2.0
"""The compiled extension, which makes calls with plain arrays in a fraction of ctypes' time. `native` is None where it is not there or not wanted."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any


def _load() -> Any:
    if os.environ.get("ATTILE_PYTHON_PURE", "") not in ("", "0"):
        return None
    try:
        from . import _native
    except ImportError:  # not built, or built for another Python
        return None
    return _native


native = _load()


class _Plain:
    """What the extension's bases of Context and Prepared hold."""

    _handle = 0  # of attile_context or attile_prepared; 0 once it is closed
    _is_attention = 0  # of a prepared call
    _args = 0  # address of the argument struct that was prepared


if TYPE_CHECKING:
    from ._native import ContextBase as ContextBase, PreparedBase as PreparedBase
else:
    ContextBase = _Plain if native is None else native.ContextBase
    PreparedBase = _Plain if native is None else native.PreparedBase

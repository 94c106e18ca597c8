# SPDX-License-Identifier: Apache-2.0
# What the compiled extension gives to the package; users call attile.gemm() and the others, whose types are those of the methods in Python.
from collections.abc import Callable
from typing import Any

class ContextBase:
    _handle: int
    _args: int
    _is_attention: int

class PreparedBase:
    _handle: int
    _args: int
    _is_attention: int

def connect(addresses: dict[str, int | None], /) -> None: ...
def setup(given: dict[str, Any], /) -> None: ...
def method(owner: type, name: str, pure: Callable[..., Any], text: str, parameters: tuple[str, ...], /) -> Any: ...
def forget_context() -> None: ...
def function(name: str, module_name: str, /) -> Callable[..., Any]: ...
def xla_handlers() -> dict[str, tuple[Any, Any]]: ...

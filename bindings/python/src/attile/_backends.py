# SPDX-License-Identifier: Apache-2.0
"""Backends that other packages bring.

A package that carries a backend, libattile_backend_NAME.so, names it by an entry point of the group ``attile.backends``: the entry's name is NAME, its value the
package in whose folder the file lies. The package is found and not imported. libattile searches its folder after the directories of ATTILE_BACKEND_PATH and before its own.
"""
from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import sys
import warnings

GROUP = "attile.backends"


def _entries() -> list[importlib.metadata.EntryPoint]:
    """Entry points of the group, in the order of their packages' names."""
    if sys.version_info >= (3, 10):
        found = importlib.metadata.entry_points(group=GROUP)
    else:
        found = importlib.metadata.entry_points().get(GROUP, ())
    return sorted(set(found), key=lambda entry: (entry.name, entry.value))


def backend_directories() -> list[str]:
    """The folders of installed packages that bring a backend. Two packages for one backend, or one without its file, are worth a warning and do no harm."""
    folders: dict[str, str] = {}
    packages: dict[str, str] = {}
    for entry in _entries():
        try:
            spec = importlib.util.find_spec(entry.value)
        except (ImportError, ValueError):
            spec = None
        file = f"libattile_backend_{entry.name}.so"
        folder = next((place for place in (spec.submodule_search_locations or [] if spec else []) if os.path.exists(os.path.join(place, file))), None)
        if folder is None:
            warnings.warn(f"the package {entry.value} says that it brings the backend '{entry.name}', and holds no {file}: install it again", RuntimeWarning, stacklevel=2)
        elif entry.name in folders:
            warnings.warn(f"the packages {packages[entry.name]} and {entry.value} both bring the backend '{entry.name}', and {packages[entry.name]} is used: uninstall one of them",
                          RuntimeWarning, stacklevel=2)
        else:
            folders[entry.name], packages[entry.name] = os.path.abspath(folder), entry.value
    return list(dict.fromkeys(folders.values()))


def add_backend_directories(library: ctypes.CDLL) -> None:
    """Has libattile search the folders of packages. What a program adds goes before ATTILE_BACKEND_PATH, so that variable's directories are added once more, in front."""
    folders = backend_directories()
    if not folders:
        return
    privileged = (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid())  # libattile ignores the variable then
    wanted = [] if privileged else [place for place in os.environ.get("ATTILE_BACKEND_PATH", "").split(":") if os.path.isabs(place)]
    for folder in reversed(wanted + folders):
        library.attile_add_backend_directory(os.fsencode(folder))  # one that is not there is refused, as it is in the variable

# SPDX-License-Identifier: Apache-2.0
"""The compiled extension of the package, where it can be built; all else is in pyproject.toml.

It needs CPython 3.11 or later with its headers, a C compiler, and attile.h: in this source tree, where ATTILE_INCLUDE says, or where the compiler looks. Where one
of them is missing the package is installed without the extension, and calls go through ctypes.
"""
import os
import pathlib
import platform
import sys
import sysconfig

from setuptools import Extension, setup

HERE = pathlib.Path(__file__).resolve().parent


def include_directories():
    of_tree = HERE.parent.parent / "include"
    return [os.environ["ATTILE_INCLUDE"]] if os.environ.get("ATTILE_INCLUDE") else [str(of_tree)] if (of_tree / "attile" / "attile.h").exists() else []


def extensions():
    if sys.version_info < (3, 11) or platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []  # The stable ABI that is used is that of 3.11, and Pythons without a GIL have another.
    sources = sorted(str(source.relative_to(HERE)) for source in (HERE / "native").glob("*.c"))
    return [Extension("attile._native", sources, include_dirs=include_directories(), depends=[str(header) for header in (HERE / "native").glob("*.h")],
                      extra_compile_args=["-fvisibility=hidden"] if os.name == "posix" else [], py_limited_api=True, optional=True)]


found = extensions()
setup(ext_modules=found, options={"bdist_wheel": {"py_limited_api": "cp311"}} if found else {})

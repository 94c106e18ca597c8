# SPDX-License-Identifier: Apache-2.0
"""What of the package is compiled; all else is in pyproject.toml.

The extension needs CPython 3.11 or later with its headers, a C compiler, and attile.h: in this source tree, where ATTILE_INCLUDE says, or where the compiler looks. Where one of them is missing
the package is installed without the extension, and calls go through ctypes.

A package of source (tools/wheel --sdist) carries the library's sources, too, in the folder library: libattile with the backends reference and cpu is built with CMake and a C++20 compiler, and
installed in the package. CMAKE_ARGS holds more arguments for CMake. ATTILE_SYSTEM_LIBRARY=1 leaves it out: the library is then one that the system's loader finds.
"""
import os
import pathlib
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Distribution, Extension, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = HERE / "library"
BUILDS_LIBRARY = LIBRARY.is_dir() and os.environ.get("ATTILE_SYSTEM_LIBRARY", "0") in ("", "0")


def include_directories():
    if os.environ.get("ATTILE_INCLUDE"):
        return [os.environ["ATTILE_INCLUDE"]]
    return [str(folder) for folder in (LIBRARY / "include", HERE.parent.parent / "include") if (folder / "attile" / "attile.h").exists()][:1]


def extensions():
    if sys.version_info < (3, 11) or platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return []  # The stable ABI that is used is that of 3.11, and Pythons without a GIL have another.
    sources = sorted(str(source.relative_to(HERE)) for source in (HERE / "native").glob("*.c"))
    return [Extension("attile._native", sources, include_dirs=include_directories(), depends=[str(header) for header in (HERE / "native").glob("*.h")],
                      extra_compile_args=["-fvisibility=hidden"] if os.name == "posix" else [], py_limited_api=True, optional=True)]


def run(*command):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode:
        sys.stderr.write(result.stdout)
        sys.exit("attile: libattile was not built, see above: it needs Linux, a C and a C++20 compiler. ATTILE_SYSTEM_LIBRARY=1 installs the package for a library that is installed already")


class BuildWithLibrary(build_py):
    """The Python files, and beside them libattile and the cpu backend."""

    def run(self):
        super().run()
        if not BUILDS_LIBRARY or getattr(self, "editable_mode", False):
            return
        cmake = shutil.which("cmake") or sys.exit("attile: libattile is built with cmake (3.25 or later), which is not on PATH. ATTILE_SYSTEM_LIBRARY=1 installs the package for a library that is installed already")
        tree = pathlib.Path(self.get_finalized_command("build").build_temp).resolve() / "library"
        if not shutil.which("make") and shutil.which("ninja"):
            os.environ.setdefault("CMAKE_GENERATOR", "Ninja")
        run(cmake, "-S", LIBRARY, "-B", tree, "-DCMAKE_BUILD_TYPE=Release", "-DATTILE_DEVELOPER=OFF", "-DATTILE_INSTALL=OFF", f"-DATTILE_HIGHWAY_INCLUDE={LIBRARY / 'highway'}",
            "-DCMAKE_SHARED_LINKER_FLAGS_INIT=-s", "-DCMAKE_MODULE_LINKER_FLAGS_INIT=-s", *shlex.split(os.environ.get("CMAKE_ARGS", "")))
        run(cmake, "--build", tree, "--parallel", os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count())))
        target = pathlib.Path(self.build_lib) / "attile/lib"
        for built in (tree / "lib/libattile.so.1", *(tree / "lib").glob("*/libattile_backend_*.so")):
            destination = target / built.relative_to(tree / "lib")
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(built, destination)


class CompiledDistribution(Distribution):
    def has_ext_modules(self):
        return BUILDS_LIBRARY or super().has_ext_modules()


found = extensions()
setup(ext_modules=found, options={"bdist_wheel": {"py_limited_api": "cp311"}} if found else {}, cmdclass={"build_py": BuildWithLibrary}, distclass=CompiledDistribution,
      setup_requires=["cmake>=3.25"] if BUILDS_LIBRARY and not shutil.which("cmake") else [])

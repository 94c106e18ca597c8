# SPDX-License-Identifier: Apache-2.0
"""What packages of source carry, so that they need a compiler and CMake alone: all that builds libattile with the backends reference and cpu, and Highway's headers."""
import os
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARTS = ("CMakeLists.txt", "LICENSE", "cmake", "include", "core", "backends/CMakeLists.txt", "backends/reference", "backends/cpu", "backends/comm",
         "bindings/fortran/sources.cmake")
NOT_CARRIED = shutil.ignore_patterns("__pycache__", "packaging")


class NotThere(Exception):
    pass


def highway_headers():
    """The folder that holds hwy/highway.h."""
    for folder in (os.environ.get("ATTILE_HIGHWAY_INCLUDE"), "/usr/local/include", "/usr/include"):
        if folder and (pathlib.Path(folder) / "hwy/highway.h").exists():
            return pathlib.Path(folder)
    raise NotThere("hwy/highway.h was not found; install Highway (Debian: libhwy-dev) or set ATTILE_HIGHWAY_INCLUDE to the folder that holds hwy")


def copy_to(target):
    """Fills the folder `target`, which is not there yet. Highway's headers go to target/highway; the files say their licence, of which Apache-2.0 is one choice."""
    for part in PARTS:
        source, destination = ROOT / part, target / part
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, destination, ignore=NOT_CARRIED)
        else:
            shutil.copy(source, destination)
    for folder in ("hwy", "hwy/ops", "hwy/contrib/math"):
        (target / "highway" / folder).mkdir(parents=True)
        for header in (highway_headers() / folder).glob("*.h"):
            shutil.copy(header, target / "highway" / folder)
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)

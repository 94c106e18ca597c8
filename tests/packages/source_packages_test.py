#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages of source hold all that builds the library: what tools/wheel --sdist and tools/crate write is compared with the tree, file by file. They are built by tests/release/source_packages.sh.

usage: source_packages_test.py SOURCE WORK
"""
import pathlib
import shutil
import subprocess
import sys
import tarfile
import unittest

SOURCE, WORK = (pathlib.Path(argument) for argument in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "cmake/packaging"))
import source_tree  # noqa: E402


def made(tool, *arguments, pattern):
    work = WORK / tool
    result = subprocess.run([SOURCE / "tools" / tool, *arguments, "--work", work], capture_output=True, text=True, check=False)
    if result.returncode:
        raise AssertionError(result.stdout + result.stderr)
    [packed] = work.glob(pattern)
    with tarfile.open(packed) as archive:
        return {member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in archive.getmembers() if member.isfile()}


class SourcePackagesTest(unittest.TestCase):
    def check_library(self, files):
        parts = [SOURCE / part for part in source_tree.PARTS]
        wanted = [path for part in parts for path in ([part] if part.is_file() else part.rglob("*")) if path.is_file() and not {"packaging", "__pycache__"} & set(path.parts)]
        self.assertGreater(len(wanted), 100)
        for path in wanted:
            name = f"library/{path.relative_to(SOURCE)}"
            self.assertIn(name, files)
            self.assertEqual(files[name], path.read_bytes(), name)
        self.assertIn("library/highway/hwy/highway.h", files)
        self.assertIn("LICENSE", files)
        self.assertLess(sum(len(content) for content in files.values()), 10_000_000)
        self.check_configuration(files)

    def check_configuration(self, files):
        """CMake finds in the package all that it asks for, as pip and as cargo set it up."""
        for name, content in files.items():
            if name.startswith("library/"):
                path = WORK / "unpacked" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        library = WORK / "unpacked/library"
        for install, shared in (("OFF", "ON"), ("ON", "OFF")):
            result = subprocess.run(["cmake", "-S", library, "-B", WORK / f"configured_{install}", "-DATTILE_DEVELOPER=OFF", f"-DATTILE_INSTALL={install}", f"-DBUILD_SHARED_LIBS={shared}",
                                     f"-DATTILE_HIGHWAY_INCLUDE={library / 'highway'}"], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
        shutil.rmtree(WORK / "unpacked")

    def test_python(self):
        output = WORK / "wheel/made"
        files = made("wheel", "--sdist", "--output", str(output), pattern="made/*.tar.gz")
        self.check_library(files)
        self.assertIn("native/module.c", files)
        self.assertIn("src/attile/__init__.py", files)

    def test_rust(self):
        if not shutil.which("cargo"):
            self.skipTest("no cargo here")
        files = made("crate", pattern="target/package/attile-sys-*.crate")
        self.check_library(files)
        self.assertIn("vendored.rs", files)
        self.assertIn(b"vendored = []", files["Cargo.toml"])


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    unittest.main(argv=sys.argv[:1])

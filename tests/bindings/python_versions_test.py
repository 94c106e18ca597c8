# SPDX-License-Identifier: Apache-2.0
"""Versions of frameworks that attile.torch and attile.jax refuse, with the range. The frameworks stand here as modules that have a version and no more."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

STAND_IN = {"torch": "class Tensor: pass\n", "jax": ""}


class Versions(unittest.TestCase):
    def import_of(self, name, version):
        """The last line of what Python says to the import of attile.<name> where the framework of that name is a stand-in of that version."""
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, name)
            package.mkdir()
            (package / "__init__.py").write_text(f"__version__ = {version!r}\n{STAND_IN[name]}", encoding="utf-8")
            (package / "numpy.py").touch()
            path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
            found = subprocess.run([sys.executable, "-c", f"import attile.{name}"], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
        return (found.stderr.splitlines() or [""])[-1]

    def check(self, name, framework, expected, refused, taken):
        for version in refused:
            with self.subTest(framework=framework, version=version):
                self.assertEqual(self.import_of(name, version), f"ImportError: attile.{name}: {framework} is version {version}, expected {expected}")
        for version in taken:  # the rest of the framework is missed then
            with self.subTest(framework=framework, version=version):
                said = self.import_of(name, version)
                self.assertNotIn("is version", said)
                self.assertRegex(said, f"'{name}|needs the package's compiled extension")

    def test_torch(self):
        self.check("torch", "PyTorch", "2.4 or later, below 3", ["2.3.1+cu121", "3.0.0a0+git1f", "20.4.0", "nonsense"],
                   ["2.4.0", "2.15.0+cpu"])

    def test_jax(self):
        self.check("jax", "JAX", "0.5 or later, below 1", ["0.4.38", "1.0.0.dev1", "nonsense"], ["0.5.0", "0.10.2"])


if __name__ == "__main__":
    unittest.main()

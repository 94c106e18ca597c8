# SPDX-License-Identifier: Apache-2.0
"""The package's types, by mypy: the package itself, a program of a user with its mistakes, and the extension's stub against the extension."""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
import unittest

import attile
from attile import _structs

PACKAGE = pathlib.Path(attile.__file__).parent

PROGRAM = """
import numpy as np
import attile
import attile.distributed

x = np.zeros((4, 4), np.float32)
q = np.zeros((1, 1, 4, 4), np.float32)
attile.gemm(x, x, activation="relu", bias=x[0], bias_axis="rows")
attile.attention(q, q, q, mask="window_top_left", window=(1, 2), lse=True)
attile.softmax(x, 0)
with attile.Context("cpu") as context, context.prepare_gemm(x, x) as call:
    call.run(a=x, stream=0)
    backend: str = context.info.backend
version: str = attile.__version__
print(attile.reduce(x, "mean"), attile.compiled, backend)
with attile.distributed.Communicator.threads(0, 1, timeout=1) as ranks:
    ranks.attention(q[:, :, ranks.positions("zigzag", 4)], q, q, layout="zigzag", method="ring", lse=True)
    rank: int = ranks.info.rank
attile.gemm(x)  # mistake
attile.gemm(x, x, activation="tanh")  # mistake
attile.attention(q, q, q, mask=3)  # mistake
attile.reduce(x, "product")  # mistake
attile.softmax(x, axes=0)  # mistake
context.prepare_gemm(x, x, query=True)  # mistake
count: str = attile.backend_report  # mistake
ranks.attention(q, q, q, layout="round")  # mistake
ranks.attention(q, q, q, method="local")  # mistake
ranks.attention_backward(q, q, q, q, q, x, workspace=x)  # mistake
attile.distributed.Communicator.callbacks(object(), 0, 1)  # mistake
"""


def run(*arguments, **options):
    return subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, check=False, **options)


class Names(unittest.TestCase):
    def test_each_table_has_the_names_of_its_type(self):
        for names, table in ((_structs.Activation, _structs.ACTIVATIONS), (_structs.BiasAxis, _structs.BIAS_AXES), (_structs.Mask, _structs.MASKS),
                             (_structs.Reduction, _structs.REDUCTIONS), (_structs.Shards, _structs.SHARDS), (_structs.Method, _structs.METHODS)):
            self.assertEqual(set(typing.get_args(names)), set(table) - {None})


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Mypy(unittest.TestCase):
    def test_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            found = run("mypy", "--strict", "--cache-dir", folder, PACKAGE)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)

    def test_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "program.py")
            path.write_text(PROGRAM, encoding="utf-8")
            found = run("mypy", "--cache-dir", folder, path)
        wrong = sorted({int(number) for number in re.findall(r"program\.py:(\d+): error", found.stdout)})
        self.assertEqual(wrong, [number for number, line in enumerate(PROGRAM.split("\n"), 1) if "# mistake" in line], found.stdout + found.stderr)

    @unittest.skipUnless(attile.compiled, "the extension is not there")
    def test_the_stub_is_that_of_the_extension(self):
        newer = [option for option in ("--ignore-disjoint-bases",) if option in run("mypy.stubtest", "--help").stdout]
        with tempfile.TemporaryDirectory() as folder:
            found = run("mypy.stubtest", "attile._native", *newer, cwd=folder)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)


if __name__ == "__main__":
    unittest.main()

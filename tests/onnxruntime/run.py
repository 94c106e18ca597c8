# SPDX-License-Identifier: Apache-2.0
"""Runs a test of this folder, or says that it was not run where Python lacks ONNX Runtime or ONNX.

usage: run.py TEST ARGUMENTS...
"""
import importlib.util
import os
import runpy
import sys

missing = [name for name in ("onnxruntime", "onnx") if importlib.util.find_spec(name) is None]
if missing:
    print(f"not run: {sys.executable} has no {' and no '.join(missing)}")
    sys.exit()
sys.argv = sys.argv[1:]
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), sys.argv[0]), run_name="__main__")

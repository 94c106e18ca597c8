#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Choosing where to run, and finding out why it is not where you thought.

    python3 choose_backend.py               what ATTILE_BACKEND says, else the best that can run here
    python3 choose_backend.py cuda,cpu      the first of a list that can
    python3 choose_backend.py cuda:1        the second device of one backend, strictly: nothing else will do
"""
import sys

import attile
import numpy as np

# [choose]
try:
    context = attile.Context(sys.argv[1] if len(sys.argv) > 1 else None)
except attile.AttileError as error:
    print(f"{error}\nbackends tried:\n{attile.backend_report()}", file=sys.stderr)
    sys.exit(1)
info = context.info
print(f"backend: {info.backend} {info.backend_version}\ndevice:  {info.device_name} {info.arch}")
# [choose]

# [query]
print("product of 1024x1024 matrices:")
for dtype in (np.float32, np.float64, np.float16):
    x = np.zeros((1024, 1024), dtype)
    support = context.gemm(x, x, query=True)
    print(f"  {x.dtype.name:8}", support.level, support.kernel if support.level != "none" else support.text)
# [query]
print(f"backends tried:\n{attile.backend_report()}", end="")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy's products of square matrices by another BLAS, and by libattile_blas preloaded, on one processor; prints a table of GFLOP/s.

usage: numpy_blas.py LIBRARY [--size N]... [--repeat R] [--blas NAME=FOLDER]...
    LIBRARY        libattile_blas.so
    --blas         a folder with a libblas.so.3 (Debian: netlib=/usr/lib/x86_64-linux-gnu/blas); none: the one that NumPy finds
A rate is that of the median of R products in a process of its own, the best of three such processes. Times are those of the processor, which
others on the machine lengthen less than the clock's.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

ROUNDS = 3


def measure(dtype, size, repeat):
    import numpy as np
    draw = np.random.default_rng(1)
    a, b = (draw.normal(size=(size, size)).astype(dtype) for _ in range(2))
    c = a @ b
    times = []
    for _ in range(repeat):
        start = time.process_time()
        np.matmul(a, b, out=c)
        times.append(time.process_time() - start)
    print(2 * size**3 / statistics.median(times) / 1e9)


def child(environment, dtype, size, repeat):
    command = [sys.executable, "-B", __file__, "--child", dtype, str(size), str(repeat)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode or done.stderr:
        sys.exit(f"{dtype}, {size}: {done.stderr or 'no answer'}")
    return float(done.stdout)


def main():
    if sys.argv[1:2] == ["--child"]:
        return measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    words = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    words.add_argument("library")
    words.add_argument("--size", type=int, action="append")
    words.add_argument("--repeat", type=int, default=11)
    words.add_argument("--blas", action="append", default=[])
    given = words.parse_args()
    ways = {} if given.blas else {"the system's": {}}
    for name, _, folder in (word.partition("=") for word in given.blas):
        ways[name] = {"LD_LIBRARY_PATH": folder}
    ways["libattile_blas, cpu"] = {"LD_PRELOAD": os.path.abspath(given.library), "ATTILE_BACKEND": "cpu"}
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # so that each has one thread
    print("| product |", " | ".join(ways), "|")
    print("|---" * (len(ways) + 1) + "|")
    for dtype in ("float32", "float64"):
        for size in given.size or [64, 256, 1024]:
            best = {name: 0.0 for name in ways}
            for _ in range(ROUNDS):
                for name, environment in ways.items():
                    best[name] = max(best[name], child(environment, dtype, size, given.repeat))
            print(f"| {dtype}, {size} x {size} x {size} |", " | ".join(f"{rate:.1f}" for rate in best.values()), "|", flush=True)
    return None


if __name__ == "__main__":
    main()

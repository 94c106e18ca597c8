#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the ladder's test: breaks steps on purpose, compiles each for the host, and fails unless its check fails.

usage: mutate_steps.py --compiler CXX --source ROOT --work FOLDER
"""
import argparse
import os
import subprocess
import sys

# File, what stands there, what is put in its place. Each is a fault that real programs have.
MUTANTS = [
    ("gemm_03_tile.cu", "__syncthreads();  // Nobody needs them any more.", "// no barrier"),
    ("gemm_05_boundary.cu", "first + y < width && col < width", "col < width"),
    ("gemm_06_rectangular.cu", "(first + y) * l + col", "(first + y) * k + col"),
    ("gemm_10_vector.cu", "const bool aligned_a = p.k % 4 == 0 &&", "const bool aligned_a ="),
    ("gemm_11_doublebuffer.cu", "store(buffer ^ 1, next);", "store(buffer, next);"),
    ("reduce_01_global.cu", "i + half < n ? x[i] + x[i + half] : x[i]", "x[i] + x[i + half]"),
    ("reduce_06_shuffle.cu", "lane < kWarps ? part[lane] : 0.0f", "part[lane % kWarps]"),
    ("attention_04_query_blocks.cu", "float top = -INFINITY;", "float top = 0;"),
    ("attention_08_registers_lm.cu", "min(keys, n - first_key)", "keys"),
    ("attention_10_q_registers.cu", "float old_max = -INFINITY", "float old_max = 1e-38f"),
]


def run(*words, **more):
    return subprocess.run(words, check=False, capture_output=True, text=True, **more)


def program_of(options, name, text, emulator):
    """The step's text, rewritten and linked with the emulator; None and a message if it does not compile."""
    base = os.path.join(options.work, name[:-3])
    with open(base + ".cu", "w", encoding="utf-8") as file:
        file.write(text)
    rewrite = os.path.join(options.source, "tests", "ladder", "emulate_source.py")
    for words in ((sys.executable, rewrite, base + ".cu", base + ".cpp"),
                  (options.compiler, "-std=c++17", "-O1", "-w", "-I", options.work, "-I", os.path.join(options.source, "tests", "ladder"), base + ".cpp", emulator,
                   "-o", base)):
        made = run(*words)
        if made.returncode:
            return None, made.stderr
    return base, ""


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    for name in ("--compiler", "--source", "--work"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    ladder = os.path.join(options.source, "examples", "ladder")
    tests = os.path.join(options.source, "tests", "ladder")
    emulator = os.path.join(options.work, "device_emulator.o")
    made = run(options.compiler, "-std=c++17", "-O1", "-c", os.path.join(tests, "device_emulator.cpp"), "-o", emulator)
    if made.returncode:
        sys.exit(made.stderr)
    for header in ("ladder.h", "ladder_gemm.h", "ladder_reduce.h", "ladder_attention.h"):
        run(sys.executable, os.path.join(tests, "emulate_source.py"), os.path.join(ladder, header), os.path.join(options.work, header))
    faults = 0
    for name, old, new in MUTANTS:
        with open(os.path.join(ladder, name), encoding="utf-8") as file:
            text = file.read()
        if old not in text:
            print(f"{name}: '{old}' is no longer there; give the test another fault to plant")
            faults += 1
            continue
        program, message = program_of(options, name, text.replace(old, new), emulator)
        if not program:
            print(f"{name}: the mutant does not compile: {message}")
            faults += 1
            continue
        result = run(program, "--check")  # A read beyond an allocation ends it by a signal, which is a failure too.
        found = result.returncode != 0
        print(f"{name}: {'found' if found else 'NOT FOUND'}: {old} -> {new}", flush=True)
        faults += not found
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

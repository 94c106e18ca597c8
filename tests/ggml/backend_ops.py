#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ggml's own test-backend-ops on libggml-attile: every case passes or is refused for a reason that is listed here.

usage: backend_ops.py PROGRAM LIBRARY OPERATION LEAST [--cases REGEX]
    PROGRAM      test-backend-ops of llama.cpp
    LIBRARY      libggml-attile.so
    OPERATION    MUL_MAT, FLASH_ATTN_EXT or SOFT_MAX
    LEAST        so many cases must pass
    --cases      only those whose parameters match; none: all, which take minutes
"""
import argparse
import collections
import csv
import os
import re
import subprocess
import sys

SERVED = "f32|f16|bf16"
# Why a case is refused: of which operation, by what in its parameters.
REASONS = [
    ("a type that Attile does not have", "MUL_MAT", rf"type_a=(?!({SERVED}),)"),
    ("a type that Attile does not have", "FLASH_ATTN_EXT", rf"type_K=(?!({SERVED}),)|type_V=(?!({SERVED}),)"),
    ("K and V of different types", "FLASH_ATTN_EXT", rf"type_K=(?P<k>{SERVED}),type_V=(?!(?P=k),)({SERVED}),"),
    ("a sum of products, whose additions are not served", "MUL_MAT", r",o=[2-9],"),
]


def reason(row):
    if "Attile" not in row["backend_name"]:
        return "ggml's CPU backend has nothing to compare with"
    found = [text for text, operation, pattern in REASONS if operation == row["op_name"] and re.search(pattern, row["op_params"])]
    return found[0] if found else None


def main():
    words = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    words.add_argument("program")
    words.add_argument("library")
    words.add_argument("operation")
    words.add_argument("least", type=int)
    words.add_argument("--cases")
    given = words.parse_args()
    command = [given.program, "test", "-b", "Attile", "-o", given.operation, "--output", "csv"]
    command += ["-p", given.cases] if given.cases else []
    done = subprocess.run(command, env={**os.environ, "GGML_BACKEND_PATH": given.library}, capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    passed, failed, refused, unexplained = 0, [], collections.Counter(), []
    for row in csv.DictReader(line for line in done.stdout.splitlines() if line.startswith('"')):
        if row["supported"] == "1":
            passed += not row["error_message"]
            failed += [row] if row["error_message"] else []
        elif reason(row):
            refused[reason(row)] += 1
        else:
            unexplained.append(row)
    for row in failed + unexplained:
        print(f"{row['op_name']}({row['op_params']}): {row['error_message']}")
    print(f"{given.operation}: {passed} passed, {len(failed)} failed, {refused.total()} refused, {len(unexplained)} refused without a reason")
    for text, count in refused.most_common():
        print(f"  {count} refused: {text}")
    if done.returncode or failed or unexplained:
        sys.exit(f"{given.program} ended with {done.returncode}")
    if passed < given.least:
        sys.exit(f"{passed} cases passed, expected {given.least} or more")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A first program in another language against the C program: the same float32 numbers to the bit, and of a wrong shape the same sentence.

usage: same_bits.py C_PROGRAM -- PROGRAM [ARGUMENT...]
"""
import struct
import subprocess
import sys


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def bits(command):
    done = run(command)
    if done.returncode != 0:
        sys.exit(f"{command} failed: {done.stderr}")
    return [struct.pack("<f", float(word)).hex() for word in done.stdout.split()]


theirs, ours = [sys.argv[1]], sys.argv[3:]
expected, found = bits(theirs), bits(ours)
if len(expected) != 96 or found != expected:
    different = sum(a != b for a, b in zip(expected, found))
    sys.exit(f"{len(found)} numbers, {different} of them other than the C program's {len(expected)}")
refused, too = run(theirs + ["wrong"]), run(ours + ["wrong"])
sentence = refused.stderr.partition(": ")[2].strip()
if refused.returncode == 0 or "v.shape" not in sentence:
    sys.exit(f"the C program does not name the wrong argument: {refused.stderr}")
if too.returncode == 0 or too.returncode < 0 or sentence not in too.stderr:
    sys.exit(f"status {too.returncode} and '{too.stderr}' instead of '{sentence}'")
print(f"96 numbers to the bit; of the wrong shape: {sentence}")

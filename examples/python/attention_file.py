#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of a file: reads Q, K and V, writes softmax(Q K^T / sqrt(d)) V.

    python3 attention_file.py in.bin out.bin
    ATTILE_BACKEND=reference python3 attention_file.py in.bin out.bin

The input, all little-endian: int32 B, N, d; then, for each of the B batches, Q, K and V of N*d float32 each. The output is B*N*d float32.
`attile generate` makes such inputs.
"""
import sys

import attile
import numpy as np


def main(source, target):
    with open(source, "rb") as file:
        content = file.read()
    if len(content) < 12:
        raise ValueError(f"{source}: too short for an attention file")
    batch, length, dim = np.frombuffer(content, "<i4", 3).tolist()
    if min(batch, length, dim) < 1 or len(content) != 12 + 4 * 3 * batch * length * dim:
        raise ValueError(f"{source}: B = {batch}, N = {length}, d = {dim} does not fit its {len(content)} bytes")

    # [compute]
    qkv = np.frombuffer(content, "<f4", offset=12).reshape(batch, 3, 1, length, dim)  # one head
    # Views: from one batch's Q to the next one's there are three matrices, and nothing is copied together first.
    out = attile.attention(qkv[:, 0], qkv[:, 1], qkv[:, 2])
    # [compute]

    out.astype("<f4", copy=False).tofile(target)
    print(f"{target}: B = {batch}, N = {length}, d = {dim}; first value {out.flat[0]:g}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: attention_file.py INPUT OUTPUT")
    try:
        main(*sys.argv[1:])
    except (OSError, ValueError, attile.AttileError) as error:
        sys.exit(f"attention_file.py: {error}")

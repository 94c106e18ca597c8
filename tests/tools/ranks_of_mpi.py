#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The attile program as ranks of MPI: attention of a file against one process, verify, bench, and a failure of all ranks.

    ranks_of_mpi.py PROGRAM INPUT all | few LAUNCHER [OPTION...]
"""
import array
import pathlib
import subprocess
import sys
import tempfile

program, source, extent, launcher = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]


def run(ranks, *arguments):
    command = ([*launcher, "-n", str(ranks)] if ranks else []) + [program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def right(found, *parts):
    assert found.returncode == 0, found.stdout + found.stderr
    for part in parts:
        assert part in found.stdout, f"no '{part}' in {found.stdout}"


def floats(path):
    values = array.array("f")
    values.frombytes(path.read_bytes())
    if sys.byteorder == "big":
        values.byteswap()
    return values


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    for causal in ([], ["--causal"]):
        right(run(0, "attention", source, folder / ("one" + "".join(causal)), *causal, "--backend", "reference"))
    for ranks in (1, 2, 3, 4) if extent == "all" else (3,):
        causal, backend = ["--causal"] if ranks % 2 else [], "reference" if ranks < 3 else "cpu"
        right(run(ranks, "attention", "--ranks", source, folder / "all", *causal, "--backend", backend), f"{ranks} by mpi", "in communication")
        found, expected = floats(folder / "all"), floats(folder / ("one" + "".join(causal)))
        assert len(found) == len(expected) > 0
        assert all(abs(x - y) <= 2e-6 for x, y in zip(found, expected)), f"{ranks} ranks differ from one"
        (folder / "all").unlink()
    for ranks, backend in ((2, "cpu"), (3, "reference")) if extent == "all" else ((2, "cpu"),):
        right(run(ranks, "verify", "--ranks", "--backend", backend, "--filter", r"random\.[1-4]$"), f"{ranks} by mpi", "attention_backward")
    if extent == "all":
        right(run(2, "bench", "--ranks", "--size", "tiny", "--seconds", "0.05", "--backend", "cpu"), "2 by mpi", "communication", "attention_backward/")
    failed = run(2, "attention", "--ranks", folder / "nosuch", folder / "out", "--backend", "reference")
    assert failed.returncode != 0 and "attile: rank " in failed.stderr and "cannot be opened" in failed.stderr, failed.stderr
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["one", "one--causal"], left
print("right")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `attile bench --random --json` writes is JSON, agrees with itself, and names problems that --problem runs again.

usage: bench_random_json.py PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile


def run(folder, *words):
    path = os.path.join(folder, "found.json")
    subprocess.run([sys.argv[1], "bench", "--backend", "cpu,reference", "--json", path, *words], check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


with tempfile.TemporaryDirectory() as folder:
    found = run(folder, "--random", "1", "--count", "3", "--seed", "7", "--peak", "f32=1e12", "--peak", "f64=1e12", "--peak", "f16=1e12", "--peak", "bf16=1e12", "--peak", "memory=1e12")
    assert found["roof"]["f32_flops"] == 1e12 and found["roof"]["from"].startswith("given") and found["seed"] == 7
    assert len(found["distributions"]) == 6
    ran = [row for row in found["results"] if "not_run" not in row]
    assert len(ran) == sum(one["problems"] for one in found["distributions"]) >= 6
    for row in ran:
        assert abs(row["share"] - row["roofline_seconds"] / row["seconds"]) < 1e-6 * row["share"], row
    for one in found["distributions"]:
        kinds = {}
        for group in one["groups"]:
            kinds[group["by"]] = kinds.get(group["by"], 0) + group["problems"]
            assert group["quantiles"] == sorted(group["quantiles"]), group
        assert set(kinds.values()) == {one["problems"]}, kinds  # Every problem is counted once under each.
    again = run(folder, "--seconds", "0.05", "--problem", ran[0]["problem"], "--problem", ran[-1]["problem"])
    assert [(row["problem"], row["kernel"], row["flops"], row["bytes"]) for row in again["results"]] == [(row["problem"], row["kernel"], row["flops"], row["bytes"]) for row in (ran[0], ran[-1])]
print("JSON of drawn problems agrees with itself")

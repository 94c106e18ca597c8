#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attile's cpu backend beside OpenBLAS, BLIS, oneDNN, PyTorch and ONNX Runtime, and beside the processor's own limits: one JSON file of it all.

usage: compare_cpu_peers.py --bench build/cpu/bin/attile_bench_cpu --json FILE [--only REGEX] [--threads 1,2] [--run "PREFIX"] [--no-frameworks]
       compare_cpu_peers.py --table FILE           the file's rows as Markdown

attile_bench_cpu does what needs no Python, one piece at a time (--run puts a command in front of each, say one that keeps other programs off). PyTorch's
scaled_dot_product_attention and ONNX Runtime's MultiHeadAttention are measured here where they can be imported, through the `attile` package and libattile
(ATTILE_LIBRARY): same inputs, calls alternating, medians, ratios over the rounds. Rows already in FILE are kept unless measured again; each tells its date and commit.
"""
import argparse
import datetime
import json
import math
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

PIECES = ["sgemm/.*(512|1024|2048)$", "sgemm/.*4096$", "dgemm/.*(512|1024|2048)$", "dgemm/.*4096$", "small/", "attention/.*S=(512|2048) ", "attention/.*S=8192 ",
          "decode/", "scaling/", "reference/"]
FRAMEWORK_SHAPES = [(1, 8, length, dim, causal) for dim in (64, 128) for length in (512, 2048) for causal in (False, True)] + [(1, 2, 8192, 64, False), (1, 2, 8192, 64, True)]


def command(*words):
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def stamp(rows, commit):
    return [dict(row, date=datetime.date.today().isoformat(), commit=commit) for row in rows]


def run_bench(options, only, threads):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        words = shlex.split(options.run) + [options.bench, "--only", only, "--threads", str(threads), "--seconds", str(options.seconds), "--json", file]
        subprocess.run(words, check=True)
        with open(file, encoding="utf-8") as stream:
            return json.load(stream)


def race(calls, seconds):
    """Times of each call in seconds, in rounds as attile_bench_cpu has them: a side waits until the threads of the one before have come to rest, calls once
    unmeasured, since its own threads rest too, and then for 20 ms or 20 times; who begins changes."""
    for call in calls.values():
        call()
    found, rounds = {name: [] for name in calls}, {name: [] for name in calls}
    order = list(calls)
    start = time.perf_counter()
    while min(map(len, found.values())) < 5 or time.perf_counter() - start < seconds:
        for name in order:
            time.sleep(0.05)
            calls[name]()
            begin, count = time.perf_counter(), 0
            for _ in range(20):
                before = time.perf_counter()
                calls[name]()
                now = time.perf_counter()
                found[name].append(now - before)
                count += 1
                if now - begin > 0.02:
                    break
            rounds[name].append(statistics.median(found[name][-count:]))
        order.append(order.pop(0))
    return found, rounds


def spread(values):
    quarter = statistics.quantiles(values, n=4)
    return (quarter[2] - quarter[0]) / statistics.median(values)


def onnx_attention(onnxruntime, batch, heads, length, dim, threads):
    """A session of one MultiHeadAttention node on [batch, length, heads * dim], or None where the helpers to make it are missing."""
    try:
        from onnx import TensorProto, helper
    except ImportError:
        return None
    shape = [batch, length, heads * dim]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=heads)
    graph = helper.make_graph([node], "attention", [value("q"), value("k"), value("v")], [value("o")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])


def frameworks(options, threads, facts):
    try:
        import torch
        import torch.nn.functional as functional
        import attile
    except ImportError as missing:
        print(f"frameworks left out: {missing}")
        return []
    try:
        import onnxruntime
    except ImportError:
        onnxruntime = None
    facts["pytorch"] = torch.__version__
    facts["onnxruntime"] = onnxruntime.__version__ if onnxruntime else "not installed"
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rows = []
    context = attile.Context("cpu", threads=threads)
    for batch, heads, length, dim, causal in FRAMEWORK_SHAPES:
        name = f"B={batch} H={heads} S={length} d={dim}" + (" causal" if causal else "")
        if not re.search(options.only, "frameworks/" + name):
            continue
        q, k, v = (torch.empty(batch, heads, length, dim).uniform_(-3, 3) for _ in range(3))
        out = torch.full_like(q, math.nan)
        mask = "causal_top_left" if causal else None
        calls = {"attile": lambda: context.attention(q, k, v, out=out, mask=mask), "pytorch": lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal)}
        session = onnx_attention(onnxruntime, batch, heads, length, dim, threads) if onnxruntime and not causal else None
        if session is not None:
            flat = {n: x.transpose(1, 2).reshape(batch, length, heads * dim).contiguous().numpy() for n, x in zip("qkv", (q, k, v))}
            calls["onnxruntime"] = lambda: session.run(None, flat)
        found, rounds = race(calls, options.seconds)
        # They must have computed the same thing; NaN fails.
        worst = float((out - calls["pytorch"]()).abs().max())
        if not worst <= 1e-4:
            sys.exit(f"{name}: attile and PyTorch differ by {worst}")
        flops = 4.0 * batch * heads * dim * (length * (length + 1) / 2 if causal else length * length)
        medians = {who: statistics.median(values) for who, values in found.items()}
        # As attile_bench_cpu: the median over the rounds of each round's own ratio.
        value = min(statistics.median(theirs / ours for theirs, ours in zip(rounds[who], rounds["attile"])) for who in calls if who != "attile")
        row = dict(group="frameworks", case=name, threads=threads, unit="GFLOP/s", value=value, measure="x best framework", must=1.3, aim=2.0,
                   verdict="aim" if value >= 2 else "must" if value >= 1.3 else "MISSED", rates={who: flops / m * 1e-9 for who, m in medians.items()},
                   seconds={who: dict(median=medians[who], best=min(values), spread=spread(values), samples=len(values)) for who, values in found.items()})
        rows.append(row)
        print(f"frameworks {name:30s} {threads} thr  " + " ".join(f"{who} {rate:.4g}" for who, rate in row["rates"].items()) + f" GFLOP/s  {value:.3g} x  {row['verdict']}", flush=True)
    return rows


def table(path, groups=""):
    with open(path, encoding="utf-8") as stream:
        data = json.load(stream)
    facts, rows = data["facts"], [row for row in data["rows"] if not groups or row["group"] in groups.split(",")]
    dates = sorted({row["date"] for row in rows})
    print(f"{facts.get('device')}, {facts.get('arch')}, {facts.get('processors')} processors; {facts.get('compiler')}; {' to '.join(sorted({dates[0], dates[-1]}))}; commits "
          + ", ".join(sorted({row["commit"] for row in rows})) + ". "
          + "; ".join(f"{name} {facts[name]}" for name in ("openblas", "blis", "onednn", "pytorch", "onnxruntime") if name in facts) + ".\n")
    print("| case | threads | Attile | others | ratio or share | must | aim | |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        names = list(row["rates"])
        others = ", ".join(f"{name} {row['rates'][name]:.4g}" for name in names[1:])
        goals = [f"{row[goal]:.3g}" if goal in row else "" for goal in ("must", "aim")]
        print(f"| {row['group']}: {row['case']} | {row['threads']} | {row['rates'][names[0]]:.4g} {row['unit']} | {others} | {row.get('value', float('nan')):.2f} {row.get('measure', '')} | {goals[0]} | {goals[1]} | {row.get('verdict', '')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench")
    parser.add_argument("--json")
    parser.add_argument("--table")
    parser.add_argument("--only", default="", help="pieces whose name matches this regular expression")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each case")
    parser.add_argument("--run", default="", help="put in front of attile_bench_cpu")
    parser.add_argument("--no-frameworks", action="store_true")
    parser.add_argument("--commit", default=command("git", "rev-parse", "--short", "HEAD"))
    options = parser.parse_args()
    if options.table:
        return table(options.table)
    if not options.json:
        parser.error("--json FILE is needed")
    data = dict(facts={}, rows=[])
    if os.path.exists(options.json):
        with open(options.json, encoding="utf-8") as stream:
            data = json.load(stream)

    def keep(rows):
        key = lambda row: (row["group"], row["case"], row["threads"])
        fresh = {key(row): row for row in stamp(rows, options.commit)}
        data["rows"] = [fresh.pop(key(row), row) for row in data["rows"]] + list(fresh.values())
        with open(options.json, "w", encoding="utf-8") as stream:
            stream.write('{"facts": ' + json.dumps(data["facts"], indent=1) + ',\n "rows": [\n  ' + ",\n  ".join(map(json.dumps, data["rows"])) + "\n ]}\n")

    for threads in map(int, options.threads.split(",")):
        for piece in PIECES if options.bench else []:
            if not re.search(options.only, piece) or (piece == "reference/") != (threads == 1) and piece in ("reference/", "scaling/"):
                continue
            found = run_bench(options, piece, threads)
            data["facts"].update(found["facts"])
            keep(found["rows"])
        if not options.no_frameworks:
            keep(frameworks(options, threads, data["facts"]))


if __name__ == "__main__":
    main()

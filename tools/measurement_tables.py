#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables and the roofline of docs/performance.md from the measurements in docs/measurements.

usage: measurement_tables.py [--check]

A table stands between <!-- table FILE.json GROUP --> and <!-- end of table -->; FILE.json is what compare_peers.py or compare_cpu_peers.py wrote, GROUP one of
its groups. The first page's rows stand between <!-- summary --> and <!-- end of summary -->: SUMMARY names them.
The roofline, docs/figures/roofline_h200.svg, needs Matplotlib (tools/setup plots).
--check writes nothing and fails if a table is not what its file says, or the roofline is of other files.
"""
import argparse
import contextlib
import io
import json
import pathlib
import re
import sys

import compare_cpu_peers  # beside this file
import measurement_plot

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
SUMMARY = [  # What a user calls it, file, group, case, threads of a CPU.
    ("prefill, bf16", "h200-cuda-attention16-steady.json", "attention16", "bf16 B=8 H=16 S=2048 D=128 causal", 0),
    ("long prefill, bf16", "h200-cuda-attention16-steady.json", "attention16", "bf16 B=2 H=16 S=8192 D=128", 0),
    ("decoding, bf16", "h200-cuda-decode16-steady.json", "decode16", "bf16 B=16 heads 32/8 keys 4096 D=128", 0),
    ("training, gradients, bf16", "h200-cuda-backward16-steady.json", "backward16", "bf16 B=8 H=16 S=2048 D=128 causal", 0),
    ("GEMM, bf16", "h200-cuda-gemm16-steady.json", "gemm16", "4096x4096x4096 nn bfloat16", 0),
    ("attention, float32, the code that a GTX 1080 runs", "h200-cuda-attention.json", "attention", "B=8 H=16 S=2048 D=128 causal", 0),
    ("GEMM, float32, the code that a GTX 1080 runs", "h200-cuda-gemm-memory.json", "gemm f32", "4096x4096x4096", 0),
    ("attention, float32 by tf32x3", "h200-cuda-split.json", "split", "attention B=2 H=16 S=8192 D=128", 0),
    ("attention on a CPU", "epyc-cpu.json", "frameworks", "B=1 H=8 S=2048 d=64", 2),
    ("GEMM on a CPU", "epyc-cpu.json", "sgemm", "sgemm 2048x2048x2048", 2),
]
WHO = {"cudnn": "cuDNN", "cublas": "cuBLAS", "flash2": "FlashAttention-2", "pytorch": "PyTorch", "onnxruntime": "ONNX Runtime", "openblas": "OpenBLAS", "blis": "BLIS", "onednn": "oneDNN"}
SUMMARY_BLOCK = re.compile(r"(<!-- summary -->\n).*?(<!-- end of summary -->)", re.S)
TABLE = re.compile(r"(<!-- table (\S+) (.+?) -->\n).*?(<!-- end of table -->)", re.S)


def facts_text(facts):
    return (f"{facts['device']}, driver {facts['driver']}, {facts['build']}, PyTorch {facts['torch']} with CUDA {facts['cuda']}; medians of {facts['rounds']} interleaved "
            f"rounds {'of ' + str(facts['burst']) + ' calls ' if facts.get('burst', 1) > 1 else ''}in one process; {facts['date']}, commit {facts['commit']}.")


def table(name, group):
    path = DOCS / "measurements" / name
    run = json.loads(path.read_text(encoding="utf-8"))
    if "rates" in run["rows"][0]:  # The other script's, which has a table of its own.
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            compare_cpu_peers.table(path, group)
        return text.getvalue()
    rows = [row for row in run["rows"] if row["group"] == group]
    if not rows:
        sys.exit(f"{name} has no group '{group}'")
    peers = sorted({row["who"] for row in rows} - {"attile"})
    unit = next(row["unit"] for row in rows if row.get("unit"))
    has_errors = {who: any("error" in row for row in rows if row["who"] == who) for who in ["attile", *peers]}
    error_titles = lambda who: ["error"] if has_errors[who] else []
    titles = ["case", "ms", "spread", unit, *error_titles("attile"), "kernel"]
    titles += [title for peer in peers for title in (f"{peer}, {unit}", *error_titles(peer), f"against {peer}")]
    lines = [f"{facts_text(run['facts'])}", "", "| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for row in rows:
        if row["who"] != "attile":
            continue
        error_cells = lambda of: [f"{of['error']:.1e}" if "error" in of else "-"] if has_errors[of["who"]] else []
        cells = [row["case"], f"{row['ms']:.4g}", f"{row['ms_min']:.4g} to {row['ms_max']:.4g}" if "ms_min" in row else "not kept", f"{row['rate']:.4g}", *error_cells(row),
                 f"`{row['kernel']}`" if row.get("kernel") else ""]
        for peer in peers:
            other = next((r for r in rows if r["who"] == peer and r["case"] == row["case"]), None)
            if other is None or not other.get("rate"):
                cells += ["refused" if other is not None and other.get("refused") else "-", *["-"] * (1 + has_errors[peer])]
            else:
                cells += [f"{other['rate']:.4g}", *error_cells(other), f"{row['rate'] / other['rate']:.2f}x"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summary():
    lines = ["| what | case | device | Attile | fastest other | ratio |", "|---" * 6 + "|"]
    for words, name, group, case, threads in SUMMARY:
        run = json.loads((DOCS / "measurements" / name).read_text(encoding="utf-8"))
        rows = [row for row in run["rows"] if row["group"] == group and row["case"] == case and row.get("threads", 0) == threads]
        if not rows:
            sys.exit(f"{name} has no case '{case}' in '{group}'")
        rates = rows[0].get("rates") or {row["who"]: row["rate"] for row in rows if row.get("rate")}
        unit = next(row["unit"] for row in rows if row.get("unit"))
        others = {who: rate for who, rate in rates.items() if who in WHO}
        best = max(others, key=others.get)
        ratio = rows[0]["value"] if "rates" in rows[0] else rates["attile"] / rates[best]
        device = run["facts"]["device"].replace("NVIDIA ", "").replace("AMD ", "") + (f", {threads} threads" if threads else "")
        lines.append(f"| {words} | {case} | {device} | {rates['attile']:.4g} {unit} | {WHO[best]} {others[best]:.4g} | {ratio:.2f}x |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    page = DOCS / "performance.md"
    text = page.read_text(encoding="utf-8")
    made = TABLE.sub(lambda found: found[1] + "\n" + table(found[2], found[3]) + "\n" + found[4], text)
    made = SUMMARY_BLOCK.sub(lambda found: found[1] + "\n" + summary() + "\n" + found[2], made)
    if options.check:
        if made != text:
            sys.exit(f"{page.name}: a table is not what its measurements say; run tools/measurement_tables.py")
        if measurement_plot.description(DOCS) not in (DOCS / measurement_plot.PICTURE).read_text(encoding="utf-8"):
            sys.exit(f"{measurement_plot.PICTURE} is not of today's measurements; run tools/measurement_tables.py")
        return
    page.write_text(made, encoding="utf-8")
    measurement_plot.draw(DOCS)


if __name__ == "__main__":
    main()

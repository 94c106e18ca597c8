#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Climbs the ladder and reports: table, JSON, roofline, docs/ladder.md. Called by tools/ladder, which builds the program first.

usage: ladder_report.py --program FILE [--check] [--filter PART[,PART...]] [--seconds S] [--ptx] [--json FILE] [--pictures FOLDER]
       ladder_report.py --from-json FILE [--pictures FOLDER]
       ladder_report.py --from-lines FILE [--json FILE] [--pictures FOLDER]    what the program itself wrote with --json
       ladder_report.py --write-docs [--root FOLDER]     docs/ladder.md and docs/ladder/*.svg, *.png from docs/ladder/*.json
       ladder_report.py --check-docs [--root FOLDER]     fails if docs/ladder.md is not what --write-docs would write
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import ladder_page
import ladder_steps

HEADS = ["step", "shape", "time", "TFLOP/s", "GB/s", "share of roof", "speed-up"]


def table(run):
    """Lines of the table, one for each row of the run."""
    device, rows = run["device"], run["rows"]
    lines = [HEADS]
    for row in sorted(rows, key=lambda r: (ladder_steps.LADDERS.index(r["ladder"]), r["shape"] if r["ladder"] != "memory" else "", r["order"])):
        name = f"{row['ladder']} {row['order']} {row['step']}"
        if not ladder_steps.timed(row):
            verdict = "checked, not timed" if row["ok"] else row["note"] or "WRONG"
            lines.append([name, row["shape"], verdict, "", "", "", ""])
            continue
        under = ladder_steps.before(row, rows)
        share = f"{100 * ladder_steps.share_of_roof(row, device):.1f} %" if row["flops"] and row["ladder"] != "memory" else ""
        lines.append([name, row["shape"], ladder_steps.time_text(row["ms"]), ladder_steps.rate_text(row, "flops"),
                      ladder_steps.rate_text(row, "traffic"), share, f"{under['ms'] / row['ms']:.2f}" if under else ""])
    widths = [max(len(line[i]) for line in lines if i != 2 or line[3] or line is lines[0]) for i in range(len(HEADS))]
    return ["  ".join(cell.ljust(width) if i < 2 or not line[3] else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
            for line in lines]


def program_run(options):
    handle, lines = tempfile.mkstemp(suffix=".jsonl")
    os.close(handle)
    words = [options.program, "--json", lines, "--seconds", str(options.seconds)]
    words += ["--check"] if options.check else []
    words += ["--filter", options.filter] if options.filter else []
    environment = dict(os.environ, CUDA_MODULE_LOADING="LAZY")  # Of a library's kernels only those that are called are compiled.
    if options.ptx:
        environment["CUDA_FORCE_PTX_JIT"] = "1"
    try:
        status = subprocess.run(words, check=False, env=environment).returncode
        device, rows = ladder_steps.parse_lines(lines)
    except OSError as error:
        sys.exit(f"ladder: {options.program} cannot be run: {error.strerror}")
    finally:
        os.unlink(lines)
    if status not in (0, 1):
        sys.exit(status if status > 0 else f"ladder: the program was ended by signal {-status}")
    return status, {"device": device, "rows": rows}


def draw(run, folder):
    try:
        import ladder_plot
    except ImportError as error:
        print(f"no pictures: {error}; Matplotlib draws them, and tools/setup plots installs it")
        return []
    return ladder_plot.draw(run, folder)


def write_docs(root, check):
    page = ladder_page.page(root)
    path = os.path.join(root, "docs", "ladder.md")
    if check:
        with open(path, encoding="utf-8") as file:
            if file.read() != page:
                sys.exit("docs/ladder.md is not what its measurements and steps say: tools/ladder --write-docs makes it anew")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
    run = ladder_page.committed_run(root)
    for made in draw(run, os.path.join(root, "docs", "ladder")) if run else []:
        print(made)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--program")
    parser.add_argument("--from-json")
    parser.add_argument("--from-lines")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--check-docs", action="store_true")
    parser.add_argument("--root", default=ladder_steps.ROOT)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--filter", default="")
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--ptx", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--pictures")
    options = parser.parse_args()
    if options.write_docs or options.check_docs:
        write_docs(options.root, options.check_docs)
        return
    status = 0
    default = os.path.join(ladder_steps.ROOT, "build", "ladder-run")
    if options.from_json:
        with open(options.from_json, encoding="utf-8") as file:
            run = json.load(file)
    elif options.program or options.from_lines:
        if options.program:
            status, run = program_run(options)
        else:
            run = dict(zip(("device", "rows"), ladder_steps.parse_lines(options.from_lines)))
        path = options.json or os.path.join(default, "ladder.json")
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(run, indent=1) + "\n")
    else:
        parser.error("--program, --from-json or --from-lines")
    print()
    print("\n".join(table(run)))
    if not options.check and any(ladder_steps.timed(r) for r in run["rows"]):
        for made in draw(run, options.pictures or default):
            print(made)
    sys.exit(status)


if __name__ == "__main__":
    main()

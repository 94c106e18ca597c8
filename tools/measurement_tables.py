#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/performance-tables.md, docs/guide-python.md and docs/exact.md and two pictures from the measurements in docs/measurements.

usage: measurement_tables.py [--check]

A table stands between <!-- table FILE.json GROUP --> and <!-- end of table -->; FILE.json is what compare_peers.py, compare_cpu_peers.py or tests/bench/python_calls.py
wrote, GROUP one of its groups. The ten rows of docs/performance.md are made by front_page.py.
The pictures, docs/figures/roofline_h200.svg and docs/figures/exact_moduli.svg, need Matplotlib (tools/setup plots).
--check writes nothing and fails if a table is not what its file says, or a picture is of other files.
"""
import argparse
import contextlib
import io
import json
import pathlib
import re
import sys

import compare_cpu_peers  # beside this file
import exact_plot
import measurement_plot

PAGES = ("performance-tables.md", "guide-python.md", "exact.md")
DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
TABLE = re.compile(r"(<!-- table (\S+) (.+?) -->\n).*?(<!-- end of table -->)", re.S)


def facts_text(facts):
    return (f"{facts['device']}, driver {facts['driver']}, {facts['build']}, PyTorch {facts['torch']} with CUDA {facts['cuda']}; medians of {facts['rounds']} interleaved "
            f"rounds {'of ' + str(facts['burst']) + ' calls ' if facts.get('burst', 1) > 1 else ''}in one process; {facts['date']}, commit {facts['commit']}.")


def host_time_table(run, group):
    """What a call takes from Python: python_calls.py's."""
    facts = run["facts"]
    ways = (("attile", "extension"), ("out and empty_like", "`out=` and `empty_like`"), ("attile out", "with `out=`"), ("prepared", "prepared"), ("query", "`query=True`"),
            ("ctypes out", "ctypes, with `out=`"))
    of_torch = group.startswith("torch")
    own = f"PyTorch {facts['torch']}" if of_torch else f"NumPy {facts['numpy']}"
    where = f"{facts['processors']} processors, one thread" if "processors" in facts else f"driver {facts['driver']}, CUDA {facts['cuda']}"
    lines = [f"{facts['device']}, {where}, Python {facts['python']}, {own}; medians of {facts['rounds']} interleaved rounds of {facts['calls']} calls in one "
             f"process; {facts['date']}, commit {facts['commit']}.", "", "| call | C, µs | " + " | ".join(f"{title}, + µs" for _, title in ways) + f" | {own.split('+')[0]}'s own, µs |",
             "|---" * (len(ways) + 3) + "|"]
    for row in (row for row in run["rows"] if row["group"] == group):
        lines.append(f"| {row['case']} | {row['us']['c']:.2f} | " + " | ".join(f"{row['beyond_c'][way]:.2f}" if way in row["beyond_c"] else "" for way, _ in ways) +
                     (f" | {row['us']['own']:.2f} |" if "own" in row["us"] else " | |"))
    return "\n".join(lines) + "\n"


def table(name, group):
    path = DOCS / "measurements" / name
    run = json.loads(path.read_text(encoding="utf-8"))
    if "us" in run["rows"][0]:
        return host_time_table(run, group)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pages = [DOCS / name for name in PAGES]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    made = {page: TABLE.sub(lambda found: found[1] + "\n" + table(found[2], found[3]) + "\n" + found[4], text) for page, text in texts.items()}
    if options.check:
        for page in pages:
            if made[page] != texts[page]:
                sys.exit(f"{page.name}: a table is not what its measurements say; run tools/measurement_tables.py")
        for plot in (exact_plot, measurement_plot):
            if plot.description(DOCS) not in (DOCS / plot.PICTURE).read_text(encoding="utf-8"):
                sys.exit(f"{plot.PICTURE} is not of today's measurements; run tools/measurement_tables.py")
        return
    for page in pages:
        page.write_text(made[page], encoding="utf-8")
    for plot in (exact_plot, measurement_plot):
        plot.draw(DOCS)


if __name__ == "__main__":
    main()

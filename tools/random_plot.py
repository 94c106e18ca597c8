#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/performance-tables.md of what `attile bench --random` found, beside the chosen shapes of `attile bench`.

usage: random_plot.py --add RANDOM.json CHOSEN.json NAME --date DATE --commit COMMIT [--machine WORDS]
       random_plot.py [--check]

--add keeps the distributions of a run of `attile bench --random S --seed N --json RANDOM.json`, without its single problems, and the shares of the roofline that the
cases of `attile bench --json CHOSEN.json` reach, as docs/measurements/random-NAME.json. Then, and without it, every such file is drawn as docs/figures/random_NAME.svg;
--check writes nothing and fails if a picture is not what would be drawn. Needs no package.
"""
import argparse
import json
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
INK, EDGE, BAR, BOX, MEDIAN, CHOSEN = "#7c8794", "#9aa5b1", "#9dbfe0", "#3b82c4", "#1d4e89", "#c0392b"  # seen on light and on dark
FONT = 'font-family="sans-serif" font-size="12"'
LEFT, WIDTH, ROW, COLUMNS = 150, 300, 17, 2
KINDS = {"option", "type", "head dimension", "rows", "rows M"}  # What the picture shows; the file has all.
FEWEST = 10  # Problems of a row.
MOST = 1.2  # Share at the right edge.


def share(row, roof, time):
    """Of the roofline, of a case of `attile bench`: its type is the second word of its name."""
    flops = roof[row["case"].split("/")[1] + "_flops"]
    return (max(row["flops"] / flops, row["bytes"] / roof["bandwidth"]) + roof["launch_seconds"]) / row[time]


def shortened(random, chosen, options):
    facts = {key: random[key] for key in ("library", "backend", "device", "arch", "threads", "random_seconds", "seed")}
    facts |= dict(date=options.date, commit=options.commit, machine=options.machine, roof=random["roof"])
    time = "best_seconds" if random["threads"] else "median_seconds"  # As the program clocks drawn problems on a processor and on a device.
    shares = {}
    for row in chosen["results"]:
        if "median_seconds" in row and row["case"].split("/")[1] + "_flops" in random["roof"]:  # The roofline has no peak of 8 bits.
            shares.setdefault(row["operation"], []).append(dict(case=row["case"], share=round(share(row, random["roof"], time), 4)))
    return dict(facts=facts, distributions=random["distributions"], chosen=shares)


def text(x, y, words, anchor="start", weight="normal", colour=INK):
    words = str(words).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}" {FONT}>{words}</text>'


def at(x, value):
    return round(x + LEFT + WIDTH * min(value, MOST) / MOST, 1)


def strip(x, y, quantiles):
    """From the lowest to the highest twentieth, the middle half, the lowest tenth and the median."""
    _, twentieth, tenth, quarter, median, three, _, top, _ = (at(x, q) for q in quantiles)
    rect = lambda low, high, height, colour: f'<rect x="{low:g}" y="{y - height / 2:g}" width="{max(high - low, 1):.1f}" height="{height}" fill="{colour}"/>'
    line = lambda where, colour: f'<line x1="{where:g}" y1="{y - 6:g}" x2="{where:g}" y2="{y + 6:g}" stroke="{colour}" stroke-width="2"/>'
    return [rect(twentieth, top, 3, BAR), rect(quarter, three, 9, BOX), line(tenth, EDGE), line(median, MEDIAN)]


def panel(x, y, found, chosen):
    rows = [row for row in found["groups"] if row["by"] in KINDS and row["problems"] >= FEWEST]
    parts = [text(x, y, found["operation"], weight="bold"), text(x + LEFT, y, f"{found['problems']:g} problems")]
    top = y + 8
    y += 24
    parts += [text(x + LEFT - 8, y + 4, "all", "end", "bold")] + strip(x, y, found["quantiles"])
    kind = "all"
    for row in rows:
        y += ROW + (4 if row["by"] != kind else 0)
        if row["by"] != kind:
            parts.append(text(x, y + 4, {"head dimension": "dim", "rows M": "rows"}.get(row["by"], row["by"]), weight="bold"))
        kind = row["by"]
        parts += [text(x + LEFT - 8, y + 4, row["key"], "end")] + strip(x, y, row["quantiles"])
    if chosen:
        y += ROW + 4
        parts.append(text(x + LEFT - 8, y + 4, "chosen shapes", "end", "bold"))
        parts += [f'<circle cx="{at(x, one["share"]):g}" cy="{y}" r="3.5" fill="none" stroke="{CHOSEN}" stroke-width="1.5"/>' for one in chosen]
    y += 12
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.insert(0, f'<line x1="{at(x, tick):g}" y1="{top}" x2="{at(x, tick):g}" y2="{y}" stroke="{EDGE}" stroke-width="0.5"/>')
        parts.append(text(at(x, tick), y + 13, f"{tick:g}", "middle"))
    return parts, y + 40


def picture(run):
    facts = run["facts"]
    head = f"Share of the roofline: {facts['device']}, {facts['backend']}, {facts['arch']}"
    if facts["threads"]:
        head += f", {facts['threads']:g} thread" + ("s" if facts["threads"] > 1 else "")
    parts = [text(10, 22, head, weight="bold"),
             text(10, 40, "Drawn problems: line from 5 to 95 %, box the middle half, dark mark the median, grey mark the lowest tenth. Circles: the cases of attile bench.")]
    bottoms = [70] * COLUMNS
    for found in run["distributions"]:
        if not found["problems"]:
            continue
        column = bottoms.index(min(bottoms))
        made, bottoms[column] = panel(10 + column * (LEFT + WIDTH + 40), bottoms[column], found, run["chosen"].get(found["operation"], []))
        parts += made
    width, height = 10 + COLUMNS * (LEFT + WIDTH + 40), max(bottoms)
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" style="color-scheme: light dark">\n' + "\n".join(parts) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--add", nargs=3, metavar=("RANDOM", "CHOSEN", "NAME"))
    parser.add_argument("--date", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--machine", default="", help="what else there is to say of the machine")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.add:
        random, chosen = (json.loads(pathlib.Path(name).read_text(encoding="utf-8")) for name in options.add[:2])
        kept = re.sub(r"\[\s+([-\d.e,\s]+?)\s+\]", lambda found: "[" + " ".join(found[1].split()) + "]", json.dumps(shortened(random, chosen, options), indent=1))
        (DOCS / f"measurements/random-{options.add[2]}.json").write_text(kept + "\n", encoding="utf-8")
    for path in sorted((DOCS / "measurements").glob("random-*.json")):
        made, target = picture(json.loads(path.read_text(encoding="utf-8"))), DOCS / f"figures/{path.stem.replace('-', '_')}.svg"
        if options.check:
            if not target.is_file() or target.read_text(encoding="utf-8") != made:
                sys.exit(f"{target.name} is not what {path.name} says; run tools/random_plot.py")
        else:
            target.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()

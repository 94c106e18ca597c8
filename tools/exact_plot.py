# SPDX-License-Identifier: Apache-2.0
"""Exact products of f64 by residues: time and error by the number of moduli, of what tests/bench/exact_moduli.cpp measured."""
import json

PICTURE = "figures/exact_moduli.svg"
FILE = "epyc-cpu-exact-moduli.json"
MARKERS = {1024: "o", 2048: "s"}


def measured(docs):
    return json.loads((docs / "measurements" / FILE).read_text(encoding="utf-8"))


def description(docs):
    """What the picture is of, kept in it."""
    facts = measured(docs)["facts"]
    return f"{FILE} {facts['date']} {facts['commit']}"


def draw(docs):
    import matplotlib.pyplot as plt
    from ladder_plot import GRID, INK, LAST, LINE, ROOF  # chooses how Matplotlib draws

    plt.rcParams.update({"svg.hashsalt": "measurements", "svg.fonttype": "none", "font.size": 11})
    run = measured(docs)
    figure, (times, errors) = plt.subplots(1, 2, figsize=(11, 4.8))
    for (size, marker), colour in zip(MARKERS.items(), (LINE, LAST)):
        rows = [row for row in run["rows"] if row["size"] == size]
        one = {row["who"]: row for row in rows if row["who"] != "moduli"}
        series = [row for row in rows if row["who"] == "moduli"]
        counts = [row["moduli"] for row in series]
        of_plain = lambda row: row["seconds"] / one["plain"]["seconds"]
        words = f"{size}³"
        times.plot(counts, [of_plain(row) for row in series], color=colour, marker=marker, label=words)
        errors.plot(counts, [row["error"] for row in series], color=colour, marker=marker, label=words)
        times.axhline(of_plain(one["exact"]), color=colour, linestyle="--", linewidth=1)
        errors.axhline(one["exact"]["error"], color=colour, linestyle="--", linewidth=1)
        errors.axhline(one["plain"]["error"], color=colour, linestyle=":", linewidth=1.4)
    times.axhline(1, color=ROOF, linestyle=":", linewidth=1.4)
    times.set(ylim=(0, None), ylabel="times as long as without the flag", xlabel="moduli")
    errors.set(yscale="log", ylabel="largest error over u (|A||B|), u = 2⁻⁵³", xlabel="moduli")
    dashes = [plt.Line2D([], [], color=INK, linestyle=style, linewidth=1.2, label=words) for style, words in (("--", "exact call"), (":", "without the flag"))]
    for axes in (times, errors):
        axes.grid(True, which="major", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xticks(range(8, 21, 2))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(handles=axes.get_legend_handles_labels()[0] + dashes, loc="upper right" if axes is errors else "lower right", frameon=False)
    facts = run["facts"]
    figure.suptitle(f"f64 products by residues, and what fewer moduli would give: one thread of an {facts['device']}, {facts['arch']}", x=0.01, ha="left", color=INK, fontsize=12)
    figure.tight_layout()
    figure.savefig(docs / PICTURE, metadata={"Date": None, "Description": description(docs)})
    plt.close(figure)

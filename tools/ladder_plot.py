# SPDX-License-Identifier: Apache-2.0
"""Rooflines of a run: one picture a ladder, every step on it, as SVG and PNG."""
import math
import os

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from ladder_steps import LADDERS, intensity, timed

# The shape that a picture shows, most telling first.
SHAPES = {"attention": ["(2,32768,64)", "(500,2048,64)", "(10,2048,64)"]}
INK, GRID, ROOF, LINE, LAST = "#222222", "#dddddd", "#444444", "#4878a8", "#c0392b"


def points_of(run, ladder):
    """Shape and rows to draw: of all steps at one shape, the one at which most steps were timed."""
    rows = [r for r in run["rows"] if r["ladder"] == ladder and timed(r) and r["flops"] > 0 and r.get("traffic")]
    shapes = SHAPES.get(ladder, []) + [r["shape"] for r in rows]
    shapes = list(dict.fromkeys(s for s in shapes if any(r["shape"] == s for r in rows)))
    if not shapes:
        return "", []
    shape = shapes[0]
    return shape, sorted((r for r in rows if r["shape"] == shape), key=lambda r: r["order"])


def draw_roof(axes, peak, bandwidth, low_x, high_x, words, high_y=math.inf):
    """What TFLOP/s and TB/s allow from low_x to high_x, with words at the flat part."""
    ridge = peak / bandwidth
    roof = [low_x, min(ridge, high_x), high_x]
    axes.plot(roof, [min(peak, x * bandwidth) for x in roof], color=ROOF, linewidth=2, zorder=2)
    if peak < high_y:
        axes.text(high_x / 1.1, peak * 1.08, words, ha="right", va="bottom", color=ROOF)


def draw_one(run, ladder, folder):
    device = run["device"]
    shape, rows = points_of(run, ladder)
    if not rows:
        return []
    peak, bandwidth = device["peak_flops"] * 1e-12, device["bandwidth"] * 1e-12
    xs, ys = [intensity(r) for r in rows], [r["flops"] / r["ms"] * 1e-9 for r in rows]
    figure, (axes, legend) = plt.subplots(1, 2, figsize=(11, 5.6), width_ratios=[3, 1.15])
    ridge = peak / bandwidth
    low_x = min(xs + [ridge]) / 3
    high_x = max(xs) * 8 if ladder == "reduction" else max(xs + [ridge]) * 4
    low_y, high_y = min(ys) / 2.5, peak * 2 if ladder != "reduction" else max(ys + [bandwidth * max(xs)]) * 3
    axes.set(xscale="log", yscale="log", xlim=(low_x, high_x), ylim=(low_y, high_y), ylabel="TFLOP/s",
             xlabel="arithmetic intensity: FLOP per byte asked of global memory")
    draw_roof(axes, peak, bandwidth, low_x, high_x, f"{peak:.1f} TFLOP/s, float32", high_y)
    at = math.sqrt(max(low_x, low_y / bandwidth) * min(ridge, high_x, high_y / bandwidth))
    axes.text(at, at * bandwidth * 1.12, f"{bandwidth * 1e3:.0f} GB/s", ha="right", va="bottom", color=ROOF)
    axes.plot(xs, ys, color=LINE, linewidth=1, alpha=0.5, zorder=3)
    colours = [LAST if r["step"] == "library" else LINE for r in rows]
    axes.scatter(xs, ys, s=70, color=colours, zorder=4, edgecolors="white")
    # Steps that lie on each other share one label.
    near = lambda i, j: abs(math.log10(xs[i] / xs[j])) < 0.04 * math.log10(high_x / low_x) and abs(math.log10(ys[i] / ys[j])) < 0.045 * math.log10(high_y / low_y)
    groups = []
    for i in range(len(rows)):
        if groups and rows[i]["step"] != "library" and all(near(i, j) for j in groups[-1]):
            groups[-1].append(i)
        else:
            groups.append([i])
    for group in groups:
        first, last = rows[group[0]]["order"], rows[group[-1]]["order"]
        text = str(first) if len(group) == 1 else f"{first}, {last}" if len(group) == 2 else f"{first}\u2013{last}"
        middle = math.sqrt(min(ys[i] for i in group) * max(ys[i] for i in group))
        axes.annotate(text, (xs[group[-1]], middle), xytext=(10, 0), textcoords="offset points", va="center",
                      ha="left", color=colours[group[0]], fontweight="bold")
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for name in ("top", "right"):
        axes.spines[name].set_visible(False)
    axes.set_title(f"{ladder} {shape} on {device['device']}", loc="left", color=INK)
    legend.axis("off")
    for i, (row, y, colour) in enumerate(zip(rows, ys, colours)):
        height = 0.97 - i * 0.077
        legend.text(0, height, str(row["order"]), color=colour, fontweight="bold", ha="right", va="top")
        legend.text(0.06, height, row["step"].replace("_", " "), color=INK, va="top")
        legend.text(1.12, height, f"{y:.3f}" if y < 1 else f"{y:.2f}" if y < 10 else f"{y:.1f}", color=INK, ha="right", va="top")
    legend.text(1.12, 1.03, "TFLOP/s", color=INK, ha="right", va="bottom")
    figure.tight_layout()
    os.makedirs(folder, exist_ok=True)
    made = []
    for ending, extra in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 110})):
        path = os.path.join(folder, f"roofline_{ladder}.{ending}")
        figure.savefig(path, **extra)
        made.append(path)
    plt.close(figure)
    return made


def draw(run, folder):
    plt.rcParams.update({"svg.hashsalt": "ladder", "svg.fonttype": "none", "font.size": 11})
    return [path for ladder in LADDERS if ladder != "memory" for path in draw_one(run, ladder, folder)]

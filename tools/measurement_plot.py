# SPDX-License-Identifier: Apache-2.0
"""The roofline of the published measurements on a GPU: every case of GEMM, attention and decoding by its FLOP per byte that has to move."""
import json
import re

PICTURE = "figures/roofline_h200.svg"
DEVICE = "ladder/h200.json"  # Peak and bandwidth by the device's clocks.
TENSOR_SHARE = 4096 / 256  # FLOP a clock of a multiprocessor, f16 and bf16 on tensor cores over float32.
# File, group, marker, name, bytes an element.
SERIES = [("h200-cuda-gemm-memory.json", "gemm f32", "s", "GEMM, float32", 4), ("h200-cuda-attention.json", "attention", "o", "attention, float32", 4),
          ("h200-cuda-attention.json", "decode", "v", "decoding, float32", 4), ("h200-cuda-gemm16-steady.json", "gemm16", "s", "GEMM, bf16", 2),
          ("h200-cuda-attention16-steady.json", "attention16", "o", "attention, bf16", 2), ("h200-cuda-decode16-steady.json", "decode16", "v", "decoding, bf16", 2)]
# Labels: case, words, where from its point.
LABELS = {"16x4096x4096": ("16 rows", (8, -8)), "4096 x 32x32x32": ("4096 x 32³", (-2, -15)),
          "16x4096x4096 nn bfloat16": ("16 rows", (-8, 8)), "128x4096x4096 nn bfloat16": ("128 rows", (-8, 8)), "1000x1001x1003 nn bfloat16": ("1000 x 1001 x 1003", (8, -4)),
          "B=1 heads 32/8 keys 4096 D=128": ("4k keys, 34 MB", (8, -4)), "1x4096x4096": ("1 row", (8, -4))}
LEFT_OUT = re.compile(r"^f16|\bfloat16|scores")  # f16, which lies on bf16, and other scores than usual
OTHERS = "#999999"


def intensity_and_rate(row, size):
    """FLOP per byte of inputs and outputs, each moved once, and TFLOP/s."""
    number = lambda name: int(re.search(rf"\b{name}=(\d+)", row["case"])[1])
    if "keys" in row["case"]:
        heads, heads_kv, keys = (int(x) for x in re.search(r"heads (\d+)/(\d+) keys (\d+)", row["case"]).groups())
        flops, moved = 4.0 * heads * keys, 2.0 * heads_kv * keys * size  # a column of a batch entry
        return flops / moved, row["rate"] * 1e9 * flops / moved * 1e-12
    if "S=" in row["case"]:
        rows = number("B") * number("H") * number("S")
        return row["rate"] * 1e12 * row["ms"] * 1e-3 / (4.0 * rows * number("D") * size), row["rate"]
    batch, m, n, k = re.search(r"(?:(\d+) x )?(\d+)x(\d+)x(\d+)", row["case"]).groups(default="1")
    m, n, k = int(m), int(n), int(k)
    return 2.0 * m * n * k / ((m * k + k * n + m * n) * size), row["rate"]


def runs(docs):
    return {name: json.loads((docs / "measurements" / name).read_text(encoding="utf-8")) for name in dict.fromkeys(series[0] for series in SERIES)}


def description(docs):
    """What the picture is of, kept in it."""
    return "; ".join(f"{name} {run['facts']['commit']}" for name, run in runs(docs).items())


def draw(docs):
    import matplotlib.pyplot as plt
    from ladder_plot import GRID, INK, LAST, LINE, ROOF, draw_roof  # chooses how Matplotlib draws

    plt.rcParams.update({"svg.hashsalt": "measurements", "svg.fonttype": "none", "font.size": 11})
    device = json.loads((docs / DEVICE).read_text(encoding="utf-8"))["device"]
    peak, bandwidth = device["peak_flops"] * 1e-12, device["bandwidth"] * 1e-12
    tensor = peak * TENSOR_SHARE
    figure, axes = plt.subplots(figsize=(11, 6.6))
    low_x, high_x = 0.35, 2e4
    axes.set(xscale="log", yscale="log", xlim=(low_x, high_x), ylim=(0.6, tensor * 2.2), ylabel="TFLOP/s", xlabel="FLOP per byte of inputs and outputs, each moved once")
    draw_roof(axes, tensor, bandwidth, low_x, high_x, f"{tensor:.0f} TFLOP/s, f16 and bf16 on tensor cores at full clock")
    draw_roof(axes, peak, bandwidth, low_x, high_x, f"{peak:.1f} TFLOP/s, float32")
    axes.text(3.2, 3.2 * bandwidth * 1.12, f"{bandwidth * 1e3:.0f} GB/s", ha="right", va="bottom", color=ROOF)
    others = []
    measured = runs(docs)
    for name, group, marker, words, size in SERIES:
        colour = LINE if size == 4 else LAST
        run = measured[name]
        rows = [r for r in run["rows"] if r["group"] == group and r["who"] == "attile" and not LEFT_OUT.search(r["case"])]
        points = [intensity_and_rate(r, size) for r in rows]
        best = [max((r for r in run["rows"] if r["group"] == group and r["case"] == row["case"] and r["who"] != "attile" and r.get("rate")), key=lambda r: r["rate"], default=None) for row in rows]
        others += [intensity_and_rate(r, size) for r in best if r]
        axes.scatter(*zip(*points), s=42, marker=marker, color=colour, edgecolors="white", zorder=4, label=words)
        for row, point in zip(rows, points):
            if row["case"] in LABELS:
                text, offset = LABELS[row["case"]]
                axes.annotate(text, point, xytext=offset, textcoords="offset points", fontsize=9, color=colour, ha="right" if offset[0] < 0 else "left")
    axes.scatter(*zip(*others), s=24, marker="_", color=OTHERS, zorder=3, label="the fastest other library")
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="lower right", frameon=False, ncols=2)
    axes.set_title(f"What is reached on {device['device']}: float32 from compute_61 PTX, bf16 by sm_90a in steady work", loc="left", color=INK)
    figure.tight_layout()
    figure.savefig(docs / PICTURE, metadata={"Date": None, "Description": description(docs)})
    plt.close(figure)

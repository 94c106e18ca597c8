#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the guides. The masks are computed from the formulas in attile.h, so the pictures cannot say otherwise.

usage: draw_figures.py FOLDER          writes the pictures
       draw_figures.py --check FOLDER  fails if the committed ones are not what would be written
"""
import pathlib
import sys

SEEN, HIDDEN, DIAGONAL, INK, EDGE = "#3b82c4", "none", "#1d4e89", "#7c8794", "#9aa5b1"  # seen on light and on dark
FONT = 'font-family="sans-serif" font-size="13"'
CELL = 22


def svg(width, height, parts):
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" style="color-scheme: light dark">\n' + "\n".join(parts) + "\n</svg>\n"


def text(x, y, words, anchor="start", weight="normal", colour=INK):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-weight="{weight}" fill="{colour}" {FONT}>{words}</text>'


def grid(x, y, rows, keys, seen, diagonal):
    parts = []
    for i in range(rows):
        for j in range(keys):
            fill = (DIAGONAL if diagonal(i, j) else SEEN) if seen(i, j) else HIDDEN
            parts.append(f'<rect x="{x + j * CELL}" y="{y + i * CELL}" width="{CELL - 2}" height="{CELL - 2}" rx="3" fill="{fill}" stroke="{EDGE}" stroke-width="1"/>')
    return parts


def window(shift, left, right):
    """Row i sees key j, as attile_backend.h defines it; -1 is open."""
    return lambda i, j: (left < 0 or j >= i + shift - left) and (right < 0 or j <= i + shift + right)


def masks():
    rows, keys = 4, 6
    corner = keys - rows
    panels = [
        ("MASK_NONE", "every key", window(0, -1, -1), None),
        ("CAUSAL_TOP_LEFT", "j ≤ i", window(0, -1, 0), 0),
        ("CAUSAL_BOTTOM_RIGHT", "j ≤ i + len_k − len_q", window(corner, -1, 0), corner),
        ("WINDOW_TOP_LEFT", "window_left 1, window_right 1", window(0, 1, 1), 0),
        ("WINDOW_BOTTOM_RIGHT", "window_left 2, window_right 0", window(corner, 2, 0), corner),
        ("NONE, key_lengths", "4 of 6 keys are there", lambda i, j: j < 4, None),
    ]
    parts, across = [], 240
    for n, (name, rule, seen, shift) in enumerate(panels):
        x, y = 34 + n % 3 * across, 46 + n // 3 * 170
        parts += [text(x, y - 26, name, weight="bold"), text(x, y - 9, rule)]
        parts += grid(x, y, rows, keys, seen, lambda i, j, shift=shift: shift is not None and j == i + shift)
        parts.append(text(x - 10, y + rows * CELL / 2 + 4, "i", "middle"))
        parts.append(text(x + keys * CELL / 2, y + rows * CELL + 14, "j", "middle"))
    return svg(34 + 3 * across - 40, 350, parts)


def layouts():
    """Where the elements of q lie in memory, for 2 heads, 3 rows, head_dim 2."""
    heads, rows, dim, width = 2, 3, 2, 46
    colours = ["#3b82c4", "#c47a3b"]
    parts = []
    for line, (name, order, strides) in enumerate([
            ("batch, heads, length, head_dim", [(h, l) for h in range(heads) for l in range(rows)], "stride = {heads·len·dim, len·dim, dim, 1}: the dense default, and Fortran's q(d, l, h, b)"),
            ("batch, length, heads, head_dim", [(h, l) for l in range(rows) for h in range(heads)], "stride = {len·heads·dim, dim, heads·dim, 1}")]):
        y = 40 + line * 112
        parts += [text(10, y - 12, name, weight="bold")]
        for n, (h, l) in enumerate(order):
            for d in range(dim):
                x = 10 + (n * dim + d) * (width + 2)
                parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="26" rx="3" fill="{colours[h]}" fill-opacity="{1 if d == 0 else 0.75}"/>')
                parts.append(text(x + width / 2, y + 18, f"{h} {l} {d}", "middle", colour="#ffffff"))
        parts.append(text(10, y + 46, strides))
    parts.append(text(10, 226, "Each box: head, row, dimension, in the order of addresses. The shape is {batch, heads, length, head_dim} in both."))
    return svg(720, 240, parts)


def split():
    """One libattile, several programs above, several backends below."""
    parts = []

    def box(x, y, w, h, words, fill, below=""):
        parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" stroke="{EDGE}"/>')
        parts.append(text(x + w / 2, y + (h / 2 + 5 if not below else h / 2 - 2), words, "middle", "bold", "#ffffff" if fill != "none" else INK))
        if below:
            parts.append(text(x + w / 2, y + h / 2 + 15, below, "middle", colour="#ffffff" if fill != "none" else INK))

    for n, name in enumerate(["C", "C++", "Fortran", "Rust", "Python"]):
        box(10 + n * 124, 10, 114, 34, name, "none")
        parts.append(f'<path d="M{67 + n * 124} 44 V72" stroke="{EDGE}" stroke-width="2"/>')
    box(10, 72, 610, 52, "libattile.so.1", DIAGONAL, "attile.h: checks every argument, forwards one normalised problem")
    parts.append(text(634, 92, "ATTILE_BACKEND"))
    parts.append(text(634, 110, "chooses"))
    for n, (name, below) in enumerate([("reference", "in libattile"), ("cpu", "plugin"), ("cuda", "plugin"), ("hip", "plugin"), ("yours", "plugin")]):
        parts.append(f'<path d="M{67 + n * 124} 124 V152" stroke="{EDGE}" stroke-width="2"/>')
        box(10 + n * 124, 152, 114, 50, name, SEEN, below)
    return svg(760, 212, parts)


def nonlocal_filter():
    """Columns of nonlocal.txt, which examples/fortran/fortran_nonlocal.f90 writes: a plain average above, the learned filter below."""
    lines = (pathlib.Path(__file__).parent / "nonlocal.txt").read_text(encoding="utf-8").split("\n")
    names, rows = lines[0].split(), [[float(x) for x in line.split()] for line in lines[1:] if line]
    column = {name: [row[n] for row in rows] for n, name in enumerate(names)}
    left, width, height, parts = 16, 730, 150, []
    low, high = min(column["noisy"]) - 0.02, max(column["noisy"]) + 0.02

    def line(name, y, colour, thickness):
        points = " ".join(f"{left + (x - 1) * width / (len(rows) - 1):.1f},{y + height * (high - u) / (high - low):.1f}" for x, u in zip(column["point"], column[name]))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thickness}" stroke-linejoin="round"/>'

    for n, (name, words, colour) in enumerate([("averaged", "the best plain average, 7 points", "#c47a3b"), ("filtered", "attention in a window of 25 points, learned", SEEN)]):
        y = 34 + n * (height + 42)
        parts += [text(left, y - 12, words, weight="bold", colour=colour)]
        parts += [f'<circle cx="{left + (x - 1) * width / (len(rows) - 1):.1f}" cy="{y + height * (high - u) / (high - low):.1f}" r="2.4" fill="{EDGE}"/>' for x, u in zip(column["point"], column["noisy"])]
        parts += [line("exact", y, INK, 1.2), line(name, y, colour, 2.6)]
    parts.append(text(left, 34 + 2 * height + 42 + 24, "Density along a shock tube that the filter has not seen: dots with noise, the thin line exact."))
    return svg(left * 2 + width, 34 + 2 * height + 42 + 40, parts)


FIGURES = {"masks.svg": masks, "layouts.svg": layouts, "overview.svg": split, "nonlocal.svg": nonlocal_filter}

if __name__ == "__main__":
    check = sys.argv[1] == "--check"
    folder = pathlib.Path(sys.argv[-1])
    for name, draw in FIGURES.items():
        if check:
            if (folder / name).read_text(encoding="utf-8") != draw():
                sys.exit(f"{name} is not what draw_figures.py draws; run it")
        else:
            (folder / name).write_text(draw(), encoding="utf-8")

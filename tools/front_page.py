#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of README.md, the ten rows of docs/performance.md and their picture from the measurements in docs/measurements.

usage: front_page.py [--check]

A part of a page stands between <!-- NAME: made by tools/front_page.py --> and <!-- end of NAME -->. The picture is docs/figures/front.svg.
--check writes nothing and fails if a page or the picture is not what the measurements say.
"""
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHO = {"pytorch": "PyTorch", "cublas": "cuBLAS", "cudnn": "cuDNN", "flash2": "FlashAttention-2", "flash4": "FlashAttention-4",
       "openblas": "OpenBLAS", "onednn": "oneDNN", "blis": "BLIS", "onnxruntime": "ONNX Runtime"}
# Title, what is said below it, rows: what a user calls it, its size in words, file, group, case, threads of a CPU.
PANELS = [
    ("float32, the code for a GTX 1080", "{device} running the kernels for Pascal (compute_61)", [
        ("Attention", "2 x 16 heads, 8192 keys, D = 128", "h200-cuda-attention.json", "attention", "B=2 H=16 S=8192 D=128", 0),
        ("Attention", "8 x 16 heads, 2047 keys, D = 64", "h200-cuda-attention.json", "attention", "B=8 H=16 S=2047 D=64", 0),
        ("GEMM", "4096 x 4096 x 4096", "h200-cuda-gemm-memory.json", "gemm f32", "4096x4096x4096", 0)]),
    ("bf16 on Hopper", "{device}, tensor cores", [
        ("Prefill", "2 x 16 heads, 8192 keys, D = 128", "h200-cuda-attention16-steady.json", "attention16", "bf16 B=2 H=16 S=8192 D=128", 0),
        ("Gradients", "8 x 16 heads, 2048 keys, causal", "h200-cuda-backward16-steady.json", "backward16", "bf16 B=8 H=16 S=2048 D=128 causal", 0),
        ("Decoding", "16 x 32 heads over 8, 4096 keys", "h200-cuda-decode16-steady.json", "decode16", "bf16 B=16 heads 32/8 keys 4096 D=128", 0),
        ("GEMM", "4096 x 4096 x 4096", "h200-cuda-gemm16-steady.json", "gemm16", "4096x4096x4096 nn bfloat16", 0)]),
    ("float32 on a CPU", "{device}, AVX-512, two threads", [
        ("Attention", "8 heads, 2048 keys, D = 64", "epyc-cpu.json", "frameworks", "B=1 H=8 S=2048 d=64", 2),
        ("GEMM", "2048 x 2048 x 2048", "epyc-cpu.json", "sgemm", "sgemm 2048x2048x2048", 2),
        ("GEMM, 16 rows", "16 x 4096 x 4096", "epyc-cpu.json", "small", "sgemm 16x4096x4096", 2)]),
]
SHOWN = 2  # Other libraries a row.
OURS, THEIRS, INK = "#2f7fc1", "#9aa5b1", "#74808c"  # seen on light and on dark


def run_of(name):
    return json.loads((ROOT / "docs/measurements" / name).read_text(encoding="utf-8"))


def rates_of(run, group, case, threads):
    """Rate by library; on CPUs also the median over rounds of Attile beside the fastest other."""
    rows = [row for row in run["rows"] if row["group"] == group and row["case"] == case and row.get("threads", 0) == threads]
    if not rows:
        sys.exit(f"no case '{case}' in '{group}'")
    rates = rows[0].get("rates") or {row["who"]: row["rate"] for row in rows if row.get("rate")}
    others = {who: rate for who, rate in rates.items() if who in WHO}
    if not others or "attile" not in rates:
        return rates.get("attile"), [], None
    others = sorted(others.items(), key=lambda pair: -pair[1])
    ratio = rows[0]["value"] if "rates" in rows[0] else rates["attile"] / others[0][1]
    return rates["attile"], others, ratio


class Row:
    def __init__(self, words, size, name, group, case, threads):
        self.words, self.size, self.run, self.name = words, size, run_of(name), name
        self.ours, others, self.ratio = rates_of(self.run, group, case, threads)
        self.others = others[:SHOWN]
        self.unit = next(row["unit"] for row in self.run["rows"] if row["group"] == group and row.get("unit"))
        cases = dict.fromkeys(row["case"] for row in self.run["rows"] if row["group"] == group and row.get("threads", 0) == threads)
        ratios = [ratio for ratio in (rates_of(self.run, group, each, threads)[2] for each in cases) if ratio]
        self.range = f"{min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}, {len(ratios)} cases"


def panels():
    for title, below, rows in PANELS:
        rows = [Row(*row) for row in rows]
        device = rows[0].run["facts"]["device"].replace("NVIDIA ", "")
        yield title, below.format(device=device), rows


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def sources():
    """Device, date, commit and the versions of the others, by file."""
    lines = []
    for _, _, rows in panels():
        facts = rows[0].run["facts"]
        if "torch" in facts:
            text = (f"{facts['device']}, driver {facts['driver']}, {facts['build']}, {facts['date']}, commit {facts['commit']}; "
                    f"PyTorch {facts['torch']} with CUDA {facts['cuda']}, and the cuBLAS and cuDNN that come with it"
                    + (f", FlashAttention-4 {facts['flash4']}" if "flash4" in facts else ""))
        else:
            stamps = sorted({(row["date"], row["commit"]) for row in rows[0].run["rows"]})
            blas = re.sub(r"OpenBLAS (\S+).* (\S+) MAX_THREADS.*", r"\1 with its \2 kernels", facts["openblas"])
            text = (f"{facts['device']}, {facts['arch']}, " + ", ".join(f"{date}, commit {commit}" for date, commit in stamps)
                    + f"; OpenBLAS {blas}, oneDNN {facts['onednn']}, ONNX Runtime {facts['onnxruntime']}, PyTorch {facts['pytorch']}")
        lines.append(text)
    return lines


def table():
    lines = ["| operation | size | Attile | fastest others | ratio | ratio of all cases |", "|---" * 6 + "|"]
    for title, _, rows in panels():
        lines.append(f"| **{title}** | | | | | |")
        for row in rows:
            others = ", ".join(f"{WHO[who]} {number(rate)}" for who, rate in row.others)
            lines.append(f"| {row.words} | {row.size} | **{number(row.ours)}** {row.unit} | {others} | {row.ratio:.2f} | {row.range} |")
    return "\n".join(lines) + "\n\nMeasured on:\n\n" + "\n".join(f"- {title}: {text}." for (title, _, _), text in zip(PANELS, sources())) + "\n"


def escaped(words):
    return words.replace("&", "&amp;").replace("<", "&lt;")


def text(x, y, words, size=13, weight="normal", anchor="start", colour=INK):
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{colour}">{escaped(words)}</text>'


def picture():
    """Three panels; a row's bars are as long as its rates, the fastest as long as the panel allows."""
    width, gap, bar, step = 312, 28, 13, 18
    parts, bottom = [], 0
    for n, (title, below, rows) in enumerate(panels()):
        x, y = 8 + n * (width + gap), 22
        parts += [text(x, y, title, 16, "bold"), text(x, y + 18, below, 11)]
        y += 48
        for row in rows:
            parts += [text(x, y, row.words, 13, "bold"), text(x + width, y, row.size, 11, anchor="end")]
            y += 7
            bars = [("Attile", row.ours)] + [(WHO[who], rate) for who, rate in row.others]
            longest = max(rate for _, rate in bars)
            for who, rate in bars:
                ours = who == "Attile"
                length = round((width - 196) * rate / longest, 1)
                parts.append(f'<rect x="{x + 106}" y="{y}" width="{length}" height="{bar}" rx="2" fill="{OURS if ours else THEIRS}"/>')
                parts.append(text(x, y + 11, who, 12, "bold" if ours else "normal", colour=OURS if ours else INK))
                parts.append(text(x + 112 + length, y + 11, f"{number(rate)} {row.unit}" if ours else number(rate), 11, "bold" if ours else "normal", colour=OURS if ours else INK))
                y += step
            y += 20
        bottom = max(bottom, y)
    total = 8 + 3 * width + 2 * gap + 8
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{bottom}" viewBox="0 0 {total} {bottom}" font-family="Helvetica, Arial, sans-serif" role="img" style="color-scheme: light dark">'
    return "\n".join([head, "<title>Attile beside the libraries that a reader would use instead; longer bars are faster</title>", *parts, "</svg>"]) + "\n"


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    made = {ROOT / "docs/figures/front.svg": picture()}
    for page in (ROOT / "README.md", ROOT / "docs/performance.md"):
        block = re.compile(r"(<!-- front table: made by tools/front_page.py -->\n).*?(<!-- end of front table -->)", re.S)
        content, count = block.subn(lambda found: found[1] + "\n" + table() + "\n" + found[2], page.read_text(encoding="utf-8"))
        if count != 1:
            sys.exit(f"{page.name}: has the marks of the front table {count} times, expected once")
        made[page] = content
    for path, content in made.items():
        if not check:
            path.write_text(content, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != content:
            sys.exit(f"{path.relative_to(ROOT)} is not what docs/measurements say; run tools/front_page.py")


if __name__ == "__main__":
    main()

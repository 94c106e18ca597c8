# SPDX-License-Identifier: Apache-2.0
"""docs/ladder.md, from the steps' own words, the committed runs and the answers of `attile explain`. The same files give the same page."""
import json
import os
import re

from ladder_steps import (LADDERS, before, code_text, intensity, rate_text, read_questions, read_steps, share_of_roof, time_text, timed)

PROBLEMS = {
    "gemm": ("GEMM", "C = A B in float32, row-major, 4096 by 4096 by 4096, 137 GFLOP. Share of the roof: of the device's peak of float32 multiply-adds."),
    "reduction": ("Reduction", "The sum of 2^26 floats, 256 MiB, more than any cache holds. Share of the roof: of the memory's bandwidth, each element read once."),
    "attention": ("Attention", "o = softmax(q k^T / sqrt d) v in float32, values in [-3, 3], shapes given as (heads, rows, d). 4 heads rows^2 d FLOP. The ten steps "
                  "are those of a report on a GTX 1080; each is right for any input here, which the original is not: row maxima start at minus "
                  "infinity, any number of rows, scores of any sign."),
    "memory": ("Memory and occupancy", "What a copy costs, and what keeps a multiprocessor busy."),
}
MAIN_SHAPE = {"gemm": "4096^3", "reduction": "2^26", "attention": "(2,32768,64)"}
SHAPES = ["(10,2048,64)", "(13600,128,32)", "(500,2048,64)", "(4,32768,32)", "(2,32768,64)"]


def load(root, name):
    path = os.path.join(root, "docs", "ladder", name)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def committed_run(root):
    return load(root, "h200.json")


def read_answers(root):
    path = os.path.join(root, "docs", "ladder", "questions.txt")
    return read_questions(path) if os.path.exists(path) else []


def answers_text(questions, place):
    """What `attile explain` answers to the questions of this place."""
    lines = []
    for where, words, command, answer in questions:
        if where == place:
            lines += [words, "", "```console", f"$ {command}", answer, "```", ""]
    return lines


def find(run, step, shape):
    if not run:
        return None
    rows = [r for r in run["rows"] if r["ladder"] == step["ladder"] and r["order"] == step["order"] and r["shape"] == shape]
    return rows[-1] if rows else None


def marked(text):
    """Names of code as code, or their underscores would be taken for emphasis."""
    return re.sub(r"(?<![`\w/])(__\w+|cuda[A-Z]\w+|attile_\w+\(\)|(?:backends|examples)/[\w/.]+\w|cp\.async)", r"`\1`", text)


def table(heads, rows):
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] + ["| " + " | ".join(r) + " |" for r in rows] + [""]


def short_name(run):
    return run["device"]["device"].replace("NVIDIA ", "")


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def step_cells(step, shape, run, other):
    """Time, TFLOP/s, GB/s, share, speed-up and the other build's time."""
    row, second = find(run, step, shape), find(other, step, shape)
    if not row or not timed(row):
        return [row["note"] if row and row["note"] else "", "", "", "", "", ""]
    under = before(row, run["rows"])
    return [time_text(row["ms"]), rate_text(row, "flops"), rate_text(row, "traffic"), f"{100 * share_of_roof(row, run['device']):.1f} %",
            f"{under['ms'] / row['ms']:.2f}" if under else "", time_text(second["ms"]) if second and timed(second) else ""]


def main_table(ladder, steps, run, other, shape):
    heads = ["step", "title", "FLOP/B", "time", "TFLOP/s", "GB/s", "share of roof", "speed-up", "from compute_61"]
    if not run:
        return table(["step", "title", "arithmetic intensity"], [[f"{s['order']} `{s['name']}`", marked(s["title"]), s["intensity"]] for s in steps])
    rows = []
    for step in steps:
        row = find(run, step, shape)
        asked = number(intensity(row)) if row and timed(row) else ""
        rows.append([f"{step['order']} `{step['name']}`", marked(step["title"]), asked] + step_cells(step, shape, run, other))
    return table(heads, rows)


def attention_tables(steps, run, old):
    """Times of every shape, the GTX 1080's beside them."""
    reported = {(r["order"], r["shape"]): r["seconds"] for r in old["rows"]}
    device = short_name(run) if run else "H200"
    heads = ["step"]
    for shape in SHAPES:
        heads += [f"{shape} {device}", "GTX 1080"]
    rows = []
    for step in steps:
        cells = [f"{step['order']} `{step['name']}`"]
        for shape in SHAPES:
            row = find(run, step, shape)
            seconds = reported.get((step["order"], shape))
            cells += [time_text(row["ms"]) if row and timed(row) else "", f"{seconds:.3f} s" if seconds else ""]
        rows.append(cells)
    lines = ["Every shape, and the figures of the report, where it gives one for the step:", ""] + table(heads, rows)
    lines += [f"GTX 1080: {old['source']}. {old['note']} So the two columns show the same climb, not the same clock. Empty cells: no figure is reported, "
              "or the step was not timed there.", ""]
    if run:
        tenth, last = (find(run, s, "(2,32768,64)") for s in steps[-2:])
        if tenth and last and timed(tenth) and timed(last):
            lines += [f"At d = 64, (2,32768,64), the library's kernel is {tenth['ms'] / last['ms']:.1f} times as fast as the tenth step.", ""]
    return lines


def memory_table(step, run):
    rows = [r for r in run["rows"] if r["ladder"] == "memory" and r["order"] == step["order"]] if run else []
    if not rows:
        return []
    if any("registers" in r for r in rows):
        heads = ["variant", "registers", "local bytes", "blocks an SM", "occupancy", "time", "TFLOP/s"]
        cells = [[f"`{r['shape']}`", str(r["registers"]), str(r["local_bytes"]), str(r["blocks_per_unit"]), f"{r['occupancy']:.0f} %",
                  time_text(r["ms"]), rate_text(r, "flops")] for r in rows if timed(r)]
    else:
        heads = ["variant", "time", "GB/s"]
        cells = [[r["shape"], time_text(r["ms"]), rate_text(r, "bytes")] if timed(r) else [r["shape"], r["note"], ""] for r in rows]
    return table(heads, cells)


def step_text(step, steps, run):
    """A step in words, with its intensity before and after where a run tells both."""
    lines = [f"### {step['order']}. {marked(step['title'])}", "", f"`examples/ladder/{step['file']}`", "",
             f"*Changes.* {marked(step['changes'])}", "", f"*Why.* {marked(step['why'])}", "", f"*Arithmetic intensity.* {step['intensity']}"]
    shape = MAIN_SHAPE.get(step["ladder"])
    if shape and run:
        row = find(run, step, shape)
        if not (row and timed(row)) and step["ladder"] == "attention":
            shape = SHAPES[0]
            row = find(run, step, shape)
        under = before(row, run["rows"]) if row and timed(row) else None
        if under:
            lines[-1] += (f" Asked of global memory at {shape}: {number(intensity(under))} FLOP/B before, {number(intensity(row))} after; the time went "
                          f"from {time_text(under['ms'])} to {time_text(row['ms'])}.")
            if row["ms"] > under["ms"]:
                lines[-1] += " Slower: see above for what the step is for."
    return lines + [""]


def page(root):
    steps, questions = read_steps(os.path.join(root, "examples", "ladder")), read_answers(root)
    run, other, old = committed_run(root), load(root, "h200-compute_61.json"), load(root, "gtx1080.json")
    lines = ["# The ladder {#ladder}", "", "<!-- Made by tools/ladder --write-docs from examples/ladder and docs/ladder. Do not edit. -->", "",
             "From naive to fast in small steps, each a plain CUDA program with one idea: GEMM, reduction, attention, memory. The last step of each is the "
             "library's own kernel. Climb it on your own GPU, from Pascal on:", "", "```sh", "tools/ladder                          # build, check against float64, time, print the table, draw the rooflines (tools/setup plots)",
             "tools/ladder --filter gemm/           # one ladder", "attile explain tiling --n 4096 --tile 32     # the arithmetic of a step; more at the end of this page", "nvcc -std=c++17 -arch=sm_61 examples/ladder/gemm_01_naive.cu && ./a.out       # one step by itself", "```", "",
             "- **Checked.** Every step runs small and ragged sizes in full, and the timed size in samples, against float64; NaN never passes, outputs start as NaN. "
             "Without a GPU `ctest -R ladder` runs the same kernels on the host.",
             "- **FLOP/B** is arithmetic intensity as the kernel's threads ask for it: FLOP over the bytes that they request from global memory, by design. Caches answer part of "
             "that, so a step can lie above the line of the memory's bandwidth.",
             "- **Share of the roof** is the least time that the device's peaks allow the *problem*, with each input read and each output written once, over the time taken.",
             "- **Speed-up** is over the step before at the same shape.", ""]
    if run:
        device = run["device"]
        lines += [f"Measured on one {device['device']}: {device['units']} multiprocessors, {device['peak_flops'] * 1e-12:.1f} TFLOP/s, {device['bandwidth'] * 1e-9:.0f} GB/s by its clocks; "
                  f"{code_text(device)}." + (f" The last column: {code_text(other['device'])}." if other else "")
                  + (f" The library's own steps: {device['library']}." if device.get("library") else ""), ""]
    else:
        lines += ["**The H200 run is to come**: until its measurements are committed its columns are empty or left out. The figures for a GTX 1080 are those of the report that the attention "
                  "ladder follows; none are known for the other ladders.", ""]
    for ladder in LADDERS:
        own = [s for s in steps if s["ladder"] == ladder]
        name, problem = PROBLEMS[ladder]
        lines += [f"## {name}", "", problem, ""]
        if ladder != "memory":
            if run:
                lines += [f"![Roofline of the {ladder} ladder](ladder/roofline_{ladder}.svg)", ""]
            if ladder == "attention" and run:
                lines += [f"Times of the table: {MAIN_SHAPE[ladder]}.", ""]
            lines += main_table(ladder, own, run, other, MAIN_SHAPE[ladder])
            if ladder == "attention":
                lines += attention_tables(own, run, old)
        for step in own:
            lines += step_text(step, own, run) + answers_text(questions, f"{ladder} {step['order']}")
            if ladder == "memory":
                lines += memory_table(step, run)
    asked = answers_text(questions, "textbook")
    if asked:
        lines += ["## The textbook's questions", "", "`attile explain` asks them of the library's own kernels: `attile explain gemm 4096 4096 4096` says what the kernel chosen here reads of global "
                  "memory with its tile and without one, what limits the blocks on a multiprocessor, and which roof binds. With numbers instead of an operation it answers exercises, here some of "
                  "Kirk and Hwu, *Programming Massively Parallel Processors*. Plain numbers are those of the book. A device allocates registers to whole warps and in multiples of 256, from each "
                  "partition of a multiprocessor apart, and shared memory in multiples of 128 or 256 bytes; `--capability` adds what that changes.", ""] + asked
    return "\n".join(lines).rstrip("\n") + "\n"

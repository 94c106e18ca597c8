# SPDX-License-Identifier: Apache-2.0
"""What the ladder's steps say of themselves, read from the heads of their files, and the measurements of a run."""
import glob
import json
import os
import re
import textwrap

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LADDERS = ["gemm", "reduction", "attention", "memory"]
KEY = re.compile(r"// (Step|Title|Changes|Why|Intensity): (.*)")


def read_steps(folder=os.path.join(ROOT, "examples", "ladder")):
    """Steps in order: ladder, order, name, title, changes, why, intensity, file."""
    steps = []
    for path in sorted(glob.glob(os.path.join(folder, "*.cu"))):
        key, step = None, None
        with open(path, encoding="utf-8") as file:
            for line in file:
                if not line.startswith("//"):
                    break
                match = KEY.match(line)
                if match and match.group(1) == "Step":
                    ladder, order, name = match.group(2).split()
                    step = {"ladder": ladder, "order": int(order), "name": name, "file": os.path.basename(path)}
                    steps.append(step)
                    key = None
                elif match:
                    key = match.group(1).lower()
                    step[key] = match.group(2).strip()
                elif key:
                    step[key] += " " + line[2:].strip()
        for one in steps:
            missing = [k for k in ("title", "changes", "why", "intensity") if k not in one]
            if missing:
                raise SystemExit(f"{path}: the head does not say {', '.join(missing)}")
    return sorted(steps, key=lambda s: (LADDERS.index(s["ladder"]), s["order"]))


def read_questions(path):
    """Questions to `attile explain` with its answers, as (place, words, command, answer): the place is a step, "gemm 4", or "textbook". In the file
    a place and the words are comments, a command begins with "$ ", and its answer follows to the next comment or command."""
    questions, head, command, answer = [], [], None, []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n") + ["# end"]
    for line in lines:
        if command and line.startswith(("# ", "$ ")):
            questions.append((head[0], " ".join(head[1:]), command, "\n".join(answer).strip("\n")))
            head, command, answer = [], None, []
        if line.startswith("# "):
            head.append(line[2:])
        elif line.startswith("$ "):
            command = line[2:]
        elif command:
            answer.append(line)
    return questions


def write_questions(path, questions):
    """What read_questions() reads."""
    with open(path, "w", encoding="utf-8") as file:
        for place, words, command, answer in questions:
            lines = [f"# {place}"] + [f"# {line}" for line in textwrap.wrap(words, 150)] + [f"$ {command}", answer]
            file.write("\n".join(lines) + "\n")


def parse_lines(path):
    """The device and the rows of a program's JSON lines."""
    device, rows = {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:  # The last line of a run that was cut off.
                continue
            if "device" in entry:
                device = entry
            else:
                rows.append(entry)
    return device, rows


def timed(row):
    return bool(row.get("ok")) and row.get("runs", 0) > 0


def roof_seconds(row, device):
    """The least time that the device's peaks allow this work."""
    return max(row["flops"] / device["peak_flops"], row["bytes"] / device["bandwidth"])


def share_of_roof(row, device):
    return roof_seconds(row, device) / (row["ms"] * 1e-3)


def intensity(row):
    return row["flops"] / row["traffic"] if row.get("traffic") else 0.0


def before(row, rows):
    """The nearest lower step of the same ladder with a time at the same shape. Steps of `memory` are compared with nothing."""
    lower = [r for r in rows if r["ladder"] == row["ladder"] != "memory" and r["shape"] == row["shape"] and r["order"] < row["order"] and timed(r)]
    return max(lower, key=lambda r: r["order"]) if lower else None


def time_text(ms):
    return f"{ms:.3f} ms" if ms < 1 else f"{ms:.2f} ms" if ms < 100 else f"{ms:.0f} ms"


def rate_text(row, factor):
    value = row[factor] / row["ms"] * (1e-9 if factor == "flops" else 1e-6)
    return "" if value == 0 else f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def code_text(device):
    same = device.get("ptx") == device.get("binary")
    return f"machine code for sm_{device.get('binary')}" if same else f"PTX of compute_{device.get('ptx')}, compiled by the driver for sm_{device.get('binary')}"

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attile(1), made of what the program says of itself: one source for both. `cmake --build build/cpu --target attile_man` makes it anew.

    manual_page.py PROGRAM write PAGE     write the page
    manual_page.py PROGRAM check PAGE     exit status 1 and the difference, if the page is not what would be written
"""
import difflib
import re
import subprocess
import sys

EXIT = "0: done. 1: failed, with a sentence on standard error. 2: the command line is wrong."
VARIABLES = [
    ("ATTILE_BACKEND", "a backend, a list of backends, or one device of a backend, e.g. cuda, or cpu,reference, or cuda:1; unset: the best that can run here"),
    ("ATTILE_BACKEND_PATH", "directories to search first for backends, separated by colons"),
    ("ATTILE_LOG", "off, error, warn, info, debug or trace: how much is logged to standard error; unset: off"),
    ("ATTILE_LOG_FILE", "absolute path of a file to log to instead"),
]
EXAMPLES = ["attile info", "attile generate in.bin --batch 8 --length 2048 --dim 64", "attile attention in.bin out.bin",
            "attile verify --backend cpu", "attile bench --filter gemm", "attile explain attention 8 16 2048 64"]


def help_of(program, words):
    return subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout


def read(text):
    """The summary, and of each section its entries: name and description."""
    lines = text.split("\n")
    summary, sections, section, entry = lines[0], {}, None, None
    for line in lines[1:]:
        if re.fullmatch(r"[A-Z][A-Za-z]+:", line):
            section = sections.setdefault(line[:-1], [])
            entry = None
        elif section is not None and re.match(r" {2}\S", line):
            match = re.match(r" {2}(\S.*?)(?: {2,}(\S.*))?$", line)
            entry = [match.group(1), match.group(2) or ""]
            section.append(entry)
        elif entry is not None and re.match(r" {8,}\S", line):
            entry[1] = (entry[1] + " " + line.strip()).strip()
        elif not line.strip():
            entry = None
        elif not line.startswith(" "):
            section = None
    return summary, sections


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def entries(listed):
    lines = []
    for name, what in listed:
        if name.startswith("-h,"):
            continue
        name = re.sub(r"\{false\}| REQUIRED$", "", name)
        name, *relations = re.split(r" (?=Needs: |Excludes: )", name)
        if name.startswith("--"):
            name = re.sub(r" \.\.\.$", "", name)
        for relation in relations:  # the parser names them in no fixed order
            kind, *others = relation.split()
            what += "; " + {"Needs:": "only", "Excludes:": "not"}[kind] + " with " + ", ".join(sorted(others))
        words = name.split(" ", 1)
        label = "\\fB" + roff(words[0]).replace(",", "\\fR, \\fB") + "\\fR" + (" \\fI" + roff(words[1]) + "\\fR" if len(words) > 1 else "")
        lines += [".TP", label, roff(what)]
    return lines


def command_lines(program, words):
    summary, sections = read(help_of(program, words))
    lines = [".SS " + roff("attile " + " ".join(words)), roff(summary) + "."]
    for title in ("Positionals", "Options"):
        lines += entries(sections.get(title, []))
    for name, _ in sections.get("Subcommands", []):
        lines += command_lines(program, words + [name])
    return lines


def page(program):
    summary, sections = read(help_of(program, []))
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True, timeout=60).stdout.split()
    number = next(word for word in version if re.fullmatch(r"\d+(\.\d+)+", word))
    lines = ['.\\" SPDX-License-Identifier: Apache-2.0', '.\\" Made by tools/attile/manual_page.py of what the program says of itself.',
             f'.TH ATTILE 1 "" "Attile {number}" "User Commands"', ".SH NAME", "attile \\- " + roff(summary[0].lower() + summary[1:].rstrip(".")),
             ".SH SYNOPSIS", ".B attile", "\\fISUBCOMMAND\\fR [\\fIOPTIONS\\fR]", ".SH DESCRIPTION",
             "Shows, checks and measures the backends of a machine, by the library Attile.", ".SH OPTIONS"]
    lines += entries(sections["Options"]) + [".TP", "\\fB\\-h\\fR, \\fB\\-\\-help\\fR", "Of the program, or of a subcommand: says all of this"]
    lines += [".SH SUBCOMMANDS"]
    for name, _ in sections["Subcommands"]:
        lines += command_lines(program, [name])
    lines += [".SH ENVIRONMENT"]
    for name, what in VARIABLES:
        lines += [".TP", f"\\fB{name}\\fR", roff(what)]
    lines += [".SH EXIT STATUS", roff(EXIT), ".SH EXAMPLES", ".nf"] + [roff(line) for line in EXAMPLES] + [".fi"]
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in ("write", "check"):
        sys.exit(__doc__)
    made = page(sys.argv[1])
    if sys.argv[2] == "write":
        with open(sys.argv[3], "w", encoding="utf-8") as file:
            file.write(made)
        return
    with open(sys.argv[3], encoding="utf-8") as file:
        there = file.read()
    if there != made:
        sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), made.splitlines(True), sys.argv[3], "what the program says"))
        sys.exit("the page is not what the program says of itself: cmake --build build/cpu --target attile_man")


if __name__ == "__main__":
    main()

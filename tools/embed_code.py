#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts code from the examples into the guides, so that it can be read wherever the Markdown is shown.

usage: embed_code.py [--check]

Code stands between <!-- code PATH [MARK] --> and <!-- end of code -->. PATH is below examples/. MARK names the part of the file between two comments that
hold [MARK] and nothing else; without it the whole file is shown, but for its licence line. --check writes nothing and fails if code in a guide is not that of its file.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- code (\S+)(?: (\S+))? -->\n.*?<!-- end of code -->", re.S)
LANGUAGES = {".c": "c", ".cpp": "cpp", ".f90": "fortran", ".rs": "rust", ".py": "python"}
MARK = re.compile(r"\s*(?://!?|!!?|#|/\*!?)\s*\[(\w+)\]\s*(?:\*/)?\s*$")


def part_of(path, mark):
    """The lines between two marks, or all of them; marks are left out."""
    lines = (ROOT / "examples" / path).read_text(encoding="utf-8").splitlines()
    if mark:
        ends = [n for n, line in enumerate(lines) if (found := MARK.match(line)) and found[1] == mark]
        if len(ends) != 2:
            sys.exit(f"examples/{path} has the mark [{mark}] {len(ends)} times, expected 2")
        lines = lines[ends[0] + 1:ends[1]]
    else:
        lines = [line for n, line in enumerate(lines) if n > 1 or "SPDX-License-Identifier" not in line]
    return textwrap.dedent("\n".join(line for line in lines if not MARK.match(line))).strip("\n")


def block(found):
    path, mark = found[1], found[2]
    return f"<!-- code {path}{' ' + mark if mark else ''} -->\n```{LANGUAGES[pathlib.Path(path).suffix]}\n{part_of(path, mark)}\n```\n<!-- end of code -->"


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    stale = []
    for guide in sorted((ROOT / "docs").glob("*.md")):
        text = guide.read_text(encoding="utf-8")
        made = BLOCK.sub(block, text)
        if made != text:
            stale.append(guide.name)
            if not check:
                guide.write_text(made, encoding="utf-8")
    if check and stale:
        sys.exit(f"code in {', '.join(stale)} is not that of its file in examples; run tools/embed_code.py")


if __name__ == "__main__":
    main()

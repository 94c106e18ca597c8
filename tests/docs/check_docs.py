#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the guides to the sources: code in them is pulled from programs that the tests build and run, and their links lead somewhere.

usage: check_docs.py ROOT
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
guides = sorted((root / "docs").glob("*.md")) + sorted((root / "docs/kernels").glob("*.md"))
readmes = [root / "README.md", *sorted((root / "bindings").glob("*/README.md"))]
BUILT = [*(root / "examples").glob("*/CMakeLists.txt"), root / "bindings/rust/attile/Cargo.toml", root / "tests/rust/run_examples.sh", root / "tests/bindings/CMakeLists.txt"]
built = "\n".join(path.read_text(encoding="utf-8") for path in BUILT)
faults, pulled = [], 0

for guide in guides:
    text, name = guide.read_text(encoding="utf-8"), guide.name
    if "Do not edit" not in text[:400]:  # a generated page takes its code from files by itself
        for language in re.findall(r"^```([A-Za-z+]+)\n", text, re.M):
            if language not in ("sh", "cmake", "toml", "text", "console"):
                faults.append(f"{name}: code in {language} is typed by hand; pull it from a file in examples/ with \\snippet")
    for kind, path, tag in re.findall(r"^\\(snippet|include) (\S+)(?: (\S+))?", text, re.M):
        source = root / "examples" / path
        pulled += 1
        if not source.is_file():
            faults.append(f"{name}: examples/{path} is not there")
            continue
        found = source.read_text(encoding="utf-8").count(f"[{tag}]") if kind == "snippet" else 2
        if found != 2:
            faults.append(f"{name}: examples/{path} has the mark [{tag}] {found} times, expected 2")
        if not re.search(rf"\b{re.escape(source.stem)}\b", built):
            faults.append(f"{name}: no test builds examples/{path}")

for page in guides + readmes:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
        if "://" in link:
            continue
        if not any((place / link).exists() for place in (page.parent, root / "docs/figures")):
            faults.append(f"{page.relative_to(root)}: the link {link} leads nowhere")

print("\n".join(faults) or f"{len(guides)} guides, {pulled} pieces of code pulled from programs")
sys.exit(bool(faults) or pulled < 30)

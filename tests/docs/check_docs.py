#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the guides to the sources: code in them is that of programs that the tests build and run, links lead somewhere, all name one version, and each part of tools/test has a job.

usage: check_docs.py ROOT
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
guides = sorted((root / "docs").glob("*.md")) + sorted((root / "docs/kernels").glob("*.md"))
readmes = [root / "README.md", root / "SECURITY.md", root / "cmake/packaging/README.md", *sorted((root / "bindings").glob("*/README.md")), *sorted((root / "examples").glob("*/README.md"))]
BUILT = [*(root / "examples").glob("*/CMakeLists.txt"), root / "bindings/rust/attile/Cargo.toml", root / "tests/rust/run_examples.sh", root / "tests/bindings/CMakeLists.txt"]
built = "\n".join(path.read_text(encoding="utf-8") for path in BUILT)
site = (root / "docs/Doxyfile.in").read_text(encoding="utf-8")
faults, pulled = [], 0

for guide in guides:
    text, name = guide.read_text(encoding="utf-8"), guide.name
    if "Do not edit" not in text[:400]:  # a generated page takes its code from files by itself
        for language in re.findall(r"^```([A-Za-z+]+)\n", re.sub(r"<!-- code .*?<!-- end of code -->", "", text, flags=re.S), re.M):
            if language not in ("sh", "cmake", "toml", "text", "console"):
                faults.append(f"{name}: code in {language} is typed by hand; put it in a file in examples/ and take it from there (tools/embed_code.py)")
    if re.search(r"^\\(snippet|include) ", text, re.M):
        faults.append(f"{name}: \\snippet shows no code on a forge; use <!-- code PATH MARK --> (tools/embed_code.py)")
    if re.search(r"\\(sub)?(ref|page) ", text) and "Do not edit" not in text[:400]:
        faults.append(f"{name}: \\ref is no link on a forge; use [words](page.md)")
    if re.search(r"^(#.*\{#.*\}|\[TOC\])$", text, re.M) and "Do not edit" not in text[:400]:
        faults.append(f"{name}: a forge shows {{#anchor}} and [TOC] as text; write <!-- anchor --> and <!-- contents --> (docs/site/markdown.sed)")
    if guide.parent.name == "docs" and f"/docs/{name}" not in site:
        faults.append(f"{name}: is not in INPUT of docs/Doxyfile.in, which gives the sidebar its order")
    for path in re.findall(r"^<!-- code (\S+)(?: \S+)? -->$", text, re.M):
        source = root / "examples" / path
        pulled += 1
        if not source.is_file():
            faults.append(f"{name}: examples/{path} is not there")
        elif not re.search(rf"\b{re.escape(source.stem)}\b", built):
            faults.append(f"{name}: no test builds examples/{path}")

for page in guides + readmes:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for link, anchor in re.findall(r"\]\(([^)\s#]*)(?:#([^)]*))?\)", text):
        if "://" in link:
            continue
        target = page.parent / link if link else page
        if not target.exists():
            faults.append(f"{page.relative_to(root)}: the link {link} leads nowhere")
        elif anchor and target.suffix == ".md" and f"<!-- {anchor} -->" not in target.read_text(encoding="utf-8"):
            faults.append(f"{page.relative_to(root)}: {target.name} has no anchor <!-- {anchor} -->")

labels = {}
for guide in guides:  # the site has one space of section labels for all pages
    for label in re.findall(r"^#+ .* <!-- ([A-Za-z0-9_-]+) -->$", guide.read_text(encoding="utf-8"), re.M):
        if label in labels:
            faults.append(f"{guide.relative_to(root)}: {labels[label]} has a section labelled {label} too")
        labels[label] = guide.relative_to(root)

for picture in (root / "docs").rglob("*.svg"):
    drawn = picture.read_text(encoding="utf-8")
    if "Matplotlib" not in drawn and not re.search(r'<svg [^>]*color-scheme: light dark', drawn):  # Matplotlib's have a background of their own
        faults.append(f"{picture.relative_to(root)}: the site's dark pages give it a white background; write style=\"color-scheme: light dark\" in its <svg>")

header = (root / "include/attile/attile.h").read_text(encoding="utf-8")
version = ".".join(re.findall(r"^#define ATTILE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.M))
COPIES = {"bindings/rust/attile-sys/Cargo.toml": r'^version = "(.*)"', "bindings/rust/attile/Cargo.toml": r'^version = "(.*)"',
          "bindings/fortran/fpm.toml": r'^version = "(.*)"', "bindings/python/pyproject.toml": r'^version = "(.*)"', "bindings/python/src/attile/_library.py": r'^VERSION = "(.*?)"',
          "docs/CHANGELOG.md": r"^## (\S+),", "cmake/packaging/conda/meta.yaml": r'^{% set version = "(.*)" %}', "cmake/packaging/vcpkg/attile/vcpkg.json": r'^  "version": "(.*)"',
          "cmake/packaging/debian/changelog": r"^attile \((.*)-\d+\)"}
for path, pattern in COPIES.items():
    said = re.search(pattern, (root / path).read_text(encoding="utf-8"), re.M)[1]
    if said != version:
        faults.append(f"{path}: is of version {said}; attile.h is of {version}")

parts = re.search(r"^all=\((.*)\)", (root / "tools/test").read_text(encoding="utf-8"), re.M)[1].split()
workflow = (root / ".github/workflows/tests.yml").read_text(encoding="utf-8")
jobs = [part for listed in re.findall(r"part: \[(.*)\]", workflow) for part in listed.split(", ")]
if jobs != parts:
    faults.append(f".github/workflows/tests.yml: has jobs for {' '.join(jobs)}; the parts of tools/test are {' '.join(parts)}")

print("\n".join(faults) or f"{len(guides)} guides, {pulled} pieces of code pulled from programs")
sys.exit(bool(faults) or pulled < 30)

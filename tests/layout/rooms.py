#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of docs/architecture.md that are made from the tree: what each folder holds, in the folder's own words, what it may include, and
the claims that the layout test holds the tree to (claims.py).

    rooms.py ROOT    write them anew, between their marks
"""
import os
import re
import sys

import claims

PAGE = "docs/architecture.md"
GROUPS = ("include", "backends", "bindings", "tools")  # Folders that are shown by what is in them.
WHOLE = ("core", "examples", "tests")
MARK = "<!-- made by tests/layout/rooms.py: {} -->\n"


class NotDescribed(Exception):
    pass


def first_sentence(paragraph):
    text = " ".join(paragraph.split())
    return re.split(r"(?<=\.) ", text)[0].rstrip(".")


def comment(text):
    """The first sentence of the comment that a file of CMake or of a shell begins with."""
    found = re.match(r"(?:#!.*\n)?(?:# SPDX.*\n)?((?:# .*\n)+)", text)
    return first_sentence(found.group(1).replace("\n#", " ")[2:]) if found else None


def description(tree, folder):
    """What a folder says of itself: the comment that its CMake file begins with, its README's first paragraph, or the briefs of its headers."""
    inside = [p for p in tree.files if os.path.dirname(p) == folder]
    for name in ("CMakeLists.txt", "sources.cmake"):
        if f"{folder}/{name}" in inside and comment(tree.read(f"{folder}/{name}")):
            return comment(tree.read(f"{folder}/{name}"))
    if f"{folder}/README.md" in inside:
        found = re.match(r"# .*\n\n(\w[^\n]*|`[^\n]*)\n", tree.read(f"{folder}/README.md"))
        if found:
            return first_sentence(found.group(1)).rstrip(":")
    briefs = [(os.path.basename(p), re.search(r"@brief (.*)", tree.read(p))) for p in inside if p.endswith(".h")]
    if briefs and all(found for _, found in briefs):
        return "; ".join(f"`{name}`: {first_sentence(found.group(1))}" for name, found in briefs)
    if len(inside) == 1 and comment(tree.read(inside[0])):
        return comment(tree.read(inside[0]))
    raise NotDescribed(f"{folder}: does not say what it holds; let its CMakeLists.txt begin with a comment of one sentence")


def docs(tree):
    return [os.path.relpath(os.path.join(where, name), tree.root) for where, _, names in os.walk(os.path.join(tree.root, "docs")) for name in names]


def folders_of(tree, group):
    return sorted({"/".join(p.split("/")[:2]) for p in tree.files if p.startswith(group + "/") and p.count("/") > 1})


def rooms(tree):
    rows = ["| folder | holds | may include |", "|---|---|---|"]
    for folder in sorted([f for group in GROUPS for f in folders_of(tree, group)] + list(WHOLE), key=lambda f: (claims.order(f), f)):
        may = ", ".join(f"`{part}`" for part in claims.ARROWS[claims.part_of(folder + "/")]) or "nothing else of the tree"
        rows.append(f"| `{folder}` | {description(tree, folder)} | {may} |")
    return "\n".join(rows) + "\n"


def test_folders(tree):
    rows = ["| folder of `tests` | holds |", "|---|---|"]
    rows += [f"| `{os.path.basename(folder)}` | {description(tree, folder)} |" for folder in folders_of(tree, "tests")]
    return "\n".join(rows) + "\n"


def claim_list(_):
    return "".join(f"{number}. {sentence}\n" for number, (sentence, _) in enumerate(claims.CLAIMS, 1))


SECTIONS = {"rooms": rooms, "claims": claim_list, "tests": test_folders}


def made(tree, page):
    """The page with its made sections as the tree has them."""
    for name, make in SECTIONS.items():
        begin, end = MARK.format(name), MARK.format(f"end of {name}")
        if page.count(begin) != 1 or page.count(end) != 1:
            raise NotDescribed(f"{PAGE}: has not the marks of its section {name}")
        before, rest = page.split(begin)
        page = before + begin + "\n" + make(tree) + "\n" + end + rest.split(end)[1]
    return page


def main():
    import check_layout
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tree = check_layout.Tree(sys.argv[1])
    path = os.path.join(sys.argv[1], PAGE)
    page = made(tree, tree.read(PAGE))
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()

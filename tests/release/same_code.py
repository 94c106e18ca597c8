#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that a change of names and places has not changed the code of any kernel. Needs no GPU.

usage: same_code.py [--rename REGEX=TEXT]... [--cuobjdump PROGRAM] [--names] BEFORE AFTER [--before MORE]... [--after MORE]...
       same_code.py --self-test     check on PTX that what is equal is found equal, and what is not is not

BEFORE and AFTER are files, or folders of files: shared objects, object files and cubins, whose machine code and resources cuobjdump prints, or PTX
(*.ptx), which is compared as text. Kernels are compared by architecture and demangled name; each --rename is a regular expression and its replacement
that both sides' names go through, e.g. --rename 'attile::simt::=attile::gpu::'. Names within the code go through them too; numbers that count a file's
functions are left out. Prints how many kernels are equal, differ and are missing on a side, and the names of those that are not equal; --names prints all.
Exit status 0: all are equal.

nvcc orders some code by addresses of its own, which vary from run to run and with the length of names: the same source built twice differs in some of
its kernels. So more builds of either side may be given, by --before and --after: a kernel is equal where one build of each side agrees.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

MANGLED = re.compile(r"_Z\w+")
# What the compiler appends to a mangled name: parameters, copies of a function.
SUFFIX = re.compile(r"(_param_\d+|\$.*)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Names:
    """Mangled names as they are compared: demangled, without the hash of the file in what only one file sees, renamed."""

    def __init__(self, renames):
        self.renames = [(re.compile(old), new) for old, new in (rename.split("=", 1) for rename in renames)]
        self.known = {}

    def learn(self, text):
        new = sorted({SUFFIX.sub("", name) for name in MANGLED.findall(text)} - self.known.keys())
        if not new:
            return
        shown = subprocess.run(["c++filt"], input="\n".join(new) + "\n", check=True, capture_output=True, text=True).stdout.splitlines()
        for name, text in zip(new, shown):
            text = re.sub(r"\b_INTERNAL_\w+?::|\(anonymous namespace\)::|\b_GLOBAL__N__\w+?::", "", text)
            for old, replacement in self.renames:
                text = old.sub(replacement, text)
            self.known[name] = text

    def apply(self, text):
        self.learn(text)

        def show(match):
            name = match.group(0)
            suffix = SUFFIX.search(name)
            return self.known[SUFFIX.sub("", name)] + (suffix.group(0) if suffix else "")

        return MANGLED.sub(show, text)


def machine_code(path, options):
    """(architecture, mangled name) and the text of each function of an object."""
    resources = {}
    arch = "?"
    for line in run(options.cuobjdump, "--dump-resource-usage", path).splitlines():
        found = re.match(r"\s*arch = (\w+)", line)
        arch = found.group(1) if found else arch
        found = re.match(r"\s*Function (\S+?):\s*(.*)", line)
        if found:
            name, rest = found.groups()
            resources[name] = rest
        elif re.match(r"\s*REG:", line):
            resources[name] = line.strip()
    arch, name, lines = "?", None, []
    for line in run(options.cuobjdump, "-sass", path).splitlines() + ["Fatbin"]:
        ends = re.match(r"\s*(?:Function : (\S+)|Fatbin.*|\.\.\.*\s*code for (\w+)|code for (\w+))", line)
        if ends:
            if name is not None:
                yield arch, name, resources.get(name, "") + "\n" + "\n".join(lines)
            name, lines = ends.group(1), []
            arch = ends.group(2) or ends.group(3) or arch
        elif name is not None:
            lines.append(re.sub(r"\s+", " ", line).strip())


def ptx(path):
    """The same of a PTX file, and what it declares beside functions."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    target = re.search(r"\.target\s+(\w+)", text)
    arch = "ptx of " + (target.group(1) if target else "?")
    text = re.sub(r"\.(version|target|address_size)[^\n]*", "", text)
    text = re.sub(r"(\$L__BB|\bBB)\d+_", r"\1_", text)  # The number of the function in its file.
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth or letter not in ";}":
            continue
        item = re.sub(r"\s+", " ", text[start : at + 1]).strip()
        start = at + 1
        name = re.search(r"\.(?:entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)", item)
        if name and letter == "}":
            yield arch, name.group(1), item
        elif item and item != ";":
            yield "declarations of " + arch, "declarations", item


def kernels(path, options, names):
    files = [path]
    if os.path.isdir(path):
        files = [os.path.join(where, name) for where, _, found in os.walk(path) for name in found if name.endswith((".ptx", ".o", ".so", ".cubin"))]
    code = collections.defaultdict(list)
    for file in sorted(files):
        for arch, name, text in ptx(file) if file.endswith(".ptx") else machine_code(file, options):
            code[arch, names.apply(name)].append(names.apply(text))
    if not code:
        sys.exit(f"{path} holds no code of kernels")
    return {key: sorted(set(texts) if key[1] == "declarations" else texts) for key, texts in code.items()}


def compare(before, after):
    """`before` and `after`: the kernels of each build of that side. Of each architecture, how many are equal, differ and are missing; and the line of each kernel."""
    counts, lines = collections.defaultdict(collections.Counter), []
    for key in sorted({key for build in before + after for key in build}):
        old, new = ([build[key] for build in builds if key in build] for builds in (before, after))
        what = "missing after" if not new else "missing before" if not old else "equal" if any(code in old for code in new) else "differ"
        counts[key[0]][what] += 1
        lines.append((what, f"{what:14} {key[0]}  {key[1]}"))
    return counts, lines


# Two kernels of attile::old, as mangled names and a body; what BEFORE and AFTER do to them; what must be found.
SELF_TEST_PTX = ".version 8.0\n.target sm_80\n.visible .entry _ZN6attile3old{}{}Ev(.param .u64 _ZN6attile3old{}{}Ev_param_0)\n{{\n$L__BB0_1:\n{}\nret;\n}}\n"
SELF_TEST = [
    ("the same", lambda text: text, {"equal": 2}),
    ("another namespace", lambda text: text.replace("attile3old", "attile3new"), {"equal": 2}),
    ("another place in the file", lambda text: text.replace("BB0_", "BB7_"), {"equal": 2}),
    ("another instruction", lambda text: text.replace("add.f32 %f1", "sub.f32 %f1"), {"equal": 1, "differ": 1}),
    ("another register", lambda text: text.replace("%f2", "%f3"), {"differ": 2}),
    ("another name", lambda text: text.replace("4scan", "4seek"), {"equal": 1, "missing after": 1, "missing before": 1}),
]


def self_test(options):
    failures = 0
    options.rename = ["attile::(old|new)::=attile::"]
    text = "".join(SELF_TEST_PTX.format(len(name), name, len(name), name, f"add.f32 %f{i}, %f2, %f2;") for i, name in enumerate(("sort", "scan")))
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("before.ptx", "after.ptx")]
        for what, change, expected in SELF_TEST:
            for path, content in zip(paths, (text, change(text))):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            names = Names(options.rename)
            counts, _ = compare(*([kernels(path, options, names)] for path in paths))
            if dict(counts["ptx of sm_80"]) != expected:
                print(f"self-test: {what}: {dict(counts['ptx of sm_80'])}, expected {expected}")
                failures += 1
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", nargs="?")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--rename", action="append", default=[], metavar="REGEX=TEXT")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--before", dest="more_before", action="append", default=[], metavar="MORE")
    parser.add_argument("--after", dest="more_after", action="append", default=[], metavar="MORE")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        sys.exit(1 if self_test(options) else 0)
    if options.after is None:
        parser.error("two things to compare, or --self-test")
    names = Names(options.rename)
    before, after = ([kernels(path, options, names) for path in paths]
                     for paths in ([options.before] + options.more_before, [options.after] + options.more_after))
    counts, lines = compare(before, after)
    for what, line in lines:
        if options.names or what != "equal":
            print(line)
    for arch, count in sorted(counts.items()):
        print(f"{arch}: {sum(count.values())}: " + ", ".join(f"{count[what]} {what}" for what in ("equal", "differ", "missing after", "missing before")))
    sys.exit(0 if all(count.keys() == {"equal"} for count in counts.values()) else 1)


if __name__ == "__main__":
    main()

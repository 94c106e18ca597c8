#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does clang-tidy find anything, by the checks in .clang-tidy? Prints what it finds, and fails then.

usage: check_tidy.py CLANG_TIDY BUILD SOURCE [--jobs N] FOLDER...

BUILD holds compile_commands.json. Every source in FOLDER (relative to SOURCE) that BUILD compiles is looked at, once.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

# The commands are GCC's: clang does not know all of its warnings.
OPTIONS = ["--quiet", "--extra-arg=-Wno-unknown-warning-option"]


def sources(build, source, folders):
    """What BUILD compiles of FOLDERS, largest first: the long ones are not to be waited for at the end."""
    roots = [source / folder for folder in folders]
    found = set()
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = pathlib.Path(command["directory"], command["file"]).resolve()
        if file.suffix in (".c", ".cpp") and any(root in file.parents for root in roots):
            found.add(file)
    for root in roots:
        if not any(root in file.parents for file in found):
            sys.exit(f"check_tidy.py: {build} compiles nothing of {root}")
    return sorted(found, key=lambda file: (-file.stat().st_size, file))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("clang_tidy")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    build, source = arguments.build.resolve(), arguments.source.resolve()

    def look(file):
        return file, subprocess.run([arguments.clang_tidy, "-p", build, *OPTIONS, file], text=True, capture_output=True, check=False)

    files = sources(build, source, arguments.folders)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for file, result in pool.map(look, files):
            # With WarningsAsErrors a finding is an error; whatever else ends it with one has its reason on the other stream.
            if result.returncode != 0:
                failed += 1
                print(f"== {file.relative_to(source)}\n{result.stdout}{result.stderr}")
    print(f"{len(files)} sources looked at, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

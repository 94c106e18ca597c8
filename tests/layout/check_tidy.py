#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does clang-tidy find anything, by the checks in .clang-tidy? Prints what it finds, and fails then.

usage: check_tidy.py CLANG_TIDY BUILD SOURCE [--jobs N] [--together] FOLDER...

BUILD holds compile_commands.json. Every source in FOLDER (relative to SOURCE) that BUILD compiles is looked at, once. --together has clang-tidy
read those that are compiled alike as one source, which includes them: most checks walk through the headers of the C++ library, once now
instead of once for each source. What is private to one source must have a name that no other has. The checks that look at the file given alone
are left out then: the analyzer is one of them, and takes twenty times as long as all others.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

# The commands are GCC's: clang does not know all of its warnings.
OPTIONS = ["--quiet", "--extra-arg=-Wno-unknown-warning-option"]
# Checks that look at the file given, and not at what it includes.
OF_ONE_FILE = ("clang-analyzer-*", "misc-unused-using-decls")


def compiled(build, source, folders):
    """What BUILD compiles of FOLDERS, with the command for each: largest first, as the long ones are not to be waited for at the end."""
    roots = [source / folder for folder in folders]
    found = {}
    for command in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = pathlib.Path(command["directory"], command["file"]).resolve()
        if file.suffix in (".c", ".cpp") and any(root in file.parents for root in roots):
            found[file] = command
    for root in roots:
        if not any(root in file.parents for file in found):
            sys.exit(f"check_tidy.py: {build} compiles nothing of {root}")
    return dict(sorted(found.items(), key=lambda item: (-item[0].stat().st_size, item[0])))


def put_together(files, folder):
    """In FOLDER, sources that include those which are compiled alike, and compile_commands.json for them."""
    groups = {}
    for file, command in files.items():
        words = shlex.split(command["command"])
        for left_out in ("-o", "-c"):
            at = words.index(left_out)
            del words[at:at + 2]
        groups.setdefault((file.suffix, command["directory"], *words), []).append(file)
    commands, sources = [], []
    for number, ((suffix, directory, *words), members) in enumerate(groups.items()):
        name = folder / f"together_{number}{suffix}"
        name.write_text("".join(f'#include "{file}"  // NOLINT(bugprone-suspicious-include)\n' for file in members), encoding="utf-8")
        commands.append({"directory": directory, "command": shlex.join([*words, "-c", str(name)]), "file": str(name)})
        sources.append(name)
    (folder / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
    return sources


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("clang_tidy")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--together", action="store_true")
    arguments = parser.parse_args()
    build, source = arguments.build.resolve(), arguments.source.resolve()
    options = [*OPTIONS, f"--config-file={source / '.clang-tidy'}"]

    def look(run):
        commands, file, checks = run
        words = [arguments.clang_tidy, "-p", commands, *options, *checks, file]
        return file, subprocess.run(words, text=True, capture_output=True, check=False)

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        files = compiled(build, source, arguments.folders)
        runs = [(build, file, []) for file in files]
        if arguments.together:
            # The compiler's own warnings are of each by itself: they are another's to see.
            others = ["--extra-arg=-w", f"--checks={','.join('-' + check for check in OF_ONE_FILE)}"]
            runs = [(folder, file, others) for file in put_together(files, pathlib.Path(folder))]
        failed = 0
        for file, result in pool.map(look, runs):
            # With WarningsAsErrors a finding is an error; whatever else ends it with one has its reason on the other stream.
            if result.returncode != 0:
                failed += 1
                print(f"== {file}\n{result.stdout}{result.stderr}")
    print(f"{len(files)} sources looked at in {len(runs)} runs, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

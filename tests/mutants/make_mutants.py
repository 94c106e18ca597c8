#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the sources of a backend, each fault of its listing in them, asleep; a fault is awake in a process whose environment names it.

usage: make_mutants.py BACKEND ROOT FOLDER SOURCE...     sources and FOLDER/SOURCE by their paths below ROOT; mutant.h and mutant.cpp besides
       make_mutants.py --check ROOT                      only whether every fault of every listing still finds its place
"""
import pathlib
import sys

from mutant_list import ListingError, backends, read_listing, with_faults

HEADER = '''// Made by make_mutants.py. Included before everything else in the copies of the sources.
#pragma once

namespace attile_mutants {
__attribute__((visibility("hidden"))) extern const int g_awake;  // the number of the fault that the environment names; 0: none
}

#define ATTILE_MUTANT(number) (::attile_mutants::g_awake == (number))
'''
SOURCE = '''// Made by make_mutants.py.
#include <cstdlib>
#include <cstring>

namespace attile_mutants {{
namespace {{

const char *const kNames[] = {{
{names}
}};

int awake() {{
    const char *const name = std::getenv("ATTILE_MUTANT");
    int number = 0;
    for (const char *each : kNames) {{
        ++number;
        if (name != nullptr && std::strcmp(name, each) == 0) return number;
    }}
    return 0;
}}

}}  // namespace

const int g_awake = awake();

}}  // namespace attile_mutants
'''


def write(path, text):
    if path.is_file() and path.read_text(encoding='utf-8') == text:
        return  # So that what depends on it is not compiled again.
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf-8')


def check(root):
    problems = []
    for backend in backends():
        faults = read_listing(backend)
        for path in sorted({fault.path for fault in faults}):
            try:
                with_faults((root / path).read_text(encoding='utf-8'), [fault for fault in faults if fault.path == path])
            except ListingError as error:
                problems.append(str(error))
        print(f'{backend}: {sum(fault.is_fault for fault in faults)} faults')
    if problems:
        raise ListingError('\n'.join(problems))


def main():
    if sys.argv[1] == '--check':
        return check(pathlib.Path(sys.argv[2]))
    backend, root, folder, sources = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:]
    faults = read_listing(backend)
    elsewhere = sorted({fault.path for fault in faults} - set(sources))
    if elsewhere:
        raise ListingError(f'the listing of {backend} names what is no source of the backend: {" ".join(elsewhere)}')
    for path in sources:
        text = (root / path).read_text(encoding='utf-8')
        write(folder / path, with_faults(text, [fault for fault in faults if fault.path == path]))
    names = ',\n'.join(f'    "{fault.name}"' for fault in faults if fault.is_fault)
    write(folder / 'mutant.cpp', SOURCE.format(names=names))
    write(folder / 'mutant.h', HEADER)
    return None


if __name__ == '__main__':
    try:
        main()
    except ListingError as error:
        sys.exit(f'tests/mutants: {error}')

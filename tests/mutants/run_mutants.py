#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds a copy of the sources with every fault of the *.mutants lists in it, each asleep, and wakes one after the other.

usage: run_mutants.py BUILD_FOLDER [--jobs N] [--only TEXT]

A fault is killed by the cases that `attile verify` and the conformance tests share, and by the conformance laws; each must kill it. Prints who
killed what. Fails on a fault that survives, on one whose line is no longer in the source, and if anything fails with no fault awake.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Mutant:
    def __init__(self, backend, name, path, old, new):
        self.backend, self.name, self.path, self.old, self.new = backend, name, path, old, new
        self.id = f'{backend}.{name}'
        self.operation = name.split('.')[0]


def read_mutants():
    mutants = []
    for listing in sorted(HERE.glob('*.mutants')):
        for block in re.split(r'^== ', listing.read_text(), flags=re.M)[1:]:
            head, body = block.split('\n', 1)
            name, path = head.split()
            old, new = body.split('\n->\n')
            mutants.append(Mutant(listing.stem, name, path, old, new.rstrip('\n')))
    return mutants


def copy_sources(target, mutants):
    """The tracked files, changed ones anew; those alike keep their times, so that little is compiled again."""
    texts = {}
    for mutant in mutants:
        texts.setdefault(mutant.path, []).append(mutant)
    for name in subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split('\0'):
        source, copy = ROOT / name, target / name
        if not name or not source.is_file():
            continue
        data = source.read_bytes()
        if name in texts:
            data = mutate(data.decode(), texts[name]).encode()
        if not copy.is_file() or copy.read_bytes() != data:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
            shutil.copymode(source, copy)


def mutate(text, mutants):
    """Puts faults of one place into each other: the first one's line is what the next one's stands beside."""
    lines = {}
    for mutant in mutants:
        if text.count(mutant.old) != 1:
            sys.exit(f'{mutant.id}: {text.count(mutant.old)} places of {mutant.path} read\n{mutant.old}')
        lines.setdefault(mutant.old, []).append(mutant)
    if len(lines) != len(mutants):
        raise AssertionError('faults of one place were to be numbered apart')
    for old, (mutant,) in lines.items():
        text = text.replace(old, mutant.new.replace('MUTANT', f'ATTILE_MUTANT("{mutant.id}")'))
    return f'#include "{HERE / "mutant.h"}"\n' + text


def layers(mutants):
    """Faults of one line cannot be in one copy of the sources: copies, each with some of them."""
    copies = []
    for mutant in mutants:
        for copy in copies:
            if not any(m.path == mutant.path and (m.old in mutant.old or mutant.old in m.old) for m in copy):
                copy.append(mutant)
                break
        else:
            copies.append([mutant])
    return copies


def build(source, folder, jobs):
    options = ['-DATTILE_BACKEND_CPU=OFF', '-DATTILE_BUILD_BENCH=OFF', '-DATTILE_BUILD_EXAMPLES=OFF', '-DATTILE_BUILD_FORTRAN=OFF',
               '-DATTILE_BUILD_TOOLS=OFF', '-DCMAKE_BUILD_TYPE=Release', '--log-level=WARNING']
    subprocess.run(['cmake', '-G', 'Ninja', '-S', source, '-B', folder, *options], check=True)
    subprocess.run(['cmake', '--build', folder, '-j', str(jobs), '--target', 'attile_conformance', 'attile_conformance_laws', '--', '--quiet'],
                   check=True)


# The laws of each operation, by what their names hold.
LAWS = {'gemm': '*Product*:*Depth*:*Blocks*:*Operands*:*UnitMatrix*:*Epilogue*:*Blas*', 'attention_merge': '*Part*:*Merging*:*SplitKeys*',
        'attention_backward': '*Gradient*', 'reduce': '*Reduction*:*Smallest*:*Mean*:*Sum*:*SoftmaxAdds*', 'softmax': '*oftmax*'}


def killers(folder, mutant):
    environment = dict(os.environ, ATTILE_TEST_BACKEND='reference', ATTILE_LAW_SEEDS='1-6', ATTILE_LAW_WORK='40000')
    if mutant is not None:
        environment['ATTILE_MUTANT'] = mutant.id
    operation = mutant.operation if mutant else '*'
    commands = {'verify': ['attile_conformance', f'--gtest_filter=reference_host.{operation}.*'],
                'laws': ['attile_conformance_laws', '--gtest_filter=' + LAWS.get(operation, '*')]}
    found = {}
    for name, (program, chosen) in commands.items():
        run = subprocess.run([folder / 'bin' / program, '--gtest_brief=1', '--gtest_fail_fast', chosen], env=environment, capture_output=True,
                             text=True, errors='replace', timeout=600)
        if run.returncode != 0:
            failed = re.search(r'\[  FAILED  \] (\S+)', run.stdout)
            found[name] = failed.group(1).split('.', 1)[1] if failed else f'status {run.returncode}'
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--only', default='')
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    mutants = read_mutants()
    survivors = []
    rows = 0
    for number, copy in enumerate(layers(mutants)):
        chosen = [m for m in copy if arguments.only in m.id]
        if not chosen:
            continue
        source, made = folder / str(number) / 'source', folder / str(number) / 'build'
        copy_sources(source, copy)
        build(source, made, arguments.jobs)
        if number == 0 and not arguments.only:
            asleep = killers(made, None)
            if asleep:
                sys.exit(f'with no fault awake these fail: {asleep}')
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for mutant, found in zip(chosen, pool.map(lambda m: killers(made, m), chosen)):
                rows += 1
                print(f'{mutant.id:60} verify: {found.get("verify", "-"):60} laws: {found.get("laws", "-")}', flush=True)
                if 'verify' not in found:
                    survivors.append(mutant.id)
    print(f'{rows} faults, {rows - len(survivors)} killed, {len(survivors)} survive: {" ".join(survivors)}')
    return 1 if survivors else 0


if __name__ == '__main__':
    sys.exit(main())

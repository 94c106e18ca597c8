#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wakes the faults of the mutant backends one after the other: each must be found by `attile verify` and by the conformance tests.

usage: run_mutants.py BUILD [--backend NAME]... [--only TEXT] [--no-laws] [--jobs N]

For each fault `attile verify` runs the cases of the fault's operation up to the first that fails; attile_conformance, which ctest runs, must
fail on that case too. What has no cases has properties instead (attile_conformance_properties). The laws (attile_conformance_laws), which know no right answers, are a second opinion: which of them finds the fault is
shown, and none has to; --no-laws leaves them out. At last every case and law that found a fault is run on the same backend with none awake, and must pass.
Prints who killed what, and the sums. Fails if a fault survives, or if a test fails with none awake.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

from mutant_list import ListingError, backends, read_listing

# What a backend runs on, and what its cases are. Device memory is where the emulated kernels read without a copy.
PLACES = {'reference': 'host', 'cpu': 'host', 'simt': 'device'}
LAW_SEEDS = {'reference': '1-4', 'cpu': '1-6', 'simt': '1-3'}
LAW_WORK = {'reference': '30000', 'cpu': '100000', 'simt': '20000'}
# The laws of an operation, by their names.
LAWS = {'gemm': '*Product*:*Depth*:*Blocks*:*Operands*:*UnitMatrix*:*Epilogue*:*Blas*', 'attention_merge': '*Part*:*Merging*:*SplitKeys*',
        'attention_merge_backward': '*MergingGradients*',
        'attention_backward': '*Gradient*', 'reduce': '*Reduction*:*Smallest*:*Mean*:*Sum*:*SoftmaxAdds*', 'softmax': '*oftmax*'}
PROPERTIES = {'quantize': 'Quantise.*:Append.*', 'repack': 'Repack.*', 'four_bits': 'FourBits.*'}  # of what the list of cases does not hold
OTHERS = ':'.join(filter for operation, filter in LAWS.items() if operation != 'attention_merge')
LAWS['attention'] = f'*-{OTHERS}'
# What makes a backend run its own kernels: of products the emulated GPU takes the reference's loops otherwise.
VARIABLES = {'simt': {'ATTILE_EMULATED_GEMM': '1'}}
SECONDS = 900  # A run that takes longer has hung, which is no way to be found.


class Runner:
    def __init__(self, build, backend):
        self.bin, self.plugins, self.backend = build / 'bin', build / 'tests' / 'mutants', backend
        self.name = f'mutant_{backend}'

    def run(self, program, words, fault, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith('ATTILE_')}
        environment |= {'ATTILE_BACKEND_PATH': str(self.plugins), 'ATTILE_TEST_BACKEND': self.name, **VARIABLES.get(self.backend, {}), **variables}
        if fault is not None:
            environment['ATTILE_MUTANT'] = fault.name
        return subprocess.run([self.bin / program, *words], env=environment, capture_output=True, text=True, errors='replace', check=False,
                              timeout=SECONDS)

    def verify(self, fault, words):
        """The case that fails, or None. Raises where nothing was compared."""
        done = self.run('attile', ['verify', '--backend', self.name, '--threads', '2', '--memory', PLACES[self.backend], *words], fault)
        if done.returncode == 0:
            return None
        failed = re.search(r'^case +(\S+)\n(?:.*\n)*?result +FAILED', done.stdout, re.M)
        if not failed:
            raise RuntimeError(f'{fault.name if fault else self.name}: attile verify ended with {done.returncode} and names no case: {done.stderr}')
        return failed.group(1)

    def conformance(self, fault, case):
        done = self.run('attile_conformance', ['--gtest_brief=1', f'--gtest_filter={self.name}_{PLACES[self.backend]}.{case}'], fault)
        return done.returncode != 0 and '[  FAILED  ]' in done.stdout

    def properties(self, fault, chosen):
        """The property that fails, or None."""
        done = self.run('attile_conformance_properties', ['--gtest_brief=1', '--gtest_fail_fast', f'--gtest_filter={chosen}'], fault)
        if done.returncode == 0:
            return None
        failed = re.search(r'\[  FAILED  \] (\w+\.\w+)', done.stdout)
        if not failed:
            raise RuntimeError(f'{fault.name if fault else self.name}: the properties ended with {done.returncode} and name none: {done.stderr}')
        return failed.group(1)

    def laws(self, fault, chosen):
        """The law that fails, or None."""
        done = self.run('attile_conformance_laws', ['--gtest_brief=1', '--gtest_fail_fast', f'--gtest_filter={chosen}'], fault,
                        ATTILE_LAW_SEEDS=LAW_SEEDS[self.backend], ATTILE_LAW_WORK=LAW_WORK[self.backend])
        if done.returncode == 0:
            return None
        failed = re.search(r'\[  FAILED  \] Laws\.(\w+)', done.stdout)
        if not failed:
            raise RuntimeError(f'{fault.name if fault else self.name}: the laws ended with {done.returncode} and name none: {done.stderr}')
        return failed.group(1)


def asleep(runner, cases, laws):
    """What fails with no fault awake, of the cases and laws that found faults."""
    properties = {case for case in cases if case[0].isupper()}
    cases = cases - properties
    case = runner.verify(None, ['--filter', '^(' + '|'.join(sorted(cases)) + ')$', '--fail-fast']) if cases else None
    case = case or (runner.properties(None, ':'.join(sorted(properties))) if properties else None)
    law = runner.laws(None, ':'.join(f'Laws.{name}' for name in sorted(laws))) if laws else None
    return [f'{runner.name} with no fault awake: {each} fails' for each in (case, law) if each]


def awake(runner, fault, with_laws):
    start = time.monotonic()
    if fault.operation in PROPERTIES:
        name = runner.properties(fault, PROPERTIES[fault.operation])
        print(f'{runner.backend + "/" + fault.name:72} {name or "SURVIVES":60} {"ctest too":10} {"-":40} {time.monotonic() - start:6.1f} s', flush=True)
        return name, name is not None, None
    case = None
    for chosen in (fault.cases, '') if fault.cases else ('',):
        case = case or runner.verify(fault, ['--filter', f'^{fault.operation}[.].*{chosen}', '--fail-fast'])
    conforms = case is None or not runner.conformance(fault, case)
    law = runner.laws(fault, LAWS[fault.operation]) if with_laws and fault.operation in LAWS else None  # None speaks of gemm_grouped.
    print(f'{runner.backend + "/" + fault.name:72} {case or "SURVIVES":60} {"ctest too" if not conforms else "NOT CTEST":10} '
          f'{law or "-":40} {time.monotonic() - start:6.1f} s', flush=True)
    return case, not conforms, law


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ', 1)[1].split('\n', 1)[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--backend', action='append', choices=sorted(PLACES))
    parser.add_argument('--only', default='', help='a regular expression of names')
    parser.add_argument('--laws', action=argparse.BooleanOptionalAction, default=True, help='show which of the laws find it, too')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    runners = [Runner(build, backend) for backend in arguments.backend or backends()]
    faults = [(runner, fault) for runner in runners for fault in read_listing(runner.backend)
              if fault.is_fault and re.search(arguments.only, fault.name)]
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        killers = list(pool.map(lambda pair: awake(*pair, arguments.laws), faults))
        found = [[killer for (owner, _), killer in zip(faults, killers) if owner is runner] for runner in runners]
        clean = pool.map(lambda runner, own: asleep(runner, {case for case, _, _ in own if case}, {law for _, _, law in own if law}), runners, found)
        problems = [problem for each in clean for problem in each]
    for runner, own in zip(runners, found):
        verify, ctest, laws = (sum(bool(killer[kind]) for killer in own) for kind in range(3))
        asked = f'the laws {laws}' if arguments.laws else 'the laws not asked: `tools/test mutants` does'
        print(f'{runner.name:18} {len(own):3} faults: attile verify kills {verify}, attile_conformance {ctest}, {asked}')
    survivors = [f'{owner.backend}/{fault.name}' for (owner, fault), (case, ctest, _) in zip(faults, killers) if not case or not ctest]
    print(f'{len(faults)} faults, {len(faults) - len(survivors)} killed by both, {time.monotonic() - start:.0f} s')
    problems += [f'{name} survives' for name in survivors]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except (ListingError, RuntimeError, subprocess.TimeoutExpired) as error:
        sys.exit(f'tests/mutants: {error}')

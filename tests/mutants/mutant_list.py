# SPDX-License-Identifier: Apache-2.0
"""Listings of faults, <backend>.mutants and <backend>_<more>.mutants: read, and put into the text of a source.

An entry is

    == operation.what_is_wrong path/of/the/source [cases]
    some lines as they stand there, exactly once
    ->
    the same lines with the fault

MUTANT is true there while the fault is awake. What both texts begin and end with only says where the fault is: faults may share lines, as long
as what they change lies apart. "== always path" is a change that the backend has without any fault, its name above all. Cases, a regular
expression of ids, are those to begin with, which saves time where the first that finds the fault is far down the list; it says nothing of who
must find it.
"""
import pathlib
import re
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
HEAD = re.compile(r'== (\S+) (\S+)(?: (\S+))?$')


class ListingError(Exception):
    pass


@dataclass(frozen=True)
class Fault:
    name: str  # 'always' for what is no fault
    path: str  # of the source, from the top of the tree
    old: str
    new: str
    cases: str  # to begin with; empty: all in their order
    number: int  # of its backend, from 1 on; 0 for what is no fault
    where: str  # file and line of the listing

    @property
    def operation(self):
        return self.name.split('.')[0]

    @property
    def is_fault(self):
        return self.name != 'always'


def backends():
    return sorted({path.stem.split('_')[0] for path in HERE.glob('*.mutants')})


def read_listing(backend):
    """The faults of a backend, of all its listings."""
    found = []
    for listing in sorted(HERE.glob(f'{backend}*.mutants')):
        found += read_entries(listing, sum(fault.is_fault for fault in found))
    names = [fault.name for fault in found if fault.is_fault]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ListingError(f'{backend}: listed twice: {" ".join(twice)}')
    return found


def read_entries(listing, number):
    """The faults of one file, numbered from `number` + 1 on."""
    found = []
    lines = listing.read_text(encoding='utf-8').split('\n')
    heads = [at for at, line in enumerate(lines) if line.startswith('==')]
    for at, end in zip(heads, heads[1:] + [len(lines)]):
        where = f'{listing.name}:{at + 1}'
        head, body = HEAD.match(lines[at]), [line for line in lines[at + 1:end] if not line.startswith('#')]
        if not head or body.count('->') != 1:
            raise ListingError(f'{where}: expected "== name path", some lines, "->" and some lines')
        middle = body.index('->')
        old, new = '\n'.join(body[:middle]).strip('\n'), '\n'.join(body[middle + 1:]).strip('\n')
        name, path, cases = head.groups()
        is_fault = name != 'always'
        if old == new or ('MUTANT' in new) != is_fault:
            raise ListingError(f'{where}: {name} changes nothing, or does not say MUTANT')
        number += is_fault
        found.append(Fault(name, path, old, new, cases or '', number if is_fault else 0, where))
    return found


def change_of(fault, text):
    """Begin and end of what the fault replaces in the text, and what by."""
    count = text.count(fault.old)
    if count != 1:
        raise ListingError(f'{fault.where}: {fault.name}: {fault.path} has its text {count} times, expected once. Give the listing the text that '
                           f'now stands there, or another fault of this kind. It reads\n{fault.old}')
    old, new, begin = fault.old, fault.new, text.index(fault.old)
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    tail = 0
    while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    # Whole words, so that faults in neighbouring ones lie apart.
    while same > 0 and re.match(r'\w', old[same - 1]):
        same -= 1
    while tail > 0 and re.match(r'\w', old[len(old) - tail]):
        tail -= 1
    to = new[same:len(new) - tail].replace('MUTANT', f'ATTILE_MUTANT({fault.number})')
    if fault.is_fault and to == new[same:len(new) - tail]:
        raise ListingError(f'{fault.where}: {fault.name}: MUTANT stands where nothing is changed')
    return begin + same, begin + len(old) - tail, to


def with_faults(text, faults):
    changes, problems = [], []
    for fault in faults:
        try:
            changes.append((change_of(fault, text), fault.where))
        except ListingError as error:
            problems.append(str(error))
    changes.sort()
    for ((before, end, _), first), ((begin, _, _), second) in zip(changes, changes[1:]):
        if begin < end or begin == before:
            problems.append(f'{first} and {second} change the same place: write them so that what they change lies apart')
    if problems:
        raise ListingError('\n'.join(problems))
    for (begin, end, to), _ in reversed(changes):
        text = text[:begin] + to + text[end:]
    return text

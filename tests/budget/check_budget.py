#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what the compiler made of every kernel of a shared object and holds it to the budget that Pascal sets. Needs no GPU.

usage: check_budget.py --library FILE --arch sm_61 --table FILE [--cuobjdump PROGRAM] [--update]

Every kernel: shared memory of at most 48 KB a block; a line in the committed table, whose registers it does not exceed. Every kernel that does not compute
in double: no stack and no local memory, so no spills. Blocks a multiprocessor are computed for the architecture and printed; the table holds them, and a
kernel that loses one fails. --update writes the table anew, for a change that is meant.

nvcc orders code by addresses of its own, so registers differ by some from run to run unless those are kept fixed (tools/test does). Where they
could not be, ATTILE_ADDRESSES_VARY=1 in the environment holds registers to the blocks that the table's number of them lets a multiprocessor have.
"""
import argparse
import csv
import os
import re
import subprocess
import sys

SHARED_LIMIT = 49152
# A multiprocessor: registers, bytes of shared memory, threads, blocks. Registers are given out to warps in units of 256, shared memory in units of 256 bytes.
UNITS = {"sm_60": (65536, 65536, 2048, 32), "sm_61": (65536, 98304, 2048, 32), "sm_70": (65536, 98304, 2048, 32), "sm_90": (65536, 233472, 2048, 32)}
COLUMNS = ["kernel", "threads", "registers", "shared_static", "stack", "blocks_per_sm"]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sections(text, arch):
    """The parts of cuobjdump's output that belong to machine code of one architecture."""
    for part in re.split(r"\nFatbin elf code:\n=+\n", text)[1:]:
        if re.match(rf"arch = {arch}\n", part):
            yield part.split("\nFatbin ptx code:")[0]


def demangle(names):
    """Template arguments keep kernels of one name apart; the parameters of the function do not matter."""
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return dict(zip(names, text.splitlines()))


def short(name):
    """`void a::b::kernel<(int)64, float>(params)` as `kernel<64, float>`."""
    name = re.sub(r"\((?:int|unsigned int|bool|long|short)\)", "", name)
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    depth, end = 0, len(name)
    for at, letter in enumerate(name):  # the parameter list starts at the first bracket outside template arguments
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            end = at
            break
    name = re.sub(r"^void ", "", name[:end])
    return re.sub(r"\b(?:attile|gpu|simt)::", "", name)


def measure(options):
    usage = run(options.cuobjdump, "--dump-resource-usage", options.library)
    found = {}
    for part in sections(usage, options.arch):
        for name, values in re.findall(r"Function (\S+?):\s+(REG:.*)", part):
            numbers = dict(re.findall(r"(\w+(?:\[\d\])?):(\d+)", values))
            found[name] = {"registers": int(numbers["REG"]), "shared_static": int(numbers["SHARED"]), "stack": int(numbers["STACK"]) + int(numbers["LOCAL"])}
    threads = {}
    for part in sections(run(options.cuobjdump, "-elf", options.library), options.arch):
        for block in re.split(r"\n(?=\.nv\.info)", part):
            name = re.match(r"\.nv\.info\.(\S+)", block)
            value = re.search(r"EIATTR_(?:MAX_THREADS|REQNTID)\s.*?Value:\s*(0x[0-9a-f]+) (0x[0-9a-f]+) (0x[0-9a-f]+)", block, re.S)
            if name and value:
                threads[name.group(1)] = int(value.group(1), 16) * int(value.group(2), 16) * int(value.group(3), 16)
    names = demangle(list(found))
    rows = {}
    for mangled, row in found.items():
        row.update(kernel=short(names[mangled]), threads=threads.get(mangled, 0))
        row["blocks_per_sm"] = blocks(row, UNITS[options.arch])
        if row["kernel"] in rows:
            sys.exit(f"two kernels show as {row['kernel']}")
        rows[row["kernel"]] = row
    return rows


def blocks(row, unit):
    """Blocks resident on a multiprocessor; 0 where the kernel states no block size. Dynamic shared memory is the plan's, not known here."""
    if not row["threads"]:
        return 0
    registers, shared, threads, most = unit
    warps = -(-row["threads"] // 32)
    per_warp = -(-row["registers"] * 32 // 256) * 256
    limits = [most, threads // (warps * 32), registers // per_warp // warps]
    if row["shared_static"]:
        limits.append(shared // (-(-row["shared_static"] // 256) * 256))
    return min(limits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--arch", default="sm_61", choices=sorted(UNITS))
    parser.add_argument("--table", required=True)
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()

    rows = measure(options)
    if not rows:
        sys.exit(f"{options.library} holds no kernel for {options.arch}")
    if options.update:
        with open(options.table, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[name] for name in sorted(rows))
        print(f"{len(rows)} kernels written")
    with open(options.table, newline="", encoding="utf-8") as file:
        table = {row["kernel"]: row for row in csv.DictReader(file)}

    addresses_vary = os.environ.get("ATTILE_ADDRESSES_VARY") == "1"
    by_registers = lambda row, registers: blocks(dict(row, registers=registers, shared_static=0), UNITS[options.arch])
    faults = []
    print(f"{'threads':>7} {'regs':>4} {'shared':>6} {'stack':>5} {'blocks':>6}  kernel")
    for name in sorted(rows):
        row = rows[name]
        print(f"{row['threads']:7} {row['registers']:4} {row['shared_static']:6} {row['stack']:5} {row['blocks_per_sm']:6}  {name}")
        if row["shared_static"] > SHARED_LIMIT:
            faults.append(f"{name}: {row['shared_static']} bytes of shared memory; at most {SHARED_LIMIT} are there")
        if row["stack"] and "double" not in name:
            faults.append(f"{name}: {row['stack']} bytes of stack or local memory; registers must hold everything")
        budget = table.get(name)
        if budget is None:
            faults.append(f"{name}: no line in {options.table}; enter it with --update")
            continue
        more = row["registers"] > int(budget["registers"])
        if more and addresses_vary:
            more = by_registers(row, row["registers"]) < by_registers(row, int(budget["registers"]))
        if more:
            faults.append(f"{name}: {row['registers']} registers; the table allows {budget['registers']}")
        if row["blocks_per_sm"] < int(budget["blocks_per_sm"]):
            faults.append(f"{name}: {row['blocks_per_sm']} blocks a multiprocessor; the table has {budget['blocks_per_sm']}")
    faults += [f"{name}: in {options.table} but not in the library" for name in sorted(set(table) - set(rows))]
    print(f"{len(rows)} kernels, {len(faults)} faults")
    for fault in faults:
        print("FAULT", fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

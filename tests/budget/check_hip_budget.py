#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what the compiler made of every kernel for every AMD GPU in a shared object and holds it to the budget. Needs no GPU.

usage: check_hip_budget.py --library FILE --readelf PROGRAM [--expect gfx900 ...] [--resources FILE.csv]

The code objects lie in the section .hip_fatbin as bundles of clang; each is an ELF file whose note holds the kernels' resources. For every kernel of every
architecture: local data share of at most 64 KB a block, and no more vector registers than a lane can have with a block's waves resident. For kernels that
do not compute in double: no scratch memory, so no spills.
"""
import argparse
import csv
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

SHARED_LIMIT = 65536
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
ELF = b"\x7fELF"


def sections(data):
    """Name, type, address, offset, length and link of every section of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQI", data, table + size * index) for index in range(count)]
    for name, kind, _, address, offset, length, link in headers:
        start = headers[names][4] + name
        yield data[start : data.index(b"\0", start)], kind, address, offset, length, link


def fatbin(library):
    """The bytes of the section .hip_fatbin."""
    data = pathlib.Path(library).read_bytes()
    if data[:6] != ELF + b"\x02\x01":
        sys.exit(f"{library} is not a 64-bit little-endian ELF file")
    for name, _, _, offset, length, _ in sections(data):
        if name == b".hip_fatbin":
            return data[offset : offset + length]
    sys.exit(f"{library} has no section .hip_fatbin: it holds no code for AMD GPUs")


def takes_pairs(image):
    """Of every kernel descriptor of a code object for gfx10 and later: are blocks spread over a pair of compute units (WGP mode)?"""
    found = {}
    parts = list(sections(image))
    for _, kind, _, offset, length, link in parts:
        if kind != 11:  # SHT_DYNSYM
            continue
        for at in range(offset, offset + length, 24):
            name, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", image, at)
            start = parts[link][3] + name
            symbol = image[start : image.index(b"\0", start)].decode()
            if symbol.endswith(".kd"):
                _, _, address, place, _, _ = parts[index]
                (rsrc1,) = struct.unpack_from("<I", image, place + value - address + 48)
                found[symbol] = bool(rsrc1 >> 29 & 1)
    return found


def code_objects(section):
    """Pairs of architecture and ELF file in every bundle of the section."""
    for found in re.finditer(re.escape(BUNDLE), section):
        base = found.start()
        (count,) = struct.unpack_from("<Q", section, base + len(BUNDLE))
        at = base + len(BUNDLE) + 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", section, at)
            target = section[at + 24 : at + 24 + length].decode()
            at += 24 + length
            if target.startswith("hip") and size:
                yield target.rsplit("-", 1)[-1], section[base + offset : base + offset + size]


def kernels(readelf, image):
    """The resources of every kernel, from the note of a code object."""
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(image)
        file.flush()
        text = subprocess.run([readelf, "--notes", file.name], check=True, capture_output=True, text=True).stdout
    for part in re.split(r"\n  - ", text)[1:]:
        values = dict(re.findall(r"^\s*\.(\w+):\s+'?([^'\n]+)'?$", part, re.M))
        if "vgpr_count" in values:
            yield values


def demangle(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True).stdout
    return dict(zip(names, text.replace("(anonymous namespace)::", "").splitlines()))


def registers_a_lane(arch, threads, wave, pairs):
    """Vector registers a lane can have so that a whole block is resident: on one compute unit, or on a pair of RDNA's where blocks are spread over one."""
    total = {"gfx90a": 512}.get(arch, 1024 if arch.startswith("gfx1") and wave == 32 else 512 if arch.startswith("gfx1") else 256)
    simds = 2 if arch.startswith("gfx1") and not pairs else 4
    waves = -(-(-(-threads // wave)) // simds)
    return min(512 if arch == "gfx90a" else 256, total // waves)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--readelf", required=True)
    parser.add_argument("--expect", nargs="*", default=[])
    parser.add_argument("--resources", help="where to write a table of all kernels")
    options = parser.parse_args()

    rows = []
    for arch, image in code_objects(fatbin(options.library)):
        pairs = takes_pairs(image) if arch.startswith("gfx1") else {}
        rows += [dict(values, arch=arch, pairs=pairs.get(values["symbol"], False)) for values in kernels(options.readelf, image)]
    if not rows:
        sys.exit(f"{options.library} holds no kernel")
    names = demangle([row["name"] for row in rows])
    faults = []
    for missing in sorted(set(options.expect) - {row["arch"] for row in rows}):
        faults.append(f"no kernel for {missing}")
    for row in rows:
        where = f"{row['arch']} {names[row['name']].split('(')[0]}"
        registers, threads, wave = int(row["vgpr_count"]), int(row["max_flat_workgroup_size"]), int(row["wavefront_size"])
        shared, scratch = int(row["group_segment_fixed_size"]), int(row["private_segment_fixed_size"])
        most = registers_a_lane(row["arch"], threads, wave, row["pairs"])
        if shared > SHARED_LIMIT:
            faults.append(f"{where}: {shared} bytes of local data share; at most {SHARED_LIMIT} are there")
        if registers > most:
            faults.append(f"{where}: {registers} vector registers; a block of {threads} threads leaves {most}")
        if scratch and "double" not in names[row["name"]]:
            faults.append(f"{where}: {scratch} bytes of scratch memory; registers must hold everything")
    if options.resources:
        with open(options.resources, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["arch", "kernel", "threads", "wave", "vgpr", "sgpr", "lds", "scratch"])
            for row in sorted(rows, key=lambda row: (row["arch"], names[row["name"]])):
                fields = ["max_flat_workgroup_size", "wavefront_size", "vgpr_count", "sgpr_count", "group_segment_fixed_size", "private_segment_fixed_size"]
                writer.writerow([row["arch"], names[row["name"]].split("(")[0]] + [row[field] for field in fields])
    for arch in sorted({row["arch"] for row in rows}):
        here = [row for row in rows if row["arch"] == arch]
        print(f"{arch}: {len(here)} kernels, at most {max(int(row['vgpr_count']) for row in here)} vector registers, "
              f"{max(int(row['group_segment_fixed_size']) for row in here)} bytes of local data share, "
              f"{sum(int(row['private_segment_fixed_size']) > 0 for row in here)} with scratch memory")
    print(f"{len(rows)} kernels, {len(faults)} faults")
    for fault in faults:
        print("FAULT", fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

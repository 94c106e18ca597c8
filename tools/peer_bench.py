# SPDX-License-Identifier: Apache-2.0
"""Sides of a comparison that alternate on one GPU: their times, their errors, and the rows that tools/compare_peers.py prints and keeps."""
import importlib.util
import os
import pathlib
import statistics
import sys
import time

import torch

import attile

DEVICE = "cuda"


def other_build(library, package=None):
    """The attile package once more, on another libattile: both builds in one process. package: the folder of the package that belongs to
    the library; none: this one's."""
    folder = pathlib.Path(package or attile.__path__[0]).resolve()
    spec = importlib.util.spec_from_file_location("attile_beside", folder / "__init__.py", submodule_search_locations=[str(folder)])
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    # The compiled extension is one a process, and bound to the first library.
    changed = {"ATTILE_LIBRARY": str(pathlib.Path(library).resolve()), "ATTILE_PYTHON_PURE": "1"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        spec.loader.exec_module(module)
        module.version()  # Loads the library.
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    return module


def in_order(calls, number):
    """The calls in another order each round: who follows a side that draws much power finds the card slower."""
    order = list(calls.items())
    if number % 2:
        order.reverse()
    start = number // 2 % len(order)
    return order[start:] + order[:start]


class Bench:
    def __init__(self, rounds, burst, backend, beside=None, build=attile):
        self.rounds, self.burst, self.rows, self.beside = rounds, burst, [], beside
        self.context = attile.Context(backend)
        self.other = build.Context(beside) if beside else None
        self.evict = torch.empty(64 << 20, dtype=torch.float32, device=DEVICE)  # 256 MiB: more than any L2

    def times(self, calls):
        """Milliseconds of each call, the calls alternating; the L2 cache is overwritten before each round."""
        for call in calls.values():
            call()
        torch.cuda.synchronize()
        found = {name: [] for name in calls}
        for number in range(self.rounds):
            for name, call in in_order(calls, number):
                self.evict.zero_()
                torch.cuda._sleep(500_000 * self.burst)  # the device waits, so that the host has queued everything before the clock starts
                start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
                start.record()
                for _ in range(self.burst):
                    call()
                stop.record()
                stop.synchronize()
                found[name].append(start.elapsed_time(stop) / self.burst)
        return found

    def wall_times(self, calls):
        """As times(), by the host's clock: calls that return when their work is done."""
        for call in calls.values():
            call()
        found = {name: [] for name in calls}
        for number in range(self.rounds):
            for name, call in in_order(calls, number):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(self.burst):
                    call()
                torch.cuda.synchronize()
                found[name].append(1e3 * (time.perf_counter() - start) / self.burst)
        return found

    def by_other(self, call):
        """`call` by the backend of --beside: calls find their context in self.context."""
        own, self.context = self.context, self.other
        try:
            call()
        finally:
            self.context = own

    def case(self, group, name, calls, work, unit, errors=None, kernel="", on_host=False):
        """`calls` maps "attile" and peers' names to functions; `work` is FLOP or bytes, `unit` TFLOP/s or GB/s; `on_host`: by the host's clock."""
        if self.other and "attile" in calls:
            own = calls["attile"]
            calls = {"attile": own, self.beside: lambda: self.by_other(own)}
        possible = {}
        for who, call in calls.items():
            try:
                call()
                torch.cuda.synchronize()
                possible[who] = call
            except Exception as refusal:  # a side that refuses a case is a fact about that side
                self.rows.append(dict(group=group, case=name, who=who, refused=str(refusal).splitlines()[0][:160]))
                print(f"{group:10s} {name:44s} {who:8s} refused: {str(refusal).splitlines()[0][:90]}", flush=True)
        found = self.wall_times(possible) if on_host else self.times(possible)
        scale, medians = 1e9 if unit == "TFLOP/s" else 1e6, {who: statistics.median(values) for who, values in found.items()}
        for who, values in found.items():
            row = dict(group=group, case=name, who=who, ms=medians[who], ms_min=min(values), ms_max=max(values), rate=work / medians[who] / scale, unit=unit)
            if who == "attile":
                row["kernel"] = kernel
            if errors and who in errors:
                row["error"] = errors[who]()
            others = [m for other, m in medians.items() if other != "attile"]
            if who == "attile" and others:
                row["ratio"] = min(others) / medians[who]
            self.rows.append(row)
            print(f"{group:10s} {name:44s} {who:8s} {row['ms']:9.4f} ms {row['rate']:9.1f} {unit:8s}" + (f" error {row['error']:.1e}" if "error" in row else "")
                  + (f"  {row['ratio']:.2f}x" if "ratio" in row else "") + (f"  {kernel}" if who == "attile" else ""), flush=True)

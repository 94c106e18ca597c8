#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Host time of a call from Python beside the same call from C, and beside PyTorch's and NumPy's own, all in one process.

usage: python_calls.py --repeat FILE [--json FILE] [--device cpu|cuda] [--rounds N] [--calls N]

FILE is librepeat_call.so of the build. Each round takes every way of a call in turn; printed are medians of the rounds, in microseconds, and what each way takes
beyond the call from C with the same memory. On a GPU a round is a few calls on an idle stream, so that none waits for the device.
"""
import argparse
import ctypes
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import numpy as np

import attile
from attile import _structs as s
from attile._arrays import view
from attile._library import library

MODEL = "model name"


def pure_package():
    """The package without its extension, beside the one that has it."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "attile"}
    os.environ["ATTILE_PYTHON_PURE"] = "1"
    try:
        import attile as pure
        return pure
    finally:
        del os.environ["ATTILE_PYTHON_PURE"]
        sys.modules.update(kept)


def filled(kind, **fields):
    args = kind()
    for name, value in fields.items():
        setattr(args, name, view(value).tensor if hasattr(value, "shape") else value)
    return args


def cases(make, empty, empty_lse):
    """Name, operation, arrays, options, results by their names in Python, and the struct of the same call."""
    def case(name, operation, arrays, options, out, output, **fields):
        return name, operation, arrays, options, {"out": out}, filled(s.OPERATIONS[operation], **{output: out}, **fields)

    x, y, q, k, v = make(64, 64), make(64, 64), make(1, 8, 16, 64), make(1, 8, 32, 64), make(1, 8, 32, 64)
    a, b, row, keys, values = x[:4, :4], y[:4, :4], q[:, :1, :1, :8], k[:, :1, :4, :8], v[:, :1, :4, :8]
    yield case("gemm 64x64x64", "gemm", (x, y), {}, empty(64, 64), "d", a=x, b=y, alpha=1.0)
    yield case("gemm 4x4x4", "gemm", (a, b), {}, empty(4, 4), "d", a=a, b=b, alpha=1.0)
    yield case("attention H=8 16x32x64", "attention", (q, k, v), {}, empty(1, 8, 16, 64), "o", q=q, k=k, v=v)
    yield case("attention H=1 1x4x8", "attention", (row, keys, values), {"mask": "causal_bottom_right", "scale": 0.5}, empty(1, 1, 1, 8), "o", q=row, k=keys, v=values, mask=2, scale=0.5)
    lse, results = empty_lse(1, 1, 1), {name: empty(*like.shape) for name, like in (("dq", row), ("dk", keys), ("dv", values))}
    lse[...] = 1.0
    forward = filled(s.AttentionArgs, q=row, k=keys, v=values, o=row, lse=lse)
    backward = filled(s.AttentionBackwardArgs, dout=row, **results)
    backward.forward = ctypes.pointer(forward)
    yield "attention_backward H=1 1x4x8", "attention_backward", (row, row, keys, values, row, lse), {}, results, backward
    out = empty(1, 1, 1, 8)
    merge = filled(s.AttentionMergeArgs, parts=2, o=out)
    merge.o_parts, merge.lse_parts = ((s.Tensor * 2)(*[view(part).tensor] * 2) for part in (row, lse))
    yield "attention_merge 2 parts 1x1x8", "attention_merge", ([row, row], [lse, lse]), {}, {"out": out}, merge
    yield case("softmax 64x64", "softmax", (x,), {}, empty(64, 64), "y", x=x, axis=-1)
    yield case("softmax 4x4", "softmax", (a,), {}, empty(4, 4), "y", x=a, axis=-1)
    yield case("reduce 4x4", "reduce", (a, "sum"), {}, empty(4, 1), "y", x=a, axis=-1, op=1)


def native_call(torch, operation, arrays, options, out):
    """The same by the library that owns the arrays; None where it has no such call, or another one."""
    if operation in ("attention_backward", "attention_merge") or (operation == "attention" and options):
        return None
    if torch is None:
        return {"gemm": lambda: np.matmul(*arrays, out=out), "reduce": lambda: np.add.reduce(arrays[0], -1, None, out, True)}.get(operation)
    return {"gemm": lambda: torch.mm(*arrays, out=out), "softmax": lambda: torch.softmax(arrays[0], -1), "reduce": lambda: torch.sum(arrays[0], -1, True),
            "attention": lambda: torch.nn.functional.scaled_dot_product_attention(*arrays)}[operation]


def written_out(function, arrays, options):
    """The call as a program writes it: each argument in its place, with no sequence or dictionary to take apart."""
    names = {f"_{index}": array for index, array in enumerate(arrays)}
    given = ", ".join([*names, *(f"{name}={name}" for name in options)])
    return eval(f"lambda: function({given})", {"function": function, **names, **options})


def seconds(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def load_repeat(file):
    """repeat_call.c's functions."""
    repeat = ctypes.CDLL(file)
    for function in (repeat.repeat_call, repeat.repeat_query):
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], ctypes.c_double
    return repeat


def line(row):
    return (f"{row['group']:10} {row['case']:24} C {row['us']['c']:8.2f} us; beyond it " + ", ".join(f"{way} {value:+.2f}" for way, value in row["beyond_c"].items() if way != "own") +
            (f"; own {row['us']['own']:.2f}" if "own" in row["us"] else ""))


def measure(torch, device, pure, repeat, rounds, count, dtype=None):
    """Rows of one library of arrays, NumPy's where `torch` is None; `dtype` is PyTorch's float32 unless it is given."""
    context, plain = (package.Context(device, threads=1) for package in (attile, pure))
    if torch is None:
        rng = np.random.default_rng(1)
        make, empty, settle = (lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)), (lambda *shape: np.empty(shape, np.float32)), lambda: None
        empty_lse = empty
    else:
        where = torch.device(device)
        make, empty = (lambda *shape: (torch.rand(shape, device=where) * 2 - 1).to(dtype)), (lambda *shape: torch.empty(shape, device=where, dtype=dtype))
        empty_lse = lambda *shape: torch.empty(shape, device=where)
        settle = torch.cuda.synchronize if device == "cuda" else lambda: None
    for name, operation, arrays, options, results, args in cases(make, empty, empty_lse):
        address, of_query = (ctypes.cast(getattr(library(), f"attile_{operation}{suffix}"), ctypes.c_void_p) for suffix in ("", "_query"))
        ways = {"c": lambda: repeat.repeat_call(address, context._handle, ctypes.byref(args), count) / count,
                "c query": lambda: repeat.repeat_query(of_query, context._handle, ctypes.byref(args), count) / count}
        call, by_ctypes = getattr(context, operation), getattr(plain, operation)
        by_python = {"attile out": written_out(call, arrays, {**options, **results}), "attile": written_out(call, arrays, options),
                     "ctypes out": written_out(by_ctypes, arrays, {**options, **results}), "query": written_out(call, arrays, {**options, **results, "query": True})}
        like, into = (np if torch is None else torch).empty_like, by_python["attile out"]
        # As many new results as the call makes, by their library's own function: what they take cannot be less.
        by_python["out and empty_like"] = lambda like=like, into=into, made=tuple(results.values()): (into(), [like(result) for result in made])
        if operation in ("gemm", "attention"):
            by_python["prepared"] = getattr(context, f"prepare_{operation}")(*arrays, **options, **results).run
        own = native_call(torch, operation, arrays, options, results.get("out"))
        if own is not None:
            by_python["own"] = own
        for way, call in by_python.items():
            ways[way] = lambda call=call: seconds(call, count)
        found = {way: [] for way in ways}
        for index in range(rounds + 1):
            for way, sample in ways.items():
                settle()
                value = sample()
                if index:  # the first warms up
                    found[way].append(value * 1e6)
        if min(*found["c"], *found["c query"]) < 0:
            sys.exit(f"python_calls.py: {name}: the call from C failed")
        yield {"group": f"{'numpy' if torch is None else 'torch'} {device}" + (f" {str(dtype)[6:]}" if dtype else ""), "case": name, "us": {way: round(statistics.median(values), 3) for way, values in found.items()},
               "us_min": {way: round(min(values), 3) for way, values in found.items()},
               # Rounds are interleaved, so a difference within one leaves out what the machine did meanwhile.
               "beyond_c": {way: round(statistics.median(value - c for value, c in zip(values, found["c query" if way == "query" else "c"])), 3)
                            for way, values in found.items() if way not in ("c", "c query")}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", required=True)
    parser.add_argument("--json")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=50)
    of = parser.parse_args()
    if not attile.compiled:
        sys.exit("python_calls.py: the extension is not there; PYTHONPATH must name the build's folder python")
    repeat = load_repeat(of.repeat)
    try:
        import torch
        torch.set_num_threads(1)
    except ImportError:
        torch = None
    pure = pure_package()
    rows = []
    for library_of_arrays in ([None] if of.device == "cpu" else []) + ([torch] if torch else []):
        for row in measure(library_of_arrays, of.device, pure, repeat, of.rounds, of.calls):
            rows.append(row)
            print(line(row))
    if of.json:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.partition(":")[2].strip() for line in lines if line.startswith(MODEL)), platform.processor())
        device = attile.Context(of.device).info
        facts = {"device": model if of.device == "cpu" else f"{device.device_name}, host {model}", "arch": device.arch, "processors": len(os.sched_getaffinity(0)),
                 "python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__ if torch else None, "attile": attile.version(), "rounds": of.rounds,
                 "calls": of.calls, "date": datetime.date.today().isoformat(),
                 "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()}
        with open(of.json, "w", encoding="utf-8") as file:
            json.dump({"facts": facts, "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()

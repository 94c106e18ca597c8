#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package on a GPU, beside PyTorch: every operation on CUDA tensors, on a stream of its own, in CUDA graphs, prepared, and under torch.compile.

usage: python_on_gpu.py [--json FILE] [--device cuda|cpu] [--repeat FILE] [--rounds N] [--calls N] [--only TEXT] [--skip-times] [--skip-compile]

Needs PyTorch, the package with its extension (PYTHONPATH=build/cuda/python) and libattile with the backend (ATTILE_LIBRARY). One line a check: ok, FAILED or skipped.
A failure ends its check alone. Then come host microseconds a call in Python, C and PyTorch, which tests/bench/python_calls.py measures, and all of it as JSON.
--repeat is librepeat_call.so of the build; without it the script compiles repeat_call.c if there is a C compiler. --device cpu leaves out what needs a GPU,
--only takes the checks whose name holds TEXT, and the times if it is "times".
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from unittest import mock

import torch

import attile
from python_problems import TYPES, Attention, Gemm, Problem, attend, attend_backward, compare, problems

ROOT = pathlib.Path(__file__).resolve().parents[2]
CYCLES = 400_000_000  # of a kernel that only waits: a fifth of a second, far longer than the host needs for a call


class Skipped(Exception):
    """A check that has nothing to run on here."""


def in_extension():
    """Fails where a call is left to the methods in Python, which work as well but take longer."""
    return mock.patch("attile._call.view", side_effect=AssertionError("the call was left to Python"))


class Checks:
    """The checks, and what came of each."""

    def __init__(self, device, compiles, only=""):
        self.device, self.compiles, self.only, self.results = device, compiles, only, []
        self.context = attile.Context(device)

    def run(self, name, check, *args):
        if self.only not in name:
            return
        start, text = time.perf_counter(), ""
        try:
            text, result = check(*args) or "", "ok"
        except Skipped as reason:
            text, result = str(reason), "skipped"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # one check's; the others go on
            text, result = f"{type(error).__name__}: {error}".strip().replace("\n", " | ")[:600], "FAILED"
        self.results.append({"check": name, "result": result, "text": text, "seconds": round(time.perf_counter() - start, 3)})
        print(f"{result:8}{name}{': ' if text else ''}{text}", flush=True)

    def needs_gpu(self):
        if self.device == "cpu":
            raise Skipped("needs a GPU")

    def workspace(self, problem, inputs, outputs):
        """Options of a call that allocates nothing on the device."""
        support = problem.call(self.context, inputs, outputs, query=True)
        options = {"flags": attile.FLAG_NO_ALLOC}
        if support.workspace_bytes:
            memory = torch.empty(support.workspace_bytes + 256, dtype=torch.uint8, device=self.device)
            options["workspace"] = memory[-memory.data_ptr() % 256:][:support.workspace_bytes]
        return options

    def made(self, problem):
        inputs = problem.inputs()
        with in_extension():
            results = problem.call(self.context, inputs)
        support = problem.call(self.context, inputs, query=True)
        return f"{compare(results, problem.expected(inputs)):.2f} of the bound, {support.kernel}"

    def given(self, problem):
        """Results in the caller's arrays, which PyTorch knows to be written."""
        inputs = problem.inputs()
        outputs = [problem.nans(x) for x in problem.call(self.context, inputs)]
        versions = [x._version for x in outputs]
        with in_extension():
            results = problem.call(self.context, inputs, outputs)
        assert all(a is b for a, b in zip(results, outputs, strict=True)), "the results are other arrays than those given"
        compare(results, problem.expected(inputs))
        assert all(x._version > version for x, version in zip(outputs, versions)), "PyTorch was not told that a result was written"

    def on_stream(self, problem):
        """The operands come late, on a stream that waits for no other: a call on another stream would read NaN."""
        self.needs_gpu()
        inputs = problem.inputs()
        late = [problem.nans(x) for x in inputs]
        outputs = [problem.nans(x) for x in problem.call(self.context, inputs)]
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            problem.call(self.context, late, outputs)  # whatever is done once for a problem is done now
        torch.cuda.synchronize()
        with torch.cuda.stream(stream), in_extension():
            torch.cuda._sleep(CYCLES)
            for into, x in zip(late, inputs):
                into.copy_(x)
            start = time.perf_counter()
            problem.call(self.context, late, outputs)
            microseconds, waits = (time.perf_counter() - start) * 1e6, stream.query()
        assert not waits, f"the call came back after {microseconds:.0f} us, when the stream's work was done"
        stream.synchronize()
        compare(outputs, problem.expected(inputs))

    def captured(self, problem, gives_outputs):
        """Captured once, replayed with two other sets of operands."""
        self.needs_gpu()
        static = [x.clone() for x in problem.inputs()]
        outputs = [problem.nans(x) for x in problem.call(self.context, static)] if gives_outputs else None
        options = self.workspace(problem, static, outputs)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            problem.call(self.context, static, outputs, **options)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with in_extension(), torch.cuda.graph(graph, stream=stream):
            results = problem.call(self.context, static, outputs, **options)
        for _ in range(2):
            inputs = problem.inputs()
            for into, x in zip(static, inputs, strict=True):
                into.copy_(x)
            for x in results:
                x.fill_(torch.nan)
            graph.replay()
            torch.cuda.synchronize()
            compare(results, problem.expected(inputs))

    def prepared(self, problem, captures):
        """A prepared call launched with other arrays, on a stream of its own or in a graph."""
        self.needs_gpu()
        prepare = getattr(self.context, "prepare_gemm" if isinstance(problem, Gemm) else "prepare_attention")
        names = ("a", "b", "bias") if isinstance(problem, Gemm) else ("q", "k", "v")

        def launch_arrays(inputs, outputs):
            return {**dict(zip(names, inputs)), **dict(zip(("out", "lse"), outputs))}

        static = problem.inputs()
        outputs = [problem.nans(x) for x in problem.call(self.context, static)]
        first, given = launch_arrays(static, outputs), dict(problem.options)
        options = self.workspace(problem, static, outputs)
        call = prepare(*(first.pop(name) for name in names[:2]), *([first.pop("v")] if "v" in first else []), **first, **given, **options)
        changing = [problem.nans(x) for x in static]
        results = [problem.nans(x) for x in outputs]
        arrays, stream = launch_arrays(changing, results), torch.cuda.Stream()
        launch = {"workspace": options["workspace"]} if "workspace" in options else {}
        with torch.cuda.stream(stream):
            call.run(**arrays, **launch)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph() if captures else None
        with in_extension(), torch.cuda.graph(graph, stream=stream) if captures else contextlib.nullcontext():
            if captures:
                call.run(**arrays, **launch)
        for _ in range(2):
            inputs = problem.inputs()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream), in_extension():
                if not captures:
                    torch.cuda._sleep(CYCLES)
                for into, x in zip(changing, inputs, strict=True):
                    into.copy_(x)
                for x in results:
                    x.fill_(torch.nan)
                graph.replay() if captures else call.run(**arrays, **launch)
            torch.cuda.synchronize()
            compare(results, problem.expected(inputs))

    def refused(self):
        """What is wrong is one sentence, and nothing is written."""
        a, out = torch.rand(8, 8, device=self.device), torch.full((8, 8), torch.nan, device=self.device)
        for arrays, kind, words in (((a.clone().requires_grad_(), a), RuntimeError, "a requires a gradient"), ((a, a[:4]), attile.AttileArgumentError, ""),
                                    ((a, a.to(torch.complex64)), Exception, "")):
            try:
                self.context.gemm(*arrays, out=out)
            except kind as error:
                assert words in str(error), f"the sentence is {error}"
            else:
                raise AssertionError("a wrong call was taken")
        assert bool(out.isnan().all()), "a call that was refused has written"

    def torch_operators(self, dtype):
        """The operators of attile.torch: results and gradients, under opcheck as well."""
        import attile.torch

        problem = Attention("", self.device, dtype)
        q, k, v = (x.requires_grad_() for x in problem.inputs())
        dout = problem.random(*q.shape)
        out, lse = attile.torch.attention(q, k, v, mask="causal_bottom_right", lse=True)
        compare((out.detach(), lse.detach()), problem.expected((q.detach(), k.detach(), v.detach())))
        found = torch.autograd.grad(out, (q, k, v), dout)
        values = [x.detach() for x in (dout, q, k, v)]
        compare(found, (attend_backward(*(x.double() for x in values)), attend_backward(*values)))
        layer = Gemm("", self.device, dtype)
        a, b, bias = layer.inputs()
        compare((attile.torch.gemm(a, b, bias=bias, activation="relu"),), layer.expected((a, b, bias)))
        torch.library.opcheck(torch.ops.attile.attention, (q, k, v), {"mask": "causal_bottom_right"})
        torch.library.opcheck(torch.ops.attile.gemm, (a, b), {"bias": bias, "activation": "relu"})

    def framework_call(self):
        """PyTorch's scaled_dot_product_attention, served: the tests of tests/bindings with tensors of this device."""
        found = subprocess.run([sys.executable, "-W", "ignore", "-m", "unittest", "python_sdpa_test"], cwd=ROOT / "tests/bindings", env={**os.environ, "ATTILE_TEST_DEVICE": self.device},
                               capture_output=True, text=True, check=False)
        said = [line for line in found.stderr.splitlines() if line.startswith(("FAIL", "ERROR")) or "Error: " in line]
        assert found.returncode == 0, " | ".join(said) or found.stderr[-500:]
        return next(line for line in found.stderr.splitlines() if line.startswith("Ran "))

    def compiled(self, dtype, mode):
        """One graph without a break, forward and backward; PyTorch's own CUDA graphs by the mode reduce-overhead."""
        import attile.torch

        if not self.compiles:
            raise Skipped("--skip-compile")

        def block(x, w, k, v):
            q = attile.torch.gemm(x, w).unflatten(-1, (8, 64)).transpose(1, 2)
            return attile.torch.attention(q * 0.5, k, v, mask="causal_bottom_right") * 2

        def formula(x, w, k, v):
            q = (x @ w).unflatten(-1, (8, 64)).transpose(1, 2)
            return attend(q * 0.5, k, v)[0] * 2

        problem = Problem("", self.device, dtype)
        torch._dynamo.reset()
        fast = torch.compile(block, fullgraph=True, mode=mode)
        for _ in range(3):  # reduce-overhead records at its second call
            inputs = problem.random(2, 200, 192), problem.random(192, 512) * 0.1, problem.random(2, 2, 264, 64), problem.random(2, 2, 264, 64)
            with torch.no_grad():
                compare((fast(*inputs).clone(),), ((formula(*(x.double() for x in inputs)),), (formula(*inputs),)))
        dout, found, precisions = problem.random(2, 8, 200, 64), None, []
        for function, kind in ((fast, dtype), (formula, torch.float64), (formula, dtype)):
            leaves = [x.to(kind).clone().requires_grad_() for x in inputs]
            result = torch.autograd.grad(function(*leaves), leaves, dout.to(kind))
            if function is fast:
                found = [x.clone() for x in result]
            else:
                precisions.append(result)
        compare(found, precisions)

    def all(self):
        for problem in problems(self.device):
            for way, check, *args in (("results made", self.made), ("out=", self.given), ("own stream", self.on_stream), ("graph, out=", self.captured, True),
                                      ("graph, results made", self.captured, False)):
                self.run(f"{problem.name}, {way}", check, problem, *args)
            if type(problem) in (Gemm, Attention):
                self.run(f"{problem.name}, prepared, own stream", self.prepared, problem, False)
                self.run(f"{problem.name}, prepared, graph", self.prepared, problem, True)
        self.run("wrong calls", self.refused)
        for dtype in TYPES:
            self.run(f"attile.torch {str(dtype)[6:]}", self.torch_operators, dtype)
        self.run("attile.torch.sdpa", self.framework_call)
        for mode in ("default", "reduce-overhead"):
            for dtype in TYPES:
                self.run(f"torch.compile {mode} {str(dtype)[6:]}", self.compiled, dtype, mode)


def repeat_library(given, folder):
    """librepeat_call.so, built here if it was not given."""
    if given:
        return given
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    built = pathlib.Path(folder) / "librepeat_call.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", f"-I{ROOT / 'include'}", str(ROOT / "tests/bench/repeat_call.c"), "-o", str(built)], check=True)
    return str(built)


def times(of, folder):
    """Host time of a call in each way, in each type."""
    sys.path.insert(0, str(ROOT / "tests/bench"))
    import python_calls

    file = repeat_library(of.repeat, folder)
    if file is None:
        print("skipped times: no C compiler, and --repeat was not given")
        return []
    repeat, pure, rows = python_calls.load_repeat(file), python_calls.pure_package(), []
    for dtype in TYPES:
        for row in python_calls.measure(torch, of.device, pure, repeat, of.rounds, of.calls, dtype):
            print(python_calls.line(row), flush=True)
            rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--repeat")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--skip-times", action="store_true")
    parser.add_argument("--skip-compile", action="store_true")
    of = parser.parse_args()
    if not attile.compiled:
        sys.exit("python_on_gpu.py: the package's extension is not there; PYTHONPATH must name the build's folder python")
    if of.device == "cuda" and not torch.cuda.is_available():
        sys.exit("python_on_gpu.py: PyTorch finds no GPU")
    os.environ["ATTILE_BACKEND"] = of.device  # of the default context, which attile.torch uses
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    checks = Checks(of.device, not of.skip_compile, of.only)
    info = checks.context.info
    print(f"{info.backend} {info.backend_version} on {info.device_name} {info.arch}; PyTorch {torch.__version__}, Python {platform.python_version()}", flush=True)
    checks.all()
    rows = []

    def measure():
        with tempfile.TemporaryDirectory() as folder:
            rows.extend(times(of, folder))

    if not of.skip_times:
        checks.run("times", measure)
    counts = {result: sum(check["result"] == result for check in checks.results) for result in ("ok", "FAILED", "skipped")}
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    found = {"facts": {"device": info.device_name, "arch": info.arch, "backend": info.backend, "attile": attile.version(), "torch": torch.__version__, "cuda": torch.version.cuda,
                       "python": platform.python_version(), "rounds": of.rounds, "calls": of.calls}, "counts": counts, "checks": checks.results, "rows": rows}
    if of.json:
        pathlib.Path(of.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    else:
        print(json.dumps(found))
    sys.exit(1 if counts["FAILED"] else 0)


if __name__ == "__main__":
    main()

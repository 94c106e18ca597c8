# SPDX-License-Identifier: Apache-2.0
"""Problems that `attile bench --random` draws, beside the peers: each once by Attile and once by PyTorch on the same device, calls alternating.

usage: compare_peers.py --random SECONDS [--seed N] [--operation gemm|attention|attention_backward|softmax|reduce] [--types f16,bf16] [--backend NAME] [--threads N] [--program PATH] [--json FILE]

The program draws (`attile bench --list`), so a seed here and there means the same problems. On a GPU the peers are torch.matmul (cuBLAS) and scaled_dot_product_attention
(whatever PyTorch picks), clocked by events with the host ahead. On a processor they are PyTorch's where it can be imported; else NumPy's product, which is OpenBLAS's
where NumPy has it, and problems without such a peer are passed over. A ratio is the peer's time over Attile's: above 1 Attile is faster.
"""
import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import time

import attile

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

OPERATIONS = ("gemm", "attention", "attention_backward", "softmax", "reduce")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_tanh", "silu": "silu"}
WORST = 30
CYCLES = 2e9  # of a GPU in a second, at most


class Passed(Exception):
    """The peer has no such problem."""


class Torch:
    """Tensors and the peer of PyTorch on a device."""

    def __init__(self, device):
        self.device = device
        self.types = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def name(self):
        return f"PyTorch {torch.__version__} on {self.device}"

    def matrix(self, shape, dtype, transposed=False):
        shape = (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
        made = torch.randn(shape, device=self.device, dtype=torch.float32).to(self.types[dtype])
        return made.transpose(-1, -2) if transposed else made

    def empty(self, like, shape=None, dtype=None):
        return torch.empty(like.shape if shape is None else shape, device=self.device, dtype=like.dtype if dtype is None else self.types[dtype])

    def gemm(self, a, b, out, bias, activation, c):
        def call():
            if c is not None:
                return torch.add(torch.matmul(a, b), c, alpha=0.5)
            if bias is None and activation is None:
                return torch.matmul(a, b, out=out)
            made = torch.addmm(bias, a, b) if bias is not None and a.dim() == 2 else torch.matmul(a, b) if bias is None else torch.matmul(a, b) + bias
            done = {None: lambda x: x, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}
            return done[activation](made)

        return call

    def seconds(self, call, burst, host_seconds):
        if self.device == "cuda":
            # The device waits, so that the host has queued everything before the clock starts.
            torch.cuda._sleep(int(CYCLES * (1e-4 + 2 * burst * host_seconds)))
            start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
            start.record()
            for _ in range(burst):
                call()
            stop.record()
            stop.synchronize()
            return 1e-3 * start.elapsed_time(stop) / burst
        return wall_seconds(call, burst)

    def finish(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


class NumPy:
    """Arrays and the product of NumPy."""

    def __init__(self):
        import numpy
        self.np = numpy
        self.types = {"f32": numpy.float32, "f64": numpy.float64}
        self.random = numpy.random.default_rng(0)

    def name(self):
        with open("/proc/self/maps", encoding="utf-8") as maps:
            libraries = sorted({line.split()[-1] for line in maps if re.search(r"/[^/]*(blas|mkl)[^/]*\.so", line)})
        return f"NumPy {self.np.__version__} with {', '.join(libraries) or 'a product of its own'}"

    def matrix(self, shape, dtype, transposed=False):
        if dtype not in self.types:
            raise Passed(f"NumPy has no product of {dtype}")
        shape = (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
        made = self.random.standard_normal(shape).astype(self.types[dtype])
        return self.np.swapaxes(made, -1, -2) if transposed else made

    def empty(self, like, shape=None, dtype=None):
        return self.np.empty(like.shape if shape is None else shape, like.dtype if dtype is None else self.types[dtype])

    def gemm(self, a, b, out, bias, activation, c):
        if activation is not None:
            raise Passed("NumPy has no activations")

        def call():
            self.np.matmul(a, b, out=out)
            if c is not None:
                self.np.add(out, 0.5 * c, out=out)
            if bias is not None:
                self.np.add(out, bias, out=out)

        return call

    def seconds(self, call, burst, _):
        return wall_seconds(call, burst)

    def finish(self):
        pass


def wall_seconds(call, burst):
    start = time.perf_counter()
    for _ in range(burst):
        call()
    return (time.perf_counter() - start) / burst


def numbers(word, prefix, by):
    return [int(x) for x in word[len(prefix):].split(by)]


def gemm(context, side, dtype, words):
    batch, (m, n, k), layout, options = numbers(words[0], "b", "/")[0], numbers(words[1], "", "x"), words[2], words[3:]
    if {"odd", "f32_out", "bias_rows"} & set(options):
        raise Passed("the peer has no such call")
    lead = (batch,) if batch > 1 else ()
    a = side.matrix((*lead, m, k), dtype, layout[0] == "t")
    b = side.matrix((k, n) if "shared_b" in options else (*lead, k, n), dtype, layout[1] == "t")
    outs = [side.empty(a, (*lead, m, n)) for _ in range(2)]
    bias = side.matrix((1, n), dtype)[0] if "bias" in options else None
    c = side.matrix((*lead, m, n), dtype) if "beta" in options else None
    activation = next((ACTIVATIONS[o] for o in options if o in ACTIVATIONS), None)
    more = dict(c=c, beta=0.5) if c is not None else {}
    ours = lambda: context.gemm(a, b, out=outs[0], bias=bias, activation=activation, **more)
    return ours, side.gemm(a, b, outs[1], bias, activation, c)


def attention(context, side, dtype, words, backward=False):
    if torch is None:
        raise Passed("only PyTorch has attention")
    batch, (heads, heads_kv), (rows, keys) = numbers(words[0], "b", "/")[0], numbers(words[1], "h", "/"), numbers(words[2], "l", "x")
    dims, options = numbers(words[3], "d", "/"), set(words[4:])
    dim, dim_v = dims[0], dims[-1]
    if options - {"causal", "bias", "bias_heads", "mask", "blhd"} or ("causal" in options and (rows != keys or len(options & {"bias", "bias_heads", "mask"}) > 0)):
        raise Passed("PyTorch's attention has no such option")
    inside = lambda h, length, width: (side.matrix((batch, length, h, width), dtype).transpose(1, 2) if "blhd" in options else side.matrix((batch, h, length, width), dtype))
    q, k, v = inside(heads, rows, dim), inside(heads_kv, keys, dim), inside(heads_kv, keys, dim_v)
    ours = dict(mask="causal_bottom_right" if "causal" in options else None)
    theirs = dict(is_causal="causal" in options, enable_gqa=heads != heads_kv)
    if {"bias", "bias_heads"} & options:
        ours["bias"] = theirs["attn_mask"] = side.matrix((1, heads if "bias_heads" in options else 1, rows, keys), dtype)
    if "mask" in options:
        if "attn_mask" in theirs:
            raise Passed("PyTorch takes a bias or a mask")
        ours["allowed"] = theirs["attn_mask"] = torch.rand(1, 1, rows, keys, device=side.device) < 0.9
    out = side.empty(q, (batch, heads, rows, dim_v))
    if not backward:
        return (lambda: context.attention(q, k, v, out=out, **ours)), (lambda: F.scaled_dot_product_attention(q, k, v, **theirs))
    lse = torch.empty(batch, heads, rows, device=side.device, dtype=torch.float64 if dtype == "f64" else torch.float32)
    context.attention(q, k, v, out=out, lse=lse, **ours)
    dout, grads = torch.randn_like(out), [torch.empty_like(x) for x in (q, k, v)]
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    result = F.scaled_dot_product_attention(*leaves, **theirs)
    return ((lambda: context.attention_backward(dout, q, k, v, out, lse, dq=grads[0], dk=grads[1], dv=grads[2], **ours)),
            (lambda: torch.autograd.grad(result, leaves, dout, retain_graph=True)))


def attention_backward(context, side, dtype, words):
    return attention(context, side, dtype, words, backward=True)


def rows_of(side, dtype, words):
    if torch is None:
        raise Passed("NumPy is no peer of reductions and softmax")
    options = set(words[1:])
    if options & {"odd", "f32_out"}:
        raise Passed("the peer has no such call")
    return side.matrix(numbers(words[0], "", "x"), dtype), 0 if "over_rows" in options else 1, options


def softmax(context, side, dtype, words):
    x, axis, options = rows_of(side, dtype, words)
    if "in_place" in options:
        raise Passed("PyTorch's softmax is not in place")
    out, other = side.empty(x), side.empty(x)
    return (lambda: context.softmax(x, axis, out=out)), (lambda: torch.softmax(x, axis, out=other))


def reduce(context, side, dtype, words):
    x, axis, options = rows_of(side, dtype, words)
    op = next(o for o in ("sum", "max", "min", "mean") if o in options)
    out = side.empty(x, (1, x.shape[1]) if axis == 0 else (x.shape[0], 1))
    return (lambda: context.reduce(x, op, axis, out=out)), (lambda: {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[op](x, axis))


def race(side, calls, rounds=5):
    """Seconds of each call, the calls alternating and in changing order: the median on a GPU, the fastest on a processor."""
    for call in calls.values():
        call()
    side.finish()
    bursts, host = {}, {}
    for who, call in calls.items():
        start = time.perf_counter()
        call()
        host[who] = time.perf_counter() - start
        side.finish()
        bursts[who] = max(1, min(64, int(1e-3 / max(time.perf_counter() - start, 1e-7))))
    found = {who: [] for who in calls}
    for number in range(rounds):
        for who in list(calls) if number % 2 else list(calls)[::-1]:
            found[who].append(side.seconds(calls[who], bursts[who], host[who]))
    return {who: statistics.median(times) if getattr(side, "device", "") == "cuda" else min(times) for who, times in found.items()}


def tenths(values):
    values = sorted(values)
    return f"{len(values)} problems, lowest tenth {values[len(values) // 10]:.2f}, median {values[len(values) // 2]:.2f}"


def drawn(options, operation):
    words = [options.program, "bench", "--random", str(options.random), "--seed", str(options.seed), "--operation", operation, "--list", "--count", "20000"]
    done = subprocess.run(words + (["--backend", options.backend] if options.backend else []), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout.split()


def run(options, context, side, operation):
    rows, passed, refused, end = [], 0, 0, time.perf_counter() + options.random
    for name in drawn(options, operation):
        if time.perf_counter() >= end:
            break
        dtype, *words = name.split(":")[1:]
        if options.types and dtype not in options.types:
            continue
        try:
            ours, theirs = globals()[operation](context, side, dtype, words)
            times = race(side, {"attile": ours, "peer": theirs})
        except Passed:
            passed += 1
            continue
        except (RuntimeError, ValueError, TypeError, NotImplementedError, MemoryError) as refusal:  # a side that refuses a problem is a fact about that side
            refused += 1
            rows.append(dict(problem=name, refused=str(refusal).splitlines()[0][:160]))
            continue
        rows.append(dict(problem=name, seconds=times["attile"], peer_seconds=times["peer"], ratio=times["peer"] / times["attile"]))
    timed = [row for row in rows if "ratio" in row]
    print(f"{operation}: the peer's time over Attile's; {passed} problems without a peer, {refused} refused")
    if not timed:
        return rows
    print("  all:", tenths([row["ratio"] for row in timed]))
    for dtype in sorted({row["problem"].split(":")[1] for row in timed}):
        print(f"  {dtype}:", tenths([row["ratio"] for row in timed if row["problem"].split(":")[1] == dtype]))
    for row in sorted((r for r in timed if r["seconds"] >= 20e-6), key=lambda r: r["ratio"])[:WORST]:
        print(f"  {row['ratio']:6.2f}  {1e6 * row['seconds']:10.1f} us  {row['problem']}", flush=True)
    return rows


def seconds(word):
    value = float(word)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"'{word}' is not a number above 0")
    return value


def main():
    parser = argparse.ArgumentParser(prog="compare_peers.py", description=__doc__.splitlines()[0])
    parser.add_argument("--random", type=seconds, required=True, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operation", choices=OPERATIONS)
    parser.add_argument("--types", type=lambda word: word.split(","), help="only these, e.g. f16,bf16; default: all")
    parser.add_argument("--backend", help="Attile's; default: what ATTILE_BACKEND says")
    parser.add_argument("--threads", type=int, default=0, help="of both sides on a processor")
    parser.add_argument("--program", default="attile", help="the attile program, which draws")
    parser.add_argument("--json")
    options = parser.parse_args()
    context = attile.Context(options.backend, threads=options.threads)
    on_gpu = context.info.device_type != 1
    if on_gpu and torch is None:
        sys.exit("the peers on a GPU need PyTorch")
    if torch is not None and options.threads:
        torch.set_num_threads(options.threads)
    side = Torch("cuda" if on_gpu else "cpu") if torch is not None else NumPy()
    facts = dict(attile=attile.version(), device=context.info.device_name, backend=context.info.backend, threads=context.info.threads, peer=side.name(), seed=options.seed)
    print("; ".join(f"{key} {value}" for key, value in facts.items()), flush=True)
    rows = {operation: run(options, context, side, operation) for operation in ([options.operation] if options.operation else OPERATIONS)}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(dict(facts=facts, results=rows), file, indent=1)

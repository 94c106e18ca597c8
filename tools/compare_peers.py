#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attile beside cuBLAS and PyTorch on one GPU, in one process: same tensors, alternating calls, medians of event-timed runs, errors against float64.

usage: compare_peers.py [--groups gemm,attention,attention16,backward,backward16,flash16,features16,decode,decode16,host,memory,split,exact] [--json FILE] [--rounds N] [--burst N]
                        [--backend NAME] [--beside NAME [--beside-library FILE [--beside-package FOLDER]]] [--quick]
       compare_peers.py --random SECONDS ...       problems that `attile bench --random` draws, on GPUs and processors: peer_random.py

Needs PyTorch with CUDA, the `attile` Python package and libattile with its CUDA backend (ATTILE_LIBRARY). FlashAttention-4 (PyPI: flash-attn-4) is a peer of
attention16 and backward16 where it is installed. float32 peers run with TF32 switched off. PyTorch's
float32 attention may still use tensor cores by tf32x3; both sides' errors are printed, so that can be seen. Each case is run once to warm up; then the
sides alternate, --rounds times each and in changing order, inputs larger than the L2 cache or a buffer between two rounds evicting it. A round is --burst calls, one after the
other: 1 is a call by itself, on a card that has just rested; 8 and more is steady work, which on a card at its power limit is slower for everyone, but not by the
same factor. With --beside the other side is another backend of Attile instead of the peers; with --beside-library the backend of that name of another build, e.g. of the
release before: its lib/libattile.so.1, and its bindings/python/src/attile if this tree's package cannot drive it.
"""
import argparse
import datetime
import json
import math
import subprocess
import sys
import threading

if any(word.split("=")[0] == "--random" for word in sys.argv[1:]):  # needs no PyTorch on a processor
    import peer_random

    sys.exit(peer_random.main())

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attile

try:  # its kernels for Hopper, compiled at the first call of each configuration; a peer where it is there
    from flash_attn.cute import flash_attn_func as flash4
except ImportError:
    flash4 = None

from peer_bench import DEVICE, Bench, other_build


def command(*words):
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def relative(found, expected):
    """Norm of the difference over norm of the expectation; NaN stays NaN and is printed as such."""
    return float((found.double() - expected).norm() / expected.norm())


def uniform(*shape, dtype=torch.float32):
    return torch.empty(shape, device=DEVICE, dtype=torch.float32).uniform_(-3, 3).to(dtype)


def normal(*shape, dtype):
    return torch.randn(shape, device=DEVICE, dtype=torch.float32).to(dtype)


def race_gemm(bench, group, a, b, suffix=""):
    """A batch of products of a [batch, m, k] and b [batch, k, n] beside torch.matmul, that is cuBLAS; one product goes as two matrices."""
    batch, m, k, n = *a.shape, b.shape[2]
    outs = {who: torch.full((batch, m, n), math.nan, device=DEVICE, dtype=a.dtype) for who in ("attile", "cublas")}
    if batch == 1:
        a, b = a[0], b[0]
        outs = {who: out[0] for who, out in outs.items()}
    kernel = bench.context.gemm(a, b, out=outs["attile"], query=True).kernel
    calls = {"attile": lambda: bench.context.gemm(a, b, out=outs["attile"]), "cublas": lambda: torch.matmul(a, b, out=outs["cublas"])}
    some = slice(0, 4)  # rows, or batches, that are checked
    check = lambda who: relative(outs[who][some], a[some].double() @ (b.double() if batch == 1 else b[some].double()))
    name = (f"{m}x{n}x{k}" if batch == 1 else f"{batch} x {m}x{n}x{k}") + suffix
    bench.case(group, name, calls, 2.0 * batch * m * n * k, "TFLOP/s", {who: (lambda w=who: check(w)) for who in outs}, kernel)


def gemm(bench, quick):
    shapes = [(1, n, n, n) for n in ((1024, 4096) if quick else (512, 1024, 2048, 4096, 8192))]
    shapes += [(1, 1000, 1001, 1003), (1, 4096, 4096, 64), (1, 16, 4096, 4096), (1, 1, 4096, 4096), (64, 256, 256, 256), (512, 128, 128, 128), (4096, 32, 32, 32)]
    for batch, m, n, k in shapes:
        race_gemm(bench, "gemm f32", uniform(batch, m, k), uniform(batch, k, n))


def gemm16(bench, quick):
    """float16 and bfloat16 with float32 sums. Normal values: a card at its power limit is slower on wilder ones."""
    shapes = [(1, 4096, 4096, 4096, "nn"), (1, 8192, 8192, 8192, "nn"), (1, 1, 4096, 4096, "nn"), (1, 16, 4096, 4096, "nn"), (1, 128, 4096, 4096, "nn"), (1, 1000, 1001, 1003, "nn")]
    if not quick:
        shapes += [(1, 4096, 4096, 4096, layout) for layout in ("nt", "tn", "tt")] + [(1, m, 4096, 4096, "nt") for m in (1, 16, 64, 128)]
        shapes += [(1, n, n, n, "nn") for n in (512, 1024, 2048)] + [(1, 4096, 4096, 64, "nn"), (64, 256, 256, 256, "nn"), (512, 128, 128, 128, "nn"), (4096, 32, 32, 32, "nn")]
    stored = lambda batch, rows, cols, order, dtype: normal(batch, cols, rows, dtype=dtype).transpose(1, 2) if order == "t" else normal(batch, rows, cols, dtype=dtype)
    for dtype in (torch.bfloat16, torch.float16):
        for batch, m, n, k, layout in shapes:
            race_gemm(bench, "gemm16", stored(batch, m, k, layout[0], dtype), stored(batch, k, n, layout[1], dtype), f" {layout} {str(dtype).split('.')[1]}")


def attention_rows(q, k, v, causal, rows, head):
    """Attention of some rows of one head in float64."""
    s = q[0, head, rows].double() @ k[0, head].double().T / math.sqrt(q.shape[3])
    if causal:
        s = s.masked_fill(torch.arange(k.shape[2], device=DEVICE)[None, :] > torch.tensor(rows, device=DEVICE)[:, None], -math.inf)
    return torch.softmax(s, -1) @ v[0, head].double()


def sdpa(backend, *tensors, **options):
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(*tensors, **options)


def race_attention(bench, group, name, q, k, v, causal, backends):
    """Some rows of the last head are checked; `backends` are PyTorch's, by name."""
    batch, heads, length, dim = q.shape
    outs = {"attile": torch.full_like(q, math.nan)}
    mask = "causal_top_left" if causal else None
    kernel = bench.context.attention(q, k, v, out=outs["attile"], mask=mask, query=True).kernel
    calls = {"attile": lambda: bench.context.attention(q, k, v, out=outs["attile"], mask=mask)}
    peers = {who: lambda backend=backend: sdpa(backend, q, k, v, is_causal=causal) for who, backend in backends.items()}
    if flash4 and "cudnn" in backends:
        rows_first = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
        peers["flash4"] = lambda: flash4_output(*rows_first, causal)
    for who, peer in peers.items():

        def call(who=who, peer=peer):
            outs[who] = peer()

        calls[who] = call
    rows = [0, 1, length // 3, length // 2 + 1, length - 1]
    expected = attention_rows(q, k, v, causal, rows, heads - 1)
    errors = {who: (lambda who=who: relative(outs[who][0, heads - 1, rows], expected)) for who in calls}
    bench.case(group, name, calls, 4.0 * batch * heads * length * length * dim * (0.5 if causal else 1), "TFLOP/s", errors, kernel)


def flash4_output(q, k, v, causal):
    """FlashAttention-4 of tensors [batch, rows, heads, columns]; the result in the order of all others, [batch, heads, rows, columns]."""
    out = flash4(q, k, v, causal=causal)
    return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)


def race_decode(bench, group, name, q, k, v, who, backend):
    """One query row a head; GB/s of keys and values."""
    (batch, heads, _, dim), (_, heads_kv, keys, _) = q.shape, k.shape
    outs = {"attile": torch.full_like(q, math.nan), who: None}

    def peer():
        outs[who] = sdpa(backend, q, k, v, enable_gqa=heads != heads_kv)

    s = q[0, :, 0].double().view(heads_kv, heads // heads_kv, dim) @ k[0].double().transpose(1, 2) / math.sqrt(dim)
    expected = (torch.softmax(s, -1) @ v[0].double()).view(heads, dim)
    errors = {side: (lambda side=side: relative(outs[side][0, :, 0], expected)) for side in outs}
    kernel = bench.context.attention(q, k, v, out=outs["attile"], query=True).kernel
    calls = {"attile": lambda: bench.context.attention(q, k, v, out=outs["attile"]), who: peer}
    bench.case(group, f"{name}B={batch} heads {heads}/{heads_kv} keys {keys} D={dim}", calls, 2.0 * k.numel() * k.element_size(), "GB/s", errors, kernel)


def race_backward(bench, group, name, q, k, v, causal, backends):
    """dq, dk and dv from o and lse. Every part of them is checked over the last head; FLOP count five products."""
    batch, heads, length, dim = q.shape
    dout, mask = torch.randn_like(q), "causal_top_left" if causal else None
    out, lse = torch.empty_like(q), torch.empty((batch, heads, length), device=DEVICE)
    bench.context.attention(q, k, v, out=out, lse=lse, mask=mask)
    grads = {"attile": [torch.full_like(x, math.nan) for x in (q, k, v)]}
    options = dict(dq=grads["attile"][0], dk=grads["attile"][1], dv=grads["attile"][2], mask=mask)
    kernel = bench.context.attention_backward(dout, q, k, v, out, lse, query=True, **options).kernel
    calls = {"attile": lambda: bench.context.attention_backward(dout, q, k, v, out, lse, **options)}
    forward = {who: lambda *leaves, backend=backend: sdpa(backend, *leaves, is_causal=causal) for who, backend in backends.items()}
    if flash4 and "cudnn" in backends:
        forward["flash4"] = lambda *leaves: flash4_output(*leaves, causal).transpose(1, 2)
    for who, run in forward.items():
        # FlashAttention-4 wants rows before heads; what it is given and what it returns lies so.
        order = (lambda x: x.transpose(1, 2)) if who == "flash4" else (lambda x: x)
        leaves = [order(x).contiguous().detach().requires_grad_() for x in (q, k, v)]
        step = order(dout).contiguous()
        results = []  # of the one forward pass that all rounds go back through

        def peer(who=who, run=run, results=results, leaves=leaves, step=step, order=order):
            if not results:
                results.append(run(*leaves))
            grads[who] = [order(g) for g in torch.autograd.grad(results[0], leaves, step, retain_graph=True)]

        calls[who] = peer
    last = [x[:1, -1:].double().detach().requires_grad_() for x in (q, k, v)]
    expected = torch.autograd.grad(sdpa(SDPBackend.MATH, *last, is_causal=causal), last, dout[:1, -1:].double())
    errors = {who: (lambda who=who: max(relative(g[:1, -1:], e) for g, e in zip(grads[who], expected))) for who in calls}
    bench.case(group, name, calls, 10.0 * batch * heads * length * length * dim * (0.5 if causal else 1), "TFLOP/s", errors, kernel)


def backward16(bench, quick):
    """bf16 and f16 gradients beside FlashAttention-2's and cuDNN's, through PyTorch."""
    shapes = [(8, 16, 2048, 128), (8, 16, 2048, 64), (2, 8, 4096, 256), (2, 16, 8192, 128), (2, 16, 8192, 64), (32, 16, 512, 128), (1, 16, 1024, 128), (8, 16, 2048, 96)]
    backends = {"flash2": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    cases = [(torch.bfloat16, *shape) for shape in (shapes[:3] if quick else shapes)] + [(torch.float16, *shape) for shape in ([] if quick else shapes[:3])]
    for dtype, batch, heads, length, dim in cases:
        q, k, v = (normal(batch, heads, length, dim, dtype=dtype) for _ in range(3))
        for causal in (False, True):
            name = f"{'f16' if dtype == torch.float16 else 'bf16'} B={batch} H={heads} S={length} D={dim}" + (" causal" if causal else "")
            race_backward(bench, "backward16", name, q, k, v, causal, backends)


def attention(bench, quick):
    shapes = [(13600, 1, 128, 32), (4, 1, 32768, 32), (500, 1, 2048, 64), (2, 1, 32768, 64), (8, 16, 2048, 128), (2, 16, 8192, 128), (1, 16, 16384, 128)]
    others = [(8, 16, 2048, 40), (8, 16, 2048, 80), (8, 16, 2048, 96), (8, 16, 2048, 111), (4, 16, 2048, 192), (1, 8, 8192, 256), (8, 16, 2047, 64), (8, 16, 1025, 64)]
    for batch, heads, length, dim in shapes[:4] if quick else shapes + others:
        q, k, v = (uniform(batch, heads, length, dim) for _ in range(3))
        for causal in (False, True):
            name = f"B={batch} H={heads} S={length} D={dim}" + (" causal" if causal else "")
            race_attention(bench, "attention", name, q, k, v, causal, {"pytorch": SDPBackend.EFFICIENT_ATTENTION})
    features(bench)


def backward(bench, quick):
    """MATH materialises all scores, so it joins at lengths where that is reasonable."""
    shapes = [(8, 16, 2048, 64), (8, 16, 2048, 128), (2, 16, 8192, 64), (2, 16, 8192, 128), (2, 8, 2048, 64), (32, 16, 512, 64), (8, 16, 2048, 32), (8, 16, 2048, 96), (2, 8, 4096, 256)]
    for batch, heads, length, dim in shapes[:2] if quick else shapes:
        q, k, v = (normal(batch, heads, length, dim, dtype=torch.float32) for _ in range(3))
        for causal in (False, True):
            backends = {"pytorch": SDPBackend.EFFICIENT_ATTENTION} | ({"math": SDPBackend.MATH} if length <= 2048 else {})
            race_backward(bench, "backward", f"B={batch} H={heads} S={length} D={dim}" + (" causal" if causal else ""), q, k, v, causal, backends)


def attention16(bench, quick, group="attention16", who="cudnn", backend=SDPBackend.CUDNN_ATTENTION):
    """bf16 and f16 attention beside cuDNN's, through PyTorch, or another peer's. Scores xN: q is that many times as large, so scores lie far apart."""
    shapes = [(2, 16, 8192, 128), (1, 16, 16384, 128), (8, 16, 2048, 128), (2, 16, 8192, 64), (8, 16, 2048, 64), (1, 8, 8192, 256)]
    cases = [(torch.bfloat16, *shape, 1) for shape in shapes] + [(torch.bfloat16, *shapes[0], 400)]
    if not quick:
        cases += [(torch.bfloat16, *shapes[0], 36), (torch.bfloat16, *shapes[3], 400)] + [(torch.float16, *shape, 1) for shape in shapes]
    for dtype, batch, heads, length, dim, spread in cases:
        q, k, v = (normal(batch, heads, length, dim, dtype=dtype) for _ in range(3))
        for causal in (False, True):
            name = f"{'f16' if dtype == torch.float16 else 'bf16'} B={batch} H={heads} S={length} D={dim}" + (" causal" if causal else "") + (f" scores x{spread}" if spread != 1 else "")
            race_attention(bench, group, name, q * spread, k, v, causal, {who: backend})


def flash16(bench, quick):
    """The same beside FlashAttention-2, the peer of kernels for compute capability 8.0 (ATTILE_CUDA_TENSOR_CORES=80)."""
    attention16(bench, quick, "flash16", "flash2", SDPBackend.FLASH_ATTENTION)


def split(bench, quick):
    """float32 by split TF32 (FLAG_ALLOW_SPLIT_TF32) beside this library's kernels without tensor cores (`ffma`). PyTorch's attention splits, too; its products do not."""
    allowed = dict(flags=attile.FLAG_ALLOW_SPLIT_TF32)
    shapes = [(2, 16, 8192, 64, 1), (2, 16, 8192, 128, 1), (1, 16, 8192, 256, 1)]
    if not quick:
        shapes += [(8, 16, 2048, 128, 1), (8, 16, 2048, 96, 1), (8, 16, 2048, 64, 1), (8, 16, 2048, 32, 1), (1, 4, 512, 128, 1), (2, 16, 8192, 128, 400)]
    for batch, heads, length, dim, spread in shapes:
        q, k, v = (normal(batch, heads, length, dim, dtype=torch.float32) for _ in range(3))
        q *= spread
        rows = [0, 1, length // 3, length // 2 + 1, length - 1]
        for causal in (False, True):
            name = f"attention B={batch} H={heads} S={length} D={dim}" + (" causal" if causal else "") + (f" scores x{spread}" if spread != 1 else "")
            outs = {side: torch.full_like(q, math.nan) for side in ("attile", "ffma")}
            call = lambda side, **more: bench.context.attention(q, k, v, out=outs[side], mask="causal_top_left" if causal else None, **more)

            def peer():
                outs["pytorch"] = sdpa(SDPBackend.EFFICIENT_ATTENTION, q, k, v, is_causal=causal)

            expected = attention_rows(q, k, v, causal, rows, heads - 1)
            errors = {side: (lambda side=side: relative(outs[side][0, heads - 1, rows], expected)) for side in ("attile", "ffma", "pytorch")}
            bench.case("split", name, {"attile": lambda: call("attile", **allowed), "ffma": lambda: call("ffma"), "pytorch": peer},
                       4.0 * batch * heads * length * length * dim * (0.5 if causal else 1), "TFLOP/s", errors, call("attile", query=True, **allowed).kernel)
    shapes = [(1, n, n, n, "nn") for n in (1024, 4096, 8192)]
    if not quick:
        shapes += [(1, 4096, 4096, 4096, layout) for layout in ("nt", "tn", "tt")] + [(1, n, n, n, "nn") for n in (256, 512, 2048)]
        shapes += [(1, 1000, 1001, 1003, "nn"), (1, 4096, 4096, 64, "nn"), (1, 16, 4096, 4096, "nn"), (1, 128, 4096, 4096, "nn"), (64, 256, 256, 256, "nn"), (512, 128, 128, 128, "nn")]
    stored = lambda batch, rows, cols, order: normal(batch, cols, rows, dtype=torch.float32).transpose(1, 2) if order == "t" else normal(batch, rows, cols, dtype=torch.float32)
    for batch, m, n, k, layout in shapes:
        a, b = stored(batch, m, k, layout[0]), stored(batch, k, n, layout[1])
        outs = {side: torch.full((batch, m, n), math.nan, device=DEVICE) for side in ("attile", "ffma")}
        call = lambda side, **more: bench.context.gemm(a, b, out=outs[side], **more)
        errors = {side: (lambda side=side: relative(outs[side][0, :64], a[0, :64].double() @ b[0].double())) for side in outs}
        name = "gemm " + (f"{m}x{n}x{k}" if batch == 1 else f"{batch} x {m}x{n}x{k}") + f" {layout}"
        bench.case("split", name, {"attile": lambda: call("attile", **allowed), "ffma": lambda: call("ffma")}, 2.0 * batch * m * n * k, "TFLOP/s", errors,
                   call("attile", query=True, **allowed).kernel)


def exact(bench, quick):
    """float64 and float32 with exact sums (FLAG_EXACT_PRODUCTS) beside this library's ordinary products and cuBLAS's."""
    for dtype in (torch.float64, torch.float32):
        for n in (1024, 4096) if quick else (1024, 2048, 4096, 8192):
            a, b = (torch.randn(n, n, device=DEVICE, dtype=dtype) for _ in range(2))
            outs = {who: torch.full((n, n), math.nan, device=DEVICE, dtype=dtype) for who in ("attile", "ordinary", "cublas")}
            expected = a[:4].double() @ b.double()
            call = lambda who, **more: bench.context.gemm(a, b, out=outs[who], **more)
            calls = {"attile": lambda: call("attile", flags=attile.FLAG_EXACT_PRODUCTS), "ordinary": lambda: call("ordinary"), "cublas": lambda: torch.matmul(a, b, out=outs["cublas"])}
            errors = {who: (lambda who=who: relative(outs[who][:4], expected)) for who in calls} if dtype == torch.float32 else {}
            bench.case("exact", f"{n}x{n}x{n} {str(dtype).split('.')[1]}", calls, 2.0 * n ** 3, "TFLOP/s", errors, call("attile", query=True, flags=attile.FLAG_EXACT_PRODUCTS).kernel)


def features(bench, group="features", dtype=torch.float32, batch=8, heads=16, heads_kv=4, length=2048, dim=64):
    """Variations, each alternating with the plain case, since a card at its power limit slows as it warms up: the ratio is what a feature leaves of the plain rate."""
    q, k, v = (uniform(batch, heads, length, dim) if dtype == torch.float32 else normal(batch, heads, length, dim, dtype=dtype) for _ in range(3))
    flops, out, plain_out = 4.0 * batch * heads * length * length * dim, torch.empty_like(q), torch.empty_like(q)
    bias, shown = uniform(1, heads, length, length).to(dtype), torch.rand((1, 1, length, length), device=DEVICE) < 0.9
    slopes, lengths = torch.linspace(0.01, 0.5, heads, device=DEVICE), torch.full((batch,), length, dtype=torch.int32, device=DEVICE)
    blhd, grouped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)], [x[:, :heads_kv].contiguous() for x in (k, v)]
    packed = [x.transpose(1, 2).reshape(1, batch * length, heads, dim).transpose(1, 2) for x in (q, k, v)]
    starts, packed_out = torch.arange(0, batch * length + 1, length, dtype=torch.int32, device=DEVICE), torch.empty_like(packed[0])
    calls = {"plain": ((q, k, v), {}), "strided BLHD": (blhd, {}), f"GQA {heads}/{heads_kv}": ((q, *grouped), {}), "key lengths": ((q, k, v), dict(key_lengths=lengths)),
             "packed sequences": (packed, dict(out=packed_out, cu_len_q=starts, cu_len_k=starts, max_len_q=length, max_len_k=length)), "bias": ((q, k, v), dict(bias=bias)),
             "boolean mask": ((q, k, v), dict(allowed=shown)), "ALiBi": ((q, k, v), dict(alibi_slopes=slopes)), "softcap": ((q, k, v), dict(softcap=30.0))}
    rows, head = [0, length // 2 + 1, length - 1], heads - 1  # that are checked, of the first entry
    far = (torch.arange(length, device=DEVICE) - torch.tensor(rows, device=DEVICE)[:, None]).abs()
    change = {"bias": lambda s: s + bias[0, head, rows].double(), "boolean mask": lambda s: s.masked_fill(~shown[0, 0, rows], -math.inf),
              "ALiBi": lambda s: s - slopes[head].double() * far, "softcap": lambda s: 30 * torch.tanh(s / 30)}
    for name, (tensors, options) in calls.items():
        options, g = dict(dict(out=out), **options), heads_kv - 1 if "GQA" in name else head
        expected = torch.softmax(change.get(name, lambda s: s)(q[0, head, rows].double() @ k[0, g].double().T / math.sqrt(dim)), -1) @ v[0, g].double()
        options["out"].fill_(math.nan)
        plain = {} if name == "plain" else {"plain": lambda: bench.context.attention(q, k, v, out=plain_out)}
        bench.case(group, f"B={batch} H={heads} S={length} D={dim} {name}", {"attile": lambda: bench.context.attention(*tensors, **options)} | plain, flops, "TFLOP/s",
                   {"attile": lambda: relative(options["out"][0, head, rows], expected)})


def features16(bench, quick):
    features(bench, "features16", torch.bfloat16, 8, 32, 8, 4096, 128)


def decode(bench, quick):
    for batch, heads, heads_kv, keys, dim in ((1, 32, 8, 4096, 128), (1, 32, 8, 32768, 128), (1, 32, 32, 131072, 128), (16, 32, 8, 4096, 128)):
        q, k, v = uniform(batch, heads, 1, dim), uniform(batch, heads_kv, keys, dim), uniform(batch, heads_kv, keys, dim)
        race_decode(bench, "decode", "", q, k, v, "pytorch", SDPBackend.EFFICIENT_ATTENTION)


def decode16(bench, quick):
    for batch, keys in ((1, 32768), (16, 4096), (64, 4096)):
        q, k, v = (normal(batch, heads, rows, 128, dtype=torch.bfloat16) for heads, rows in ((32, 1), (8, keys), (8, keys)))
        race_decode(bench, "decode16", "bf16 ", q, k, v, "cudnn", SDPBackend.CUDNN_ATTENTION)


def host(bench, quick):
    """Arrays in host memory, from the call to the result in place, by the host's clock; GB/s of everything copied. `copy`: the runtime's copies of the same arrays,
    both directions at once; `compute`: the same call with everything on the device. The larger of their times is the least there is."""
    batch, heads, length, dim = (100 if quick else 500), 1, 2048, 64
    on_device = [uniform(batch, heads, length, dim) for _ in range(4)]
    some = [0, batch // 2, batch - 1]
    expected = [attention_rows(*(x[b:b + 1] for x in on_device[:3]), False, [0, 1000, length - 1], 0) for b in some]
    error = lambda out: max(relative(out[b, 0, [0, 1000, length - 1]].to(DEVICE), e) for b, e in zip(some, expected))
    into, back = torch.cuda.Stream(), torch.cuda.Stream()
    for kind in ("pinned", "pageable"):
        q, k, v = (x.cpu().pin_memory() if kind == "pinned" else x.cpu() for x in on_device[:3])
        out, spare = torch.full_like(q, math.nan, pin_memory=kind == "pinned"), torch.empty_like(on_device[3])

        def copies(out=torch.full_like(out, 0, pin_memory=kind == "pinned"), arrays=(q, k, v), spare=spare, is_pinned=kind == "pinned"):
            def send():
                with torch.cuda.stream(into):
                    for array, place in zip(arrays, on_device):
                        place.copy_(array, non_blocking=True)

            sender = threading.Thread(target=send)  # a copy of pageable memory keeps its thread
            send() if is_pinned else sender.start()
            with torch.cuda.stream(back):
                out.copy_(spare, non_blocking=True)
            if not is_pinned:
                sender.join()
            torch.cuda.synchronize()

        calls = {"attile": lambda: bench.context.attention(q, k, v, out=out), "copy": copies,
                 "compute": lambda: bench.context.attention(*on_device[:3], out=on_device[3])}
        kernel = bench.context.attention(q, k, v, out=out, query=True).kernel
        bench.case("host", f"{kind} B={batch} H={heads} S={length} D={dim}", calls, 4.0 * q.numel() * q.element_size(), "GB/s", {"attile": lambda: error(out)}, kernel, True)


def memory(bench, quick):
    x = torch.empty((1 << 13, 1 << 16), device=DEVICE).uniform_(-3, 3)  # 2 GiB
    y, total = torch.empty_like(x), torch.empty((1 << 13, 1), device=DEVICE)
    size = 4.0 * x.numel()
    bench.case("memory", "copy of 2 GiB, the ceiling", {"pytorch": lambda: y.copy_(x)}, 2 * size, "GB/s")
    for axis, shape in ((1, (1 << 13, 1)), (0, (1, 1 << 16))):
        total = torch.empty(shape, device=DEVICE)
        bench.case("memory", f"reduce sum of 8192x65536 over axis {axis}", {"attile": lambda: bench.context.reduce(x, "sum", axis, out=total), "pytorch": lambda: torch.sum(x, axis)}, size, "GB/s",
                   {"attile": lambda: relative(total.flatten()[:64], (x[:64] if axis else x[:, :64]).double().sum(axis))})
    for columns in (1 << 16, 1 << 10):
        a, b = x.view(-1, columns), y.view(-1, columns)
        bench.case("memory", f"softmax of {a.shape[0]}x{columns}", {"attile": lambda: bench.context.softmax(a, 1, out=b), "pytorch": lambda: torch.softmax(a, 1)}, 2 * size, "GB/s",
                   {"attile": lambda: relative(b[:16], torch.softmax(a[:16].double(), 1))})


def main():
    groups = {"gemm": gemm, "gemm16": gemm16, "attention": attention, "attention16": attention16, "backward": backward, "backward16": backward16, "flash16": flash16, "features16": features16, "decode": decode, "decode16": decode16, "host": host, "memory": memory, "split": split, "exact": exact}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", default=",".join(groups))
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--beside", help="another backend of Attile to race against, instead of the peers")
    parser.add_argument("--beside-library", metavar="FILE", help="the libattile of another build, whose backend --beside names")
    parser.add_argument("--beside-package", metavar="FOLDER", help="the Python package that belongs to it; by default this one's")
    parser.add_argument("--commit", default=command("git", "rev-parse", "--short", "HEAD"), help="the commit measured, where git cannot tell")
    parser.add_argument("--build", default="", help="how libattile was built, e.g. 'CUDA 11.8, compute_61 PTX'")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")

    if options.beside_library and not options.beside:
        parser.error("--beside-library needs --beside, the backend's name")
    other = other_build(options.beside_library, options.beside_package) if options.beside_library else attile
    bench = Bench(options.rounds, options.burst, options.backend, options.beside, other)
    smi = command("nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit", "--format=csv,noheader").split("\n")[0].split(", ")
    facts = dict(zip(("device", "driver", "clock_sm", "clock_sm_max", "power_limit"), smi), torch=torch.__version__, cuda=torch.version.cuda,
                 commit=options.commit, build=options.build, date=datetime.date.today().isoformat(), rounds=options.rounds, burst=options.burst, attile=attile.version())
    print("; ".join(f"{key} {value}" for key, value in facts.items()), flush=True)
    for group in options.groups.split(","):
        if group not in groups:
            sys.exit(f"unknown group '{group}'; groups are {', '.join(groups)}")
        groups[group](bench, options.quick)
        torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(dict(facts=facts, rows=bench.rows), file, indent=1)


if __name__ == "__main__":
    main()

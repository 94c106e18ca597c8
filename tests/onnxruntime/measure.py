# SPDX-License-Identifier: Apache-2.0
"""Times nodes by Attile and by ONNX Runtime's CPU provider, in turn in one process, one thread each: medians of processor time.

usage: measure.py LIBRARY [ROUNDS]
Prints the rows of the table in docs/guide-onnxruntime.md.
"""
import statistics
import sys
import time

import numpy as np
from models import MICROSOFT, Case, Draw

import sessions


def rows():
    """Names and cases."""
    draw = Draw(0)

    def attention(batch, heads, heads_kv, rows, keys, dim, causal, dtype="float32"):
        arrays = {"q": draw.array(batch, heads, rows, dim, dtype=dtype), "k": draw.array(batch, heads_kv, keys, dim, dtype=dtype),
                  "v": draw.array(batch, heads_kv, keys, dim, dtype=dtype)}
        return Case("Attention", arrays, ["y"], {"is_causal": int(causal)}, opset=23)

    def product(*shapes, dtype="float32", constants=()):
        a, b = (draw.array(*shape, dtype=dtype) for shape in shapes)
        return Case("MatMul", {"a": a, "b": b}, ["y"], opset=13, constants=constants)

    for length in (512, 1024, 2048):
        yield f"Attention, {length} rows and keys, 4 x 8 heads of 64", attention(4, 8, 8, length, length, 64, False)
        yield f"Attention, {length} rows and keys, 4 x 8 heads of 64, causal", attention(4, 8, 8, length, length, 64, True)
    yield "Attention, 1 row, 4096 keys, 32 heads, 8 of keys, of 128", attention(1, 32, 8, 1, 4096, 128, False)
    yield "Attention, 1024 rows and keys, 4 x 8 heads of 64, float16", attention(4, 8, 8, 1024, 1024, 64, False, "float16")
    hidden = {name: draw.array(4, 512, 768) for name in "qkv"}
    yield "MultiHeadAttention, 512 rows and keys, 4 x 12 heads of 64", Case("MultiHeadAttention", hidden, ["y"], {"num_heads": 12}, MICROSOFT)
    cache = {"past_k": draw.array(1, 8, 2048, 64), "past_v": draw.array(1, 8, 2048, 64)}
    token = {"q": draw.array(1, 1, 32 * 64), "k": draw.array(1, 1, 8 * 64), "v": draw.array(1, 1, 8 * 64), **cache,
             "seqlens": np.array([2047], "int32"), "total": np.array(2048, "int32")}
    yield ("GroupQueryAttention, 1 row, 2048 keys, 32 heads, 8 of keys, of 64",
           Case("GroupQueryAttention", token, ["y", "present_k", "present_v"], {"num_heads": 32, "kv_num_heads": 8}, MICROSOFT))
    for size in (16, 128, 512, 1024, 2048):
        yield f"MatMul, {size} x {size} x {size}", product([size, size], [size, size])
    yield "MatMul, 1 x 4096 x 4096", product([1, 4096], [4096, 4096])
    yield "MatMul, 8 x 128 x 768, by 768 x 3072", product([8, 128, 768], [768, 3072])
    for size in (1, 16, 512):
        yield f"MatMul, {size} x 1024 by constant weights, 1024 x 4096", product([size, 1024], [1024, 4096], constants=("b",))
    yield "MatMul, 48 x (512 x 64 by 64 x 512)", product([4, 12, 512, 64], [4, 12, 64, 512])
    yield "MatMul, 1024 x 1024 x 1024, float64", product([1024, 1024], [1024, 1024], dtype="float64")
    yield "Softmax, 16384 rows of 512", Case("Softmax", {"x": draw.array(32, 512, 512)}, ["y"], opset=13)


def prepared(session, feeds):
    """A function that runs a session on memory that is bound to it, so that no call of Python's is measured."""
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return lambda: session.run_with_iobinding(binding)


def seconds(run, calls):
    """Of one call."""
    before = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - before) / calls


def main():
    sessions.register(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    print("| operator | CPU provider | Attile | ratio |\n|---|---|---|---|")
    for name, case in rows():
        model = case.model()
        ours = sessions.with_attile(model)
        sessions.expect(sessions.claimed(ours) == [case.op], f"{name}: Attile does not have it")
        runs = [prepared(session, case.feeds()) for session in (sessions.with_cpu(model), ours)]
        calls = max(1, int(5e-3 / max(seconds(run, 2) for run in runs)))  # Short ones are timed together.
        times = [[seconds(run, calls) for run in runs] for _ in range(rounds)]
        cpu, attile = (statistics.median(column) for column in zip(*times))
        print(f"| {name} | {cpu * 1e3:.3f} | {attile * 1e3:.3f} | {cpu / attile:.2f} |", flush=True)


if __name__ == "__main__":
    main()

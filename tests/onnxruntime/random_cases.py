# SPDX-License-Identifier: Apache-2.0
"""Random nodes of one operator by Attile: within rounding the outputs of ONNX Runtime's CPU provider, and of the operators' formulas.
Those are for Attention, of which the CPU provider does not take masks of one row for many, and lets rows see more keys than ONNX says where
K is not as long as Q; and for float16 and bfloat16, of which it lacks some operators. In float32 and float64 both must be equal.

usage: random_cases.py LIBRARY OPERATOR COUNT [SEED]     OPERATOR: a function of models.Draw
"""
import collections
import sys

import numpy as np

import models
import sessions
from models import to_bfloat16

# Largest difference, relative to the output's largest element (1 at least): sums of up to 64 products of numbers of size 1.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}


def difference(case, found, expected):
    """What is wrong with Attile's outputs, or None."""
    for name, output, right in zip(case.outputs, found, expected):
        if output.shape != right.shape or output.dtype != right.dtype:
            return f"{name} is {output.dtype} {output.shape}, expected {right.dtype} {right.shape}"
        valid = np.broadcast_to(case.valid.get(name, True), right.shape)
        tolerance = TOLERANCE[case.dtype()]
        output, right = output[valid].astype(np.float64), right[valid].astype(np.float64)
        if output.size == 0:
            continue
        error = np.max(np.abs(output - right)) / max(1, np.max(np.abs(right)))
        if not error <= tolerance:
            return f"{name} differs by {error} of its largest element, expected at most {tolerance}"
    return None


def heads_of(array, count):
    """[B, L, H D] as [B, H, L, D], in float64."""
    array = array.astype(np.float64)
    return array if array.ndim == 4 else array.reshape(*array.shape[:2], count, -1).swapaxes(1, 2)


def stored(case, array):
    """Numbers of the case's type, in float64."""
    return (to_bfloat16(array) if case.inner else array.astype(case.dtype())).astype(np.float64)


def attend(scores, hidden, v, sink=None):
    """Weighted sums of v; hidden: pairs that see nothing. sink: [H], of a key without a value."""
    scores = np.where(hidden, -np.inf, scores)
    most = scores.max(axis=3, keepdims=True)
    most = np.where(np.isinf(most), 0, most)
    weights = np.exp(scores - most)
    total = weights.sum(axis=3, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink[:, None, None] - most)
    return weights / np.where(total == 0, 1, total) @ v


def scores_of(case, q, k):
    scale = case.attributes.get("scale")
    scores = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else np.float64(np.float32(scale)))
    cap = case.attributes.get("softcap", 0)
    return cap * np.tanh(scores / cap) if cap else scores


def together(heads):
    """[B, H, L, D] as [B, L, H D]."""
    return heads.swapaxes(1, 2).reshape(heads.shape[0], heads.shape[2], -1)


def multi_head_attention(case):
    """The outputs of a case of MultiHeadAttention by its definition, in float64; of its type."""
    given, heads = case.inputs, case.attributes["num_heads"]
    hidden = given["q"].shape[2]
    projected = []
    for at, name in enumerate("qkv"):
        array = given[name].astype(np.float64)
        if given["bias"] is not None:
            array = stored(case, array + given["bias"][at * hidden:(at + 1) * hidden])
        projected.append(heads_of(array, heads))
    q, *caches = projected
    past = 0 if given["past_k"] is None else given["past_k"].shape[2]
    if past:
        caches = [np.concatenate([given["past_" + name].astype(np.float64), cache], axis=2) for name, cache in zip("kv", caches)]
    k, v = caches
    scores = scores_of(case, q, k)
    if given["attention_bias"] is not None:
        scores = scores + given["attention_bias"]
    padding = given["padding"]
    if padding is not None:
        scores = scores + np.where(padding > 0, 0.0, -10000.0).reshape(len(padding), 1, -1, padding.shape[-1])
    row, key = np.ogrid[:scores.shape[2], :scores.shape[3]]
    y = together(attend(scores, (key > row + past) & bool(case.attributes["unidirectional"]), v))
    return [output.astype(given["q"].dtype) for output in (y, *caches)][:len(case.outputs)]


def rotate(case, x, first):
    """Rows of one entry, [H, L, D], by their positions from `first` on."""
    pairs = case.inputs["cos"].shape[1]
    at = slice(first, first + x.shape[1])
    cosine, sine = (case.inputs[name][at].astype(np.float64) for name in ("cos", "sin"))
    if case.attributes["rotary_interleaved"]:
        one, other = np.s_[..., 0:2 * pairs:2], np.s_[..., 1:2 * pairs:2]
    else:
        one, other = np.s_[..., :pairs], np.s_[..., pairs:2 * pairs]
    found = x.copy()
    found[one], found[other] = x[one] * cosine - x[other] * sine, x[other] * cosine + x[one] * sine
    return stored(case, found)


def group_query_attention(case):
    """The outputs of a case of GroupQueryAttention by its definition, in float64; of its type."""
    given, attributes = case.inputs, case.attributes
    heads_q, heads = attributes["num_heads"], attributes["kv_num_heads"]
    if given["k"] is None:
        q, k, v = np.split(heads_of(given["q"], heads_q + 2 * heads), [heads_q, heads_q + heads], axis=1)
    else:
        q, k, v = heads_of(given["q"], heads_q), heads_of(given["k"], heads), heads_of(given["v"], heads)
    total, rows = int(given["total"]), q.shape[2]
    capacity = 0 if given["past_k"] is None else given["past_k"].shape[2]
    caches = [np.zeros((len(q), heads, max(capacity, total), q.shape[3])) for _ in range(2)]
    results = []
    sink = np.zeros(heads_q) if attributes.get("smooth_softmax") else None
    if given["head_sink"] is not None:
        sink = given["head_sink"].astype(np.float64)
    for entry, last in enumerate(given["seqlens"]):
        keys = int(last) + 1
        past = 0 if rows == total else keys - rows
        now = [q[entry], k[entry]]
        if attributes.get("do_rotary"):
            now = [rotate(case, x, past) for x in now]
        for cache, name, fresh in zip(caches, "kv", (now[1], v[entry])):
            if past:
                cache[entry, :, :past] = given["past_" + name][entry, :, :past]
            cache[entry, :, past:past + rows] = fresh
        all_k, all_v = (np.repeat(cache[entry:entry + 1, :, :total], heads_q // heads, axis=1) for cache in caches)
        scores = scores_of(case, now[0][None], all_k)
        bias = given["attention_bias"]
        if bias is not None:
            scores = scores + bias[entry if len(bias) > 1 else 0]
        row, key = np.ogrid[:rows, :total]
        hidden = (key >= keys) | (key > row + past)
        if attributes.get("local_window_size", -1) > 0:
            hidden |= key <= row + past - attributes["local_window_size"]
        results.append(attend(scores, hidden, all_v, sink))
    return [output.astype(given["q"].dtype) for output in (together(np.concatenate(results)), *caches)]


def attention(case):
    """The outputs of a case of Attention by ONNX's formula, in float64, of the type of Q."""
    given, attributes = case.inputs, case.attributes
    q = heads_of(given["q"], attributes.get("q_num_heads"))
    caches = []
    for name in "kv":
        heads = heads_of(given[name], attributes.get("kv_num_heads"))
        past = given["past_" + name]
        caches.append(heads if past is None else np.concatenate([past.astype(np.float64), heads], axis=2))
    k, v = (np.repeat(cache, q.shape[1] // cache.shape[1], axis=1) for cache in caches)
    scores = scores_of(case, q, k)
    mask = given["mask"]
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        missing = scores.shape[3] - added.shape[-1]
        scores = scores + np.pad(added, [(0, 0)] * (added.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    row, key = np.ogrid[:scores.shape[2], :scores.shape[3]]
    past = 0 if given["past_k"] is None else given["past_k"].shape[2]
    hidden = False
    lengths = given.get("lengths")
    if lengths is not None:
        lengths = lengths[:, None, None, None]
        hidden, past = key >= lengths, lengths - scores.shape[2]
    if attributes["is_causal"]:
        hidden = hidden | (key > row + past)
    y = attend(scores, hidden, v)
    if given["q"].ndim == 3:
        y = y.swapaxes(1, 2).reshape(*given["q"].shape[:2], -1)
    return [output.astype(given["q"].dtype) for output in (y, *caches)][:len(case.outputs)]


def matmul(case):
    return [np.matmul(*(case.inputs[name].astype(np.float64) for name in "ab")).astype(case.inputs["a"].dtype)]


def gemm(case):
    a, b = (case.inputs[name].astype(np.float64) for name in "ab")
    a, b = a.T if case.attributes["transA"] else a, b.T if case.attributes["transB"] else b
    y, c = case.attributes.get("alpha", 1.0) * (a @ b), case.inputs["c"]
    if c is not None:
        y = y + case.attributes.get("beta", 1.0) * c.astype(np.float64)
    return [y.astype(case.inputs["a"].dtype)]


def softmax(case):
    x = case.inputs["x"].astype(np.float64)
    old = case.opset < 13
    axis = case.attributes.get("axis", 1 if old else -1) % x.ndim
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1) if old else x
    weights = np.exp(rows - rows.max(axis=1 if old else axis, keepdims=True))
    return [(weights / weights.sum(axis=1 if old else axis, keepdims=True)).reshape(x.shape).astype(case.inputs["x"].dtype)]


FORMULAS = {"matmul": matmul, "gemm": gemm, "softmax": softmax, "attention": attention, "multi_head_attention": multi_head_attention,
            "group_query_attention": group_query_attention}


def main():
    library, operator, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    seeds = range(count) if len(sys.argv) < 5 else [int(sys.argv[4])]
    sessions.register(library)
    counts = collections.Counter()
    for seed in seeds:
        case = getattr(models.Draw(seed), operator)()
        model = case.model()
        session = sessions.with_attile(model)
        sessions.expect(sessions.claimed(session) == [case.op], f"seed {seed}: Attile does not have {case}")
        found = session.run(None, case.feeds())
        formula = FORMULAS[operator](case) if operator in FORMULAS else None
        has_cpu = operator != "attention" and case.dtype() in ("float32", "float64")
        expected = sessions.with_cpu(model).run(None, case.feeds()) if has_cpu else formula
        wrong = difference(case, found, expected)
        if has_cpu and formula is not None and difference(case, formula, expected):
            wrong = f"the CPU provider and the formula: {difference(case, formula, expected)}"
        counts["wrong" if wrong else "equal"] += 1
        if wrong:
            print(f"seed {seed}: {case}: {wrong}")
    print(f"{operator}: {dict(counts)}")
    sessions.expect(counts["wrong"] == 0 and counts["equal"] == len(seeds), "outputs differ")


if __name__ == "__main__":
    main()

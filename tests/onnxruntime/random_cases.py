# SPDX-License-Identifier: Apache-2.0
"""Random nodes of one operator by Attile: within rounding the outputs of ONNX Runtime's CPU provider, and of ONNX's formula for Attention.
The CPU provider does not take masks of one row for many, and lets rows see more keys than ONNX says where K is not as long as Q.

usage: random_cases.py LIBRARY OPERATOR COUNT [SEED]     OPERATOR: a function of models.Draw
"""
import collections
import sys

import numpy as np

import models
import sessions

# Largest difference, relative to the output's largest element (1 at least): sums of up to 64 products of numbers of size 1.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3}


def difference(case, found, expected):
    """What is wrong with Attile's outputs, or None."""
    for name, output, right in zip(case.outputs, found, expected):
        if output.shape != right.shape or output.dtype != right.dtype:
            return f"{name} is {output.dtype} {output.shape}, expected {right.dtype} {right.shape}"
        valid = np.broadcast_to(case.valid.get(name, True), right.shape)
        tolerance = TOLERANCE[str(right.dtype)]
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
    scores = q @ k.swapaxes(2, 3) * np.float64(np.float32(attributes.get("scale", q.shape[3] ** -0.5)))
    cap = attributes.get("softcap", 0)
    if cap:
        scores = cap * np.tanh(scores / cap)
    mask = given["mask"]
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        missing = scores.shape[3] - added.shape[-1]
        scores = scores + np.pad(added, [(0, 0)] * (added.ndim - 1) + [(0, missing)], constant_values=-np.inf)
    if attributes["is_causal"]:
        past = 0 if given["past_k"] is None else given["past_k"].shape[2]
        row, key = np.ogrid[:scores.shape[2], :scores.shape[3]]
        scores = np.where(key <= row + past, scores, -np.inf)
    most = scores.max(axis=3, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(most), 0, most))
    total = weights.sum(axis=3, keepdims=True)
    y = weights / np.where(total == 0, 1, total) @ v
    if given["q"].ndim == 3:
        y = y.swapaxes(1, 2).reshape(*given["q"].shape[:2], -1)
    return [output.astype(given["q"].dtype) for output in (y, *caches)][:len(case.outputs)]


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
        expected = attention(case) if operator == "attention" else sessions.with_cpu(model).run(None, case.feeds())
        wrong = difference(case, found, expected)
        counts["wrong" if wrong else "equal"] += 1
        if wrong:
            print(f"seed {seed}: {case}: {wrong}")
    print(f"{operator}: {dict(counts)}")
    sessions.expect(counts["wrong"] == 0 and counts["equal"] == len(seeds), "outputs differ")


if __name__ == "__main__":
    main()

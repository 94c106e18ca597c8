# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases of the operators that Attile has, by a session with Attile before ONNX Runtime's CPU provider.

usage: node_cases.py LIBRARY LEAST_CLAIMED
Every case must give the outputs that ONNX expects, within the case's own tolerance. At least LEAST_CLAIMED cases must have a node that
Attile has, or the test checks little.
"""
import collections
import re
import sys
import warnings

import numpy as np
import onnx

import sessions

NAMES = re.compile(r"test_(attention|matmul|gemm|softmax)(?!integer)")
# ONNX's tolerance for float16 is 1e-3, about one unit in the last place, and what ONNX expects was computed in float16. A sum in float32
# may round to a neighbour; after another rounding of the weights, to the next one. ONNX Runtime's own provider fails cases for it too.
ULPS = 2


def cases():
    # Cases are made as the module is read; some of other operators compute with overflow on purpose.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return [case for case in collect_testcases(None) if NAMES.match(case.name)]


def nearness(output, right, case):
    """"equal": within ONNX's tolerance. "rounded": float16, within ULPS units in the last place. Else "wrong"."""
    wide, wide_right = output.astype(np.float64), right.astype(np.float64)
    if np.allclose(wide, wide_right, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return "equal"
    if output.dtype != np.float16 or not np.all(np.isfinite(right)):
        return "wrong"
    return "rounded" if np.all(np.abs(wide - wide_right) <= ULPS * np.spacing(np.abs(right)).astype(np.float64)) else "wrong"


def compare(session, case):
    """The worst nearness of the outputs, and what is wrong."""
    worst = "equal"
    for inputs, expected in case.data_sets:
        names = [value.name for value in session.get_inputs()]
        found = session.run(None, dict(zip(names, inputs)))
        for value, output, right in zip(case.model.graph.output, found, expected):
            output, right = np.asarray(output), np.asarray(right)
            if output.shape != right.shape or output.dtype != right.dtype:
                return "wrong", f"{value.name} is {output.dtype} {output.shape}, expected {right.dtype} {right.shape}"
            near = nearness(output, right, case)
            if near == "wrong":
                return near, f"{value.name} differs by {np.max(np.abs(output.astype(np.float64) - right.astype(np.float64)))}"
            worst = near if near == "rounded" else worst
    return worst, ""


def cpu_answer(case):
    """How near ONNX Runtime's own provider comes to what a case expects; "refused" if it does not run it."""
    try:
        return compare(sessions.with_cpu(case.model.SerializeToString()), case)[0]
    except Exception:
        return "refused"


def main():
    sessions.register(sys.argv[1])
    least = int(sys.argv[2])
    counts, reasons = collections.Counter(), collections.Counter()
    failed = []
    for case in cases():
        try:
            session, refusals = sessions.with_attile_and_reasons(case.model.SerializeToString())
            claimed = sessions.claimed(session)
            near, wrong = compare(session, case)
        except Exception as error:  # ONNX Runtime's exceptions have no common base.
            claimed, refusals, near, wrong = [], ["ONNX Runtime refuses the model"], "wrong", str(error).splitlines()[0]
        if not claimed:
            reasons.update(set(refusals) or {"it has no node of these operators"})
        if near == "wrong" and not claimed and cpu_answer(case) in ("wrong", "refused"):
            counts["not by ONNX Runtime either"] += 1
            continue
        kind = "claimed" if claimed else "left"
        counts[kind] += 1
        counts[f"{kind}, {near}"] += 1
        if near == "wrong":
            failed.append(f"{case.name} ({kind}): {wrong}")
    for line in failed:
        print(line)
    print(f"onnx {onnx.__version__}, ONNX Runtime {sessions.onnxruntime.__version__}: {dict(counts)}")
    for reason, count in reasons.most_common():
        print(f"  {count} not claimed: {reason}")
    sessions.expect(not failed, f"{len(failed)} cases failed")
    sessions.expect(counts["claimed"] >= least, f"{counts['claimed']} cases were claimed, expected at least {least}")


if __name__ == "__main__":
    main()

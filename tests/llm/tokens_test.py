#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tokens and the text of examples/llm are those of the oracle.

usage: tokens_test.py MAKE_MODEL COMMAND... [--narrow] [--few]      COMMAND... FOLDER PROMPT OPTIONS runs the program
--narrow: bfloat16 arithmetic, too; --few: eight tokens at most, none drawn, and no text, where a device is slow
"""
import pathlib
import subprocess
import sys
import tempfile
import time

import oracle

SHAPES = {  # Options of make_model.py: grouped heads; one head of keys for all and a tied output; as many as there are queries, narrow weights.
    "grouped": ["--seed", "1"],
    "one_kv": ["--hidden", "48", "--heads", "6", "--heads-kv", "1", "--inner", "100", "--layers", "2", "--tied", "--vocab", "400", "--seed", "2"],
    "bf16": ["--hidden", "32", "--heads", "2", "--heads-kv", "2", "--inner", "64", "--layers", "1", "--dtype", "BF16", "--vocab", "300", "--seed", "3"],
    "f16": ["--hidden", "40", "--heads", "4", "--heads-kv", "4", "--inner", "36", "--layers", "2", "--dtype", "F16", "--vocab", "310", "--seed", "4"],
}
LONG = "the quick brown fox jumps over the lazy dog, and " * 3 + "it does so again."  # More tokens than a page has keys.
CASES = [  # Shape, prompt, tokens, options of the program with what they mean to the oracle.
    ("grouped", "abba cabd é zz", 60, [], {}),
    ("grouped", "", 20, [], {}),
    ("grouped", " two  spaces", 10, [], {}),
    ("grouped", LONG, 20, [], {}),
    ("grouped", "日本 \t\U0001f600", 10, [], {}),
    ("grouped", "Draw", 60, ["-t", "1.0", "-p", "0.9", "-s", "7"], {"temperature": 1.0, "top_p": 0.9, "seed": 7}),
    ("grouped", "Draw", 40, ["-t", "0.7", "-p", "0.95", "-s", "123456789"], {"temperature": 0.7, "top_p": 0.95, "seed": 123456789}),
    ("one_kv", "Once upon a time", 80, [], {}),
    ("one_kv", "Once upon a time", 40, ["-t", "1.3", "-p", "0.5", "-s", "0"], {"temperature": 1.3, "top_p": 0.5, "seed": 0}),
    ("bf16", "abc", 40, [], {}),
    ("f16", "abc", 40, [], {}),
]
NARROW = [("grouped", "abba", 12, ["-b"], {}), ("bf16", "abc", 20, ["-b"], {})]


def run(command, *arguments):
    done = subprocess.run([*command, *arguments], capture_output=True, timeout=120)
    if done.returncode or done.stderr:
        sys.exit(f"{arguments}: exit code {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def check(command, folder, prompt, count, options, meaning, margin_wanted, model, writes_text=True):
    tokenizer = oracle.Tokenizer(folder)
    expected, margin = oracle.generate(model, tokenizer, prompt, count, **meaning)
    if not margin > margin_wanted:
        sys.exit(f"{folder.name} {prompt!r} {options}: a decision is as close as {margin:.1e}, so that this case proves nothing; choose another seed")
    tokens = [int(line) for line in run(command, folder, prompt, "-n", str(count), "-i", *options).split()]
    if tokens != expected:
        sys.exit(f"{folder.name} {prompt!r} {options}: the tokens are\n{tokens}, the oracle's are\n{expected}")
    text = run(command, folder, prompt, "-n", str(count), *options) if writes_text else tokenizer.decode(expected) + b"\n"
    if text != tokenizer.decode(expected) + b"\n":
        sys.exit(f"{folder.name} {prompt!r} {options}: the text is\n{text}, the oracle's is\n{tokenizer.decode(expected)}")
    return len(tokens), margin


def main():
    make_model, command = sys.argv[1], sys.argv[2:]
    start, narrow, few = time.monotonic(), "--narrow" in command, "--few" in command
    command = [word for word in command if word not in ("--narrow", "--few")]
    cases = [(shape, prompt, min(count, 8), *rest) for shape, prompt, count, *rest in CASES if not rest[0]] if few else CASES
    with tempfile.TemporaryDirectory() as work:
        for shape, options in SHAPES.items():
            subprocess.run([sys.executable, make_model, pathlib.Path(work) / shape, *options], check=True)
        done = [check(command, pathlib.Path(work) / shape, *case, 1e-5 if case[2] else 1e-4, oracle.Model(pathlib.Path(work) / shape), not few) for shape, *case in cases]
        if narrow:
            done += [check(command, pathlib.Path(work) / shape, *case, 3e-2, oracle.Model(pathlib.Path(work) / shape, oracle.brain)) for shape, *case in NARROW]
    print(f"{len(done)} runs, {sum(n for n, _ in done)} tokens, closest decision {min(m for _, m in done):.1e}, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()

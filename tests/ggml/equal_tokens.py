#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp generates the same tokens with libggml-attile as without, from a small model with random weights.

usage: equal_tokens.py GENERATE LIBRARY GGUF_PY WORK TYPE on|off [--without-backend]
    GENERATE           the program of generate.cpp
    LIBRARY            libggml-attile.so
    GGUF_PY            the folder gguf-py of llama.cpp's sources
    WORK               a folder for the model
    TYPE               f32, f16 or bf16: the type of its matrices
    on, off            flash attention
    --without-backend  ATTILE_BACKEND names none that there is: llama.cpp goes on with its own
"""
import os
import re
import subprocess
import sys


def run(command, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ATTILE_BACKEND", "ATTILE_LOG", "GGML_"))}
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done


def main():
    arguments = sys.argv[1:]
    without = arguments[-1:] == ["--without-backend"]
    if len(arguments) != 6 + without:
        sys.exit(__doc__)
    generate, library, gguf_py, work, kind, flash = arguments[:6]
    os.makedirs(work, exist_ok=True)
    model = os.path.join(work, f"{kind}_{flash}{'_without' if without else ''}.gguf")
    run([sys.executable, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "write_model.py"), gguf_py, model, kind])
    command = [generate, model, "--flash", flash]
    theirs = run(command)
    backend = "nothing" if without else os.environ.get("ATTILE_BACKEND", "")
    ours = run(command, GGML_BACKEND_PATH=library, ATTILE_BACKEND=backend, ATTILE_LOG="debug")
    os.remove(model)
    print(theirs.stdout, ours.stdout, sep="")
    calls = {name: len(re.findall(f"^attile debug: {name}$", ours.stderr, re.M)) for name in ("gemm", "attention", "softmax")}
    print(calls)
    if len(theirs.stdout.split()) < 20 or ours.stdout != theirs.stdout:
        sys.exit("the tokens differ")
    if without:
        if any(calls.values()) or "Attile: no backend: context_create: no backend can be used: nothing" not in ours.stderr:
            sys.exit(f"expected a line that there is no backend 'nothing', and no calls: {ours.stderr}")
        return
    expected = {"gemm": True, "attention": flash == "on", "softmax": flash == "off"}
    if {name: count > 0 for name, count in calls.items()} != expected:
        sys.exit(f"calls of Attile: {calls}, expected {expected}")


if __name__ == "__main__":
    main()

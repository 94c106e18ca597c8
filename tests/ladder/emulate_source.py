#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites what only nvcc understands, so that a host compiler takes a CUDA source with device_emulator.h.

usage: emulate_source.py IN OUT
"""
import re
import sys

RULES = [
    (r"#include <cuda_runtime\.h>", '#include "device_emulator.h"'),
    # kernel<<<grid, block>>>(arguments);
    (r"([A-Za-z_]\w*(?:<[^;<>]*>)?)<<<(.+?)>>>\((.*?)\);", r"emulate::Launch(\2).run([&] { \1(\3); });"),
    (r"extern __shared__ (\w+) (\w+)\[\];", r"\1 *const \2 = static_cast<\1 *>(emulate::dynamic_shared());"),
    (r"__shared__ ((?:alignas\(\d+\) )?)(\w+) (\w+)((?:\[[^\]]+\])+);", r"\1static \2 \3\4; emulate::poison_shared(\3, sizeof \3);"),
    (r"#pragma unroll.*", ""),
]


def rewrite(text):
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text, flags=re.S if "<<<" in pattern else 0)
    for left in ("<<<", "__shared__"):
        if left in re.sub(r"//[^\n]*", "", text):
            raise SystemExit(f"{sys.argv[1]}: a '{left}' that no rule of emulate_source.py matches")
    return text


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(f'#line 1 "{sys.argv[1]}"\n' + rewrite(text))


if __name__ == "__main__":
    main()

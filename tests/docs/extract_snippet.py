#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first block of one language in a Markdown file to a file, so that it can be compiled.

usage: extract_snippet.py IN.md OUT [LANGUAGE]       (default: c)
"""
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
language = sys.argv[3] if len(sys.argv) > 3 else "c"
block = re.search(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)
if not block:
    sys.exit(f"{sys.argv[1]} has no {language} block")
with open(sys.argv[2], "w", encoding="utf-8") as out:
    out.write(block.group(1))

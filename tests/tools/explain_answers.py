#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the answers in docs/ladder/questions.txt, which the ladder's page shows, to what the program says.

usage: explain_answers.py PROGRAM ROOT [--write]     --write: the file gets the program's answers
"""
import os
import shlex
import subprocess
import sys

ROOT = sys.argv[2]
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True

import ladder_steps  # noqa: E402

path = os.path.join(ROOT, "docs", "ladder", "questions.txt")
questions = ladder_steps.read_questions(path)
places = {"textbook"} | {f"{step['ladder']} {step['order']}" for step in ladder_steps.read_steps(os.path.join(ROOT, "examples", "ladder"))}
faults, made = [], []
for place, words, command, answer in questions:
    arguments = shlex.split(command)
    if place not in places or arguments[:2] != ["attile", "explain"]:
        sys.exit(f"questions.txt: '{place}' is no step, or '{command}' no question to attile explain")
    run = subprocess.run([sys.argv[1]] + arguments[1:], capture_output=True, text=True, check=False)
    found = run.stdout.strip("\n")
    made.append((place, words, command, found))
    if run.returncode != 0:
        faults.append(f"{command}: {run.stderr}")
    elif found != answer:
        faults.append(f"{command}\n--- committed\n{answer}\n--- found\n{found}\n")
if "--write" in sys.argv[3:] and not any(not answer for *_, answer in made):
    ladder_steps.write_questions(path, made)
    sys.exit(0)
print("\n".join(faults) or f"{len(questions)} answers")
sys.exit(bool(faults) or len(questions) < 9)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/ladder_report.py and what it is made of, on made-up runs: steps read, comparisons between steps, table, page."""
import json
import os
import shutil
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True

import ladder_page  # noqa: E402
import ladder_report  # noqa: E402
import ladder_steps  # noqa: E402

DEVICE = {"device": "Some GPU", "capability": "6.1", "units": 20, "peak_flops": 8e12, "bandwidth": 320e9, "binary": 61, "ptx": 61}


def row(ladder, order, step, shape, ms, **more):
    result = {"ladder": ladder, "order": order, "step": step, "shape": shape, "ms": ms, "low": ms, "high": ms, "runs": 3, "flops": 8e9, "bytes": 32e6, "traffic": 4e9,
              "error_share": 0.1, "ok": True, "note": ""}
    result.update(more)
    return result


RUN = {"device": DEVICE, "rows": [
    row("gemm", 1, "naive", "4096^3", 100.0), row("gemm", 2, "coalesced", "4096^3", 20.0, traffic=2e9),
    row("gemm", 12, "library", "4096^3", 0, runs=0, ok=False, note="the library's cuda backend is not here"),
    row("attention", 10, "q_registers", "(2,32768,64)", 70.0), row("attention", 11, "library", "(2,32768,64)", 10.0),
    row("memory", 4, "occupancy", "bounds(256, 1)", 2.0, registers=109, local_bytes=0, blocks_per_unit=2, occupancy=25.0)]}


class Report(unittest.TestCase):
    def text(self, name):
        with open(os.path.join(ROOT, "examples", "ladder", name), encoding="utf-8") as file:
            return file.read()

    def test_steps_are_those_of_the_files(self):
        steps = ladder_steps.read_steps()
        for ladder, count in (("gemm", 12), ("reduction", 7), ("attention", 11), ("memory", 4)):
            self.assertEqual([s["order"] for s in steps if s["ladder"] == ladder], list(range(1, count + 1)), ladder)
        listed = self.text("steps.cmake")
        for step in steps:
            self.assertIn(step["file"], listed)
            text = self.text(step["file"])
            self.assertIn(f'{step["order"]}, "{step["name"]}"', text, "what the head says is not what the program says")

    def test_speed_up_is_over_the_nearest_timed_step(self):
        self.assertEqual(ladder_steps.before(RUN["rows"][1], RUN["rows"])["order"], 1)
        self.assertIsNone(ladder_steps.before(RUN["rows"][0], RUN["rows"]))
        wrong = RUN["rows"] + [row("gemm", 2, "coalesced", "4096^3", 1.0, ok=False)]
        self.assertEqual(ladder_steps.before(row("gemm", 3, "tile16", "4096^3", 10.0), wrong)["ms"], 20.0, "a wrong step is no measure")

    def test_share_of_roof(self):
        self.assertAlmostEqual(ladder_steps.share_of_roof(RUN["rows"][0], DEVICE), 0.01)  # 8 GFLOP of 8 TFLOP/s: 1 ms of 100.
        self.assertAlmostEqual(ladder_steps.intensity(RUN["rows"][0]), 2.0)

    def test_table(self):
        text = "\n".join(ladder_report.table(RUN))
        self.assertIn("5.00", text)
        self.assertIn("the library's cuda backend is not here", text)

    def test_cut_off_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(DEVICE) + "\n" + json.dumps(RUN["rows"][0]) + '\n{"ladder": "ge')
            device, rows = ladder_steps.parse_lines(path)
            self.assertEqual((device, len(rows)), (DEVICE, 1))

    def test_questions_are_read_as_they_are_written(self):
        questions = [("gemm 3", "Words, " * 40 + "end.", "attile explain tiling --n 1 --tile 1", "a  1\n\nb  2"), ("textbook", "More:", "attile explain x", "y")]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "questions.txt")
            ladder_steps.write_questions(path, questions)
            self.assertEqual(ladder_steps.read_questions(path), questions)
        self.assertEqual(ladder_page.answers_text(questions, "textbook"), ["More:", "", "```console", "$ attile explain x", "y", "```", ""])

    def make_page(self, runs):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(ROOT, "examples", "ladder"), os.path.join(folder, "examples", "ladder"))
            os.makedirs(os.path.join(folder, "docs", "ladder"))
            shutil.copy(os.path.join(ROOT, "docs", "ladder", "gtx1080.json"), os.path.join(folder, "docs", "ladder"))
            for name, run in runs.items():
                with open(os.path.join(folder, "docs", "ladder", name), "w", encoding="utf-8") as file:
                    json.dump(run, file)
            return ladder_page.page(folder)

    def test_page_without_a_run_says_so(self):
        page = self.make_page({})
        self.assertIn("The H200 run is to come", page)
        self.assertNotIn("roofline_", page)
        self.assertIn("0.878 s", page)

    def test_page_of_a_run(self):
        page = self.make_page({"h200.json": RUN, "h200-compute_61.json": dict(RUN, rows=[row("gemm", 1, "naive", "4096^3", 123.0)])})
        self.assertNotIn("to come", page)
        self.assertIn("7.0 times as fast as the tenth step", page)
        self.assertIn("123 ms", page)
        self.assertIn("2.00 FLOP/B before, 4.00 after", page)
        self.assertIn("| `bounds(256, 1)` | 109 | 0 | 2 | 25 % | 2.00 ms |", page)


if __name__ == "__main__":
    unittest.main()

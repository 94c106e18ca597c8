# SPDX-License-Identifier: Apache-2.0
"""The Python package against NumPy, and its structs against the C compiler's layout."""
import ctypes
import inspect
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import attile
from attile import _structs
from python_forked import failure_in_child

RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def oracle(q, k, v, hidden=None):
    """Attention in double; grouped heads by repetition."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[3])
    if hidden is not None:
        s = np.where(hidden, -np.inf, s)
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    z = p.sum(-1, keepdims=True)
    return np.einsum("bhij,bhjd->bhid", p / z, v), (m + np.log(z))[..., 0]


class Layout(unittest.TestCase):
    def test_sizes_and_offsets_are_those_of_the_header(self):
        structs = {"attile_tensor": _structs.Tensor, "attile_context_options": _structs.ContextOptions, "attile_context_info": _structs.ContextInfo,
                   "attile_support": _structs.Support, **{f"attile_{name}_args": args for name, args in _structs.OPERATIONS.items()},
                   **{f"attile_{name}_pointers": pointers for name, pointers in _structs.PREPARED.items()},
                   **{f"attile_{name}_distributed_args": args for name, args in _structs.DISTRIBUTED.items()}, "attile_distributed_support": _structs.DistributedSupport,
                   "attile_grid": _structs.Grid, "attile_distributed_matrix": _structs.DistributedMatrix,
                   "attile_comm_callbacks": _structs.CommCallbacks, "attile_comm_options": _structs.CommOptions, "attile_comm_info": _structs.CommInfo}
        lines, expected = [], []
        for name, struct in structs.items():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            expected.append(ctypes.sizeof(struct))
            for field, _ in struct._fields_:
                lines.append(f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
                expected.append((getattr(struct, field).offset, getattr(struct, field).size))
        source = "#include <stddef.h>\n#include <stdio.h>\n#include <attile/attile_distributed.h>\nint main(void) {" + "\n".join(lines) + "return 0; }"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "layout.c")
            path.write_text(source)
            subprocess.run([os.environ.get("CC", "cc"), "-I" + os.environ["ATTILE_INCLUDE"], str(path), "-o", path.with_suffix("")], check=True)
            printed = subprocess.run([path.with_suffix("")], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
        found = [tuple(map(int, line.split())) for line in printed]
        self.assertEqual(found, [value if isinstance(value, tuple) else (value,) for value in expected])


class Operations(unittest.TestCase):
    def close(self, found, expected, tolerance=1e-6):
        self.assertEqual(found.shape, expected.shape)
        error = np.abs(found.astype(np.float64) - expected).max() if expected.size else 0
        self.assertTrue(error <= tolerance, f"largest difference {error}")

    def test_gemm_with_strides_broadcast_and_epilogue(self):
        a, b, bias = random(3, 5, 4), random(6, 4), random(6)
        out = attile.gemm(a, b.T, alpha=2, bias=bias, activation="relu")
        self.close(out, np.maximum(2 * (a.astype(np.float64) @ b.T) + bias, 0))
        c = random(3, 5, 6)
        self.close(attile.gemm(a, b.T, c, beta=0.5), a.astype(np.float64) @ b.T + 0.5 * c)
        self.close(attile.gemm(a[:, ::-1, ::2], b.T[::2]), a[:, ::-1, ::2].astype(np.float64) @ b.T[::2])

    def test_attention_of_strided_grouped_heads_with_lse(self):
        q, k, v = random(2, 9, 4, 8).transpose(0, 2, 1, 3), random(2, 11, 2, 8).transpose(0, 2, 1, 3), random(2, 2, 11, 5)
        hidden = np.arange(11)[None, :] > np.arange(9)[:, None] + 2
        out, lse = attile.attention(q, k, v, mask="causal_bottom_right", lse=True)
        expected, expected_lse = oracle(q, k, v, hidden)
        self.close(out, expected)
        self.close(lse, expected_lse)

    def test_masks_lengths_and_bias(self):
        q, k, v = random(2, 2, 6, 4, dtype=np.float64), random(2, 2, 7, 4, dtype=np.float64), random(2, 2, 7, 4, dtype=np.float64)
        allowed = RNG.uniform(size=(2, 1, 6, 7)) < 0.7
        lengths = np.array([7, 3], np.int32)
        allowed[..., 0] = True
        hidden = ~allowed | (np.arange(7) >= lengths[:, None, None, None])
        self.close(attile.attention(q, k, v, allowed=allowed, key_lengths=lengths), oracle(q, k, v, hidden)[0], 1e-12)
        i, j = np.arange(6)[:, None], np.arange(7)[None, :]
        self.close(attile.attention(q, k, v, mask="window_top_left", window=(2, 1)), oracle(q, k, v, (j < i - 2) | (j > i + 1))[0], 1e-12)

    def test_key_starts_hide_as_a_mask_does(self):
        q, k, v = (random(2, 2, 6, 4, dtype=np.float64) for _ in range(3))
        starts = np.array([0, 4], np.int32)
        allowed = np.arange(6) >= starts[:, None, None, None]
        for found, expected in zip(attile.attention(q, k, v, mask="causal_top_left", key_starts=starts, lse=True),
                                   attile.attention(q, k, v, mask="causal_top_left", allowed=allowed, lse=True)):
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
            self.close(np.nan_to_num(found, neginf=0), np.nan_to_num(expected, neginf=0), 1e-12)

    def test_causal_offset_is_the_mask_of_rows_further_on(self):
        q, k, v = random(2, 2, 9, 4, dtype=np.float64), random(2, 2, 9, 4, dtype=np.float64), random(2, 2, 9, 4, dtype=np.float64)
        whole = attile.attention(q, k, v, mask="causal_top_left")
        offsets = np.array([2, 5], np.int32)
        chunk = np.stack([q[b, :, offset:offset + 4] for b, offset in enumerate(offsets)])
        expected = np.stack([whole[b, :, offset:offset + 4] for b, offset in enumerate(offsets)])
        for mask in ("causal_top_left", "causal_bottom_right"):
            self.close(attile.attention(chunk, k, v, mask=mask, causal_offset=offsets), expected, 1e-12)
        with self.assertRaisesRegex(attile.AttileError, "causal_offset is given"):
            attile.attention(chunk, k, v, causal_offset=offsets)

    def test_a_block_mask_hides_as_a_mask_does(self):
        q, k, v = (random(2, 2, length, 3, dtype=np.float64) for length in (150, 300, 300))
        blocks = np.array([[[[1, 0, 1], [0, 1, 0]]], [[[0, 0, 0], [3, 0, 0]]]], np.uint8)
        allowed = blocks.repeat(128, axis=2)[:, :, :150].repeat(128, axis=3)[..., :300] != 0
        for mask in (None, "causal_bottom_right"):
            for found, expected in zip(attile.attention(q, k, v, mask=mask, block_mask=blocks, lse=True), attile.attention(q, k, v, mask=mask, allowed=allowed, lse=True)):
                np.testing.assert_array_equal(found, expected)
        with self.assertRaisesRegex(attile.AttileError, r"block_mask.shape\[3\] is 2"):
            attile.attention(q, k, v, block_mask=blocks[..., :2])

    def test_a_tree_mask_is_one_of_the_last_keys(self):
        q, k, v = (random(2, 2, length, 4, dtype=np.float64) for length in (3, 9, 9))
        tree, lengths = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], bool), np.array([9, 5], np.int32)
        allowed = np.ones((2, 1, 3, 9), bool)
        for b, length in enumerate(lengths):
            allowed[b, 0, :, length - 3:length] = tree
        self.close(attile.attention(q, k, v, tree_mask=tree, key_lengths=lengths), attile.attention(q, k, v, allowed=allowed, key_lengths=lengths), 0)
        out, lse = attile.attention(q, k, v, tree_mask=tree, key_lengths=lengths, lse=True)
        for found, expected in zip(attile.attention_backward(q, q, k, v, out, lse, tree_mask=tree, key_lengths=lengths),
                                   attile.attention_backward(q, q, k, v, out, lse, allowed=allowed, key_lengths=lengths)):
            self.close(found, expected, 0)
        with self.assertRaisesRegex(attile.AttileError, r"tree_mask.shape\[1\] is 10"):
            attile.attention(q, k, v, tree_mask=np.ones((3, 10), bool))

    def test_packed_rows_over_dense_keys(self):
        q, k, v = random(1, 2, 5, 4, dtype=np.float64), random(2, 2, 7, 4, dtype=np.float64), random(2, 2, 7, 4, dtype=np.float64)
        lengths = np.array([7, 3], np.int32)
        out = attile.attention(q, k, v, cu_len_q=np.array([0, 4, 5], np.int32), key_lengths=lengths, mask="causal_bottom_right")
        for b, rows in enumerate((slice(0, 4), slice(4, 5))):
            keys = slice(0, lengths[b])
            self.close(out[:, :, rows], attile.attention(q[:, :, rows], k[b:b + 1, :, keys], v[b:b + 1, :, keys], mask="causal_bottom_right"), 1e-12)

    def test_gradient_of_lse_against_finite_differences(self):
        q, k, v = (random(1, 2, 5, 4, dtype=np.float64) for _ in range(3))
        dlse = random(1, 2, 5, dtype=np.float64)
        out, lse = attile.attention(q, k, v, mask="causal_top_left", lse=True)
        dq, dk, dv = attile.attention_backward(np.zeros_like(out), q, k, v, out, lse, mask="causal_top_left", dlse=dlse)
        self.close(dv, np.zeros_like(v), 0)
        for array, gradient in ((q, dq), (k, dk)):
            for index in ((0, 0, 3, 1), (0, 1, 4, 2)):
                kept, values = array[index], []
                for step in (1e-6, -1e-6):
                    array[index] = kept + step
                    values.append(float((attile.attention(q, k, v, mask="causal_top_left", lse=True)[1] * dlse).sum()))
                array[index] = kept
                self.assertAlmostEqual((values[0] - values[1]) / 2e-6, gradient[index], places=7)

    def test_backward_against_finite_differences(self):
        q, k, v, weight = (random(1, 2, 5, 4, dtype=np.float64) for _ in range(4))
        loss = lambda: float((attile.attention(q, k, v, mask="causal_top_left") * weight).sum())
        out, lse = attile.attention(q, k, v, mask="causal_top_left", lse=True)
        gradients = attile.attention_backward(weight, q, k, v, out, lse, mask="causal_top_left")
        for array, gradient in zip((q, k, v), gradients):
            for index in ((0, 0, 3, 1), (0, 1, 4, 2)):
                kept, values = array[index], []
                for step in (1e-6, -1e-6):
                    array[index] = kept + step
                    values.append(loss())
                array[index] = kept
                self.assertAlmostEqual((values[0] - values[1]) / 2e-6, gradient[index], places=7)

    def test_merge_of_two_ranges_is_the_whole(self):
        q, k, v = random(1, 2, 3, 8), random(1, 2, 10, 8), random(1, 2, 10, 8)
        parts = [attile.attention(q, k[:, :, keys], v[:, :, keys], lse=True) for keys in (slice(0, 4), slice(4, 10))]
        out, lse = attile.attention_merge([p[0] for p in parts], [p[1] for p in parts], lse=True)
        expected = oracle(q, k, v)
        self.close(out, expected[0])
        self.close(lse, expected[1])

    def test_parts_of_a_merge_in_one_array(self):
        parts, lses = random(2, 1, 2, 3, 4), random(2, 1, 2, 3)
        for found, expected in zip(attile.attention_merge(parts, lses, lse=True), attile.attention_merge(list(parts), list(lses), lse=True)):
            np.testing.assert_array_equal(found, expected)
        with self.assertRaisesRegex(attile.AttileArgumentError, "parts"):
            attile.attention_merge(parts[:0], lses[:0], lse=True)

    def test_gradients_of_a_merge_against_finite_differences(self):
        parts = [random(1, 2, 3, 4, dtype=np.float64) for _ in range(3)]
        lses = [random(1, 2, 3, dtype=np.float64) for _ in range(3)]
        weight, lse_weight = random(1, 2, 3, 4, dtype=np.float64), random(1, 2, 3, dtype=np.float64)

        def loss():
            out, lse = attile.attention_merge(parts, lses, lse=True)
            return float((out * weight).sum() + (lse * lse_weight).sum())

        out, lse = attile.attention_merge(parts, lses, lse=True)
        gradients = attile.attention_merge_backward(weight, parts, lses, out, lse, dlse=lse_weight)
        for arrays, found, index in ((parts, gradients[0], (0, 1, 2, 3)), (lses, gradients[1], (0, 1, 0))):
            for array, gradient in zip(arrays, found):
                kept, values = array[index], []
                for step in (1e-6, -1e-6):
                    array[index] = kept + step
                    values.append(loss())
                array[index] = kept
                self.assertAlmostEqual((values[0] - values[1]) / 2e-6, gradient[index], places=7)
        given = [np.empty_like(part) for part in parts]
        self.assertIs(attile.attention_merge_backward(weight, parts, lses, out, lse, dlse=lse_weight, do_parts=given)[0][1], given[1])
        np.testing.assert_array_equal(given[1], gradients[0][1])
        with self.assertRaisesRegex(ValueError, "2 do_parts and 3 o_parts"):
            attile.attention_merge_backward(weight, parts, lses, out, lse, do_parts=given[:2])
        with self.assertRaisesRegex(attile.AttileError, "forward->o_parts"):
            attile.attention_merge_backward(weight, parts, lses, parts[0], lse)

    def test_reduce_and_softmax(self):
        x = random(3, 4, 5)
        self.close(attile.reduce(x, "mean", 1), x.astype(np.float64).mean(1, keepdims=True))
        e = np.exp(x.astype(np.float64))
        self.close(attile.softmax(x, 0), e / e.sum(0))
        attile.softmax(x, 0, out=x)
        self.close(x, e / e.sum(0))

    def test_workspace_of_the_caller(self):
        a = random(3, 3)
        expected = attile.gemm(a, a)
        memory = np.empty(1 << 12, np.uint8)
        memory = memory[-memory.ctypes.data % 256:]
        self.assertTrue(np.array_equal(attile.gemm(a, a, workspace=memory, flags=attile.FLAG_NO_ALLOC), expected))
        with self.assertRaisesRegex(attile.AttileArgumentError, "multiple of 256"):
            attile.gemm(a, a, workspace=memory[1:])
        with self.assertRaisesRegex(ValueError, "workspace is not contiguous"):
            attile.gemm(a, a, workspace=np.empty((8, 8), np.uint8)[:, ::2])

    def test_backward_wants_the_forward_calls_results(self):
        q, lse = random(1, 1, 2, 4), random(1, 1, 2)
        with self.assertRaisesRegex(attile.AttileArgumentError, "forward->o"):
            attile.attention_backward(q, q, q, q, None, lse)

    def test_query_and_empty(self):
        a = np.zeros((0, 3), np.float32)
        self.assertEqual(attile.gemm(a, np.zeros((3, 4), np.float32)).shape, (0, 4))
        support = attile.default_context().gemm(random(2, 3), random(3, 2), query=True)
        self.assertEqual((support.level, support.flops), ("native", 24.0))

    def test_every_operation_can_be_queried(self):
        q, lse = random(1, 2, 3, 4), random(1, 2, 3)
        context, untouched = attile.default_context(), [np.full_like(q, np.nan) for _ in range(3)]
        answers = [context.gemm(q, q.swapaxes(2, 3), query=True), context.attention(q, q, q, query=True), context.attention_merge([q, q], [lse, lse], query=True),
                   context.attention_backward(q, q, q, q, q, lse, dq=untouched[0], dk=untouched[1], dv=untouched[2], query=True),
                   context.reduce(q, "sum", out=untouched[0][..., :1], query=True), context.softmax(q, out=untouched[0], query=True),
                   context.attention_merge_backward(q, [q], [lse], q.copy(), lse.copy(), do_parts=[untouched[0]], query=True)]
        for support in answers:
            self.assertEqual(support.level, "native", support)
            self.assertTrue(support.kernel)
        self.assertTrue(all(np.isnan(array).all() for array in untouched))
        self.assertEqual(answers[3].flops, 10.0 * 2 * 3 * 3 * 4)

    def test_many_threads(self):
        q = random(2, 2, 16, 8)
        expected, failures = attile.attention(q, q, q), []

        def work():
            for _ in range(20):
                if not np.array_equal(attile.attention(q, q, q), expected):
                    failures.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(failures, [])


class Forks(unittest.TestCase):
    def test_a_child_has_a_default_context_of_its_own(self):
        x, parent = random(3, 4), attile.default_context()
        expected = attile.softmax(x)
        prepared = attile.prepare_gemm(x, x.T.copy())

        def check():
            for _ in range(2):
                np.testing.assert_array_equal(attile.softmax(x), expected)
            self.assertIsNot(attile.default_context(), parent)
            for call in (lambda: parent.softmax(x), prepared.run):
                with self.assertRaisesRegex(attile.AttileError, "AFTER_FORK"):
                    call()
            attile.prepare_gemm(x, x.T.copy()).run()

        self.assertEqual(failure_in_child(check), "")
        self.assertIs(attile.default_context(), parent)
        np.testing.assert_array_equal(attile.softmax(x), expected)
        prepared.run()


class Version(unittest.TestCase):
    def test_it_is_that_of_the_library(self):
        self.assertEqual(attile.__version__, attile.version())
        self.assertRegex(attile.__version__, r"^1\.\d+\.\d+$")

    def test_an_import_opens_no_library(self):
        subprocess.run([sys.executable, "-c", "import attile"], env={**os.environ, "ATTILE_LIBRARY": "/nosuch.so"}, check=True)


class Paths(unittest.TestCase):
    def test_the_path_that_is_tested_is_the_one_meant(self):
        self.assertEqual(attile.compiled, os.environ.get("ATTILE_TEST_PATH") == "native")

    def test_the_environment_chooses_the_path_without_the_extension(self):
        for value, expected in (("1", False), ("0", attile.compiled), ("", attile.compiled)):
            found = subprocess.run([sys.executable, "-c", "import attile; print(attile.compiled)"], env={**os.environ, "ATTILE_PYTHON_PURE": value}, check=True,
                                   capture_output=True, text=True).stdout.strip()
            self.assertEqual(found, str(expected), value)


class Signatures(unittest.TestCase):
    def test_functions_of_the_module_are_those_of_a_context(self):
        for name in ("gemm", "attention", "attention_backward", "attention_merge", "attention_merge_backward", "reduce", "softmax", "quantize", "dequantize", "gemm_grouped"):
            function, method = getattr(attile, name), getattr(attile.Context, name)
            self.assertEqual(function.__doc__, method.__doc__)
            self.assertEqual(["self", *inspect.signature(function).parameters], list(inspect.signature(method).parameters))


class Errors(unittest.TestCase):
    def test_the_librarys_sentence(self):
        with self.assertRaisesRegex(attile.AttileArgumentError, "k.shape"):
            attile.attention(random(1, 4, 2, 8), random(1, 3, 2, 8), random(1, 3, 2, 8))

    def test_what_is_no_array_or_of_no_known_type(self):
        for bad, error in (("text", TypeError), (np.zeros((2, 2), np.complex64), TypeError), (np.zeros((2, 2), ">f4"), TypeError), (np.zeros((1,) * 5, np.float32), ValueError)):
            with self.assertRaises(error):
                attile.gemm(bad, random(2, 2))

    def test_a_query_that_is_neither_true_nor_false(self):
        q, lse, neither = random(1, 2, 3, 4), random(1, 2, 3), np.zeros(2)
        for call in (lambda: attile.gemm(q, q.swapaxes(2, 3), query=neither), lambda: attile.attention(q, q, q, query=neither),
                     lambda: attile.attention_backward(q, q, q, q, q, lse, query=neither), lambda: attile.attention_merge([q], [lse], query=neither),
                     lambda: attile.attention_merge_backward(q, [q], [lse], q.copy(), lse.copy(), query=neither), lambda: attile.reduce(q, "sum", query=neither),
                     lambda: attile.softmax(q, query=neither)):
            with self.assertRaisesRegex(ValueError, "truth value"):
                call()

    def test_names(self):
        with self.assertRaisesRegex(ValueError, "causal_top_left"):
            attile.attention(random(1, 1, 2, 8), random(1, 1, 2, 8), random(1, 1, 2, 8), mask="causal")

    def test_closed_context_and_unknown_backend(self):
        context = attile.Context("reference")
        context.close()
        with self.assertRaises(attile.AttileError):
            context.softmax(random(2, 2))
        with self.assertRaisesRegex(attile.AttileError, "BACKEND_NOT_FOUND"):
            attile.Context("nosuch")
        self.assertIn("nosuch", attile.backend_report())


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The provider in sessions: what it leaves to others and why, graphs of several nodes, options, bad input, threads.

usage: plugin_test.py LIBRARY [unittest's arguments]
"""
import dataclasses
import sys
import threading
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

import sessions
from models import MICROSOFT, Case, Draw

LIBRARY = sys.argv.pop(1)
draw = Draw(0)


def attention(**changes):
    q = draw.array(1, 2, 4, 8)
    return Case("Attention", {"q": q, "k": q, "v": q, "mask": None, "past_k": None, "past_v": None}, ["y"], changes, opset=23)


def multi_head(scale=0.0, **inputs):
    x = draw.array(1, 4, 16)
    given = {"q": x, "k": x, "v": x, "bias": None, "padding": None, "attention_bias": None, "past_k": None, "past_v": None}
    return Case("MultiHeadAttention", given | inputs, ["y"], {"num_heads": 2, "scale": scale}, MICROSOFT)


def group_query(rows=4, keys=4, total=4, capacity=0, **attributes):
    x = draw.array(1, rows, 16)
    past = draw.array(1, 2, capacity, 8) if capacity else None
    return Case("GroupQueryAttention", {"q": x, "k": x, "v": x, "past_k": past, "past_v": past, "seqlens": np.array([keys - 1], "int32"),
                                        "total": np.array(total, "int32")}, ["y", "present_k", "present_v"],
                {"num_heads": 2, "kv_num_heads": 2, **attributes}, MICROSOFT, dynamic=True)


def of_another_layer():
    """K and V have no rows here; the past has all of them."""
    case = group_query(rows=1, keys=6, total=6, capacity=10)
    return dataclasses.replace(case, inputs=case.inputs | {name: np.zeros((1, 0, 16), "float32") for name in "kv"}, dynamic=False)


def product(a, b, **changes):
    return dataclasses.replace(Case("MatMul", {"a": draw.array(*a), "b": draw.array(*b)}, ["y"], opset=13, dynamic=True), **changes)


# What another provider gets, and a part of the reason that the log has.
LEFT = [
    (multi_head(scale=-1.0), "its scale is not a finite number above 0"),
    (attention(softcap=-1.0), "its softcap is negative or not finite"),
    (attention(softmax_precision=11), "its softmax_precision is above that of Attile"),
    (dataclasses.replace(attention(), outputs=["y", "", "", "qk"]), "its output qk_matmul_output is used"),
    (multi_head(bias=draw.array(48), k=draw.array(1, 2, 4, 8), v=draw.array(1, 2, 4, 8)), "query, key or value is not known to have rank 3"),
    (multi_head(padding=np.array([3], "int32")), "its key_padding_mask is not known to have rank 2 or 3"),
    (multi_head(k=None, v=None, q=draw.array(1, 4, 2, 3, 8)), "its query, key and value are packed"),
    (dataclasses.replace(product([2, 3], [3, 2]), inputs={"a": np.ones((2, 3), "int32"), "b": np.ones((3, 2), "int32")}),
     "its type is not float32, float64, float16 or bfloat16"),
    (group_query(local_window_size=0), "its local_window_size is 0"),
    (group_query(do_rotary=1), "its cos_cache or sin_cache is absent"),
    (of_another_layer(), "it takes K and V of another layer"),
    (Case("Gemm", {"a": draw.array(2, 3), "b": draw.array(3, 2)}, ["y"], {"alpha": float("inf")}, opset=13), "alpha or beta is not finite"),
]


def run(case, session=None):
    return (session or sessions.with_attile(case.model())).run(None, case.feeds())


class Claims(unittest.TestCase):
    def test_what_is_not_served_is_left_with_its_reason(self):
        for case, reason in LEFT:
            with self.subTest(str(case)):
                session, reasons = sessions.with_attile_and_reasons(case.model())
                self.assertEqual(sessions.claimed(session), [])
                self.assertIn(reason, " ".join(reasons))

    def test_a_reason_is_logged_once(self):
        nodes = [helper.make_node("MatMul", ["x", "x"], ["h"]), helper.make_node("MatMul", ["h", "x"], ["y"])]
        x, y = (helper.make_tensor_value_info(name, TensorProto.INT32, [2, 2]) for name in "xy")
        model = helper.make_model(helper.make_graph(nodes, "two", [x], [y]), opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
        self.assertEqual(sessions.with_attile_and_reasons(model.SerializeToString())[1],
                         ["MatMul: its type is not float32, float64, float16 or bfloat16"])

    def test_what_is_served_is_claimed(self):
        for case in (attention(), multi_head(), group_query(), product([2, 3], [3, 2])):
            self.assertEqual(sessions.claimed(sessions.with_attile(case.model())), [case.op])


class Graphs(unittest.TestCase):
    def test_nodes_of_both_providers_and_one_value_for_many_inputs(self):
        """q, k and v are one value, the weights are constants, and what Attile computed goes on to other nodes and back."""
        weights = onnx.numpy_helper.from_array(draw.array(8, 8), "w")
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
                 helper.make_node("Attention", ["t", "t", "t"], ["a", "present_k", ""], is_causal=1),
                 helper.make_node("Softmax", ["a"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])]
        graph = helper.make_graph(nodes, "many", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 2, "l", 8])],
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "present_k", "h")],
                                  [weights])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10).SerializeToString()
        session = sessions.with_attile(model)
        self.assertCountEqual(sessions.claimed(session), ["MatMul", "Attention", "Softmax", "MatMul"])
        for batch, length in ((1, 5), (3, 2)):
            feeds = {"x": draw.array(batch, 2, length, 8)}
            for found, expected in zip(session.run(None, feeds), sessions.with_cpu(model).run(None, feeds)):
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        # A batch of nothing, which the CPU provider refuses.
        self.assertEqual([found.shape for found in session.run(None, {"x": draw.array(0, 2, 4, 8)})], [(0, 2, 4, 8)] * 3)

    def test_extents_of_zero(self):
        self.assertEqual(run(product([0, 3], [3, 2]))[0].shape, (0, 2))
        np.testing.assert_array_equal(run(product([2, 0], [0, 3]))[0], np.zeros((2, 3)))

    def test_a_mask_of_no_keys(self):
        """Operator set 24: keys that a mask has not are hidden."""
        case = attention()
        np.testing.assert_array_equal(run(dataclasses.replace(case, opset=24, inputs={**case.inputs, "mask": draw.array(4, 0)}))[0], 0)

    def test_outputs_that_nobody_uses(self):
        for case in (attention(), multi_head(), group_query()):
            case = dataclasses.replace(case, outputs=["y", "present_k", "present_v"])
            model = onnx.ModelProto.FromString(case.model())
            del model.graph.output[0]
            for found, given in zip(run(case, sessions.with_attile(model.SerializeToString())), ("k", "v")):
                given = case.inputs[given]
                expected = given if given.ndim == 4 else given.reshape(1, 4, 2, 8).transpose(0, 2, 1, 3)
                np.testing.assert_array_equal(found, expected)

    def test_an_integer_kind_of_length(self):
        """Operator set 24 has the lengths of K and V as int64, and shorter masks."""
        case = attention(is_causal=1)
        case = dataclasses.replace(case, opset=24, inputs={**case.inputs, "lengths": np.array([3], "int64")})
        q, found = case.inputs["q"].astype("float64"), run(case)[0]
        scores = np.where(np.arange(4) <= np.arange(4)[:, None] - 1, q @ q.swapaxes(2, 3) / 8**0.5, -np.inf)[:, :, 1:, :3]
        weights = np.exp(scores)
        expected = weights / weights.sum(axis=3, keepdims=True) @ q[:, :, :3]
        np.testing.assert_array_equal(found[:, :, 0], 0)
        np.testing.assert_allclose(found[:, :, 1:], expected, rtol=1e-4, atol=1e-5)

    def test_a_prompt_that_is_padded_at_its_start(self):
        """Its rows are those of the prompt alone; rows of the padding see no key of it and are some average."""
        x, bias = draw.array(1, 6, 16), draw.array(1, 2, 6, 6)
        for dtype, tolerance in (("float32", 1e-5), ("float16", 4e-3)):
            for added in (None, bias.astype(dtype)):
                case = multi_head(**dict.fromkeys("qkv", x.astype(dtype)), padding=np.array([[0, 0, 1, 1, 1, 1]], "int32"), attention_bias=added)
                case.attributes["unidirectional"] = 1
                alone = multi_head(**dict.fromkeys("qkv", x[:, 2:].astype(dtype)), attention_bias=None if added is None else added[:, :, 2:, 2:])
                alone.attributes["unidirectional"] = 1
                found = run(case)[0]
                np.testing.assert_allclose(found[:, 2:], run(alone)[0], rtol=tolerance, atol=tolerance)
                self.assertTrue(np.isfinite(found).all())

    def test_a_cache_that_is_extended_in_place(self):
        case = group_query(rows=1, keys=6, total=6, capacity=10)
        expected = run(case, sessions.with_cpu(case.model()))
        binding = (session := sessions.with_attile(case.model())).io_binding()
        caches = {name: sessions.onnxruntime.OrtValue.ortvalue_from_numpy(case.inputs[name].copy()) for name in ("past_k", "past_v")}
        for name, value in case.feeds().items():
            binding.bind_cpu_input(name, value) if name not in caches else binding.bind_ortvalue_input(name, caches[name])
        binding.bind_output("y")
        binding.bind_ortvalue_output("present_k", caches["past_k"])
        binding.bind_ortvalue_output("present_v", caches["past_v"])
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.get_outputs()[0].numpy(), expected[0], rtol=1e-4, atol=1e-5)
        for name, right in zip(caches, expected[1:]):
            np.testing.assert_array_equal(caches[name].numpy()[:, :, :6], right[:, :, :6])

    def test_calls_of_many_threads(self):
        case = attention()
        session, expected, wrong = sessions.with_attile(case.model(), threads=2), run(case)[0], []

        def call():
            for _ in range(50):
                if not np.array_equal(session.run(None, case.feeds())[0], expected):
                    wrong.append(1)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class BadInput(unittest.TestCase):
    def fails(self, case, sentence, **feeds):
        with self.assertRaises(Exception) as caught:  # ONNX Runtime's exceptions have no common base.
            sessions.with_attile(case.model()).run(None, case.feeds() | feeds)
        self.assertIn(sentence, str(caught.exception))

    def test_products(self):
        self.fails(product([2, 3], [3, 2]), "MatMul: A has 3 columns and B has 4 rows, expected equal numbers", b=draw.array(4, 2))
        self.fails(product([2, 2, 3], [2, 3, 2]), "MatMul: batch axis 0 is 2 in A and 3 in B, expected equal extents or 1",
                   b=draw.array(3, 3, 2))
        gemm = Case("Gemm", {"a": draw.array(2, 3), "b": draw.array(3, 4), "c": draw.array(2, 4)}, ["y"], opset=13, dynamic=True)
        self.fails(gemm, "Gemm: op(A) has 3 columns and op(B) has 5 rows, expected equal numbers", b=draw.array(5, 4))
        self.fails(gemm, "Gemm: C is 3 x 4, expected it to broadcast to 2 x 4", c=draw.array(3, 4))

    def test_attention(self):
        case = dataclasses.replace(attention(), dynamic=True)
        self.fails(case, "Attile: attention: k.shape[3]", k=draw.array(1, 2, 4, 9))
        masked = dataclasses.replace(case, inputs={**case.inputs, "mask": draw.array(4, 4)})
        self.fails(masked, "Attile: attention: bias.shape", mask=draw.array(3, 4))
        past = {"past_k": draw.array(1, 2, 3, 8), "past_v": draw.array(1, 2, 3, 8)}
        cached = dataclasses.replace(case, inputs={**case.inputs, **past}, outputs=["y", "present_k", "present_v"])
        self.fails(cached, "a past has other extents than its K or V, expected [1, 2, any, 8]", past_k=draw.array(1, 2, 3, 9))
        lengths = dataclasses.replace(case, opset=24, inputs={**case.inputs, "lengths": np.array([3], "int64")})
        self.fails(lengths, "nonpad_kv_seqlen[0] is 5, expected 0 to 4", lengths=np.array([5], "int64"))
        self.fails(lengths, "nonpad_kv_seqlen has 2 elements, expected [batch_size], 1", lengths=np.array([1, 1], "int64"))
        heads = dataclasses.replace(multi_head(), dynamic=True)
        biased = dataclasses.replace(multi_head(bias=draw.array(48), padding=np.ones((1, 4), "int32")), dynamic=True)
        self.fails(biased, "bias has 47 elements, expected those of query, key and value, at least 48", bias=draw.array(47))
        self.fails(biased, "key_padding_mask has 5 elements, expected [1, 4]", padding=np.ones((1, 5), "int32"))
        both = multi_head(padding=np.ones((1, 4), "int32"), attention_bias=draw.array(1, 2, 4, 4))
        self.fails(dataclasses.replace(both, dynamic=True), "attention_bias has 48 elements, expected [1 or 1, 1 or 2, 4, 4]",
                   attention_bias=draw.array(1, 3, 4, 4))
        self.fails(heads, "query has the shape [1, 4, 15] and there are 2 heads", q=draw.array(1, 4, 15))

    def test_lengths_of_group_query_attention(self):
        case = group_query(rows=1, keys=6, total=6, capacity=10)
        for seqlens, low in ((6, 0), (-2, 0), (-1, 0)):
            self.fails(case, f"seqlens_k[0] is {seqlens}, expected {low} to 5", seqlens=np.array([seqlens], "int32"))
        self.fails(case, "total_sequence_length is 0, expected at least the length of query, 1", total=np.array(0, "int32"))
        self.fails(case, "entry 0 has 19 keys before this call by seqlens_k, expected no more than the past has, 10",
                   seqlens=np.array([19], "int32"), total=np.array(20, "int32"))
        self.fails(case, "seqlens_k has 2 elements", seqlens=np.array([5, 5], "int32"))
        for name in "kv":
            for shape in ([1, 2, 16], [2, 1, 16]):
                self.fails(case, f"key or value has batch {shape[0]} and length {shape[1]}, expected those of query, 1 and 1",
                           **{name: draw.array(*shape)})
        turned = group_query(rows=1, keys=6, total=6, capacity=10, do_rotary=1)
        turned.inputs |= {"cos": draw.array(6, 4), "sin": draw.array(6, 4)}
        self.fails(turned, "expected both [at least 6, at most 4]", cos=draw.array(5, 4), sin=draw.array(5, 4))

    def test_options(self):
        case = product([2, 3], [3, 2])
        for options, sentence in (({"threads": "many"}, "the option threads is 'many', expected a whole number from 0 on"),
                                  ({"threads": "-1"}, "the option threads is '-1', expected a whole number from 0 on"),
                                  ({"backend": "nothing"}, "Attile: ")):
            with self.assertRaises(Exception) as caught:
                sessions.with_attile(case.model(), provider_options=options)
            self.assertIn(sentence, str(caught.exception))
        np.testing.assert_allclose(run(case, sessions.with_attile(case.model(), provider_options={"backend": "reference"}))[0],
                                   case.inputs["a"] @ case.inputs["b"], rtol=1e-5, atol=1e-6)

    def test_the_library_is_registered_again(self):
        sessions.onnxruntime.unregister_execution_provider_library(sessions.NAME)
        self.assertEqual(sessions.devices(), [])
        sessions.register(LIBRARY)
        self.assertEqual(len(run(product([2, 3], [3, 2]))), 1)


if __name__ == "__main__":
    sessions.register(LIBRARY)
    unittest.main()

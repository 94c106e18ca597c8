# SPDX-License-Identifier: Apache-2.0
"""torch.nn.functional.scaled_dot_product_attention by attile.torch.sdpa(), beside PyTorch's own: options drawn at random, gradients, graphs, nested tensors, and what falls back.

ATTILE_TEST_DEVICE=cuda runs all of it on a GPU.
"""
import contextlib
import importlib.util
import itertools
import os
import random
import shutil
import threading
import unittest
import warnings
from unittest import mock

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("PyTorch is not installed")

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

import attile.torch  # noqa: E402
from attile import _sdpa, _torch_call  # noqa: E402

framework = functional.scaled_dot_product_attention
HAS_GQA = "enable_gqa" in (framework.__doc__ or "")
LOW = (torch.float16, torch.bfloat16)
DEVICE = os.environ.get("ATTILE_TEST_DEVICE", "cpu")


def attention(*tensors, **options):
    """As programs call it: found in its module each time."""
    return functional.scaled_dot_product_attention(*tensors, **options)


def served(*tensors, **options):
    """By Attile; a call that is left to PyTorch raises."""
    with attile.torch.sdpa(), mock.patch.object(_sdpa, "_framework", side_effect=AssertionError("left to PyTorch")):
        return attention(*tensors, **options)


def in_steps(*tensors, **options):
    """By PyTorch's products and softmax: its fused kernels on GPUs refuse some masks, and give NaN for some problems with a negative scale or a mask."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH) if DEVICE == "cuda" else contextlib.nullcontext():
        return framework(*tensors, **options)


def values(*shape, dtype=torch.float64):
    return (torch.rand(shape, dtype=torch.float64) * 2 - 1).to(DEVICE, dtype)


def seen(*shape):
    return (torch.rand(shape) < 0.7).to(DEVICE)


def gradients(out, inputs):
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64, device=DEVICE).reshape(out.shape)
    return torch.autograd.grad((out.double() * weights).sum(), inputs)


class Draw:
    """One problem drawn at random: tensors, options, and which tensors ask for a gradient."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        chance = random.Random(seed)
        dims = chance.choice((2, 3, 4, 4, 4))
        gqa = HAS_GQA and dims > 2 and chance.random() < 0.4
        rows, keys, width, width_v = (chance.choice(extents) for extents in ((1, 2, 5, 33), (1, 3, 7, 40), (1, 4, 8, 24), (1, 4, 8, 17)))
        heads_kv = chance.choice((1, 2, 3))
        heads, batch = heads_kv * (chance.choice((1, 2, 4)) if gqa else 1), chance.choice((1, 3))
        dtype = chance.choice((torch.float64, torch.float64, torch.float32, *LOW))
        shapes = [(batch, heads, rows, width), (batch, heads_kv, keys, width), (batch, heads_kv, keys, width_v)]
        if not gqa and chance.random() < 0.3:  # Batches or heads of some are broadcast.
            shapes[1:] = ((chance.choice((1, batch)), chance.choice((1, heads)), *shape[2:]) for shape in shapes[1:])
        self.tensors = [values(*shape[4 - dims:], dtype=dtype) for shape in shapes]
        if dims == 4 and chance.random() < 0.5:  # As a projection leaves them.
            self.tensors = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in self.tensors]
        self.options = {"is_causal": chance.random() < 0.4}
        if gqa:
            self.options["enable_gqa"] = True
        if chance.random() < 0.3:
            self.options["scale"] = chance.choice((0.7, -0.3, 2) if HAS_GQA else (0.7, 2))  # PyTorch 2.4 gives NaN for one below 0.
        if not self.options["is_causal"] and chance.random() < 0.7:
            self.options["attn_mask"] = self.mask(chance, [batch, heads, rows, keys][4 - dims:], dtype)
        self.followed = [x for x in (*self.tensors, self.options.get("attn_mask")) if x is not None and x.is_floating_point() and chance.random() < 0.6]
        for x in self.followed:
            x.requires_grad_()

    @staticmethod
    def mask(chance, whole, dtype):
        """A mask, bool or of numbers, that broadcasts, and hides no row as a whole."""
        shape = [extent if chance.random() < 0.7 else 1 for extent in whole][chance.randrange(len(whole) - 1):]  # PyTorch takes no mask of one axis.
        hidden = ~seen(*shape)
        hidden[..., 0] = False
        kind = chance.choice((torch.bool, dtype, torch.float32 if dtype in LOW else dtype))
        return ~hidden if kind == torch.bool else values(*shape, dtype=kind).masked_fill(hidden, float("-inf"))

    def __str__(self):
        return f"{[(tuple(x.shape), x.dtype) for x in self.tensors]} { {name: (tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x for name, x in self.options.items()} }"


def errors(found, expected):
    """Greatest error of each result, against the greatest value; NaN where one is NaN."""
    return [float(((one.double() - other.double()).abs().max() / other.double().abs().max().clamp(min=1)).detach()) for one, other in zip(found, expected)]


class Values(unittest.TestCase):
    def test_options_drawn_at_random(self):
        """Errors against float64 are at most twice those of PyTorch's own, beyond a floor of the type's rounding."""
        for seed in range(120):
            draw = Draw(seed)
            wide = {id(x): x.detach().double().requires_grad_(x.requires_grad) for x in (*draw.tensors, draw.options.get("attn_mask")) if x is not None and x.is_floating_point()}
            exact = in_steps(*(wide[id(x)] for x in draw.tensors), **{name: wide.get(id(x), x) for name, x in draw.options.items()})
            results = [call(*draw.tensors, **draw.options) for call in (served, in_steps)]
            self.assertEqual(results[0].dtype, results[1].dtype)
            self.assertEqual(results[0].requires_grad, bool(draw.followed))
            if draw.followed:
                exact, *results = ([out, *gradients(out, inputs)] for out, inputs in ((exact, [wide[id(x)] for x in draw.followed]), *((out, draw.followed) for out in results)))
            else:
                exact, *results = [exact], *([out] for out in results)
            dtype = draw.tensors[0].dtype
            floor = (64 if dtype == torch.float64 else 16) * torch.finfo(dtype).eps  # In float64 PyTorch's own errors count as none.
            for number, (here, theirs) in enumerate(zip(*(errors(found, exact) for found in results))):
                self.assertTrue(here <= 2 * theirs + floor, f"seed {seed}, result {number}: error {here}, PyTorch's {theirs}: {draw}")

    def test_gradients_by_differences(self):
        q, k, v, mask = (values(*shape).requires_grad_() for shape in ((2, 2, 4, 3), (2, 2, 5, 3), (2, 2, 5, 2), (2, 1, 1, 5)))
        with attile.torch.sdpa():
            self.assertTrue(torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, is_causal=True), (q, k, v)))
            self.assertTrue(torch.autograd.gradcheck(lambda q, k, v, mask: attention(q, k, v, mask), (q, k, v, mask)))

    def test_a_gradient_that_is_lazily_negated(self):
        q, weights = values(1, 2, 3, 4).requires_grad_(), torch.view_as_complex(values(1, 2, 3, 4, 2)).conj().imag
        self.assertTrue(weights.is_neg())
        found, expected = (torch.autograd.grad(call(q, q, q), q, weights)[0] for call in (served, framework))
        self.assertTrue(torch.allclose(found, expected))

    def test_a_row_that_sees_no_key_is_0(self):
        q, mask = values(1, 2, 3, 4).requires_grad_(), torch.tensor([[True, True, False], [False, False, False], [True, False, False]], device=DEVICE)
        out = served(q, q, q, mask)
        self.assertFalse(bool(out[:, :, 1].any()))
        self.assertTrue(bool(torch.autograd.grad(out.sum(), q)[0].isfinite().all()))

    def test_memory_is_as_pytorchs(self):
        """So a program's view of the transposed result works; gradients lie in memory as their tensors."""
        x = values(2, 5, 3, 8, dtype=torch.float32).requires_grad_()
        q = x.transpose(1, 2)
        for inputs in (q, q.detach()):
            self.assertTrue(served(inputs, inputs, inputs).transpose(1, 2).is_contiguous())
        leaves = [q.detach().clone().requires_grad_() for _ in range(3)]
        self.assertEqual([gradient.stride() for gradient in torch.autograd.grad(served(*leaves).sum(), leaves)], [q.stride()] * 3)

    def test_opcheck(self):
        torch.library.opcheck(torch.ops.attile.attention, tuple(values(2, 2, 4, 8).requires_grad_() for _ in range(3)), {"out_blhd": True})

    def test_autocast(self):
        q, mask = values(1, 2, 5, 8, dtype=torch.float32).requires_grad_(), values(5, 5, dtype=torch.float32)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found, expected = (call(q, q, q, mask) for call in (served, framework))
            self.assertEqual((found.dtype, expected.dtype), (torch.bfloat16, torch.bfloat16))
            self.assertTrue(float((found - expected).abs().max()) <= 2 * torch.finfo(torch.bfloat16).eps)
            self.assertEqual(served(q, q, q, dropout_p=0.0, scale=1.5).dtype, torch.bfloat16)
            self.assertEqual(served(q.double(), q.double(), q.double()).dtype, torch.float64)
        self.assertEqual(torch.autograd.grad(found.sum(), q)[0].dtype, torch.float32)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=False):
            self.assertEqual(served(q, q, q).dtype, torch.float32)

    def test_without_gradients(self):
        q = values(1, 2, 5, 8, dtype=torch.float32).requires_grad_()
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertFalse(served(q, q, q).requires_grad)
        x = values(1, 2, 5, 8).to(torch.complex128).conj().imag  # Its negation is pending.
        self.assertTrue(x.is_neg())
        with attile.torch.sdpa(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertTrue(torch.equal(attention(x, x, x), framework(x, x, x)))

    def test_a_module_of_pytorch(self):
        torch.manual_seed(1)
        layer, x = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True).to(DEVICE, torch.float64), values(2, 7, 16)
        padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3], device=DEVICE)
        found = [layer(x, src_key_padding_mask=padding)]
        with attile.torch.sdpa(), mock.patch.object(_sdpa, "_framework", side_effect=AssertionError("left to PyTorch")):
            found.append(layer(x, src_key_padding_mask=padding))
        self.assertTrue(float((found[0] - found[1]).abs().max()) <= 1e-12)


class Nested(unittest.TestCase):
    LENGTHS = (3, 1, 6)

    def nested(self, widths, lengths):
        """q, k and v, [B, H, ragged L, D], and their sequences as leaves."""
        sequences = [[values(length, 2, width).requires_grad_() for length in of] for width, of in zip(widths, lengths)]
        whole = [torch.nested.as_nested_tensor(parts, layout=torch.jagged) for parts in sequences[:2]]
        like = whole[1].offsets()  # Keys and values share their lengths as PyTorch knows them, by one tensor of offsets.
        whole.append(torch.nested.nested_tensor_from_jagged(torch.cat(sequences[2]), like))
        return [x.transpose(1, 2) for x in whole], sequences

    @unittest.skipUnless(_sdpa._HAS_JAGGED, "they are left to a PyTorch before 2.5")
    def test_values_and_gradients_of_each_sequence(self):
        for lengths_k, options in itertools.product((self.LENGTHS, (4, 8, 1)), ({}, {"is_causal": True, "scale": 0.4})):
            whole, sequences = self.nested((8, 8, 5), (self.LENGTHS, lengths_k, lengths_k))
            out = served(*whole, **options)
            self.assertTrue(out.is_nested)
            self.assertEqual(out.shape[2], whole[0].shape[2])
            expected = [framework(*(x.transpose(0, 1) for x in one), **options) for one in zip(*sequences)]
            for one, other in zip(out.transpose(1, 2).unbind(), expected):
                self.assertTrue(float((one.transpose(0, 1) - other).abs().max()) <= 1e-14)
            leaves = sum(sequences, [])
            found, wanted = (torch.autograd.grad(total, leaves) for total in ((out.values() * 2).sum(), sum((x * 2).sum() for x in expected)))
            self.assertTrue(max(errors(found, wanted)) <= 1e-14)

    def test_holes_and_masks_are_left_to_pytorch(self):
        whole, _ = self.nested((8, 8, 8), (self.LENGTHS,) * 3)
        holes = torch.nested.nested_tensor_from_jagged(values(2, 9, 8), torch.tensor([0, 4, 9], device=DEVICE), torch.tensor([2, 3], device=DEVICE), jagged_dim=2)
        for arrays, options in (((holes, holes, holes), {}), (whole, {"dropout_p": 0.1}), ((whole[0], whole[0], values(3, 2, 6, 8)), {})):
            with attile.torch.sdpa(), mock.patch.object(_sdpa, "_framework", return_value="theirs"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(attention(*arrays, **options), "theirs")

    @unittest.skipUnless(_sdpa._HAS_JAGGED, "they are left to a PyTorch before 2.5")
    def test_a_device_without_autocast_is_left_to_pytorch(self):
        _sdpa._said.clear()
        like = torch.nested.nested_tensor_from_jagged(torch.empty(9, 2, 8, device="meta"), torch.empty(3, dtype=torch.int64, device="meta"), min_seqlen=4, max_seqlen=5)
        with attile.torch.sdpa(), mock.patch.object(_sdpa, "_framework", return_value="theirs"), self.assertWarnsRegex(UserWarning, "tensors on meta are not served"):
            self.assertEqual(attention(*[like.transpose(1, 2)] * 3), "theirs")


class Fallback(unittest.TestCase):
    def setUp(self):
        _sdpa._said.clear()

    def check(self, reason, arrays, **options):
        """PyTorch's result or error, and one warning that gives the reason."""
        results = []
        for call in (framework, attention):
            torch.manual_seed(5)
            with attile.torch.sdpa() if call is attention else mock.MagicMock(), warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    results.append(call(*arrays, **options))
                    call(*arrays, **options)
                except (RuntimeError, ValueError) as error:
                    results.append(str(error))
        ours = [str(warning.message) for warning in said if "attile.torch" in str(warning.message)]
        self.assertEqual(len(ours), 1, ours)
        self.assertRegex(ours[0], reason)
        self.assertEqual(type(results[0]), type(results[1]))
        self.assertTrue(results[0] == results[1] if isinstance(results[0], str) else torch.equal(*results) or bool(results[0].isnan().any()), results)

    def test_what_is_not_served(self):
        q, other = values(2, 3, 4, 8, dtype=torch.float32), values(2, 3, 4, 8)
        self.check("dropout_p is not 0", (q, q, q), dropout_p=0.5)
        self.check("scale is 0", (q, q, q), scale=0.0)
        self.check("1 dimensions|5, 5 and 5 dimensions", (q[None], q[None], q[None]))
        self.check("4, 3 and 3 dimensions", (q, q[0], q[0]))
        self.check("of types", (q, other, q))
        self.check("with is_causal", (q, q, q, seen(4, 4)), is_causal=True)
        self.check("of type torch.float64", (q, q, q, values(4, 4)))
        self.check("does not broadcast", (q, q, q, values(5, 4, dtype=torch.float32)))
        self.check("is empty", (q, q[:, :, :0], q[:, :, :0]))
        self.check("heads of query, key and value", (q, q, q[:, :2]))
        self.check("shapes of query", (q, q[..., :4], q))
        self.check("different devices", (q, q.to("meta"), q))
        if HAS_GQA:
            self.check("3 heads of query", (q, q[:, :2], q[:, :2]), enable_gqa=True)

    def test_kinds_of_tensors(self):
        class Mine(torch.Tensor):
            pass

        q = values(2, 3, 4, 8, dtype=torch.float32)
        self.check("subclass", (q.as_subclass(Mine), q, q))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(values(2, 3, 4, 8), values(2, 3, 4, 8))
            with attile.torch.sdpa(), self.assertWarnsRegex(UserWarning, "torch.func or forward-mode"), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                self.assertIsNotNone(torch.autograd.forward_ad.unpack_dual(attention(dual, dual, dual)).tangent)
        with attile.torch.sdpa():
            self.assertTrue(torch.allclose(torch.func.vmap(attention)(q, q, q), framework(q, q, q), atol=1e-6))

    def test_what_the_library_lacks(self):
        q = values(1, 1, 2, 4)
        with mock.patch.object(_sdpa, "run", side_effect=attile.AttileUnsupportedError(2004, "ATTILE_ERROR_UNSUPPORTED_SHAPE", "attention: more than a grid holds")):
            self.check("more than a grid holds", (q, q, q))

    @unittest.skipIf(DEVICE == "cuda", "the backend is there")
    def test_a_gpu_without_the_backend_for_it(self):
        self.assertRegex(_sdpa._refused_device("cuda"), "on a GPU, and the default context")
        self.assertRegex(_sdpa._refused_device("xpu"), "tensors on xpu are not served")

    def test_exported_and_scripted_programs_hold_pytorchs_own(self):
        q = values(1, 2, 5, 8, dtype=torch.float32)

        class Layer(torch.nn.Module):
            def forward(self, x):
                return attention(x, x, x, is_causal=True)

        def scripted(x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

        with attile.torch.sdpa(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            programs = [torch.jit.trace(Layer(), q), torch.jit.script(scripted), torch.fx.symbolic_trace(Layer())]
            for strict in (False, True):
                exported = torch.export.export(Layer(), (q,), strict=strict)
                if hasattr(torch.compiler, "is_exporting"):  # Versions before cannot tell, and export the operator.
                    self.assertNotIn("attile", str(exported.graph))
                programs.append(exported.module())
        for program in programs:
            self.assertTrue(torch.allclose(program(q), framework(q, q, q, is_causal=True)))


class Replacement(unittest.TestCase):
    def is_ours(self):
        return functional.scaled_dot_product_attention is _sdpa.scaled_dot_product_attention

    def test_blocks_and_enable(self):
        self.assertFalse(self.is_ours())
        with attile.torch.sdpa():
            with attile.torch.sdpa():
                attile.torch.enable()
                attile.torch.enable()
            attile.torch.disable()
            self.assertTrue(self.is_ours())
        self.assertFalse(self.is_ours())
        attile.torch.enable()
        with attile.torch.sdpa():
            pass
        self.assertTrue(self.is_ours())
        attile.torch.disable()
        self.assertIs(functional.scaled_dot_product_attention, framework)
        with self.assertRaises(KeyError), attile.torch.sdpa():
            raise KeyError
        self.assertIs(functional.scaled_dot_product_attention, framework)

    def test_another_replacement_stays(self):
        def other(*tensors, **options):
            return framework(*tensors, **options)

        with mock.patch.object(functional, "scaled_dot_product_attention", other):
            with attile.torch.sdpa():
                self.assertTrue(self.is_ours())
                self.assertIs(_sdpa._framework, other)
            self.assertIs(functional.scaled_dot_product_attention, other)
            with attile.torch.sdpa():
                functional.scaled_dot_product_attention = framework
            self.assertIs(functional.scaled_dot_product_attention, framework)

    def test_a_function_that_wraps_it(self):
        q = values(1, 2, 5, 8, dtype=torch.float32)
        self.addCleanup(attile.torch.disable)
        self.addCleanup(setattr, functional, "scaled_dot_product_attention", framework)  # Runs first.
        attile.torch.enable()
        ours = functional.scaled_dot_product_attention
        functional.scaled_dot_product_attention = lambda *tensors, **options: ours(*tensors, **options)
        for _ in range(2):
            attile.torch.enable()
            with mock.patch.object(_sdpa, "attend", side_effect=RuntimeError("served")):
                self.assertRaisesRegex(RuntimeError, "served", functional.scaled_dot_product_attention, q, q, q)
                functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)  # Left to PyTorch, not to the wrapper.
                attile.torch.disable()
                functional.scaled_dot_product_attention(q, q, q)

    def test_threads(self):
        failures, q = [], values(1, 2, 33, 8, dtype=torch.float32)
        expected = framework(q, q, q)

        def work():
            for _ in range(50):
                with attile.torch.sdpa():
                    if not torch.allclose(attention(q, q, q), expected, atol=1e-6):
                        failures.append("a wrong value")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertIs(functional.scaled_dot_product_attention, framework)

    def test_operators_refuse_two_devices(self):
        q = values(1, 1, 2, 4)
        with self.assertRaisesRegex(ValueError, f"k is on meta and q on {values(1).device}; all tensors are expected on one device"):
            _torch_call.call("attention", q, q.to("meta"), q)
        with self.assertRaisesRegex(ValueError, "bias is on meta and a on c"):
            _torch_call.call("gemm", q, q, bias=q.to("meta"))


class Compiled(unittest.TestCase):
    @staticmethod
    def layer(x, mask=None, dropout_p=0.0):
        q, k, v = x.unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return attention(q * 0.5, k, v, mask, dropout_p=dropout_p, is_causal=mask is None).transpose(1, 2).flatten(2) * 2

    def setUp(self):
        torch._dynamo.reset()
        self.graphs = []

    def compiled(self):
        def backend(graph, _):
            self.graphs.append(str(graph.graph))
            return graph

        return torch.compile(self.layer, fullgraph=True, backend=backend)

    def test_gradients_and_lengths(self):
        self.compare("aot_eager")

    @unittest.skipUnless(shutil.which("g++"), "there is no g++, with which PyTorch compiles")
    def test_inductor(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.compare("inductor")

    def compare(self, backend):
        fast = torch.compile(self.layer, fullgraph=True, backend=backend)
        for length, masked, low in ((5, False, False), (6, False, False), (9, True, False), (9, True, True)):
            x = values(2, length, 48, dtype=torch.float32).requires_grad_()
            mask = seen(2, 1, 1, length) if masked else None
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=low):
                expected = self.layer(x, mask)
                with attile.torch.sdpa():
                    found = fast(x, mask)
            self.assertEqual(found.dtype, expected.dtype)
            bound = 4 * torch.finfo(torch.bfloat16).eps if low else 1e-5
            self.assertTrue(max(errors([found, *gradients(found, x)], [expected, *gradients(expected, x)])) <= bound)

    def test_graphs_follow_the_replacement(self):
        fast, x = self.compiled(), values(2, 5, 48, dtype=torch.float32)
        for enabled in (True, False, True):
            with attile.torch.sdpa() if enabled else mock.MagicMock():
                self.assertTrue(torch.allclose(fast(x), self.layer(x), atol=1e-6))
        self.assertEqual(["attile.attention" in graph for graph in self.graphs], [True, False])

    def test_a_fallback_says_so_while_it_is_traced(self):
        _sdpa._said.clear()
        with attile.torch.sdpa(), self.assertWarnsRegex(UserWarning, "dropout_p is not 0"):
            self.compiled()(values(2, 5, 48), None, 0.5)
        self.assertEqual(["attile" in graph for graph in self.graphs], [False])


if __name__ == "__main__":
    unittest.main()

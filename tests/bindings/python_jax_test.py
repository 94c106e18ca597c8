# SPDX-License-Identifier: Apache-2.0
"""attile.jax: values and gradients beside JAX's own, under jit, grad and vmap, and what is refused."""
import functools
import importlib.util
import inspect
import os
import subprocess
import sys
import unittest

import numpy as np

import attile
from attile import _extension

if importlib.util.find_spec("jax") is None:
    raise unittest.SkipTest("JAX is not installed")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import jax.test_util  # noqa: E402

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(5)
B, T, S, N, K, H = 2, 5, 7, 4, 2, 8
TYPES = jnp.float32, jnp.float64, jnp.bfloat16, jnp.float16
# JAX's softmax is in float32, of float64 too. Its probabilities are rounded to the operands' type.
BOUND = {"float32": 4e-6, "float64": 2e-6, "bfloat16": 3e-2, "float16": 4e-3}


def random(*shape, dtype=jnp.float32):
    return jnp.asarray(np.asarray(RNG.uniform(-1, 1, shape), dtype))


def operands(dtype=jnp.float32, batch=B):
    return [random(batch, length, heads, H, dtype=dtype) for length, heads in ((T, N), (S, K), (S, K))]


def lengths(*values):
    return jnp.asarray(values, jnp.int32)


def of_jax(*arrays, **options):
    """JAX's own. Where nothing else hides a key, versions up to 0.7.2 at least leave a window out, so a mask that hides none goes with it."""
    if "local_window_size" in options:
        options.setdefault("mask", jnp.ones((1, 1, T, S), bool))
    return jax.nn.dot_product_attention(*arrays, **options)


def cases():
    """Options of attention under which every row sees a key."""
    mask = jnp.asarray(RNG.uniform(size=(B, N, T, S)) < 0.6).at[..., 0].set(True)
    yield {}
    yield {"scale": 0.7, "is_causal": True}
    yield {"bias": random(B, N, T, S)}
    yield {"bias": random(N, 1, S), "mask": mask}
    yield {"mask": mask[:1, :, :1], "is_causal": True}
    yield {"local_window_size": (2, 1)}
    yield {"local_window_size": 1, "is_causal": True}
    yield {"key_value_seq_lengths": lengths(3, 7), "bias": random(1, N, T, S)}
    yield {"query_seq_lengths": lengths(2, 5), "key_value_seq_lengths": lengths(7, 4), "is_causal": True}


def own_cases():
    """Extents, options that JAX does not have, and the mask that says the same. Every row sees a key."""
    def pairs(rows, keys):
        return np.arange(rows)[:, None], np.arange(keys), np.ones((B, 1, rows, keys), bool)

    def entries(*values):
        return np.asarray(values)[:, None, None, None]

    i, j, seen = pairs(T, S)
    yield T, S, {"key_starts": lengths(3, 0)}, seen & (j >= entries(3, 0))
    yield T, S, {"key_starts": lengths(-2, 6), "key_value_seq_lengths": lengths(4, 7)}, (j >= entries(0, 6)) & (j < entries(4, 7)) & seen
    yield T, S, {"causal_offset": lengths(2, 1), "is_causal": True}, j <= i + entries(2, 1)
    yield T, S, {"causal_offset": lengths(2, 3), "is_causal": True, "key_starts": lengths(2, 1)}, (j <= i + entries(2, 3)) & (j >= entries(2, 1))
    yield T, S, {"causal_offset": lengths(1, 2), "local_window_size": (1, 1)}, abs(j - i - entries(1, 2)) <= 1
    drafts = RNG.uniform(size=(B, N, T, 3)) < 0.5
    yield T, S, {"tree_mask": jnp.asarray(drafts)}, np.concatenate([np.ones((B, N, T, S - 3), bool), drafts], -1)
    i, j, seen = pairs(200, 300)
    blocks = np.asarray([[[True, False, True], [False, True, False]], [[False, True, False], [True, True, True]]])
    yield 200, 300, {"block_mask": jnp.asarray(blocks[:, None])}, blocks[:, None][:, :, i // 128, j // 128] & seen
    yield 200, 300, {"block_mask": jnp.asarray(blocks[0, :1]), "is_causal": True}, blocks[0, :1][i // 128 * 0, j // 128] & (j <= i) & seen


def apart(found, expected):
    """The largest difference, as a part of the largest value expected."""
    found, expected = (np.asarray(x).astype(np.float64) for x in (found, expected))
    assert found.shape == expected.shape, (found.shape, expected.shape)
    if found.size == 0:
        return 0.0
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-3))


@unittest.skipUnless(attile.compiled, "attile.jax needs the extension")
class Attention(unittest.TestCase):
    def near(self, found, expected, factor=1, dtype=None):
        """Within the bound of a type: that of each result, or that of the operands, which a result in another type is no better than."""
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            self.assertEqual(one.dtype, other.dtype)
            self.assertLessEqual(apart(one, other), factor * BOUND[np.dtype(dtype or other.dtype).name])

    def test_arguments_are_those_of_jax(self):
        theirs, here = (inspect.signature(function).parameters for function in (jax.nn.dot_product_attention, attile.jax.attention))
        own = {"softcap", "key_starts", "causal_offset", "block_mask", "tree_mask"}
        self.assertEqual(set(here) - set(theirs) - {"return_residual"}, own)  # The residual came with JAX 0.9.
        self.assertEqual(set(theirs) - set(here), set())
        self.assertEqual([*theirs][:5], [*here][:5])

    def test_values(self):
        for at, options in enumerate(cases()):
            for dtype in TYPES[: 4 if at in (0, 3) else 1]:
                with self.subTest(options=list(options), dtype=dtype.__name__):
                    arrays = operands(dtype)
                    expected = of_jax(*arrays, **options)
                    self.near(attile.jax.attention(*arrays, **options), expected)
                    if dtype == jnp.float32:
                        self.near(jax.jit(functools.partial(attile.jax.attention, **options))(*arrays), expected)

    def test_options_that_jax_does_not_have(self):
        for rows, keys, options, seen in own_cases():
            for dtype in (jnp.float32, jnp.bfloat16):
                q, k, v = (random(B, length, heads, H, dtype=dtype) for length, heads in ((rows, N), (keys, K), (keys, K)))
                bias, weight = random(1, N, 1, keys), random(B, rows, N, H)
                own = functools.partial(attile.jax.attention, **options)
                theirs = functools.partial(jax.nn.dot_product_attention, mask=jnp.asarray(seen))

                def loss(attention, *arrays, weight=weight):
                    return (attention(*arrays) * weight).astype(jnp.float32).sum()

                with self.subTest(options=list(options), dtype=dtype.__name__):
                    self.near(jax.jit(own)(q, k, v, bias), theirs(q, k, v, bias))
                    found = jax.jit(jax.grad(functools.partial(loss, own), (0, 1, 2, 3)))(q, k, v, bias)
                    exact = jax.grad(functools.partial(loss, theirs), (0, 1, 2, 3))(*(x.astype(jnp.float32) for x in (q, k, v, bias)))
                    self.near(found, [x.astype(one.dtype) for x, one in zip(exact, (q, k, v, bias))], 4, dtype)

    def test_keys_before_the_first_may_hold_anything(self):
        q, k, v = operands()
        starts = lengths(3, 1)
        padding = (jnp.arange(S) < starts[:, None])[..., None, None]
        expected = attile.jax.attention(q, k, v, key_starts=starts)
        k, v = (jnp.where(padding, jnp.nan, x) for x in (k, v))
        self.assertTrue((attile.jax.attention(q, k, v, key_starts=starts) == expected).all())
        for gradient in jax.grad(lambda k, v: attile.jax.attention(q, k, v, key_starts=starts).sum(), (0, 1))(k, v):
            self.assertTrue(np.isfinite(gradient).all())
            self.assertEqual(float(jnp.abs(jnp.where(padding, gradient, 0)).max()), 0)

    def test_vmap_of_options_that_jax_does_not_have(self):
        q, k, v = (jnp.stack(x) for x in zip(*(operands() for _ in range(3))))
        starts, offsets = (jnp.asarray(RNG.integers(0, 3, (3, B)), jnp.int32) for _ in range(2))
        trees = jnp.asarray(RNG.uniform(size=(3, 1, 1, T, 2)) < 0.5)

        def call(q, k, v, starts, offsets, tree):
            return attile.jax.attention(q, k, v, is_causal=True, key_starts=starts, causal_offset=offsets + 2, tree_mask=tree)

        mapped = q, k, v, starts, offsets, trees
        for axes in ((0,) * 6, (0, None, None, 0, None, None), (None, 0, None, None, 0, 0)):
            given = [x if axis == 0 else x[0] for x, axis in zip(mapped, axes)]
            one_by_one = [[x[i] if axis == 0 else x for x, axis in zip(given, axes)] for i in range(3)]

            def gradients(*arrays):
                return jax.grad(lambda *arrays: (call(*arrays) ** 2).sum(), (0, 1, 2))(*arrays)

            with self.subTest(axes=axes):
                self.near(jax.vmap(call, axes)(*given), jnp.stack([call(*x) for x in one_by_one]))
                self.near(jax.jit(jax.vmap(gradients, axes))(*given), jax.tree.map(lambda *x: jnp.stack(x), *[gradients(*x) for x in one_by_one]))

    def test_types_of_a_bias(self):
        arrays = operands()
        for dtype in (jnp.float64, jnp.bfloat16, jnp.int32):
            bias = (3 * random(N, T, S)).astype(dtype)
            with self.subTest(dtype=dtype.__name__):
                self.near(attile.jax.attention(*arrays, bias), jax.nn.dot_product_attention(*arrays, bias))

    def test_without_a_batch(self):
        q, k, v = (x[0] for x in operands())
        self.near(attile.jax.attention(q, k, v, random(N, T, S) * 0, is_causal=True), jax.nn.dot_product_attention(q, k, v, is_causal=True))

    def test_the_residual(self):
        q, k, v = operands(jnp.float64)
        bias = random(B, N, T, S, dtype=jnp.float64)
        out, lse = attile.jax.attention(q, k, v, bias, return_residual=True, softcap=2.0)
        scores = 2 * jnp.tanh(jnp.einsum("btnh,bsnh->bnts", q, jnp.repeat(k, N // K, 2)) / np.sqrt(H) / 2) + bias
        self.assertLessEqual(apart(lse, jax.nn.logsumexp(scores, -1).transpose(0, 2, 1)), 1e-14)
        self.assertLessEqual(apart(out, jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), jnp.repeat(v, N // K, 2))), 1e-14)
        gradient = jax.grad(lambda q: attile.jax.attention(q, k, v, return_residual=True)[1].sum())(q)
        self.assertEqual(float(jnp.abs(gradient).max()), 0)
        short = attile.jax.attention(*operands(), return_residual=True, query_seq_lengths=lengths(1, 5))[1]
        self.assertTrue(np.isneginf(short[0, 1:]).all() and np.isfinite(short[1]).all())

    def test_nothing(self):
        for batch, rows, keys in ((0, T, S), (B, 0, S), (B, T, 0)):
            q, k = random(batch, rows, N, H), random(batch, keys, K, H)
            out, gradient = jax.value_and_grad(lambda k, q=q: attile.jax.attention(q, k, k).sum())(k)
            self.assertEqual((float(out), float(jnp.abs(gradient).sum())), (0, 0))

    def test_rows_without_a_key(self):
        out = attile.jax.attention(*operands(), mask=jnp.zeros((1, 1, T, S), bool))
        self.assertEqual(float(jnp.abs(out).max()), 0)

    def test_gradients(self):
        for at, options in enumerate(cases()):
            bias = options.get("bias")
            rest = {name: value for name, value in options.items() if name != "bias"}
            for dtype in (jnp.float32, jnp.bfloat16, jnp.float16)[: 3 if at in (0, 3) else 1]:  # float64: below.
                arrays = [*operands(dtype), *([] if bias is None else [bias])]
                weight = random(B, T, N, H)

                def loss(attention, *arrays, rest=rest, weight=weight):
                    return (attention(*arrays, **rest) * weight).astype(jnp.float32).sum()

                def gradients(function, arrays, loss=loss):
                    return jax.jit(jax.grad(functools.partial(loss, function), tuple(range(len(arrays)))))(*arrays)

                found = gradients(attile.jax.attention, arrays)
                # JAX has none of float16 on a CPU, so those of 2 bytes are compared with its gradients of the same values in float32.
                exact = gradients(of_jax, [x.astype(jnp.promote_types(x.dtype, jnp.float32)) for x in arrays])
                with self.subTest(options=list(options), dtype=dtype.__name__):
                    self.near(found, [x.astype(own.dtype) for x, own in zip(exact, arrays)], 3, dtype)

    def test_gradients_by_differences(self):
        for options in cases():
            bias = options.pop("bias", None)
            arrays = (*operands(jnp.float64), *([] if bias is None else [bias.astype(jnp.float64)]))
            with self.subTest(options=list(options)):
                jax.test_util.check_grads(functools.partial(attile.jax.attention, softcap=2.0, **options), arrays, order=1, modes=["rev"])

    def test_only_a_bias_that_is_followed_has_a_gradient(self):
        q, k, v = operands()
        bias = random(1, N, T, S)
        constant = str(jax.make_jaxpr(jax.grad(lambda q: attile.jax.attention(q, k, v, bias).sum()))(q))
        followed = str(jax.make_jaxpr(jax.grad(lambda bias: attile.jax.attention(q, k, v, bias).sum()))(bias))
        for text, given in ((constant, False), (followed, True)):
            calls = [line for line in text.split("\n") if "= ffi_call[" in line]
            self.assertEqual(len(calls), 2, text)  # Forward and backward.
            self.assertEqual(f"f32[1,{N},{T},{S}]" in calls[1].partition("=")[0], given)

    def test_vmap(self):
        q, k, v = (jnp.stack(x) for x in zip(*(operands() for _ in range(3))))
        bias, masks, counts = random(3, 1, N, T, S), jnp.asarray(RNG.uniform(size=(3, B, 1, T, S)) < 0.7), jnp.asarray([[1, 7], [3, 2], [5, 5]], jnp.int32)

        def call(q, k, v, bias, mask, counts):
            return attile.jax.attention(q, k, v, bias, mask.at[..., 0].set(True), key_value_seq_lengths=counts)

        mapped = q, k, v, bias, masks, counts
        for axes in ((0,) * 6, (0, None, None, 0, None, None), (None, 0, 0, None, 0, 0), (0, None, 0, None, None, 0)):
            given = [x if axis == 0 else x[0] for x, axis in zip(mapped, axes)]
            one_by_one = [[x[i] if axis == 0 else x for x, axis in zip(given, axes)] for i in range(3)]

            def gradients(*arrays):
                return jax.grad(lambda *arrays: (call(*arrays) ** 2).sum(), (0, 1, 2, 3))(*arrays)

            with self.subTest(axes=axes):
                self.near(jax.vmap(call, axes)(*given), jnp.stack([call(*x) for x in one_by_one]))
                expected = jax.tree.map(lambda *x: jnp.stack(x), *[gradients(*x) for x in one_by_one])
                self.near(jax.jit(jax.vmap(gradients, axes))(*given), expected)

    def test_vmap_of_a_bias_that_is_not_mapped(self):
        """Its gradient is one for each element, also where a batch of 1 lets the call be made once."""
        q, k, v = (random(3, 1, *x.shape[1:]) for x in operands())
        for bias in (random(1, N, T, S), random(1, S)):
            def gradient(q, k, v, bias=bias):
                return jax.grad(lambda bias: (attile.jax.attention(q, k, v, bias) ** 2).sum())(bias)

            self.near(jax.vmap(gradient)(q, k, v), jnp.stack([gradient(q[i], k[i], v[i]) for i in range(3)]))

    def test_vmap_within_vmap(self):
        one = [x[0] for x in operands()]  # A batch axis of 1 is added to each.
        q, k = random(3, 2, T, N, H), random(2, S, K, H)
        found = jax.vmap(lambda q: jax.vmap(lambda q, k: attile.jax.attention(q, k, one[2]))(q, k))(q)
        expected = jnp.stack([jnp.stack([attile.jax.attention(q[i, j], k[j], one[2]) for j in range(2)]) for i in range(3)])
        self.near(found, expected)
        self.near(jax.vmap(lambda q: attile.jax.attention(q, one[1], one[2]))(q[:, 0]), jax.vmap(lambda q: jax.nn.dot_product_attention(q, one[1], one[2]))(q[:, 0]))
        self.assertEqual(jax.vmap(lambda q: attile.jax.attention(q, one[1], one[2]))(q[:0, 0]).shape, (0, T, N, H))

    def test_checkpoint_and_scan(self):
        q, k, v = operands()

        def step(carry, _):
            return jax.checkpoint(lambda x: attile.jax.attention(x, k, v, is_causal=True))(carry), None

        def steps(attention):
            def loss(x):
                for _ in range(3):
                    x = attention(x, k, v, is_causal=True)
                return x.sum()
            return loss

        self.near(jax.jit(jax.grad(lambda x: jax.lax.scan(step, x, None, length=3)[0].sum()))(q), jax.grad(steps(jax.nn.dot_product_attention))(q), 4)

    def test_refused(self):
        q, k, v = operands()
        i8 = q.astype(jnp.int8)
        for sentence, kind, arrays, options in (
            ("query has shape \\(5,\\)", ValueError, (q[0, :, 0, 0], k, v), {}),
            ("key has shape .*4 dimensions as of query", ValueError, (q, k[0], v), {}),
            ("key has shape .*\\[2, S, K, 8\\] is expected", ValueError, (q, k[..., :4], v), {}),
            ("value has shape .*\\[2, 7, 2, H\\] is expected", ValueError, (q, k, v[:, :3]), {}),
            ("value has elements of type float16; float32", ValueError, (q, k, v.astype(jnp.float16)), {}),
            ("query has elements of type int8", TypeError, (i8, k.astype(jnp.int8), v.astype(jnp.int8)), {}),
            ("heads_kv\\) is 2; expected a divisor", attile.AttileArgumentError, (q[:, :, :3], k, v), {}),
            ("bias has shape \\(3, 5, 7\\)", ValueError, (q, k, v, random(3, T, S)), {}),
            ("mask has elements of type float32; bool", ValueError, (q, k, v), {"mask": random(T, S)}),
            ("key_value_seq_lengths has shape \\(3,\\)", ValueError, (q, k, v), {"key_value_seq_lengths": lengths(1, 2, 3)}),
            ("query_seq_lengths has elements of type int64", ValueError, (q, k, v), {"query_seq_lengths": jnp.asarray([1, 2])}),
            ("key_starts has shape \\(1,\\)", ValueError, (q, k, v), {"key_starts": lengths(1)}),
            ("causal_offset has elements of type float32; int32", ValueError, (q, k, v), {"causal_offset": jnp.ones(B, jnp.float32), "is_causal": True}),
            ("causal_offset", attile.AttileArgumentError, (q, k, v), {"causal_offset": lengths(1, 2)}),
            ("block_mask has elements of type int32; bool", ValueError, (q, k, v), {"block_mask": jnp.ones((1, 1), jnp.int32)}),
            ("block_mask", attile.AttileArgumentError, (q, k, v), {"block_mask": jnp.ones((2, 1), bool)}),
            ("tree_mask has shape \\(1, 1, 1, 5, 2\\)", ValueError, (q, k, v), {"tree_mask": jnp.ones((1, 1, 1, T, 2), bool)}),
            ("tree_mask", attile.AttileArgumentError, (q, k, v), {"tree_mask": jnp.ones((T, S + 1), bool)}),
            ("local_window_size is -1", ValueError, (q, k, v), {"local_window_size": -1}),
            ("local_window_size is \\(1, 2, 3\\)", ValueError, (q, k, v), {"local_window_size": (1, 2, 3)}),
            ("scale is 0", ValueError, (q, k, v), {"scale": 0.0}),
            ("softcap", attile.AttileArgumentError, (q, k, v), {"softcap": -1.0}),
            ("implementation is 'cudnn'", ValueError, (q, k, v), {"implementation": "cudnn"}),
        ):
            with self.subTest(sentence=sentence), self.assertRaisesRegex(kind, sentence):
                jax.jit(functools.partial(attile.jax.attention, **options)).lower(*arrays)  # Traced; nothing runs.

    def test_a_handler_that_fails_says_why(self):
        q = random(1, 2, 1, 4)
        for sentence, results, arrays, options in (
            ("mask is 9", 2, (q, q, q), {"mask": np.int64(9)}),
            ("too few arguments", 2, (q, q), {}),
            ("too many arguments", 2, (q, q, q, q), {}),
            ("too few dimensions", 2, (q, q, q[0]), {}),
            ("do not broadcast", 2, (q, q, random(3, *q.shape)), {}),
            ("too few results", 1, (q, q, q), {}),
        ):
            attile.jax.attention  # Imported here at the latest.
            shapes = [jax.ShapeDtypeStruct(q.shape, q.dtype), jax.ShapeDtypeStruct((1, 1, 2), q.dtype)][:results]
            with self.subTest(sentence=sentence), self.assertRaisesRegex(Exception, sentence):
                jax.block_until_ready(jax.ffi.ffi_call("attile_attention", shapes)(*arrays, **options))

    def test_arrays_on_two_devices(self):
        """JAX refuses them before a handler is called; on the second device alone they are taken."""
        program = """
import jax, jax.numpy as jnp, attile.jax
first, second = (jax.device_put(jnp.ones((1, 3, 1, 4)), device) for device in jax.devices())
for call in (attile.jax.attention, jax.jit(attile.jax.attention), lambda q, k, v: attile.jax.matmul(q, k.swapaxes(2, 3))):
    try:
        call(first, second, second)
        raise SystemExit("a result")
    except ValueError as error:
        assert "incompatible devices" in str(error), error
    found = call(second, second, second)
    assert found.devices() == second.devices() and bool(jnp.isfinite(found).all())
"""
        two = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, **two})
        self.assertEqual(found.returncode, 0, found.stderr)

    def test_a_child_of_fork_whose_context_is_not_open_yet(self):
        a = random(3, 3)
        expected = attile.jax.matmul(a, a)
        _extension.native.forget_context()  # As in such a child, where XLA's own threads are missing.
        try:
            with self.assertRaisesRegex(Exception, "context is not open: this process was forked"):
                jax.block_until_ready(attile.jax.matmul(a, a))
        finally:
            attile.softmax(np.ones((1, 1), np.float32))  # Opens it.
        self.assertTrue((attile.jax.matmul(a, a) == expected).all())


@unittest.skipUnless(attile.compiled, "attile.jax needs the extension")
class Matmul(unittest.TestCase):
    SHAPES = (((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 6)), ((2, 3, 2, 3, 4), (2, 3, 2, 4, 5)),
              ((2, 3, 1, 3, 4), (3, 2, 4, 5)), ((0, 4), (4, 5)), ((2, 0, 4), (4, 5)), ((3, 0), (0, 5)), ((0, 3, 4), (0, 4, 5)))

    def test_values_and_gradients(self):
        for at, (a, b) in enumerate(self.SHAPES):
            for dtype in TYPES[: 4 if at in (0, 4) else 1]:
                x, y = random(*a, dtype=dtype), random(*b, dtype=dtype)
                with self.subTest(a=a, b=b, dtype=dtype.__name__):
                    expected = np.matmul(*(np.asarray(one).astype(np.float64) for one in (x, y)))
                    found = attile.jax.matmul(x, y)
                    self.assertEqual(found.dtype, dtype)
                    self.assertLessEqual(apart(found, expected), 8 * jnp.finfo(dtype).eps)
            x, y = random(*a, dtype=jnp.float64), random(*b, dtype=jnp.float64)
            if at in (0, 3, 6, 8):
                jax.test_util.check_grads(attile.jax.matmul, (x, y), order=2 if at == 0 else 1, modes=["rev"])
            elif not x.size:
                found = jax.grad(lambda x, y: attile.jax.matmul(x, y).sum(), (0, 1))(x, y)
                self.assertEqual([float(jnp.abs(one).sum()) for one in found], [0, 0])

    def test_vmap(self):
        a, b = random(3, 2, 4, 5), random(3, 5, 6)
        for axes, expected in (((0, 0), jnp.stack([a[i] @ b[i] for i in range(3)])), ((0, None), a @ b[0]), ((None, 0), jnp.stack([a[0] @ b[i] for i in range(3)]))):
            found = jax.vmap(attile.jax.matmul, axes)(*(x if axis == 0 else x[0] for x, axis in zip((a, b), axes)))
            self.assertLessEqual(apart(found, expected), 1e-6)
        self.assertNotIn("while", jax.jit(jax.vmap(attile.jax.matmul)).lower(a, b).as_text())  # One call of the handler.

    def test_vmap_of_unequal_ranks(self):
        """A mapped axis is none of those that broadcast, also where it is as long as one of them."""
        for extent in (2, 3):
            for axes, *shapes in (((0, None), (2, 4), (extent, 4, 5)), ((None, 0), (extent, 3, 4), (4, 5)), ((0, 0), (3, 4), (2, extent, 4, 5)), ((0, None), (extent, 3, 4), (4, 5)),
                                  ((0, None), (4,), (extent, 4, 5)), ((0, 0), (extent, 3, 4), (4,))):
                mapped = [random(*([3] if axis == 0 else []), *shape, dtype=jnp.float64) for axis, shape in zip(axes, shapes)]
                one_by_one = [[x[i] if axis == 0 else x for x, axis in zip(mapped, axes)] for i in range(3)]

                def gradients(*arrays):
                    return jax.grad(lambda *arrays: (attile.jax.matmul(*arrays) ** 2).sum(), (0, 1))(*arrays)

                with self.subTest(axes=axes, shapes=shapes):
                    self.assertLessEqual(apart(jax.vmap(attile.jax.matmul, axes)(*mapped), jnp.stack([jnp.matmul(*x) for x in one_by_one])), 1e-15)
                    expected = jax.tree.map(lambda *x: jnp.stack(x), *[gradients(*x) for x in one_by_one])
                    for found, wanted in zip(jax.jit(jax.vmap(gradients, axes))(*mapped), expected):
                        self.assertLessEqual(apart(found, wanted), 1e-14)
                    whole = jax.grad(lambda *arrays, axes=axes: (jax.vmap(attile.jax.matmul, axes)(*arrays) ** 2).sum(), (0, 1))(*mapped)
                    wanted = [x if axis == 0 else x.sum(0) for x, axis in zip(expected, axes)]
                    for found, one in zip(whole, wanted):
                        self.assertLessEqual(apart(found, one), 1e-14)

    def test_types(self):
        a, b = random(3, 4, dtype=jnp.bfloat16), random(4, 5, dtype=jnp.bfloat16)
        found = attile.jax.matmul(a, b, preferred_element_type=jnp.float32)
        self.assertEqual(found.dtype, jnp.float32)
        self.assertLessEqual(apart(found, a.astype(jnp.float64) @ b.astype(jnp.float64)), 1e-6)
        self.assertEqual(jax.grad(lambda a: attile.jax.matmul(a, b, preferred_element_type=jnp.float32).sum())(a).dtype, jnp.bfloat16)
        self.assertEqual(attile.jax.matmul(a, b.astype(jnp.float32), precision="highest").dtype, jnp.float32)

    def test_refused(self):
        a = random(3, 4)
        for sentence, kind, arrays, options in (
            ("as many columns of a as rows of b", ValueError, (a, a), {}),
            ("leading axes that broadcast", ValueError, (random(2, 3, 4), random(3, 4, 5)), {}),
            ("at least one dimension", ValueError, (a, 2.0), {}),
            ("a.dtype is i32", attile.AttileArgumentError, (a.astype(jnp.int32), a.T.astype(jnp.int32)), {}),
            ("d.dtype is bf16", attile.AttileArgumentError, (a, a.T), {"preferred_element_type": jnp.bfloat16}),
        ):
            with self.subTest(sentence=sentence), self.assertRaisesRegex(kind, sentence):
                jax.jit(functools.partial(attile.jax.matmul, **options)).lower(*arrays)


class Import(unittest.TestCase):
    def run_python(self, program, **environment):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, **environment})

    def test_the_package_does_not_import_jax(self):
        self.assertEqual(self.run_python("import sys, attile; assert 'jax' not in sys.modules").returncode, 0)

    def test_without_the_extension(self):
        self.assertIn("ImportError: attile.jax needs the package's compiled extension", self.run_python("import attile.jax", ATTILE_PYTHON_PURE="1").stderr)


if __name__ == "__main__":
    unittest.main()

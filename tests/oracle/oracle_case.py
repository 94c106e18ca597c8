# SPDX-License-Identifier: Apache-2.0
"""What the oracle's tests share: storage types, memory layouts, the comparison, and one attention call with random contents."""
import unittest

import numpy as np

import attile_ctypes as ac
import oracle

INF, NAN = np.inf, np.nan
UNIT = {ac.F64: 0.0, ac.F32: 2.0**-24, ac.F16: 2.0**-11, ac.BF16: 2.0**-8}
TINY = {ac.F64: 0.0, ac.F32: 2.0**-150, ac.F16: 2.0**-25, ac.BF16: 2.0**-134}
STORE = {ac.F64: np.float64, ac.F32: np.float32, ac.F16: np.float16, ac.BF16: np.uint16}
TYPES = [(ac.F64, ac.F64), (ac.F32, ac.F32), (ac.F16, ac.F16), (ac.F16, ac.F32), (ac.BF16, ac.BF16), (ac.BF16, ac.F32)]


def stored(x, dtype):
    return oracle.round_bf16(np.asarray(x, np.float32)) if dtype == ac.BF16 else np.asarray(x).astype(STORE[dtype])


def widened(array):
    return oracle.widen_bf16(array) if array.dtype == np.uint16 else array.astype(np.float64)


def eight_bits(rng, dtype, shape):
    """Numbers as they are stored and as they are meant, of every bit pattern that is a finite number; float32 is taken, too."""
    if dtype == ac.F32:
        numbers = rng.standard_normal(shape).astype(np.float32)
        return numbers, numbers.astype(np.float64)
    if dtype == ac.I8:
        numbers = rng.integers(-128, 128, shape).astype(np.int8)
        return numbers, numbers.astype(np.float64)
    exponent_bits, fraction_bits, bias, last = (4, 3, 7, 0x7E) if dtype == ac.E4M3 else (5, 2, 15, 0x7B)
    magnitude = rng.integers(0, last + 1, shape)
    sign = rng.integers(0, 2, shape)
    exponent, fraction = magnitude >> fraction_bits, (magnitude & ((1 << fraction_bits) - 1)) / 2.0**fraction_bits
    value = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - bias))
    return (sign << (exponent_bits + fraction_bits) | magnitude).astype(np.uint8), np.where(sign == 1, -value, value)


def blank(shape, dtype, order=None):
    """An output full of NaN whose axes lie in memory in the given order."""
    order = order or range(len(shape))
    array = np.empty([shape[axis] for axis in order], STORE[dtype])
    array[...] = 0x7FC1 if dtype == ac.BF16 else NAN
    return array.transpose(np.argsort(order))


def laid_out(array, order):
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.attile = ac.Library()

    @classmethod
    def tearDownClass(cls):
        cls.attile.close()

    def agree(self, got, want, dtype, note="", whole=False):
        """1e-12 of the largest number in the row, and one rounding. Gradients are `whole`: theirs may cancel to nothing, so 1e-12 of 1 at least."""
        got, want = widened(got), np.asarray(want, np.float64)
        self.assertEqual(got.shape, want.shape, note)
        limit = {ac.F64: np.finfo(np.float64).max, ac.F32: np.finfo(np.float32).max, ac.F16: 65504.0, ac.BF16: 3.39e38}[dtype]
        want = np.where(np.abs(want) > limit, np.copysign(INF, want), want)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), note)
        np.testing.assert_array_equal(np.where(np.isinf(got), got, 0), np.where(np.isinf(want), want, 0), note)
        finite = np.isfinite(want)
        clean = np.where(finite, np.abs(want), 0)
        row = clean.max(axis=None if whole else -1, keepdims=True, initial=1 if whole else 0)
        tolerance = 1e-12 * np.broadcast_to(row, clean.shape) + UNIT[dtype] * clean * (1 + 1e-12) + TINY[dtype]
        error = np.where(finite, np.abs(np.where(finite, got, 0) - np.where(finite, want, 0)), 0)
        worst = np.max(np.where(tolerance > 0, error / np.where(tolerance > 0, tolerance, 1), np.where(error == 0, 0, INF)), initial=0)
        self.assertTrue(worst <= 1, f"{note}: error is {worst:.3g} of the tolerance")


def visible_bytes(rng, shape):
    """0, and anything else for what is seen."""
    return None if shape is None else (rng.random(shape) < 0.6).astype(np.uint8) * rng.integers(1, 256, shape).astype(np.uint8)


class Problem:
    """Arrays of one attention call with random contents, and the oracle's answer entry by entry."""

    def __init__(self, rng, dtype, out, spec, batch=2, heads=4, heads_kv=2, len_q=7, len_k=9, head_dim=8, head_dim_v=8, order=(0, 1, 2, 3)):
        wide = ac.F64 if dtype == ac.F64 else ac.F32
        draw = lambda *shape: laid_out(stored(rng.standard_normal(shape), dtype), order)
        self.spec, self.out, self.lse_type, self.batch = spec, out, wide, batch
        self.q, self.k = draw(batch, heads, len_q, head_dim), draw(batch, heads_kv, len_k, head_dim)
        self.v = draw(batch, heads_kv, len_k, head_dim_v)
        self.o, self.lse = blank((batch, heads, len_q, head_dim_v), out, order), blank((batch, heads, len_q), wide)
        self.lengths = rng.integers(-1, len_k + 2, batch).astype(np.int32) if spec.get("lengths") else None
        self.starts = rng.integers(-1, len_k + 2, batch).astype(np.int32) if spec.get("starts") else None
        beyond = spec.get("offsets_beyond", 0)  # how far past the rows, or past the keys
        self.offsets = rng.integers(-len_q - beyond, len_k + 2 + beyond, batch).astype(np.int32) if spec.get("offsets") else None
        kind = spec.get("bias")
        shape = {"full": (batch, heads, len_q, len_k), "row": (len_k,), "head": (heads, 1, len_k), "hides": (batch, 1, len_q, len_k)}.get(kind)
        self.bias = None if kind is None else stored(rng.standard_normal(shape), wide)
        if kind == "hides":
            self.bias[rng.random(shape) < 0.5] = -INF
            self.bias[:, :, 0, :] = -INF
        self.allowed = None
        if spec.get("allowed"):
            self.allowed = (rng.random((batch, 1, len_q, len_k)) < (0.6 if spec["allowed"] == "full" else 0)).astype(np.uint8) * 3
        alibi = spec.get("alibi", 0)
        self.slopes = None if not alibi else stored(rng.random((batch, heads) if alibi == 2 else heads), wide)
        self.sinks = stored(rng.standard_normal(heads), wide) if spec.get("sinks") else None
        self.dlse = stored(rng.standard_normal((batch, heads, len_q)), wide) if spec.get("dlse") else None  # of its gradients alone
        blocks_q, blocks_k = -(-len_q // 128), -(-len_k // 128)
        shapes = {"full": (batch, heads, blocks_q, blocks_k), "shared": (blocks_q, blocks_k), "keys": (blocks_k,), "rows": (batch, 1, blocks_q, 1), "one": (1,)}
        self.blocks = visible_bytes(rng, shapes.get(spec.get("blocks")))
        drafts = {"rows": min(len_q, len_k), "few": min(2, len_k), "keys": len_k, "none": 0}.get(spec.get("drafts"))
        shapes = {"full": (batch, heads, len_q, drafts), "shared": (len_q, drafts), "entry": (batch, 1, len_q, drafts), "one": (drafts,)}
        self.tree = visible_bytes(rng, shapes.get(spec.get("tree")))

    def scalars(self):
        return {name: self.spec[name] for name in ("scale", "softcap", "mask", "window_left", "window_right") if name in self.spec}

    def fields(self):
        return dict(q=self.q, k=self.k, v=self.v, o=self.o, lse=self.lse, bias=self.bias, allowed=self.allowed, alibi_slopes=self.slopes,
                    sinks=self.sinks, key_lengths=self.lengths, key_starts=self.starts, causal_offset=self.offsets, block_mask=self.blocks, tree_mask=self.tree, **self.scalars())

    def entry(self, b, len_q=None):
        """Float64 q, k, v of entry b with its keys cut to its length, and what shapes its scores."""
        len_k = self.k.shape[2] if self.lengths is None else int(np.clip(self.lengths[b], 0, self.k.shape[2]))
        full = (self.batch, self.q.shape[1], self.q.shape[2], self.k.shape[2])
        cut = lambda x: None if x is None else np.broadcast_to(widened(x) if x.dtype != np.uint8 else x, full)[b][:, :, :len_k]
        slopes = None if self.slopes is None else np.broadcast_to(widened(self.slopes), full[:2])[b]
        blocks = None if self.blocks is None else np.broadcast_to(self.blocks, full[:2] + (-(-full[2] // 128), -(-full[3] // 128)))[b]
        tree = None if self.tree is None else np.broadcast_to(self.tree, full[:3] + self.tree.shape[-1:])[b]
        setting = oracle.Setting(bias=cut(self.bias), allowed=cut(self.allowed), slopes=slopes,
                                 sinks=None if self.sinks is None else widened(self.sinks),
                                 first_key=0 if self.starts is None else int(self.starts[b]), blocks=blocks, tree=tree,
                                 offset=None if self.offsets is None else int(self.offsets[b]), **self.scalars())
        return widened(self.q[b]), widened(self.k[b])[:, :len_k], widened(self.v[b])[:, :len_k], setting

    def forward(self):
        parts = [oracle.attention(*self.entry(b)) for b in range(self.batch)]
        if not parts:
            return np.zeros(self.o.shape), np.zeros(self.lse.shape)
        return np.stack([o for o, _ in parts]), np.stack([lse for _, lse in parts])


class Packed:
    """Sequences one behind another under masks of blocks and trees, whose rows and keys count within a sequence. `rows_alone`: keys are not packed."""

    def __init__(self, rng, blocks, tree, rows_alone, give_most):
        self.whole = whole = Problem(rng, ac.F64, ac.F64, {}, batch=1, heads=2, heads_kv=1, len_q=150, len_k=440, head_dim=3, head_dim_v=2)
        self.cu_q, self.cu_k = np.array([0, 140, 140, 143, 150], np.int32), np.array([0, 300, 310, 310, 440], np.int32)
        self.lengths = np.diff(self.cu_k) if rows_alone else None
        self.k, self.v = (rng.standard_normal((4, 1, 300, 3)), rng.standard_normal((4, 1, 300, 2))) if rows_alone else (whole.k, whole.v)
        self.most = dict(max_len_q=140, **({} if rows_alone else dict(max_len_k=300))) if give_most else {}
        most_q, most_k = self.most.get("max_len_q", 150), self.most.get("max_len_k", self.k.shape[2])
        self.shape = 4, 2, most_q, most_k
        blocks_q, blocks_k = -(-most_q // 128), -(-most_k // 128)
        self.blocks = visible_bytes(rng, {"full": (4, 2, blocks_q, blocks_k), "entry": (4, 1, 1, blocks_k), "shared": (blocks_q, blocks_k)}.get(blocks))
        self.tree = visible_bytes(rng, {"full": (4, 2, most_q, 9), "entry": (4, 1, most_q, 140), "shared": (most_q, 3)}.get(tree))

    def fields(self):
        keys = dict(key_lengths=self.lengths) if self.lengths is not None else dict(cu_len_k=self.cu_k)
        return dict(self.whole.fields(), k=self.k, v=self.v, block_mask=self.blocks, tree_mask=self.tree, cu_len_q=self.cu_q, **keys, **self.most)

    def sequences(self):
        """Of each: its rows, where its keys are in k and v, and the arguments of the oracle."""
        at_most = lambda mask, shape, s: None if mask is None else np.broadcast_to(mask, shape)[s]
        for s in range(4):
            rows = slice(self.cu_q[s], self.cu_q[s + 1])
            keys = np.s_[0, :, self.cu_k[s] : self.cu_k[s + 1]] if self.lengths is None else np.s_[s, :, : self.lengths[s]]
            blocks = at_most(self.blocks, self.shape[:2] + (-(-self.shape[2] // 128), -(-self.shape[3] // 128)), s)
            tree = None if self.tree is None else at_most(self.tree, self.shape[:3] + self.tree.shape[-1:], s)
            yield rows, keys, self.whole.q[0][:, rows], self.k[keys], self.v[keys], oracle.Setting(blocks=blocks, tree=tree)

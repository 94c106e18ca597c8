# SPDX-License-Identifier: Apache-2.0
"""Attention of the reference backend of queries, keys and values of 8 bits, and of keys and values of other types than q, against the NumPy oracle.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_cache.py [Cache.test_name]
"""
import itertools
import unittest

import numpy as np

import attile_ctypes as ac
import oracle
from oracle_case import Case, NAN, Problem, eight_bits, laid_out, stored, widened
from test_reference import SETTINGS

NARROW = (ac.I8, ac.E4M3, ac.E5M2)
MIXES = [(ac.F32, ac.I8, ac.I8, ac.F32), (ac.F16, ac.E4M3, ac.E5M2, ac.BF16), (ac.BF16, ac.I8, ac.F16, ac.F16), (ac.F32, ac.BF16, ac.E4M3, ac.BF16),
         (ac.BF16, ac.F32, ac.BF16, ac.F32), (ac.F16, ac.E5M2, ac.I8, ac.F16)]  # q, k, v, bias
NAN_BITS = {ac.E4M3: 0xFF, ac.E5M2: 0x7E}


def scale_shapes(numbers):
    """The forms that scales of such numbers may have."""
    batch, heads, length, width = numbers.shape
    groups = [width // group for group in (32, 64, 128) if width % group == 0]
    yield from (None, (1,), (heads, 1, 1), (length, 1), (batch, heads, length, 1), (width,), (heads, 1, width), (batch, heads, length, width), (batch, 1, 1, 1))
    yield from ((heads, length, count) for count in groups)
    yield from ((batch, 1, length, count) for count in groups)


class Stored:
    """Random keys or values of a type, their scales, and what they stand for."""

    def __init__(self, rng, dtype, shape, scale_shape=None, order=(0, 1, 2, 3)):
        self.dtype, self.scale = dtype, None
        if dtype in NARROW:
            self.bits, values = eight_bits(rng, dtype, shape)
            values = np.asarray(values)
            spread = {ac.I8: 70.0, ac.E4M3: 100.0, ac.E5M2: 8000.0}[dtype]  # about as large as the other types' numbers
            if scale_shape is not None:
                self.scale = (rng.standard_normal(scale_shape) / spread).astype(np.float32)
        else:
            self.bits = stored(rng.standard_normal(shape), dtype)
            values = widened(self.bits)
        self.bits = laid_out(self.bits, order)
        self.values = oracle.scaled(values, self.scale)


class Cache(Case):
    def run_one(self, problem, k, v, q=None, **fields):
        if q is not None:
            fields.update(q=q.bits, q_scale=q.scale)
        args = self.attile.args(ac.AttentionArgs, "attention", **dict(problem.fields(), k=k.bits, v=v.bits, k_scale=k.scale, v_scale=v.scale, **fields))
        args.k.dtype, args.v.dtype = k.dtype, v.dtype
        if q is not None:
            args.q.dtype = q.dtype
        self.attile.run("attention", args)

    def check_one(self, problem, k, v, note, q=None):
        self.run_one(problem, k, v, q)
        problem.k, problem.v = k.values, v.values
        if q is not None:
            problem.q = q.values
        o, lse = problem.forward()
        self.agree(problem.o, o, problem.out, note + " o")
        self.agree(problem.lse[..., None], lse[..., None], problem.lse_type, note + " lse")

    def problem(self, rng, mix, spec, out=None, **shape):
        """A problem of the types of q and bias alone."""
        problem = Problem(rng, mix[0], mix[0] if out is None else out, spec, **shape)
        if problem.bias is not None:
            problem.bias = stored(widened(problem.bias), mix[3])
        return problem

    def test_every_feature_in_every_mix(self):
        rng = np.random.default_rng(40)
        for (name, spec), mix in itertools.product(SETTINGS.items(), MIXES):
            problem = self.problem(rng, mix, spec, head_dim=32, head_dim_v=64)
            forms = [list(scale_shapes(x)) for x in (problem.k, problem.v)]
            k, v = (Stored(rng, dtype, x.shape, form[rng.integers(len(form))]) for dtype, x, form in zip(mix[1:3], (problem.k, problem.v), forms))
            self.check_one(problem, k, v, f"{name} {mix} {k.scale is None or k.scale.shape} {v.scale is None or v.scale.shape}")

    def test_queries_of_eight_bits(self):
        rng = np.random.default_rng(48)
        for (name, spec), mix, kind in itertools.product(SETTINGS.items(), MIXES, NARROW):
            problem = self.problem(rng, mix, spec, head_dim=32, head_dim_v=64)
            arrays = problem.q, problem.k, problem.v
            forms = [list(scale_shapes(x)) for x in arrays]
            q, k, v = (Stored(rng, dtype, x.shape, form[rng.integers(len(form))]) for dtype, x, form in zip((kind, *mix[1:3]), arrays, forms))
            self.check_one(problem, k, v, f"{name} {kind:#x} {mix} {q.scale is None or q.scale.shape}", q)

    def test_every_form_of_scales_of_queries(self):
        rng = np.random.default_rng(49)
        for dtype, head_dim, order in itertools.product(NARROW, (64, 128, 5), ((0, 1, 2, 3), (3, 2, 1, 0))):
            mix = ac.BF16, dtype, dtype, ac.F32
            for form in scale_shapes(self.problem(rng, mix, {}, head_dim=head_dim).q):
                problem = self.problem(rng, mix, SETTINGS["bottom_right"], head_dim=head_dim)
                q, k, v = (Stored(rng, dtype, x.shape, form if x is problem.q else None, order) for x in (problem.q, problem.k, problem.v))
                self.check_one(problem, k, v, f"{dtype:#x} {head_dim} {form} {order}", q)

    def test_every_form_of_scales(self):
        rng = np.random.default_rng(41)
        for dtype, (head_dim, head_dim_v) in itertools.product(NARROW, ((64, 96), (128, 128), (40, 5), (1, 33))):
            mix = ac.F32, dtype, dtype, ac.F32
            first = self.problem(rng, mix, {}, head_dim=head_dim, head_dim_v=head_dim_v)
            for forms in itertools.zip_longest(scale_shapes(first.k), scale_shapes(first.v)):
                problem = self.problem(rng, mix, SETTINGS["bottom_right"], head_dim=head_dim, head_dim_v=head_dim_v)
                k, v = (Stored(rng, dtype, x.shape, form) for x, form in zip((problem.k, problem.v), forms))
                self.check_one(problem, k, v, f"{dtype:#x} {head_dim} {head_dim_v} {forms}")

    def test_any_strides(self):
        rng = np.random.default_rng(42)
        for mix, order in itertools.product(MIXES, ((0, 2, 1, 3), (3, 2, 1, 0), (1, 3, 0, 2))):
            problem = self.problem(rng, mix, SETTINGS["everything"], out=ac.F32, head_dim=32, head_dim_v=32)
            k, v = (Stored(rng, dtype, x.shape, x.shape[:3] + (1,), order) for dtype, x in zip(mix[1:3], (problem.k, problem.v)))
            for x in (k, v):
                x.scale = None if x.scale is None else laid_out(x.scale, order)
            v.bits = v.bits[:, :, ::-1].copy(order="K")[:, :, ::-1]  # against the order of memory
            self.check_one(problem, k, v, f"{mix} {order}")

    def test_of_no_extent(self):
        rng = np.random.default_rng(43)
        for zero in (dict(batch=0), dict(len_q=0), dict(len_k=0), dict(head_dim=0)):
            problem = self.problem(rng, MIXES[0], SETTINGS["sinks"], **zero)
            self.check_one(problem, *(Stored(rng, ac.I8, x.shape, x.shape[:3] + (1,)) for x in (problem.k, problem.v)), str(zero))

    def test_poisoned_memory_nobody_may_read(self):
        rng = np.random.default_rng(44)
        for dtype in NARROW:
            problem = self.problem(rng, MIXES[0], SETTINGS["key_lengths"])
            k, v = (Stored(rng, dtype, x.shape, x.shape[:3] + (1,)) for x in (problem.k, problem.v))
            for b, length in enumerate(problem.lengths):
                for x in (k, v):
                    x.scale[b, :, max(0, length):] = NAN
                    if dtype in NAN_BITS:
                        x.bits[b, :, max(0, length):] = NAN_BITS[dtype]
            self.check_one(problem, k, v, f"keys past a length, {dtype:#x}")

    def test_special_numbers_spread_as_their_product(self):
        rng = np.random.default_rng(45)
        problem = self.problem(rng, MIXES[0], {}, batch=1, heads=2, heads_kv=2, len_q=1)
        k, v = (Stored(rng, ac.E5M2, x.shape, x.shape[:3] + (1,)) for x in (problem.k, problem.v))
        v.bits[0, 0, 3, 0], v.bits[0, 0, 4, 1], v.bits[0, 0, 5, 2], v.scale[0, 0, 5] = 0x7E, 0xFC, 0x7C, 0  # NaN, -inf, inf 0
        k.scale[0, 1, 0] = NAN
        self.run_one(problem, k, v)
        seen = problem.o[0, :, 0]
        self.assertTrue(np.isnan(seen[0, 0]) and np.isnan(seen[0, 2]) and np.isfinite(seen[0, 3:]).all())
        self.assertEqual(seen[0, 1], np.copysign(np.inf, -v.scale[0, 0, 4, 0]))
        self.assertTrue(np.isnan(seen[1]).all() and np.isnan(problem.lse[0, 1, 0]) and np.isfinite(problem.lse[0, 0, 0]))

    def test_tiny_and_large_scales(self):
        rng = np.random.default_rng(46)
        for factor in (2.0**-145, 2.0**-100, 2.0**100):
            problem = self.problem(rng, MIXES[0], {})
            k, v = (Stored(rng, ac.I8, x.shape, x.shape[:3] + (1,)) for x in (problem.k, problem.v))
            numbers = v.bits.astype(np.float64)
            v.scale = (v.scale * factor).astype(np.float32)
            v.values = oracle.scaled(numbers, v.scale)
            self.check_one(problem, k, v, f"values times {factor}")

    def test_packed(self):
        rng = np.random.default_rng(47)
        cu_q, cu_k = np.array([0, 3, 3, 8, 9], np.int32), np.array([0, 4, 6, 6, 11], np.int32)
        for name, mix in itertools.product(("plain", "bottom_right", "alibi", "softcap"), MIXES):
            whole = self.problem(rng, mix, SETTINGS[name], batch=1, len_q=9, len_k=11, head_dim=64)
            k, v = (Stored(rng, dtype, x.shape, form) for dtype, x, form in zip(mix[1:3], (whole.k, whole.v), ((2, 11, 2), (11, 1))))
            self.run_one(whole, k, v, cu_len_q=cu_q, cu_len_k=cu_k)
            whole.k, whole.v = k.values, v.values
            q, keys, values, setting = whole.entry(0)
            for s in range(4):
                rows, seen = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
                o, lse = oracle.attention(q[:, rows], keys[:, seen], values[:, seen], setting)
                self.agree(whole.o[0][:, rows], o, whole.out, f"packed {name} {mix} {s}")
                self.agree(whole.lse[0][:, rows, None], lse[..., None], ac.F32, f"packed {name} {mix} {s} lse")

    def test_paged(self):
        rng = np.random.default_rng(48)
        pages, page = 7, 4
        table, lengths = np.array([[5, 2, -99], [0, 6, 1]], np.int32), np.array([6, 12], np.int32)
        for name, mix in itertools.product(("plain", "bottom_right", "alibi", "tree_mask"), MIXES):
            spec = {key: value for key, value in SETTINGS[name].items() if key != "lengths"}
            flat = self.problem(rng, mix, spec, batch=2, len_k=12, head_dim=64)
            flat.lengths = lengths
            cache = [Stored(rng, dtype, (pages, 2, page, width), form) for dtype, width, form in
                     ((mix[1], 64, (pages, 2, page, 2)), (mix[2], 8, (pages, 1, page, 1)))]
            used = np.zeros((pages, page), bool)
            dense = [np.full((2, 2, 12, x.values.shape[3]), NAN) for x in cache]
            for b, j in ((b, j) for b in range(2) for j in range(lengths[b])):
                used[table[b, j // page], j % page] = True
                for there, x in zip(dense, cache):
                    there[b, :, j] = x.values[table[b, j // page], :, j % page]
            for x in cache:
                if x.scale is not None:
                    np.moveaxis(x.scale, 2, 1)[~used] = NAN
            self.run_one(flat, *cache, block_table=table)
            flat.k, flat.v = dense
            o, lse = flat.forward()
            self.agree(flat.o, o, flat.out, f"paged {name} {mix}")
            self.agree(flat.lse[..., None], lse[..., None], ac.F32, f"paged {name} {mix} lse")


if __name__ == "__main__":
    unittest.main(verbosity=2)

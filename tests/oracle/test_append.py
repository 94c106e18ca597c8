# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding and rows that are appended to a cache, by the reference backend against NumPy, bit for bit. ATTILE_BACKEND_TO_JUDGE names another backend.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_append.py [Append.test_name]
"""
import itertools
import os
import unittest

import numpy as np

import attile_ctypes as ac
from oracle_case import NAN, Case, laid_out, stored, widened
from test_quantize import LARGEST, quantised, rotated, scales_of, spread

F = np.float32
HALVES, INTERLEAVED = 0, 1


def angles(rng, positions, pairs):
    """Of random tables: what they are of is the caller's."""
    return rng.standard_normal((positions, pairs)).astype(F), rng.standard_normal((positions, pairs)).astype(F)


def embedded(x, cosines, sines, layout):
    """x [.., D], tables [.., R / 2] of each row: of each pair (a, b) a c - b s and b c + a s, every step in float32."""
    pairs = cosines.shape[-1]
    y = x.copy()
    one, other = (slice(0, pairs), slice(pairs, 2 * pairs)) if layout == HALVES else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    a, b = x[..., one], x[..., other]
    y[..., one] = a * cosines - b * sines
    y[..., other] = b * cosines + a * sines
    return y


class Append(Case):
    @classmethod
    def setUpClass(cls):
        cls.attile = ac.Library(backend=os.environ.get("ATTILE_BACKEND_TO_JUDGE", "reference"))
        np.seterr(all="ignore")

    def expected_rows(self, x, tables, layout, keys, hadamard):
        y = widened(x).astype(F)
        if tables is not None:
            at = np.clip(keys, 0, len(tables[0]) - 1)[:, None, :]
            y = embedded(y, tables[0][at], tables[1][at], layout)
        return rotated(y, hadamard)

    def places(self, keys, table, cache_shape):
        """(entry, row, outer index, slot) of each row that is written."""
        outer, _, slots, _ = cache_shape
        for b, i in np.ndindex(keys.shape):
            key, most = int(keys[b, i]), slots if table is None else slots * table.shape[1]
            if not 0 <= key < most:
                continue
            page = b if table is None else int(table[b, key // slots])
            if 0 <= page < outer:
                yield b, i, page, key % slots

    def append(self, rng, kind, q_kind, shape, lengths, slots, pages=None, groups=1, pairs=0, layout=HALVES, hadamard=0, positions=None, order=(0, 1, 2, 3), given=None):
        b, h, l, d = shape
        x = laid_out(stored(rng.standard_normal(shape), kind), (0, 2, 1, 3))
        lengths = np.asarray(lengths, np.int32)
        table = None
        if pages is not None:
            count, per_entry = pages
            table = rng.permutation(max(count, b * per_entry))[: b * per_entry].reshape(b, per_entry).astype(np.int32)  # some beyond the pages
            table[0, 0] = -1 if rng.random() < 0.3 else table[0, 0]
        cache_shape = (b if pages is None else pages[0], h, slots, d)
        four = q_kind in (ac.I4, ac.U4)
        if four:
            tensor, cache = ac.four_bits(np.zeros(cache_shape, np.int64), q_kind, 3)
            cache[...] = 0xA5
        else:
            word = {8: np.uint8, 16: np.uint16, 32: np.int32}[q_kind & 0xFF]
            cache = laid_out(rng.integers(0, 100, cache_shape).astype(word), order)
            tensor = ac.tensor(cache)
            tensor.dtype = q_kind
        scale = zero = None
        if (q_kind & 0xFF) < 16 and given is None:
            scale = np.full((*cache_shape[:3], groups), NAN, F)
            zero = scale.copy() if q_kind == ac.U4 else None
        elif given is not None:
            scale = given
        tables = angles(rng, 40, pairs) if pairs else None
        args = self.attile.args(ac.QuantizeArgs, "quantize", x=x, scale=scale, zero=zero, hadamard=hadamard, key_lengths=lengths, append=1, rope_layout=layout,
                                scale_mode=0 if given is None else 1)
        args.q = tensor
        if tables:
            args.rope_cos, args.rope_sin = ac.tensor(tables[0]), ac.tensor(tables[1])
        if table is not None:
            args.block_table = ac.tensor(table)
        if positions is not None:
            args.positions = ac.tensor(positions)
        before, want_scale, want_zero = cache.copy(), None if scale is None else scale.copy(), None if zero is None else zero.copy()
        self.attile.run("quantize", args)

        keys = lengths[:, None].astype(np.int64) - l + np.arange(l)
        rows = self.expected_rows(x, tables, layout, keys if positions is None else np.broadcast_to(positions, (b, l)), hadamard)
        want = before
        for e, i, page, slot in self.places(keys, table, cache_shape):
            row = rows[e, :, i]
            if scale is None:
                want[page, :, slot] = stored(row, q_kind).view(want.dtype)
                continue
            if given is None and q_kind in LARGEST:
                want_scale[page, :, slot] = scales_of(row, (h, groups), q_kind)
            elif given is None:
                split = row.reshape(h, groups, d // groups)
                if q_kind == ac.I4:
                    want_scale[page, :, slot] = np.abs(split).max(axis=2) / F(7)
                else:
                    high, low = np.maximum(split.max(axis=2), F(0)), np.minimum(split.min(axis=2), F(0))
                    want_scale[page, :, slot] = high / F(15) - low / F(15)
                    want_zero[page, :, slot] = np.rint(-low / want_scale[page, :, slot])
            full = np.broadcast_to(want_scale, (*cache_shape[:3], want_scale.shape[-1]))
            own = full[page, :, slot]
            if q_kind in LARGEST:
                want[page, :, slot] = quantised(row, own, q_kind)
                continue
            each, off = spread(own, row.shape), spread(want_zero[page, :, slot], row.shape) if want_zero is not None else F(0)
            number = np.rint(np.clip(row / each + off, F(-7 if q_kind == ac.I4 else 0), F(7 if q_kind == ac.I4 else 15))).astype(np.int64) & 15
            want[page, :, slot] = (number[:, 0::2] | number[:, 1::2] << 4).astype(np.uint8)
        note = f"{kind:#x} -> {q_kind:#x} {shape} lengths {lengths} slots {slots} pages {pages} groups {groups} pairs {pairs} layout {layout} rotated {hadamard}"
        np.testing.assert_array_equal(cache, want, note)
        if scale is not None:
            np.testing.assert_array_equal(scale, want_scale, note)
        if zero is not None:
            np.testing.assert_array_equal(zero, want_zero, note)

    def test_rotary_embedding_alone(self):
        rng = np.random.default_rng(1)
        for (shape, pairs), layout, (kind, q_kind) in itertools.product(
            [((7,), 3), ((5, 33), 16), ((5, 33), 5), ((3, 4, 64), 32), ((2, 3, 5, 96), 16), ((2, 2, 3, 1030), 515), ((2, 2, 3, 1030), 300)], (HALVES, INTERLEAVED),
            [(ac.F32, ac.F32), (ac.F16, ac.BF16), (ac.BF16, ac.F16)]):
            x, tables = laid_out(stored(rng.standard_normal(shape), kind), range(len(shape))[::-1]), angles(rng, 9, pairs)
            rows, entries = shape[-2] if len(shape) > 1 else 1, shape[0] if len(shape) == 4 else 1
            lengths = rng.integers(0, 12, entries).astype(np.int32)
            choices = [(None, None), (None, lengths), (rng.integers(-3, 12, rows).astype(np.int64), None), (rng.integers(-3, 12, (entries, rows)).astype(np.int32), None),
                       (np.array([[-(2**62)], [2**62]])[:entries], None)]
            for positions, given in choices:
                y = stored(np.full(shape, NAN), q_kind)
                args = self.attile.args(ac.QuantizeArgs, "quantize", x=x, q=y, rope_cos=tables[0], rope_sin=tables[1], positions=positions, key_lengths=given, rope_layout=layout)
                self.attile.run("quantize", args)
                where = np.arange(rows)[None] + (0 if given is None else given[:, None] - rows)
                at = np.clip(np.broadcast_to(where if positions is None else positions, (entries, rows)), 0, 8)
                cosines, sines = tables[0][at], tables[1][at]
                if len(shape) == 4:
                    cosines, sines = cosines[:, None], sines[:, None]
                else:
                    cosines, sines = cosines[0], sines[0]
                want = stored(embedded(widened(x).astype(F).reshape((1,) * (len(shape) < 2) + shape), cosines, sines, layout).reshape(shape), q_kind)
                np.testing.assert_array_equal(y.view(np.uint8), want.view(np.uint8), f"{shape} {pairs} {layout}")

    def test_rotary_embedding_before_scales_of_every_shape(self):
        rng = np.random.default_rng(2)
        shape = (2, 3, 6, 64)
        shapes = [((1,), 0), ((1, 64), 0), ((1, 64), 32), ((3, 6, 2), 0), ((2, 1, 6, 1), 64), ((2, 3, 6, 2), 0)]
        for (scale_shape, hadamard), layout, q_kind in itertools.product(shapes, (HALVES, INTERLEAVED), LARGEST):
            x, tables = stored(rng.standard_normal(shape), ac.F32), angles(rng, 6, 24)
            q, scale = np.full(shape, 0xA5, np.uint8), np.full(scale_shape, NAN, F)
            args = self.attile.args(ac.QuantizeArgs, "quantize", x=x, q=q, scale=scale, hadamard=hadamard, rope_cos=tables[0], rope_sin=tables[1], rope_layout=layout)
            args.q.dtype = q_kind
            self.attile.run("quantize", args)
            y = rotated(embedded(x, *tables, layout), hadamard)
            want = scales_of(y, scale_shape, q_kind)
            np.testing.assert_array_equal(scale, want)
            np.testing.assert_array_equal(q, quantised(y, want, q_kind))

    def test_rows_of_every_type(self):
        rng = np.random.default_rng(3)
        for q_kind, kind in itertools.product((*LARGEST, ac.I4, ac.U4, ac.F32, ac.F16, ac.BF16), (ac.F32, ac.F16, ac.BF16)):
            for d, groups in ((64, 1), (128, 4), (96, 3), (6, 6), (34, 1), (1030, 1)):
                pairs = (0, d // 2, d // 4)[int(rng.integers(0, 3))]
                layout = int(rng.integers(0, 2))
                self.append(rng, kind, q_kind, (2, 3, 5, d), [7, 11], 16, groups=groups, pairs=pairs, layout=layout)
                self.append(rng, kind, q_kind, (2, 3, 5, d), [7, 11], 4, pages=(9, 4), groups=groups, pairs=pairs, layout=layout)

    def test_odd_heads(self):
        rng = np.random.default_rng(4)
        for q_kind, (d, pairs), layout in itertools.product((*LARGEST, ac.F16), ((33, 16), (7, 2), (1, 0), (77, 3)), (0, 1)):
            self.append(rng, ac.F32, q_kind, (2, 2, 3, d), [3, 5], 3, pages=(7, 3), pairs=pairs, layout=layout, order=(2, 0, 1, 3))

    def test_hadamard_behind(self):
        rng = np.random.default_rng(5)
        for hadamard, q_kind in itertools.product((2, 32, 128), (ac.I8, ac.E4M3, ac.U4, ac.BF16)):
            self.append(rng, ac.BF16, q_kind, (2, 2, 3, 128), [5, 6], 8, groups=2, pairs=64, hadamard=hadamard)

    def test_lengths_and_pages_of_every_kind(self):
        rng = np.random.default_rng(6)
        for lengths in ([0, 0], [-5, 3], [1, 2], [16, 17], [18, 40], [2**31 - 1, -(2**31)], [5, 5]):
            for q_kind in (ac.I8, ac.I4, ac.F16):
                self.append(rng, ac.F32, q_kind, (2, 2, 5, 32), lengths, 16, pairs=16)
                for _ in range(3):
                    self.append(rng, ac.F32, q_kind, (2, 2, 5, 32), lengths, 3, pages=(8, 5), pairs=16)

    def test_positions_of_their_own(self):
        rng = np.random.default_rng(7)
        self.append(rng, ac.F32, ac.I8, (2, 2, 5, 32), [9, 5], 16, pairs=8, positions=rng.integers(-9, 60, (2, 5)))
        self.append(rng, ac.F32, ac.I8, (2, 2, 5, 32), [9, 5], 16, pairs=8, positions=rng.integers(-9, 60, 5).astype(np.int32))

    def test_scales_that_are_given(self):
        rng = np.random.default_rng(8)
        for shape in ((1,), (2, 1, 1), (32,), (2, 1, 4), (4, 2, 16, 1), (1, 1, 16, 1)):
            scale = (rng.standard_normal(shape) / 30).astype(F)
            if shape == (4, 2, 16, 1):
                self.append(rng, ac.F32, ac.I8, (2, 2, 5, 128), [30, 5], 16, pages=(4, 2), given=scale)
            else:
                self.append(rng, ac.F32, ac.I8, (2, 2, 5, 128 if shape[-1] == 4 else 32), [9, 5], 16, given=scale, pairs=16)


if __name__ == "__main__":
    unittest.main(verbosity=2)

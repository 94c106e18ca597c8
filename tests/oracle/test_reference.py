# SPDX-License-Identifier: Apache-2.0
"""The reference backend against the NumPy oracle, through libattile: 1e-12 in float64, one storage rounding in every other type.

Run: ATTILE_LIBRARY=.../libattile.so python3 test_reference.py [TestClass.test_name]
"""
import ctypes
import itertools
import unittest

import numpy as np

import attile_ctypes as ac
import oracle
from oracle_case import Case, INF, NAN, Packed, Problem, TYPES, blank, stored, widened


SETTINGS = {
    "plain": {},
    "scale": dict(scale=-0.3),
    "softcap": dict(softcap=1.5),
    "top_left": dict(mask=oracle.TOP_LEFT),
    "bottom_right": dict(mask=oracle.BOTTOM_RIGHT),
    "window_top_left": dict(mask=oracle.WINDOW_TOP_LEFT, window_left=2, window_right=1),
    "window_bottom_right": dict(mask=oracle.WINDOW_BOTTOM_RIGHT, window_left=1, window_right=0),
    "window_open_left": dict(mask=oracle.WINDOW_TOP_LEFT, window_left=-1, window_right=2),
    "window_open_right": dict(mask=oracle.WINDOW_BOTTOM_RIGHT, window_left=3, window_right=-1),
    "window_one": dict(mask=oracle.WINDOW_BOTTOM_RIGHT, window_left=0, window_right=0),
    "bias_full": dict(bias="full"),
    "bias_row": dict(bias="row"),
    "bias_head": dict(bias="head"),
    "bias_hides": dict(bias="hides"),
    "allowed": dict(allowed="full"),
    "allowed_nothing": dict(allowed="nothing"),
    "alibi": dict(alibi=1),
    "alibi_batch_top_left": dict(alibi=2, mask=oracle.TOP_LEFT),
    "alibi_bottom_right": dict(alibi=1, mask=oracle.BOTTOM_RIGHT),
    "sinks": dict(sinks=True),
    "sinks_nothing": dict(sinks=True, allowed="nothing"),
    "key_lengths": dict(lengths=True),
    "key_lengths_bottom_right": dict(lengths=True, mask=oracle.BOTTOM_RIGHT, sinks=True),
    "key_starts": dict(starts=True),
    "key_starts_bottom_right": dict(starts=True, lengths=True, mask=oracle.BOTTOM_RIGHT, alibi=1),
    "causal_offset": dict(offsets=True, mask=oracle.BOTTOM_RIGHT),
    "causal_offset_window": dict(offsets=True, starts=True, mask=oracle.WINDOW_TOP_LEFT, window_left=3, window_right=1, alibi=2),
    "causal_offset_wide_window": dict(offsets=True, offsets_beyond=60, mask=oracle.WINDOW_TOP_LEFT, window_left=30, window_right=25),
    "causal_offset_alibi": dict(offsets=True, lengths=True, alibi=1),
    "block_mask": dict(blocks="full"),
    "block_mask_bottom_right": dict(blocks="shared", mask=oracle.BOTTOM_RIGHT, lengths=True, sinks=True),
    "block_mask_window": dict(blocks="keys", mask=oracle.WINDOW_TOP_LEFT, window_left=3, window_right=1, alibi=1, starts=True),
    "block_mask_bias": dict(blocks="rows", bias="full", allowed="full", softcap=2.0),
    "tree_mask": dict(tree="full", drafts="rows"),
    "tree_mask_few": dict(tree="shared", drafts="few", lengths=True),
    "tree_mask_bottom_right": dict(tree="entry", drafts="rows", mask=oracle.BOTTOM_RIGHT, lengths=True, sinks=True, softcap=2.0),
    "tree_mask_keys": dict(tree="full", drafts="keys", lengths=True, bias="head", alibi=2, starts=True),
    "tree_mask_one": dict(tree="one", drafts="few", allowed="full", blocks="one", offsets=True, mask=oracle.TOP_LEFT),
    "tree_mask_none": dict(tree="full", drafts="none", lengths=True),
    "dlse": dict(dlse=True, softcap=2.0, sinks=True, mask=oracle.TOP_LEFT, bias="full"),
    "everything": dict(softcap=2.0, mask=oracle.WINDOW_BOTTOM_RIGHT, window_left=5, window_right=2, bias="full", allowed="full", alibi=2, sinks=True,
                       lengths=True, scale=0.4),
}
SPARSE = [("full", None), ("shared", None), (None, "full"), (None, "shared"), ("entry", "entry")]  # forms of the masks of blocks and trees


class Attention(Case):
    def check_one(self, problem, note):
        self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **problem.fields()))
        o, lse = problem.forward()
        self.agree(problem.o, o, problem.out, note + " o")
        self.agree(problem.lse[..., None], lse[..., None], problem.lse_type, note + " lse")

    def test_every_feature_in_every_type(self):
        rng = np.random.default_rng(10)
        for (name, spec), (dtype, out) in itertools.product(SETTINGS.items(), TYPES):
            self.check_one(Problem(rng, dtype, out, spec), f"{name} {dtype:#x}->{out:#x}")

    def test_every_feature_in_shapes(self):
        rng = np.random.default_rng(11)
        shapes = [dict(len_q=9, len_k=4), dict(len_q=1, len_k=33), dict(heads=3, heads_kv=3, head_dim=5, head_dim_v=11), dict(heads_kv=1, head_dim=1),
                  dict(order=(0, 2, 1, 3)), dict(order=(3, 2, 1, 0)), dict(batch=1, len_q=65, len_k=63, head_dim=40, head_dim_v=16)]
        for (name, spec), shape in itertools.product(SETTINGS.items(), shapes):
            self.check_one(Problem(rng, ac.F64, ac.F64, spec, **shape), f"{name} {shape}")

    def test_zero_extents(self):
        rng = np.random.default_rng(12)
        for zero in (dict(batch=0), dict(len_q=0), dict(len_k=0), dict(head_dim=0)):
            for name in ("plain", "bottom_right", "sinks", "alibi"):
                self.check_one(Problem(rng, ac.F64, ac.F64, SETTINGS[name], **zero), f"{name} {zero}")

    def test_poisoned_memory_nobody_may_read(self):
        rng = np.random.default_rng(13)
        problem = Problem(rng, ac.F64, ac.F64, SETTINGS["key_lengths"])
        for b, length in enumerate(problem.lengths):
            problem.k[b, :, max(0, length):], problem.v[b, :, max(0, length):] = NAN, NAN
        self.check_one(problem, "keys past a length")
        problem = Problem(rng, ac.F64, ac.F64, dict(mask=oracle.TOP_LEFT), len_q=3, len_k=9)
        problem.k[:, :, 3:], problem.v[:, :, 3:] = NAN, INF
        self.check_one(problem, "keys behind the mask")

    def test_nan_and_infinity_spread_to_their_rows(self):
        rng = np.random.default_rng(14)
        problem = Problem(rng, ac.F64, ac.F64, {})
        problem.q[0, 0, 2, 3], problem.q[1, 1, 4, 0] = NAN, INF
        problem.k[1] = np.abs(problem.k[1])  # so the infinite row's scores are all +inf
        self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **problem.fields()))
        bad = np.isnan(problem.o).all(axis=3)
        want = np.zeros(bad.shape, bool)
        want[0, 0, 2] = want[1, 1, 4] = True
        np.testing.assert_array_equal(bad, want)
        np.testing.assert_array_equal(np.isnan(problem.lse), want)

    def test_large_scores(self):
        rng = np.random.default_rng(15)
        for factor in (36.0, 400.0, 1e4):
            problem = Problem(rng, ac.F64, ac.F64, {}, head_dim=16)
            problem.q *= factor
            self.check_one(problem, f"scores x{factor}")

    def test_packed(self):
        rng = np.random.default_rng(16)
        for name in ("plain", "bottom_right", "window_top_left", "alibi", "sinks", "softcap"):
            cu_q, cu_k = np.array([0, 3, 3, 8, 9], np.int32), np.array([0, 4, 6, 6, 11], np.int32)
            whole = Problem(rng, ac.F64, ac.F64, SETTINGS[name], batch=1, len_q=9, len_k=11)
            args = dict(whole.fields(), cu_len_q=cu_q, cu_len_k=cu_k)
            self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **args))
            q, k, v, setting = whole.entry(0)
            for s in range(4):
                rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
                o, lse = oracle.attention(q[:, rows], k[:, keys], v[:, keys], setting)
                self.agree(whole.o[0][:, rows], o, ac.F64, f"packed {name} {s}")
                self.agree(whole.lse[0][:, rows, None], lse[..., None], ac.F64, f"packed {name} {s} lse")

    def test_blocks_of_128(self):
        rng = np.random.default_rng(24)
        names = [name for name in SETTINGS if "block_mask" in name or "tree_mask" in name]
        shapes = [dict(len_q=150, len_k=300), dict(len_q=3, len_k=257), dict(len_q=256, len_k=128), dict(len_q=129, len_k=127)]
        for name, shape in itertools.product(names, shapes):
            self.check_one(Problem(rng, ac.F64, ac.F64, SETTINGS[name], heads=2, heads_kv=1, head_dim=3, head_dim_v=2, **shape), f"{name} {shape}")

    def test_packed_block_and_tree_masks(self):
        rng = np.random.default_rng(25)
        for (blocks, tree), rows_alone, give_most in itertools.product(SPARSE, (False, True), (False, True)):
            packed = Packed(rng, blocks, tree, rows_alone, give_most)
            self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **packed.fields()))
            for s, (rows, _, q, k, v, setting) in enumerate(packed.sequences()):
                note = f"packed {blocks} {tree} {rows_alone} {give_most} {s}"
                o, lse = oracle.attention(q, k, v, setting)
                self.agree(packed.whole.o[0][:, rows], o, ac.F64, note)
                self.agree(packed.whole.lse[0][:, rows, None], lse[..., None], ac.F64, note + " lse")

    def test_packed_rows_of_no_sequence_stay(self):
        rng = np.random.default_rng(17)
        whole = Problem(rng, ac.F64, ac.F64, {}, batch=1, len_q=9, len_k=11)
        args = dict(whole.fields(), cu_len_q=np.array([2, 5, 7], np.int32), cu_len_k=np.array([0, 4, 99], np.int32))
        self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **args))
        self.assertTrue(np.isnan(whole.o[0][:, [0, 1, 7, 8]]).all())
        self.assertTrue(np.isfinite(whole.o[0][:, 2:7]).all())
        q, k, v, setting = whole.entry(0)
        self.agree(whole.o[0][:, 5:7], oracle.attention(q[:, 5:7], k[:, 4:], v[:, 4:], setting)[0], ac.F64, "end clamped to the keys there are")

    def test_paged(self):
        rng = np.random.default_rng(18)
        pages, page, table_width = 7, 4, 3
        for name in ("plain", "bottom_right", "alibi", "everything", "block_mask", "tree_mask", "tree_mask_few", "tree_mask_bottom_right", "tree_mask_keys"):
            spec = {key: value for key, value in SETTINGS[name].items() if key != "lengths"}
            flat = Problem(rng, ac.F64, ac.F64, spec, batch=2, len_k=table_width * page)
            lengths = np.array([6, 12], np.int32)
            table = np.array([[5, 2, -99], [0, 6, 1]], np.int32)
            k, v = np.full((pages, 2, page, 8), NAN), np.full((pages, 2, page, 8), NAN)
            for b, run in itertools.product(range(2), range(table_width)):
                count = min(page, lengths[b] - run * page)
                if count > 0:
                    k[table[b, run], :, :count] = flat.k[b, :, run * page : run * page + count]
                    v[table[b, run], :, :count] = flat.v[b, :, run * page : run * page + count]
            flat.lengths = lengths
            args = dict(flat.fields(), k=k, v=v, block_table=table)
            self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **args))
            o, lse = flat.forward()
            self.agree(flat.o, o, ac.F64, f"paged {name}")
            self.agree(flat.lse[..., None], lse[..., None], ac.F64, f"paged {name} lse")

    def test_page_out_of_range_hides(self):
        rng = np.random.default_rng(19)
        flat = Problem(rng, ac.F64, ac.F64, {}, batch=1, len_k=8)
        table, page = np.array([[0, 77]], np.int32), 4
        k, v = np.ascontiguousarray(flat.k[0][None, :, :page]), np.ascontiguousarray(flat.v[0][None, :, :page])
        args = dict(flat.fields(), k=k, v=v, block_table=table, key_lengths=np.array([8], np.int32))
        self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **args))
        flat.allowed = np.zeros((1, 1, 1, 8), np.uint8)
        flat.allowed[..., :4] = 1
        self.agree(flat.o, flat.forward()[0], ac.F64)


class Backward(Case):
    def gradients(self, problem, dout, out):
        outputs = {name: blank(x.shape, out) for name, x in (("dq", problem.q), ("dk", problem.k), ("dv", problem.v))}
        outputs["dbias"] = None if problem.bias is None else blank(problem.bias.shape, problem.lse_type)
        outputs["dsinks"] = None if problem.sinks is None else blank(problem.sinks.shape, problem.lse_type)
        forward = self.attile.args(ac.AttentionArgs, "attention", **problem.fields())
        args = self.attile.args(ac.BackwardArgs, "attention_backward", dout=dout, dlse=problem.dlse, **outputs)
        args.forward = ctypes.pointer(forward)
        self.attile.run("attention", forward)
        self.attile.run("attention_backward", args)
        return outputs

    @staticmethod
    def want(problem, dout):
        result = {"dq": np.zeros(problem.q.shape), "dk": np.zeros(problem.k.shape), "dv": np.zeros(problem.v.shape), "dsinks": 0}
        ds_all = np.zeros((problem.batch, problem.q.shape[1], problem.q.shape[2], problem.k.shape[2]))
        for b in range(problem.batch):
            q, k, v, setting = problem.entry(b)
            dlse = 0.0 if problem.dlse is None else widened(problem.dlse[b])
            dq, dk, dv, ds, dsinks = oracle.attention_backward(q, k, v, widened(problem.o[b]), widened(problem.lse[b]), widened(dout[b]), setting, dlse)
            result["dq"][b], result["dk"][b, :, : k.shape[1]], result["dv"][b, :, : k.shape[1]] = dq, dk, dv
            ds_all[b, :, :, : k.shape[1]] = ds
            result["dsinks"] = result["dsinks"] + dsinks
        if problem.bias is not None:
            shape = (1,) * (4 - problem.bias.ndim) + problem.bias.shape
            summed = tuple(axis for axis in range(4) if shape[axis] == 1)
            result["dbias"] = ds_all.sum(axis=summed, keepdims=True).reshape(problem.bias.shape)
        return result

    def check_one(self, problem, rng, dtype, out, note):
        dout = stored(rng.standard_normal(problem.o.shape), dtype)
        got = self.gradients(problem, dout, out)
        want = self.want(problem, dout)
        for name, array in got.items():
            if array is not None:
                kind = out if name in ("dq", "dk", "dv") else problem.lse_type
                self.agree(array, want[name], kind, f"{note} {name}", whole=True)

    def test_every_feature_in_every_type(self):
        rng = np.random.default_rng(20)
        for (name, spec), (dtype, out) in itertools.product(SETTINGS.items(), TYPES):
            problem = Problem(rng, dtype, dtype, spec, batch=2, len_q=5, len_k=6, head_dim=4, head_dim_v=3)
            self.check_one(problem, rng, dtype, out, f"{name} {dtype:#x}->{out:#x}")

    def test_zero_extents(self):
        rng = np.random.default_rng(21)
        for zero in (dict(batch=0), dict(len_q=0), dict(len_k=0)):
            self.check_one(Problem(rng, ac.F64, ac.F64, SETTINGS["plain"], **zero), rng, ac.F64, ac.F64, str(zero))
        # dq, dk and dv are empty; dbias and dsinks come from the gradient of lse.
        self.check_one(Problem(rng, ac.F64, ac.F64, SETTINGS["dlse"], head_dim=0, head_dim_v=0), rng, ac.F64, ac.F64, "gradient of lse without columns")

    def test_packed(self):
        rng = np.random.default_rng(22)
        cu_q, cu_k = np.array([0, 3, 3, 6], np.int32), np.array([1, 4, 6, 10], np.int32)
        whole = Problem(rng, ac.F64, ac.F64, SETTINGS["bottom_right"], batch=1, len_q=7, len_k=11)
        whole.o[...], whole.lse[...] = 0, 0
        dout = rng.standard_normal(whole.o.shape)
        forward = self.attile.args(ac.AttentionArgs, "attention", **dict(whole.fields(), cu_len_q=cu_q, cu_len_k=cu_k))
        outputs = {name: blank(x.shape, ac.F64) for name, x in (("dq", whole.q), ("dk", whole.k), ("dv", whole.v))}
        args = self.attile.args(ac.BackwardArgs, "attention_backward", dout=dout, **outputs)
        args.forward = ctypes.pointer(forward)
        self.attile.run("attention", forward)
        self.attile.run("attention_backward", args)
        want = {name: np.zeros(array.shape) for name, array in outputs.items()}
        q, k, v, setting = whole.entry(0)
        for s in range(3):
            rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
            dq, dk, dv, _, _ = oracle.attention_backward(q[:, rows], k[:, keys], v[:, keys], whole.o[0][:, rows], whole.lse[0][:, rows],
                                                         dout[0][:, rows], setting)
            want["dq"][0][:, rows], want["dk"][0][:, keys], want["dv"][0][:, keys] = dq, dk, dv
        for name in want:
            self.agree(outputs[name], want[name], ac.F64, f"packed {name}", whole=True)

    def test_blocks_of_128(self):
        rng = np.random.default_rng(26)
        for name in [name for name in SETTINGS if "block_mask" in name or "tree_mask" in name]:
            problem = Problem(rng, ac.F64, ac.F64, SETTINGS[name], heads=2, heads_kv=1, len_q=140, len_k=270, head_dim=3, head_dim_v=2)
            self.check_one(problem, rng, ac.F64, ac.F64, name)

    def test_packed_block_and_tree_masks(self):
        rng = np.random.default_rng(27)
        for (blocks, tree), rows_alone in itertools.product(SPARSE, (False, True)):
            packed = Packed(rng, blocks, tree, rows_alone, give_most=True)
            whole, dout = packed.whole, rng.standard_normal(packed.whole.o.shape)
            whole.o[...], whole.lse[...] = 0, 0
            outputs = {name: blank(x.shape, ac.F64) for name, x in (("dq", whole.q), ("dk", packed.k), ("dv", packed.v))}
            forward = self.attile.args(ac.AttentionArgs, "attention", **packed.fields())
            args = self.attile.args(ac.BackwardArgs, "attention_backward", dout=dout, **outputs)
            args.forward = ctypes.pointer(forward)
            self.attile.run("attention", forward)
            self.attile.run("attention_backward", args)
            want = {name: np.zeros(array.shape) for name, array in outputs.items()}
            for rows, keys, q, k, v, setting in packed.sequences():
                dq, dk, dv, _, _ = oracle.attention_backward(q, k, v, whole.o[0][:, rows], whole.lse[0][:, rows], dout[0][:, rows], setting)
                want["dq"][0][:, rows], want["dk"][keys], want["dv"][keys] = dq, dk, dv
            for name in want:
                self.agree(outputs[name], want[name], ac.F64, f"packed {blocks} {tree} {rows_alone} {name}", whole=True)

    def test_finite_differences(self):
        """No formula of a gradient in it: only the forward pass, moved a little either way."""
        rng = np.random.default_rng(23)
        step = 1e-5
        for name, spec in SETTINGS.items():
            problem = Problem(rng, ac.F64, ac.F64, spec, batch=2, len_q=4, len_k=5, head_dim=3, head_dim_v=2)
            dout = rng.standard_normal(problem.o.shape)
            got = self.gradients(problem, dout, ac.F64)

            def loss():
                problem.o[...] = 0
                self.attile.run("attention", self.attile.args(ac.AttentionArgs, "attention", **problem.fields()))
                through_lse = 0.0 if problem.dlse is None else float((problem.lse * problem.dlse).sum())
                return float((problem.o * dout).sum()) + through_lse

            for field, x in (("dq", problem.q), ("dk", problem.k), ("dv", problem.v), ("dbias", problem.bias), ("dsinks", problem.sinks)):
                if x is None:
                    continue
                for _ in range(6):
                    at = tuple(rng.integers(0, extent) for extent in x.shape)
                    saved = x[at]
                    x[at] = saved + step
                    above = loss()
                    x[at] = saved - step
                    below = loss()
                    x[at] = saved
                    slope = (above - below) / (2 * step) if np.isfinite(saved) else 0.0
                    self.assertTrue(abs(got[field][at] - slope) <= 1e-7 * (1 + abs(slope)), f"{name} {field}{at}: {got[field][at]} against {slope}")


class Others(Case):
    def test_merge(self):
        rng = np.random.default_rng(30)
        for parts, (dtype, out) in itertools.product((1, 2, 5), [(ac.F64, ac.F64), (ac.F64, ac.F32), (ac.F32, ac.F32), (ac.F32, ac.F16), (ac.BF16, ac.BF16)]):
            wide = ac.F64 if dtype == ac.F64 else ac.F32
            os = [stored(rng.standard_normal((2, 3, 5, 7)), dtype) for _ in range(parts)]
            lses = [stored(10 * rng.standard_normal((2, 3, 5)), wide) for _ in range(parts)]
            for lse in lses:
                lse[0, 0] = -INF
            lses[0][1, 1] = -INF
            os[0][1, 1] = 0x7FC0 if dtype == ac.BF16 else NAN
            o, lse = blank((2, 3, 5, 7), out), blank((2, 3, 5), wide)
            args = self.attile.args(ac.MergeArgs, "attention_merge", parts=parts, o=o, lse=lse)
            args.o_parts, args.lse_parts = (ac.Tensor * parts)(*map(ac.tensor, os)), (ac.Tensor * parts)(*map(ac.tensor, lses))
            self.attile.run("attention_merge", args)
            want_o, want_lse = oracle.merge([widened(x) for x in os], [widened(x) for x in lses])
            self.agree(o, want_o, out, f"merge of {parts} {dtype:#x}->{out:#x}")
            self.agree(lse[..., None], want_lse[..., None], wide, f"merge of {parts} lse")

    def test_merge_of_key_ranges_is_the_whole(self):
        rng = np.random.default_rng(31)
        whole = Problem(rng, ac.F64, ac.F64, {}, len_k=11)
        os, lses = [], []
        for start, stop in ((0, 4), (4, 4), (4, 11)):
            o, lse = blank(whole.o.shape, ac.F64), blank(whole.lse.shape, ac.F64)
            args = self.attile.args(ac.AttentionArgs, "attention", q=whole.q, k=whole.k[:, :, start:stop], v=whole.v[:, :, start:stop], o=o, lse=lse)
            self.attile.run("attention", args)
            os.append(o), lses.append(lse)
        o, lse = blank(whole.o.shape, ac.F64), blank(whole.lse.shape, ac.F64)
        args = self.attile.args(ac.MergeArgs, "attention_merge", parts=3, o=o, lse=lse)
        args.o_parts, args.lse_parts = (ac.Tensor * 3)(*map(ac.tensor, os)), (ac.Tensor * 3)(*map(ac.tensor, lses))
        self.attile.run("attention_merge", args)
        want_o, want_lse = whole.forward()
        self.agree(o, want_o, ac.F64)
        self.agree(lse[..., None], want_lse[..., None], ac.F64)

    def test_reduce(self):
        rng = np.random.default_rng(32)
        shapes = [(5,), (3, 0), (2, 7), (2, 3, 4), (2, 3, 1, 65)]
        for shape, op, (dtype, out) in itertools.product(shapes, range(1, 5), TYPES):
            for axis in range(len(shape)):
                x = stored(rng.standard_normal(shape), dtype)
                if x.size > 6 and dtype == ac.F64:
                    x.flat[3] = NAN
                want = oracle.reduce(widened(x), op, axis)
                y = blank(want.shape, out)
                self.attile.run("reduce", self.attile.args(ac.ReduceArgs, "reduce", x=x, y=y, op=op, axis=axis))
                self.agree(y, want, out, f"reduce {op} of {shape} axis {axis} {dtype:#x}->{out:#x}")

    def test_softmax(self):
        rng = np.random.default_rng(33)
        for shape, factor, (dtype, out) in itertools.product([(5,), (2, 7), (2, 3, 4), (2, 3, 2, 33)], (1.0, 300.0), TYPES):
            for axis in range(-len(shape), len(shape)):
                x = stored(factor * rng.standard_normal(shape), dtype)
                if dtype != ac.BF16 and len(shape) > 1:
                    np.moveaxis(x, axis, -1)[(0,) * (len(shape) - 1)] = -INF
                    x.flat[-1] = NAN
                y = blank(shape, out)
                self.attile.run("softmax", self.attile.args(ac.SoftmaxArgs, "softmax", x=x, y=y, axis=axis))
                self.agree(y, oracle.softmax(widened(x), axis), out, f"softmax of {shape} axis {axis} {dtype:#x}->{out:#x}")

    def test_one_rounding(self):
        """Every float16 and bfloat16 passes through unchanged, and sums next to ties round once: a pass through float32 would miss them."""
        for dtype in (ac.F16, ac.BF16):
            bits = np.arange(65536, dtype=np.uint16)
            x = bits.copy() if dtype == ac.BF16 else bits.view(np.float16)
            y = blank((65536, 1), dtype)
            self.attile.run("reduce", self.attile.args(ac.ReduceArgs, "reduce", x=x.reshape(-1, 1), y=y, op=oracle.REDUCE_MAX, axis=1))
            wide = widened(x)
            same = np.isnan(wide) == np.isnan(widened(y[:, 0]))
            self.assertTrue(same.all())
            keep = ~np.isnan(wide)
            np.testing.assert_array_equal(widened(y[:, 0])[keep], wide[keep])
        x = np.array([[1.0, 2.0**-11, 2.0**-30], [1.0, 2.0**-11, 0.0], [1.0 + 2.0**-10, 2.0**-11, -(2.0**-24)]]).astype(np.float16)
        x[0, 2] = x[2, 2] = 2.0**-24
        x[2, 2] *= -1
        y = blank((3, 1), ac.F16)
        self.attile.run("reduce", self.attile.args(ac.ReduceArgs, "reduce", x=x, y=y, op=oracle.REDUCE_SUM, axis=1))
        np.testing.assert_array_equal(y[:, 0].astype(np.float64), [1 + 2.0**-10, 1.0, 1 + 2.0**-10])


if __name__ == "__main__":
    unittest.main(verbosity=2)

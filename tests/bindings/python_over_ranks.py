# SPDX-License-Identifier: Apache-2.0
"""What holds of attile.distributed on any ranks: results of every option are those of the local call. For threads, MPI and PyTorch alike."""
import numpy as np

import attile
import attile.distributed

LAYOUTS = ("contiguous", "zigzag", "striped")
METHODS = ("auto", "ring", "all_gather", "all_to_all")
ROWS, KEYS, HEADS, GROUP, DIM, DIM_V = 13, 17, 4, 2, 8, 5


def problem(dtype, batch=2, rows=ROWS, keys=KEYS):
    """q, k, v and the gradient of out, the same on every rank."""
    rng = np.random.default_rng(11)
    shapes = (HEADS, rows, DIM), (HEADS // GROUP, keys, DIM), (HEADS // GROUP, keys, DIM_V), (HEADS, rows, DIM_V)
    return [rng.uniform(-1, 1, (batch, *shape)).astype(dtype) for shape in shapes]


def option_cases(dtype):
    """Every option of the calls, as the whole problem has it."""
    rng = np.random.default_rng(12)
    random = lambda *shape: rng.uniform(-1, 1, shape).astype(dtype)
    yield {}
    yield {"mask": "causal_bottom_right", "scale": 0.4, "softcap": 2.0, "sinks": random(HEADS)}
    yield {"mask": "window_top_left", "window": (4, 2), "alibi_slopes": random(HEADS)}
    yield {"bias": random(1, HEADS, ROWS, KEYS), "key_lengths": np.array([KEYS, 6], np.int32)}
    yield {"allowed": rng.uniform(size=(2, 1, ROWS, KEYS)) < 0.7, "bias": random(1, 1, 1, KEYS)}


def of_rank(options, rows):
    """The options of one rank: bias and allowed have its rows and all keys."""
    own = dict(options)
    for name in ("bias", "allowed"):
        if name in own and own[name].shape[2] > 1:
            own[name] = own[name][:, :, rows]
    return own


def near(found, expected, dtype):
    limit = 1e-12 if dtype is np.float64 else 2e-5
    both = np.isneginf(found) & np.isneginf(expected)  # lse of rows without a key
    np.testing.assert_allclose(np.where(both, 0, found), np.where(both, 0, expected), rtol=limit, atol=limit)


def cut(ranks, layout):
    """This rank's rows and keys."""
    return ranks.positions(layout, ROWS), ranks.positions(layout, KEYS)


def check_options(ranks, dtype):
    """Forward and backward calls with every option, in each layout and by each method."""
    for number, options in enumerate(option_cases(dtype)):
        q, k, v, dout = problem(dtype)
        bias, sinks = options.get("bias"), options.get("sinks")
        out, lse = ranks.context.attention(q, k, v, lse=True, **options)
        dbias, dsinks = (None if x is None else np.full_like(x, np.nan) for x in (bias, sinks))
        gradients = ranks.context.attention_backward(dout, q, k, v, out, lse, dbias=dbias, dsinks=dsinks, **options)
        for layout in LAYOUTS:
            method = METHODS[(number + LAYOUTS.index(layout)) % len(METHODS)]
            rows, keys = cut(ranks, layout)
            spread = {"layout": layout, "method": method, "len_q": ROWS, "len_k": KEYS, **of_rank(options, rows)}
            own = q[:, :, rows], k[:, :, keys], v[:, :, keys]
            found, found_lse = ranks.attention(*own, lse=True, **spread)
            near(found, out[:, :, rows], dtype)
            near(found_lse, lse[:, :, rows], dtype)
            own_dbias, own_dsinks = (None if x is None else np.full_like(x, np.nan) for x in (spread.get("bias"), sinks))
            made = ranks.attention_backward(dout[:, :, rows], *own, found, found_lse, dbias=own_dbias, dsinks=own_dsinks, **spread)
            for x, expected, where in zip(made, gradients, (rows, keys, keys)):
                near(x, expected[:, :, where], dtype)
            if sinks is not None:
                near(own_dsinks, dsinks, dtype)
            if bias is not None:
                near(own_dbias, of_rank({"bias": dbias}, rows)["bias"], dtype)


def check_packed(ranks):
    """Packed sequences, cut anywhere, with lengths in the call."""
    q, k, v, dout = problem(np.float64, batch=1)
    packed = {"cu_len_q": np.array([0, 4, ROWS], np.int32), "cu_len_k": np.array([0, 9, KEYS], np.int32), "max_len_q": 9, "max_len_k": 9}
    out, lse = ranks.context.attention(q, k, v, lse=True, **packed)
    gradients = ranks.context.attention_backward(dout, q, k, v, out, lse, **packed)
    rows, keys = cut(ranks, "striped")
    spread = {"layout": "striped", "len_q": ROWS, "len_k": KEYS, **packed}
    own = q[:, :, rows], k[:, :, keys], v[:, :, keys]
    found, found_lse = ranks.attention(*own, lse=True, **spread)
    near(found, out[:, :, rows], np.float64)
    for x, expected, where in zip(ranks.attention_backward(dout[:, :, rows], *own, found, found_lse, **spread), gradients, (rows, keys, keys)):
        near(x, expected[:, :, where], np.float64)


def check_outputs(ranks):
    """Rows that every rank has; arrays of the caller's for results, strided ones too; shards of one size, whose lengths need not be said."""
    q, k, v, _ = problem(np.float64, rows=3)
    expected = ranks.context.attention(q, k, v, mask="causal_bottom_right")
    keys = ranks.positions("contiguous", KEYS)
    near(ranks.attention(q, k[:, :, keys], v[:, :, keys], replicated=True, method="tree", len_q=3, len_k=KEYS, mask="causal_bottom_right"), expected, np.float64)

    length = 3 * ranks.ranks
    q, k, v, dout = problem(np.float32, rows=length, keys=length)
    rows = slice(3 * ranks.rank, 3 * ranks.rank + 3)
    own = q[:, :, rows], k[:, :, rows], v[:, :, rows]
    out, lse = ranks.context.attention(q, k, v, lse=True)
    expected = ranks.context.attention_backward(dout, q, k, v, out, lse)
    strided, own_lse = np.full((2, HEADS, 3, 2 * DIM_V), np.nan, np.float32)[..., ::2], np.full((2, HEADS, 3), np.nan, np.float32)
    found = ranks.attention(*own, out=strided, lse=own_lse)
    assert found[0] is strided and found[1] is own_lse
    near(strided, out[:, :, rows], np.float32)
    dk = np.full_like(own[1], np.nan)
    made = ranks.attention_backward(dout[:, :, rows], *own, strided, own_lse, dk=dk)
    assert isinstance(made, tuple) and made[1] is dk
    for x, whole in zip(made, expected):
        near(x, whole[:, :, rows], np.float32)


def check_queries(ranks):
    q, k, v, dout = problem(np.float32, rows=16, keys=16)
    before = ranks.info.calls
    support = ranks.attention(q, k, v, method="ring", query=True)
    assert support.level in ("native", "emulated") and support.status == 0 and support.kernel, support
    assert support.method == ("ring" if ranks.ranks > 1 else "local") and (support.bytes_sent > 0) == (ranks.ranks > 1) and support.flops > 0, support
    back = ranks.attention_backward(dout, q, k, v, dout, np.zeros(q.shape[:3], np.float32), method="all_gather", query=True)
    assert back.method == ("all_gather" if ranks.ranks > 1 else "local") and back.flops > support.flops, back
    assert ranks.info.calls == before, "a query is no call"


def check_errors(ranks):
    """What is wrong on every rank leaves the communicator as it is."""
    q, k, v, dout = problem(np.float32)
    with np.testing.assert_raises(attile.AttileUnsupportedError):
        ranks.attention_backward(dout, q, k, v, dout, np.zeros(q.shape[:3], np.float32), flags=attile.FLAG_NO_ALLOC)
    for options, kind, sentence in (({"flags": attile.FLAG_NO_ALLOC}, attile.AttileUnsupportedError, ""), ({"len_q": -1}, attile.AttileArgumentError, "len_q"), ({"method": "tree"}, attile.AttileArgumentError, "(?i)tree"),
                                    ({"layout": "round"}, ValueError, "layout is 'round'; expected one of 'contiguous', 'zigzag', 'striped'"),
                                    ({"method": "bus"}, ValueError, "method is 'bus'; expected one of 'auto', 'ring'")):
        with np.testing.assert_raises_regex(kind, sentence):
            ranks.attention(q, k, v, **options)
    assert ranks.info.status == 0, ranks.info


def check_all(ranks):
    check_errors(ranks)
    for dtype in (np.float64, np.float32):
        check_options(ranks, dtype)
    check_packed(ranks)
    check_outputs(ranks)
    check_queries(ranks)
    found = ranks.info
    assert (found.rank, found.ranks, found.status, found.text) == (ranks.rank, ranks.ranks, 0, "") and found.calls > 60, found
    assert (found.transport_seconds > 0) == (ranks.ranks > 1), found


def check_tensors(ranks, torch):
    """Tensors of PyTorch: results are new tensors."""
    q, k, v, _ = map(torch.from_numpy, problem(np.float32))
    rows, keys = map(torch.from_numpy, cut(ranks, "zigzag"))
    found = ranks.attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], layout="zigzag", len_q=ROWS, len_k=KEYS)
    assert type(found) is torch.Tensor
    near(found.numpy(), ranks.context.attention(q, k, v)[:, :, rows].numpy(), np.float32)

# SPDX-License-Identifier: Apache-2.0
"""What Attile's operations mean, in NumPy and double precision.

Written from the formulas in attile.h, whole arrays at a time, and sharing nothing with the library: if the two agree, both are likely right.
Hidden keys are removed with `where` before anything is multiplied, so NaN in memory that nobody may read stays where it is.
"""
import math

import numpy as np

INF = np.inf
MASK_NONE, TOP_LEFT, BOTTOM_RIGHT, WINDOW_TOP_LEFT, WINDOW_BOTTOM_RIGHT = range(5)
REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_MEAN = range(1, 5)
ACT_NONE, ACT_RELU, ACT_GELU, ACT_GELU_TANH, ACT_SILU = range(5)
_erfc = np.vectorize(math.erfc, otypes=[float])


def round_bf16(x):
    """Nearest bfloat16, ties to even, of float64 values, as their bits. Exact for values that are float32 already."""
    bits = np.asarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def widen_bf16(bits):
    with np.errstate(invalid="ignore"):  # signalling NaN
        return (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def scaled(numbers, scale):
    """What numbers [B, H, L, D] of a cache stand for: each row has G factors, and each of them D / G neighbours. Other axes are broadcast."""
    if scale is None:
        return numbers
    return numbers * np.repeat(scale.astype(np.float64), numbers.shape[-1] // scale.shape[-1], axis=-1)


def activate(x, activation):
    if activation == ACT_RELU:
        return np.where(x < 0, 0.0, x)
    if activation == ACT_GELU:
        return x / 2 * _erfc(-x / math.sqrt(2.0)) if x.size else x
    if activation == ACT_GELU_TANH:
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    if activation == ACT_SILU:
        return x / (1 + np.exp(-x))
    return x


def gemm(a, b, c=None, alpha=1.0, beta=0.0, bias=None, bias_axis=0, activation=ACT_NONE):
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1])
    product = alpha * (a @ b) if alpha != 0 and a.shape[-1] > 0 else np.zeros(shape)
    if beta != 0:
        product = product + beta * c
    if bias is not None:
        product = product + (bias[..., None, :] if bias_axis == 1 else bias[..., :, None])
    return activate(product, activation)


class Setting:
    """Everything that shapes the scores of one batch entry (or packed sequence): arrays are that entry's own."""

    def __init__(self, scale=0.0, softcap=0.0, mask=MASK_NONE, window_left=0, window_right=0, bias=None, allowed=None, slopes=None, sinks=None,
                 first_key=0, offset=None, blocks=None, tree=None):
        self.scale, self.softcap, self.mask = scale, softcap, mask
        self.window_left, self.window_right = window_left, window_right
        self.bias, self.allowed, self.slopes, self.sinks = bias, allowed, slopes, sinks
        self.first_key, self.offset = first_key, offset
        self.blocks, self.tree = blocks, tree  # [Hq, blocks of 128 rows, blocks of 128 keys], [Hq, Lq, keys at the end]

    def corner(self, len_q, len_k, without_mask):
        """The diagonal is j = i + corner; `without_mask` is that of no mask."""
        if self.offset is not None:
            return self.offset
        if self.mask == MASK_NONE:
            return without_mask
        return len_k - len_q if self.mask in (BOTTOM_RIGHT, WINDOW_BOTTOM_RIGHT) else 0


def visible(setting, heads, len_q, len_k):
    i, j = np.arange(len_q)[:, None], np.arange(len_k)[None, :]
    corner = setting.corner(len_q, len_k, 0)
    see = np.ones((len_q, len_k), bool) & (j >= setting.first_key)
    if setting.mask in (TOP_LEFT, BOTTOM_RIGHT):
        see &= j <= i + corner
    if setting.mask in (WINDOW_TOP_LEFT, WINDOW_BOTTOM_RIGHT):
        if setting.window_left >= 0:
            see &= j >= i + corner - setting.window_left
        if setting.window_right >= 0:
            see &= j <= i + corner + setting.window_right
    see = np.broadcast_to(see, (heads, len_q, len_k)).copy()
    if setting.allowed is not None:
        see &= np.broadcast_to(setting.allowed, see.shape) != 0
    if setting.blocks is not None:
        see &= np.repeat(np.repeat(setting.blocks, 128, axis=1), 128, axis=2)[:, :len_q, :len_k] != 0
    if setting.tree is not None:
        drafts = min(len_k, setting.tree.shape[2])  # columns before the first key are of none
        see[:, :, len_k - drafts :] &= setting.tree[:, :len_q, setting.tree.shape[2] - drafts :] != 0
    if setting.bias is not None:
        see &= np.broadcast_to(setting.bias, see.shape) != -INF
    return see


def scores(q, k, setting):
    """q [Hq, Lq, D], k [Hkv, Lk, D] of one entry -> s [Hq, Lq, Lk] with -inf where hidden, and the slope that softcap leaves."""
    heads, len_q, head_dim = q.shape
    len_k = k.shape[1]
    see = visible(setting, heads, len_q, len_k)
    key_seen = see.reshape(k.shape[0], heads // k.shape[0], len_q, len_k).any(axis=(1, 2))
    k = np.where(key_seen[:, :, None], k, 0.0)
    scale = setting.scale if setting.scale != 0 else (1 / math.sqrt(head_dim) if head_dim else 1.0)
    s = scale * np.einsum("hid,hjd->hij", q, np.repeat(k, heads // k.shape[0], axis=0))
    slope = np.ones_like(s)
    if setting.softcap != 0:
        t = np.tanh(s / setting.softcap)
        s, slope = setting.softcap * t, 1 - t * t
    if setting.bias is not None:
        s = s + np.where(see, np.broadcast_to(setting.bias, s.shape), 0.0)
    if setting.slopes is not None:
        corner = setting.corner(len_q, len_k, len_k - len_q)
        distance = np.abs(np.arange(len_k)[None, :] - np.arange(len_q)[:, None] - corner)
        s = s - setting.slopes[:, None, None] * distance
    return np.where(see, s, -INF), slope


def _weighted(p, v):
    """sum_j p_ij v_j, reading only keys with a weight; p [Hq, Lq, Lk], v [Hkv, Lk, Dv]."""
    v = np.repeat(v, p.shape[0] // v.shape[0], axis=0)
    return np.einsum("hij,hjd->hid", p, np.where((p != 0).any(axis=1)[:, :, None], v, 0.0))


def attention(q, k, v, setting):
    """One entry: q [Hq, Lq, D], k [Hkv, Lk, D], v [Hkv, Lk, Dv] -> o [Hq, Lq, Dv], lse [Hq, Lq]."""
    s, _ = scores(q, k, setting)
    sink = np.full((q.shape[0], 1), -INF) if setting.sinks is None else setting.sinks[:, None]
    top = np.maximum(s.max(axis=2, initial=-INF), sink)
    base = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(s - base[..., None])
    z = e.sum(axis=2) + np.exp(sink - base)
    with np.errstate(divide="ignore"):
        lse = np.log(z) + base
    p = e / np.where(z == 0, 1.0, z)[..., None]
    return _weighted(p, v), lse


def attention_backward(q, k, v, o, lse, dout, setting, dlse=0.0):
    """Gradients of one entry: dq, dk, dv, ds (= dbias before any broadcast axis is summed), dsinks."""
    heads, group = q.shape[0], q.shape[0] // k.shape[0]
    s, slope = scores(q, k, setting)
    hidden = s == -INF
    p = np.where(hidden, 0.0, np.exp(np.where(hidden, 0.0, s) - np.where(np.isfinite(lse), lse, 0.0)[..., None]))
    seen = (~hidden).reshape(k.shape[0], group, *s.shape[1:]).any(axis=(1, 2))
    k, v = np.where(seen[:, :, None], k, 0.0), np.where(seen[:, :, None], v, 0.0)
    wide_k, wide_v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
    delta = (dout * o).sum(axis=2) - dlse
    ds = p * (np.einsum("hid,hjd->hij", dout, wide_v) - delta[..., None])
    scale = setting.scale if setting.scale != 0 else 1 / math.sqrt(max(q.shape[2], 1))
    through = scale * ds * slope
    by_group = lambda x: x.reshape(k.shape[0], group, *x.shape[1:]).sum(axis=1)
    dq = np.einsum("hij,hjd->hid", through, wide_k)
    dk = by_group(np.einsum("hij,hid->hjd", through, q))
    dv = by_group(np.einsum("hij,hid->hjd", p, dout))
    dsinks = np.zeros(heads)
    if setting.sinks is not None:
        live = np.isfinite(lse) & np.isfinite(setting.sinks)[:, None]
        with np.errstate(invalid="ignore"):
            dsinks = -np.where(live, np.exp(np.where(live, setting.sinks[:, None] - lse, 0.0)) * delta, 0.0).sum(axis=1)
    return dq, dk, dv, ds, dsinks


def merge(o_parts, lse_parts):
    lse_parts = np.stack(lse_parts)
    top = lse_parts.max(axis=0)
    base = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        lse = np.log(np.exp(lse_parts - base).sum(axis=0)) + base
    w = np.exp(lse_parts - np.where(np.isfinite(lse), lse, 0.0))
    o = sum(np.where(w[p][..., None] == 0, 0.0, w[p][..., None] * np.where(w[p][..., None] == 0, 0.0, o_parts[p])) for p in range(len(o_parts)))
    return o, lse


def reduce(x, op, axis):
    if op == REDUCE_SUM:
        return x.sum(axis=axis, keepdims=True)
    if op == REDUCE_MAX:
        return x.max(axis=axis, keepdims=True, initial=-INF)
    if op == REDUCE_MIN:
        return x.min(axis=axis, keepdims=True, initial=INF)
    with np.errstate(invalid="ignore"):
        return x.sum(axis=axis, keepdims=True) / np.float64(x.shape[axis])


def softmax(x, axis):
    if x.shape[axis] == 0:
        return x.copy()
    top = x.max(axis=axis, keepdims=True)
    base = np.where(top == -INF, 0.0, top)
    with np.errstate(invalid="ignore"):
        e = np.exp(x - base)
        z = e.sum(axis=axis, keepdims=True)
        return e / np.where(z == 0, 1.0, z)

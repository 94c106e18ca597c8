# SPDX-License-Identifier: Apache-2.0
"""The problems of python_on_gpu.py: each operation with its operands, its call, and its formula in PyTorch in any precision.

An error counts as rounding if it is at most twice that of the same formula in the operands' type, plus two units in the last place of the largest result.
"""
import torch

import attile

TYPES = (torch.float32, torch.float16, torch.bfloat16)


def attend(q, k, v, causal=True):
    """Attention and log-sum-exp by the formula; heads of k and v are shared, the mask ends at the bottom right."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(k.shape[2] - q.shape[2] + 1)
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


def attend_backward(dout, q, k, v):
    """Gradients by PyTorch's own differentiation of the formula."""
    inputs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    return torch.autograd.grad(attend(*inputs)[0], inputs, dout)


class Problem:
    """An operation with its operands: how Attile is called, and the formula in any precision."""

    def __init__(self, name, device, dtype):
        self.name, self.device, self.dtype = name, device, dtype

    def random(self, *shape):
        return (torch.rand(shape, device=self.device) * 2 - 1).to(self.dtype)

    def nans(self, like):
        return torch.full_like(like, torch.nan)

    def inputs(self):
        """New random operands."""
        raise NotImplementedError

    def call(self, context, inputs, outputs=None, **options):
        """The call; `outputs` are the caller's, in the order of the results. Returns the results as a tuple, or the answer of a query."""
        raise NotImplementedError

    def formula(self, *inputs):
        """The results as a tuple, in the inputs' type."""
        raise NotImplementedError

    def expected(self, inputs):
        """Results in double precision, and those in the operands' type, whose error is the measure."""
        return self.formula(*(x.double() for x in inputs)), self.formula(*inputs)

    @staticmethod
    def _tuple(result):
        return result if isinstance(result, (tuple, attile.Support)) else (result,)


class Gemm(Problem):
    options = {"activation": "relu"}

    def inputs(self):
        return self.random(2, 256, 192), self.random(192, 320), self.random(320)

    def call(self, context, inputs, outputs=None, **options):
        a, b, bias = inputs
        return self._tuple(context.gemm(a, b, bias=bias, out=outputs[0] if outputs else None, **self.options, **options))

    def formula(self, a, b, bias):
        return (torch.relu(a @ b + bias),)


class Attention(Problem):
    options = {"mask": "causal_bottom_right"}

    def inputs(self):
        return self.random(2, 8, 200, 64), self.random(2, 2, 264, 64), self.random(2, 2, 264, 64)

    def call(self, context, inputs, outputs=None, **options):
        out, lse = outputs or (None, True)
        return self._tuple(context.attention(*inputs, out=out, lse=lse, **self.options, **options))

    def formula(self, q, k, v):
        return attend(q, k, v)

    def expected(self, inputs):
        exact, own = super().expected(inputs)
        return exact, (own[0], attend(*(x.float() for x in inputs))[1])  # lse is float32


class AttentionBackward(Attention):
    def inputs(self):
        q, k, v = super().inputs()
        out, lse = attend(q.double(), k.double(), v.double())
        return self.random(*q.shape), q, k, v, out.to(self.dtype), lse.float()

    def call(self, context, inputs, outputs=None, **options):
        given = dict(zip(("dq", "dk", "dv"), outputs)) if outputs else {}
        return self._tuple(context.attention_backward(*inputs, **given, **self.options, **options))

    def expected(self, inputs):
        return attend_backward(*(x.double() for x in inputs[:4])), attend_backward(*inputs[:4])


class AttentionMerge(Problem):
    def inputs(self):
        parts = [self.random(2, 4, 128, 64) for _ in range(3)]
        return *parts, *(torch.rand(2, 4, 128, device=self.device) * 4 for _ in range(3))

    def call(self, context, inputs, outputs=None, **options):
        out, lse = outputs or (None, True)
        return self._tuple(context.attention_merge(list(inputs[:3]), list(inputs[3:]), out=out, lse=lse, **options))

    def formula(self, *inputs):
        parts, lse = torch.stack(inputs[:3]), torch.stack(inputs[3:])
        weights = torch.softmax(lse, 0).to(parts.dtype)
        return (weights[..., None] * parts).sum(0), torch.logsumexp(lse, 0)


class Reduce(Problem):
    def __init__(self, operation, *args):
        super().__init__(*args)
        self.operation = operation

    def inputs(self):
        return (self.random(64, 1000),)

    def call(self, context, inputs, outputs=None, **options):
        return self._tuple(context.reduce(*inputs, self.operation, 0 if self.operation == "mean" else -1, out=outputs[0] if outputs else None, **options))

    def formula(self, x):
        of = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[self.operation]
        return (of(x, 0 if self.operation == "mean" else -1, keepdim=True),)


class Softmax(Problem):
    def __init__(self, axis, *args):
        super().__init__(*args)
        self.axis = axis

    def inputs(self):
        return (self.random(64, 1000),)

    def call(self, context, inputs, outputs=None, **options):
        return self._tuple(context.softmax(*inputs, self.axis, out=outputs[0] if outputs else None, **options))

    def formula(self, x):
        return (torch.softmax(x, self.axis),)


def problems(device):
    for dtype in TYPES:
        name = str(dtype)[6:]
        yield Gemm(f"gemm {name}", device, dtype)
        yield Attention(f"attention {name}", device, dtype)
        yield AttentionBackward(f"attention_backward {name}", device, dtype)
        yield AttentionMerge(f"attention_merge {name}", device, dtype)
        for operation in ("sum", "max", "min", "mean"):
            yield Reduce(operation, f"reduce {operation} {name}", device, dtype)
        for axis in (-1, 0):
            yield Softmax(axis, f"softmax axis {axis} {name}", device, dtype)


def compare(results, expected):
    """Raises where a result is no rounding of what was expected; returns the worst share of the bound."""
    worst = 0.0
    for index, (found, exact, own) in enumerate(zip(results, *expected, strict=True)):
        assert found.shape == exact.shape, f"result {index} has shape {tuple(found.shape)}, not {tuple(exact.shape)}"
        unit = torch.finfo(found.dtype).eps
        error, allowed = float((found.double() - exact).abs().max()), 2 * float((own.double() - exact).abs().max()) + 2 * unit * float(exact.abs().max())
        assert error <= allowed, f"result {index} is off by {error:.3g}; at most {allowed:.3g} is rounding"  # false for NaN
        worst = max(worst, error / allowed)
    return worst
